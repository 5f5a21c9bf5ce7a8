//! The tools in the form that models see: their declarations, and results that every provider accepts.

use rejoin_formats::{Dialect, Target, context::Context};
use rejoin_record::{Form, Message, Role, ToolCall, ToolResult};
use rejoin_view::{History, OnBroken, repair};
use serde_json::Value;

use super::*;

fn every_tool(folder: &std::path::Path) -> Tools {
    let run = Run::new(crate::sandbox::Policy::new(folder), std::time::Duration::from_secs(1), 1_000);
    Tools::builtin(folder).with(run).with(Delegate).with_fetch()
}

/// Plans a call and runs it as if it were approved.
pub(in crate::tools) async fn called(tool: &dyn Tool, arguments: &str) -> ToolOutput {
    let (live, stop) = (LiveOutput::default(), crate::turn::Stop::new());
    match tool.plan(arguments).await {
        Ok(Plan::Changes(planned)) => {
            let call = RunningCall {
                file: planned.file.as_ref().map(|file| &file.change),
                ..RunningCall::with(arguments, &live, &stop)
            };
            tool.run(call).await
        }
        Ok(_) => tool.run(RunningCall::with(arguments, &live, &stop)).await,
        Err(output) => output,
    }
}

#[test]
fn a_tool_is_replaced_in_its_place() {
    let mut tools = Tools::builtin(".");
    let before = tools.declarations();
    tools.add(Arc::new(ReadFile::new("/")));
    assert_eq!(tools.declarations(), before);
}

#[test]
fn names_and_arguments_are_a_contract() {
    let tools = every_tool(std::path::Path::new("."));
    let mut declared = String::new();
    for tool in tools.declarations() {
        let schema: Value = serde_json::from_str(tool.schema.as_ref().unwrap().as_str()).unwrap();
        assert_eq!(schema["type"], "object");
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let arguments = schema["properties"].as_object().unwrap().iter().map(|(name, argument)| {
            assert!(argument["description"].is_string() || &*tool.name == "calculate", "{name}");
            format!(" {name}{}", if required.contains(&name.as_str()) { "" } else { "?" })
        });
        declared.push_str(&format!("{}{}\n", tool.name, arguments.collect::<String>()));
        if &*tool.name != "calculate" {
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        }
    }
    let expected = "calculate expression\nread_file path from? lines?\nlist_dir path?\nfind pattern path?\n\
                    grep pattern path? glob? context?\nrecall query? message? from?\nwrite_file path content confidence?\n\
                    edit_file path edits confidence?\n";
    assert_eq!(declared, format!("{expected}run command timeout_s?\ndelegate task tools?\nfetch url\n"));
    let reading = Tools::reading(&Workspace::new(".")).declarations();
    let names: Vec<&str> = reading.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["calculate", "read_file", "list_dir", "find", "grep", "recall"]);
}

/// Every dialect's checker accepts the declarations, and an image in a result.
#[test]
fn every_provider_accepts_the_tools_and_an_image() {
    let folder = tempfile::tempdir().unwrap();
    // An image of one white pixel.
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc\xf8\x0f\0\0\x01\x01\0\x05\x18\xd8N\0\0\0\0IEND\xaeB`\x82";
    std::fs::write(folder.path().join("dot.png"), png).unwrap();
    let tools = every_tool(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let output = runtime.block_on(called(&**tools.get("read_file").unwrap(), r#"{"path":"dot.png"}"#));
    assert_eq!((output.media.len(), output.is_error), (1, false));
    let mut result = ToolResult { name: Some("read_file".into()), ..ToolResult::new("call_1", output.text) };
    result.form = Form::Parts;
    result.content.extend(output.media);
    let messages = [
        Message::user("What is in dot.png?"),
        Message::assistant_with_tools(vec![ToolCall::new("call_1", "read_file", r#"{"path":"dot.png"}"#)]),
        Message { form: Form::Text, ..Message::new(Role::Tool, vec![Block::result(result)]) },
        Message::assistant("A white dot."),
        Message::user("Thank you."),
    ];
    let history: History = messages.into_iter().collect();
    let view = repair(&history, OnBroken::Keep).view;
    for dialect in Dialect::all() {
        let context = Context {
            dialect: Some(dialect),
            whole_body: true,
            offered: tools.declarations(),
            ..Context::default()
        };
        let target = Target {
            model: Some(String::from("some-model")),
            max_tokens: Some(1_000),
            ..Target::of(&context)
        };
        let body = dialect.wire().encode(&view, &target).unwrap().body;
        assert!(testkit::refusals(dialect, body.as_bytes()).is_empty(), "{dialect}: {body}");
        for tool in tools.declarations() {
            assert!(body.contains(&format!("\"{}\"", &*tool.name)), "{dialect} lacks {}", tool.name);
        }
        let is_there = body.contains("iVBORw0KGgo") || body.contains("image unavailable");
        assert!(is_there, "{dialect}: {body}");
    }
}
