//! Any bytes as a list of messages, without a reader, to reach lists that no file contains.
//!
//! A sketch is read byte by byte, and every byte has a meaning. Letters begin a message, signs add a block to it and take the next
//! bytes as their choices:
//!
//! ```text
//! u a s d t o     a message of a user, assistant, system, developer, tool, or of an unknown role
//! .x              a text
//! (1rx            call 1 of tool r with arguments x
//! )1x             a result for call 1: x
//! ~x  ^x  =x  %x  reasoning, an image, a document, something opaque
//! !x              what is known of the last call
//! |               a request was sent from here
//! ```
//! Anything else is a text. `u.1a(1rx)1x` is a question and a call with its result in the same message.

use std::sync::Arc;

use rejoin_record::{
    Arguments, Block, BlockKind, CallId, Form, Media, MediaSource, Message, Opaque, Origin, Raw, Reasoning,
    Role, Text, ToolCall, ToolResult,
};
use rejoin_view::KnownCall;

use super::FATES;

/// More messages say nothing new, and cost time.
const MOST_MESSAGES: usize = 60;

/// The content of a sketch.
#[derive(Debug, Default)]
pub struct Sketch {
    /// The messages.
    pub messages: Vec<Arc<Message>>,
    /// The known fates of their calls.
    pub known: Vec<KnownCall>,
    /// Before which messages requests were sent.
    pub sent: Vec<usize>,
}

/// Draws up the messages of a sketch.
#[must_use]
pub fn draw(bytes: &[u8]) -> Sketch {
    let mut pen = Pen { bytes: bytes.iter(), sketch: Sketch::default(), message: None };
    while let Some(byte) = pen.bytes.next().copied() {
        if pen.sketch.messages.len() >= MOST_MESSAGES {
            break;
        }
        pen.step(byte);
    }
    pen.finish();
    pen.sketch
}

struct Pen<'b> {
    bytes: std::slice::Iter<'b, u8>,
    sketch: Sketch,
    message: Option<Message>,
}

impl Pen<'_> {
    fn choice(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(b'0')
    }

    fn step(&mut self, byte: u8) {
        match byte {
            b'u' => self.begin(Role::User),
            b'a' => self.begin(Role::Assistant),
            b's' => self.begin(Role::System),
            b'd' => self.begin(Role::Developer),
            b't' => self.begin(Role::Tool),
            b'o' => {
                let name = ["", "weird", "model", "User"][usize::from(self.choice()) % 4];
                self.begin(Role::Other(name.into()));
            }
            b'.' => {
                let text = text(self.choice());
                self.add(BlockKind::Text(text));
            }
            b'(' => self.call(),
            b')' => self.result(),
            b'~' => {
                let choice = self.choice();
                let dialect = [None, Some("anthropic"), Some("openai-responses"), Some("gemini")];
                let origin = Origin {
                    dialect: dialect[usize::from(choice >> 1) % 4].map(Text::new),
                    incomplete: choice & 8 != 0,
                    ..Origin::default()
                };
                let reasoning = Reasoning { text: text(choice), sealed: choice & 1 != 0, origin };
                self.add(BlockKind::Reasoning(Box::new(reasoning)));
            }
            b'^' => {
                let media = media(self.choice());
                self.add(BlockKind::Image(Box::new(media)));
            }
            b'=' => {
                let media = media(self.choice());
                self.add(BlockKind::Document(Box::new(media)));
            }
            b'%' => {
                let opaque = opaque(self.choice());
                self.add(BlockKind::Opaque(Box::new(opaque)));
            }
            b'!' => self.fate(),
            b'|' => {
                self.finish();
                self.sketch.sent.push(self.sketch.messages.len());
            }
            b' ' | b'\n' => {}
            other => self.add(BlockKind::Text(Text::from(format!("w{other}")))),
        }
    }

    fn begin(&mut self, role: Role) {
        self.finish();
        self.message = Some(Message { form: Form::Text, ..Message::new(role, Vec::new()) });
    }

    fn finish(&mut self) {
        self.sketch.messages.extend(self.message.take().map(Arc::new));
    }

    fn add(&mut self, kind: BlockKind) {
        let message = self.message.get_or_insert_with(|| Message::new(Role::User, Vec::new()));
        // A content that is one string can hold one text and nothing else.
        if !(message.blocks.is_empty() && matches!(kind, BlockKind::Text(_))) {
            message.form = Form::Parts;
        }
        message.blocks.push(Block::new(kind));
    }

    fn call(&mut self) {
        let (id, name, arguments) = (self.choice(), self.choice(), self.choice());
        let given = id != b'_';
        let name = match name {
            b'0' => "",
            b'.' => "mcp.files:list",
            b' ' => "näme with spaces",
            b'L' => "a_name_that_is_longer_than_sixty_four_characters_and_so_is_refused_by_most",
            name if name % 2 == 0 => "read",
            _ => "run_tests",
        };
        let call = ToolCall {
            id: call_id(id),
            id_given: given,
            name: Text::new(name),
            arguments: Arguments::new(arguments_text(arguments)),
        };
        self.add(BlockKind::ToolCall(call));
    }

    fn result(&mut self) {
        let (id, content) = (self.choice(), self.choice());
        let form = [Form::Text, Form::Parts, Form::Null, Form::Absent][usize::from(content >> 2) % 4];
        let mut blocks = match form {
            Form::Text => vec![Block::text(text(content))],
            Form::Parts => vec![Block::text(text(content)), Block::text(text(content.wrapping_add(1)))],
            Form::Null | Form::Absent => Vec::new(),
        };
        if form == Form::Parts && content & 16 != 0 {
            blocks.push(Block::new(BlockKind::Image(Box::new(media(content)))));
        }
        if form == Form::Parts && content & 64 != 0 {
            blocks.push(Block::new(BlockKind::Opaque(Box::new(opaque(content)))));
        }
        let result = ToolResult {
            call_id: (id != b'_').then(|| call_id(id)),
            name: (content & 2 != 0).then(|| Text::new("read")),
            content: blocks,
            form,
            is_error: content & 1 != 0,
        };
        self.add(BlockKind::ToolResult(result));
    }

    fn fate(&mut self) {
        let fate = FATES[usize::from(self.choice()) % FATES.len()];
        let Some(message) = &self.message else { return };
        if let Some(block) = message.blocks.iter().rposition(|block| block.as_call().is_some()) {
            self.sketch.known.push(KnownCall { message: self.sketch.messages.len(), block, fate });
        }
    }
}

fn call_id(choice: u8) -> CallId {
    match choice {
        b'0' => "".into(),
        b'_' => "call_0_0".into(),
        b'-' => "c1_2".into(),
        b'.' => "functions.read:0".into(),
        b' ' => "a b".into(),
        b'L' => "toolu_01234567890123456789012345678901234567890123456789012345678901234567".into(),
        b'~' => "\u{0}\"é".into(),
        other => format!("c{}", other % 8).into(),
    }
}

fn text(choice: u8) -> Text {
    match choice {
        b'0' => "".into(),
        b' ' => " \n\t".into(),
        b'_' => "\u{a0}\u{1c}".into(),
        b'-' => "ends with a space ".into(),
        b'<' => "<system>x</system>".into(),
        b'{' => "{\"a\":[1,2,{}]}".into(),
        b'"' => "\"quoted\" \\ \u{7f}\u{2028}".into(),
        b'~' => "\u{0}\u{1b}[31m\u{fffd}\u{1f600}".into(),
        b'#' => "Continue.".into(),
        b'\'' => "(empty)".into(),
        b'[' => "[no result was recorded for this call; it may or may not have run]".into(),
        other => Text::from(format!("words {other}")),
    }
}

fn arguments_text(choice: u8) -> &'static str {
    match choice {
        b'0' => "",
        b' ' => " \n",
        b'[' => "[1]",
        b'"' => "\"text\"",
        b'{' => "{\"a\":",
        b'n' => "null",
        b'N' => "{\"a\":NaN}",
        b'9' => "{\"n\":123456789012345678901234567890.5e400}",
        b'~' => "{\"s\":\"\\ud83d\"}",
        b'2' => "{\"a\":1,\"a\":2}",
        b'-' => " { \"a\" : [ { } ] } ",
        b'^' => "{\"\\u0000\":\"\\u001f\"}",
        b'c' => "{\"a\":\"\u{1}\"}",
        _ => "{\"path\":\"a.txt\"}",
    }
}

fn media(choice: u8) -> Media {
    let png = || Text::new("iVBORw0KGgo=");
    let source = match choice % 7 {
        0 => MediaSource::Base64(png()),
        1 => MediaSource::Base64("%%%".into()),
        2 => MediaSource::Url("https://example.org/a.png".into()),
        3 => MediaSource::Url("data:image/png;base64,iVBORw0KGgo=".into()),
        4 => MediaSource::ProviderFile("file_1".into()),
        5 => MediaSource::Plain(text(choice)),
        _ => MediaSource::Unusable,
    };
    let types = [None, Some("image/png"), Some("application/pdf"), Some("text/plain"), Some(""), Some("x/y")];
    let media_type = types[usize::from(choice >> 3) % types.len()].map(Text::new);
    Media { media_type, source, name: (choice & 1 != 0).then(|| Text::new("a.png")) }
}

fn opaque(choice: u8) -> Opaque {
    let raws =
        ["null", "7", "{\"type\":\"future_block\",\"x\":[1,2]}", "[]", "\"\\ud83d\"", "{\"type\":\"\"}"];
    let raw = raws[usize::from(choice) % raws.len()];
    let kind = if choice & 32 == 0 { "future_block" } else { "" };
    Opaque { kind: kind.into(), raw: Raw::new(raw), fits: choice & 1 != 0 }
}
