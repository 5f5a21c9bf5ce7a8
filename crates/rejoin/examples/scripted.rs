//! An agent under test: the provider answers from a script, fails where the test wants it to, and shows the requests that it got.
//! `cargo run -p rejoin --features testing --example scripted`

use std::sync::Arc;

use rejoin::{Agent, Dialect, Message, ProviderError, ScriptedProvider, Step, ToolCall, Tools};

#[allow(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), rejoin::TurnError> {
    let sum = ToolCall::new("call_1", "calculate", r#"{"expression":"2+2"}"#);
    let script = [
        Step::says_and_calls("Let me see.", vec![sum]),
        // The network goes away after the tool has run.
        Step::fails(ProviderError::Cut),
        Step::says("It was 4.").in_pieces_of(2),
    ];
    let provider = Arc::new(ScriptedProvider::new(script).speaking(Dialect::Anthropic));
    let history =
        vec![Message::user("Hello."), Message::tool("gone", "an orphan"), Message::assistant("Hello.")];
    let mut agent = Agent::builder(provider.clone()).title("A test").history(history).build();
    let tools = Tools::builtin(".");

    if let Err(error) = agent.execute("What is 2+2?", &tools).await {
        println!("failed: {error} [{}]", error.code());
    }
    println!("kept: {} messages", agent.messages().len());
    let turned = agent.execute("And?", &tools).await?;
    println!("answered: {}", turned.response);
    for (number, request) in provider.requests().iter().enumerate() {
        let body = request.body.as_ref().map(ToString::to_string).unwrap_or_default();
        let refused = rejoin::checkers::named("anthropic")
            .map(|checker| checker.check_draft(body.as_bytes()).violations.len());
        let refused = refused.unwrap_or_default();
        println!(
            "request {}: {} messages, {refused} things that Anthropic refuses",
            number + 1,
            request.messages().len()
        );
    }
    println!("{}", provider.last_body().unwrap_or_default());
    Ok(())
}
