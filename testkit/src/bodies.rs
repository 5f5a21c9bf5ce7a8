//! Arbitrary request bodies, broken in every way that real ones are, and the truth about what they hold.
//!
//! A body is generated as a plan and then written as JSON text, so that spellings which no JSON library would write are
//! in it too. Every text carries a token that occurs once, such as `⟦u7⟧`; [`Truth`] lists the tokens in source order.

use proptest::{collection::vec, option, prelude::*, sample::select};

/// The two shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// OpenAI Chat.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
}

impl Shape {
    /// The dialect's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-chat",
            Self::Anthropic => "anthropic",
        }
    }
}

/// A body, and what is in it.
#[derive(Debug, Clone)]
pub struct Body {
    /// The JSON.
    pub json: String,
    /// Its shape.
    pub shape: Shape,
    /// What it holds.
    pub truth: Truth,
}

/// What a body holds.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Tokens of texts that people, models and instructions said, in source order: the first letter is the role.
    pub said: Vec<String>,
    /// Tokens of results.
    pub results: Vec<String>,
    /// Calls: token in the arguments, and id; only calls whose arguments are an object.
    pub calls: Vec<(String, String, usize)>,
    /// Results with ids: token, id, message.
    pub answers: Vec<(String, String, usize)>,
    /// Ids of all calls, whatever their arguments.
    pub call_ids: Vec<String>,
}

/// How a text looks around its token.
#[derive(Debug, Clone, Copy)]
pub enum Dress {
    /// Just words.
    Plain,
    /// Several lines and quotes.
    Lines,
    /// A NUL and an escape sequence.
    Control,
    /// Half of a surrogate pair.
    Lone,
    /// Nothing but white space, without a token.
    Blank,
    /// Nothing at all.
    Empty,
}

fn dress() -> impl Strategy<Value = Dress> {
    prop_oneof![
        8 => Just(Dress::Plain), 2 => Just(Dress::Lines), 1 => Just(Dress::Control), 1 => Just(Dress::Lone),
        1 => Just(Dress::Blank), 1 => Just(Dress::Empty)
    ]
}

const IDS: &[&str] = &[
    "c1",
    "c2",
    "c3",
    "c4",
    "functions.read:0",
    "a b",
    "call_2_0",
    "c1_2",
    "toolu_01234567890123456789012345678901234567890123456789012345678901234567",
];
const NAMES: &[&str] = &["read", "run_tests", "mcp.files:list", "", "näme"];
/// Arguments as text, and whether they are an object (then a token goes in front).
const OBJECTS: &[&str] = &[
    "{%}",
    "{%,\"a\":1}",
    " {%, \"n\": 123456789012345678901234567890.5e400 } ",
    "{%,\"a\":1,\"a\":2}",
    "{%,\"e\":\"\\u0000\"}",
    "{%,\"s\":\"\\ud83d\"}",
    "{%,\"o\":{\"p\":[1,[2]]}}",
];
const NO_OBJECTS: &[&str] = &["{\"a\":", "[1]", "\"x\"", "not json", "5", "{\"a\":NaN}"];
const BLANKS: &[&str] = &["", " "];

#[derive(Debug, Clone)]
enum Args {
    Object(usize),
    NoObject(usize),
    Blank(usize),
    Absent,
    /// The other dialect's dress: JSON where a string should stand, or the other way round.
    Swapped(usize),
    Deep(usize),
}

fn args() -> impl Strategy<Value = Args> {
    prop_oneof![
        8 => (0..OBJECTS.len()).prop_map(Args::Object), 1 => (0..NO_OBJECTS.len()).prop_map(Args::NoObject),
        1 => (0..BLANKS.len()).prop_map(Args::Blank), 1 => Just(Args::Absent),
        1 => (0..OBJECTS.len()).prop_map(Args::Swapped), 1 => select(vec![126usize, 128, 129, 300]).prop_map(Args::Deep)
    ]
}

#[derive(Debug, Clone)]
struct Call {
    id: Option<usize>,
    name: usize,
    args: Args,
}

fn call() -> impl Strategy<Value = Call> {
    (option::weighted(0.95, id()), prop_oneof![6 => 0..2usize, 1 => 2..NAMES.len()], args())
        .prop_map(|(id, name, args)| Call { id, name, args })
}

fn id() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..4usize, 1 => 4..IDS.len()]
}

#[derive(Debug, Clone)]
enum Part {
    Text(Dress),
    Image(bool),
    Refusal(Dress),
    Odd(usize),
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        8 => dress().prop_map(Part::Text), 1 => any::<bool>().prop_map(Part::Image), 1 => dress().prop_map(Part::Refusal),
        1 => (0..4usize).prop_map(Part::Odd)
    ]
}

#[derive(Debug, Clone)]
enum Content {
    Text(Dress),
    Parts(Vec<Part>),
    Null,
    Absent,
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        6 => dress().prop_map(Content::Text), 3 => vec(part(), 0..3).prop_map(Content::Parts), 1 => Just(Content::Null),
        1 => Just(Content::Absent)
    ]
}

#[derive(Debug, Clone)]
enum Thinking {
    Signed,
    Unsigned,
    Redacted,
}

#[derive(Debug, Clone)]
enum Block {
    Part(Part),
    Call(Call),
    Result(Option<usize>, Content, bool),
    Thinking(Thinking),
    ServerTool { call: bool, result: bool },
    Marked(Dress),
}

fn block() -> impl Strategy<Value = Block> {
    let thinking = prop_oneof![3 => Just(Thinking::Signed), 1 => Just(Thinking::Unsigned), 1 => Just(Thinking::Redacted)];
    prop_oneof![
        5 => part().prop_map(Block::Part), 5 => call().prop_map(Block::Call),
        5 => (option::weighted(0.95, id()), content(), prop::bool::weighted(0.2)).prop_map(|(i, c, e)| Block::Result(i, c, e)),
        2 => thinking.prop_map(Block::Thinking),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(call, result)| Block::ServerTool { call, result }),
        1 => dress().prop_map(Block::Marked)
    ]
}

#[derive(Debug, Clone)]
enum Message {
    Speaker(&'static str, Content),
    Assistant {
        content: Content,
        calls: Vec<Call>,
        reasoning: Option<usize>,
        calls_field: usize,
    },
    Tool(Option<usize>, Content),
    LegacyCall(Args),
    LegacyResult(Content),
    Blocks(&'static str, Vec<Block>, bool),
    Junk(usize),
    /// A user, a batch of calls, and all of its results: what most of a real conversation looks like.
    Turn(Vec<Call>, Vec<Content>, bool),
}

fn openai_message() -> impl Strategy<Value = Message> {
    let role = select(vec!["user", "user", "user", "system", "developer", "assistant", "weird", "human"]);
    prop_oneof![
        5 => (role, content()).prop_map(|(role, content)| Message::Speaker(role, content)),
        5 => (content(), vec(call(), 0..4), option::weighted(0.2, 0..3usize), prop_oneof![9 => Just(0usize), 1 => 1..3usize])
            .prop_map(|(content, calls, reasoning, calls_field)| Message::Assistant { content, calls, reasoning, calls_field }),
        6 => (option::weighted(0.95, id()), content()).prop_map(|(id, content)| Message::Tool(id, content)),
        4 => (vec(call(), 1..4), vec(content(), 4), any::<bool>()).prop_map(|(c, r, t)| Message::Turn(c, r, t)),
        1 => args().prop_map(Message::LegacyCall), 1 => content().prop_map(Message::LegacyResult),
        1 => (0..JUNK.len()).prop_map(Message::Junk),
        1 => (select(vec!["user", "assistant"]), vec(block(), 0..3), Just(false)).prop_map(|(r, b, e)| Message::Blocks(r, b, e)),
    ]
}

fn anthropic_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        3 => (select(vec!["user", "assistant", "system", "weird"]), content()).prop_map(|(r, c)| Message::Speaker(r, c)),
        4 => (vec(call(), 1..4), vec(content(), 4), any::<bool>()).prop_map(|(c, r, t)| Message::Turn(c, r, t)),
        8 => (select(vec!["user", "assistant", "assistant"]), vec(block(), 0..4), prop::bool::weighted(0.1))
            .prop_map(|(role, blocks, extra)| Message::Blocks(role, blocks, extra)),
        1 => (option::weighted(0.95, id()), content()).prop_map(|(id, content)| Message::Tool(id, content)),
        1 => (0..JUNK.len()).prop_map(Message::Junk),
    ]
}

const JUNK: &[&str] =
    &["null", "5", "[]", "{}", "\"%\"", "{\"content\":\"%\"}", "{\"role\":7,\"content\":\"%\"}"];

/// What surrounds the messages.
#[derive(Debug, Clone)]
struct Around {
    whole: bool,
    tools: usize,
    system: Option<Dress>,
    thinking: bool,
    model: bool,
    spaced: bool,
}

fn around() -> impl Strategy<Value = Around> {
    (
        prop::bool::weighted(0.7),
        0..4usize,
        option::of(dress()),
        prop::bool::weighted(0.2),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(whole, tools, system, thinking, model, spaced)| Around {
            whole,
            tools,
            system,
            thinking,
            model,
            spaced,
        })
}

/// An arbitrary body of a shape.
pub fn body(shape: Shape) -> BoxedStrategy<Body> {
    let messages = match shape {
        Shape::OpenAi => vec(openai_message(), 0..9).boxed(),
        Shape::Anthropic => vec(anthropic_message(), 0..9).boxed(),
    };
    (messages, around())
        .prop_map(move |(messages, around)| Writer::new(shape).body(&messages, &around))
        .boxed()
}

/// An arbitrary body of either shape.
pub fn any_body() -> BoxedStrategy<Body> {
    prop_oneof![body(Shape::OpenAi), body(Shape::Anthropic)].boxed()
}

/// What an engine appends after a request was sent: a user message, then an assistant message with calls, then all of its
/// results, as messages of the shape.
pub fn continuation(shape: Shape) -> BoxedStrategy<Vec<String>> {
    let sound_call = (id(), 0..2usize, 0..2usize).prop_map(|(id, name, object)| Call {
        id: Some(id),
        name,
        args: Args::Object(object),
    });
    vec(sound_call, 0..3)
        .prop_map(move |calls| {
            let mut calls = calls;
            calls.dedup_by_key(|call| call.id);
            let mut writer = Writer::new(shape);
            writer.counter = 1000;
            let mut messages = vec![writer.speaker("user", &Content::Text(Dress::Plain))];
            let results = vec![Content::Text(Dress::Plain); calls.len()];
            if calls.is_empty() {
                messages.push(writer.speaker("assistant", &Content::Text(Dress::Plain)));
            } else {
                messages.extend(writer.turn(&calls, &results, false).into_iter().skip(1));
            }
            messages
        })
        .boxed()
}

struct Writer {
    shape: Shape,
    counter: usize,
    message: usize,
    truth: Truth,
}

impl Writer {
    fn new(shape: Shape) -> Self {
        Self { shape, counter: 0, message: 0, truth: Truth::default() }
    }

    fn token(&mut self, letter: char) -> String {
        self.counter += 1;
        format!("⟦{letter}{}⟧", self.counter)
    }

    /// The inside of a string literal, and the token in it.
    fn dressed(&mut self, dress: Dress, letter: char) -> (String, Option<String>) {
        if let Dress::Blank = dress {
            return (" \\n\\t".into(), None);
        }
        if let Dress::Empty = dress {
            return (String::new(), None);
        }
        let token = self.token(letter);
        let text = match dress {
            Dress::Lines => format!("first \\\"{token}\\\"\\nsecond\\u00e9"),
            Dress::Control => format!("\\u0000{token}\\u001b[31m"),
            Dress::Lone => format!("{token}\\ud83d!"),
            _ => format!("words {token}"),
        };
        (text, Some(token))
    }

    fn said(&mut self, dress: Dress, letter: char) -> String {
        let (text, token) = self.dressed(dress, letter);
        self.truth.said.extend(token);
        text
    }

    fn part(&mut self, part: &Part, letter: char) -> String {
        match part {
            Part::Text(dress) => format!("{{\"type\":\"text\",\"text\":\"{}\"}}", self.note(*dress, letter)),
            Part::Refusal(dress) if self.shape == Shape::OpenAi => {
                format!("{{\"type\":\"refusal\",\"refusal\":\"{}\"}}", self.note(*dress, letter))
            }
            Part::Refusal(dress) => format!("\"{}\"", self.note(*dress, letter)),
            Part::Image(true) if self.shape == Shape::OpenAi => {
                "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw0KGgo=\"}}".into()
            }
            Part::Image(true) => {
                "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}".into()
            }
            Part::Image(false) => {
                "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"\"}}".into()
            }
            Part::Odd(0) => "{\"type\":\"future_block\",\"x\":[1,2]}".into(),
            Part::Odd(1) => "7".into(),
            Part::Odd(2) => "{\"type\":\"text\"}".into(),
            Part::Odd(_) => format!("{{\"type\":\"input_text\",\"text\":\"{}\"}}", self.note(Dress::Plain, letter)),
        }
    }

    /// A text inside a part: of a result for `r`, else said.
    fn note(&mut self, dress: Dress, letter: char) -> String {
        if letter != 'r' {
            return self.said(dress, letter);
        }
        let (text, token) = self.dressed(dress, 'r');
        self.truth.results.extend(token);
        text
    }

    fn content(&mut self, content: &Content, letter: char) -> Option<String> {
        Some(match content {
            Content::Text(dress) => format!("\"{}\"", self.note(*dress, letter)),
            Content::Parts(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.part(part, letter)).collect();
                format!("[{}]", parts.join(", "))
            }
            Content::Null => "null".into(),
            Content::Absent => return None,
        })
    }

    fn speaker(&mut self, role: &str, content: &Content) -> String {
        let letter = match role {
            "assistant" => 'a',
            "system" | "developer" => 's',
            _ => 'u',
        };
        match self.content(content, letter) {
            Some(content) => format!("{{\"role\":\"{role}\", \"content\":{content}}}"),
            None => format!("{{\"role\":\"{role}\",\"name\":\"x\"}}"),
        }
    }

    /// The text of arguments; a token goes into an object.
    fn arguments(&mut self, args: &Args, id: Option<usize>) -> Option<String> {
        let mut with_token = |object: &str| {
            let token = self.token('k');
            if let Some(id) = id {
                self.truth.calls.push((token.clone(), IDS[id].into(), self.message));
            }
            object.replace('%', &format!("\"k\":\"{token}\""))
        };
        Some(match args {
            Args::Object(index) | Args::Swapped(index) => with_token(OBJECTS[*index]),
            Args::NoObject(index) => NO_OBJECTS[*index].into(),
            Args::Blank(index) => BLANKS[*index].into(),
            Args::Deep(depth) => {
                let mut text = "{\"d\":".repeat(depth - 1);
                text.push_str("{}");
                text.push_str(&"}".repeat(depth - 1));
                text
            }
            Args::Absent => return None,
        })
    }

    fn call(&mut self, call: &Call) -> String {
        if let Some(id) = call.id {
            self.truth.call_ids.push(IDS[id].into());
        }
        let id = call.id.map_or_else(String::new, |id| format!("\"id\":\"{}\",", IDS[id]));
        let text = self.arguments(&call.args, call.id);
        let name = NAMES[call.name];
        let quoted = |text: &str| serde_json::to_string(text).expect("BUG: a string is JSON");
        let is_json = |text: &str| serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
        match self.shape {
            Shape::OpenAi => {
                let arguments = match (&call.args, &text) {
                    (_, None) => String::new(),
                    (Args::Swapped(_), Some(text)) => format!(",\"arguments\":{text}"),
                    (_, Some(text)) => format!(",\"arguments\":{}", quoted(text)),
                };
                format!("{{{id}\"type\":\"function\",\"function\":{{\"name\":\"{name}\"{arguments}}}}}")
            }
            Shape::Anthropic => {
                let input = match (&call.args, &text) {
                    (_, None) => String::new(),
                    (Args::Swapped(_), Some(text)) => format!(",\"input\":{}", quoted(text)),
                    (_, Some(text)) if is_json(text) => format!(",\"input\":{text}"),
                    (_, Some(text)) => format!(",\"input\":{}", quoted(text)),
                };
                format!("{{\"type\":\"tool_use\",{id}\"name\":\"{name}\"{input}}}")
            }
        }
    }

    fn answered(&mut self, before: usize, id: Option<usize>) {
        if let Some(id) = id {
            for token in &self.truth.results[before..] {
                self.truth.answers.push((token.clone(), IDS[id].into(), self.message));
            }
        }
    }

    fn tool(&mut self, id: Option<usize>, content: &Content) -> String {
        let before = self.truth.results.len();
        let content =
            self.content(content, 'r').map_or_else(String::new, |content| format!(",\"content\":{content}"));
        self.answered(before, id);
        let id = id.map_or_else(String::new, |id| format!(",\"tool_call_id\":\"{}\"", IDS[id]));
        format!("{{\"role\":\"tool\"{id}{content}}}")
    }

    fn result_block(&mut self, id: Option<usize>, content: &Content, error: bool) -> String {
        let before = self.truth.results.len();
        let content =
            self.content(content, 'r').map_or_else(String::new, |content| format!(",\"content\":{content}"));
        self.answered(before, id);
        let id = id.map_or_else(String::new, |id| format!(",\"tool_use_id\":\"{}\"", IDS[id]));
        let error = if error { ",\"is_error\":true" } else { "" };
        format!("{{\"type\":\"tool_result\"{id}{content}{error}}}")
    }

    fn block(&mut self, block: &Block, role: &str) -> String {
        let letter = if role == "assistant" { 'a' } else { 'u' };
        match block {
            Block::Part(part) => self.part(part, letter),
            Block::Call(call) => {
                let shape = std::mem::replace(&mut self.shape, Shape::Anthropic);
                let json = self.call(call);
                self.shape = shape;
                json
            }
            Block::Result(id, content, error) => self.result_block(*id, content, *error),
            Block::Thinking(Thinking::Signed) => {
                "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig==\"}".into()
            }
            Block::Thinking(Thinking::Unsigned) => "{\"type\":\"thinking\",\"thinking\":\"hm\"}".into(),
            Block::Thinking(Thinking::Redacted) => "{\"type\":\"redacted_thinking\",\"data\":\"xyz\"}".into(),
            Block::ServerTool { call, result } => {
                let mut halves = Vec::new();
                if *call {
                    halves.push("{\"type\":\"server_tool_use\",\"id\":\"srvtoolu_1\",\"name\":\"web_search\",\"input\":{}}");
                }
                if *result || !*call {
                    halves.push(
                        "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"srvtoolu_1\",\"content\":[]}",
                    );
                }
                halves.join(",")
            }
            Block::Marked(dress) => format!(
                "{{\"type\":\"text\",\"text\":\"{}\",\"cache_control\":{{\"type\":\"ephemeral\"}}}}",
                self.said(*dress, letter)
            ),
        }
    }

    fn turn(&mut self, calls: &[Call], results: &[Content], text: bool) -> Vec<String> {
        let mut messages = vec![self.speaker("user", &Content::Text(Dress::Plain))];
        self.message += 1;
        match self.shape {
            Shape::OpenAi => {
                let said = if text { format!("\"{}\"", self.said(Dress::Plain, 'a')) } else { "null".into() };
                let list: Vec<String> = calls.iter().map(|call| self.call(call)).collect();
                messages.push(format!(
                    "{{\"role\":\"assistant\",\"content\":{said},\"tool_calls\":[{}]}}",
                    list.join(",")
                ));
                for (call, content) in calls.iter().zip(results) {
                    self.message += 1;
                    messages.push(self.tool(call.id, content));
                }
            }
            Shape::Anthropic => {
                let mut blocks = Vec::new();
                if text {
                    blocks
                        .push(format!("{{\"type\":\"text\",\"text\":\"{}\"}}", self.said(Dress::Plain, 'a')));
                }
                blocks.extend(calls.iter().map(|call| self.call(call)).collect::<Vec<_>>());
                messages.push(format!("{{\"role\":\"assistant\",\"content\":[{}]}}", blocks.join(",")));
                self.message += 1;
                let mut blocks = Vec::new();
                for (call, content) in calls.iter().zip(results) {
                    blocks.push(self.result_block(call.id, content, false));
                }
                if text {
                    blocks
                        .push(format!("{{\"type\":\"text\",\"text\":\"{}\"}}", self.said(Dress::Plain, 'u')));
                }
                messages.push(format!("{{\"role\":\"user\",\"content\":[{}]}}", blocks.join(",")));
            }
        }
        messages
    }

    fn message(&mut self, message: &Message) -> Vec<String> {
        match message {
            Message::Speaker(role, content) => vec![self.speaker(role, content)],
            Message::Assistant { content, calls, reasoning, calls_field } => {
                let content = self
                    .content(content, 'a')
                    .map_or_else(String::new, |content| format!(",\"content\":{content}"));
                let list: Vec<String> = calls.iter().map(|call| self.call(call)).collect();
                let calls = match (calls_field, list.is_empty()) {
                    (0, true) => String::new(),
                    (1, true) => ",\"tool_calls\":null".into(),
                    (_, true) => ",\"tool_calls\":[]".into(),
                    (_, false) => format!(",\"tool_calls\":[{}]", list.join(",")),
                };
                let reasoning = match reasoning {
                    None => "",
                    Some(0) => ",\"reasoning_content\":\"hm\"",
                    Some(1) => ",\"reasoning_details\":[{\"type\":\"reasoning.encrypted\",\"data\":\"x\"}]",
                    Some(_) => ",\"refusal\":null",
                };
                vec![format!("{{\"role\":\"assistant\"{content}{calls}{reasoning}}}")]
            }
            Message::Tool(id, content) => vec![self.tool(*id, content)],
            Message::LegacyCall(args) => {
                let text = self.arguments(args, None).unwrap_or_default();
                let text = serde_json::to_string(&text).expect("BUG: a string is JSON");
                vec![format!(
                    "{{\"role\":\"assistant\",\"content\":null,\"function_call\":{{\"name\":\"read\",\"arguments\":{text}}}}}"
                )]
            }
            Message::LegacyResult(content) => {
                let content = self.content(content, 'r').unwrap_or_else(|| "null".into());
                vec![format!("{{\"role\":\"function\",\"name\":\"read\",\"content\":{content}}}")]
            }
            Message::Blocks(role, blocks, extra) => {
                let list: Vec<String> = blocks.iter().map(|block| self.block(block, role)).collect();
                let extra = if *extra { ",\"ts\":1700000000" } else { "" };
                vec![format!("{{\"role\":\"{role}\",\"content\":[{}]{extra}}}", list.join(","))]
            }
            Message::Junk(index) => {
                let mut text = JUNK[*index].to_owned();
                if text.contains('%') {
                    let said = self.said(Dress::Plain, 'u');
                    text = text.replace('%', &said);
                }
                vec![text]
            }
            Message::Turn(calls, results, text) => self.turn(calls, results, *text),
        }
    }

    fn body(mut self, messages: &[Message], around: &Around) -> Body {
        let mut fields: Vec<String> = Vec::new();
        if around.model {
            fields.push("\"model\":\"some-model\"".into());
        }
        if self.shape == Shape::Anthropic && around.whole {
            if let Some(dress) = around.system {
                let text = self.said(dress, 's');
                let mark = r#","cache_control":{"type":"ephemeral"}"#;
                fields.push(match around.tools + usize::from(around.spaced) {
                    0 => format!("\"system\":[{{\"type\":\"text\",\"text\":\"{text}\"{mark}}}]"),
                    1 => format!("\"system\":[\"{text}\",{{\"type\":\"text\",\"text\":\" \"}}]"),
                    2 => format!("\"system\":{{\"type\":\"text\",\"text\":\"{text}\"}}"),
                    _ => format!("\"system\":\"{text}\""),
                });
            } else {
                fields.push("\"system\":null".into());
            }
            if around.thinking {
                fields.push("\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}".into());
            }
        }
        let mut list = Vec::new();
        for message in messages {
            list.extend(self.message(message));
            self.message += 1;
        }
        let comma = if around.spaced { " ,\n  " } else { "," };
        let list = format!("[{}]", list.join(comma));
        let json = if around.whole {
            fields.push(format!("\"messages\":{list}"));
            match (around.tools, self.shape) {
                (0, _) => {}
                (1, Shape::OpenAi) => fields.push(
                    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"read\",\"parameters\":{\"type\":\"object\"}}}]".into(),
                ),
                (1, Shape::Anthropic) => {
                    fields.push("\"tools\":[{\"name\":\"read\",\"input_schema\":{\"type\":\"object\"}}]".into());
                }
                (3, Shape::OpenAi) => fields.push(
                    "\"tools\":[{\"type\":\"custom\",\"custom\":{\"name\":\"sql\"}}],\"tool_choice\":{\"type\":\"custom\",\"custom\":{\"name\":\"sql\"}}".into(),
                ),
                (3, Shape::Anthropic) => fields.push(
                    "\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}],\"tool_choice\":{\"type\":\"tool\",\"name\":\"web_search\"}".into(),
                ),
                (_, Shape::OpenAi) => fields.push(
                    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"mcp.files:list\"}}],\"tool_choice\":\"auto\"".into(),
                ),
                (_, Shape::Anthropic) => fields.push(
                    "\"tools\":[{\"name\":\"mcp.files:list\",\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"auto\"}".into(),
                ),
            }
            fields.push("\"max_tokens\": 1000".into());
            format!("{{{}}}", fields.join(if around.spaced { ", " } else { "," }))
        } else {
            list
        };
        Body { json, shape: self.shape, truth: self.truth }
    }
}
