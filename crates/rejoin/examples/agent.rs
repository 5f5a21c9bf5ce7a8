//! An agent with its own tool, answered by the built-in responder: no key, no network.
//! `cargo run -p rejoin --example agent`

use std::sync::Arc;

use rejoin::{Agent, Event, FunctionTool, Offline, ToolOutput, Tools, serde_json::json};

/// A tool that does sums. Its arguments arrive as a JSON value; `arguments.text()` is the exact text of the model.
fn calculator() -> FunctionTool {
    let parameters = json!({"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]});
    FunctionTool::new(
        "calculate",
        "Evaluates an arithmetic expression.",
        parameters,
        |arguments| async move {
            let value = rejoin::engine::tools::evaluate(arguments.string("expression")?)
                .map_err(|why| ToolOutput::error(why.to_string()))?;
            Ok(value.to_string())
        },
    )
}

#[allow(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), rejoin::TurnError> {
    let tools = Tools::default().with(calculator());
    let mut agent = Agent::builder(Arc::new(Offline::default())).tools(tools).build();

    let mut show = |event: Event| match event {
        Event::CallStarted { name, arguments, .. } => println!("  {name} {arguments}"),
        Event::CallEnded { output, .. } => println!("  = {output}"),
        _ => {}
    };
    for text in ["my name is Alice", "What is 6 * 7?", "What is my name?"] {
        println!("> {text}");
        let turned = agent.ask_with(text, &mut show).await?;
        println!("{} ({} new messages)", turned.response, turned.messages.len());
    }
    println!("{} messages, state {}", agent.messages().len(), agent.conversation().state());
    Ok(())
}
