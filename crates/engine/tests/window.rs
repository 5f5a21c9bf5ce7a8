//! Conversations that outgrow their model's window: pruning, compaction, recall.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;
mod talk;

use std::sync::{Arc, Mutex};

use rejoin_engine::{
    Agent,
    provider::{
        ProviderError, ProviderFault, Request,
        scripted::{ScriptedAnswer, ScriptedProvider, Step},
    },
    tools::{FunctionTool, Recall, ToolOutput, Tools},
    turn::{Ending, WindowSettings},
};
use rejoin_formats::{Dialect, wire::stream::Usage};
use rejoin_record::{Block, Role, ToolCall, json::Doc};
use rejoin_view::window::PrunePolicy;
use talk::run;

/// The body of a request.
fn body(request: &Request) -> String {
    request.body.as_ref().unwrap().pieces().map(|piece| &**piece).collect()
}

/// The provider counts four bytes as a token.
fn tokens(body: &str) -> u64 {
    body.len() as u64 / 4 + 1
}

fn with_usage(step: Step, body: &str) -> Step {
    match step {
        Step::Answer(answer) => {
            let usage = Usage { input: tokens(body), output: 20, ..Usage::default() };
            Step::Answer(ScriptedAnswer { usage: Some(usage), ..answer })
        }
        fails => fails,
    }
}

fn too_long() -> ProviderError {
    ProviderError::ContextLength(ProviderFault {
        provider: "scripted".into(),
        status: Some(400),
        kind: None,
        message: "too long".into(),
    })
}

/// What a run of many turns came to.
#[derive(Debug, Default)]
struct Course {
    bodies: Vec<String>,
    summaries: usize,
    refused: usize,
    largest: u64,
}

/// A model that calls `look` once in every turn, then answers, and writes summaries that say nothing.
fn working_provider(window: u64, course: Arc<Mutex<Course>>) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| {
        let body = body(request);
        let mut course = course.lock().unwrap();
        let messages = request.messages();
        let last = messages.last().unwrap();
        course.largest = course.largest.max(tokens(&body));
        if tokens(&body) > window {
            course.refused += 1;
            return Step::fails(too_long());
        }
        let step = match &last.role {
            Role::User if last.content().unwrap_or_default().contains("concise summary") => {
                course.summaries += 1;
                Step::says(&format!("{} The work goes on.", "We looked at many things. ".repeat(20)))
            }
            Role::User if last.content().unwrap_or_default().starts_with("Find: ") => {
                let said = last.content().unwrap_or_default();
                let query = said.trim_start_matches("Find: ");
                let arguments = rejoin_engine::serde_json::json!({"query": query}).to_string();
                Step::calls(vec![ToolCall::new(format!("find_{}", course.bodies.len()), "recall", arguments)])
            }
            Role::User => {
                let number = messages.len() + course.bodies.len();
                Step::calls(vec![ToolCall::new(format!("call_{number}"), "look", r#"{"at":"things"}"#)])
            }
            _ => Step::says("I have looked at it, and all is well with it so far as I can see."),
        };
        let step = with_usage(step, &body);
        course.bodies.push(body);
        step
    })
    .speaking(Dialect::OpenAiChat)
    .named("scripted", "some-model")
}

/// A tool that puts out a lot, each time something else, with a fact in it now and then.
fn look(bytes: usize, fact: impl Fn(usize) -> Option<String> + Send + Sync + 'static) -> FunctionTool {
    let count = Mutex::new(0usize);
    FunctionTool::new(
        "look",
        "Looks at something.",
        rejoin_engine::serde_json::json!({"type": "object"}),
        move |_| {
            let mut count = count.lock().unwrap();
            *count += 1;
            let mut out = String::new();
            let mut seed = *count as u64 * 7919;
            while out.len() < bytes {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                out.push_str(&format!("line {} of the output\n", seed >> 40));
            }
            if let Some(fact) = fact(*count) {
                out.insert_str(out.len() / 2, &format!("\n{fact}\n"));
            }
            std::future::ready(Ok::<String, ToolOutput>(out))
        },
    )
}

fn common(one: &str, other: &str) -> u64 {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count() as u64
}

/// How much of what is sent is the beginning of the request before, in shares of one.
struct Prefix {
    /// Of the previous request.
    of_previous: f64,
    /// Of the messages that both requests have.
    of_repeated: f64,
    /// Of everything that is sent.
    of_all: f64,
}

fn prefix(bodies: &[String]) -> Prefix {
    let (mut previous, mut unchanged, mut all, mut repeated) = (0, 0, 0, 0);
    for pair in bodies.windows(2) {
        let same = common(&pair[0], &pair[1]);
        previous += pair[0].len() as u64;
        repeated += same.max(shared(&pair[0], &pair[1]));
        unchanged += same;
        all += pair[1].len() as u64;
    }
    let share = |whole: u64| unchanged as f64 / whole as f64;
    Prefix { of_previous: share(previous), of_repeated: share(repeated), of_all: share(all) }
}

const WINDOW: u64 = 32_000;

fn fact(number: usize) -> (String, String) {
    (format!("the secret word of place {number}"), format!("zq{:05}x", number * 7919 % 100_000))
}

/// Works for so many turns. Every tenth turn plants a fact: in what the user says, or in what the tool puts out.
fn work(turns: usize, fitting: WindowSettings) -> (Agent, Arc<Mutex<Course>>, Vec<usize>) {
    let course = Arc::new(Mutex::new(Course::default()));
    let provider = Arc::new(working_provider(WINDOW, course.clone()));
    let told = |number: usize| {
        let (what, word) = fact(number);
        format!("{what} is {word}")
    };
    let tools =
        Tools::default().with(look(2_400, move |count| (count % 20 == 5).then(|| told(count)))).with(Recall);
    let mut agent = Agent::builder(provider).tools(tools).fitting(fitting).build();
    let mut facts = Vec::new();
    for turn in 1..=turns {
        let said = match turn % 20 {
            7 => format!("Turn {turn}: remember that {}.", told(turn)),
            _ => format!("Turn {turn}: please look at the next thing and tell me what you see."),
        };
        if matches!(turn % 20, 5 | 7) {
            facts.push(turn);
        }
        let outcome = run(agent.ask(said.as_str())).unwrap();
        assert_eq!(outcome.ending, Ending::Done, "turn {turn}");
    }
    (agent, course, facts)
}

/// 500 turns with a tool in a window of 32,000 tokens: never more than fits, never a refusal, and almost everything that is sent again
/// is the beginning of the request before. Every fact is in the view in the end, or found by one call of `recall`.
#[test]
fn five_hundred_turns_in_a_small_window() {
    let fitting = WindowSettings { context_window: Some(WINDOW), ..WindowSettings::default() };
    let (mut agent, course, facts) = work(500, fitting.clone());
    let last = {
        let course = course.lock().unwrap();
        let prefix = prefix(&course.bodies);
        println!(
            "{} requests, {} summaries, largest {} of {WINDOW} tokens; unchanged prefix: {:.2} % of what is sent again, {:.2} % of the \
             previous request, {:.2} % of all input",
            course.bodies.len(),
            course.summaries,
            course.largest,
            100.0 * prefix.of_repeated,
            100.0 * prefix.of_previous,
            100.0 * prefix.of_all
        );
        assert_eq!(course.refused, 0);
        assert!(course.largest <= WINDOW && course.largest > WINDOW / 2, "{}", course.largest);
        assert!(prefix.of_repeated >= 0.97 && prefix.of_all >= 0.9);
        assert!((1..50).contains(&course.summaries), "{}", course.summaries);
        course.bodies.last().unwrap().clone()
    };
    // The same work, with pruning that keeps the last results and nothing else.
    let naive = PrunePolicy { keep_last: Some(10), batch: Some(1), ..PrunePolicy::default() };
    let (_, naive, _) = work(150, WindowSettings { prune: naive, ..fitting });
    let naive = prefix(&naive.lock().unwrap().bodies);
    println!(
        "keeping the last 10 results: {:.2} %, {:.2} %",
        100.0 * naive.of_repeated,
        100.0 * naive.of_all
    );
    assert_eq!(facts.len(), 50);
    for number in facts {
        let (what, word) = fact(number);
        if last.contains(&word) {
            continue;
        }
        let outcome = run(agent.ask(format!("Find: {what}").as_str())).unwrap();
        let recalled = outcome.messages.iter().find(|message| message.role == Role::Tool).unwrap();
        let text = recalled.tool_results().flat_map(|result| &result.content).filter_map(Block::as_text);
        assert!(text.into_iter().any(|text| text.contains(&word)), "{what}: {word}");
    }
}

/// The bytes of messages that both requests have.
fn shared(one: &str, other: &str) -> u64 {
    let messages = |body: &str| -> Vec<String> {
        let doc = Doc::parse(body).unwrap();
        let list = doc.root().unwrap().get("messages").unwrap();
        list.items().map(|message| message.raw().to_owned()).collect()
    };
    let before: std::collections::HashSet<String> = messages(one).into_iter().collect();
    messages(other)
        .iter()
        .filter(|message| before.contains(*message))
        .map(|message| message.len() as u64 + 1)
        .sum()
}
