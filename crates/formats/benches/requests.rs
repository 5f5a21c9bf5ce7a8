//! What the next request of a running conversation costs, from the append to a body of shared pieces: at 10,000 messages at
//! most twice what it costs at 100, in every dialect.
//!
//! Times of one machine say little; the table of ratios at the end is what is promised (docs/benchmarks.md).

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use rejoin_formats::{Context, Dialect, Draft, context::ToolDeclaration};
use rejoin_record::{Message, Origin, Raw, ToolCall};
use rejoin_view::{OnBroken, Repairer};

const SIZES: [usize; 2] = [100, 10_000];
/// How many turns are looked at; the best one counts.
const TURNS: usize = 200;

fn main() {
    ratios();
}

/// A conversation at work: after every batch of results a request leaves.
struct Running {
    repairer: Repairer,
    draft: Draft,
    turn: usize,
}

impl Running {
    fn new(dialect: Dialect, messages: usize) -> Self {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
        let tool =
            |name: &str| ToolDeclaration::function(name, "Does something with a file.", Raw::new(schema));
        let context = Context {
            dialect: Some(dialect),
            whole_body: true,
            instructions: Some("You work on files.".into()),
            offered: ["read", "write", "list", "search"].map(tool).into(),
            ..Context::default()
        };
        let issuer = Origin { dialect: Some(dialect.name().into()), ..Origin::default() };
        let draft = Draft::new(dialect, context, Some("model".into()), issuer).with_cache_marks();
        let mut running = Self { repairer: Repairer::new(OnBroken::Keep), draft, turn: 0 };
        running.push(Message::user("Please look at all files."));
        while running.repairer.len() < messages {
            let (calls, result) = running.next();
            running.request(calls, result);
        }
        running
    }

    fn push(&mut self, message: Message) {
        self.repairer.push(Arc::new(message), &[]);
    }

    /// The messages of the next turn: 1 KB each.
    fn next(&mut self) -> (Message, Message) {
        self.turn += 1;
        let (id, text) = (format!("call_{}", self.turn), "some text of a file\n".repeat(50));
        let arguments = format!("{{\"path\":\"src/lib.rs\",\"text\":{:?}}}", "x".repeat(900));
        let call = ToolCall::new(id.clone(), "read", arguments);
        (Message::assistant_with_tools(vec![call]), Message::tool(id, text))
    }

    /// What is measured: two messages, and the request after them.
    fn request(&mut self, calls: Message, result: Message) -> usize {
        self.push(calls);
        self.push(result);
        self.repairer.seal();
        let view = self.repairer.view().view;
        self.draft.request(&view).map_or(0, |drafted| drafted.body.len())
    }

    fn best(&mut self) -> Duration {
        let mut best = Duration::MAX;
        for _ in 0..TURNS {
            let (calls, result) = self.next();
            let start = Instant::now();
            black_box(self.request(calls, result));
            best = best.min(start.elapsed());
        }
        best
    }
}

#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn ratios() {
    println!("\nfrom two appended messages to the next request as shared pieces, best of {TURNS} turns");
    println!("{:>18} {:>12} {:>12} {:>7}", "dialect", "at 100", "at 10,000", "ratio");
    let mut worst: f64 = 0.0;
    for dialect in Dialect::all() {
        let [small, large] = SIZES.map(|size| Running::new(dialect, size).best());
        let ratio = large.as_secs_f64() / small.as_secs_f64();
        worst = worst.max(ratio);
        println!("{:>18} {small:>12.2?} {large:>12.2?} {ratio:>7.2}", dialect.name());
    }
    println!("worst: {worst:.2} (promised: at most 2)");
}
