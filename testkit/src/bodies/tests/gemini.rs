//! Every kind of fault does occur in bodies of Gemini.

use serde_json::Value;

use super::{super::gemini, Counts, Shape, is_blank};

fn parts(content: &Value) -> &[Value] {
    content["parts"].as_array().map_or(std::slice::from_ref(&content["parts"]), Vec::as_slice)
}

/// Whether a content of a role, or of any, has a part that is so.
fn has(content: &Value, role: &str, is_so: impl Fn(&Value) -> bool) -> bool {
    (role.is_empty() || content["role"] == role) && parts(content).iter().any(is_so)
}

/// The `functionCall`s of a content.
fn calls(content: &Value) -> Vec<&Value> {
    parts(content).iter().filter_map(|part| part.get("functionCall")).collect()
}

fn results(content: &Value) -> Vec<&Value> {
    parts(content).iter().filter_map(|part| part.get("functionResponse")).collect()
}

#[test]
fn contents_are_broken_in_every_way() {
    let mut counts = Counts::of(Shape::Gemini);
    for role in ["user", "model", "function", "tool", "assistant", "system", "weird"] {
        counts.item(role, |item| item["role"] == role);
        counts.item(&format!("a text of {role}"), |item| has(item, role, |part| part["text"].is_string()));
        counts.item(&format!("a call of {role}"), |item| {
            has(item, role, |part| part.get("functionCall").is_some())
        });
        counts.item(&format!("a result of {role}"), |item| {
            has(item, role, |part| part.get("functionResponse").is_some())
        });
    }
    counts.item("no role", |item| item["parts"].is_array() && item.get("role").is_none());
    counts.item("an empty role", |item| item["role"] == "");
    counts.item("a role is a number", |item| item["role"].is_number());
    counts.item("no list of parts", |item| item["role"].is_string() && item.get("parts").is_none());
    counts.item("parts are null", |item| item.get("parts") == Some(&Value::Null));
    counts.item("parts are one part", |item| item["parts"].is_object());
    counts.item("no parts", |item| item["parts"].as_array().is_some_and(Vec::is_empty));
    counts.item("a blank text", |item| has(item, "", |part| is_blank(&part["text"])));
    counts.item("half of a pair", |item| {
        has(item, "", |part| part["text"].as_str().is_some_and(|text| text.contains('\u{fffd}')))
    });
    counts.item("a text that is signed", |item| {
        has(item, "model", |part| {
            part["text"].as_str().is_some_and(|text| text.contains('⟦'))
                && part.get("thoughtSignature").is_some()
        })
    });
    counts.item("a string for a part", |item| has(item, "", Value::is_string));
    counts.item("a number for a part", |item| has(item, "", Value::is_number));
    for part in gemini::PARTS {
        counts.text(part, |json| json.contains(part));
    }
    for junk in ["null", "5", "[]", "{}"] {
        counts.item(junk, |item| *item == super::parse(junk));
    }
    counts.item("an item is a string", Value::is_string);
    counts.item("a part for an item", |item| item["text"].is_string());
    counts.done();
}

#[test]
fn calls_are_broken_in_every_way() {
    let mut counts = Counts::of(Shape::Gemini);
    let call = |item: &Value, is_so: &dyn Fn(&Value) -> bool| calls(item).into_iter().any(is_so);
    counts.item("an id", |item| call(item, &|call| call["id"].is_string()));
    counts.item("no id", |item| call(item, &|call| call.get("id").is_none()));
    counts.item("an object", |item| call(item, &|call| call["args"].is_object()));
    counts.item("no args", |item| call(item, &|call| call.get("args").is_none()));
    counts.item("a string", |item| call(item, &|call| call["args"].is_string()));
    counts.item("an object in a string", |item| {
        call(item, &|call| call["args"].as_str().is_some_and(|text| text.contains('⟦')))
    });
    counts.item("a list", |item| call(item, &|call| call["args"].is_array()));
    counts.item("a number", |item| call(item, &|call| call["args"].is_number()));
    counts.item("half of a pair", |item| call(item, &|call| call["args"]["s"] == "\u{fffd}"));
    counts.item("very deep", |item| call(item, &|call| call.to_string().matches('{').count() > 128));
    counts.item("no name", |item| call(item, &|call| call["name"] == ""));
    let signed = |part: &Value| part.get("functionCall").is_some() && part.get("thoughtSignature").is_some();
    counts.item("signed", |item| has(item, "model", signed));
    counts.item("not signed", |item| {
        has(item, "model", |part| part.get("functionCall").is_some() && !signed(part))
            && !has(item, "model", signed)
    });
    counts.item("only the first is signed", |item| {
        let signs: Vec<bool> =
            parts(item).iter().filter(|part| part.get("functionCall").is_some()).map(signed).collect();
        signs.len() > 1 && signs[0] && !signs[1]
    });
    counts.item("snake case", |item| {
        has(item, "", |part| part.get("function_call").is_some() && part.get("thought_signature").is_some())
    });
    counts.done();
}

#[test]
fn results_are_broken_in_every_way() {
    let mut counts = Counts::of(Shape::Gemini);
    let result = |item: &Value, is_so: &dyn Fn(&Value) -> bool| results(item).into_iter().any(is_so);
    for field in ["output", "result", "error", "content", "stdout"] {
        counts.item(field, |item| result(item, &|result| result["response"].get(field).is_some()));
    }
    counts.item("a tree", |item| result(item, &|result| result["response"]["output"].is_object()));
    counts.item("a string", |item| result(item, &|result| result["response"].is_string()));
    counts.item("a list", |item| result(item, &|result| result["response"].is_array()));
    counts.item("null", |item| result(item, &|result| result.get("response") == Some(&Value::Null)));
    counts.item("nothing", |item| result(item, &|result| result.get("response").is_none()));
    counts.item("blank", |item| result(item, &|result| is_blank(&result["response"]["output"])));
    counts.item("media", |item| result(item, &|result| result["parts"].is_array()));
    counts.item("an id", |item| result(item, &|result| result["id"].is_string()));
    counts.item("no id", |item| result(item, &|result| result.get("id").is_none()));
    counts.item("no name", |item| result(item, &|result| result.get("name").is_none()));
    counts.item("snake case", |item| has(item, "", |part| part.get("function_response").is_some()));
    counts.item("mixed with text", |item| {
        has(item, "user", |part| part["text"].is_string()) && !results(item).is_empty()
    });
    let names = |list: &[&Value]| list.iter().map(|part| part["name"].to_string()).collect::<Vec<_>>();
    let after_calls = |items: &[Value], is_so: &dyn Fn(&[&Value], &[&Value]) -> bool| {
        items.windows(2).any(|pair| {
            let (calls, results) = (calls(&pair[0]), results(&pair[1]));
            !calls.is_empty() && pair[0]["role"] == "model" && is_so(&calls, &results)
        })
    };
    counts.list("in order", |items| {
        after_calls(items, &|calls, results| calls.len() > 1 && names(calls) == names(results))
    });
    counts.list("in wrong order", |items| {
        after_calls(items, &|calls, results| {
            let reversed: Vec<_> = names(results).into_iter().rev().collect();
            calls.len() > 1 && names(calls) == reversed && names(calls) != names(results)
        })
    });
    counts.list("one is missing", |items| {
        after_calls(items, &|calls, results| !results.is_empty() && results.len() < calls.len())
    });
    counts.list("none came", |items| after_calls(items, &|_, results| results.is_empty()));
    counts.list("one too many", |items| after_calls(items, &|calls, results| results.len() > calls.len()));
    counts.list("a wrong name", |items| {
        after_calls(items, &|calls, results| {
            results.len() == 1 && calls.len() == 1 && names(calls) != names(results)
        })
    });
    counts.list("ids on one side only", |items| {
        after_calls(items, &|calls, results| {
            calls[0]["id"].is_string() && results.first().is_some_and(|result| result.get("id").is_none())
        })
    });
    counts.list("over two contents", |items| {
        items.windows(3).any(|three| {
            let (calls, first, second) = (calls(&three[0]), results(&three[1]), results(&three[2]));
            let both = [&first[..], &second[..]].concat();
            !first.is_empty() && !second.is_empty() && names(&calls) == names(&both)
        })
    });
    counts.list("a result first, without a call", |items| {
        items.first().is_some_and(|first| !results(first).is_empty() && calls(first).is_empty())
    });
    counts.done();
}

#[test]
fn what_stands_around_occurs() {
    let mut counts = Counts::of(Shape::Gemini);
    counts.body("a bare list", Value::is_array);
    counts.body("one content", |body| body["contents"].is_object());
    counts.list("nothing", <[Value]>::is_empty);
    let system = "systemInstruction";
    counts.body("no system", |body| body.get(system) == Some(&Value::Null));
    counts.body("a string", |body| body[system].is_string());
    counts.body("a part", |body| body[system]["text"].is_string());
    counts.body("one part", |body| body["system_instruction"]["parts"].is_object());
    counts.body("parts", |body| body[system]["parts"][0]["text"].is_string());
    counts.body("a blank part", |body| is_blank(&body[system]["parts"][1]["text"]));
    counts.body("strings for parts", |body| body[system]["parts"][0].is_string());
    for role in ["system", "user"] {
        counts.body(role, |body| body[system]["role"] == role || body["system_instruction"]["role"] == role);
    }
    counts.body("functions", |body| body["tools"][0]["functionDeclarations"].is_array());
    counts.body("functions in snake case", |body| body["tools"][0]["function_declarations"].is_array());
    counts.body("a built-in tool", |body| body["tools"][0]["googleSearch"].is_object());
    for field in ["toolConfig", "generationConfig", "model"] {
        counts.body(field, |body| body.get(field).is_some());
    }
    counts.text("the system after the contents", |json| {
        json.starts_with("{\"contents\"") && json.contains("\"systemInstruction\":{")
    });
    counts.done();
}
