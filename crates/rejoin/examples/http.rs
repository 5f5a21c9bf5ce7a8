//! An agent on a model behind HTTP, with a tool, in a conversation that outlives the process.
//!
//! ```sh
//! OPENAI_API_KEY=… cargo run -p rejoin --example http -- "What is the weather in Rome?"
//! OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_MODEL=llama3.2 cargo run -p rejoin --example http -- "Hello"
//! ```
//!
//! The address is that of any server that speaks OpenAI's API; without one, requests go to OpenAI. A second argument is the store,
//! `sqlite:PATH` or `jsonl:FOLDER`; without one the conversation is kept in memory.

use std::{env, sync::Arc};

use rejoin::{
    Access, Agent, Event, FunctionTool, Location, ProviderChoice, Store, Tools,
    engine::auth::Keys,
    open_store,
    providers::{http::HttpOptions, registry::connect},
    serde_json::json,
};

#[allow(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let question = arguments.next().unwrap_or_else(|| String::from("What is the weather in Rome?"));
    let location: Location = arguments.next().as_deref().unwrap_or("memory:").parse()?;
    let store: Arc<dyn Store> = open_store(&location, Access::Write)?.into();

    // The library reads no environment by itself: the program says where keys and addresses come from.
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let wanted = ProviderChoice {
        provider: Some(String::from("openai")),
        model: variable("OPENAI_MODEL"),
        base_url: variable("OPENAI_BASE_URL"),
        ..ProviderChoice::default()
    };
    let keys = Keys::in_variables(move |name| variable(name));
    let provider = connect(&wanted, &keys, &HttpOptions::default())?;
    println!("asking {}", provider.endpoint().address.url.as_deref().unwrap_or_default());

    let parameters = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    });
    let weather =
        FunctionTool::new("weather", "Tells the weather in a city.", parameters, |arguments| async move {
            Ok(format!("It is sunny in {}.", arguments.string("city")?))
        });
    let mut agent = Agent::builder(provider)
        .store(store)
        .system("Answer in one sentence.")
        .tools(Tools::default().with(weather))
        .build();
    let mut show = |event: Event| match event {
        Event::CallStarted { name, arguments, .. } => println!("calls {name} {arguments}"),
        Event::CallEnded { output, .. } => println!("result: {output}"),
        Event::Retrying { .. } => println!("trying again"),
        _ => {}
    };
    let turned = agent.ask_with(question.as_str(), &mut show).await?;
    println!("{}", turned.response);
    println!("{} messages are kept in {}", agent.messages().len(), agent.conversation().id());
    Ok(())
}
