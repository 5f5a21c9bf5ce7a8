//! The context of a command: folders, settings, the store, and the conversation that the user means.
//!
//! Nothing is opened before it is needed, so a command on a file never touches a store.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rejoin::{
    ConversationId,
    active::Pointer,
    engine::{self, EngineError, Mode, Recorded, SystemClock, Writer},
    store::{Access, Filter, Location, Query, ScopeFilter, Store, StoreError},
};

pub use crate::args::Flags;
use crate::{failure::Failure, home::Home, output, pager, settings::Settings};

/// Folders, settings and the location of the store.
#[derive(Debug, Clone)]
pub struct CliContext {
    pub home: Home,
    pub settings: Settings,
    pub location: Location,
    /// The scope that limits the command; open if none was given.
    pub scope: ScopeFilter,
    /// The folder in which the command runs.
    pub folder: PathBuf,
    pager: bool,
}

/// The flags that lead to the conversations of this command. The address of a server may contain a password, so it is not repeated.
fn repeated(flags: &Flags) -> Vec<(&'static str, String)> {
    let store = flags.store.as_ref().filter(|store| !matches!(store, Location::Postgres(_)));
    let store = store.map(|store| ("--store", store.to_string()));
    store.into_iter().chain(flags.scope.as_ref().map(|scope| ("--scope", scope.to_string()))).collect()
}

/// A store, if it exists, and the named conversation in it.
type Found = (Option<Box<dyn Store>>, Option<ConversationId>);

impl CliContext {
    /// Reads the settings; opens nothing.
    pub fn new(flags: &Flags) -> Result<Self, Failure> {
        let home = Home::from_environment()?;
        let settings = Settings::load(&home.config)?;
        let set = settings.value("store").and_then(|store| store.parse().ok());
        let location = flags.store.clone().or(set).unwrap_or_else(|| home.store());
        let location = location.with_folder(&home.beside_servers());
        let folder = std::env::current_dir().unwrap_or_default();
        let scope = flags.scope.clone().unwrap_or_default();
        output::repeat_flags(&repeated(flags));
        Ok(Self { home, settings, location, scope, folder, pager: !flags.no_pager })
    }

    /// Opens the store for reading; `None` if it does not exist.
    pub fn read_store(&self) -> Result<Option<Box<dyn Store>>, Failure> {
        match engine::open_store(&self.location, Access::Read) {
            Err(StoreError::Missing(_)) => Ok(None),
            Err(why) => Err(unusable(&self.location, why)),
            Ok(store) => {
                let store = self.limited(store);
                warn_about_damage(&*store);
                Ok(Some(store))
            }
        }
    }

    /// Opens the store for writing; creates it if it does not exist.
    pub fn write_store(&self) -> Result<Box<dyn Store>, Failure> {
        Self::open_other(&self.location).map(|store| self.limited(store))
    }

    /// The store, limited to the scope of the command.
    pub fn limited(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        if self.scope.is_open() {
            return store;
        }
        Box::new(Arc::<dyn Store>::from(store).scoped(self.scope.clone()))
    }

    /// Opens another store for writing. A read-only store is an immediate error.
    pub fn open_other(location: &Location) -> Result<Box<dyn Store>, Failure> {
        let store = engine::open_store(location, Access::Write).map_err(|why| unusable(location, why))?;
        warn_about_damage(&*store);
        match store.read_only() {
            Some(why) => Err(unusable(location, StoreError::ReadOnly(why.to_owned()))),
            None => Ok(store),
        }
    }

    /// This context without a pager: on some systems, a pager replaces this process.
    pub fn without_pager(&self) -> Self {
        Self { pager: false, ..self.clone() }
    }

    pub fn pointer(&self) -> Pointer {
        Pointer::new(&self.home.data, &self.folder, &self.location, &self.scope)
    }

    /// The active conversation of this folder, if it still exists.
    ///
    /// # Errors
    /// If there is one but the system does not let it be read. It exists nevertheless, and no other replaces it.
    pub fn active(&self, store: &dyn Store) -> Result<Option<ConversationId>, Failure> {
        let Some(id) = self.pointer().get()? else { return Ok(None) };
        match store.tail(id) {
            Ok(Some(_)) => Ok(Some(id)),
            Err(why @ StoreError::Io { .. }) => Err(loading(store, EngineError::Store(why))),
            // A conversation that is damaged everywhere still exists.
            Ok(None) | Err(_) => Ok(store.summary(id).is_ok().then_some(id)),
        }
    }

    /// Finds the conversation that an argument names.
    pub fn resolve(&self, store: &dyn Store, given: &str) -> Result<ConversationId, Failure> {
        // Only `@` needs the pointer.
        let active = if given == "@" { self.active(store)? } else { None };
        engine::resolve(store, given, active).map_err(|error| loading(store, error))
    }

    /// Opens the store to read a conversation.
    pub fn find(&self, given: &str) -> Result<(Box<dyn Store>, ConversationId), Failure> {
        let opened = self.read_store().map_err(|failure| match failure {
            Failure::Store { location, why } => Failure::Load { location, why },
            other => other,
        });
        let store = opened?.ok_or_else(|| unknown(given))?;
        let id = self.resolve(&*store, given)?;
        Ok((store, id))
    }

    /// Opens the store to read one conversation, or all of them if none is given. The store is `None` if it does not exist.
    pub fn find_or_all(&self, given: Option<&str>) -> Result<Found, Failure> {
        match given {
            Some(given) => self.find(given).map(|(store, id)| (Some(store), Some(id))),
            None => self.read_store().map(|store| (store, None)),
        }
    }

    /// Opens the store to change a conversation, without creating a store.
    pub fn find_to_write(&self, given: &str) -> Result<(Box<dyn Store>, ConversationId), Failure> {
        self.read_store()?.ok_or_else(|| unknown(given))?;
        let store = self.write_store()?;
        let id = self.resolve(&*store, given)?;
        Ok((store, id))
    }

    /// Prints a text: through the pager if it is long and there is a terminal.
    pub fn show(&self, text: &str) -> Result<(), Failure> {
        let pager = self.settings.value("pager").map(str::to_owned);
        let pager = pager.or_else(|| std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty()));
        pager::show(text, pager.as_deref(), self.pager)
    }
}

/// A filter for the conversations of a folder. The folder is compared both as given and as the system resolves it, because either
/// form may be recorded.
pub fn of_folder(folder: &Path) -> Filter {
    let mut folders: Vec<PathBuf> = Vec::new();
    folders.extend(std::path::absolute(folder));
    folders.extend(std::fs::canonicalize(folder));
    if folders.is_empty() {
        folders.push(folder.to_owned());
    }
    Filter { folders, ..Filter::default() }
}

/// The newest conversation that belongs to a folder.
pub fn newest_of(store: &dyn Store, folder: &str) -> Result<Option<ConversationId>, StoreError> {
    let mut after = None;
    loop {
        let page = store.list(&Query { limit: Some(100), after, ..Query::default() })?;
        let here =
            page.conversations.iter().find(|summary| summary.about.directory.as_deref() == Some(folder));
        match (here, page.next) {
            (Some(summary), _) => return Ok(Some(summary.id)),
            (None, None) => return Ok(None),
            (None, next) => after = next,
        }
    }
}

/// Warns about damage that opening the store found.
pub fn warn_about_damage(store: &dyn Store) {
    for damage in store.damage().iter().filter(|damage| !damage.torn) {
        output::warning(format!("the store: {}", output::harmless(&damage.why)));
    }
}

pub fn unusable(location: &Location, why: StoreError) -> Failure {
    Failure::Store { location: location.clone(), why: Box::new(why) }
}

fn unknown(given: &str) -> Failure {
    let error = if given == "@" { EngineError::NoActive } else { EngineError::Unknown(given.to_owned()) };
    Failure::Engine(Box::new(error))
}

/// Reads a conversation, and sets copies of damage aside.
pub fn read(store: &dyn Store, id: ConversationId, mode: Mode) -> Result<Recorded, Failure> {
    let recorded = engine::read(store, id, mode).map_err(|error| loading(store, error))?;
    // A last line that is cut off may be another process's append in progress.
    let damaged = recorded.damage.iter().filter(|damage| !damage.torn);
    // Damage that cannot be copied is still in its original place.
    let kept = damaged.filter_map(|damage| store.set_aside(recorded.id, damage).ok().flatten());
    for path in kept.collect::<std::collections::BTreeSet<_>>() {
        output::note(format!("a copy of the damage is kept in {}", output::shown(&path)));
    }
    Ok(recorded)
}

/// A writer to the store. Processes that wait for its lock see the name of the command.
pub fn writer<'s>(store: &'s dyn Store, command: &'s str) -> Writer<'s> {
    Writer { store, clock: &SystemClock, command }
}

/// Updates the index after writing. If that fails, no entry is lost, and the next command tries again.
pub fn settle(store: &dyn Store) {
    if let Err(error) = store.settle() {
        output::note(format!("the search index is out of date: {error}"));
    }
}

/// Turns a reading error into an error about the conversation.
pub fn loading(store: &dyn Store, error: EngineError) -> Failure {
    match error {
        EngineError::Store(StoreError::NotFound(id)) => {
            Failure::Engine(Box::new(EngineError::Unknown(id.to_string())))
        }
        EngineError::Store(why) => Failure::Load { location: store.location().clone(), why: Box::new(why) },
        other => Failure::Engine(Box::new(other)),
    }
}
