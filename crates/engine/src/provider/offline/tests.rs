//! Conversations with the offline responder.

use rejoin_view::{History, OnBroken, repair};

use super::*;

fn all(_: &str) -> bool {
    true
}

fn view(messages: &[Message]) -> SoundView {
    repair(&History::of(messages.iter().cloned().map(std::sync::Arc::new)), OnBroken::Keep).view
}

fn talk(messages: &mut Vec<Message>, text: &str) -> String {
    messages.push(Message::user(text));
    loop {
        let said = answer(&view(messages), &[], &all);
        messages.push(said.clone());
        let calls: Vec<ToolCall> = said.tool_calls().cloned().collect();
        if calls.is_empty() {
            return said.content().unwrap_or_default();
        }
        for call in calls {
            let doc = rejoin_record::json::Doc::parse(call.arguments.text()).unwrap();
            let argument = doc.root().unwrap().fields().next().unwrap().1.as_str().unwrap().into_owned();
            let text = match &*call.name {
                "calculate" => {
                    crate::tools::evaluate(&argument).map_or_else(|e| e.to_string(), |v| v.to_string())
                }
                "list_dir" => String::from("notes.txt"),
                _ => format!("text of {argument}"),
            };
            messages.push(Message::tool(call.id.clone(), text.as_str()));
        }
    }
}

/// S3-67: it knows a name, a sum and the last question, and writes a summary.
#[test]
fn it_remembers_calculates_and_summarises() {
    let mut messages = Vec::new();
    assert!(talk(&mut messages, "my name is Alice").contains("Alice"));
    assert_eq!(talk(&mut messages, "What's my name?"), "Your name is Alice.");
    assert_eq!(talk(&mut messages, "What did I tell you my name was?"), "Your name is Alice.");
    talk(&mut messages, "By the way, my favorite color is teal.");
    assert_eq!(talk(&mut messages, "What's my favourite colour?"), "Your favourite colour is teal.");
    assert_eq!(
        talk(&mut messages, "What do you know about me?"),
        "Your name is Alice.\nYour favorite color is teal."
    );
    assert_eq!(talk(&mut messages, "What is 2+2?"), "2+2 = 4");
    assert_eq!(talk(&mut messages, "What math question did I just ask?"), "You asked: What is 2+2?");
    let summary = talk(&mut messages, "Summarize our conversation");
    assert!(summary.contains("Alice") && summary.contains("2+2"), "{summary}");
    assert!(talk(&mut messages, "list the files and read notes.txt, and what is 6*7?").contains("6*7 = 42"));
    let three = messages.iter().rfind(|message| message.tool_calls().count() == 3);
    assert!(three.is_some(), "three calls at once");
    assert!(talk(&mut messages, "what is my shoe size").contains("not told me your shoe size"));
    assert!(talk(&mut messages, "tell me a joke").contains("no model"));
}

#[test]
fn it_says_what_it_is() {
    let mut messages = Vec::new();
    assert!(talk(&mut messages, "hello").contains("offline responder"));
    assert!(answer(&view(&[]), &[], &all).content().unwrap().contains("offline responder"));
}

/// Two calls with one id: each result is matched with its own call.
#[test]
fn a_result_belongs_to_its_own_call_if_two_have_one_id() {
    let calls = vec![
        ToolCall::new("same", "calculate", r#"{"expression":"1+1"}"#),
        ToolCall::new("same", "read_file", r#"{"path":"notes.txt"}"#),
    ];
    let messages = [
        Message::user("what is 1+1, and read notes.txt"),
        Message::assistant_with_tools(calls),
        Message::tool("same", "2"),
        Message::tool("same", "buy milk"),
    ];
    let reply = answer(&view(&messages), &[], &all).content().unwrap();
    assert_eq!(reply, "1+1 = 2\nnotes.txt says:\nbuy milk");
}

/// A result whose call is gone does not count as the user's text; a user's message that only looks like a result does.
#[test]
fn a_text_counts_by_who_says_it_and_not_by_how_it_begins() {
    let orphan = [Message::user("my name is Alice"), Message::tool("gone", "my name is Bob")];
    let after = |messages: &[Message], text: &str| {
        let messages: Vec<Message> = messages.iter().cloned().chain([Message::user(text)]).collect();
        answer(&view(&messages), &[], &all).content().unwrap()
    };
    assert_eq!(after(&orphan, "what is my name?"), "Your name is Alice.");
    assert_eq!(after(&orphan, "what did I just ask?"), "You said: \"my name is Alice\"");
    let typed = [Message::user("[tool result] is how my log begins")];
    assert_eq!(after(&typed, "what did I just ask?"), "You said: \"[tool result] is how my log begins\"");
}

/// A summary is known by its place in the conversation: nobody said it, and its words prove nothing. A person may say the same words.
#[test]
fn a_summary_is_not_something_that_was_said() {
    let summary = Message::user("Summary of earlier conversation:\n\nYour name is Alice.");
    let asked = Message::user("What was my last message?");
    let name = Message::user("What's my name?");
    let text = |messages: &[Message], retold: &[usize]| {
        answer(&view(messages), retold, &all).content().unwrap_or_default()
    };
    assert_eq!(text(&[summary.clone(), name], &[0]), "Your name is Alice.");
    let of_person = text(&[summary.clone(), asked.clone()], &[]);
    assert!(of_person.contains("Summary of earlier conversation"), "{of_person}");
    let of_summary = text(&[summary, asked], &[0]);
    assert!(!of_summary.contains("Summary of earlier conversation"), "{of_summary}");
}
