//! Every kind of fault does occur in bodies of OpenAI Responses.

use serde_json::Value;

use super::{super::responses, Counts, Shape, is_blank};

fn is(item: &Value, kind: &str) -> bool {
    item["type"] == kind
}

fn parts(item: &Value) -> &[Value] {
    item["content"].as_array().map_or(&[], Vec::as_slice)
}

fn is_output(item: &Value) -> bool {
    item["type"].as_str().is_some_and(|kind| kind.ends_with("call_output"))
}

fn is_call(item: &Value) -> bool {
    ["function_call", "custom_tool_call", "local_shell_call"].iter().any(|kind| is(item, kind))
}

fn call_id(item: &Value) -> Option<&str> {
    item["call_id"].as_str()
}

#[test]
fn messages_are_broken_in_every_way() {
    let mut counts = Counts::of(Shape::Responses);
    for role in ["user", "assistant", "system", "developer", "tool", "weird"] {
        counts.item(role, |item| is(item, "message") && item["role"] == role);
        counts.item(&format!("{role} without a type"), |item| {
            item.get("type").is_none() && item["role"] == role
        });
    }
    counts.item("no role", |item| is(item, "message") && item.get("role").is_none());
    counts.item("content is text", |item| item["content"].is_string());
    counts.item("content is blank", |item| is_blank(&item["content"]));
    counts.item("content is null", |item| {
        item["role"].is_string() && item.get("content") == Some(&Value::Null)
    });
    counts.item("no content", |item| item["role"].is_string() && item.get("content").is_none());
    counts.item("no parts", |item| item["content"].as_array().is_some_and(Vec::is_empty));
    for kind in ["input_text", "output_text", "text"] {
        for role in ["user", "assistant", "system", "tool"] {
            counts.item(&format!("{kind} of {role}"), |item| {
                item["role"] == role && parts(item).iter().any(|part| is(part, kind))
            });
        }
    }
    for kind in ["refusal", "input_image", "image_url", "input_file", "future_part"] {
        counts.item(kind, |item| parts(item).iter().any(|part| is(part, kind)));
    }
    counts.item("a blank part", |item| parts(item).iter().any(|part| is_blank(&part["text"])));
    counts.item("a part without its text", |item| {
        parts(item).iter().any(|part| is(part, "input_text") && part.get("text").is_none())
    });
    counts.item("a string for a part", |item| parts(item).iter().any(Value::is_string));
    counts.item("a number for a part", |item| parts(item).iter().any(Value::is_number));
    counts.item("half of a pair", |item| {
        item["content"].as_str().is_some_and(|text| text.contains('\u{fffd}'))
    });
    counts.item("an id of the message", |item| item["role"].is_string() && item["id"] == "msg_1");
    counts.item("calls of OpenAI Chat", |item| {
        item["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
    });
    counts.item("an item is a string", Value::is_string);
    counts.item("an item is a number", Value::is_number);
    counts.item("an item is null", Value::is_null);
    counts.item("an item is a list", Value::is_array);
    counts.item("an item is an empty object", |item| item.as_object().is_some_and(serde_json::Map::is_empty));
    counts.item("a part for an item", |item| is(item, "input_text"));
    counts.item("a role is a number", |item| item["role"].is_number());
    counts.done();
}

#[test]
fn calls_are_broken_in_every_way() {
    let mut counts = Counts::of(Shape::Responses);
    let arguments = |item: &Value| item["arguments"].as_str().map(str::to_owned);
    for (kind, prefix) in
        [("function_call", "fc_"), ("custom_tool_call", "ctc_"), ("local_shell_call", "lsh_")]
    {
        counts.item(&format!("{kind}, no id"), |item| is(item, kind) && item.get("id").is_none());
        counts.item(&format!("{kind}, its id"), |item| {
            is(item, kind) && item["id"].as_str().is_some_and(|id| id.starts_with(prefix))
        });
        counts.item(&format!("{kind}, a foreign id"), |item| is(item, kind) && item["id"] == "item_1");
        counts.item(&format!("{kind}, an empty id"), |item| is(item, kind) && item["id"] == "");
        counts.item(&format!("{kind}, no call id"), |item| is(item, kind) && item.get("call_id").is_none());
        for status in ["completed", "incomplete"] {
            counts.item(&format!("{kind}, {status}"), |item| is(item, kind) && item["status"] == status);
        }
        counts.list(&format!("{kind}, never answered"), |items| {
            let output = format!("{kind}_output");
            items.iter().any(|call| {
                is(call, kind)
                    && !items.iter().any(|item| is(item, &output) && item["call_id"] == call["call_id"])
            })
        });
    }
    counts.item("a call id too long", |item| is_call(item) && call_id(item).is_some_and(|id| id.len() > 64));
    counts.item("odd letters", |item| is_call(item) && call_id(item).is_some_and(|id| id.contains(' ')));
    counts.list("two calls, one id", |items| {
        let ids: Vec<_> = items.iter().filter(|item| is_call(item)).filter_map(call_id).collect();
        ids.iter().any(|id| ids.iter().filter(|other| *other == id).count() > 1)
    });
    counts.item("an object in a string", |item| arguments(item).is_some_and(|text| text.contains('⟦')));
    counts.item("truncated", |item| arguments(item).is_some_and(|text| text == "{\"a\":"));
    counts.item("a list", |item| arguments(item).is_some_and(|text| text == "[1]"));
    counts.item("blank", |item| arguments(item).is_some_and(|text| text.trim().is_empty()));
    counts.item("half of a pair", |item| arguments(item).is_some_and(|text| text.contains("\\ufffd")));
    counts
        .item("half of a pair outside", |item| arguments(item).is_some_and(|text| text.contains('\u{fffd}')));
    counts.item("no string but an object", |item| item["arguments"].is_object());
    counts.item("no arguments", |item| is(item, "function_call") && item.get("arguments").is_none());
    counts.item("very deep", |item| arguments(item).is_some_and(|text| text.matches('{').count() > 128));
    counts.item("no name", |item| is(item, "function_call") && item["name"] == "");
    counts.item("free text", |item| is(item, "custom_tool_call") && item["input"].is_string());
    counts.item("free text is no text", |item| is(item, "custom_tool_call") && item["input"].is_object());
    counts.item("a command", |item| is(item, "local_shell_call") && item["action"]["command"].is_array());
    counts.item("no action", |item| is(item, "local_shell_call") && !item["action"].is_object());
    counts.done();
}

#[test]
fn outputs_are_broken_in_every_way() {
    let mut counts = Counts::of(Shape::Responses);
    for kind in ["function_call_output", "custom_tool_call_output", "local_shell_call_output"] {
        counts.item(&format!("{kind}, a text"), |item| is(item, kind) && item["output"].is_string());
        counts.item(&format!("{kind}, under `id`"), |item| {
            is(item, kind) && item.get("call_id").is_none() && item.get("id").is_some()
        });
        counts.item(&format!("{kind}, without any id"), |item| {
            is(item, kind) && item.get("call_id").is_none() && item.get("id").is_none()
        });
        let call = kind.trim_end_matches("_output");
        counts.list(&format!("{kind}, an orphan"), |items| {
            items.iter().any(|item| {
                let mine = |other: &Value| is(other, call) && other["call_id"] == item["call_id"];
                is(item, kind) && item["call_id"].is_string() && !items.iter().any(mine)
            })
        });
        counts.list(&format!("{kind}, before its call"), |items| {
            items.iter().enumerate().any(|(at, item)| {
                let mine = |other: &Value| is(other, call) && other["call_id"] == item["call_id"];
                is(item, kind) && !items[..at].iter().any(mine) && items[at..].iter().any(mine)
            })
        });
        counts.list(&format!("{kind}, twice"), |items| {
            items.iter().enumerate().any(|(at, item)| {
                let again = |other: &Value| is(other, kind) && other["call_id"] == item["call_id"];
                is(item, kind) && item["call_id"].is_string() && items[at + 1..].iter().any(again)
            })
        });
        counts.list(&format!("{kind}, far away"), |items| {
            items.iter().enumerate().any(|(at, item)| {
                let mine = |other: &Value| is(other, call) && other["call_id"] == item["call_id"];
                let called = items[..at].iter().rposition(mine);
                is(item, kind)
                    && called.is_some_and(|from| items[from..at].iter().any(|item| item["role"] == "user"))
            })
        });
    }
    let listed = |item: &Value, kind: &str| {
        is_output(item)
            && item["output"].as_array().is_some_and(|parts| parts.iter().any(|part| is(part, kind)))
    };
    for kind in ["input_text", "output_text", "input_image", "input_file", "refusal"] {
        counts.item(kind, |item| listed(item, kind));
    }
    counts.item("an object", |item| is(item, "function_call_output") && item["output"].is_object());
    counts.item("null", |item| is_output(item) && item.get("output") == Some(&Value::Null));
    counts.item("nothing", |item| is(item, "function_call_output") && item.get("output").is_none());
    counts.item("blank", |item| is(item, "function_call_output") && is_blank(&item["output"]));
    counts.done();
}

#[test]
fn what_stands_beside_and_around_occurs() {
    let mut counts = Counts::of(Shape::Responses);
    for aside in responses::ASIDES {
        let beginning = aside.split('%').next().unwrap_or(aside);
        counts.text(aside, |json| json.contains(beginning));
    }
    counts.item("sealed", |item| is(item, "reasoning") && item["encrypted_content"].is_string());
    counts.item("not sealed", |item| is(item, "reasoning") && item.get("encrypted_content").is_none());
    counts.item("reasoning with an id", |item| is(item, "reasoning") && item["id"].is_string());
    counts.item("reasoning without", |item| is(item, "reasoning") && item.get("id").is_none());
    counts.item("a summary", |item| item["summary"].as_array().is_some_and(|list| !list.is_empty()));
    counts.item("no summary", |item| is(item, "reasoning") && item.get("summary").is_none());
    counts.list("reasoning at the end", |items| items.last().is_some_and(|last| is(last, "reasoning")));
    counts.list("reasoning before a user", |items| {
        items.windows(2).any(|pair| is(&pair[0], "reasoning") && pair[1]["role"] == "user")
    });
    counts.list("reasoning before its call", |items| {
        items.windows(2).any(|pair| is(&pair[0], "reasoning") && is(&pair[1], "function_call"))
    });
    counts.body("a bare list", Value::is_array);
    counts.body("one text", |body| body["input"].is_string());
    counts.list("nothing", <[Value]>::is_empty);
    for field in ["instructions", "tools", "tool_choice", "model", "store", "include"] {
        counts.body(field, |body| body.get(field).is_some_and(|value| !value.is_null()));
    }
    counts.body("no instructions", |body| body.get("instructions") == Some(&Value::Null));
    counts.body("blank instructions", |body| is_blank(&body["instructions"]));
    counts.text("instructions after the input", |json| {
        json.starts_with("{\"input\"") && json.contains("\"instructions\":\"")
    });
    counts.done();
}
