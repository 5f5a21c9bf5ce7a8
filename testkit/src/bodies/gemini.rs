//! Bodies in the shape of Google Gemini: contents of parts, with calls and results that usually have no ids.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{
    media,
    plan::{Around, Call, Dress, IDS, NAMES, args, dress, id, name},
    writer::Writer,
};

/// How a `functionResponse` holds the tool's output.
#[derive(Debug, Clone)]
pub struct Response {
    id: Option<usize>,
    name: Option<usize>,
    /// An index into [`RESPONSES`].
    form: usize,
    dress: Dress,
    /// An image or a document in addition to the text.
    media: Option<usize>,
}

/// The value of `functionResponse`, in addition to id and name; `%` is replaced by a text of the result.
const RESPONSES: &[&str] = &[
    ",\"response\":{\"output\":\"%\"}",
    ",\"response\":{\"output\":\"%\"}",
    ",\"response\":{\"output\":\"%\"}",
    ",\"response\":{\"result\":\"%\"}",
    ",\"response\":{\"error\":\"%\"}",
    ",\"response\":{\"content\":[{\"type\":\"text\",\"text\":\"%\"}]}",
    ",\"response\":{\"output\":{\"lines\":[\"%\"],\"code\":0}}",
    ",\"response\":{\"stdout\":\"%\",\"exit_code\":0}",
    ",\"response\":{\"name\":\"read\",\"content\":\"%\"}",
    ",\"response\":{\"output\":\"%\"},\"parts\":[{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}]",
    ",\"response\":\"%\"",
    ",\"response\":[\"%\"]",
    ",\"response\":{}",
    ",\"response\":null",
    "",
];

#[derive(Debug, Clone)]
pub enum Part {
    Text {
        dress: Dress,
        signed: bool,
    },
    /// A string in place of a part.
    Bare(Dress),
    Call {
        call: Call,
        signed: bool,
        snake: bool,
    },
    Response(Response, bool),
    /// Media, sound or damaged.
    Media(usize),
    /// Thoughts, code, and unknown parts.
    Other(usize),
}

pub const PARTS: &[&str] = &[
    "{\"text\":\"hm\",\"thought\":true}",
    "{\"text\":\"hm\",\"thought\":true,\"thoughtSignature\":\"c2ln\"}",
    "{\"text\":\"\",\"thoughtSignature\":\"c2ln\"}",
    "{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}",
    "{\"inline_data\":{\"mime_type\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}}",
    "{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"\"}}",
    "{\"inlineData\":{\"mimeType\":\"application/pdf\",\"data\":\"JVBERi0=\"}}",
    "{\"fileData\":{\"mimeType\":\"application/pdf\",\"fileUri\":\"gs://b/a.pdf\"}}",
    "{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"print(1)\"}}",
    "{\"codeExecutionResult\":{\"outcome\":\"OUTCOME_OK\",\"output\":\"1\"}}",
    "{\"futurePart\":{\"x\":[1,2]}}",
    "{\"text\":null}",
    "{\"text\":5}",
    "{}",
    "7",
];

fn gemini_call() -> impl Strategy<Value = Call> {
    (option::weighted(0.5, id()), name(), args()).prop_map(|(id, name, args)| Call { id, name, args })
}

fn response() -> impl Strategy<Value = Response> {
    let media = option::weighted(0.2, 0..media::count());
    (option::weighted(0.5, id()), option::weighted(0.9, name()), 0..RESPONSES.len(), dress(), media)
        .prop_map(|(id, name, form, dress, media)| Response { id, name, form, dress, media })
}

fn part() -> impl Strategy<Value = Part> {
    let call = (gemini_call(), any::<bool>(), prop::bool::weighted(0.1));
    prop_oneof![
        6 => (dress(), prop::bool::weighted(0.1)).prop_map(|(dress, signed)| Part::Text { dress, signed }),
        1 => dress().prop_map(Part::Bare),
        4 => call.prop_map(|(call, signed, snake)| Part::Call { call, signed, snake }),
        4 => (response(), prop::bool::weighted(0.1)).prop_map(|(response, snake)| Part::Response(response, snake)),
        4 => (0..PARTS.len()).prop_map(Part::Other), 3 => (0..media::count()).prop_map(Part::Media)
    ]
}

#[derive(Debug, Clone)]
pub enum Parts {
    List(Vec<Part>),
    /// One part without a list around it.
    One(Part),
    Null,
    Absent,
}

/// How the results of a batch come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Come {
    InOrder,
    Reversed,
    /// The last one does not.
    Missing,
    /// The first one comes again.
    Twice,
    /// Over two contents.
    Split,
    /// With a text among them.
    Mixed,
    /// Without the ids that the calls have.
    Nameless,
}

#[derive(Debug, Clone)]
pub enum Content {
    Speaker(Option<&'static str>, Parts),
    Junk(usize),
    /// A user, a batch of calls, and its results.
    Turn {
        calls: Vec<Call>,
        responses: Vec<(usize, Dress)>,
        come: Come,
        role: &'static str,
        text: bool,
    },
}

const JUNK: &[&str] = &[
    "null",
    "5",
    "[]",
    "{}",
    "\"%\"",
    "{\"text\":\"%\"}",
    "{\"role\":7,\"parts\":[{\"text\":\"%\"}]}",
    "{\"role\":\"\",\"parts\":[{\"text\":\"%\"}]}",
];

pub fn content() -> impl Strategy<Value = Content> {
    let role = select(vec![
        Some("user"),
        Some("user"),
        Some("user"),
        Some("model"),
        Some("model"),
        Some("model"),
        Some("function"),
        Some("tool"),
        Some("assistant"),
        Some("system"),
        Some("weird"),
        None,
    ]);
    let parts = prop_oneof![
        12 => vec(part(), 0..4).prop_map(Parts::List), 1 => part().prop_map(Parts::One), 1 => Just(Parts::Null),
        1 => Just(Parts::Absent)
    ];
    let come = prop_oneof![
        4 => Just(Come::InOrder), 1 => Just(Come::Reversed), 1 => Just(Come::Missing), 1 => Just(Come::Twice),
        1 => Just(Come::Split), 1 => Just(Come::Mixed), 1 => Just(Come::Nameless)
    ];
    let role_of_results = prop_oneof![4 => Just("user"), 1 => Just("function")];
    let responses = vec((0..RESPONSES.len(), dress()), 4);
    let turn = (vec(gemini_call(), 1..4), responses, come, role_of_results, any::<bool>());
    prop_oneof![
        8 => (role, parts).prop_map(|(role, parts)| Content::Speaker(role, parts)),
        5 => turn.prop_map(|(calls, responses, come, role, text)| Content::Turn { calls, responses, come, role, text }),
        1 => (0..JUNK.len()).prop_map(Content::Junk),
    ]
}

/// The role of the texts in a content, if it can be determined.
fn letter(role: Option<&str>, parts: &[Part]) -> Option<char> {
    let calls = parts.iter().any(|part| matches!(part, Part::Call { .. }));
    match role {
        Some("user") => Some('u'),
        Some("model" | "assistant") => Some('a'),
        // A tool that also writes text next to its result.
        Some("function" | "tool") => None,
        // Only a model makes calls, whatever the role is.
        _ if calls => None,
        Some("system") => Some('s'),
        _ => Some('u'),
    }
}

impl Writer {
    pub fn contents(&mut self, content: &Content) -> Vec<String> {
        match content {
            Content::Speaker(role, parts) => vec![self.content_of(*role, parts)],
            Content::Junk(index) => vec![self.junk(JUNK[*index])],
            Content::Turn { calls, responses, come, role, text } => {
                let mut contents = self.content_batch(calls, *text);
                let responses: Vec<Response> = calls
                    .iter()
                    .zip(responses)
                    .map(|(call, (form, dress))| Response {
                        id: call.id.filter(|_| *come != Come::Nameless),
                        name: Some(call.name),
                        form: *form,
                        dress: *dress,
                        media: None,
                    })
                    .collect();
                contents.extend(self.content_results(responses, *come, role));
                contents
            }
        }
    }

    fn content_of(&mut self, role: Option<&str>, parts: &Parts) -> String {
        let parts = match parts {
            Parts::List(list) => {
                let letter = letter(role, list);
                let list: Vec<String> = list.iter().map(|part| self.content_part(part, letter)).collect();
                Some(format!("[{}]", list.join(", ")))
            }
            Parts::One(part) => {
                let letter = letter(role, std::slice::from_ref(part));
                Some(self.content_part(part, letter))
            }
            Parts::Null => Some("null".into()),
            Parts::Absent => None,
        };
        let role = role.map(|role| format!("\"role\":\"{role}\""));
        let parts = parts.map(|parts| format!("\"parts\":{parts}"));
        format!("{{{}}}", role.into_iter().chain(parts).collect::<Vec<_>>().join(", "))
    }

    fn content_part(&mut self, part: &Part, letter: Option<char>) -> String {
        let mut text = |dress: Dress| match letter {
            Some(letter) => self.said(dress, letter),
            None => "words".into(),
        };
        match part {
            Part::Text { dress, signed } => {
                let seal = if *signed { ",\"thoughtSignature\":\"c2ln\"" } else { "" };
                format!("{{\"text\":\"{}\"{seal}}}", text(*dress))
            }
            Part::Bare(dress) => format!("\"{}\"", text(*dress)),
            Part::Call { call, signed, snake } => {
                let before = self.truth.calls.len();
                let json = self.function_call(call, *signed, *snake);
                if letter.is_none() {
                    // It may not be a call at all.
                    self.truth.calls.truncate(before);
                }
                json
            }
            Part::Response(response, snake) => self.function_response(response, *snake),
            Part::Media(index) => media::parts(self.shape)[*index].clone(),
            Part::Other(index) => PARTS[*index].into(),
        }
    }

    fn function_call(&mut self, call: &Call, signed: bool, snake: bool) -> String {
        self.truth.call_ids.extend(call.id.map(|id| IDS[id].into()));
        let id = call.id.map_or_else(String::new, |id| format!("\"id\":\"{}\",", IDS[id]));
        let (name, args) = (NAMES[call.name], self.arguments_as_json(call, "args"));
        let (field, seal) = match snake {
            true => ("function_call", "thought_signature"),
            false => ("functionCall", "thoughtSignature"),
        };
        let seal = if signed { format!(",\"{seal}\":\"c2ln\"") } else { String::new() };
        format!("{{\"{field}\":{{{id}\"name\":\"{name}\"{args}}}{seal}}}")
    }

    fn function_response(&mut self, response: &Response, snake: bool) -> String {
        let before = self.truth.results.len();
        let mut given = RESPONSES[response.form].to_owned();
        if given.contains('%') {
            let text = self.note(response.dress, 'r');
            given = given.replace('%', &text);
        }
        if let Some(media) = response.media.filter(|_| !given.contains("\"parts\"")) {
            given += &format!(",\"parts\":[{}]", media::parts(self.shape)[media]);
        }
        self.answered(before, response.id.map(|id| IDS[id]));
        let id = response.id.map(|id| format!("\"id\":\"{}\"", IDS[id]));
        let name = response.name.map(|name| format!("\"name\":\"{}\"", NAMES[name]));
        let mut head = id.into_iter().chain(name).collect::<Vec<_>>().join(",");
        if head.is_empty() {
            head = "\"willContinue\":false".into();
        }
        let field = if snake { "function_response" } else { "functionResponse" };
        format!("{{\"{field}\":{{{head}{given}}}}}")
    }

    /// A user, and a model that calls.
    fn content_batch(&mut self, calls: &[Call], text: bool) -> Vec<String> {
        let plain = || Part::Text { dress: Dress::Plain, signed: false };
        let user = self.content_of(Some("user"), &Parts::List(vec![plain()]));
        self.message += 1;
        let mut parts: Vec<Part> = if text { vec![plain()] } else { Vec::new() };
        // The first call of a batch carries the signature.
        parts.extend(calls.iter().enumerate().map(|(index, call)| Part::Call {
            call: call.clone(),
            signed: index == 0,
            snake: false,
        }));
        vec![user, self.content_of(Some("model"), &Parts::List(parts))]
    }

    fn content_results(&mut self, responses: Vec<Response>, come: Come, role: &str) -> Vec<String> {
        let mut parts: Vec<Part> =
            responses.into_iter().map(|response| Part::Response(response, false)).collect();
        match come {
            Come::InOrder | Come::Split | Come::Nameless => {}
            Come::Reversed => parts.reverse(),
            Come::Missing => drop(parts.pop()),
            Come::Twice => parts.push(parts[0].clone()),
            Come::Mixed => parts.insert(parts.len() / 2, Part::Text { dress: Dress::Plain, signed: false }),
        }
        let second = parts.split_off(if come == Come::Split { parts.len() / 2 } else { parts.len() });
        let mut contents = Vec::new();
        for parts in [parts, second] {
            if !parts.is_empty() {
                self.message += 1;
                contents.push(self.content_of(Some(role), &Parts::List(parts)));
            }
        }
        contents
    }

    /// The next contents: a user, then a model that calls tools, or only writes text.
    pub fn content_continuation(&mut self, calls: &[Call]) -> Vec<String> {
        let plain = || Parts::List(vec![Part::Text { dress: Dress::Plain, signed: false }]);
        if calls.is_empty() {
            return ["user", "model"].map(|role| self.content_of(Some(role), &plain())).into();
        }
        let answer = |call: &Call| Response {
            id: call.id,
            name: Some(call.name),
            form: 0,
            dress: Dress::Plain,
            media: None,
        };
        let mut contents = self.content_batch(calls, false);
        contents.extend(self.content_results(calls.iter().map(answer).collect(), Come::InOrder, "user"));
        contents
    }

    /// The fields before the contents that only this shape has.
    pub fn gemini_before(&mut self, around: &Around) -> Vec<String> {
        let Some(dress) = around.system else { return vec!["\"systemInstruction\":null".into()] };
        let text = self.said(dress, 's');
        let form = match around.tools + 4 * usize::from(around.model) {
            0 => format!("\"systemInstruction\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}"),
            1 => format!("\"systemInstruction\":{{\"role\":\"system\",\"parts\":[{{\"text\":\"{text}\"}}]}}"),
            2 => format!("\"system_instruction\":{{\"parts\":{{\"text\":\"{text}\"}}}}"),
            3 => format!("\"systemInstruction\":\"{text}\""),
            4 => format!("\"systemInstruction\":{{\"parts\":[{{\"text\":\"{text}\"}},{{\"text\":\" \"}}]}}"),
            5 => format!("\"systemInstruction\":{{\"text\":\"{text}\"}}"),
            6 => format!("\"system_instruction\":{{\"role\":\"user\",\"parts\":[{{\"text\":\"{text}\"}}]}}"),
            _ => format!("\"systemInstruction\":{{\"parts\":[\"{text}\"]}}"),
        };
        vec![form]
    }
}

/// The fields after the contents.
pub fn after(around: &Around) -> Vec<String> {
    let tools = match around.tools {
        0 => None,
        1 => Some(
            "\"tools\":[{\"functionDeclarations\":[{\"name\":\"read\",\"parameters\":{\"type\":\"OBJECT\"}}]}]",
        ),
        3 => Some("\"tools\":[{\"googleSearch\":{}},{\"codeExecution\":{}}]"),
        _ => Some(
            "\"tools\":[{\"function_declarations\":[{\"name\":\"mcp.files:list\"}]}],\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"AUTO\"}}",
        ),
    };
    let settings = match around.thinking {
        true => "\"generationConfig\":{\"thinkingConfig\":{\"includeThoughts\":true}}",
        false => "\"generationConfig\": {\"maxOutputTokens\":1000}",
    };
    tools.into_iter().chain([settings]).map(str::to_owned).collect()
}
