//! From a choice of provider to its requests.

use rejoin_record::json::Doc;

use super::*;
use crate::{
    auth::Keys,
    provider::http::tests::shared::{Answer, SECRET, Server, ask, quick, quick_at, request, said, words},
    provider_choice::{AnswerSettings, Effort},
};

fn choice(provider: &str) -> ProviderChoice {
    ProviderChoice { provider: Some(provider.to_owned()), ..ProviderChoice::default() }
}

fn with_key() -> Keys {
    Keys::in_variables(|name| Some(format!("{SECRET}-{name}")))
}

fn wired(choice: &ProviderChoice) -> HttpProvider {
    wire(choice, &with_key(), &HttpOptions::default()).unwrap_or_else(|error| panic!("{choice:?}: {error}"))
}

fn url(choice: &ProviderChoice) -> String {
    wired(choice).endpoint().address.url.clone().unwrap()
}

/// S3-01: the address of each provider's requests, with and without a given address and API.
#[test]
fn requests_go_where_the_rules_say() {
    let cases = [
        ("openai", None, None, "https://api.openai.com/v1/responses", "openai-responses"),
        ("openai", Some("chat"), None, "https://api.openai.com/v1/chat/completions", "openai-chat"),
        ("OpenAI", Some("Responses"), None, "https://api.openai.com/v1/responses", "openai-responses"),
        ("openai", None, Some("http://h:1/x/"), "http://h:1/x/chat/completions", "openai-chat"),
        ("openai", Some("responses"), Some("http://h:1/x"), "http://h:1/x/responses", "openai-responses"),
        ("anthropic", None, None, "https://api.anthropic.com/v1/messages", "anthropic"),
        ("claude", None, Some("http://h:1"), "http://h:1/messages", "anthropic"),
        ("ollama", None, None, "http://localhost:11434/api/chat", "ollama"),
        ("ollama", None, Some("http://h:1/"), "http://h:1/api/chat", "ollama"),
        (
            "gemini",
            None,
            None,
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent",
            "gemini",
        ),
        ("openrouter", None, None, "https://openrouter.ai/api/v1/chat/completions", "openai-chat"),
        ("mistral", None, None, "https://api.mistral.ai/v1/chat/completions", "mistral"),
        ("groq", None, None, "https://api.groq.com/openai/v1/chat/completions", "openai-chat"),
        ("copilot", None, None, "https://api.githubcopilot.com/chat/completions", "openai-chat"),
        (
            "acme",
            None,
            Some("https://a:b@acme.example/v2?x=1"),
            "https://acme.example/v2/chat/completions",
            "openai-chat",
        ),
    ];
    for (provider, api, base_url, expected, dialect) in cases {
        let choice = ProviderChoice {
            api: api.map(String::from),
            base_url: base_url.map(String::from),
            ..choice(provider)
        };
        assert_eq!(url(&choice), expected, "{choice:?}");
        assert_eq!(wired(&choice).endpoint().dialect.unwrap().name(), dialect, "{choice:?}");
    }
}

/// The query of an address is sent but never shown.
#[test]
fn gemini_is_asked_for_a_stream() {
    let server = Server::new(vec![Answer::stream(&said(&["x"]))]);
    let choice = ProviderChoice {
        model: Some(String::from("models/tuned ../x")),
        base_url: Some(format!("{}/v1beta?key=k#top", server.url)),
        ..choice("gemini")
    };
    let provider = wire(&choice, &with_key(), &quick()).unwrap().reading_with(words);
    ask(&provider).0.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /v1beta/models/tuned%20../x:streamGenerateContent?alt=sse&key=k");
    assert!(!format!("{provider:?}").contains("key=k"));
    assert_eq!(asked.header("x-goog-api-key").unwrap(), format!("{SECRET}-GEMINI_API_KEY"));
    assert_eq!(asked.header("authorization"), None);
}

/// A model that a conversation names cannot lead a key to another path of the server.
#[test]
fn no_model_climbs_out_of_its_path() {
    for model in ["../../v9/files", "a/../../b", "./../x", ".."] {
        let server = Server::new(vec![Answer::stream(&said(&["x"]))]);
        let base_url = Some(format!("{}/v1beta", server.url));
        let choice = ProviderChoice { model: Some(model.to_owned()), base_url, ..choice("gemini") };
        ask(&wire(&choice, &with_key(), &quick()).unwrap().reading_with(words)).0.unwrap();
        let line = server.asked()[0].line.clone();
        assert!(line.starts_with("POST /v1beta/models/") && line.contains(":stream"), "{model}: {line}");
    }
}

/// S3-02: each service gets its key in its own header, with the other headers that it requires.
#[test]
fn keys_are_shown_as_each_service_wants_it() {
    let cases = [
        ("openai", "authorization", format!("Bearer {SECRET}-OPENAI_API_KEY")),
        ("anthropic", "x-api-key", format!("{SECRET}-ANTHROPIC_API_KEY")),
        ("anthropic", "anthropic-version", String::from("2023-06-01")),
        ("openrouter", "authorization", format!("Bearer {SECRET}-OPENROUTER_API_KEY")),
        ("my-own.host", "authorization", format!("Bearer {SECRET}-MY_OWN_HOST_API_KEY")),
        ("azure", "api-key", format!("{SECRET}-AZURE_OPENAI_API_KEY")),
        ("ollama", "authorization", format!("Bearer {SECRET}-OLLAMA_API_KEY")),
    ];
    for (name, header, value) in cases {
        let server = Server::new(vec![Answer::stream(&said(&["x"]))]);
        let model = Some(String::from("m"));
        let choice = ProviderChoice { base_url: Some(server.url.clone()), model, ..choice(name) };
        let provider = wire(&choice, &with_key(), &quick()).unwrap().reading_with(words);
        ask(&provider).0.unwrap();
        assert_eq!(server.asked()[0].header(header), Some(value.as_str()), "{name}");
    }
}

/// Without a key, the error names the variable and nothing is sent. At a given address no key is needed.
#[test]
fn a_missing_key_is_said_before_anything_is_sent() {
    let needs = |service: &&Service| service.key_use == KeyUse::Needed && !service.base_url.is_empty();
    for service in registry::all().filter(needs) {
        let error = wire(&choice(service.name), &Keys::default(), &quick()).unwrap_err();
        let ProviderError::NoKey { provider, hint } = &error else { panic!("{}: {error}", service.name) };
        assert_eq!(provider, service.name);
        let way = service.key_variables[0];
        assert!(hint.contains(way) || hint.contains("auth login copilot"), "{hint}");
        let local =
            ProviderChoice { base_url: Some(String::from("http://localhost:1")), ..choice(service.name) };
        assert!(wire(&local, &Keys::default(), &quick()).is_ok(), "{}", service.name);
    }
}

#[test]
fn choices_that_mean_nothing_say_why() {
    let with = |provider: &str, api: Option<&str>, base_url: Option<&str>| {
        let choice = ProviderChoice {
            api: api.map(String::from),
            base_url: base_url.map(String::from),
            ..choice(provider)
        };
        wire(&choice, &with_key(), &quick()).unwrap_err().to_string()
    };
    assert!(
        with("nobody", None, None).contains("no provider is called `nobody`; there are anthropic, openai")
    );
    assert!(with("custom", None, None).contains("--base-url"));
    assert!(with("azure", None, None).contains("--base-url"));
    assert!(with("anthropic", Some("chat"), None).contains("anthropic has no API `chat`; it has messages"));
    assert!(with("openai", None, Some("api.example/v1")).contains("must begin with http:// or https://"));
    let odd = with("openai", None, Some("ftp://me:pass@x"));
    assert!(!odd.contains("pass"), "{odd}");
}

/// Without a model, models can still be listed, and a request fails with an error about the missing model.
#[test]
fn a_model_must_be_named_where_there_is_no_usual_one() {
    let server = Server::new(vec![Answer::json(200, r#"{"data":[{"id":"m"}]}"#)]);
    let choice = ProviderChoice { base_url: Some(server.url.clone()), ..choice("vllm") };
    let provider = wire(&choice, &Keys::default(), &quick()).unwrap();
    let error = ask(&provider).0.unwrap_err();
    assert_eq!(error.code(), "NO_MODEL");
    assert!(error.hint().unwrap().contains("rejoin models list --provider vllm"));
    let models = crate::provider::http::tests::shared::run(provider.models()).unwrap();
    assert_eq!(models[0].id, "m");
}

fn field(choice: &ProviderChoice, name: &str) -> Option<String> {
    let fields = wired(choice).fields();
    // Every value is JSON.
    fields.iter().for_each(|(name, value)| assert!(Doc::parse(value).is_ok(), "{name}: {value}"));
    fields.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// The fields of each dialect, and the quirks of services.
#[test]
fn requests_have_the_fields_of_their_dialect() {
    let within = |tokens: u64| AnswerSettings { max_tokens: Some(tokens), effort: Some(Effort::Medium) };
    let with = |provider: &str, model: &str| ProviderChoice {
        model: Some(model.to_owned()),
        answer: within(30_000),
        ..choice(provider)
    };
    let cases = [
        (choice("openai"), "store", Some("false")),
        (choice("openai"), "stream", Some("true")),
        (choice("openai"), "include", Some(r#"["reasoning.encrypted_content"]"#)),
        (choice("openai"), "max_output_tokens", None),
        (with("openai", "gpt-4o"), "include", None),
        (with("openai", "gpt-4o"), "reasoning", None),
        (with("openai", "gpt-5"), "reasoning", Some(r#"{"effort":"medium","summary":"auto"}"#)),
        (with("openai", "gpt-5"), "max_output_tokens", Some("30000")),
        (
            ProviderChoice { api: Some(String::from("chat")), ..with("openai", "gpt-5") },
            "max_completion_tokens",
            Some("30000"),
        ),
        (
            ProviderChoice { api: Some(String::from("chat")), ..with("openai", "gpt-5") },
            "reasoning_effort",
            Some("\"medium\""),
        ),
        (with("openrouter", "x"), "max_tokens", Some("30000")),
        (with("openrouter", "x"), "stream_options", Some(r#"{"include_usage":true}"#)),
        (with("groq", "x"), "max_completion_tokens", Some("30000")),
        (with("mistral", "x"), "stream_options", None),
        (with("mistral", "x"), "stream", Some("true")),
        (with("mistral", "x"), "reasoning_effort", None),
        (with("deepseek", "deepseek-reasoner"), "reasoning_effort", None),
        (choice("deepseek"), "thinking", None),
        (
            ProviderChoice { model: Some(String::from("deepseek-reasoner")), ..choice("deepseek") },
            "thinking",
            Some(r#"{"type":"enabled"}"#),
        ),
        (with("deepseek", "deepseek-chat"), "thinking", Some(r#"{"type":"enabled"}"#)),
        (choice("anthropic"), "max_tokens", Some("32000")),
        (choice("anthropic"), "thinking", None),
        (
            ProviderChoice { model: Some(String::from("x")), ..choice("anthropic") },
            "max_tokens",
            Some("8192"),
        ),
        (
            with("anthropic", "claude-sonnet-4-5"),
            "thinking",
            Some(r#"{"type":"enabled","budget_tokens":12288}"#),
        ),
        (with("anthropic", "claude-3-opus"), "thinking", None),
        (with("anthropic", "claude-opus-4-7"), "thinking", Some(r#"{"type":"adaptive"}"#)),
        (with("anthropic", "claude-opus-4-7"), "output_config", Some(r#"{"effort":"medium"}"#)),
        (
            ProviderChoice { answer: within(3_000), ..with("anthropic", "claude-sonnet-4-5") },
            "thinking",
            Some(r#"{"type":"enabled","budget_tokens":1976}"#),
        ),
        (ProviderChoice { answer: within(500), ..with("anthropic", "claude-sonnet-4-5") }, "thinking", None),
        (choice("gemini"), "generationConfig", None),
        (choice("gemini"), "stream", None),
        (
            with("gemini", "gemini-2.5-pro"),
            "generationConfig",
            Some(
                r#"{"maxOutputTokens":30000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":12288}}"#,
            ),
        ),
        (with("ollama", "llama2"), "options", Some(r#"{"num_predict":30000}"#)),
        (with("ollama", "llama2"), "think", None),
        (with("ollama", "qwen3:8b"), "think", Some("true")),
        (choice("ollama"), "stream", Some("true")),
    ];
    for (choice, name, expected) in cases {
        assert_eq!(field(&choice, name).as_deref(), expected, "{choice:?} {name}");
    }
    assert!(!wired(&choice("groq")).replays_reasoning());
    assert!(wired(&choice("deepseek")).replays_reasoning());
}

/// The fields are in the body that is sent, and the dialect's checker accepts it.
#[test]
fn the_fields_are_in_the_body() {
    for service in registry::all().filter(|service| !service.base_url.is_empty()) {
        for api in service.apis {
            let model = Some(String::from("some-model"));
            let choice = ProviderChoice { api: Some(api.name.to_owned()), model, ..choice(service.name) };
            let provider = wired(&choice);
            let body = request(&provider, &[rejoin_record::Message::user("hello")]).body.unwrap().to_string();
            for (name, value) in provider.fields() {
                assert!(body.contains(&format!("\"{name}\":{value}")), "{}: {name} in {body}", service.name);
            }
            let refused = testkit::refusals(api.dialect, body.as_bytes());
            assert!(refused.is_empty(), "{}: {refused:?} in {body}", service.name);
        }
    }
}

/// S3-02: a login of ChatGPT or Claude goes to its own address, with its own headers, and to no other address.
#[test]
fn logins_go_to_their_own_address() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "auth.json",
        &format!(
            r#"{{"OPENAI_API_KEY":null,"tokens":{{"access_token":"{SECRET}-A","account_id":"acc-1"}}}}"#
        ),
    );
    write(
        ".credentials.json",
        &format!(r#"{{"claudeAiOauth":{{"accessToken":"{SECRET}-B","expiresAt":4102444800000}}}}"#),
    );
    let keys = Keys {
        codex: Some(folder.path().to_owned()),
        claude: Some(folder.path().to_owned()),
        ..Keys::default()
    };

    let server = Server::new(vec![Answer::stream(&said(&["x"]))]);
    let with = |name: &str| ProviderChoice {
        model: Some(String::from("gpt-5")),
        answer: AnswerSettings { max_tokens: Some(9), effort: None },
        ..choice(name)
    };
    let asked_by = |wanted: &ProviderChoice| {
        let provider = wire(wanted, &keys, &quick_at(&server)).unwrap().reading_with(words);
        ask(&provider).0.unwrap();
        server.asked().pop().unwrap()
    };
    let asked = asked_by(&with("openai"));
    assert_eq!(asked.line, "POST /responses");
    assert_eq!(asked.header("authorization").unwrap(), format!("Bearer {SECRET}-A"));
    assert_eq!(asked.header("chatgpt-account-id"), Some("acc-1"));
    assert!(
        asked.body.contains(r#""store":false"#) && !asked.body.contains("max_output_tokens"),
        "{}",
        asked.body
    );

    let asked = asked_by(&with("anthropic"));
    assert_eq!(asked.line, "POST /messages");
    assert_eq!(asked.header("authorization").unwrap(), format!("Bearer {SECRET}-B"));
    assert_eq!(asked.header("anthropic-beta"), Some("oauth-2025-04-20"));
    assert_eq!(asked.header("x-api-key"), None);

    // It is not sent to another address, nor with an API that the login does not cover.
    for provider in ["openai", "anthropic"] {
        let elsewhere = ProviderChoice { base_url: Some(server.url.clone()), ..with(provider) };
        assert!(!format!("{:?}", asked_by(&elsewhere)).contains(SECRET));
    }
    let chat = ProviderChoice { api: Some(String::from("chat")), ..with("openai") };
    assert!(matches!(wire(&chat, &keys, &quick()), Err(ProviderError::NoKey { .. })));
    // A key takes precedence over a login.
    let own = Keys::in_variables(|_| Some(String::from("sk-own-0123456789")));
    let both = Keys { codex: Some(folder.path().to_owned()), ..own };
    let own = wire(&choice("openai"), &both, &quick_at(&server)).unwrap();
    assert_eq!(own.endpoint().address.url.as_deref(), Some("https://api.openai.com/v1/responses"));
}

/// An expired login is not sent; the error names its origin.
#[test]
fn a_login_past_its_time_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(r#"{{"claudeAiOauth":{{"accessToken":"{SECRET}","expiresAt":1000}}}}"#);
    std::fs::write(folder.path().join(".credentials.json"), text).unwrap();
    let in_claude = Keys { claude: Some(folder.path().to_owned()), ..Keys::default() };
    let error = wire(&choice("anthropic"), &in_claude, &quick()).unwrap_err();
    let shown = format!("{error} {}", error.hint().unwrap());
    assert!(shown.contains("expired") && shown.contains(".credentials.json"), "{shown}");
    assert!(!shown.contains(SECRET));
}

/// The account that reasoning is bound to: another key is another account; another token of the same login is not.
#[test]
fn an_account_is_told_by_a_hash() {
    let account = |key: &str| {
        let key = key.to_owned();
        let keys = Keys::in_variables(move |_| Some(key.clone()));
        let provider = wire(&choice("openai"), &keys, &quick()).unwrap();
        provider.endpoint().account.clone().unwrap()
    };
    assert_eq!(account("sk-one-0123456789"), account(" sk-one-0123456789\n"));
    assert_ne!(account("sk-one-0123456789"), account("sk-two-0123456789"));
    assert!(account(SECRET).len() == 12 && !SECRET.contains(&account(SECRET)));
}
