//! Runs every command in the guides to providers, against the loopback provider if the command needs one.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{fs, path::Path};

use support::{
    Home, Ran,
    services::{SECRET, with_keys},
};
use testkit::loopback::{Config, Loopback, Service};

/// The commands of a page that its own test does not run: they want a provider.
fn commands(page: &str) -> Vec<String> {
    let (mut found, mut inside) = (Vec::new(), false);
    for line in page.lines() {
        match line {
            "```sh norun" => inside = true,
            line if line.starts_with("```") => inside = false,
            line if inside && line.starts_with("rejoin ") => {
                found.push(line.split(" #").next().unwrap().trim().to_owned());
            }
            _ => {}
        }
    }
    found
}

/// The words of a command; a quoted text is one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, piece) in line.split('"').enumerate() {
        if place % 2 == 1 {
            words.push(piece.to_owned());
        } else {
            words.extend(piece.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// The address at which the loopback provider plays a service, for the reader of a guide.
fn base(server: &Loopback, provider: &str) -> Option<String> {
    let (service, version) = match provider {
        "anthropic" => (Service::Anthropic, "/v1"),
        "gemini" => (Service::Gemini, "/v1beta"),
        "ollama" => (Service::Ollama, ""),
        "openrouter" => (Service::OpenRouter, ""),
        "groq" => (Service::Groq, ""),
        "copilot" => (Service::Copilot, ""),
        "offline" => return None,
        _ => (Service::OpenAi, ""),
    };
    Some(server.base(service) + version)
}

#[test]
fn every_command_of_the_guides_works() {
    let server = Loopback::start(Config::default());
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/providers"));
    let mut ran = 0;
    for page in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let home = Home::new("sqlite");
        home.out(&["chat", "--provider", "offline", "2+2"]);
        for line in commands(&fs::read_to_string(&page).unwrap()) {
            let mut arguments = words(&line)[1..].to_vec();
            let value = |flag: &str, arguments: &[String]| {
                arguments.iter().position(|word| word == flag).map(|place| place + 1)
            };
            let provider = value("--provider", &arguments).map(|place| arguments[place].clone());
            if let Some(base) = provider.as_deref().and_then(|provider| base(&server, provider)) {
                match value("--base-url", &arguments) {
                    Some(place) => arguments[place] = base,
                    None if line.contains("--api chat") || !line.contains("--provider openai ") => {
                        arguments.extend(["--base-url".to_owned(), base]);
                    }
                    // At another address than its own, `openai` means Chat Completions, unless an API is named.
                    None if arguments[0] == "models" => arguments.extend(["--base-url".to_owned(), base]),
                    None => arguments.extend(["--base-url", &base, "--api", "responses"].map(str::to_owned)),
                }
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let mut command = home.command(&arguments);
            with_keys(&mut command, &server);
            // Servers of the user need no key; the loopback provider that plays them does.
            for name in ["LMSTUDIO_API_KEY", "LM_STUDIO_API_KEY", "ACME_API_KEY"] {
                command.env(name, SECRET);
            }
            if line.contains("auth login") {
                command.env_remove("COPILOT_GITHUB_TOKEN");
            }
            let done = Ran::of(command.output().unwrap());
            let name = page.file_name().unwrap().to_string_lossy().into_owned();
            assert_eq!(done.code, 0, "{name}: {line}\n{}", done.err);
            assert!(!done.out.contains(SECRET) && !done.err.contains(SECRET));
            ran += 1;
        }
    }
    assert!(ran > 30, "{ran} commands were run");
    assert!(server.violations().is_empty(), "{:?}", server.violations());
}
