//! Tests how each broken state is repaired, under both policies. `linear_tests.rs` tests the cost.
//!
//! Histories are sketched: `u` user, `s` system, `a` assistant, `a[1,2]` calls with these ids, `r1` a result, `r` one without an
//! id. A mark after a call gives its fate: `!` started, `-` not started, `?` awaiting approval, `x` closed as left out, `w` closed
//! with its batch, `i` closed as interrupted, `*` truncated arguments. `|` marks a sent request.

use std::sync::Arc;

use rejoin_record::{Block, Message, Role, Text, ToolCall, ToolResult};

use super::{OnBroken, Repaired, Repairer, repair, repair_or_refuse};
use crate::{
    finding::{Action, Severity},
    history::{Fate, History, KnownCall},
    rules::Rule,
    sound::{ArgumentsUse, FirstChange, PartRef, SoundRole, SoundView},
};

pub(super) fn history(sketch: &str) -> History {
    let (mut messages, mut known, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    for (number, word) in sketch.split_whitespace().enumerate() {
        if word == "|" {
            sent.push(messages.len());
            continue;
        }
        let (message, fates) = message(word, number);
        known.extend(fates.into_iter().map(|(block, fate)| KnownCall {
            message: messages.len(),
            block,
            fate,
        }));
        messages.push(Arc::new(message));
    }
    History::with(messages, known, sent)
}

fn message(word: &str, number: usize) -> (Message, Vec<(usize, Fate)>) {
    let plain = match word {
        "u" => Some(Message::user(format!("u{number}"))),
        "s" => Some(Message::system(format!("s{number}"))),
        "d" => Some(Message::new(Role::Developer, vec![Block::text("d")])),
        "a" => Some(Message::assistant(format!("a{number}"))),
        "?" => Some(Message::new(Role::Other(Text::new("alien")), vec![Block::text("?")])),
        "t" => Some(Message::new(Role::Tool, vec![Block::text("no result")])),
        "r" => Some(Message::new(
            Role::Tool,
            vec![Block::result(ToolResult { call_id: None, ..ToolResult::new("", "r") })],
        )),
        _ => None,
    };
    if let Some(plain) = plain {
        return (plain, Vec::new());
    }
    if let Some(id) = word.strip_prefix('r') {
        return (Message::tool(id, format!("r{id}@{number}")), Vec::new());
    }
    // A role and a list of blocks: `a[1,2]`, `ta[1]` with text before, `u[1]` a call under the wrong role, `u(r1,t)`.
    let (head, list) = word.split_once(['[', '(']).unwrap();
    let mut blocks = Vec::new();
    let mut fates = Vec::new();
    if head.starts_with('t') {
        blocks.push(Block::text(format!("t{number}")));
    }
    let holds_results = word.contains('(');
    for item in list.trim_end_matches([']', ')']).split(',') {
        if holds_results {
            blocks.push(match item.strip_prefix('r') {
                Some(id) => Block::result(ToolResult::new(id, format!("r{id}@{number}"))),
                None => Block::text(format!("{item}{number}")),
            });
            continue;
        }
        let id = item.trim_end_matches(['!', '-', '?', 'x', 'w', 'i', '*', '%', '0']);
        let arguments = match &item[id.len()..] {
            "*" | "*i" | "*x" => "{\"a\":",
            "%" => "[1]",
            "0" => "",
            _ => "{}",
        };
        let fate = match item[id.len()..].trim_start_matches('*') {
            "!" => Fate::Started,
            "-" => Fate::NotStarted,
            "?" => Fate::AwaitingApproval,
            "x" => Fate::ClosedLeftOut,
            "w" => Fate::ClosedWithBatch,
            "i" => Fate::ClosedInterrupted,
            _ => Fate::Unknown,
        };
        if fate != Fate::Unknown {
            fates.push((blocks.len(), fate));
        }
        blocks.push(Block::call(ToolCall::new(id, "tool", arguments)));
    }
    let role = match head.trim_start_matches('t') {
        "a" => Role::Assistant,
        "T" => Role::Tool,
        _ => Role::User,
    };
    (Message::new(role, blocks), fates)
}

/// A view in the same notation: `!` is a synthesized result, `+` a joined one, `*` wrapped arguments, `o` an orphan as text.
fn shown(view: &SoundView) -> String {
    let mut words = Vec::new();
    for item in view.items() {
        let mut word = match item.role() {
            SoundRole::System => "s",
            SoundRole::Developer => "d",
            SoundRole::User => "u",
            SoundRole::Assistant => "a",
        }
        .to_owned();
        let mut inside = Vec::new();
        for part in item.parts() {
            match part {
                PartRef::Block(..) => {}
                PartRef::Orphan(..) => word = "o".into(),
                PartRef::Exchange(exchange) => {
                    let id = exchange.id();
                    let wrapped = if exchange.arguments() == ArgumentsUse::Wrapped { "*" } else { "" };
                    let answer = match (exchange.in_place(), exchange.results().len()) {
                        (Some(_), _) => String::new(),
                        (None, 0) => "!".into(),
                        (None, count) => "+".repeat(count),
                    };
                    inside.push(format!("{id}{wrapped}{answer}"));
                }
            }
        }
        if !inside.is_empty() {
            word.push_str(&format!("[{}]", inside.join(",")));
        }
        words.push(word);
    }
    words.join(" ")
}

fn rules(repaired: &Repaired) -> String {
    let names: Vec<String> = repaired
        .findings
        .iter()
        .map(|finding| format!("{}:{}@{}", finding.rule, finding.action.name(), finding.at.message.unwrap()))
        .collect();
    names.join(" ")
}

/// Each history, and its view under `keep` and under `drop`.
const BECOMES: &str = "
    S2-07, S2-13: a call with no result
    u a[1]                       = u a[1!]                    = u
    u ta[1] u                    = u a[1!] u                  = u a u
    u a[1!] u                    = u a[1!] u                  = u u

    a call that never ran
    u ta[1-] u                   = u a u                      = u a u
    u a[1?]                      = u                          = u
    u a[1,2-] r1                 = u a[1]                     = u

    S2-08, S2-14: a partial batch
    u a[1,2,3] r1 r3 u           = u a[1,2!,3] u              = u u
    u ta[1,2] r2                 = u a[1!,2]                  = u a

    S2-09: a result without a call, or without an id
    u r9 u                       = u o u                      = u u
    r9                           = o                          =
    u r u                        = u o u                      = u u
    u a[1,2] r1 r9 r2 u          = u a[1,2] o u               = u a[1,2] u

    a result before its call
    u r1 a[1] u                  = u a[1+] u                  = u u
    r1 r1 a[1]                   = a[1++]                     =
    r1 a[1] r1                   = a[1++]                     = a[1+]

    a result that does not stand directly after its call
    u a[1] u r1 u                = u a[1+] u u                = u a[1+] u u
    a[1] a[2] r1 r2              = a[1+] a[2]                 = a[1+] a[2]
    a[1,2] r1 u r2               = a[1,2+] u                  = a[1,2+] u
    a[1] u(t,r1)                 = a[1+] u                    = a[1+] u

    results in another order
    a[1,2] r2 r1                 = a[1+,2]                    = a[1+,2]

    two results for one call
    a[1] r1 r1                   = a[1++]                     = a[1+]
    a[1] r1 u r1                 = a[1++] u                   = a[1+] u

    an id that is used again
    a[1] r1 a[1] r1              = a[1] a[1_2]                = a[1] a[1_2]
    a[1] a[1] r1 r1              = a[1+] a[1_2]               = a[1+] a[1_2]
    a[1,1] r1 r1                 = a[1,1_2]                   = a[1,1_2]
    a[1] r1 a[1_2] r1_2 a[1] r1  = a[1] a[1_2] a[1_3]         = a[1] a[1_2] a[1_3]

    a derived id that a later call has as its own: what was sent stays, the later one moves
    a[1] r1 a[1] r1 a[1_2] r1_2  = a[1] a[1_2] a[1_2_2]       = a[1] a[1_2] a[1_2_2]

    the newest message that has an open call gets the result, and in it the first such call
    a[1] a[1] r1                 = a[1!] a[1_2]               = a[1_2]
    a[1,1] a[1] r1 r1 r1         = a[1+,1_2+] a[1_3]          = a[1+,1_2+] a[1_3]
    a[1] r1 a[2] r1 r2           = a[1++] a[2]                = a[1+] a[2]

    arguments that are no object
    a[1*] r1                     = a[1*]                      = a[1*]
    a[1%] r1                     = a[1*]                      = a[1*]
    u ta[1*]                     = u a                        = u a
    u a[1,2*] r1                 = u a[1]                     = u
    a[10] r1                     = a[1]                       = a[1]

    what was decided and sent holds, whatever the policy says now, and later results do not see the call
    a[1i] u                      = a[1!] u                    = a[1!] u
    a[1x] u                      = u                          = u
    ta[1x] u r1                  = a u o                      = a u
    a[1i] r1                     = a[1!] o                    = a[1!]
    a[1*i] u                     = a[1*!] u                   = a[1*!] u
    a[1x] u a[1] r1              = u a[1_2]                   = u a[1_2]
    a[1] r1 a[1x] u r1           = a[1++] u                   = a[1+] u

    a batch that a request left out stays out with the results that it had by then
    u a[1w,2x] r1 u              = u u                        = u u
    u ta[1x,2w,3w] r3 r2 | u     = u a u                      = u a u
    u a[1w,2x] r1 | u r1 r2      = u u o o                    = u u
    u a[1w,2x] r1 r1 | u a[1] r1 = u u a[1_2]                 = u u a[1_2]

    a block under the wrong role
    u[1] r1                      = a[1]                       = a[1]
    tu[1] r1                     = u a[1]                     = u a[1]
    a[1] a(r1)                   = a[1]                       = a[1]
    a[1] T(r1,t)                 = a[1] u                     = a[1] u
    ?                            = u                          = u
    t                            = u                          = u

    a call that was closed by sending: its result comes too late
    u a[1] | r1 u                = u a[1!] o u                = u u

    a second result of what was sent stands for itself
    u a[1] r1 | r1               = u a[1] o                   = u a[1]

    an orphan that was sent as text is not claimed by a later call
    u r1 | a[1] r1               = u o a[1]                   = u a[1]
    u a[1*] | u                  = u u                        = u u
    u ta[1?] | r1                = u a o                      = u a

    an id that was sent is taken
    u a[1] r1 | a[1] r1          = u a[1] a[1_2]              = u a[1] a[1_2]
    u r1 a[1] | r1               = u a[1+] o                  = u
    u a[1,2] r1 | u a[1] r1      = u a[1,2!] u a[1_2]         = u u a[1_2]
";

#[test]
fn what_each_state_becomes() {
    let rows = BECOMES.lines().filter_map(|line| line.split_once('='));
    for (sketch, shown_as) in rows {
        let (keep, drop) = shown_as.split_once('=').unwrap();
        for (policy, expected) in [(OnBroken::Keep, keep), (OnBroken::Drop, drop)] {
            let repaired = repair(&history(sketch), policy);
            assert_eq!(shown(&repaired.view), expected.trim(), "{policy:?} of {sketch}");
        }
    }
}

/// The findings: the policy, the history, and each rule with its action and message.
const FOUND: &str = "
    keep u a[1] u         = unanswered-call:synthesized@1
    drop u a[1] u         = unanswered-call:left-out@1
    keep u a[1?]          = awaiting-approval:left-out@1
    keep u a[1-]          = unanswered-call:left-out@1
    keep u a[1,2] r1      = partial-batch:kept@1 unanswered-call:synthesized@1
    drop u a[1,2] r1      = partial-batch:left-out@1 partial-batch:left-out@1 unanswered-call:left-out@1 partial-batch:left-out@2

    nothing of the batch arrived: that is not partial
    keep u a[1,2]         = unanswered-call:synthesized@1 unanswered-call:synthesized@1

    keep u r9             = orphan-result:labelled@1
    drop u r9             = orphan-result:left-out@1
    keep u r              = missing-call-id:labelled@1
    keep u a[1] r         = unanswered-call:synthesized@1 missing-call-id:labelled@2
    keep r1 a[1]          = result-before-call:moved@0
    drop r1 a[1]          = result-before-call:left-out@0 unanswered-call:left-out@1
    keep a[1] u r1        = detached-result:moved@2
    keep a[1] u(t,r1)     = detached-result:moved@1
    keep a[1] u(r1,t)     =
    keep a[1,2] r2 r1     = result-order:moved@2
    keep a[1] r1 r1       = duplicate-result:joined@2
    drop a[1] r1 r1       = duplicate-result:left-out@2
    drop a[1,2] r1 r1     = partial-batch:left-out@0 partial-batch:left-out@0 unanswered-call:left-out@0 partial-batch:left-out@1 duplicate-result:left-out@2
    keep a[1] r1 a[1] r1  = reused-call-id:renamed@2
    keep a[1*] r1         = malformed-arguments:wrapped@0
    keep u a[1*]          = unanswered-call:left-out@1 malformed-arguments:left-out@1
    keep a[1i] u          = unanswered-call:synthesized@0
    keep u a[1w,2x] r1 | u = partial-batch:left-out@1 unanswered-call:left-out@1 partial-batch:left-out@2
    drop u a[1w,2x] r1 | u = partial-batch:left-out@1 unanswered-call:left-out@1 partial-batch:left-out@2
    keep ?                = unknown-role:replaced@0
    keep t                = misplaced-block:replaced@0
    keep u[1] r1          = misplaced-block:moved@0
    keep a[1] a(r1)       = misplaced-block:moved@1
";

#[test]
fn what_is_found() {
    for (what, expected) in FOUND.lines().filter_map(|line| line.split_once('=')) {
        let (policy, sketch) = what.trim().split_once(' ').unwrap();
        let policy = if policy == "keep" { OnBroken::Keep } else { OnBroken::Drop };
        assert_eq!(rules(&repair(&history(sketch), policy)), expected.trim(), "{what}");
    }
}

/// Awaiting approval, a different order, and decisions that were sent need no repair.
#[test]
fn some_findings_are_notes() {
    for sketch in ["u a[1?]", "a[1,2] r2 r1", "a[1i] u", "u a[1w,2x] r1 | u"] {
        for policy in [OnBroken::Keep, OnBroken::Drop] {
            let findings = repair(&history(sketch), policy).findings;
            assert!(findings.iter().all(|finding| finding.severity == Severity::Note), "{sketch}");
        }
    }
}

#[test]
fn sound_histories_are_left_alone() {
    for sketch in ["", "u", "s u a", "a u", "u a[1] r1 a", "u a[1,2] r1 r2 u", "u ta[1] r1 a[2] r2", "d u"] {
        let repaired = repair(&history(sketch), OnBroken::Keep);
        assert!(repaired.findings.is_empty(), "{sketch}: {}", rules(&repaired));
        assert_eq!(repaired.view.first_change(), None);
        assert!(repaired.view.items().all(|item| item.is_complete()));
        let messages: Vec<Message> =
            history(sketch).messages().iter().map(|message| (**message).clone()).collect();
        assert_eq!(repaired.view.to_messages(), messages);
    }
}

/// In the messages of a view, results are joined in order, a call and its result share the derived id, and arguments are wrapped.
#[test]
fn what_the_messages_say() {
    let messages = |sketch: &str| repair(&history(sketch), OnBroken::Keep).view.to_messages();
    assert_eq!(messages("a[1] r1 r1")[1].content().as_deref(), Some("r1@1\nr1@2"));
    assert_eq!(messages("a[1] r1 a[1] r1")[3].tool_call_id().unwrap().as_str(), "1_2");
    for (sketch, arguments) in [("a[1*] r1", r#"{"_raw_arguments":"{\"a\":"}"#), ("a[10] r1", "{}")] {
        let messages = messages(sketch);
        let call = messages[0].tool_calls().next().unwrap();
        assert_eq!(call.arguments.text().as_str(), arguments, "{sketch}");
    }
}

/// A request looks at the view before and after sealing it. The view is emitted only once for both, unless sealing closes a call
/// and so changes how that call is shown.
#[test]
fn a_view_is_emitted_once_per_request() {
    let mut repairer = Repairer::new(OnBroken::Keep);
    for (sketch, is_shared) in [("u a[1,2] r1 r2", true), ("u a", true), ("u a[3]", false), ("u", true)] {
        for message in history(sketch).messages().iter() {
            repairer.push(Arc::clone(message), &[]);
        }
        let open = repairer.view().view.open.unwrap();
        assert!(Arc::ptr_eq(&open, &repairer.view().view.open.unwrap()), "{sketch}");
        repairer.seal();
        let sealed = repairer.view().view;
        assert_eq!(Arc::ptr_eq(&open, sealed.sealed.last().unwrap()), is_shared, "{sketch}");
        assert!(sealed.open.is_none());
    }
}

/// `undecided` returns the decisions that a request would make if it were sent now.
#[test]
fn undecided_calls() {
    let mut repairer = Repairer::new(OnBroken::Drop);
    assert!(repairer.is_empty());
    for (place, message) in history("u a[1,2] r1 u").messages().iter().enumerate() {
        assert_eq!(repairer.len(), place);
        repairer.push(Arc::clone(message), &[]);
    }
    let decided: Vec<Fate> = repairer.undecided().iter().map(|call| call.fate).collect();
    assert_eq!(decided, [Fate::ClosedWithBatch, Fate::ClosedLeftOut]);
}

#[test]
fn calls_of_instructions_are_the_models() {
    for (role, expected) in [(Role::System, "s a[1]"), (Role::Developer, "d a[1]")] {
        let blocks = vec![Block::text("x"), Block::call(ToolCall::new("1", "t", "{}"))];
        let list = [Message::new(role, blocks), Message::tool("1", "ok")];
        let history: History = list.into_iter().collect();
        assert_eq!(shown(&repair(&history, OnBroken::Keep).view), expected);
    }
}

#[test]
fn refuse_sends_nothing_that_is_not_sound() {
    let refused = repair_or_refuse(&history("u a[1]"), OnBroken::Refuse).unwrap_err();
    assert_eq!(refused.findings[0].rule, Rule::UnansweredCall);
    for sketch in ["u a[1] r1", "a[1,2] r2 r1"] {
        assert!(repair_or_refuse(&history(sketch), OnBroken::Refuse).is_ok(), "{sketch}");
    }
    assert!(repair_or_refuse(&history("u a[1]"), OnBroken::Drop).is_ok());
}

#[test]
fn a_running_conversation_shares_what_was_sent() {
    let mut running = Repairer::new(OnBroken::Keep);
    for turn in 0..20 {
        let before = running.view();
        running.push(Arc::new(Message::user("next")), &[]);
        running.seal();
        running.push(
            Arc::new(Message::assistant_with_tools(vec![ToolCall::new(format!("{turn}"), "t", "{}")])),
            &[],
        );
        running.push(Arc::new(Message::tool(format!("{turn}"), "ok")), &[]);
        let after = running.view();
        let sealed = before.view.sealed().len();
        for (old, new) in before.view.chunks().zip(after.view.chunks()).take(sealed) {
            assert!(Arc::ptr_eq(old, new));
        }
        assert!(after.findings.is_empty());
    }
    assert_eq!(running.view().view.items().count(), 40);
}

#[test]
fn the_first_change_is_known() {
    let at = |sketch: &str, policy| repair(&history(sketch), policy).view.first_change();
    assert_eq!(
        at("u a[1] u", OnBroken::Keep),
        Some(FirstChange { item: 2, part: 0 }),
        "the result is the first change"
    );
    assert_eq!(
        at("u ta[1] u", OnBroken::Drop),
        Some(FirstChange { item: 1, part: 1 }),
        "the call is what is gone"
    );
    assert_eq!(at("u r9 u", OnBroken::Keep), Some(FirstChange { item: 1, part: 0 }));
    assert_eq!(at("u a[1] r1 | u a[2] u", OnBroken::Keep), Some(FirstChange { item: 4, part: 0 }));
}

#[test]
fn findings_speak() {
    let repaired = repair(&history("u a[1] u r9"), OnBroken::Keep);
    let said: Vec<String> = repaired.findings.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["a tool call has no result (1, tool tool)", "a tool result has no call (9)"]);
    for rule in Rule::ALL {
        assert!(!rule.page().is_empty() && !rule.summary().is_empty());
    }
    for action in [Action::Kept, Action::Inserted, Action::SetAside, Action::Replaced, Action::Joined] {
        assert!(!action.name().is_empty() && !action.sentence().is_empty());
    }
}

/// A call inside a result was never made. When the result becomes a message, it is text, and so is the call in it.
#[test]
fn a_call_inside_an_orphan_is_text() {
    let inner = Block::call(ToolCall::new("1", "look", r#"{"at":"it"}"#));
    let result = ToolResult { content: vec![Block::text("seen"), inner], ..ToolResult::new("9", "") };
    let message = Message::new(Role::Tool, vec![Block::result(result)]);
    let messages = repair(&History::of([Arc::new(message)]), OnBroken::Keep).view.to_messages();
    assert!(messages.iter().all(|message| message.tool_calls().next().is_none()), "{messages:?}");
    assert!(messages[0].content().unwrap().contains(r#"look {"at":"it"}"#), "{messages:?}");
}
