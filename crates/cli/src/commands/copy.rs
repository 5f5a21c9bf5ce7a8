//! `rejoin copy`: conversations from one store to another, entry by entry, hashes included.

use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressStyle};
use rejoin::{ConversationId, EngineError, engine::Copied, list::list, shape, store::Filter};

use crate::{
    args::CopyArguments,
    desk::{self, Desk, Flags},
    failure::Failure,
    output,
};

/// Copies conversations; one that cannot be copied does not stop the others.
pub fn run(arguments: &CopyArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    if same_place(&desk.location.to_string(), &arguments.to.to_string()) {
        return Err(Failure::Usage {
            what: format!("{} is the store that is copied from", arguments.to),
            hint: Some(String::from("`--store` names the store to copy from, `--to` the one to copy to")),
        });
    }
    let (store, ids) = match &arguments.conversations[..] {
        [] => {
            let missing = || Failure::Usage {
                what: format!("there is no store at {} to copy from", desk.location),
                hint: Some(String::from("`--store` names the store to copy from, `--to` the one to copy to")),
            };
            let store = desk.read_store()?.ok_or_else(missing)?;
            let mut ids = Vec::new();
            list(&*store, &Filter::default(), usize::MAX, |summary| {
                ids.push(summary.id);
                ControlFlow::Continue(())
            })
            .map_err(|why| desk::unusable(store.location(), why))?;
            // The oldest first, so that the copy lists them in the same order.
            ids.reverse();
            (store, ids)
        }
        [first, rest @ ..] => {
            let (store, id) = desk.find(first)?;
            let mut ids = vec![id];
            for given in rest {
                ids.push(desk.resolve(&*store, given)?);
            }
            (store, ids)
        }
    };
    let other = Desk::open_other(&arguments.to)?;
    let writer = desk::writer(&*other, "rejoin copy");
    let bar = ProgressBar::new(ids.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} conversations") {
        bar.set_style(style);
    }
    let mut failed = 0;
    for id in &ids {
        let copied = writer.copy_from(&*store, *id);
        match copied {
            Ok(copied) => bar.suspend(|| tell(*id, &copied, arguments.json))?,
            Err(error) => {
                failed += 1;
                bar.suspend(|| failure(error).say());
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    desk::settle(&*other);
    if failed > 0 { Err(Failure::Some { failed, all: ids.len() }) } else { Ok(0) }
}

/// Why a conversation is not copied. A copy has the same hashes, so it cannot be had of what is damaged; a fork can.
fn failure(error: EngineError) -> Failure {
    match error {
        EngineError::Corrupted { id, .. } => Failure::Usage {
            what: error.to_string(),
            hint: Some(format!(
                "`rejoin history fork {id}` makes one of its own out of what can be read, and that can be copied"
            )),
        },
        other => Failure::from(other),
    }
}

fn tell(id: ConversationId, copied: &Copied, json: bool) -> Result<(), Failure> {
    let Copied { added, total } = *copied;
    if json {
        output::json_data(&shape::copied(id, copied))
    } else if added == 0 {
        output::data(&format!("{id}  nothing new, {total} entries"))
    } else {
        output::data(&format!("{id}  {added} of {total} entries copied"))
    }
}

/// Whether two locations are one, however they are spelled.
fn same_place(one: &str, other: &str) -> bool {
    let whole = |location: &str| {
        let (kind, path) = location.split_once(':')?;
        let path = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok()?;
        Some((kind.to_owned(), path))
    };
    one == other || (whole(one).is_some() && whole(one) == whole(other))
}
