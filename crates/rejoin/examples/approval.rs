//! A tool that asks for approval, and a program that decides about its calls.
//! `cargo run -p rejoin --example approval`

use std::{error::Error, sync::Arc};

use rejoin::{
    Agent, Event, FunctionTool, Offline, Tools,
    approval::{ApprovalAnswer, Approvals, Replies},
    serde_json::json,
};

#[allow(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The tool replaces the built-in `calculate`, and asks before each sum.
    let parameters = json!({"type": "object", "properties": {"expression": {"type": "string"}}});
    let calculate = FunctionTool::new("calculate", "Adds things up.", parameters, |arguments| async move {
        Ok(format!("{} is a lot", arguments.string("expression")?))
    })
    .asking(|arguments| format!("calculate {}", arguments["expression"]));

    let replies = Replies::default();
    let approvals = Approvals { approve: Arc::new(replies.clone()), ..Approvals::default() };
    let provider = Arc::new(Offline::default());
    let mut agent =
        Agent::builder(provider).tools(Tools::default().with(calculate)).approvals(approvals).build();

    let mut decide = |event: Event| {
        if let Event::ApprovalWanted(request) = event {
            println!("? {}", request.preview);
            replies.reply(request.call.id.to_string(), ApprovalAnswer::Yes);
        }
    };
    println!("{}", agent.ask_with("What is 6 * 7?", &mut decide).await?.response);
    Ok(())
}
