//! Reasoning is replayed only to its issuer, and only after exactly the messages that it was issued on.

use std::{collections::HashMap, sync::Arc};

use proptest::prelude::*;
use rejoin_formats::{Context, Dialect, Draft, draft::issued};
use rejoin_record::{BlockKind, Content, Kind, Message, Origin, Role, Text, ToolResult};
use rejoin_view::{OnBroken, Repairer};
use serde_json::{Value, json};
use testkit::scan;

use super::support::*;

/// Someone who answers.
#[derive(Debug, Clone)]
struct Provider {
    dialect: Dialect,
    origin: Origin,
    thinking: bool,
}

fn provider(dialect: Dialect, account: &str, model: &str) -> Provider {
    let origin = Origin {
        dialect: Some(dialect.name().into()),
        provider: Some(format!("{dialect} of {account}").into()),
        endpoint: Some("https://example.test".into()),
        account: Some(account.into()),
        model: Some(model.into()),
        ..Origin::default()
    };
    Provider { dialect, origin, thinking: true }
}

fn providers() -> Vec<Provider> {
    vec![
        provider(Dialect::Anthropic, "one", "claude"),
        provider(Dialect::Anthropic, "two", "claude"),
        provider(Dialect::OpenAiResponses, "one", "gpt"),
        provider(Dialect::Gemini, "one", "gemini"),
        provider(Dialect::Gemini, "one", "gemini-other"),
        provider(Dialect::OpenAiChat, "one", "router"),
        provider(Dialect::Ollama, "one", "qwen"),
        provider(Dialect::Ollama, "two", "qwen"),
        provider(Dialect::Mistral, "one", "magistral"),
        provider(Dialect::Bedrock, "one", "nova"),
    ]
}

impl Provider {
    fn context(&self) -> Context {
        let mut context = Context {
            dialect: Some(self.dialect),
            whole_body: true,
            instructions: Some(INSTRUCTIONS.into()),
            offered: vec![tool("read"), tool("list.all")],
            ..Context::default()
        };
        if self.dialect == Dialect::Anthropic && self.thinking {
            context.put("max_tokens", "4000");
            context.put("thinking", r#"{"type":"enabled","budget_tokens":2000}"#);
        }
        context.before_messages = context.fields.len();
        context
    }

    fn draft(&self) -> Draft {
        let model = self.origin.model.as_deref().map(str::to_owned);
        Draft::new(self.dialect, self.context(), model, self.origin.clone())
    }

    /// An answer that thinks, says something and calls tools; `number` makes its secret unique.
    fn answer(&self, number: usize, calls: usize) -> Message {
        let secret = secret(number);
        let tool = "read";
        let id = |call: usize| format!("call{number:03}x{call}");
        let response = match self.dialect {
            Dialect::Anthropic => {
                let mut content = vec![
                    json!({"type":"thinking","thinking":format!("thought {number}"),"signature":secret}),
                    json!({"type":"text","text":format!("said {number}")}),
                ];
                content.extend((0..calls).map(|call| {
                    json!({"type":"tool_use","id":format!("toolu_{}", id(call)),"name":tool,"input":{"path":"a"}})
                }));
                json!({"role":"assistant","model":"claude","content":content})
            }
            Dialect::OpenAiResponses => {
                let mut output = vec![
                    json!({"type":"reasoning","id":format!("rs_{number}"),"summary":[],"encrypted_content":secret}),
                    json!({"type":"message","id":format!("msg_{number}"),"role":"assistant","status":"completed",
                        "content":[{"type":"output_text","text":format!("said {number}"),"annotations":[]}]}),
                ];
                output.extend((0..calls).map(|call| {
                    json!({"type":"function_call","id":format!("fc_{}", id(call)),"call_id":id(call),"name":tool,"arguments":"{\"path\":\"a\"}"})
                }));
                json!({"model":"gpt","status":"completed","output":output})
            }
            Dialect::Gemini => {
                let mut parts = vec![json!({"text":format!("said {number}")})];
                parts.extend((0..calls).map(|_| json!({"functionCall":{"name":tool,"args":{"path":"a"}}})));
                let last = if calls == 0 { 0 } else { 1 };
                parts[last]["thoughtSignature"] = json!(secret);
                json!({"candidates":[{"content":{"role":"model","parts":parts},"finishReason":"STOP"}]})
            }
            Dialect::OpenAiChat => {
                let mut message = json!({"role":"assistant","content":format!("said {number}"),
                    "reasoning_details":[{"type":"reasoning.encrypted","data":secret}]});
                if calls > 0 {
                    let list: Vec<Value> = (0..calls)
                        .map(|call| {
                            json!({"id":id(call),"type":"function",
                        "function":{"name":tool,"arguments":"{\"path\":\"a\"}"}})
                        })
                        .collect();
                    message["tool_calls"] = json!(list);
                }
                json!({"choices":[{"message":message}]})
            }
            Dialect::Ollama => {
                let list: Vec<Value> = (0..calls)
                    .map(|_| json!({"function":{"name":tool,"arguments":{"path":number}}}))
                    .collect();
                json!({"model":"qwen","message":{"role":"assistant","content":format!("said {number}"),
                    "thinking":format!("plain {secret}"),"tool_calls":list}})
            }
            Dialect::Mistral => {
                let mut message = json!({"role":"assistant","content":[
                    {"type":"thinking","thinking":[{"type":"text","text":format!("plain {secret}")}]},
                    {"type":"text","text":format!("said {number}")}]});
                if calls > 0 {
                    let list: Vec<Value> = (0..calls)
                        .map(|call| {
                            json!({"id":id(call).chars().take(9).collect::<String>(),
                        "function":{"name":tool,"arguments":"{\"path\":\"a\"}"}})
                        })
                        .collect();
                    message["tool_calls"] = json!(list);
                }
                json!({"model":"magistral","choices":[{"message":message}]})
            }
            Dialect::Bedrock => json!({"output":{"message":{"role":"assistant","content":[
                {"reasoningContent":{"reasoningText":{"text":"hm","signature":secret}}},
                {"text":format!("said {number}")}]}}}),
        };
        self.dialect.wire().decode(response.to_string().as_bytes()).message.unwrap()
    }
}

/// What stands where a signature is missing.
const SENTINEL: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

fn secret(number: usize) -> String {
    format!("c2VjcmV0{number:04}")
}

/// What a model sees before each message: instructions and tools, then every block.
fn seen(body: &Value, dialect: Dialect) -> Vec<String> {
    let fields = ["system", "instructions", "systemInstruction", "tools", "toolConfig"];
    let around = fields.iter().map(|name| format!("{name} {}", body[name]));
    let blocks = scan::blocks(&body.to_string(), dialect.name());
    around.chain(blocks.into_iter().map(|(role, block)| format!("{role} {block}"))).collect()
}

fn results(message: &Message) -> Vec<Message> {
    let result = |id: &str| {
        let mut result = Message::tool(id.to_owned(), format!("result of {id}"));
        if let BlockKind::ToolResult(ToolResult { name, .. }) = &mut result.blocks[0].kind {
            *name = Some("read".into());
        }
        result
    };
    message.tool_calls().map(|call| result(call.id.as_str())).collect()
}

/// The request that a provider gets now, and what an answer to it stands on.
fn sent(repairer: &mut Repairer, draft: &mut Draft) -> (Value, Option<Text>) {
    repairer.seal();
    let drafted = draft.request(&repairer.view().view).unwrap();
    let text = drafted.body.to_string();
    assert_eq!(text.len(), drafted.body.len());
    (scan::parse(&text), drafted.prefix)
}

/// A turn: the number of the provider, how often it calls tools before it is done, how many at once, whether the turn is cut off
/// before the last results, and whether each request begins a new draft.
type Turn = (usize, usize, usize, bool, bool);

fn run(turns: &[Turn], policy: OnBroken) -> Result<usize, TestCaseError> {
    let all = providers();
    let mut drafts: HashMap<usize, Draft> = HashMap::new();
    let mut repairer = Repairer::new(policy);
    // What each secret was issued on, by whom.
    let mut known: HashMap<usize, (usize, Vec<String>)> = HashMap::new();
    let mut replayed = 0;
    let push = |repairer: &mut Repairer, message: Message| repairer.push(Arc::new(message), &[]);
    let mut number = 0;
    for (who, rounds, calls, cut, fresh) in turns.iter().copied() {
        push(&mut repairer, Message::user(format!("ask {number}")));
        for round in 0..=rounds {
            let provider = &all[who];
            if fresh {
                drafts.remove(&who);
            }
            let draft = drafts.entry(who).or_insert_with(|| provider.draft());
            let (body, prefix) = sent(&mut repairer, draft);
            let text = body.to_string();
            let violations = testkit::refusals(provider.dialect, text.as_bytes());
            prop_assert!(violations.is_empty(), "{}\n{text}\n{violations:#?}", provider.dialect);
            let now = seen(&body, provider.dialect);
            for (old, (issuer, before)) in &known {
                if text.contains(&secret(*old)) {
                    replayed += 1;
                    let plain = matches!(provider.dialect, Dialect::Ollama | Dialect::Mistral);
                    prop_assert_eq!(*issuer, who, "what {} thought went elsewhere", old);
                    prop_assert!(
                        plain || now.starts_with(before),
                        "{old} stands on something else\n{before:#?}\n{now:#?}"
                    );
                }
            }
            let calls = if round < rounds { calls + 1 } else { 0 };
            let mut answer = provider.answer(number, calls);
            issued(&mut answer, &Origin { prefix, ..provider.origin.clone() });
            known.insert(number, (who, now));
            number += 1;
            let results = results(&answer);
            push(&mut repairer, answer);
            let arrived =
                if cut && round + 1 == rounds { results.len().saturating_sub(1) } else { results.len() };
            results.into_iter().take(arrived).for_each(|result| push(&mut repairer, result));
        }
    }
    Ok(replayed)
}

proptest! {
    #![proptest_config(testkit::law_cases(8))]

    /// Whatever a conversation went through: every request is taken, no secret goes to someone else, and none stands on
    /// anything but what it was issued on.
    #[test]
    fn nothing_is_replayed_elsewhere(
        turns in proptest::collection::vec((0..10usize, 0..3usize, 0..3usize, any::<bool>(), any::<bool>()), 1..7),
        drop in any::<bool>(),
    ) {
        run(&turns, if drop { OnBroken::Drop } else { OnBroken::Keep })?;
    }
}

/// As long as nothing is changed, everything that a provider issued goes back to it, in every request, also after others
/// have answered.
#[test]
fn everything_is_replayed_where_it_was_issued() {
    for who in 0..9 {
        let turn = (who, 2, 1, false, false);
        // Requests 1, 2, 3 of a turn carry what was issued in it before; those of the second turn all of the first, too.
        let replayed = run(&[turn, turn], OnBroken::Keep).unwrap();
        assert_eq!(replayed, (0..6).sum::<usize>(), "{:?}", providers()[who].dialect);
        // Someone else in between: what was issued before goes back, what came later stands on what it stood on.
        let other = if who == 2 { 0 } else { 2 };
        let replayed = run(&[turn, (other, 0, 0, false, false), turn], OnBroken::Keep).unwrap();
        assert_eq!(replayed, (0..6).sum::<usize>(), "{:?}", providers()[who].dialect);
    }
}

/// Reasoning from a stream that ended early is not replayed, because its signature is missing; nor is reasoning that another
/// endpoint, account or model issued.
#[test]
fn what_is_incomplete_or_from_elsewhere_is_left_out() {
    let provider = provider(Dialect::Anthropic, "one", "claude");
    let request = |change: &dyn Fn(&mut Origin)| {
        let mut repairer = Repairer::new(OnBroken::Keep);
        let mut draft = provider.draft();
        repairer.push(Arc::new(Message::user("ask")), &[]);
        let (_, prefix) = sent(&mut repairer, &mut draft);
        let mut answer = provider.answer(1, 0);
        let mut origin = Origin { prefix, ..provider.origin.clone() };
        change(&mut origin);
        let incomplete = origin.incomplete;
        issued(&mut answer, &origin);
        for block in &mut answer.blocks {
            if let BlockKind::Reasoning(reasoning) = &mut block.kind {
                reasoning.origin.incomplete = incomplete;
            }
        }
        repairer.push(Arc::new(answer), &[]);
        repairer.push(Arc::new(Message::user("again")), &[]);
        sent(&mut repairer, &mut draft).0.to_string().contains(&secret(1))
    };
    assert!(request(&|_| {}));
    let text = || Some(Text::new("another"));
    let changes: [&dyn Fn(&mut Origin); 7] = [
        &|origin| origin.incomplete = true,
        &|origin| origin.provider = text(),
        &|origin| origin.endpoint = None,
        &|origin| origin.account = text(),
        &|origin| origin.model = text(),
        &|origin| origin.dialect = text(),
        &|origin| origin.prefix = text(),
    ];
    for (number, change) in changes.iter().enumerate() {
        assert!(!request(change), "change {number}");
    }
}

/// With other instructions or other tools, nothing stands on what it stood on.
#[test]
fn other_instructions_or_tools_are_another_prefix() {
    for provider in providers().into_iter().take(6) {
        let mut repairer = Repairer::new(OnBroken::Keep);
        repairer.push(Arc::new(Message::user("ask")), &[]);
        let (_, prefix) = sent(&mut repairer, &mut provider.draft());
        let mut answer = provider.answer(1, 0);
        issued(&mut answer, &Origin { prefix, ..provider.origin.clone() });
        repairer.push(Arc::new(answer), &[]);
        repairer.push(Arc::new(Message::user("again")), &[]);
        let view = repairer.view().view;
        let shows = |change: &dyn Fn(&mut Context)| {
            let mut context = provider.context();
            change(&mut context);
            let model = provider.origin.model.as_deref().map(str::to_owned);
            let mut draft = Draft::new(provider.dialect, context, model, provider.origin.clone());
            draft.request(&view).unwrap().body.to_string().contains(&secret(1))
        };
        assert!(shows(&|_| {}), "{}", provider.dialect);
        assert!(!shows(&|context| context.instructions = Some("others".into())), "{}", provider.dialect);
        assert!(!shows(&|context| context.offered.push(tool("third"))), "{}", provider.dialect);
        // What no model sees changes nothing.
        assert!(shows(&|context| context.put("temperature", "1")), "{}", provider.dialect);
    }
}

/// ANT-18: thinking stays on where the last tool loop begins with what was thought, and goes off where it cannot.
#[test]
fn thinking_stays_on_as_long_as_it_is_replayed() {
    let (here, elsewhere) = (&providers()[0], &providers()[2]);
    for (asked, kind) in [(here, "enabled"), (elsewhere, "disabled")] {
        let mut repairer = Repairer::new(OnBroken::Keep);
        repairer.push(Arc::new(Message::user("ask")), &[]);
        let (_, prefix) = sent(&mut repairer, &mut asked.draft());
        let mut answer = asked.answer(1, 2);
        issued(&mut answer, &Origin { prefix, ..asked.origin.clone() });
        let results = results(&answer);
        repairer.push(Arc::new(answer), &[]);
        results.into_iter().for_each(|result| repairer.push(Arc::new(result), &[]));
        let (body, _) = sent(&mut repairer, &mut here.draft());
        assert_eq!(body["thinking"]["type"], kind);
    }
}

/// Gemini signs calls and texts: who issued that is kept with the message, through the record.
#[test]
fn who_signed_is_recorded() {
    let gemini = &providers()[3];
    let mut repairer = Repairer::new(OnBroken::Keep);
    repairer.push(Arc::new(Message::user("ask")), &[]);
    let (_, prefix) = sent(&mut repairer, &mut gemini.draft());
    let mut answer = gemini.answer(1, 1);
    issued(&mut answer, &Origin { prefix, ..gemini.origin.clone() });
    let entries = [
        (Kind::Message, Content::Message(Message::user("ask"))),
        (Kind::Message, Content::Message(answer.clone())),
    ];
    let back = recorded(&entries);
    assert_eq!(*back.messages[1], answer);
    assert_eq!(answer.role, Role::Assistant);
    // In a request of another model's, and of another prefix, the sentinel takes the signature's place.
    for (other, shown) in [(3, true), (4, false)] {
        let mut repairer = Repairer::new(OnBroken::Keep);
        back.messages.iter().for_each(|message| repairer.push(Arc::clone(message), &[]));
        results(&answer).into_iter().for_each(|result| repairer.push(Arc::new(result), &[]));
        let (body, _) = sent(&mut repairer, &mut providers()[other].draft());
        let text = body.to_string();
        assert_eq!(text.contains(&secret(1)), shown, "{text}");
        assert_eq!(text.contains(SENTINEL), !shown, "{text}");
    }
}

/// Reasoning without a recorded prefix keeps the rule of bodies: it stays while nothing before it changes.
#[test]
fn reasoning_that_was_read_from_a_body_stays_while_nothing_changes() {
    let thinking = r#"{"type":"thinking","thinking":"t","signature":"c2VjcmV00001"}"#;
    let body = format!(
        r#"{{"model":"claude","max_tokens":9,"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":[{thinking},{{"type":"text","text":"b"}}]}},{{"role":"user","content":"c"}}]}}"#
    );
    let session = session(&body, "anthropic").unwrap();
    for (model, shown) in [("claude", true), ("another", false)] {
        let origin = Origin { model: Some(model.into()), ..providers()[0].origin.clone() };
        let mut draft = Draft::new(Dialect::Anthropic, session.context.clone(), Some(model.into()), origin);
        let mut repairer = Repairer::new(OnBroken::Keep);
        session.messages.iter().for_each(|message| repairer.push(Arc::clone(message), &[]));
        let (body, _) = sent(&mut repairer, &mut draft);
        assert_eq!(body.to_string().contains("c2VjcmV00001"), shown);
    }
}

/// What is changed in a message itself is changed for what was thought after it.
#[test]
fn what_stands_behind_a_change_in_its_own_message_is_left_out() {
    let thinking = |text: &str| json!({"type":"thinking","thinking":"t","signature":text});
    let call = json!({"type":"tool_use","id":"toolu_1","name":"read","input":{}});
    let response = json!({"role":"assistant","content":[thinking("Zmlyc3Q="),call,thinking("c2Vjb25k")]});
    let signed = |part: Value, signature: &str| {
        let mut part = part;
        part["thoughtSignature"] = json!(signature);
        part
    };
    let parts = |name: &str| {
        let call = json!({"functionCall":{"name":name,"args":{}}});
        json!({"candidates":[{"content":{"role":"model","parts":[
            signed(json!({"text":"x"}), "Zmlyc3Q="), call, signed(json!({"text":"y"}), "c2Vjb25k")]},"finishReason":"STOP"}]})
    };
    // A call whose id is taken gets another one; so does a tool whose name is refused.
    let cases = [
        (0, response.clone(), false, true),
        (0, response, true, false),
        (3, parts("read"), false, true),
        (3, parts("bad name!"), false, false),
    ];
    for (who, response, taken, stays) in cases {
        let provider = &providers()[who];
        let mut repairer = Repairer::new(OnBroken::Keep);
        repairer.push(Arc::new(Message::user("ask")), &[]);
        if taken {
            let earlier = vec![rejoin_record::ToolCall::new("toolu_1", "read", "{}")];
            repairer.push(Arc::new(Message::assistant_with_tools(earlier)), &[]);
            repairer.push(Arc::new(Message::tool("toolu_1", "result")), &[]);
        }
        let (_, prefix) = sent(&mut repairer, &mut provider.draft());
        let decoded = provider.dialect.wire().decode(response.to_string().as_bytes());
        let mut answer = decoded.message.unwrap();
        issued(&mut answer, &Origin { prefix, ..provider.origin.clone() });
        let results = results(&answer);
        repairer.push(Arc::new(answer), &[]);
        results.into_iter().for_each(|result| repairer.push(Arc::new(result), &[]));
        let body = sent(&mut repairer, &mut provider.draft()).0.to_string();
        assert!(body.contains("Zmlyc3Q="), "what stands before the change stays\n{body}");
        assert_eq!(body.contains("c2Vjb25k"), stays, "{body}");
    }
}

/// Messages written in the dialect itself are sent byte for byte, and the prefix that an answer is bound to covers those bytes.
#[test]
fn answers_stand_on_messages_as_they_were_written() {
    let bodies = [
        (0, r#"{"messages":[{"role":"user", "content":[{"type":"text","text":"a"}]}]}"#),
        (2, r#"{"input":[{"type":"message","role":"user", "content":"a"}]}"#),
        (3, r#"{"contents":[{"role":"user", "parts":[{"text":"a"}]}]}"#),
        (5, r#"{"messages":[{"role":"user", "content":"a"}]}"#),
    ];
    for (who, body) in bodies {
        let provider = &providers()[who];
        let read = session(body, provider.dialect.name()).unwrap();
        let mut repairer = Repairer::new(OnBroken::Keep);
        read.messages.iter().for_each(|message| repairer.push(Arc::clone(message), &[]));
        let mut draft = provider.draft();
        let (_, prefix) = sent(&mut repairer, &mut draft);
        let mut answer = provider.answer(1, 0);
        issued(&mut answer, &Origin { prefix, ..provider.origin.clone() });
        repairer.push(Arc::new(answer), &[]);
        repairer.push(Arc::new(Message::user("again")), &[]);
        repairer.seal();
        let text = draft.request(&repairer.view().view).unwrap().body.to_string();
        assert!(text.contains("\"role\":\"user\", "), "{text}");
        assert!(text.contains(&secret(1)), "{text}");
    }
}
