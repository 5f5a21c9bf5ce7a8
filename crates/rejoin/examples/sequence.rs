//! An agent that keeps its own list of messages, and checks it before each request: `cargo run -p rejoin --example sequence`.

use rejoin::{
    Message, ToolCall,
    compat::{sanitize_recovered_messages, validate_message_structure},
};

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() {
    // The agent was killed after the first of two tools.
    let recovered = vec![
        Message::user("Run the tests and deploy."),
        Message::assistant_with_tools(vec![
            ToolCall::new("call_1", "run_tests", "{}"),
            ToolCall::new("call_2", "deploy", "{}"),
        ]),
        Message::tool("call_1", "412 passed"),
    ];
    println!("before: {:?}", validate_message_structure(&recovered).errors);

    let clean = sanitize_recovered_messages(&recovered);
    for line in clean.summary("example").iter().chain(&clean.log_lines()) {
        println!("{line}");
    }
    println!("after: {:?}", validate_message_structure(&clean.messages).errors);
}
