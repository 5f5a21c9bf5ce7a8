//! Small Gemini bodies, whole and broken, and the tokens in them.

use proptest::{collection::vec, option, prelude::*, sample::select};

/// A body, and what is in it.
#[derive(Debug, Clone)]
pub struct Body {
    pub json: String,
    /// Tokens of what was said, in order: the first letter is the role.
    pub said: Vec<String>,
    /// Tokens of results.
    pub results: Vec<String>,
}

#[derive(Debug, Clone)]
enum Item {
    /// A content of these parts.
    Content(&'static str, Vec<Part>),
    /// A user's question, calls, and a result for each.
    Turn(Vec<(Call, usize, bool)>),
    /// Something that is no content as the API has it.
    Odd(usize),
}

#[derive(Debug, Clone)]
enum Part {
    Text(usize),
    Signed(usize),
    Thought(usize),
    Image,
    Call(Call),
    Result(Option<usize>, usize, usize),
    Opaque(usize),
}

#[derive(Debug, Clone)]
struct Call {
    id: Option<usize>,
    name: usize,
    args: usize,
    signature: usize,
}

const IDS: &[&str] = &["c1", "c2", "c3"];
const NAMES: &[&str] = &["read", "read", "list.files:x", "1st", "näme", ""];
const ARGS: &[&str] = &[
    ",\"args\":{}",
    ",\"args\":{\"a\": 1e400,\"a\":2}",
    ",\"args\":{}",
    "",
    ",\"args\":null",
    ",\"args\":\"{\\\"a\\\":1}\"",
    ",\"args\":[1]",
    ",\"args\":{\"s\":\"\\ud83d\"}",
];
const SIGNATURES: &[&str] = &[
    "",
    ",\"thoughtSignature\":\"c2ln\"",
    ",\"thoughtSignature\":\"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=\"",
    ",\"thoughtSignature\":null",
    ",\"thoughtSignature\":\"not issued here\"",
];

fn call() -> impl Strategy<Value = Call> {
    let args = prop_oneof![8 => 0..3usize, 2 => 3..ARGS.len()];
    let name = prop_oneof![8 => 0..3usize, 1 => 3..NAMES.len()];
    let signature = prop_oneof![4 => 1..3usize, 2 => Just(0usize), 1 => 3..SIGNATURES.len()];
    (option::weighted(0.3, 0..IDS.len()), name, args, signature)
        .prop_map(|(id, name, args, signature)| Call { id, name, args, signature })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        6 => (0..5usize).prop_map(Part::Text), 1 => (1..SIGNATURES.len()).prop_map(Part::Signed),
        2 => (0..SIGNATURES.len()).prop_map(Part::Thought), 1 => Just(Part::Image), 4 => call().prop_map(Part::Call),
        3 => (option::weighted(0.3, 0..IDS.len()), 0..NAMES.len(), 0..RESPONSES).prop_map(|(i, n, r)| Part::Result(i, n, r)),
        1 => (0..5usize).prop_map(Part::Opaque),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let role = select(vec!["user", "user", "user", "model", "model", "model", "function", "system", "weird"]);
    prop_oneof![
        6 => (role, vec(part(), 0..4)).prop_map(|(role, parts)| Item::Content(role, parts)),
        6 => vec((call(), 0..RESPONSES, prop::bool::weighted(0.8)), 1..4).prop_map(Item::Turn),
        2 => (select(vec!["user", "model"]), (0..2usize).prop_map(Part::Text)).prop_map(|(role, part)| Item::Content(role, vec![part])),
        1 => (0..9usize).prop_map(Item::Odd),
    ]
}

/// A body of up to eight contents.
pub fn body() -> impl Strategy<Value = Body> {
    (vec(item(), 0..8), 0..5usize, any::<bool>(), any::<bool>()).prop_map(|(items, around, snake, spaced)| {
        let mut writer = Writer::default();
        let system = match around {
            1 => format!("\"systemInstruction\":{{\"parts\":[{{\"text\":\"{}\"}}]}},", writer.said('s')),
            2 => format!("\"system_instruction\":\"{}\",", writer.said('s')),
            _ => String::new(),
        };
        let list: Vec<String> = items.iter().flat_map(|item| writer.item(item)).collect();
        let list = list.join(if spaced { " ,\n " } else { "," });
        let mut json = match around {
            0 => format!("[{list}]"),
            4 => format!("{{\"history\":[{list}],\"authType\":\"x\"}}"),
            3 => format!(
                "{{\"contents\":[{list}],\"tools\":[{{\"functionDeclarations\":[{{\"name\":\"1st\"}}]}}]}}"
            ),
            _ => format!("{{{system}\"contents\":[{list}],\"generationConfig\":{{\"temperature\":1}}}}"),
        };
        if snake {
            for (camel, snake) in [
                ("\"functionCall\"", "\"function_call\""),
                ("\"functionResponse\"", "\"function_response\""),
                ("\"thoughtSignature\"", "\"thought_signature\""),
                ("\"inlineData\"", "\"inline_data\""),
            ] {
                json = json.replace(camel, snake);
            }
        }
        Body { json, said: writer.said, results: writer.results }
    })
}

const RESPONSES: usize = 9;

#[derive(Default)]
struct Writer {
    count: usize,
    said: Vec<String>,
    results: Vec<String>,
}

impl Writer {
    fn token(&mut self, letter: char) -> String {
        self.count += 1;
        format!("⟦{letter}{}⟧", self.count)
    }

    fn said(&mut self, letter: char) -> String {
        let token = self.token(letter);
        self.said.push(token.clone());
        token
    }

    fn letter(role: &str) -> char {
        match role {
            "model" => 'a',
            "system" => 's',
            _ => 'u',
        }
    }

    fn text(&mut self, kind: usize, letter: char) -> String {
        match kind {
            3 => String::new(),
            4 => " \\n".into(),
            2 => format!("{}\\ud83d", self.said(letter)),
            _ => format!("words \\\"{}\\\"", self.said(letter)),
        }
    }

    fn call(&mut self, call: &Call) -> String {
        let id = call.id.map_or_else(String::new, |id| format!("\"id\":\"{}\",", IDS[id]));
        let (name, args, signature) = (NAMES[call.name], ARGS[call.args], SIGNATURES[call.signature]);
        format!("{{\"functionCall\":{{{id}\"name\":\"{name}\"{args}}}{signature}}}")
    }

    fn result(&mut self, id: Option<usize>, name: usize, kind: usize) -> String {
        let id = id.map_or_else(String::new, |id| format!("\"id\":\"{}\",", IDS[id]));
        let token = self.token('r');
        let mut response = match kind {
            0 => format!("{{\"output\":\"{token}\"}}"),
            1 => format!("{{\"result\": \"{token}\"}}"),
            2 => format!("{{\"error\":\"{token}\"}}"),
            3 => format!("{{\"output\":\"{token}\",\"code\":1.50}}"),
            4 => format!("{{\"a\":{{\"b\":[\"{token}\"]}}}}"),
            5 => format!("\"{token}\""),
            6 => format!("[\"{token}\"]"),
            7 => format!(
                "{{\"output\":\"{token}\"}},\"parts\":[{{\"inlineData\":{{\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}}}]"
            ),
            _ => String::new(),
        };
        if response.is_empty() {
            response = "null".into();
        } else {
            self.results.push(token);
        }
        format!("{{\"functionResponse\":{{{id}\"name\":\"{}\",\"response\":{response}}}}}", NAMES[name])
    }

    fn part(&mut self, part: &Part, role: &str) -> String {
        let letter = Self::letter(role);
        match part {
            Part::Text(kind) => format!("{{\"text\":\"{}\"}}", self.text(*kind, letter)),
            Part::Signed(signature) => {
                format!("{{\"text\":\"{}\"{}}}", self.said(letter), SIGNATURES[*signature])
            }
            Part::Thought(signature) => {
                format!("{{\"text\":\"hm\",\"thought\":true{}}}", SIGNATURES[*signature])
            }
            Part::Image => "{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}".into(),
            Part::Call(call) => self.call(call),
            Part::Result(id, name, kind) => self.result(*id, *name, *kind),
            Part::Opaque(0) => "{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"1\"}}".into(),
            Part::Opaque(1) => "{\"futureThing\":{}}".into(),
            Part::Opaque(2) => format!(
                "{{\"text\":\"{}\",\"functionCall\":{{\"name\":\"read\",\"args\":{{}}}}}}",
                self.said(letter)
            ),
            Part::Opaque(3) => format!("{{\"text\":\"{}\",\"extra\":1}}", self.said(letter)),
            Part::Opaque(_) => "{\"thoughtSignature\":\"c2ln\"}".into(),
        }
    }

    fn content(&mut self, role: &str, parts: &[Part]) -> String {
        let parts: Vec<String> = parts.iter().map(|part| self.part(part, role)).collect();
        format!("{{\"role\":\"{role}\",\"parts\":[{}]}}", parts.join(", "))
    }

    fn item(&mut self, item: &Item) -> Vec<String> {
        match item {
            Item::Content(role, parts) => vec![self.content(role, parts)],
            Item::Turn(exchanges) => {
                let calls: Vec<Part> = exchanges.iter().map(|(call, ..)| Part::Call(call.clone())).collect();
                let results: Vec<Part> = exchanges
                    .iter()
                    .map(|(call, kind, id)| Part::Result(call.id.filter(|_| *id), call.name, *kind))
                    .collect();
                vec![
                    self.content("user", &[Part::Text(0)]),
                    self.content("model", &calls),
                    self.content("user", &results),
                ]
            }
            Item::Odd(0) => vec!["{}".into()],
            Item::Odd(1) => vec!["5".into()],
            Item::Odd(2) => vec![format!("\"{}\"", self.said('u'))],
            Item::Odd(3) => vec![format!("{{\"text\":\"{}\"}}", self.said('u'))],
            Item::Odd(4) => vec![format!("{{\"parts\":[{{\"text\":\"{}\"}}]}}", self.said('u'))],
            Item::Odd(5) => {
                vec![format!("{{\"role\":\"user\",\"parts\":{{\"text\":\"{}\"}}}}", self.said('u'))]
            }
            Item::Odd(6) => {
                vec![format!(
                    "{{\"role\":\"model\",\"parts\":[{{\"text\":\"{}\"}}],\"ts\":1}}",
                    self.said('a')
                )]
            }
            Item::Odd(7) => vec!["{\"role\":\"user\"}".into()],
            Item::Odd(_) => vec![format!("{{\"role\":\"user\",\"content\":\"{}\"}}", self.said('u'))],
        }
    }
}
