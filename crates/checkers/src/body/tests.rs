//! Which bytes are read, how deep they may nest, and which are refused.

use super::*;

#[test]
fn nesting_ignores_brackets_in_strings() {
    let check = |json: &str, expect| assert_eq!(nesting(json.as_bytes()), expect, "{json}");
    check("1", 0);
    check("{}", 1);
    check(r#"{"a":[[],[]]}"#, 3);
    check(r#"["[[[\"[[["]"#, 1);
    check("]]]]", 0);
    check("]][[", 2);
}

#[test]
fn numbers_of_any_size_are_json_and_malformed_ones_are_not() {
    for good in ["1e999", "[-1e999, 2]", r#"{"1e999":1E+400,"b":"1e999"}"#, "1234567890123456789012345"] {
        assert!(read_body(good.as_bytes(), "schema").is_ok(), "{good}");
    }
    for bad in ["01e999", "+1e999", "1e999.5", ".1e999", "[1e999,]", "1e9991e999 2"] {
        let refused = read_body(bad.as_bytes(), "schema").map_err(|violation| violation.rule);
        assert_eq!(refused, Err("schema"), "{bad}");
    }
}

#[test]
fn a_body_is_read_as_serde_json_reads_it() {
    for json in [
        "null",
        " [ ] ",
        "\"\"",
        r#"{"a":{"b":[1,-2.5e3,true,false,null,"x"]},"c":[],"d":{},"e":[[],{}]}"#,
        r#"{ "quote\"d \\" : "back\\", "ü" : "\ud83d\ude00 \u0000" , "a" : [ "]" , "}" ] }"#,
        r#"{"twice":1,"once":2,"twice":"last"}"#,
    ] {
        assert_eq!(read_body(json.as_bytes(), "schema"), Ok(serde_json::from_str(json).unwrap()), "{json}");
    }
}

#[test]
fn what_is_not_json_is_told_apart_from_lone_surrogates() {
    let check = |json: &[u8], rule| {
        let refused = read_body(json, "schema").map_err(|violation| violation.rule);
        assert_eq!(refused, Err(rule), "{}", String::from_utf8_lossy(json));
    };
    check(br#""\ud83d""#, "SAN-02");
    check(br#""\ud83dx""#, "SAN-02");
    check(br#""\ud83d\n""#, "SAN-02");
    check(br#""\ud83d\u0041""#, "SAN-02");
    check(br#"{"\ude00":1}"#, "SAN-02");
    check(br#"[1e999, "\ude00"]"#, "SAN-02");
    check(b"", "schema");
    check(b"{} {}", "schema");
    check(b"\xef\xbb\xbf{}", "schema");
    check(b"\"\xff\"", "schema");
    check(br#"{"a":NaN}"#, "schema");
    assert!(read_body(br#""\ud83d\ude00""#, "schema").is_ok());
}

#[test]
fn a_thousand_levels_are_read_and_one_more_is_refused() {
    let nested = |depth: usize| r#"{"a":"#.repeat(depth - 1) + "{}" + &"}".repeat(depth - 1);
    let small_stack = std::thread::Builder::new().stack_size(512 * 1024);
    let read = small_stack.spawn(move || read_body(nested(1000).as_bytes(), "schema").is_ok()).unwrap();
    assert!(read.join().unwrap());
    let refused = read_body(nested(1001).as_bytes(), "schema").map_err(|violation| violation.rule);
    assert_eq!(refused, Err("SAN-07"));
}
