//! An agent with a tool of its own, answered by the responder that is built in: no key, no network.
//! `cargo run -p rejoin --example agent`

use std::sync::Arc;

use rejoin::{Agent, Doing, Event, Offline, Output, Raw, Tool, ToolDeclaration, Tools};

/// Does sums, and says on the way that it was asked.
struct Calculator;

impl Tool for Calculator {
    fn declaration(&self) -> ToolDeclaration {
        let schema =
            r#"{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}"#;
        ToolDeclaration::function("calculate", "Evaluates an arithmetic expression.", Raw::new(schema))
    }

    fn run<'a>(&'a self, arguments: &'a str) -> Doing<'a, Output> {
        // The arguments are the exact text that the model wrote.
        Box::pin(async move {
            let expression = arguments.split('"').nth(3).unwrap_or_default();
            match rejoin::engine::tools::evaluate(expression) {
                Ok(value) => Output::of(value.to_string()),
                Err(why) => Output::error(why),
            }
        })
    }
}

#[allow(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), rejoin::TurnError> {
    let mut tools = Tools::default();
    tools.add(Arc::new(Calculator));
    let mut agent = Agent::new_from_shared_provider(Arc::new(Offline::default()), 8_000, 2, 0.8);

    let mut show = |event: Event| match event {
        Event::CallStarted { name, arguments, .. } => println!("  {name} {arguments}"),
        Event::CallEnded { output, .. } => println!("  = {output}"),
        _ => {}
    };
    for text in ["my name is Alice", "What is 6 * 7?", "What is my name?"] {
        println!("> {text}");
        let turned = agent.execute_with(text, &tools, &mut show).await?;
        println!("{} ({} new messages)", turned.response, turned.messages.len());
    }
    println!("{} messages, state {}", agent.messages().len(), agent.conversation().state());
    Ok(())
}
