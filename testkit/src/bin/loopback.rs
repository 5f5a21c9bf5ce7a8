//! Runs the loopback provider alone: prints the address of each service, then a line for every request.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the workshop")]

use std::{process::ExitCode, sync::Arc};

use testkit::loopback::{Config, FAULTS, Fault, Heard, Loopback, Service};

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help" || argument == "-h") {
        println!("{}", usage());
        return ExitCode::SUCCESS;
    }
    match start(std::env::args().skip(1).collect()) {
        Ok(server) => {
            server.serve();
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

const USAGE: &str = "loopback [--port N] [--service NAME] [--key KEY] [--model NAME]... [--fault FAULT]...

  --port N         the port (default: 8377; 0 for any that is free)
  --service NAME   plays one service only, at the root of the address
  --key KEY        the only key that is accepted (default: any)
  --model NAME     a model that there is (default: every name, but for those that say `no-such`)
  --fault FAULT    what goes wrong with every answer; again for several";

fn start(arguments: Vec<String>) -> Result<Loopback, String> {
    let mut config = Config { port: 8377, log: Some(Arc::new(log)), ..Config::default() };
    let mut faults: Vec<Fault> = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{name}` takes a value\n\n{}", usage()));
        match name.as_str() {
            "--port" => {
                config.port = value()?.parse().map_err(|_| String::from("`--port` takes a number"))?
            }
            "--service" => config.service = Some(value()?.parse()?),
            "--key" => config.key = Some(value()?),
            "--model" => config.models.push(value()?),
            "--fault" => faults.push(value()?.parse()?),
            _ => return Err(usage()),
        }
    }
    let only = config.service;
    let server = Loopback::try_start(config).map_err(|why| format!("no server can be started: {why}"))?;
    for fault in faults {
        server.always(fault);
    }
    println!("The loopback provider answers; what a person says steers it: `tools:3 steps:2 think`.\n");
    match only {
        Some(service) => println!("  {service:<11} {}", server.url()),
        None => {
            for service in Service::ALL {
                println!("  {service:<11} {}", server.base(service));
            }
        }
    }
    let at = |service| if only.is_some() { server.url() } else { server.base(service) };
    println!(
        "\nrejoin:     rejoin chat --provider openai --api chat --model gpt-loopback --base-url {}",
        at(Service::OpenAi)
    );
    println!("OpenAI SDK: OPENAI_API_KEY=any OPENAI_BASE_URL={}", at(Service::OpenAi));
    println!("Anthropic:  ANTHROPIC_API_KEY=any ANTHROPIC_BASE_URL={}", at(Service::Anthropic));
    println!("Gemini:     GEMINI_API_KEY=any GOOGLE_GEMINI_BASE_URL={}", at(Service::Gemini));
    println!("Ollama:     OLLAMA_HOST={}", at(Service::Ollama));
    println!("\nOne line a request; Ctrl-C ends it.\n");
    Ok(server)
}

fn usage() -> String {
    format!("{USAGE}\n\nFaults: {FAULTS}")
}

/// One line: no header and no body, since those may hold keys and what people say.
fn log(heard: &Heard) {
    let Heard { number, method, target, status, sent, whole, .. } = heard;
    let path = target.split('?').next().unwrap_or_default();
    let service = heard.service.map_or("-", Service::name);
    let cut = if *whole { "" } else { " (not all of it)" };
    let why =
        if *status == 400 { String::from_utf8_lossy(&heard.answer).into_owned() } else { String::new() };
    println!(
        "{number:>5} {service:<10} {method} {path} {} bytes -> {status}, {sent} bytes{cut} {why}",
        heard.body.len()
    );
}
