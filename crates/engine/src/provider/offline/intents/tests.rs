//! Texts and the requests in them.

use super::*;

#[test]
fn sums_are_found_and_nothing_else_is_one() {
    for (text, sum) in [
        ("2+2", "2+2"),
        ("What is 2 + 2?", "2 + 2"),
        ("calculate (3+4)*2.", "(3+4)*2"),
        ("what is 6 times 7", "6*7"),
        ("is it 10/4 (or so)?", "10/4"),
        ("-3 * 4 please", "-3 * 4"),
    ] {
        assert_eq!(sums(text), [sum], "{text}");
    }
    for text in
        ["no numbers", "in 2026-11-16", "v1.2-3x", "a-b", "call 555", "src/1/2.rs", "1. first 2. second"]
    {
        assert!(sums(text).is_empty(), "{text}: {:?}", sums(text));
    }
}

#[test]
fn facts_are_found() {
    let fact = |what: &str, value: &str| Fact { what: what.to_owned(), value: value.to_owned() };
    assert_eq!(facts("Hi, my name is Alice."), [fact("name", "Alice")]);
    assert_eq!(facts("My name's Alice!"), [fact("name", "Alice")]);
    assert_eq!(
        facts("My favourite colour is deep blue and call me Al"),
        [fact("favourite colour", "deep blue"), fact("name", "Al")]
    );
    assert!(facts("What is my name?").is_empty());
    assert!(facts("\u{130}\u{130} my x is y").len() <= 1);
}

#[test]
fn questions_about_a_fact_are_understood() {
    for (text, what) in [
        ("What did I tell you my name was?", "name"),
        ("what did i say my name is", "name"),
        ("Do you remember my name?", "name"),
        ("Do you still remember what my name is?", "name"),
        ("Can you tell me my name?", "name"),
        ("Please remind me what my name was again", "name"),
        ("Who am I?", "name"),
        ("Do you know who I am?", "name"),
        ("Hi again. What\u{2019}s my name, please?", "name"),
        ("What is my name, and how are you?", "name"),
        ("What is my name and how are you?", "name"),
        ("In my army days I forgot it: what is my name?", "name"),
        ("What's my favourite colour?", "favourite colour"),
        ("What did I say my favourite colour was?", "favourite colour"),
        ("Which is my favourite colour?", "favourite colour"),
        ("Did I tell you my shoe size?", "shoe size"),
        ("What was my lucky number again?", "lucky number"),
    ] {
        assert_eq!(of(text), [Intent::Ask(what.to_owned())], "{text}");
    }
    for text in ["What was my last question?", "What did I just ask?", "What did I say before?"] {
        assert_eq!(of(text), [Intent::WhatAsked], "{text}");
    }
    for text in ["What do you know about me?", "What have I told you so far?", "What did I tell you?"] {
        assert_eq!(of(text), [Intent::AskAll], "{text}");
    }
    for text in ["Remember that my name is Bob", "remember my name is Bob.", "I tell you: my name is Bob"] {
        let told = of(text);
        assert!(matches!(&told[..], [Intent::Fact(Fact { what, .. })] if what == "name"), "{text}: {told:?}");
    }
}

#[test]
fn files_and_folders_are_found() {
    assert_eq!(
        files("read `notes.txt` and src/main.rs.", "read `notes.txt` and src/main.rs."),
        ["notes.txt", "src/main.rs"]
    );
    assert!(files("notes.txt is nice", "notes.txt is nice").is_empty());
    assert!(lists("list the files") && lists("ls") && !lists("a list of names"));
}

#[test]
fn commands_and_files_to_write_are_between_marks() {
    assert_eq!(of("run `cargo test -p x`"), [Intent::Run(String::from("cargo test -p x"))]);
    let write = Intent::Write { path: String::from("a/notes.txt"), content: String::from("2+2 is my name") };
    assert_eq!(of("Please write `2+2 is my name` to `a/notes.txt`."), [write]);
    for text in ["run the tests", "run ``", "I wrote `x` to a.txt", "write `x` to the disk"] {
        assert!(
            !of(text).iter().any(|intent| matches!(intent, Intent::Run(_) | Intent::Write { .. })),
            "{text}"
        );
    }
}
