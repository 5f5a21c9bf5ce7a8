//! `rejoin run`: one task in a new conversation, for scripts and CI.

use std::time::Duration;

use super::talking::{self, GivenMessage, OpenConversation};
use crate::{
    args::RunArguments,
    context::{CliContext, Flags},
    failure::Failure,
};

pub fn run(arguments: &RunArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let GivenMessage::Text(task) = talking::message_to_send(Some(&arguments.task), &arguments.talk)? else {
        return Err(Failure::usage("no task was given", "rejoin run \"your task\""));
    };
    let (store, no_store) = talking::store_or_reason(&cli)?;
    let mut talking = OpenConversation::begin(&cli, store.as_ref(), &arguments.talk)?;
    talking.say_who_answers("new conversation with");
    match no_store {
        None => talking.make_active(&cli),
        Some(why) => talking.no_store = Some(why),
    }
    talking.task(task, |limits| {
        limits.requests = arguments.max_requests.unwrap_or(limits.requests);
        limits.time = arguments.max_time.map(Duration::from_secs).or(limits.time);
    })
}
