//! What each broken state becomes, under both policies. What it costs is in `linear.rs`.
//!
//! Histories are sketched: `u` user, `s` system, `a` assistant, `a[1,2]` calls with these ids, `r1` a result, `r` one
//! without an id. A call may end in what is known of it: `!` started, `-` not started, `?` awaiting approval, `x` closed as
//! left out, `w` closed with its batch, `i` closed as interrupted, `*` truncated arguments. `|` is where a request was sent.

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

/// A view in the same language: `!` is a made-up result, `+` a joined one, `*` wrapped arguments, `o` an orphan as text.
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
                PartRef::Exchange(exchange, call) => {
                    let id = exchange.renamed().unwrap_or(&call.id);
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

#[track_caller]
fn check(sketch: &str, keep: &str, drop: &str) {
    let history = history(sketch);
    assert_eq!(shown(&repair(&history, OnBroken::Keep).view), keep, "keep of {sketch}");
    assert_eq!(shown(&repair(&history, OnBroken::Drop).view), drop, "drop of {sketch}");
}

#[track_caller]
fn check_rules(sketch: &str, policy: OnBroken, expected: &str) {
    assert_eq!(rules(&repair(&history(sketch), policy)), expected, "{policy:?} of {sketch}");
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

/// S2-07, S2-13: a call with no result.
#[test]
fn unanswered() {
    check("u a[1]", "u a[1!]", "u");
    check("u ta[1] u", "u a[1!] u", "u a u");
    check("u a[1!] u", "u a[1!] u", "u u");
    check_rules("u a[1] u", OnBroken::Keep, "unanswered-call:synthesized@1");
    check_rules("u a[1] u", OnBroken::Drop, "unanswered-call:left-out@1");
}

#[test]
fn calls_that_never_ran_are_left_out() {
    check("u ta[1-] u", "u a u", "u a u");
    check("u a[1?]", "u", "u");
    check("u a[1,2-] r1", "u a[1]", "u");
    check_rules("u a[1?]", OnBroken::Keep, "awaiting-approval:left-out@1");
    check_rules("u a[1-]", OnBroken::Keep, "unanswered-call:left-out@1");
    let waiting = repair(&history("u a[1?]"), OnBroken::Keep);
    assert_eq!(waiting.findings[0].severity, Severity::Note);
}

/// S2-08, S2-14: a partial batch.
#[test]
fn partial_batches() {
    check("u a[1,2,3] r1 r3 u", "u a[1,2!,3] u", "u u");
    check("u ta[1,2] r2", "u a[1!,2]", "u a");
    check_rules("u a[1,2] r1", OnBroken::Keep, "partial-batch:kept@1 unanswered-call:synthesized@1");
    check_rules(
        "u a[1,2] r1",
        OnBroken::Drop,
        "partial-batch:left-out@1 partial-batch:left-out@1 unanswered-call:left-out@1 partial-batch:left-out@2",
    );
    // Nothing of the batch arrived: that is not partial.
    check_rules("u a[1,2]", OnBroken::Keep, "unanswered-call:synthesized@1 unanswered-call:synthesized@1");
}

/// S2-09: a result without a call, or without an id.
#[test]
fn orphans() {
    check("u r9 u", "u o u", "u u");
    check("r9", "o", "");
    check("u r u", "u o u", "u u");
    check("u a[1,2] r1 r9 r2 u", "u a[1,2] o u", "u a[1,2] u");
    check_rules("u r9", OnBroken::Keep, "orphan-result:labelled@1");
    check_rules("u r9", OnBroken::Drop, "orphan-result:left-out@1");
    check_rules("u r", OnBroken::Keep, "missing-call-id:labelled@1");
    check_rules("u a[1] r", OnBroken::Keep, "unanswered-call:synthesized@1 missing-call-id:labelled@2");
}

#[test]
fn results_before_their_call() {
    check("u r1 a[1] u", "u a[1+] u", "u u");
    check("r1 r1 a[1]", "a[1++]", "");
    check("r1 a[1] r1", "a[1++]", "a[1+]");
    check_rules("r1 a[1]", OnBroken::Keep, "result-before-call:moved@0");
    check_rules("r1 a[1]", OnBroken::Drop, "result-before-call:left-out@0 unanswered-call:left-out@1");
}

#[test]
fn results_not_directly_after_their_call() {
    check("u a[1] u r1 u", "u a[1+] u u", "u a[1+] u u");
    check("a[1] a[2] r1 r2", "a[1+] a[2]", "a[1+] a[2]");
    check("a[1,2] r1 u r2", "a[1,2+] u", "a[1,2+] u");
    check("a[1] u(t,r1)", "a[1+] u", "a[1+] u");
    check_rules("a[1] u r1", OnBroken::Keep, "detached-result:moved@2");
    check_rules("a[1] u(t,r1)", OnBroken::Keep, "detached-result:moved@1");
    check_rules("a[1] u(r1,t)", OnBroken::Keep, "");
}

#[test]
fn results_in_another_order() {
    check("a[1,2] r2 r1", "a[1+,2]", "a[1+,2]");
    check_rules("a[1,2] r2 r1", OnBroken::Keep, "result-order:moved@2");
    assert_eq!(repair(&history("a[1,2] r2 r1"), OnBroken::Keep).findings[0].severity, Severity::Note);
}

#[test]
fn duplicates() {
    check("a[1] r1 r1", "a[1++]", "a[1+]");
    check("a[1] r1 u r1", "a[1++] u", "a[1+] u");
    check_rules("a[1] r1 r1", OnBroken::Keep, "duplicate-result:joined@2");
    check_rules("a[1] r1 r1", OnBroken::Drop, "duplicate-result:left-out@2");
    check_rules(
        "a[1,2] r1 r1",
        OnBroken::Drop,
        "partial-batch:left-out@0 partial-batch:left-out@0 unanswered-call:left-out@0 partial-batch:left-out@1 duplicate-result:left-out@2",
    );
    let joined = repair(&history("a[1] r1 r1"), OnBroken::Keep).view.to_messages();
    assert_eq!(joined[1].content().as_deref(), Some("r1@1\nr1@2"), "joined, in order");
}

#[test]
fn reused_ids() {
    check("a[1] r1 a[1] r1", "a[1] a[1_2]", "a[1] a[1_2]");
    check("a[1] a[1] r1 r1", "a[1+] a[1_2]", "a[1+] a[1_2]");
    check("a[1,1] r1 r1", "a[1,1_2]", "a[1,1_2]");
    check("a[1] r1 a[1_2] r1_2 a[1] r1", "a[1] a[1_2] a[1_3]", "a[1] a[1_2] a[1_3]");
    // The derived id was made before anybody else wanted it: what was sent stays, the later one moves.
    check("a[1] r1 a[1] r1 a[1_2] r1_2", "a[1] a[1_2] a[1_2_2]", "a[1] a[1_2] a[1_2_2]");
    check_rules("a[1] r1 a[1] r1", OnBroken::Keep, "reused-call-id:renamed@2");
    let renamed = repair(&history("a[1] r1 a[1] r1"), OnBroken::Keep).view.to_messages();
    assert_eq!(renamed[3].tool_call_id().unwrap().as_str(), "1_2", "the result goes with it");
}

/// The newest message that has an open call gets the result, and in it the first such call.
#[test]
fn who_answers_whom() {
    check("a[1] a[1] r1", "a[1!] a[1_2]", "a[1_2]");
    check("a[1,1] a[1] r1 r1 r1", "a[1+,1_2+] a[1_3]", "a[1+,1_2+] a[1_3]");
    check("a[1] r1 a[2] r1 r2", "a[1++] a[2]", "a[1+] a[2]");
}

#[test]
fn malformed_arguments() {
    check("a[1*] r1", "a[1*]", "a[1*]");
    check("a[1%] r1", "a[1*]", "a[1*]");
    check("u ta[1*]", "u a", "u a");
    check("u a[1,2*] r1", "u a[1]", "u");
    check("a[10] r1", "a[1]", "a[1]");
    check_rules("a[1*] r1", OnBroken::Keep, "malformed-arguments:wrapped@0");
    check_rules("u a[1*]", OnBroken::Keep, "unanswered-call:left-out@1 malformed-arguments:left-out@1");
    let wrapped = repair(&history("a[1*] r1"), OnBroken::Keep).view.to_messages();
    assert_eq!(
        wrapped[0].tool_calls().next().unwrap().arguments.text().as_str(),
        r#"{"_raw_arguments":"{\"a\":"}"#
    );
    let empty = repair(&history("a[10] r1"), OnBroken::Keep).view.to_messages();
    assert_eq!(empty[0].tool_calls().next().unwrap().arguments.text().as_str(), "{}");
}

/// What was decided and sent holds, whatever the policy says now, and later results do not see the call.
#[test]
fn closed_calls() {
    check("a[1i] u", "a[1!] u", "a[1!] u");
    check("a[1x] u", "u", "u");
    check("ta[1x] u r1", "a u o", "a u");
    check("a[1i] r1", "a[1!] o", "a[1!]");
    check("a[1*i] u", "a[1*!] u", "a[1*!] u");
    check("a[1x] u a[1] r1", "u a[1_2]", "u a[1_2]");
    check("a[1] r1 a[1x] u r1", "a[1++] u", "a[1+] u");
    let closed = repair(&history("a[1i] u"), OnBroken::Keep);
    assert_eq!(
        (closed.findings[0].rule, closed.findings[0].severity),
        (Rule::UnansweredCall, Severity::Note)
    );
    assert_eq!(closed.findings.len(), 1);
}

/// A batch that a request left out stays out with the results that it had by then. Later results do not see it.
#[test]
fn batches_that_were_left_out() {
    check("u a[1w,2x] r1 u", "u u", "u u");
    check("u ta[1x,2w,3w] r3 r2 | u", "u a u", "u a u");
    check("u a[1w,2x] r1 | u r1 r2", "u u o o", "u u");
    check("u a[1w,2x] r1 r1 | u a[1] r1", "u u a[1_2]", "u u a[1_2]");
    for policy in [OnBroken::Keep, OnBroken::Drop] {
        let repaired = repair(&history("u a[1w,2x] r1 | u"), policy);
        assert_eq!(
            rules(&repaired),
            "partial-batch:left-out@1 unanswered-call:left-out@1 partial-batch:left-out@2"
        );
        assert!(!repaired.findings.iter().any(|finding| finding.is_problem()), "it was decided and sent");
    }
    let mut repairer = Repairer::new(OnBroken::Drop);
    assert!(repairer.is_empty());
    for (place, message) in history("u a[1,2] r1 u").messages().iter().enumerate() {
        assert_eq!(repairer.len(), place);
        repairer.push(Arc::clone(message), &[]);
    }
    let decided: Vec<Fate> = repairer.undecided().iter().map(|call| call.fate).collect();
    assert_eq!(decided, [Fate::ClosedWithBatch, Fate::ClosedLeftOut], "what is sent can be read back");
}

#[test]
fn blocks_under_the_wrong_role() {
    check("u[1] r1", "a[1]", "a[1]");
    check("tu[1] r1", "u a[1]", "u a[1]");
    check("a[1] a(r1)", "a[1]", "a[1]");
    check("a[1] T(r1,t)", "a[1] u", "a[1] u");
    check("?", "u", "u");
    check("t", "u", "u");
    for (role, expected) in [(Role::System, "s a[1]"), (Role::Developer, "d a[1]")] {
        let blocks = vec![Block::text("x"), Block::call(ToolCall::new("1", "t", "{}"))];
        let list = [Message::new(role, blocks), Message::tool("1", "ok")];
        let history: History = list.into_iter().collect();
        assert_eq!(shown(&repair(&history, OnBroken::Keep).view), expected);
    }
    check_rules("?", OnBroken::Keep, "unknown-role:replaced@0");
    check_rules("t", OnBroken::Keep, "misplaced-block:replaced@0");
    check_rules("u[1] r1", OnBroken::Keep, "misplaced-block:moved@0");
    check_rules("a[1] a(r1)", OnBroken::Keep, "misplaced-block:moved@1");
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

/// After a request was sent, nothing that comes changes what was in it.
#[test]
fn nothing_pairs_across_a_request() {
    // The call was closed by sending: its result comes too late.
    check("u a[1] | r1 u", "u a[1!] o u", "u u");
    // A second result of what was sent stands for itself.
    check("u a[1] r1 | r1", "u a[1] o", "u a[1]");
    // An orphan that was sent as text is not claimed by a later call.
    check("u r1 | a[1] r1", "u o a[1]", "u a[1]");
    check("u a[1*] | u", "u u", "u u");
    check("u ta[1?] | r1", "u a o", "u a");
    // An id that was sent is taken.
    check("u a[1] r1 | a[1] r1", "u a[1] a[1_2]", "u a[1] a[1_2]");
    check("u r1 a[1] | r1", "u a[1+] o", "u");
    check("u a[1,2] r1 | u a[1] r1", "u a[1,2!] u a[1_2]", "u u a[1_2]");
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
        "the result is what is new"
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
        assert_eq!(rule.name().parse(), Ok(*rule));
        assert!(!rule.page().is_empty() && !rule.summary().is_empty());
    }
    assert!("no-such-rule".parse::<Rule>().is_err());
    for action in [Action::Kept, Action::Inserted, Action::SetAside, Action::Replaced, Action::Joined] {
        assert!(!action.name().is_empty() && !action.sentence().is_empty());
    }
}
