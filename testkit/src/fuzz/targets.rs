//! The entry points: one for every format that can be read and every dialect, from the registries, and a few by hand.

use std::sync::Arc;

use rejoin_formats::{
    Context, Dialect, Input, ReadError, Session, convert,
    input::{InputError, Stream},
    session::SourcePlace,
    sessions::{self, FORMATS, Format, Sample},
    wire::stream::{Delta, Received},
};
use rejoin_record::{Content, ConversationId, Entry, Message, Tree, verify::verify};
use rejoin_view::{History, OnBroken, Repairer, path::path, repair};

use super::{
    Broken, Signs, accounted, conversation, json, reshape,
    sketch::{self, Sketch},
};

/// One way in, and what must hold there.
#[derive(Clone, Copy)]
pub enum Target {
    /// Reading a format of session files.
    Read(&'static Format),
    /// Reading a file of unknown format.
    Detect,
    /// Decoding a response of a dialect, however it is cut.
    Decode(Dialect),
    /// The JSON reader, against another one.
    Json,
    /// A line of the record.
    Entry,
    /// A list of messages that no reader made.
    Repair,
    /// A conversation of some format in another shape: the first eight bytes choose it.
    Reshape,
}

impl Target {
    /// Every target.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let readable = FORMATS.iter().filter(|format| format.read.is_some()).map(Self::Read);
        let dialects = Dialect::all().map(Self::Decode);
        readable
            .chain([Self::Detect])
            .chain(dialects)
            .chain([Self::Json, Self::Entry, Self::Repair, Self::Reshape])
            .collect()
    }

    /// The target of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|target| target.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Read(format) => format!("read-{}", format.name),
            Self::Detect => "detect".into(),
            Self::Decode(dialect) => format!("decode-{dialect}"),
            Self::Json => "json".into(),
            Self::Entry => "entry".into(),
            Self::Repair => "repair".into(),
            Self::Reshape => "reshape".into(),
        }
    }

    /// Runs an input and checks everything.
    ///
    /// # Errors
    /// What does not hold.
    pub fn run(&self, input: &[u8], signs: &mut Signs) -> Result<(), Broken> {
        match self {
            Self::Read(format) => read(input, Some(format), signs),
            Self::Detect => read(input, None, signs),
            Self::Decode(dialect) => decode(input, *dialect, signs),
            Self::Json => json::agrees(&String::from_utf8_lossy(input), signs),
            Self::Entry => entries(&String::from_utf8_lossy(input), signs),
            Self::Repair => drawn(sketch::draw(input), signs),
            Self::Reshape => read(reshaped(input).as_bytes(), None, signs),
        }
    }

    /// Runs the product's own work on an input, without checks, for measuring.
    pub fn work(&self, input: &[u8]) {
        match self {
            Self::Read(format) => read_all(input, Some(format)).iter().flatten().for_each(conversation::work),
            Self::Detect => read_all(input, None).iter().flatten().for_each(conversation::work),
            Self::Decode(dialect) => {
                if let Some(message) = received(input, *dialect, input.len()).1.message {
                    conversation::work(&answered(*dialect, message));
                }
            }
            Self::Json => {
                let text = String::from_utf8_lossy(input);
                let _ = rejoin_record::json::Doc::parse(&text).map(|doc| doc.strings().count());
            }
            Self::Entry => {
                let text = String::from_utf8_lossy(input);
                let entries: Vec<Entry> =
                    text.lines().filter_map(|line| Entry::from_line(line).ok()).collect();
                let _ = (verify(&entries).len(), path(&Tree::new(&entries)).entries.len());
            }
            Self::Repair => conversation::work(&session(sketch::draw(input), Context::default())),
            Self::Reshape => {
                let shape = reshaped(input);
                read_all(shape.as_bytes(), None).iter().flatten().for_each(conversation::work);
            }
        }
    }
}

/// The conversation after the first eight bytes, in the shape that they choose.
fn reshaped(input: &[u8]) -> String {
    let (seed, text) = input.split_at(input.len().min(8));
    let seed = seed.iter().fold(0, |seed: u64, byte| seed << 8 | u64::from(*byte));
    reshape::reshape(&String::from_utf8_lossy(text), seed)
}

fn read_all(bytes: &[u8], format: Option<&'static Format>) -> Result<Vec<Session>, ReadError> {
    let input = Input::new("fuzz.json", bytes)?;
    sessions::read(&input, format)
}

fn read(bytes: &[u8], format: Option<&'static Format>, signs: &mut Signs) -> Result<(), Broken> {
    for dialect in Dialect::all() {
        // A checker returns a verdict on any input.
        for violation in crate::refusals(dialect, bytes) {
            signs.see(("violation", dialect.name(), violation.rule));
        }
    }
    stream(bytes, format)?;
    let sessions = match read_all(bytes, format) {
        Ok(sessions) => sessions,
        Err(error) => {
            signs.see(("refused", refusal(&error)));
            return Ok(());
        }
    };
    let again = read_all(bytes, format).unwrap_or_default();
    if again.len() != sessions.len() {
        return Err(Broken::new("read twice", "another number of conversations"));
    }
    signs.see(("conversations", sessions.len().min(3)));
    for (session, again) in sessions.iter().zip(&again) {
        if session.id != again.id
            || session.to_entries(conversation::NOW) != again.to_entries(conversation::NOW)
        {
            return Err(Broken::new("read twice", "another record"));
        }
        conversation::holds(session, signs)?;
    }
    if let [session] = &sessions[..] {
        in_silence(bytes, session)?;
    }
    // The text as the product decodes it: in UTF-16, say, other bytes than these are its words.
    let text = Input::new("fuzz.json", bytes).map(|input| input.text).unwrap_or_default();
    match accounted::unaccounted(&text, &sessions).first() {
        Some(lost) => Err(Broken::new("accounted for", format!("{lost:?} is nowhere"))),
        None => Ok(()),
    }
}

/// Without a finding nothing was changed: a body comes back as it was.
fn in_silence(bytes: &[u8], session: &Session) -> Result<(), Broken> {
    let Some(dialect) = Dialect::all().find(|dialect| dialect.name() == session.format) else {
        return Ok(());
    };
    let Ok(converted) = convert(session, dialect, None, OnBroken::Keep) else { return Ok(()) };
    if !session.context.whole_body || !converted.findings.is_empty() {
        return Ok(());
    }
    // Input that `serde_json` cannot represent cannot be compared: numbers beyond a float, deep nesting.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let (Ok(source), Ok(body)) = (
        serde_json::from_slice::<serde_json::Value>(bytes),
        serde_json::from_str::<serde_json::Value>(&converted.body),
    ) else {
        return Ok(());
    };
    if source == body {
        return Ok(());
    }
    Err(Broken::new(format!("silence {dialect}"), format!("{source}\nbecame\n{body}")))
}

/// Input that looks like the format can also be read as a stream; a file of lines gives the same sessions.
fn stream(bytes: &[u8], format: Option<&'static Format>) -> Result<(), Broken> {
    let text = String::from_utf8_lossy(bytes);
    let format = format.or_else(|| sessions::detect(&text));
    let half: String = text.chars().take(text.len() / 2).collect();
    let samples = [Sample::new(&text), Sample::new(&half)];
    for any in FORMATS.iter().filter_map(|format| format.read.as_ref()) {
        let _ = samples.each_ref().map(any.sniff);
    }
    let Some(reading) = format.and_then(|format| format.read.as_ref()) else { return Ok(()) };
    let mut source = bytes;
    let stream = Stream { name: "fuzz.json", source: &mut source, companions: None };
    let streamed = reading.read_stream(stream);
    // Each removes a byte-order mark once.
    if !reading.is_lines() || std::str::from_utf8(bytes).is_err() || bytes.starts_with("\u{feff}".as_bytes())
    {
        return Ok(());
    }
    let whole = Input::new("fuzz.json", bytes).map_err(Into::into).and_then(|input| reading.read(&input));
    // The reason why nothing could be read may be worded differently.
    let entries = |read: Result<Vec<Session>, ReadError>| {
        let entries = |session: &Session| session.to_entries(conversation::NOW);
        read.map(|sessions| sessions.iter().map(entries).collect::<Vec<_>>()).ok()
    };
    let (streamed, whole) = (entries(streamed), entries(whole));
    if streamed == whole {
        return Ok(());
    }
    Err(Broken::new("read as it comes", format!("{streamed:?}\nis not\n{whole:?}")))
}

fn refusal(error: &ReadError) -> &'static str {
    match error {
        ReadError::Input(InputError::Empty) => "empty",
        ReadError::Input(InputError::TooLarge { .. }) => "too large",
        ReadError::Input(InputError::Binary { .. }) => "binary",
        ReadError::NotJson { reason, .. } | ReadError::NoConversation(reason) => reason,
        ReadError::Io(_) => "io",
        ReadError::UnknownFormat => "unknown format",
        ReadError::Ambiguous { .. } => "two formats",
        ReadError::Foreign { .. } => "another format",
        ReadError::MostlyUnread { .. } => "mostly unread",
        ReadError::DamagedDatabase(_) => "damaged database",
    }
}

/// A response that arrives in pieces of this length: the text that was shown, and the answer that was received.
fn received(bytes: &[u8], dialect: Dialect, length: usize) -> (Vec<Delta>, Received) {
    let mut decoder = dialect.wire().decoder();
    let mut deltas = Vec::new();
    for piece in bytes.chunks(length.max(1)) {
        decoder.feed(piece, &mut deltas);
    }
    (deltas, decoder.finish())
}

fn decode(bytes: &[u8], dialect: Dialect, signs: &mut Signs) -> Result<(), Broken> {
    let (deltas, whole) = received(bytes, dialect, bytes.len());
    for length in [1, 7, 64] {
        let (again, cut) = received(bytes, dialect, length);
        let same = again == deltas
            && (&cut.message, &cut.end, &cut.model, cut.usage)
                == (&whole.message, &whole.end, &whole.model, whole.usage);
        if !same {
            return Err(Broken::new("pieces", format!("{length}: {cut:?}\nis not\n{whole:?}")));
        }
    }
    let said: String = deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(&**text) } else { None })
        .collect();
    let kept = whole.message.iter().flat_map(|message| &message.blocks).filter_map(|block| block.as_text());
    let kept: String = kept.map(|text| text.as_str()).collect();
    if said.chars().count() > kept.chars().count() {
        return Err(Broken::new("shown", format!("{said}\nwas shown, and this was kept:\n{kept}")));
    }
    signs.see((
        "received",
        std::mem::discriminant(&whole.end),
        whole.usage.is_some(),
        whole.message.as_ref().map(|message| message.native.is_some()),
        deltas.len().min(4),
    ));
    whole.message.map_or(Ok(()), |message| conversation::holds(&answered(dialect, message), signs))
}

/// A conversation that ends with a model's answer.
fn answered(dialect: Dialect, message: Message) -> Session {
    let sketch =
        Sketch { messages: vec![Arc::new(Message::user("go on")), Arc::new(message)], ..Sketch::default() };
    session(sketch, Context { dialect: Some(dialect), ..Context::default() })
}

/// A session of drawn messages, as a reader would give it.
pub(super) fn session(sketch: Sketch, context: Context) -> Session {
    let places =
        (0..sketch.messages.len()).map(|index| SourcePlace { index, offset: 0, line: None }).collect();
    Session {
        format: "fuzz",
        id: ConversationId::derive("fuzz", "fuzz"),
        context,
        messages: sketch.messages,
        places,
        details: Vec::new(),
        known: sketch.known,
        sent: sketch.sent,
        findings: Vec::new(),
        set_aside: Vec::new(),
    }
}

fn drawn(sketch: Sketch, signs: &mut Signs) -> Result<(), Broken> {
    grows(&sketch)?;
    conversation::holds(&session(sketch, Context::default()), signs)
}

/// A conversation that is repaired as it grows looks like one that is repaired at once.
fn grows(sketch: &Sketch) -> Result<(), Broken> {
    for policy in [OnBroken::Keep, OnBroken::Drop] {
        let mut running = Repairer::new(policy);
        let mut sent = sketch.sent.iter().copied().peekable();
        for (index, message) in sketch.messages.iter().enumerate() {
            while sent.next_if(|place| *place <= index).is_some() {
                running.seal();
            }
            let own = sketch.known.iter().filter(|known| known.message == index);
            let fates: Vec<_> = own.map(|known| (known.block, known.fate)).collect();
            running.push(Arc::clone(message), &fates);
        }
        if sent.next().is_some() {
            running.seal();
        }
        let history = History::with(sketch.messages.clone(), sketch.known.clone(), sketch.sent.clone());
        let (grown, fresh) = (running.view(), repair(&history, policy));
        let (grown_said, fresh_said) = (grown.view.to_messages(), fresh.view.to_messages());
        let found = running.all_findings();
        if grown_said != fresh_said || found != fresh.findings {
            let detail = format!(
                "{policy:?}\n{grown_said:#?}\n{:#?}\nis not\n{fresh_said:#?}\n{:#?}",
                found, fresh.findings
            );
            return Err(Broken::new("running equals fresh", detail));
        }
    }
    Ok(())
}

fn entries(text: &str, signs: &mut Signs) -> Result<(), Broken> {
    let mut entries = Vec::new();
    for line in text.split('\n') {
        match Entry::from_line(line) {
            Ok(entry) => {
                let again = entry.to_line();
                // Blanks between the fields may change; the content is read back.
                if Entry::from_line(&again).ok().as_ref() != Some(&entry) {
                    return Err(Broken::new("entry line", format!("{line}\nis written back as\n{again}")));
                }
                let content = Content::of(&entry);
                let kind = std::mem::discriminant(&entry.envelope().kind);
                signs.see(("entry", kind, std::mem::discriminant(&content)));
                let _ = (entry.verifies(None), entry.erased().to_line());
                entries.push(entry);
            }
            Err(error) => signs.see(("no entry", error.to_string().chars().take(24).collect::<String>())),
        }
    }
    for discrepancy in verify(&entries) {
        signs.see(("verify", std::mem::discriminant(&discrepancy)));
    }
    let walked = path(&Tree::new(&entries));
    signs.see(("path", walked.entries.len().min(3), walked.history.known().len().min(3)));
    for (_, finding) in &walked.findings {
        signs.see(("path", finding.rule.name()));
    }
    let _ = repair(&walked.history, OnBroken::Keep).view.to_messages().len();
    Ok(())
}
