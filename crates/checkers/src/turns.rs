//! Pairing for dialects in which calls and results are blocks, and the next message must answer the calls of a message:
//! Anthropic and Bedrock.

use std::collections::HashSet;

use serde_json::Value;

use crate::{check::At, values::list};

/// The facts about a message that the rules between messages need.
pub(crate) struct Turn<'a> {
    pub role: &'a str,
    pub blocks: &'a [Value],
    /// True if any block is a call or a result, in a message of any role.
    pub uses_tools: bool,
    /// The ids of the calls of an assistant message.
    pub calls: Vec<&'a str>,
    /// Block index and answered id of each result of a user message.
    pub results: Vec<(usize, &'a str)>,
    /// How many results come before any other block.
    leading: usize,
}

/// Why a result is in the wrong position.
pub(crate) enum MisplacedResult {
    /// It answers no call of the previous message.
    Unexpected,
    /// Its call was already answered.
    Repeated,
    /// Another block comes before it.
    Late,
}

impl<'a> Turn<'a> {
    /// Reads a message; `call` and `result` return the id of a block that is a call or a result.
    pub fn read(
        message: &At<'a>,
        call: impl Fn(&'a Value) -> Option<&'a Value>,
        result: impl Fn(&'a Value) -> Option<&'a Value>,
    ) -> Self {
        let role = message.get("role").text().unwrap_or_default();
        let blocks = message.get("content").value.map_or(&[][..], list);
        let sent_by = |sender| if role == sender { blocks } else { &[] };
        let answered = |(j, block)| Some((j, result(block)?.as_str()?));
        Turn {
            role,
            blocks,
            uses_tools: blocks.iter().any(|block| call(block).or_else(|| result(block)).is_some()),
            calls: sent_by("assistant").iter().filter_map(|block| call(block)?.as_str()).collect(),
            results: sent_by("user").iter().enumerate().filter_map(answered).collect(),
            leading: blocks.iter().take_while(|block| result(block).is_some()).count(),
        }
    }
}

/// The results of a message in wrong positions, with their paths and ids.
pub(crate) fn misfits<'a>(i: usize, turns: &[Turn<'a>]) -> Vec<(String, &'a str, MisplacedResult)> {
    let calls = i.checked_sub(1).map_or(&[][..], |before| &turns[before].calls);
    let calls: HashSet<&str> = calls.iter().copied().collect();
    let mut answered = HashSet::new();
    let misfit = |&(j, id)| {
        let misfit = match () {
            () if !calls.contains(id) => MisplacedResult::Unexpected,
            () if !answered.insert(id) => MisplacedResult::Repeated,
            () if j >= turns[i].leading => MisplacedResult::Late,
            () => return None,
        };
        Some((format!("messages.{i}.content.{j}"), id, misfit))
    };
    turns[i].results.iter().filter_map(misfit).collect()
}

/// The calls of a message that the next message does not answer.
pub(crate) fn unanswered<'a>(i: usize, turns: &[Turn<'a>]) -> Vec<&'a str> {
    let answers = turns.get(i + 1).map_or(&[][..], |next| &next.results);
    let answered: HashSet<&str> = answers.iter().map(|(_, id)| *id).collect();
    turns[i].calls.iter().copied().filter(|id| !answered.contains(id)).collect()
}
