//! The folder that file tools work in, and the files in it that they must not touch. All tools of an agent share one.

use std::{io::Read as _, path::PathBuf, sync::Arc};

use rejoin_store::Location;

use super::beneath::{Beneath, Hidden, OpenFileBeneath, PathRefused, Spot};

/// The largest file that tools change, in bytes. The record keeps a changed file twice, before and after, and a person may have to
/// read the difference. Larger files are written by programs, not by models.
pub(super) const CHANGED_FILE: u64 = 16 * 1024 * 1024;

/// The working folder of tools. No tool reads or changes a file outside of it, or one that is hidden. Clones share the open folder.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(super) folder: Beneath,
    pub(super) hidden: Arc<Hidden>,
}

impl Workspace {
    /// A workspace in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Beneath::new(folder), hidden: Arc::default() }
    }

    /// Never shows or changes this file, under any name. The provider and the record get everything that tools read, but must not
    /// get keys.
    #[must_use]
    pub fn hiding(mut self, file: impl Into<PathBuf>) -> Self {
        Arc::make_mut(&mut self.hidden).file(file.into());
        self
    }

    /// Never shows or changes a file of this store, under any name, because a model must not see other conversations or change the
    /// record.
    #[must_use]
    pub fn hiding_store(mut self, store: Location) -> Self {
        Arc::make_mut(&mut self.hidden).store(store);
        self
    }

    /// The first bytes of a file, at most `most`. Links are followed as long as they stay inside the folder.
    ///
    /// # Errors
    /// If it is not a file in the folder, is hidden, or cannot be read.
    pub fn read_beginning(&self, path: &str, most: u64) -> Result<Vec<u8>, PathRefused> {
        let mut bytes = Vec::new();
        self.open(path)?.file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Opens a file to be read.
    pub(super) fn open(&self, path: &str) -> Result<OpenFileBeneath, PathRefused> {
        let opened = self.folder.open_file(path)?;
        if self.hidden.has(&opened) { Err(PathRefused::Hidden) } else { Ok(opened) }
    }

    /// Opens a file to replace it; `None` if it does not exist. Files that tools may not change are refused.
    pub(super) fn open_to_change(&self, spot: &Spot) -> Result<Option<OpenFileBeneath>, PathRefused> {
        let Some(opened) = spot.open()? else {
            return if self.hidden.would_have(spot) { Err(PathRefused::Hidden) } else { Ok(None) };
        };
        if self.hidden.has(&opened) {
            return Err(PathRefused::Hidden);
        }
        #[cfg(unix)]
        {
            let names = std::os::unix::fs::MetadataExt::nlink(&opened.file.metadata()?);
            if names > 1 {
                return Err(PathRefused::HardLinked(names));
            }
        }
        spot.check_writable()?;
        Ok(Some(opened))
    }
}

/// The constructors of a tool that works in a workspace. `$does` begins their descriptions: "Finds files".
macro_rules! in_a_workspace {
    ($tool:ident, $does:literal) => {
        impl $tool {
            #[doc = concat!($does, " in this folder.")]
            pub fn new(folder: impl Into<std::path::PathBuf>) -> Self {
                Self($crate::tools::Workspace::new(folder))
            }

            #[doc = concat!($does, " in a workspace.")]
            pub fn of(workspace: $crate::tools::Workspace) -> Self {
                Self(workspace)
            }
        }
    };
}
pub(super) use in_a_workspace;

/// `plan` and `run` of a tool that only reads. `$read` takes the tool, the arguments, and the time limit.
macro_rules! plan_and_run_reading {
    ($read:expr) => {
        fn plan<'a>(
            &'a self,
            _arguments: &'a str,
        ) -> $crate::provider::BoxFuture<'a, Result<$crate::tools::Plan, $crate::tools::ToolOutput>> {
            $crate::tools::Plan::reads()
        }

        fn run<'a>(
            &'a self,
            call: $crate::tools::RunningCall<'a>,
        ) -> $crate::provider::BoxFuture<'a, $crate::tools::ToolOutput> {
            let (tool, arguments) = (self.clone(), call.arguments.to_owned());
            $crate::tools::work::on_another_thread(move |until| ($read)(&tool, &arguments, until))
        }
    };
}
pub(super) use plan_and_run_reading;

/// `plan` and `run` of a tool that changes a file: `wanted` makes the change, and the workspace applies it once it is approved.
macro_rules! plan_and_run_changing {
    () => {
        fn plan<'a>(
            &'a self,
            arguments: &'a str,
        ) -> $crate::provider::BoxFuture<'a, Result<$crate::tools::Plan, $crate::tools::ToolOutput>> {
            let (tool, arguments) = (self.clone(), arguments.to_owned());
            $crate::tools::change::plan(self.0.clone(), move || tool.wanted(&arguments))
        }

        fn run<'a>(
            &'a self,
            call: $crate::tools::RunningCall<'a>,
        ) -> $crate::provider::BoxFuture<'a, $crate::tools::ToolOutput> {
            $crate::tools::change::apply(self.0.clone(), call.file.cloned())
        }
    };
}
pub(super) use plan_and_run_changing;

/// The whole content of a file that tools may change.
pub(super) fn content(opened: &OpenFileBeneath) -> Result<Vec<u8>, PathRefused> {
    use std::io::Seek as _;
    let mut file = &opened.file;
    let size = file.metadata()?.len();
    let too_large = |size| PathRefused::TooLarge { size, limit: CHANGED_FILE };
    if size > CHANGED_FILE {
        return Err(too_large(size));
    }
    file.rewind()?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(CHANGED_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CHANGED_FILE { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

/// The message to the model about a path that was not opened or changed.
pub(super) fn refusal_of(path: &str) -> impl Fn(PathRefused) -> String {
    move |why| match why {
        PathRefused::Io(why) if why.kind() == std::io::ErrorKind::NotFound => {
            format!("`{path}` does not exist; list_dir or find shows what does")
        }
        why => format!("`{path}`: {why}"),
    }
}
