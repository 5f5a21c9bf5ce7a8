//! `rejoin copy`: copies conversations to another store, entry by entry, including hashes.

use std::ops::ControlFlow;

use rejoin::{
    ConversationId, EngineError, active::whole_location, engine::Copied, list::list, shape, store::Filter,
};

use crate::{args::CopyArguments, commands::prelude::*};

const STORES: &str = "`--store` names the store to copy from, `--to` the one to copy to";

/// Copies conversations. If one cannot be copied, the others still are.
pub fn run(arguments: &CopyArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    if whole_location(&cli.location) == whole_location(&arguments.to) {
        return Err(Failure::usage(format!("{} is the store that is copied from", arguments.to), STORES));
    }
    let (store, ids) = match &arguments.conversations[..] {
        [] => {
            let missing = || format!("there is no store at {} to copy from", cli.location);
            let store = cli.read_store()?.ok_or_else(|| Failure::usage(missing(), STORES))?;
            let mut ids = Vec::new();
            list(&*store, &Filter::default(), usize::MAX, |summary| {
                ids.push(summary.id);
                ControlFlow::Continue(())
            })
            .map_err(|why| context::unusable(store.location(), why))?;
            // Copy the oldest first, so that the other store lists them in the same order.
            ids.reverse();
            (store, ids)
        }
        [first, rest @ ..] => {
            let (store, id) = cli.find(first)?;
            let mut ids = vec![id];
            for given in rest {
                ids.push(cli.resolve(&*store, given)?);
            }
            (store, ids)
        }
    };
    let other = CliContext::open_other(&arguments.to.clone().with_folder(&cli.home.beside_servers()))?;
    let writer = context::writer(&*other, "rejoin copy");
    let bar = output::progress(ids.len(), "{bar:40} {pos}/{len} conversations");
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
    context::settle(&*other);
    if failed > 0 { Err(Failure::some_failed(failed, ids.len())) } else { Ok(0) }
}

/// Why a conversation cannot be copied. A copy has the same hashes, so a damaged conversation cannot be copied, only forked.
fn failure(error: EngineError) -> Failure {
    match error {
        EngineError::Corrupted { id, .. } => Failure::usage(
            error.to_string(),
            format!("`rejoin history fork {id}` forks what can be read, and the fork can be copied"),
        ),
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
