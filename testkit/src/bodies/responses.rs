//! Bodies in the shape of OpenAI Responses: a list of items, of which messages are one kind.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{
    media,
    plan::{self, Args, Around, Call, Dress, IDS, NAMES, call, dress, id},
    writer::Writer,
};

/// How the type of a text part is spelled.
#[derive(Debug, Clone, Copy)]
pub enum Spelling {
    /// As the role demands.
    Right,
    /// As another role demands.
    Wrong,
    /// As in OpenAI Chat.
    Chat,
}

#[derive(Debug, Clone)]
pub enum Part {
    Text(Spelling, Dress),
    Refusal(Dress),
    /// A string in place of a part.
    Bare(Dress),
    /// Media, sound or damaged.
    Media(usize),
    /// Media of other shapes, and unknown parts.
    Other(usize),
}

const PARTS: &[&str] = &[
    "{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,iVBORw0KGgo=\",\"detail\":\"auto\"}",
    "{\"type\":\"input_image\",\"file_id\":\"file-1\"}",
    "{\"type\":\"input_image\"}",
    "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw0KGgo=\"}}",
    "{\"type\":\"input_file\",\"filename\":\"a.pdf\",\"file_data\":\"data:application/pdf;base64,JVBERi0=\"}",
    "{\"type\":\"input_file\",\"file_id\":\"file-2\"}",
    "{\"type\":\"future_part\",\"x\":[1,2]}",
    "7",
    "{\"type\":\"input_text\"}",
];

fn part() -> impl Strategy<Value = Part> {
    let spelling =
        prop_oneof![6 => Just(Spelling::Right), 1 => Just(Spelling::Wrong), 1 => Just(Spelling::Chat)];
    prop_oneof![
        9 => (spelling, dress()).prop_map(|(spelling, dress)| Part::Text(spelling, dress)),
        1 => dress().prop_map(Part::Refusal), 1 => dress().prop_map(Part::Bare),
        2 => (0..PARTS.len()).prop_map(Part::Other), 3 => (0..media::count()).prop_map(Part::Media)
    ]
}

type Content = plan::Content<Part>;

/// The kinds of calls that a client answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Function,
    Custom,
    LocalShell,
    ToolSearch,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![6 => Just(Kind::Function), 1 => Just(Kind::Custom), 1 => Just(Kind::LocalShell), 1 => Just(Kind::ToolSearch)]
}

/// The value of `output`.
#[derive(Debug, Clone)]
pub enum Given {
    Content(Content),
    /// An object, as older clients wrote it.
    Object(Dress),
}

fn given() -> impl Strategy<Value = Given> {
    prop_oneof![12 => plan::content(part()).prop_map(Given::Content), 1 => dress().prop_map(Given::Object)]
}

#[derive(Debug, Clone)]
pub struct ToolCall {
    kind: Kind,
    call: Call,
    item_id: Option<usize>,
    status: usize,
}

fn tool_call() -> impl Strategy<Value = ToolCall> {
    (kind(), call(), item_id(), 0..STATUS.len()).prop_map(|(kind, call, item_id, status)| ToolCall {
        kind,
        call,
        item_id,
        status,
    })
}

#[derive(Debug, Clone)]
pub struct Output {
    kind: Kind,
    call: Option<usize>,
    given: Given,
    item_id: Option<usize>,
    /// Whether the call is named under `id`, as some types have it.
    misnamed: bool,
}

#[derive(Debug, Clone)]
pub enum Item {
    Message {
        typed: bool,
        role: &'static str,
        content: Content,
        item_id: Option<usize>,
        status: usize,
    },
    Call(ToolCall),
    Output(Output),
    Reasoning {
        item_id: Option<usize>,
        summary: usize,
        sealed: usize,
    },
    /// An item that neither speaks nor waits for a client, and whether reasoning comes before it.
    Aside(usize, bool),
    /// An assistant message of OpenAI Chat, with its calls inside.
    Chat(Dress, Vec<Call>),
    Junk(usize),
    /// A user, a batch of calls, and all of their outputs.
    Turn {
        calls: Vec<ToolCall>,
        outputs: Vec<Given>,
        reasoning: bool,
        text: bool,
    },
}

/// Ids of items; `@` is what ids of that kind begin with.
const ITEM_IDS: &[&str] = &["@1", "@2", "@3", "item_1", "fc_1", ""];
const STATUS: &[&str] =
    &["", "", ",\"status\":\"completed\"", ",\"status\":\"incomplete\"", ",\"status\":null"];
const SUMMARIES: &[&str] = &[
    ",\"summary\":[]",
    ",\"summary\":[{\"type\":\"summary_text\",\"text\":\"hm\"}]",
    "",
    ",\"summary\":null",
    ",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]",
];
const SEALS: &[&str] = &[
    ",\"encrypted_content\":\"gAAAAABo\"",
    ",\"encrypted_content\":\"gAAAAABp\"",
    "",
    ",\"encrypted_content\":null",
    ",\"encrypted_content\":\"\"",
];
/// Items that the provider ran, halves of pairs, and unknown items; `%` is a text in it.
pub const ASIDES: &[&str] = &[
    "{\"type\":\"item_reference\",\"id\":\"msg_1\"}",
    "{\"id\":\"rs_1\"}",
    "{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\",\"action\":{\"type\":\"search\",\"query\":\"%\"}}",
    "{\"type\":\"web_search_call\",\"id\":\"ws-1\",\"status\":\"completed\",\"action\":{\"type\":\"search\",\"query\":\"%\"}}",
    "{\"type\":\"web_search_call\",\"id\":null,\"action\":{\"type\":\"open_page\",\"url\":\"%\"}}",
    "{\"type\":\"web_search_call\",\"action\":\"%\"}",
    "{\"type\":\"file_search_call\",\"id\":\"fs_1\",\"queries\":[\"%\"],\"status\":\"completed\",\"results\":null}",
    "{\"type\":\"file_search_call\",\"queries\":[\"%\"],\"status\":\"completed\"}",
    "{\"type\":\"code_interpreter_call\",\"id\":\"ci_1\",\"code\":\"%\",\"container_id\":\"x\",\"outputs\":[],\"status\":\"completed\"}",
    "{\"type\":\"code_interpreter_call\",\"id\":\"ci_2\",\"code\":\"%\",\"outputs\":[{\"type\":\"logs\",\"logs\":\"1\"}],\"status\":\"completed\"}",
    "{\"type\":\"image_generation_call\",\"id\":\"ig_1\",\"result\":\"iVBORw0KGgo=\",\"status\":\"completed\",\"revised_prompt\":\"%\"}",
    "{\"type\":\"image_generation_call\",\"id\":null,\"result\":null,\"status\":\"failed\",\"error\":{\"message\":\"%\"}}",
    "{\"type\":\"mcp_call\",\"id\":\"mcp_1\",\"name\":\"read\",\"arguments\":\"{}\",\"server_label\":\"s\",\"output\":\"%\"}",
    "{\"type\":\"mcp_call\",\"id\":\"mcp_2\",\"name\":\"read\",\"arguments\":{\"a\":1},\"server_label\":\"s\",\"output\":\"%\"}",
    "{\"type\":\"mcp_list_tools\",\"id\":\"mcpl_1\",\"server_label\":\"s\",\"tools\":[{\"name\":\"read\",\"description\":\"%\",\"input_schema\":{}}]}",
    "{\"type\":\"mcp_list_tools\",\"id\":\"other_1\",\"server_label\":\"s\",\"tools\":[{\"name\":\"%\"}]}",
    "{\"type\":\"mcp_approval_request\",\"id\":\"mcpr_1\",\"name\":\"read\",\"arguments\":\"{}\",\"server_label\":\"%\"}",
    "{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"mcpr_1\",\"approve\":true,\"reason\":\"%\"}",
    "{\"type\":\"mcp_approval_response\",\"id\":\"x\",\"approval_request_id\":\"mcpr_2\",\"approve\":false,\"reason\":\"%\"}",
    "{\"type\":\"tool_search_call\",\"execution\":\"server\",\"call_id\":null,\"status\":\"completed\",\"arguments\":{\"query\":\"%\"}}",
    "{\"type\":\"tool_search_output\",\"execution\":\"server\",\"call_id\":null,\"status\":\"completed\",\"tools\":[{\"type\":\"function\",\"name\":\"%\"}]}",
    "{\"type\":\"program\",\"id\":\"prg_1\",\"call_id\":\"p1\",\"code\":\"%\",\"fingerprint\":\"f\"}",
    "{\"type\":\"program_output\",\"id\":\"pgo_1\",\"call_id\":\"p1\",\"result\":\"%\",\"status\":\"completed\"}",
    "{\"type\":\"additional_tools\",\"role\":\"developer\",\"tools\":[{\"type\":\"function\",\"name\":\"%\"}]}",
    "{\"type\":\"configuration_update\",\"reasoning\":{\"effort\":\"low\"}}",
    "{\"type\":\"computer_call\",\"id\":\"cu_1\",\"call_id\":\"cu1\",\"action\":{\"type\":\"screenshot\"},\"pending_safety_checks\":[],\"status\":\"completed\"}",
    "{\"type\":\"computer_call_output\",\"call_id\":\"cu1\",\"output\":{\"type\":\"computer_screenshot\",\"file_id\":\"file-3\"}}",
    "{\"type\":\"computer_call_output\",\"call_id\":\"cu1\",\"output\":{\"type\":\"computer_screenshot\",\"image_url\":\"data:image/png;base64,iVBORw0KGgo=\"}}",
    "{\"type\":\"computer_call_output\",\"call_id\":\"cu1\",\"output\":{\"type\":\"computer_screenshot\",\"image_url\":\"data:image/png;base64,\"}}",
    "{\"type\":\"shell_call\",\"call_id\":\"sh1\",\"action\":{\"commands\":[\"ls\"]},\"status\":\"completed\"}",
    "{\"type\":\"shell_call_output\",\"call_id\":\"sh1\",\"output\":[{\"stdout\":\"x\",\"stderr\":\"\",\"outcome\":{\"type\":\"exit\",\"exit_code\":0}}]}",
    "{\"type\":\"apply_patch_call\",\"call_id\":\"ap1\",\"operation\":{\"type\":\"delete_file\",\"path\":\"a\"},\"status\":\"completed\"}",
    "{\"type\":\"apply_patch_call_output\",\"call_id\":\"ap1\",\"status\":\"failed\",\"output\":\"x\"}",
    "{\"type\":\"compaction\",\"encrypted_content\":\"gAAAAABq\"}",
    "{\"type\":\"compaction_summary\",\"encrypted_content\":\"gAAAAABr\"}",
    "{\"type\":\"ghost_snapshot\",\"ghost_commit\":{\"id\":\"abc\",\"parent\":null}}",
    "{\"type\":\"future_item\",\"x\":[1,{\"y\":\"%\"}]}",
    "{\"type\":\"future_call\",\"id\":\"fu_1\",\"call_id\":\"c1\",\"x\":\"%\"}",
    "{\"note\":\"%\"}",
    "{\"type\":7}",
];
const JUNK: &[&str] = &[
    "null",
    "5",
    "[]",
    "{}",
    "\"%\"",
    "{\"content\":\"%\"}",
    "{\"type\":\"message\",\"content\":\"%\"}",
    "{\"role\":7,\"content\":\"%\"}",
    "{\"type\":\"input_text\",\"text\":\"%\"}",
];

fn item_id() -> impl Strategy<Value = Option<usize>> {
    option::weighted(0.4, 0..ITEM_IDS.len())
}

pub fn item() -> impl Strategy<Value = Item> {
    let role = select(vec![
        "user",
        "user",
        "user",
        "assistant",
        "assistant",
        "assistant",
        "system",
        "developer",
        "tool",
        "weird",
    ]);
    let message = (prop::bool::weighted(0.6), role, plan::content(part()), item_id(), 0..STATUS.len());
    let output = (kind(), option::weighted(0.95, id()), given(), item_id(), prop::bool::weighted(0.1))
        .prop_map(|(kind, call, given, item_id, misnamed)| Output { kind, call, given, item_id, misnamed });
    let reasoning = (item_id(), 0..SUMMARIES.len(), 0..SEALS.len());
    let turn = (vec(tool_call(), 1..4), vec(given(), 4), any::<bool>(), any::<bool>());
    prop_oneof![
        6 => message.prop_map(|(typed, role, content, item_id, status)| Item::Message { typed, role, content, item_id, status }),
        4 => tool_call().prop_map(Item::Call), 5 => output.prop_map(Item::Output),
        2 => reasoning.prop_map(|(item_id, summary, sealed)| Item::Reasoning { item_id, summary, sealed }),
        4 => turn.prop_map(|(calls, outputs, reasoning, text)| Item::Turn { calls, outputs, reasoning, text }),
        4 => (0..ASIDES.len(), prop::bool::weighted(0.3)).prop_map(|(index, reasoned)| Item::Aside(index, reasoned)), 1 => (0..JUNK.len()).prop_map(Item::Junk),
        1 => (dress(), vec(call(), 0..3)).prop_map(|(dress, calls)| Item::Chat(dress, calls)),
    ]
}

/// The id of a call of a kind. Calls of different kinds seldom share one.
fn call_id(kind: Kind, id: usize) -> String {
    match (kind, id) {
        (Kind::Custom, 0..4) => format!("x{}", id % 2),
        (Kind::LocalShell, 0..4) => format!("l{}", id % 2),
        (Kind::ToolSearch, 0..4) => format!("t{}", id % 2),
        _ => IDS[id].into(),
    }
}

/// Whether only calls of that kind have that id; otherwise the id is ambiguous.
fn is_telling(kind: Kind, id: usize) -> bool {
    kind == Kind::Function || id < 4
}

fn field_of(item_id: Option<usize>, prefix: &str) -> String {
    item_id.map_or_else(String::new, |id| format!(",\"id\":\"{}\"", ITEM_IDS[id].replace('@', prefix)))
}

impl Writer {
    pub fn item(&mut self, item: &Item) -> Vec<String> {
        match item {
            Item::Message { typed, role, content, item_id, status } => {
                let kind = if *typed { "\"type\":\"message\"," } else { "" };
                let more = field_of(*item_id, "msg_") + STATUS[*status];
                vec![self.item_message(kind, role, content, &more)]
            }
            Item::Call(call) => vec![self.item_call(call)],
            Item::Output(output) => vec![self.item_output(output)],
            Item::Reasoning { item_id, summary, sealed } => {
                let id = field_of(*item_id, "rs_");
                vec![format!("{{\"type\":\"reasoning\"{id}{}{}}}", SUMMARIES[*summary], SEALS[*sealed])]
            }
            Item::Aside(index, reasoned) => {
                let reasoning = format!("{{\"type\":\"reasoning\"{}{}}}", SUMMARIES[0], SEALS[0]);
                let before = reasoned.then_some(reasoning);
                self.message += usize::from(*reasoned);
                before.into_iter().chain([self.aside(ASIDES[*index])]).collect()
            }
            Item::Chat(dress, calls) => {
                let said = self.said(*dress, 'a');
                let calls: Vec<String> = calls.iter().map(|call| self.chat_call(call)).collect();
                let calls = calls.join(",");
                vec![format!("{{\"role\":\"assistant\",\"content\":\"{said}\",\"tool_calls\":[{calls}]}}")]
            }
            Item::Junk(index) => vec![self.junk(JUNK[*index])],
            Item::Turn { calls, outputs, reasoning, text } => {
                self.items_of_turn(calls, outputs, *reasoning, *text)
            }
        }
    }

    fn item_message(&mut self, kind: &str, role: &str, content: &Content, more: &str) -> String {
        let letter = match role {
            "assistant" => 'a',
            "system" | "developer" => 's',
            "tool" => 'r',
            _ => 'u',
        };
        let content = self.item_content(content, "content", letter);
        format!("{{{kind}\"role\":\"{role}\"{content}{more}}}")
    }

    /// A content under a field name, with a comma before it.
    fn item_content(&mut self, content: &Content, field: &str, letter: char) -> String {
        match content {
            Content::Text(dress) => format!(",\"{field}\":\"{}\"", self.note(*dress, letter)),
            Content::Parts(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.item_part(part, letter)).collect();
                format!(",\"{field}\":[{}]", parts.join(", "))
            }
            Content::Null => format!(",\"{field}\":null"),
            Content::Absent => String::new(),
        }
    }

    fn item_part(&mut self, part: &Part, letter: char) -> String {
        match part {
            Part::Text(spelling, dress) => {
                let (right, wrong) = match letter {
                    'a' => ("output_text", "input_text"),
                    _ => ("input_text", "output_text"),
                };
                let kind = match spelling {
                    Spelling::Right => right,
                    Spelling::Wrong => wrong,
                    Spelling::Chat => "text",
                };
                format!("{{\"type\":\"{kind}\",\"text\":\"{}\"}}", self.note(*dress, letter))
            }
            Part::Refusal(dress) => {
                format!("{{\"type\":\"refusal\",\"refusal\":\"{}\"}}", self.note(*dress, letter))
            }
            Part::Bare(dress) => format!("\"{}\"", self.note(*dress, letter)),
            Part::Media(index) => media::parts(self.shape)[*index].clone(),
            Part::Other(index) => PARTS[*index].into(),
        }
    }

    fn item_call(&mut self, ToolCall { kind, call, item_id, status }: &ToolCall) -> String {
        let id = call.id.map(|id| call_id(*kind, id));
        self.truth.call_ids.extend(id.clone());
        let id = id.map_or_else(String::new, |id| format!(",\"call_id\":\"{id}\""));
        let (name, status) = (NAMES[call.name], STATUS[*status]);
        match kind {
            Kind::Function => {
                let mut arguments = self.arguments_as_text(call, "arguments");
                if *item_id == Some(0) {
                    // Half of a pair in the string itself, not only in the JSON that it holds.
                    arguments = arguments.replace("\\\\ud83d", "\\ud83d");
                }
                let item_id = field_of(*item_id, "fc_");
                format!("{{\"type\":\"function_call\"{item_id}{id},\"name\":\"{name}\"{arguments}{status}}}")
            }
            Kind::Custom => {
                let input = self.custom_input(call);
                let item_id = field_of(*item_id, "ctc_");
                format!("{{\"type\":\"custom_tool_call\"{item_id}{id},\"name\":\"{name}\"{input}{status}}}")
            }
            Kind::ToolSearch => {
                let arguments = match call.args {
                    Args::Object(_) => {
                        let token = self.call_token(Kind::ToolSearch, call);
                        format!(",\"arguments\":{{\"query\":\"{token}\"}}")
                    }
                    Args::NoObject(_) => ",\"arguments\":[1]".into(),
                    Args::Blank(_) => ",\"arguments\":{}".into(),
                    Args::Absent => String::new(),
                    Args::Swapped(_) => ",\"arguments\":\"{}\"".into(),
                    Args::Deep(_) => ",\"arguments\":null".into(),
                };
                let item_id = field_of(*item_id, "tsc_");
                format!(
                    "{{\"type\":\"tool_search_call\"{item_id}{id},\"execution\":\"client\"{arguments}{status}}}"
                )
            }
            Kind::LocalShell => {
                let action = self.shell_action(call);
                let item_id = field_of(*item_id, "lsh_");
                format!("{{\"type\":\"local_shell_call\"{item_id}{id}{action}{status}}}")
            }
        }
    }

    /// An item other than messages and calls; a text in it belongs to the author of such items.
    fn aside(&mut self, pattern: &str) -> String {
        if !pattern.contains('%') {
            return pattern.into();
        }
        let letter = match pattern {
            _ if pattern.contains("mcp_approval_response") => 'u',
            _ if pattern.contains("additional_tools") => 's',
            _ => 'a',
        };
        let said = self.said(Dress::Plain, letter);
        pattern.replace('%', &said)
    }

    /// A token for what a call other than a function's is given.
    fn call_token(&mut self, kind: Kind, call: &Call) -> String {
        let token = self.token('k');
        if let Some(id) = call.id.filter(|id| is_telling(kind, *id)) {
            self.truth.calls.push((token.clone(), call_id(kind, id), self.message));
        }
        token
    }

    /// Free text, where a custom tool has its input.
    fn custom_input(&mut self, call: &Call) -> String {
        match call.args {
            Args::Object(_) => {
                let token = self.call_token(Kind::Custom, call);
                format!(",\"input\":\"select \\\"{token}\\\"\\n{{\"")
            }
            Args::NoObject(_) => ",\"input\":\"*** Begin Patch\"".into(),
            Args::Blank(_) => ",\"input\":\"\"".into(),
            Args::Absent => String::new(),
            Args::Swapped(_) => ",\"input\":{\"a\":1}".into(),
            Args::Deep(depth) => format!(",\"input\":\"{}\"", "[".repeat(depth)),
        }
    }

    fn shell_action(&mut self, call: &Call) -> String {
        match call.args {
            Args::Object(_) => {
                let token = self.call_token(Kind::LocalShell, call);
                let command = format!("[\"bash\",\"-lc\",\"echo {token}\"]");
                format!(",\"action\":{{\"type\":\"exec\",\"command\":{command},\"env\":{{}}}}")
            }
            Args::NoObject(_) => ",\"action\":[1]".into(),
            Args::Blank(_) => ",\"action\":{}".into(),
            Args::Absent => String::new(),
            Args::Swapped(_) => ",\"action\":\"ls\"".into(),
            Args::Deep(_) => ",\"action\":{\"type\":\"exec\",\"command\":\"ls\"}".into(),
        }
    }

    fn item_output(&mut self, output: &Output) -> String {
        let before = self.truth.results.len();
        let field = if output.kind == Kind::ToolSearch { "tools" } else { "output" };
        let given = match &output.given {
            Given::Content(content) => self.item_content(content, field, 'r'),
            Given::Object(dress) => {
                format!(",\"{field}\":{{\"content\":\"{}\",\"success\":true}}", self.note(*dress, 'r'))
            }
        };
        let kind = match output.kind {
            Kind::Function => "function_call_output",
            Kind::Custom => "custom_tool_call_output",
            Kind::LocalShell => "local_shell_call_output",
            Kind::ToolSearch => "tool_search_output",
        };
        let id = output.call.map(|id| call_id(output.kind, id));
        let telling = output.call.is_some_and(|id| is_telling(output.kind, id)) && !output.misnamed;
        self.answered(before, id.as_deref().filter(|_| telling));
        let (field, item_id) = if output.misnamed { ("id", None) } else { ("call_id", output.item_id) };
        let item_id = field_of(item_id, "fco_");
        let id = id.map_or_else(String::new, |id| format!(",\"{field}\":\"{id}\""));
        format!("{{\"type\":\"{kind}\"{item_id}{id}{given}}}")
    }

    /// A call as an element of `tool_calls`. Whether it is seen there is left open: it has no token.
    fn chat_call(&mut self, call: &Call) -> String {
        self.truth.call_ids.extend(call.id.map(|id| IDS[id].into()));
        let id = call.id.map_or_else(String::new, |id| format!("\"id\":\"{}\",", IDS[id]));
        let name = NAMES[call.name];
        format!("{{{id}\"type\":\"function\",\"function\":{{\"name\":\"{name}\",\"arguments\":\"{{}}\"}}}}")
    }

    fn items_of_turn(
        &mut self,
        calls: &[ToolCall],
        outputs: &[Given],
        reasoning: bool,
        text: bool,
    ) -> Vec<String> {
        let plain = Content::Text(Dress::Plain);
        let mut items = vec![self.item_message("", "user", &plain, "")];
        if reasoning {
            self.message += 1;
            items.push(format!("{{\"type\":\"reasoning\",\"id\":\"rs_9\"{}{}}}", SUMMARIES[0], SEALS[0]));
        }
        if text {
            self.message += 1;
            let said = Content::Parts(vec![Part::Text(Spelling::Right, Dress::Plain)]);
            items.push(self.item_message("\"type\":\"message\",", "assistant", &said, ""));
        }
        for call in calls {
            self.message += 1;
            items.push(self.item_call(call));
        }
        for (ToolCall { kind, call, .. }, given) in calls.iter().zip(outputs) {
            self.message += 1;
            items.push(self.item_output(&Output {
                kind: *kind,
                call: call.id,
                given: given.clone(),
                item_id: None,
                misnamed: false,
            }));
        }
        items
    }

    /// The next items: a user, then an assistant that calls tools, or only writes text.
    pub fn item_continuation(&mut self, calls: &[Call]) -> Vec<String> {
        let plain = Content::Text(Dress::Plain);
        if calls.is_empty() {
            return ["user", "assistant"].map(|role| self.item_message("", role, &plain, "")).into();
        }
        let call =
            |call: &Call| ToolCall { kind: Kind::Function, call: call.clone(), item_id: None, status: 0 };
        let calls: Vec<ToolCall> = calls.iter().map(call).collect();
        self.items_of_turn(&calls, &vec![Given::Content(plain); calls.len()], false, false)
    }

    /// The fields before the items that only this shape has.
    pub fn responses_before(&mut self, around: &Around) -> Vec<String> {
        vec![match around.system {
            Some(dress) => format!("\"instructions\":\"{}\"", self.said(dress, 's')),
            None => "\"instructions\":null".into(),
        }]
    }

    /// One text instead of a list.
    pub fn only_text(&mut self) -> String {
        format!("\"{}\"", self.said(Dress::Plain, 'u'))
    }
}

/// The fields after the items.
pub fn after(around: &Around) -> Vec<String> {
    let tools = match around.tools {
        0 => None,
        1 => Some(
            "\"tools\":[{\"type\":\"function\",\"name\":\"read\",\"parameters\":{\"type\":\"object\"},\"strict\":false}]",
        ),
        3 => Some(
            "\"tools\":[{\"type\":\"custom\",\"name\":\"sql\"},{\"type\":\"web_search\"},{\"type\":\"local_shell\"}],\"tool_choice\":{\"type\":\"custom\",\"name\":\"sql\"}",
        ),
        _ => Some(
            "\"tools\":[{\"type\":\"function\",\"name\":\"mcp.files:list\",\"parameters\":null}],\"tool_choice\":\"auto\"",
        ),
    };
    let store = around.spaced.then_some("\"store\":false");
    let reasoning = around
        .thinking
        .then_some("\"reasoning\":{\"effort\":\"low\"},\"include\":[\"reasoning.encrypted_content\"]");
    let fields = tools.into_iter().chain(store).chain(reasoning).chain(["\"max_output_tokens\": 1000"]);
    fields.map(str::to_owned).collect()
}
