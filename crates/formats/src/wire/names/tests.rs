//! The spelling of ids and names.

use rejoin_record::Raw;

use super::*;

#[test]
fn legal_ids_stay_and_others_are_mapped_once() {
    let mut ids = IdMap::new(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric()), ID_LENGTH);
    assert_eq!(ids.map("abc"), "abc");
    let mapped = ids.map("functions.x:0").into_owned();
    assert_eq!(mapped.len(), 24);
    // Someone's own id that looks exactly like the one we made.
    assert_ne!(ids.map(&mapped), mapped);
    assert_eq!(ids.renamed.len(), 2);
}

#[test]
fn ids_of_another_length() {
    let legal = |id: &str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let mut ids = IdMap::new(legal, 9);
    assert_eq!(ids.map("abcdefghi"), "abcdefghi");
    let mapped = ids.map("call_1").into_owned();
    assert_eq!(mapped.len(), 9);
    assert_ne!(ids.map(&mapped), mapped, "it is taken");
    assert_ne!(ids.map("abcdefghi"), "abcdefghi", "it is taken");
}

#[test]
fn names() {
    assert_eq!(wire_name("read_file", 64), "read_file");
    assert_eq!(wire_name("", 64), "unknown_tool");
    assert_ne!(wire_name("a.b", 64), wire_name("a:b", 64));
    assert!(wire_name(&"é".repeat(300), 64).len() <= 64);
    assert_eq!(wire_name(&wire_name("a.b", 64), 64), wire_name("a.b", 64));
}

#[test]
fn names_of_another_alphabet() {
    fn spelled(name: &str) -> Cow<'_, str> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        spelled_name(name, 64, |c| c.is_ascii_alphabetic() || c == '_', legal)
    }
    assert_eq!(spelled("a.b"), "a.b");
    let long = format!("1{}", "x".repeat(70));
    for name in ["1a", ".a", "a-b", "é", &long] {
        let wire = spelled(name);
        assert!(wire.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'), "{wire}");
        assert!(wire.len() <= 64 && *wire != *name);
        assert_eq!(spelled(&wire), wire);
    }
    assert_ne!(spelled("1a"), spelled("_1a"));
}

/// After a conversion a history calls a tool by the name that the request uses for it. The declared tool is meant, unless there is one
/// with exactly that name.
#[test]
fn a_declared_tool_is_found_by_the_name_in_the_request() {
    let wire = crate::Dialect::Anthropic.wire();
    let mut spelling = Spelling::new(wire);
    let theirs = wire.spell("a.b").into_owned();
    let call = ToolCall::new("c1", theirs.clone(), "{}");
    assert_eq!(
        spelling.tool(&call, None, Position::message(0), &mut Ledger::new(true, wire.media)).0,
        theirs
    );
    let tool = |name: &str| ToolDeclaration::function(name, "", Raw::new("{}"));
    assert_eq!(spelling.respelled(&[tool("a.b")]).names, [(String::from("a.b"), theirs.clone())]);
    assert!(spelling.respelled(&[tool("a.b"), tool(&theirs)]).names.is_empty());
}
