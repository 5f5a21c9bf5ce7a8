//! A talk with the offline responder.

use super::*;

fn all(_: &str) -> bool {
    true
}

fn talk(messages: &mut Vec<Message>, text: &str) -> String {
    messages.push(Message::user(text));
    loop {
        let said = answer(messages, &all);
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

/// S3-67: the obvious test: a name, a sum, what was asked, a summary.
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
    assert!(answer(&[], &all).content().unwrap().contains("offline responder"));
}
