//! Bodies that the checker of this dialect must accept and refuse, for the suite in `conformance_tests.rs`. Must not
//! use the codec.

use serde_json::json;

use super::*;
use crate::conformance_tests::{Case, Suite, conformance, with};

const SUITE: Suite = Suite {
    dialect: "openai-responses",
    list: "input",
    fixtures: 25,
    rules: "RSP-01 RSP-02 RSP-04 RSP-06 RSP-07 RSP-09 RSP-10 RSP-11 RSP-12 RSP-13 RSP-16 RSP-schema OAC-12 \
            SAN-02 SAN-07 SAN-09",
    // These bodies are too large or too odd for the table.
    elsewhere: &["OAC-12", "SAN-02", "SAN-07"],
    holder: r#"{"input":[{"role":"user","content":"go","extra":@}]}"#,
    levels: 997,
};

conformance! { SUITE:
    pairing_cases kind_cases reasoning_cases id_cases call_cases word_cases shown_cases shell_cases
    status_cases setting_cases schema_cases
}

fn pairing_cases() -> Vec<Case> {
    let answered = || items([user("go"), call("a"), call("b"), output("b"), output("a")]);
    let twice = |first: &str, second: &str| {
        let opened = [call(first), output(first), says("so"), user("again")];
        items(opened.into_iter().chain([call(second), output(second)]))
    };
    vec![
        (vec!["RSP-01"], answered(), items([user("go"), call("a"), call("b"), output("a")])),
        (vec!["RSP-01"], answered(), items([user("go"), call("a")])),
        (
            vec!["RSP-01"],
            items([call("a"), user("still there?"), says("yes"), output("a"), user("so?")]),
            items([call("a"), user("still there?"), says("yes"), user("so?")]),
        ),
        (vec!["RSP-02"], items([user("go")]), items([user("go"), output("a")])),
        (vec!["RSP-02"], answered(), items([call("a"), output("b"), output("a")])),
        (vec!["RSP-02", "RSP-01"], items([call("a"), output("a")]), items([output("a"), call("a")])),
        (vec!["RSP-10"], answered(), items([call("a"), output("a"), output("a")])),
        (vec!["RSP-10"], twice("a", "b"), twice("a", "a")),
        (vec!["RSP-10", "RSP-10"], answered(), items([call("a"), call("a"), output("a"), output("a")])),
        (vec!["RSP-10", "RSP-01"], answered(), items([call("a"), output("a"), call("a")])),
    ]
}

/// Each kind of call is answered by its own kind of output.
fn kind_cases() -> Vec<Case> {
    let pairs = kinds();
    let mut cases = Vec::new();
    for (k, (call, output)) in pairs.iter().enumerate() {
        let other = &pairs[(k + 1) % pairs.len()];
        let answered = items([call.clone(), output.clone()]);
        cases.push((vec!["RSP-01"], answered.clone(), items([call.clone()])));
        cases.push((vec!["RSP-02"], answered.clone(), items([output.clone()])));
        cases.push((vec!["RSP-01", "RSP-02"], answered.clone(), items([call.clone(), other.1.clone()])));
        let both = [call.clone(), output.clone(), other.0.clone(), other.1.clone()];
        cases.push((vec!["RSP-10"], answered.clone(), items(both)));
        for end in [call, output] {
            let nameless = without(end.clone(), "call_id");
            cases.push((vec!["RSP-schema"], answered.clone(), items([nameless])));
        }
    }
    let searched = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}});
    let unknown = json!({"type": "dream_call", "call_id": "a", "id": "anything at all"});
    cases.push((vec!["RSP-01"], items([searched.clone()]), items([call("a")])));
    cases.push((vec!["RSP-schema"], items([searched.clone()]), items([unknown])));
    let bent = json!({"type": "web_search_call", "id": "ws_1", "action": "look"});
    cases.push((vec!["RSP-schema"], items([searched]), items([bent])));
    let asked = hosted("mcp_approval_request", "mcpr_1");
    let allowed = json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true});
    cases.push((vec!["RSP-02"], items([asked, allowed.clone()]), items([allowed])));
    let found = |id: Value| {
        let search = json!({"type": "tool_search_call", "call_id": id, "arguments": {"query": "a"}});
        items([search, json!({"type": "tool_search_output", "call_id": "a", "tools": []})])
    };
    cases.push((vec!["RSP-02"], found(json!("a")), found(Value::Null)));
    for kind in ["file_search_call", "mcp_call", "mcp_list_tools", "image_generation_call", "program"] {
        let nameless = without(hosted(kind, "x"), "id");
        cases.push((vec!["RSP-schema"], items([hosted("image_generation_call", "ig_1")]), items([nameless])));
    }
    cases
}

/// An item of a tool that the provider ran, with every field that any of them needs.
fn hosted(kind: &str, id: &str) -> Value {
    json!({"type": kind, "id": id, "status": "completed", "queries": [], "container_id": "c", "result": "r",
        "server_label": "s", "tools": [], "name": "n", "arguments": "{}", "call_id": "p", "code": "1",
        "fingerprint": "f"})
}

/// One of each kind of call, all with the same `call_id`, and its output.
fn kinds() -> Vec<(Value, Value)> {
    let exec = json!({"type": "exec", "command": ["ls"], "env": {}});
    let exit = json!([{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]);
    let patch = json!({"type": "update_file", "path": "a", "diff": "+b"});
    let screen = json!({"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="});
    vec![
        (call("a"), output("a")),
        (
            json!({"type": "custom_tool_call", "call_id": "a", "name": "n", "input": "free"}),
            json!({"type": "custom_tool_call_output", "call_id": "a", "output": "fine"}),
        ),
        (
            json!({"type": "local_shell_call", "call_id": "a", "status": "completed", "action": exec}),
            json!({"type": "local_shell_call_output", "call_id": "a", "output": "fine"}),
        ),
        (
            json!({"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}}),
            json!({"type": "shell_call_output", "call_id": "a", "output": exit}),
        ),
        (
            json!({"type": "apply_patch_call", "call_id": "a", "status": "completed", "operation": patch}),
            json!({"type": "apply_patch_call_output", "call_id": "a", "status": "completed"}),
        ),
        (
            json!({"type": "computer_call", "call_id": "a", "action": {"type": "wait"}}),
            json!({"type": "computer_call_output", "call_id": "a", "output": screen}),
        ),
    ]
}

fn reasoning_cases() -> Vec<Case> {
    let after = |next: Value| items([user("go"), thought("blob"), next]);
    let holding = |field: &str, value: Value| items([with(thought("blob"), field, value), says("so")]);
    let lacking = |field: &str| items([without(thought("blob"), field), says("so")]);
    let sealed = |blob: Value| holding("encrypted_content", blob);
    let good = || after(says("so"));
    let search = json!({"type": "web_search_call", "id": "ws_1"});
    let asked = hosted("mcp_approval_request", "mcpr_1");
    let allowed = json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true});
    let refused = items([asked.clone(), user("go"), thought("blob"), allowed]);
    let referred = |reference: Value| items([user("go"), reference]);
    vec![
        (vec!["RSP-04"], good(), items([user("go"), thought("blob")])),
        (vec!["RSP-04"], good(), after(user("so?"))),
        (vec!["RSP-04"], after(search), after(json!({"role": "system", "content": "hm"}))),
        (
            vec!["RSP-04"],
            items([thought("a"), thought("b"), says("so")]),
            items([thought("a"), thought("b")]),
        ),
        (
            vec!["RSP-04"],
            items([thought("a"), call("a"), output("a")]),
            items([call("a"), thought("a"), output("a")]),
        ),
        (vec!["RSP-04"], after(asked), refused),
        (vec!["RSP-06"], good(), lacking("encrypted_content")),
        (vec!["RSP-06"], good(), sealed(Value::Null)),
        (vec!["RSP-06"], good(), referred(json!({"type": "item_reference", "id": "rs_1"}))),
        (vec!["RSP-06"], good(), referred(json!({"id": "msg_1"}))),
        (vec!["RSP-07"], sealed(json!("x")), sealed(json!(""))),
        (vec!["RSP-07"], good(), sealed(json!({"blob": "x"}))),
        (vec!["RSP-schema"], holding("summary", json!([])), lacking("summary")),
        (vec!["RSP-schema"], holding("summary", json!([])), holding("summary", Value::Null)),
        (vec!["RSP-schema"], good(), holding("summary", json!(["hm"]))),
        (
            vec!["RSP-schema"],
            holding("summary", json!([{"type": "summary_text", "text": ""}])),
            holding("summary", json!([{"type": "summary_text"}])),
        ),
        (vec!["RSP-schema"], holding("content", Value::Null), holding("content", json!("hm"))),
        (
            vec!["RSP-schema"],
            holding("content", json!([{"type": "reasoning_text", "text": "hm"}])),
            holding("content", json!([{"type": "output_text", "text": "hm"}])),
        ),
    ]
}

fn id_cases() -> Vec<Case> {
    let identified = |item: Value, id: Value| with(item, "id", id);
    let message = |id: &str| items([identified(says("so"), json!(id))]);
    let mut cases = vec![
        (vec!["RSP-09"], message("msg_1"), message("item_1")),
        (vec!["RSP-09"], message("msg_1-b_C"), message("msg_a.b")),
        (vec!["RSP-09"], message("msg_1"), message("msg_")),
        (vec!["RSP-09"], message("msg_1"), message("msg_1_")),
        (vec!["RSP-09"], message("msg_1"), message("")),
        (
            vec!["RSP-09"],
            message(&format!("msg_{}", "1".repeat(60))),
            message(&format!("msg_{}", "1".repeat(61))),
        ),
        (vec!["RSP-schema"], items([says("so")]), items([identified(says("so"), Value::Null)])),
        (
            vec!["RSP-09"],
            items([identified(user("so"), json!("msg_1"))]),
            items([identified(user("so"), json!("call_1"))]),
        ),
        (
            vec!["RSP-schema"],
            items([call("a"), identified(output("a"), Value::Null)]),
            items([call("a"), identified(output("a"), json!(1))]),
        ),
        (
            vec!["RSP-10"],
            items([identified(says("a"), json!("msg_1")), identified(says("b"), json!("msg_2"))]),
            items([identified(says("a"), json!("msg_1")), identified(says("b"), json!("msg_1"))]),
        ),
        (
            vec!["RSP-10"],
            items([call("a"), identified(output("a"), json!("any name: it is free"))]),
            items([identified(call("a"), json!("fc_1")), identified(output("a"), json!("fc_1"))]),
        ),
    ];
    let provided = |kind: &str| without(hosted(kind, ""), "call_id");
    let prefixes =
        [("rs_", thought("blob")), ("fc_", call("a")), ("ws_", json!({"type": "web_search_call"}))];
    let of_the_provider = "fs_ file_search_call ig_ image_generation_call ci_ code_interpreter_call mcp_ mcp_call \
                           mcpl_ mcp_list_tools mcpr_ mcp_approval_request";
    let words: Vec<&str> = of_the_provider.split(' ').collect();
    let prefixes = prefixes.into_iter().chain(words.chunks(2).map(|pair| (pair[0], provided(pair[1]))));
    let shells = ["fc_", "ctc_", "lsh_", "sh_", "apc_", "cu_"].into_iter().zip(kinds());
    let all = prefixes.map(|(prefix, item)| (prefix, item, output("a")));
    for (prefix, item, answer) in all.chain(shells.map(|(prefix, (item, answer))| (prefix, item, answer))) {
        let with = |id: &str| {
            let calls = item["call_id"].is_string();
            let next = if calls { answer.clone() } else { says("so") };
            items([identified(item.clone(), json!(id)), next])
        };
        cases.push((vec!["RSP-09"], with(&format!("{prefix}1")), with("item_1")));
    }
    // The API's types give this output the id of its call.
    let (shell, answer) = kinds().swap_remove(2);
    let named = items([identified(shell, json!("lsh_1")), identified(answer, json!("lsh_1"))]);
    cases.push((vec!["RSP-09"], named, message("lsh_1")));
    cases
}

fn call_cases() -> Vec<Case> {
    let with_id = |id: &str| items([call(id), output(id)]);
    let looping = |field: &str, value: Value| items([with(call("a"), field, value), output("a")]);
    let custom = |field: &str, value: Value| {
        let (call, output) = kinds().swap_remove(1);
        items([with(call, field, value), output])
    };
    let lacking = |field: &str| items([without(call("a"), field), output("a")]);
    vec![
        (vec!["RSP-11", "RSP-11"], with_id(&"é".repeat(64)), with_id(&"x".repeat(65))),
        (vec!["RSP-11", "RSP-11"], with_id("functions.x:0"), with_id("")),
        (vec!["RSP-schema", "RSP-02"], with_id("a"), looping("call_id", json!(1))),
        (vec!["RSP-16"], looping("arguments", json!("{}")), looping("arguments", json!({}))),
        (vec!["RSP-16"], looping("arguments", json!("{\"a\":")), looping("arguments", Value::Null)),
        (vec!["RSP-16"], looping("arguments", json!("")), lacking("arguments")),
        (vec!["RSP-16"], custom("input", json!("")), custom("input", json!({}))),
        (vec!["RSP-schema"], looping("name", json!("read_file-2")), looping("name", json!("read.file"))),
        (vec!["RSP-schema"], looping("name", json!("n".repeat(64))), looping("name", json!("n".repeat(65)))),
        (vec!["RSP-schema"], looping("name", json!("n")), looping("name", json!(""))),
        (vec!["RSP-schema"], looping("name", json!("n")), looping("name", json!(7))),
        (vec!["RSP-schema"], looping("name", json!("n")), lacking("name")),
        (vec!["RSP-schema"], custom("name", json!("n")), custom("name", json!("ü"))),
    ]
}

fn word_cases() -> Vec<Case> {
    let by = |role: &str, content: Value| items([json!({"role": role, "content": content})]);
    let answered = |output: Value| {
        items([call("a"), json!({"type": "function_call_output", "call_id": "a", "output": output})])
    };
    let text = json!({"type": "input_text", "text": ""});
    let said = json!({"type": "output_text", "text": "", "annotations": []});
    let refusal = json!({"type": "refusal", "refusal": "no"});
    let image =
        json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"});
    let file = json!({"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"});
    let stored = json!({"type": "input_image", "file_id": "file_1", "image_url": null});
    let chat = json!({"type": "input_image", "image_url": {"url": "data:"}});
    vec![
        (vec!["RSP-12"], by("assistant", json!([said, refusal])), by("assistant", json!([text]))),
        (vec!["RSP-12"], by("user", json!([text, image, file])), by("user", json!([said]))),
        (vec!["RSP-12"], by("developer", json!([text, image])), by("system", json!([refusal]))),
        (vec!["RSP-12"], by("user", json!([stored])), by("user", json!([{"type": "text", "text": "hi"}]))),
        (vec!["RSP-12"], by("user", json!([stored])), by("user", json!([{"text": "hi"}]))),
        (vec!["RSP-12"], answered(json!([text, image, file])), answered(json!([said]))),
        (vec!["RSP-12"], by("assistant", json!("hi")), by("assistant", json!([image]))),
        (vec!["RSP-13"], by("developer", json!("")), by("tool", json!(""))),
        (vec!["RSP-13"], by("system", json!("")), by("function", json!(""))),
        (vec!["RSP-13"], by("user", json!(" ")), items([json!({"type": "message", "content": ""})])),
        (vec!["RSP-13"], by("user", json!("")), items([json!({"role": null, "content": ""})])),
        (vec!["RSP-schema"], by("user", json!("")), by("user", Value::Null)),
        (vec!["RSP-schema"], by("user", json!("")), items([json!({"role": "user"})])),
        (vec!["RSP-schema"], by("user", json!([text])), by("user", json!([]))),
        (vec!["RSP-schema"], by("user", json!([text])), by("user", json!(["hi"]))),
        (vec!["RSP-schema"], by("user", json!([text])), by("user", json!([{"type": "input_text"}]))),
        (vec!["RSP-schema"], by("user", json!([image])), by("user", json!([{"type": "input_image"}]))),
        (
            vec!["SAN-09"],
            by("user", json!([file])),
            by("user", json!([{"type": "input_file", "file_data": "JVBERi0="}])),
        ),
        (
            vec!["SAN-09"],
            by("user", json!([{"type": "input_file", "file_url": "https://example.org/a.pdf"}])),
            by("user", json!([{"type": "input_file", "file_url": "a.pdf"}])),
        ),
        (
            vec!["RSP-schema"],
            by("user", json!([stored])),
            by(
                "user",
                json!([{"type": "input_image", "file_id": "f", "image_url": "https://example.org/a"}]),
            ),
        ),
        (vec!["RSP-schema"], by("user", json!([image])), by("user", json!([chat]))),
        (
            vec!["RSP-schema"],
            by("user", json!([file])),
            by("user", json!([{"type": "input_file", "file_data": ""}])),
        ),
        (
            vec!["RSP-schema"],
            by("assistant", json!([said])),
            by("assistant", json!([{"type": "output_text", "text": "", "annotations": {}}])),
        ),
        (
            vec!["RSP-schema"],
            by("assistant", json!([refusal])),
            by("assistant", json!([{"type": "refusal", "text": "no"}])),
        ),
        (vec!["RSP-schema"], answered(json!("")), answered(Value::Null)),
        (vec!["RSP-schema"], answered(json!("")), answered(json!({"a": 1}))),
        (
            vec!["RSP-schema"],
            answered(json!("")),
            items([call("a"), json!({"type": "function_call_output", "call_id": "a"})]),
        ),
    ]
}

fn shown_cases() -> Vec<Case> {
    image_cases(|url| items([user(json!([{"type": "input_image", "image_url": url}]))]))
}

fn shell_cases() -> Vec<Case> {
    let bent = |kind: usize, of_output: bool, place: &str, value: Value| {
        let (mut call, mut output) = kinds().swap_remove(kind);
        let item = if of_output { &mut output } else { &mut call };
        *item.pointer_mut(place).unwrap() = value;
        items([call, output])
    };
    let call = |kind, place, value| bent(kind, false, place, value);
    let output = |kind, place, value| bent(kind, true, place, value);
    let schema = || vec!["RSP-schema"];
    vec![
        (schema(), call(2, "/action/env", Value::Null), call(2, "/action/env", json!([]))),
        (schema(), call(2, "/action/command", json!([])), call(2, "/action/command", json!("ls"))),
        (schema(), call(2, "/action/type", json!("exec")), call(2, "/action/type", json!("run"))),
        (schema(), call(2, "/action/command", json!(["ls", "-l"])), call(2, "/action/command", json!([1]))),
        (schema(), output(2, "/output", json!("")), output(2, "/output", json!([]))),
        (schema(), call(3, "/action", json!({"commands": []})), call(3, "/action", json!({}))),
        (schema(), output(3, "/output", json!([])), output(3, "/output", json!("fine"))),
        (schema(), output(3, "/output/0/stdout", json!("")), output(3, "/output/0/stdout", Value::Null)),
        (schema(), output(3, "/output/0/stderr", json!("")), output(3, "/output/0/stderr", json!(1))),
        (
            schema(),
            output(3, "/output/0/outcome", json!({"type": "timeout"})),
            output(3, "/output/0/outcome", json!({"type": "exit"})),
        ),
        (
            schema(),
            output(3, "/output/0/outcome/exit_code", json!(-1)),
            output(3, "/output/0/outcome", json!("exit")),
        ),
        (
            schema(),
            call(4, "/operation", json!({"type": "delete_file", "path": "a"})),
            call(4, "/operation", json!({"type": "create_file", "path": "a"})),
        ),
        (schema(), call(4, "/operation/path", json!("b")), call(4, "/operation/path", json!(1))),
        (schema(), call(4, "/operation/type", json!("create_file")), call(4, "/operation/type", json!("x"))),
        (schema(), output(5, "/output", json!({"file_id": "f"})), output(5, "/output", json!("fine"))),
    ]
}

fn status_cases() -> Vec<Case> {
    let in_state = |item: Value, status: &str| with(item, "status", json!(status));
    let stateless = |item: &Value| without(item.clone(), "status");
    let silenced = |item: &Value| with(item.clone(), "status", Value::Null);
    let said = |status: &str| items([in_state(says("so"), status)]);
    let answered = |status: Value| items([call("a"), with(output("a"), "status", status)]);
    let (shell, shown) = kinds().swap_remove(2);
    let (patch, done) = kinds().swap_remove(4);
    let showing = |output: Value| with(done.clone(), "output", output);
    let patched = || items([in_state(patch.clone(), "in_progress"), in_state(done.clone(), "failed")]);
    vec![
        (vec!["RSP-schema"], said("incomplete"), said("done")),
        (vec!["RSP-schema"], said("completed"), items([silenced(&says("so"))])),
        (vec!["RSP-schema"], answered(Value::Null), answered(json!(1))),
        (
            vec!["RSP-schema"],
            items([in_state(call("a"), "completed"), output("a")]),
            items([in_state(call("a"), "failed"), output("a")]),
        ),
        (
            vec!["RSP-schema"],
            items([in_state(thought("blob"), "completed"), says("so")]),
            items([in_state(thought("blob"), ""), says("so")]),
        ),
        (vec!["RSP-schema"], items([shell.clone(), shown.clone()]), items([stateless(&shell), shown])),
        (vec!["RSP-schema"], patched(), items([stateless(&patch), done.clone()])),
        (vec!["RSP-schema"], patched(), items([patch.clone(), stateless(&done)])),
        (vec!["RSP-schema"], patched(), items([patch.clone(), silenced(&done)])),
        (vec!["RSP-schema"], patched(), items([in_state(patch.clone(), "incomplete"), done.clone()])),
        (vec!["RSP-schema"], patched(), items([patch.clone(), in_state(done.clone(), "in_progress")])),
        (
            vec!["RSP-schema"],
            items([patch.clone(), showing(json!("patched"))]),
            items([patch.clone(), showing(json!(["patched"]))]),
        ),
    ]
}

fn setting_cases() -> Vec<Case> {
    let setting = |field: &str, value: Value| json!({field: value, "input": "go"});
    let function = |name: &str| json!({"type": "function", "name": name, "parameters": null});
    let tools = |count: usize| setting("tools", (0..count).map(|k| function(&format!("n{k}"))).collect());
    let chosen = |choice: Value| with(tools(2), "tool_choice", choice);
    let schemed = |parameters: Value| {
        setting("tools", json!([{"type": "function", "name": "n", "parameters": parameters}]))
    };
    let one = |tool: Value| setting("tools", json!([tool]));
    let schema = || vec!["RSP-schema"];
    vec![
        (schema(), setting("instructions", Value::Null), setting("instructions", json!([]))),
        (schema(), tools(0), setting("tools", Value::Null)),
        (schema(), tools(128), tools(129)),
        (schema(), one(function("n-1")), one(function("n.1"))),
        (schema(), one(json!({"type": "custom", "name": "n"})), one(json!({"type": "custom"}))),
        (schema(), one(json!({"type": "web_search"})), one(json!({"name": "n"}))),
        (schema(), tools(1), one(json!("web_search"))),
        (schema(), tools(1), one(json!({"type": "function", "function": {"name": "n"}}))),
        (schema(), tools(2), setting("tools", json!([function("n"), function("n")]))),
        (schema(), schemed(json!({"type": "object"})), schemed(json!([]))),
        (schema(), setting("tool_choice", json!("auto")), setting("tool_choice", json!("required"))),
        (schema(), chosen(json!("required")), chosen(json!("any"))),
        (schema(), chosen(function("n1")), chosen(function("n2"))),
        (schema(), chosen(json!({"type": "web_search"})), chosen(json!({"name": "n1"}))),
    ]
}

fn schema_cases() -> Vec<Case> {
    let schema = || vec!["RSP-schema"];
    let good = || items([user("go")]);
    let extended = json!({"type": "message", "role": "assistant", "content": "hi", "phase": "commentary"});
    let settings = json!({"input": "", "store": true, "previous_response_id": "resp_1", "text": {}});
    vec![
        (schema(), settings, json!([])),
        (schema(), good(), json!({})),
        (vec!["RSP-schema", "RSP-schema"], good(), json!({"messages": [{"role": "user", "content": "go"}]})),
        (schema(), good(), json!({"input": null})),
        (schema(), good(), items([])),
        (schema(), items([extended]), items([json!("go")])),
        (schema(), good(), items([json!({})])),
        (schema(), good(), items([json!({"type": null, "role": "user", "content": "hi"})])),
        (schema(), good(), items([json!({"content": "hi"})])),
    ]
}

#[test]
fn a_text_past_the_length_limit_is_refused() {
    SUITE.limits(MAX_TEXT, "OAC-12", |length| items([user("é".repeat(length))]));
    SUITE.limits(MAX_TEXT, "OAC-12", |length| {
        let output = json!({"type": "function_call_output", "call_id": "a", "output": "x".repeat(length)});
        items([call("a"), output])
    });
}

#[test]
fn violations_come_in_document_order_in_the_words_of_the_api() {
    let patch = kinds().swap_remove(4).0;
    let reasoned = with(thought("blob"), "id", json!("item_1"));
    let body = items([patch, output("c"), reasoned, json!({"role": "tool", "content": "fine"})]);
    let told = SUITE.reported(&body);
    let expect = [
        "RSP-01 at input.0: No tool output found for apply patch call a.",
        "RSP-02 at input.1: No tool call found for function call output with call_id c.",
        "RSP-09 at input.2.id: Invalid 'input[2].id': 'item_1'. Expected an ID that begins with 'rs'.",
        "RSP-04 at input.2: Item 'item_1' of type 'reasoning' was provided without its required following item.",
        "RSP-13 at input.3.role: Invalid value: 'tool'. Supported values are: 'assistant', 'system', \
         'developer', and 'user'.",
    ];
    assert_eq!(told, expect);
    let long = SUITE.check(items([call(&"x".repeat(116)), output(&"x".repeat(116))]).to_string().as_bytes());
    let expect = "Invalid 'input[0].call_id': string too long. Expected a string with maximum length 64, but \
                  got a string with length 116 instead.";
    assert_eq!(long[0].message, expect);
}

fn items(items: impl IntoIterator<Item = Value>) -> Value {
    SUITE.request(items)
}

fn without(mut item: Value, field: &str) -> Value {
    item.as_object_mut().unwrap().remove(field);
    item
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn says(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "fine"})
}

fn thought(blob: &str) -> Value {
    json!({"type": "reasoning", "summary": [], "encrypted_content": blob})
}
