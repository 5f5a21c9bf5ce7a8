//! Each walk, over a small body with everything in it.

use super::{blocks, tokens};

/// Token, role and call id, as one line each.
fn check(dialect: &str, body: &str, expected: &[&str]) {
    let found: Vec<String> = tokens(body, dialect)
        .into_iter()
        .map(|found| {
            format!("{} {} {}", found.token, found.role, found.call_id.unwrap_or_default())
                .trim_end()
                .to_owned()
        })
        .collect();
    assert_eq!(found, expected, "{dialect}");
}

#[test]
fn openai_chat() {
    let body = r#"{"messages":[
        {"role":"developer","content":"⟦s1⟧"},
        {"role":"user","content":[{"type":"text","text":"⟦u2⟧"},{"type":"text","text":"⟦u3⟧ and ⟦u4⟧"}]},
        {"role":"assistant","content":"⟦a5⟧","refusal":"⟦a6⟧","reasoning_content":"⟦x⟧","tool_calls":[
            {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"k\":\"⟦k7⟧\"}"}}]},
        {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"⟦r8⟧"}]}]}"#;
    let expected = [
        "⟦s1⟧ developer",
        "⟦u2⟧ user",
        "⟦u3⟧ user",
        "⟦u4⟧ user",
        "⟦a5⟧ assistant",
        "⟦a6⟧ assistant",
        "⟦k7⟧ assistant c1",
        "⟦r8⟧ tool c1",
    ];
    check("openai-chat", body, &expected);
    check("mistral", body, &expected);
}

#[test]
fn anthropic() {
    let body = r#"{"system":[{"type":"text","text":"⟦s1⟧"}],"messages":[{"role":"user","content":"⟦u2⟧"},
        {"role":"assistant","content":[{"type":"text","text":"⟦a3⟧"},{"type":"tool_use","id":"c1","name":"f","input":{"k":"⟦k4⟧"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"⟦r5⟧"},{"type":"text","text":"⟦u6⟧"}]}]}"#;
    let expected =
        ["⟦s1⟧ system", "⟦u2⟧ user", "⟦a3⟧ assistant", "⟦k4⟧ assistant c1", "⟦r5⟧ user c1", "⟦u6⟧ user"];
    check("anthropic", body, &expected);
}

#[test]
fn openai_responses() {
    let body = r#"{"input":[{"role":"user","content":"⟦u2⟧"},{"type":"reasoning","summary":[]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"⟦a3⟧"}]},
        {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"k\":\"⟦k4⟧\"}"},
        {"type":"custom_tool_call","call_id":"c2","name":"g","input":"⟦k5⟧"},
        {"type":"local_shell_call","call_id":"c3","action":{"command":["⟦k6⟧"]}},
        {"type":"function_call_output","call_id":"c1","output":"⟦r7⟧"},
        {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"⟦r8⟧"}]},
        {"type":"local_shell_call_output","call_id":"c3","output":"⟦r9⟧"},
        {"type":"future","text":"⟦u10⟧"}],"instructions":"⟦s1⟧"}"#;
    let expected = [
        "⟦s1⟧ system",
        "⟦u2⟧ user",
        "⟦a3⟧ assistant",
        "⟦k4⟧ assistant c1",
        "⟦k5⟧ assistant c2",
        "⟦k6⟧ assistant c3",
        "⟦r7⟧ tool c1",
        "⟦r8⟧ tool c2",
        "⟦r9⟧ tool c3",
        "⟦u10⟧ ?",
    ];
    check("openai-responses", body, &expected);
    check("openai-responses", r#"{"input":"⟦u1⟧"}"#, &["⟦u1⟧ user"]);
    check("openai-responses", r#"[{"role":"user","content":"⟦u1⟧"}]"#, &["⟦u1⟧ user"]);
}

#[test]
fn gemini_pairs_by_position() {
    let body = r#"{"systemInstruction":null,"contents":[{"parts":[{"text":"⟦u2⟧"}]},
        {"role":"model","parts":[{"text":"⟦a3⟧"},{"functionCall":{"name":"f","args":{"k":"⟦k4⟧"}}},
            {"function_call":{"name":"f","args":{"k":"⟦k5⟧"}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"⟦r6⟧"}}},
            {"function_response":{"name":"f","response":{"output":"⟦r7⟧"}}},
            {"functionResponse":{"name":"f","response":{"output":"⟦r8⟧"}}}]},
        {"role":"model","parts":{"functionCall":{"id":"x","name":"f","args":{"k":"⟦k9⟧"}}}},
        {"role":"function","parts":[{"functionResponse":{"id":"y","name":"f","response":{"output":"⟦r10⟧"}}}]}],
        "system_instruction":{"parts":{"text":"⟦s1⟧"}}}"#;
    let expected = [
        "⟦s1⟧ system",
        "⟦u2⟧ user",
        "⟦a3⟧ assistant",
        "⟦k4⟧ assistant #1.0",
        "⟦k5⟧ assistant #1.1",
        "⟦r6⟧ user #1.0",
        "⟦r7⟧ user #1.1",
        "⟦r8⟧ user",
        "⟦k9⟧ assistant #3.0",
        // A result that names another call does not answer this one.
        "⟦r10⟧ tool y",
    ];
    check("gemini", body, &expected);
}

#[test]
fn ollama_pairs_by_position() {
    let body = r#"{"messages":[{"role":"system","content":"⟦s1⟧"},{"role":"user","content":"⟦u2⟧","images":["iVBORw0KGgo="]},
        {"role":"assistant","content":"⟦a3⟧","tool_calls":[{"function":{"name":"f","arguments":{"k":"⟦k4⟧"}}},
            {"function":{"name":"g","arguments":{"k":"⟦k5⟧"}}}]},
        {"role":"tool","tool_name":"f","content":"⟦r6⟧"},{"role":"tool","tool_name":"g","content":"⟦r7⟧"},
        {"role":"assistant","content":"⟦a8⟧"},{"role":"tool","content":"⟦r9⟧"}]}"#;
    let expected = [
        "⟦s1⟧ system",
        "⟦u2⟧ user",
        "⟦a3⟧ assistant",
        "⟦k4⟧ assistant #2.0",
        "⟦k5⟧ assistant #2.1",
        "⟦r6⟧ tool #2.0",
        "⟦r7⟧ tool #2.1",
        "⟦a8⟧ assistant",
        "⟦r9⟧ tool",
    ];
    check("ollama", body, &expected);
}

#[test]
fn bedrock() {
    let body = r#"{"system":[{"text":"⟦s1⟧"}],"messages":[{"role":"user","content":[{"text":"⟦u2⟧"}]},
        {"role":"assistant","content":[{"text":"⟦a3⟧"},{"toolUse":{"toolUseId":"c1","name":"f","input":{"k":"⟦k4⟧"}}}]},
        {"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"text":"⟦r5⟧"},{"json":{"a":"⟦r6⟧"}}]}}]}]}"#;
    let expected =
        ["⟦s1⟧ system", "⟦u2⟧ user", "⟦a3⟧ assistant", "⟦k4⟧ assistant c1", "⟦r5⟧ user c1", "⟦r6⟧ user c1"];
    check("bedrock", body, &expected);
}

/// Role and block, as one line each.
fn check_blocks(dialect: &str, body: &str, expected: &[&str]) {
    let blocks: Vec<String> =
        blocks(body, dialect).into_iter().map(|(role, block)| format!("{role} {block}")).collect();
    assert_eq!(blocks, expected, "{dialect}");
}

#[test]
fn blocks_are_what_a_provider_sees() {
    check_blocks(
        "openai-chat",
        r#"{"messages":[{"role":"assistant","content":null,"name":"n","tool_calls":[{"id":"c1"},{"id":"c2"}]},
            {"role":"tool","tool_call_id":"c1","content":"x"}]}"#,
        &[r#"assistant c1 {"id":"c1"}"#, r#"assistant c2 {"id":"c2"}"#, r#"assistant "n""#, r#"tool c1 "x""#],
    );
    check_blocks(
        "anthropic",
        r#"{"system":"s","messages":[{"role":"user","content":[
            {"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"text","text":"y"}]}]}"#,
        &[r#"user {"type":"text","text":"x"}"#, r#"user {"type":"text","text":"y"}"#],
    );
    check_blocks(
        "openai-responses",
        r#"{"instructions":"s","input":[{"role":"user","content":"x"},{"type":"reasoning","id":"rs_1"}]}"#,
        &["user \"x\"", r#"assistant {"type":"reasoning","id":"rs_1"}"#],
    );
    check_blocks(
        "gemini",
        r#"{"contents":[{"role":"model","parts":[{"text":"x"},{"functionCall":{"name":"f"}}]}]}"#,
        &[r#"assistant {"text":"x"}"#, r#"assistant {"functionCall":{"name":"f"}}"#],
    );
    check_blocks(
        "bedrock",
        r#"{"messages":[{"role":"user","content":[{"text":"x"},{"cachePoint":{"type":"default"}}]}]}"#,
        &[r#"user {"text":"x"}"#],
    );
    check_blocks(
        "ollama",
        r#"{"messages":[{"role":"user","content":"x","images":["b"]}]}"#,
        &[r#"user "x""#, r#"user ["b"]"#],
    );
}
