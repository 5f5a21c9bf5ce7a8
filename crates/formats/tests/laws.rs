//! The laws, over arbitrary histories of every shape, both policies, all dialects. `REJOIN_LAW_CASES` sets how many;
//! `cargo xtask laws` runs more than a hundred thousand. A dialect and a format join by being registered.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{collections::HashMap, sync::Arc};

use proptest::{prelude::*, sample::select};
use rejoin_formats::{
    Converted, Dialect, Input, Session, Target, convert,
    sessions::{self, FORMATS, Format, Writing},
};
use rejoin_record::{
    ArgumentsClass, Chain, Content, Entry, EntryId, Kind, Message, Role, Salt, Tail, Text, Timestamp, Tree,
    chain::Stamp,
    content::{Branch, CallAt, Compacted, Erased, KeptMessage, Meta, Prune, ShortenedResult, Uncompacted},
    verify::verify,
};
use rejoin_view::{Finding, History, KnownCall, OnBroken, Repairer, Rule, path::Walk, repair};
use testkit::{
    bodies::{self, Body, Shape},
    fuzz::{Target as Way, accounted, fates, read_back, reshape::reshape, seeds},
    scan,
};

/// The shapes that someone can read.
fn shapes() -> Vec<Shape> {
    Shape::ALL.into_iter().filter(|shape| readable(shape.name()).is_some()).collect()
}

fn readable(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name && format.read.is_some())
}

/// An arbitrary body that someone can read.
fn any_body() -> BoxedStrategy<Body> {
    bodies::body_of(&shapes())
}

/// The dialect that a shape is the shape of, if it is registered.
fn dialect(shape: Shape) -> Option<Dialect> {
    shape.name().parse().ok()
}

/// The format that a dialect's bodies are read back from: its own, or that of the dialect that it is a kind of.
fn way_back(dialect: Dialect) -> Option<&'static str> {
    match dialect.name() {
        own if readable(own).is_some() => Some(own),
        "mistral" | "ollama" => Some("openai-chat"),
        _ => None,
    }
}

fn session(json: &str, format: &str) -> Option<Session> {
    let input = Input::new("body.json", json.as_bytes()).unwrap();
    let format = readable(format).expect("a format that can be read");
    sessions::read(&input, Some(format)).ok()?.pop()
}

fn converted(session: &Session, to: Dialect, policy: OnBroken) -> Converted {
    convert(session, to, None, policy).unwrap()
}

const POLICIES: [OnBroken; 2] = [OnBroken::Keep, OnBroken::Drop];

/// What is not generated, or cannot be looked into, is under no law.
#[test]
fn every_dialect_is_under_the_laws() {
    for dialect in Dialect::all() {
        assert!(!scan::list(dialect.name()).is_empty());
        let generated = Shape::ALL.iter().any(|shape| shape.name() == dialect.name());
        assert!(generated || readable(dialect.name()).is_none(), "no bodies of {dialect} are generated");
    }
}

proptest! {
    #![proptest_config(testkit::law_cases(1))]

    /// A whole body is a conversation, whatever is in it. (A bare list of nothing that looks like a message is not.)
    #[test]
    fn readers_are_total(body in any_body()) {
        let whole = body.json.starts_with('{');
        prop_assert!(session(&body.json, body.shape.name()).is_some() || !whole, "nothing is read");
    }

    /// Law `sound`: every dialect's checker accepts the encoding of any history, under every policy.
    #[test]
    fn sound(body in any_body()) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        is_accepted(&session)?;
    }

    /// The same after any mix of pruning, compacting, undoing it, pinning, going back, erasing, importing what was exported, and crashes
    /// that tear the last line. Following the record entry by entry gives what reading all of it gives.
    #[test]
    fn sound_in_a_small_window(body in any_body(), steps in prop::collection::vec((0..100_usize, 0..9_u8, any::<usize>(), any::<usize>()), 1..6)) {
        let Some(first) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let entries = with_steps(&first, steps);
        let tree = Tree::new(&entries);
        let walk = Walk::entry_by_entry(&tree);
        let whole = rejoin_view::path::path(&tree);
        prop_assert_eq!(walk.messages(), whole.history.messages());
        prop_assert_eq!(verify(&entries), []);
        let numbered = entries.iter().cloned().zip(1..);
        let stored = sessions::jsonl::session_of(first.id, numbered, Vec::new());
        is_accepted(&stored)?;
    }

    /// Law `idempotent`: converting a converted body gives the same bytes. What is read in another dialect's format has other
    /// surroundings; there it is the messages.
    #[test]
    fn idempotent(body in any_body()) {
        let Some(first) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for to in Dialect::all() {
            let Some(back) = way_back(to) else { continue };
            for policy in POLICIES {
                let once = converted(&first, to, policy).body;
                let again = session(&once, back).expect("a converted body can be read");
                for second_policy in POLICIES {
                    let twice = converted(&again, to, second_policy);
                    if back != to.name() {
                        prop_assert!(messages(&once) == messages(&twice.body), "{to}\n{once}\n{}", twice.body);
                        continue;
                    }
                    prop_assert_eq!(&once, &twice.body);
                    let problems: Vec<_> = twice.findings.iter().filter(|finding| finding.is_problem()).collect();
                    prop_assert!(problems.is_empty(), "{to} {:?}", problems);
                }
            }
        }
    }

    /// Law `conserving`: every text and every result is in the body, in order, under its role.
    #[test]
    fn conserving(body in any_body()) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for to in Dialect::all() {
            for policy in POLICIES {
                let out = converted(&session, to, policy);
                if let Err(problem) = conserves(&body, &out.body, to, policy) {
                    prop_assert!(false, "{to} {policy:?}: {problem}\n{}", out.body);
                }
            }
        }
    }

    /// A conversation that is passed around all dialects that can be read back keeps every text, every result, and who answers
    /// whom.
    #[test]
    fn round(body in any_body()) {
        let Some(mut here) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let stops: Vec<Dialect> = Dialect::all().filter(|to| readable(to.name()).is_some()).collect();
        for to in stops.iter().chain(stops.first()) {
            let out = converted(&here, *to, OnBroken::Keep).body;
            if let Err(problem) = conserves(&body, &out, *to, OnBroken::Keep) {
                prop_assert!(false, "{to}: {problem}\n{out}");
            }
            here = session(&out, to.name()).expect("a converted body can be read");
        }
    }

    /// Law `identity`: what is in canonical sound form comes back byte for byte.
    #[test]
    fn identity(body in any_body()) {
        let Some(own) = dialect(body.shape) else { return Ok(()) };
        // Most arbitrary bodies are broken: what conversion made of them is canonical, in another dialect's spelling too.
        let Some(first) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let canonical = converted(&first, own, OnBroken::Keep).body;
        let spaced = canonical.replace("\"role\":", "\"role\" :  ").replace("\"type\":", "\"type\" : ");
        for json in [body.json.clone(), spaced] {
            let Some(session) = session(&json, body.shape.name()) else { continue };
            // A conversation that is one text, or one content without a list, has no messages to compare.
            let Some(expected) = messages(&json) else { continue };
            let sound = repair(&session.history(), OnBroken::Keep).findings.is_empty() && session.findings.is_empty();
            // Canonical means that every call's arguments are an object, also where the dialect would take anything.
            let objects = session.messages.iter().flat_map(|message| message.tool_calls())
                .all(|call| call.arguments.class() == ArgumentsClass::Object);
            // A bare list has nowhere to declare its tools; the body that is made of it has.
            let accepted = json.starts_with('{') && testkit::refusals(own, json.as_bytes()).is_empty();
            if !sound || !objects || !accepted { continue }
            for policy in POLICIES {
                let out = converted(&session, own, policy);
                prop_assert_eq!(messages(&out.body).unwrap_or_default(), expected.clone());
                prop_assert!(out.findings.is_empty(), "{:?}", out.findings);
            }
        }
    }

    /// Law `stable`: what was sent is a prefix of what is sent later.
    #[test]
    fn stable(
        (body, tail) in select(shapes())
            .prop_flat_map(|shape| (bodies::body(shape), bodies::continuation(shape))),
        seed in any::<u8>(),
    ) {
        let Some(base) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let tail = format!("{{\"{}\":[{}]}}", body.shape.list(), tail.join(","));
        let appended = session(&tail, body.shape.name()).unwrap();
        for to in Dialect::all() {
            for policy in [OnBroken::Keep, OnBroken::Drop] {
                let mut running = Repairer::new(policy);
                for (index, message) in base.messages.iter().enumerate() {
                    running.push(Arc::clone(message), &fates(message, index, seed));
                }
                running.seal();
                let before = encode_blocks(&running, to, &base);
                appended.messages.iter().for_each(|message| running.push(Arc::clone(message), &[]));
                let after = encode_blocks(&running, to, &base);
                prop_assert!(after.starts_with(&before), "{to} {policy:?}\nbefore {before:#?}\nafter {after:#?}");
            }
        }
    }

    /// Law `linear`, its second half: a running conversation gives the same view as a fresh one, and shares what was sent.
    #[test]
    fn running_equals_fresh(
        body in any_body(),
        cuts in proptest::collection::vec(any::<bool>(), 40),
        seed in any::<u8>(),
    ) {
        let Some(base) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for policy in [OnBroken::Keep, OnBroken::Drop] {
            let mut running = Repairer::new(policy);
            let (mut messages, mut sent, mut known) = (Vec::new(), Vec::new(), Vec::new());
            let mut sealed = 0;
            for (index, (message, cut)) in base.messages.iter().zip(cuts.iter().cycle()).enumerate() {
                let fates = fates(message, index, seed);
                running.push(Arc::clone(message), &fates);
                known.extend(fates.into_iter().map(|(block, fate)| KnownCall { message: index, block, fate }));
                messages.push(Arc::clone(message));
                let before = running.view();
                if *cut {
                    running.seal();
                    sent.push(messages.len());
                    sealed = running.view().view.sealed().len();
                }
                let now = running.view();
                for (old, new) in before.view.chunks().zip(now.view.chunks()).take(sealed.saturating_sub(1)) {
                    prop_assert!(Arc::ptr_eq(old, new), "what was sealed is shared");
                }
                let fresh = repair(&History::with(messages.clone(), known.clone(), sent.clone()), policy);
                prop_assert_eq!(format!("{:?}", now.view.items().collect::<Vec<_>>()), format!("{:?}", fresh.view.items().collect::<Vec<_>>()));
                let mut findings = running.findings().to_vec();
                // Right after a seal, the new findings are the ones that it sealed.
                if *cut {
                    prop_assert!(findings.ends_with(&now.findings));
                } else {
                    findings.extend(now.findings);
                }
                prop_assert_eq!(findings, fresh.findings);
                prop_assert_eq!(now.view.first_change(), fresh.view.first_change());
            }
        }
    }

    /// The repair pass itself is idempotent: what it gives needs no repair.
    #[test]
    fn repairing_twice_is_repairing_once(body in any_body()) {
        let Some(base) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for policy in [OnBroken::Keep, OnBroken::Drop] {
            let once = repair(&base.history(), policy).view.to_messages();
            let again = repair(&once.iter().cloned().collect(), policy);
            prop_assert!(!again.findings.iter().any(|finding| finding.is_problem()), "{:?}", again.findings);
            prop_assert_eq!(shape(&again.view.to_messages()), shape(&once));
        }
    }

    /// Every change has a finding: without findings, nothing was changed.
    #[test]
    fn nothing_happens_in_silence(body in any_body()) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let (Some(own), Some(expected)) = (dialect(body.shape), messages(&body.json)) else { return Ok(()) };
        for policy in POLICIES {
            let out = converted(&session, own, policy);
            if out.findings.is_empty() {
                prop_assert_eq!(messages(&out.body).unwrap_or_default(), expected.clone());
            }
        }
    }
}

proptest! {
    // Making a database costs more than encoding a request.
    #![proptest_config(testkit::law_cases(4))]

    /// A conversation that an agent's database holds keeps every text, every result, and who answers whom.
    #[test]
    fn stored(body in any_body()) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let writing = Writing { model: None, now: Timestamp::UNIX_EPOCH, directory: "/" };
        for name in ["goose", "llm", "xzatoma"] {
            let format = sessions::named(name).unwrap();
            for policy in POLICIES {
                let written = sessions::write(&session, format, policy, &writing).unwrap();
                let again = read_back(&written.content, format).unwrap().pop().unwrap();
                // The laws above hold for the other dialects.
                let to = Dialect::OpenAiChat;
                let out = converted(&again, to, OnBroken::Keep).body;
                if let Err(problem) = conserves(&body, &out, to, policy) {
                    prop_assert!(false, "{name} {policy:?}: {problem}\n{out}");
                }
            }
        }
    }
}

/// Every dialect's checker accepts a session, under every policy.
fn is_accepted(session: &Session) -> Result<(), TestCaseError> {
    for to in Dialect::all() {
        for policy in POLICIES {
            let out = converted(session, to, policy);
            // The body has no required settings if the source had none.
            let violations = testkit::refusals(to, out.body.as_bytes());
            prop_assert!(violations.is_empty(), "{to} {policy:?}\n{}\n{:#?}", out.body, violations);
        }
    }
    Ok(())
}

/// Roles and contents, without what only the source knows.
fn shape(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| format!("{} {:?}", message.role, message.content())).collect()
}

/// The exact bytes of each message of a body, or of a bare list; nothing if there is no list.
fn messages(json: &str) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct RawBody<'a> {
        #[serde(borrow, alias = "input", alias = "contents")]
        messages: Vec<&'a serde_json::value::RawValue>,
    }
    let whole = serde_json::from_str::<RawBody<'_>>(json).map(|whole| whole.messages);
    let list = whole.or_else(|_| serde_json::from_str::<Vec<&serde_json::value::RawValue>>(json)).ok()?;
    Some(list.iter().map(|raw| raw.get().to_owned()).collect())
}

/// The (role, block) pairs of the view's encoding, without cache marks and the codec's closing message.
fn encode_blocks(running: &Repairer, to: Dialect, base: &Session) -> Vec<(String, String)> {
    let target = Target::of(&base.context);
    let encoded = to.wire().encode(&running.view().view, &target).unwrap();
    let closing = |f: &Finding| {
        f.rule == Rule::RoleOrder
            && f.detail
                .as_ref()
                .is_some_and(|detail| detail.contains("ends with") || detail.contains("needs a message"))
    };
    if !encoded.findings.iter().any(closing) {
        return scan::blocks(&encoded.body, to.name());
    }
    let mut body = scan::parse(&encoded.body);
    body[scan::list(to.name())].as_array_mut().unwrap().pop();
    scan::blocks(&body.to_string(), to.name())
}

fn conserves(body: &Body, out: &str, to: Dialect, policy: OnBroken) -> Result<(), String> {
    let found = scan::tokens(out, to.name());
    let mut said = Vec::new();
    for token in &found {
        match token.token.chars().nth(1) {
            Some('u' | 'a' | 's') => said.push(token.token.clone()),
            _ => continue,
        }
        let role_fits = match token.token.chars().nth(1) {
            Some('a') => token.role == "assistant",
            Some('u') => token.role == "user",
            _ => matches!(token.role.as_str(), "system" | "developer" | "user"),
        };
        if !role_fits {
            return Err(format!("{} went out as {}", token.token, token.role));
        }
    }
    if said != body.truth.said {
        return Err(format!("said {:?}, sent {said:?}", body.truth.said));
    }
    if policy != OnBroken::Keep {
        return Ok(());
    }
    let mut results: Vec<_> =
        found.iter().filter(|token| token.token.starts_with("⟦r")).map(|token| token.token.clone()).collect();
    let mut expected = body.truth.results.clone();
    results.sort();
    expected.sort();
    if results != expected {
        return Err(format!("results {expected:?}, sent {results:?}"));
    }
    // A call and a later result stay a pair if no other call or result has their id.
    let mut uses: HashMap<&str, usize> = HashMap::new();
    body.truth.call_ids.iter().for_each(|id| *uses.entry(id).or_default() += 1);
    let place = |wanted: &str| found.iter().find(|token| token.token == wanted);
    for (call, id, call_at) in &body.truth.calls {
        for (result, result_id, result_at) in &body.truth.answers {
            if id == result_id && uses[id.as_str()] == 1 && result_at > call_at {
                let (call_at, result_at) = (place(call), place(result));
                let (Some(call_at), Some(result_at)) = (call_at, result_at) else {
                    return Err(format!("the pair {call} {result} is not there"));
                };
                if call_at.call_id != result_at.call_id || call_at.call_id.is_none() {
                    return Err(format!(
                        "{call} has id {:?}, {result} {:?}",
                        call_at.call_id, result_at.call_id
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Reads a text as what it looks like and as what it was, and checks that every word is accounted for.
fn accounts_for(text: &str, format: &str, marks: &[(&str, Role)]) -> Result<(), TestCaseError> {
    let Ok(input) = Input::new("file.json", text.as_bytes()) else { return Ok(()) };
    for asked in [None, readable(format)] {
        // To refuse is to account for it.
        let Ok(sessions) = sessions::read(&input, asked) else { continue };
        let lost = accounted::unaccounted(text, &sessions);
        let asked = asked.map(|format| format.name);
        prop_assert!(
            lost.is_empty(),
            "{asked:?} {:?}\n{lost:#?}\n{text}",
            sessions.first().map(|s| s.format)
        );
        let wrong = accounted::misattributed(&sessions, marks);
        prop_assert!(wrong.is_empty(), "{asked:?}\n{wrong:#?}\n{text}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(testkit::law_cases(1))]

    /// Accounted for: whatever becomes of the keys and the nesting of a body, each string of four words or more is in the
    /// session or named by a finding, or the body is refused; and no text silently changes its speaker.
    #[test]
    fn every_word_of_a_reshaped_body_is_accounted_for(body in any_body(), seed in any::<u64>()) {
        let marks: Vec<(&str, Role)> = body.truth.said.iter().filter_map(|token| {
            let role = match token.trim_start_matches('⟦').chars().next()? {
                'u' => Role::User,
                'a' => Role::Assistant,
                _ => return None,
            };
            Some((token.as_str(), role))
        }).collect();
        accounts_for(&body.json, body.shape.name(), &marks)?;
        accounts_for(&reshape(&body.json, seed), body.shape.name(), &marks)?;
    }

    /// The same for the files of every reader, session files of other agents among them.
    #[test]
    fn every_word_of_a_reshaped_file_is_accounted_for(file in any::<prop::sample::Index>(), seed in any::<u64>()) {
        let files = files();
        let (format, text) = &files[file.index(files.len())];
        accounts_for(text, format, &[])?;
        accounts_for(&reshape(text, seed), format, &[])?;
    }
}

/// The inputs that the fuzzer begins with, for every reader.
fn files() -> &'static [(&'static str, String)] {
    static FILES: std::sync::OnceLock<Vec<(&'static str, String)>> = std::sync::OnceLock::new();
    FILES.get_or_init(|| {
        let readable = FORMATS.iter().filter(|format| format.read.is_some());
        let inputs = readable
            .flat_map(|format| seeds::own(&Way::Read(format)).into_iter().map(|file| (format.name, file.1)));
        inputs.filter_map(|(name, bytes)| Some((name, String::from_utf8(bytes).ok()?))).collect()
    })
}

/// The entries of a session with steps between them: where, what, and which entries it is about.
fn with_steps(session: &Session, mut steps: Vec<(usize, u8, usize, usize)>) -> Vec<Entry> {
    steps.sort_by_key(|(place, ..)| *place);
    let mut steps = steps.into_iter().peekable();
    let entries = session.to_entries(Timestamp::UNIX_EPOCH);
    let mut record = Recorded::default();
    for (number, entry) in entries.iter().enumerate() {
        record.append(&entry.envelope().kind, &Content::of(entry));
        let is_last = number + 1 == entries.len();
        while let Some((_, kind, one, other)) = steps.next_if(|(place, ..)| is_last || *place <= number) {
            record.step(session, kind, one, other);
        }
    }
    record.entries
}

/// A record in the making.
#[derive(Default)]
struct Recorded {
    entries: Vec<Entry>,
    /// How many entries there ever were: no id is used twice.
    made: u64,
}

impl Recorded {
    fn append(&mut self, kind: &Kind, content: &Content) {
        self.append_under(None, kind, content);
    }

    fn append_under(&mut self, parent: Option<usize>, kind: &Kind, content: &Content) {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.made.to_be_bytes());
        self.made += 1;
        let stamp = Stamp {
            id: EntryId::new(self.made, random),
            timestamp: Timestamp::UNIX_EPOCH,
            salt: Salt([1; 16]),
            source_time: None,
        };
        let mut chain = Chain::at(self.entries.last().map(Tail::of));
        let parent = parent.map(|parent| (self.entries[parent].id(), self.entries[parent].hash()));
        let entry = chain.append_under(parent.or(chain.head()), kind.clone(), content, stamp);
        self.entries.push(entry);
    }

    fn step(&mut self, session: &Session, kind: u8, one: usize, other: usize) {
        let any = |number: usize| self.entries[number % self.entries.len()].id();
        let at = |number: usize| CallAt { entry: any(number), block: (number / 7 % 2) as u64 };
        let content = match kind {
            0 => {
                let CallAt { entry, block } = at(one / 2);
                let shortened = vec![ShortenedResult { entry, block, shown: (other % 20) as u64 }];
                let results = vec![at(one), at(other)];
                Content::Prune(Prune { results, shortened: one.is_multiple_of(2).then_some(shortened) })
            }
            1 => {
                let text = other.is_multiple_of(2).then(|| Text::new("shorter"));
                let kept = Some(vec![KeptMessage { entry: any(other), text }]);
                Content::Compacted(Compacted { kept, ..Compacted::new("what was said", Some(any(one))) })
            }
            2 => Content::Compacted(Compacted::new("what was said", None)),
            3 => {
                let mut newest_first = self.entries.iter().rev();
                let compacted = newest_first.find(|entry| entry.envelope().kind == Kind::Compacted);
                Content::Uncompacted(Uncompacted { compaction: compacted.map_or(any(one), Entry::id) })
            }
            4 => Content::Meta(Meta { pinned: Some(vec![any(one)]), ..Meta::default() }),
            5 => {
                let under = one % self.entries.len();
                let branch = Content::Branch(Branch { reason: None });
                return self.append_under(Some(under), &Kind::Branch, &branch);
            }
            6 => {
                let erased = one % self.entries.len();
                let entry = self.entries[erased].id();
                self.entries[erased] = self.entries[erased].erased();
                Content::Erased(Erased { entry, reason: None })
            }
            7 => return self.export_and_import(session, one),
            _ => return self.crash(other),
        };
        self.append(&content.kind().unwrap(), &content);
    }

    /// Everything so far, written in a format and read back, is the beginning of another conversation.
    fn export_and_import(&mut self, session: &Session, which: usize) {
        let stored =
            sessions::jsonl::session_of(session.id, self.entries.iter().cloned().zip(1..), Vec::new());
        let is_foreign = |format: &&Format| format.read.as_ref().is_some_and(|reading| !reading.own);
        let formats: Vec<&'static Format> =
            FORMATS.iter().filter(is_foreign).filter(|format| format.write.is_some()).collect();
        let format = formats[which % formats.len()];
        let writing = Writing { model: Some("m"), now: Timestamp::UNIX_EPOCH, directory: "/" };
        let written = sessions::write(&stored, format, OnBroken::Keep, &writing).unwrap();
        // Of a conversation without messages, nothing may be left to read.
        let Ok(mut read) = read_back(&written.content, format) else { return };
        let Some(read) = read.pop() else { return };
        self.entries = read.to_entries(Timestamp::UNIX_EPOCH);
    }

    /// The process ends in the middle of a write: of the last line only a part is left, which a reader sets aside.
    fn crash(&mut self, left: usize) {
        if self.entries.len() < 2 {
            return;
        }
        let torn = self.entries.pop().unwrap().to_line();
        let whole: String = self.entries.iter().map(|entry| entry.to_line() + "\n").collect();
        let left = torn.floor_char_boundary(1 + left % (torn.len() - 1));
        let input = Input::new("torn.jsonl", (whole.clone() + &torn[..left]).as_bytes()).unwrap();
        let read = sessions::read(&input, readable("jsonl")).unwrap().pop().unwrap();
        let expected =
            sessions::read(&Input::new("whole.jsonl", whole.as_bytes()).unwrap(), readable("jsonl"));
        assert_eq!(read.messages, expected.unwrap().pop().unwrap().messages, "a torn line is not read");
    }
}
