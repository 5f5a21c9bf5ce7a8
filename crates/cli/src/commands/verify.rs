//! `rejoin verify`: checks that everything is unchanged since it was saved.

use rejoin::{
    shape,
    store::{Problem, StoragePlace, Verified},
};

use crate::{args::VerifyArguments, commands::prelude::*};

pub fn run(arguments: &VerifyArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let (store, id) = cli.find_or_all(arguments.conversation.as_deref())?;
    let mut problems = Vec::new();
    let verified = match &store {
        None => Verified::default(),
        Some(store) => {
            let spinner = output::spinner("verifying");
            let verified = store.verify(id, &mut |problem| problems.push(problem));
            spinner.finish_and_clear();
            verified.map_err(|why| context::unusable(store.location(), why))?
        }
    };
    let sound = problems.iter().all(|problem| problem.torn);
    if arguments.json {
        output::json_data(&shape::verified(&cli.location, verified, &problems))?;
    } else {
        for_people(&cli, verified, &problems, store.is_some())?;
    }
    Ok(if sound { 0 } else { FAILED })
}

fn for_people(
    cli: &CliContext,
    verified: Verified,
    problems: &[Problem],
    there: bool,
) -> Result<(), Failure> {
    let location = harmless(&cli.location.to_string());
    if !there {
        return output::data(&format!("There is no store at {location} yet: nothing to verify."));
    }
    for problem in problems {
        let (word, style) = if problem.torn { ("note", output::NOTE) } else { ("error", output::ERROR) };
        let place = place(problem);
        output::data(&format!("{} {place}: {}", paint(word, style), harmless(&problem.what)))?;
    }
    let counted = format!(
        "{} with {}",
        plural(verified.conversations, "conversation"),
        plural(verified.entries, "entry")
    );
    let damaged = problems.iter().filter(|problem| !problem.torn).count() as u64;
    let torn = problems.len() as u64 - damaged;
    let note = if torn == 0 {
        String::new()
    } else {
        let writes = format!("{} {}", plural(torn, "write"), agreeing(torn, "was", "were"));
        format!(" {writes} cut off and never acknowledged: nothing that was saved is missing.")
    };
    if damaged == 0 {
        output::data(&format!(
            "{} {counted}: everything is as it was when it was saved.{note}",
            paint("sound:", output::GOOD)
        ))
    } else {
        output::data(&format!(
            "{} {counted}: {} found.{note} Everything else can be read: `rejoin history show ID`.",
            paint("damaged:", output::ERROR),
            plural(damaged, "problem")
        ))
    }
}

fn place(problem: &Problem) -> String {
    match (problem.conversation, problem.place) {
        (Some(id), StoragePlace::Store) => format!("in {id}"),
        (Some(id), place) => format!("in {id}, {place}"),
        (None, place) => format!("in {place}"),
    }
}
