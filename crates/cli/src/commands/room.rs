//! `rejoin compact`, `prune` and `uncompact`: do on request what a turn does when its model's window is full.

use std::sync::Arc;

use rejoin::{Compaction, Event, PrunePolicy, Stop, shape, store::Store};

use super::talking::{self, Drawing, OpenConversation, OpenPurpose, PrintedWords, SaveWarning, block_on};
use crate::{
    amounts,
    args::{ChangeArguments, CompactArguments, PruneArguments, Talk, UncompactArguments},
    context::{self, CliContext, Flags},
    failure::{FAILED, Failure},
    output::{self, paint, plural},
};

pub fn compact(arguments: &CompactArguments, flags: &Flags) -> Result<u8, Failure> {
    let talk = Talk {
        provider: arguments.provider.clone(),
        model: arguments.model.clone(),
        base_url: arguments.base_url.clone(),
        ..Talk::default()
    };
    let change = &arguments.change;
    let purpose = if change.dry_run { OpenPurpose::Look } else { OpenPurpose::Say };
    let (mut talking, store) = open(change, flags, &talk, ("rejoin compact", purpose))?;
    let worker = &mut talking.worker;
    let id = worker.conversation().id();
    let messages = worker.shown_messages();
    if change.dry_run {
        let plan = match worker.compaction_plan() {
            Ok(plan) => plan,
            Err(why) => return nothing_to_compact(id, worker, &why, change.json),
        };
        let staying = plan.kept.len() + messages - plan.tail + 1;
        let after = plan.tokens_kept + worker.shortest_summary();
        let tokens = (worker.provider_tokens(plan.tokens_before), worker.provider_tokens(after));
        if change.json {
            return output::json_data(&shape::compaction(id, tokens, (messages, staying), false)).map(|()| 0);
        }
        picture("before", tokens.0, tokens.0, &plural(messages, "message"))?;
        let older = (!plan.kept.is_empty()).then(|| plural(plan.kept.len(), "older message"));
        let last = match messages - plan.tail {
            0 => None,
            1 => Some(String::from("the last message")),
            several => Some(format!("the last {several} messages")),
        };
        let stay = [older, last].into_iter().flatten().fold(String::new(), |stay, part| stay + &part + ", ");
        picture("after", tokens.1, tokens.0, &format!("{stay}and a short summary; a longer one takes more"))?;
        output::talk("Nothing was sent and nothing was changed.");
        return Ok(0);
    }
    let code = block_on(compact_now(worker, arguments.keep.as_deref(), &Stop::new(), change.json))??;
    saved(&talking, &*store)?;
    Ok(code)
}

/// Compacts a conversation and shows what that changed.
pub async fn compact_now(
    worker: &mut rejoin::Worker,
    keep: Option<&str>,
    stop: &Stop,
    json: bool,
) -> Result<u8, Failure> {
    let id = worker.conversation().id();
    let messages = worker.shown_messages();
    let mut drawing = Drawing::new(false, SaveWarning::AtOnce, PrintedWords::All);
    let mut sink = |event: Event| drawing.event(&event);
    let (code, tokens) = match worker.compact(keep, &mut sink, stop).await {
        why @ (Compaction::Nothing | Compaction::TooShort | Compaction::OverLimit(_)) => {
            return nothing_to_compact(id, worker, &why, json);
        }
        Compaction::Done { before, after } => (0, (before, after)),
        Compaction::Useless | Compaction::Failed(_) => {
            let tokens = worker.shown_tokens();
            (FAILED, (tokens, tokens))
        }
    };
    let left = worker.shown_messages();
    if json {
        output::json_data(&shape::compaction(id, tokens, (messages, left), code == 0))?;
    } else if code == 0 {
        picture("before", tokens.0, tokens.0, &plural(messages, "message"))?;
        picture("after", tokens.1, tokens.0, &plural(left, "message"))?;
        output::advice(&format!("The record keeps every word; `rejoin uncompact {id}` undoes it."));
    }
    Ok(code)
}

fn nothing_to_compact(
    id: rejoin::ConversationId,
    worker: &mut rejoin::Worker,
    why: &Compaction,
    json: bool,
) -> Result<u8, Failure> {
    let code = if matches!(why, Compaction::Failed(_)) { FAILED } else { 0 };
    let (tokens, messages) = (worker.shown_tokens(), worker.shown_messages());
    if json {
        return output::json_data(&shape::compaction(id, (tokens, tokens), (messages, messages), false))
            .map(|()| code);
    }
    let why = match why {
        Compaction::Failed(why) => why.clone(),
        Compaction::OverLimit(limit) => limit.to_string(),
        Compaction::TooShort => String::from("A summary would be no shorter"),
        _ => String::from("There is nothing to summarise"),
    };
    let messages = plural(messages, "message");
    output::talk(&format!("{why}; nothing changed: {messages}, {tokens} tokens."));
    Ok(code)
}

pub fn prune(arguments: &PruneArguments, flags: &Flags) -> Result<u8, Failure> {
    let change = &arguments.change;
    let (mut talking, store) = open(change, flags, &Talk::default(), ("rejoin prune", OpenPurpose::Look))?;
    let worker = &mut talking.worker;
    let named =
        arguments.keep_last.is_some() || arguments.max_age.is_some() || arguments.token_budget.is_some();
    let policy = PrunePolicy {
        keep_last: arguments.keep_last,
        max_age: arguments.max_age.map(std::time::Duration::from_secs),
        token_budget: arguments.token_budget,
        // Prune at once, without waiting for a batch.
        batch: Some(1),
    };
    let before = worker.shown_tokens();
    let pruned = worker.prune_plan(named.then_some(&policy));
    let done = !change.dry_run && !pruned.results.is_empty();
    if done {
        worker.prune_results(&pruned);
    }
    if change.json {
        output::json_data(&shape::pruned(worker.conversation().id(), &pruned, done))?;
    } else if pruned.results.is_empty() {
        let results = plural(pruned.survivors.len(), "result");
        let stay = output::agreeing(pruned.survivors.len() as u64, "stays", "stay");
        output::talk(&format!(
            "No result needs to be removed: {results} {stay}. `--keep-last N` chooses another limit."
        ));
    } else {
        let (results, stay) = (plural(pruned.results.len(), "result"), pruned.survivors.len());
        picture("before", before, before, "")?;
        let words = format!("{results} left out, {stay} stay");
        let removed = worker.provider_tokens(pruned.tokens);
        picture("after", before.saturating_sub(removed), before, &words)?;
        output::talk(match done {
            true => "The record keeps every word, and the tool `recall` reads it again.",
            false => "Nothing was changed.",
        });
    }
    if done {
        saved(&talking, &*store)?;
    }
    Ok(0)
}

pub fn uncompact(arguments: &UncompactArguments, flags: &Flags) -> Result<u8, Failure> {
    let change = &arguments.change;
    let (mut talking, store) =
        open(change, flags, &Talk::default(), ("rejoin uncompact", OpenPurpose::Look))?;
    let worker = &mut talking.worker;
    let id = worker.conversation().id();
    let before = (worker.shown_tokens(), worker.shown_messages());
    let undone = worker.uncompact(change.dry_run);
    let Some(after) = undone else {
        if change.json {
            let (tokens, messages) = before;
            return output::json_data(&shape::compaction(id, (tokens, tokens), (messages, messages), false))
                .map(|()| 0);
        }
        output::talk("Nothing is compacted: the model sees every message.");
        return Ok(0);
    };
    if change.json {
        let done = !change.dry_run;
        output::json_data(&shape::compaction(id, (before.0, after.0), (before.1, after.1), done))?;
    } else {
        let most = before.0.max(after.0);
        picture("before", before.0, most, &plural(before.1, "message"))?;
        picture("after", after.0, most, &plural(after.1, "message"))?;
        if change.dry_run {
            output::talk("Nothing was changed.");
        }
    }
    if !change.dry_run {
        saved(&talking, &*store)?;
    }
    Ok(0)
}

fn open(
    change: &ChangeArguments,
    flags: &Flags,
    talk: &Talk,
    purpose: (&'static str, OpenPurpose),
) -> Result<(OpenConversation, Arc<dyn Store>), Failure> {
    let cli = CliContext::new(flags)?;
    let (_, id) = cli.find(change.which.given())?;
    let store = talking::open_store(&cli)?;
    let talking = OpenConversation::open(&cli, &store, id, talk, purpose)?;
    Ok((talking, store))
}

/// Fails if the change is only in memory.
fn saved(talking: &OpenConversation, store: &dyn Store) -> Result<(), Failure> {
    if let Some(warning) = talking.worker.conversation().saved().warning() {
        return Err(Failure::failed(warning, "`rejoin doctor --self` says whether the store can be written"));
    }
    context::settle(store);
    Ok(())
}

/// One line with a bar.
fn picture(name: &str, tokens: u64, most: u64, about: &str) -> Result<(), Failure> {
    const WIDTH: usize = 30;
    let bar = format!("{:<WIDTH$}", amounts::bar(tokens, most, WIDTH));
    let about = if about.is_empty() { String::new() } else { format!(": {about}") };
    output::data(&format!("{name:<7}{} {tokens} tokens{about}", paint(&bar, output::DIM)))
}
