//! The entries that a child writes: conversations of every shape, the same for the same seed.

use rejoin_record::{
    Block, Chain, Content, ConversationId, Entry, EntryId, Hash, Kind, Message, Role, Salt, Tail, Timestamp,
    ToolCall,
    chain::Stamp,
    content::{Branch, Command, Erased, Metadata, RecordedContext},
};

/// Random numbers, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below another one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    fn text(&mut self, length: usize) -> String {
        const WORDS: [&str; 8] =
            ["file", "\"quoted\"", "naïve", "line\n", "{\"a\":1}", "ß", "back\\slash", "the"];
        let mut text = format!("{:x}", self.roll());
        while text.len() < length {
            text.push(' ');
            text.push_str(WORDS[self.below(8) as usize]);
        }
        text
    }
}

/// One thing to do.
#[derive(Debug, Clone)]
pub enum Step {
    /// Append these, all together.
    Append(Vec<Entry>),
    /// Remove the content of an entry.
    Erase {
        /// The entry.
        entry: EntryId,
        /// The note about it.
        note: Box<Entry>,
    },
}

impl Step {
    /// The entries that it adds.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match self {
            Self::Append(entries) => entries,
            Self::Erase { note, .. } => std::slice::from_ref(note),
        }
    }
}

/// A conversation that is being written.
#[derive(Debug)]
pub struct Script {
    conversation: ConversationId,
    dice: Dice,
    /// The newest entry, once the last step was done.
    tail: Option<Tail>,
    /// The entry that the next one follows.
    head: Option<(EntryId, Hash)>,
    /// Messages that can be gone back to or erased.
    messages: Vec<(EntryId, Hash, bool)>,
    /// Calls without a result.
    open: Vec<String>,
    time: i64,
    last_line: String,
    rarely: u64,
}

/// Large texts that occur again and again, as files do that a tool reads.
const LARGE: usize = 40_000;

impl Script {
    /// A conversation that continues after these entries, or begins.
    #[must_use]
    pub fn new(conversation: ConversationId, entries: &[Entry], seed: u64) -> Self {
        let last = entries.iter().max_by_key(|entry| entry.envelope().seq);
        let spoken = entries.iter().filter(|entry| entry.envelope().kind == Kind::Message);
        Self {
            conversation,
            dice: Dice(seed),
            tail: last.map(Tail::of),
            head: last.map(|entry| (entry.id(), entry.hash())),
            messages: spoken.map(|entry| (entry.id(), entry.hash(), entry.content().is_none())).collect(),
            open: Vec::new(),
            time: 1_700_000_000_000 + entries.len() as i64 * 1000,
            last_line: String::new(),
            rarely: 1,
        }
    }

    /// The same script with fewer erasures: one where there were this many.
    #[must_use]
    pub fn rarely_erasing(self, rarely: u64) -> Self {
        Self { rarely, ..self }
    }

    /// The tail that the next step goes after.
    #[must_use]
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// The next thing to do. It counts as done: a caller that fails tries again.
    pub fn step(&mut self) -> Step {
        let step = self.choose();
        if let Some(last) = step.entries().last() {
            self.tail = Some(Tail::of(last));
            self.last_line = last.to_line();
        }
        step
    }

    fn choose(&mut self) -> Step {
        let mut chain = Chain::at(self.tail);
        if self.tail.is_none() {
            let header = Metadata {
                conversation: self.conversation,
                provider: Some("offline".into()),
                model: None,
                directory: None,
                format: None,
            };
            let context = RecordedContext { system: Some("Be brief.".into()), ..RecordedContext::default() };
            return Step::Append(vec![
                self.put(&mut chain, Kind::Header, &Content::Header(header)),
                self.put(&mut chain, Kind::Context, &Content::Context(context)),
            ]);
        }
        if !self.open.is_empty() && self.dice.below(8) > 0 {
            return Step::Append(self.results(&mut chain));
        }
        match self.dice.below(16) {
            0 => self.erase(&mut chain),
            1 => Step::Append(self.branch(&mut chain)),
            2..=4 => Step::Append(self.calls(&mut chain)),
            5 => {
                let command = Command { command: "/help".into(), output: "nothing".into(), failed: false };
                Step::Append(vec![self.put(&mut chain, Kind::Command, &Content::Command(command))])
            }
            6 | 7 => Step::Append(self.talk(&mut chain)),
            8 => {
                // A message quotes a line of the store, which must never be taken for an entry.
                let quoted = format!("look:\n{}\n", self.last_line);
                Step::Append(vec![self.say(&mut chain, Message::user(quoted))])
            }
            9 => {
                let text = self.large();
                Step::Append(vec![self.say(&mut chain, Message::user(text))])
            }
            10 | 11 => {
                let text = self.dice.text(3000);
                Step::Append(vec![self.say(&mut chain, Message::assistant(text))])
            }
            _ => {
                let text = self.dice.text(40);
                Step::Append(vec![self.say(&mut chain, Message::user(text))])
            }
        }
    }

    fn put(&mut self, chain: &mut Chain, kind: Kind, content: &Content) -> Entry {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.dice.roll().to_le_bytes());
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&self.dice.roll().to_le_bytes());
        self.time += 1;
        let stamp = Stamp {
            id: EntryId::new(self.time.unsigned_abs(), random),
            timestamp: Timestamp::from_millisecond(self.time).unwrap_or_default(),
            salt: Salt(salt),
            source_time: None,
        };
        let entry = chain.append_under(self.head, kind, content, stamp);
        self.head = Some((entry.id(), entry.hash()));
        entry
    }

    fn say(&mut self, chain: &mut Chain, message: Message) -> Entry {
        let entry = self.put(chain, Kind::Message, &Content::Message(message));
        self.messages.push((entry.id(), entry.hash(), false));
        entry
    }

    fn large(&mut self) -> String {
        // A few texts only, so that most of them were stored before.
        let which = self.dice.below(3);
        let mut text = Dice(which).text(LARGE);
        text.push_str("\nend");
        text
    }

    fn calls(&mut self, chain: &mut Chain) -> Vec<Entry> {
        let mut blocks = vec![Block::text(self.dice.text(60))];
        for _ in 0..=self.dice.below(3) {
            let id = format!("call_{:x}", self.dice.roll());
            let arguments = format!("{{\"path\":\"f{}\",\"n\":1.50}}", self.dice.below(10));
            blocks.push(Block::call(ToolCall::new(id.as_str(), "read_file", arguments)));
            self.open.push(id);
        }
        vec![self.say(chain, Message::new(Role::Assistant, blocks))]
    }

    fn results(&mut self, chain: &mut Chain) -> Vec<Entry> {
        // Sometimes one, sometimes all at once; what a kill cuts off stays unanswered.
        let all = self.dice.below(2) == 0;
        let mut answered: Vec<String> = std::mem::take(&mut self.open);
        if !all {
            self.open = answered.split_off(1);
        }
        let mut entries = Vec::new();
        for id in answered {
            let text = if self.dice.below(4) == 0 { self.large() } else { self.dice.text(200) };
            entries.push(self.say(chain, Message::tool(id.as_str(), text)));
        }
        entries
    }

    fn talk(&mut self, chain: &mut Chain) -> Vec<Entry> {
        let mut entries = Vec::new();
        for number in 0..2 + self.dice.below(4) {
            let text = self.dice.text(100);
            let message = if number % 2 == 0 { Message::user(text) } else { Message::assistant(text) };
            entries.push(self.say(chain, message));
        }
        entries
    }

    fn branch(&mut self, chain: &mut Chain) -> Vec<Entry> {
        let count = self.messages.len() as u64;
        let mut entries = Vec::new();
        if count > 0 {
            let (id, hash, _) = self.messages[self.dice.below(count) as usize];
            self.head = Some((id, hash));
            self.open.clear();
            entries.push(self.put(chain, Kind::Branch, &Content::Branch(Branch { reason: None })));
        }
        let text = self.dice.text(80);
        entries.push(self.say(chain, Message::user(text)));
        entries
    }

    fn erase(&mut self, chain: &mut Chain) -> Step {
        let left = self.messages.iter().filter(|(_, _, erased)| !erased).count() as u64;
        if left < 3 || (self.rarely > 1 && self.dice.below(self.rarely) > 0) {
            let text = self.dice.text(50);
            return Step::Append(vec![self.say(chain, Message::user(text))]);
        }
        let number = self.dice.below(left) as usize;
        let place =
            (0..self.messages.len()).filter(|place| !self.messages[*place].2).nth(number).unwrap_or(0);
        self.messages[place].2 = true;
        let entry = self.messages[place].0;
        let erased = Content::Erased(Erased { entry, reason: Some("a secret".into()) });
        Step::Erase { entry, note: Box::new(self.put(chain, Kind::Erased, &erased)) }
    }
}
