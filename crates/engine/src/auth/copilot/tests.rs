//! Copilot: logging in, exchanging, and what its requests carry.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant as Clock,
};

use rejoin_record::{Block, BlockKind, Media, MediaSource, Message, Role, ToolCall};

use super::*;
use crate::{
    ProviderChoice,
    auth::Keys,
    provider::{
        connect::wire,
        http::{
            HttpProvider,
            tests::shared::{Answer, Asked, Server, ask, ask_with, quick_at, run, said, words},
        },
    },
};

const GITHUB: &str = "gho_0123456789abcdef";

/// GitHub and Copilot at one address: the exchange, and a chat that takes only these tokens.
fn copilot(
    exchange: impl Fn(usize) -> Answer + Send + Sync + 'static,
    taken: &'static [&'static str],
) -> Server {
    let count = AtomicUsize::new(0);
    Server::answering(move |asked| {
        if asked.line == "GET /copilot_internal/v2/token" {
            assert_eq!(asked.header("authorization").unwrap(), format!("token {GITHUB}"));
            return exchange(count.fetch_add(1, Ordering::SeqCst));
        }
        let token = asked.header("authorization").unwrap().trim_start_matches("Bearer ");
        match (taken.contains(&token), asked.line.as_str()) {
            (false, _) => Answer::of(401, "text/plain", "unauthorized: token expired"),
            (true, "POST /chat/completions") => Answer::stream(&said(&["hi"])),
            (true, "GET /models") => Answer::json(
                200,
                r#"{"data":[{"id":"e","capabilities":{"type":"embeddings"}},{"id":"gpt-x","name":"GPT X","capabilities":{"type":"chat","limits":{"max_context_window_tokens":64000,"max_output_tokens":4096}}}]}"#,
            ),
            (true, line) => panic!("{line}"),
        }
    })
}

fn provider(server: &Server) -> HttpProvider {
    let choice = ProviderChoice {
        provider: Some(String::from("copilot")),
        base_url: Some(server.url.clone()),
        ..ProviderChoice::default()
    };
    let keys = Keys::in_variables(|name| (name == "COPILOT_GITHUB_TOKEN").then(|| String::from(GITHUB)));
    wire(&choice, &keys, &quick_at(server)).unwrap().reading_with(words)
}

fn lines(server: &Server) -> Vec<String> {
    server.asked().into_iter().map(|asked| asked.line).collect()
}

fn token(text: &str, until: u64) -> Answer {
    Answer::json(
        200,
        &format!(r#"{{"token":"{text}","expires_at":{until},"endpoints":{{"api":"https://evil.example"}}}}"#),
    )
}

const LATER: u64 = 4_102_444_800;

/// S0-57, COP-01: a token is exchanged once, kept until its time, and exchanged again after it.
#[test]
fn a_token_is_exchanged_and_kept() {
    let server = copilot(|_| token("tid=1", LATER), &["tid=1"]);
    let copilot_provider = provider(&server);
    run(async {
        let request =
            crate::provider::http::tests::shared::request(&copilot_provider, &[Message::user("hello")]);
        for _ in 0..3 {
            crate::provider::Provider::send(&copilot_provider, &request, &mut |_| {}).await.unwrap();
        }
        let models = crate::provider::Provider::models(&copilot_provider).await.unwrap();
        assert_eq!(models.len(), 1);
        assert_eq!((models[0].window, models[0].max_output), (Some(64_000), Some(4_096)));
    });
    let exchanged = lines(&server).iter().filter(|line| line.contains("copilot_internal")).count();
    assert_eq!(exchanged, 1);

    let short = copilot(|count| token(&format!("tid={count}"), 1_000), &["tid=0", "tid=1"]);
    let copilot_provider = provider(&short);
    ask(&copilot_provider).0.unwrap();
    ask(&copilot_provider).0.unwrap();
    let exchanged = lines(&short).iter().filter(|line| line.contains("copilot_internal")).count();
    assert_eq!(exchanged, 2, "it is exchanged before it ends");
}

/// COP-01: a token that is refused before it expires is exchanged again, once.
#[test]
fn a_refused_token_is_exchanged_anew_once() {
    let server = copilot(|count| token(&format!("tid={count}"), LATER), &["tid=1"]);
    let (answer, told) = ask(&provider(&server));
    answer.unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    let chat = "POST /chat/completions";
    let exchange = "GET /copilot_internal/v2/token";
    assert_eq!(lines(&server), [exchange, chat, exchange, chat]);

    let never = copilot(|count| token(&format!("tid={count}"), LATER), &[]);
    let error = ask(&provider(&never)).0.unwrap_err();
    assert_eq!(error.code(), "UNAUTHORIZED");
    assert!(error.hint().unwrap().contains("rejoin auth login copilot"));
    assert_eq!(lines(&never), [exchange, chat, exchange, chat]);
}

/// COP-01: if there is no exchange, GitHub's own token is used; a token that GitHub refuses is reported as bad.
#[test]
fn without_an_exchange_the_token_itself_is_shown() {
    for status in [403, 404] {
        let server =
            copilot(move |_| Answer::json(status, r#"{"message":"Resource not accessible"}"#), &[GITHUB]);
        ask(&provider(&server)).0.unwrap();
    }
    let server = copilot(|_| Answer::json(401, r#"{"message":"Bad credentials"}"#), &[GITHUB]);
    let error = ask(&provider(&server)).0.unwrap_err();
    assert_eq!(error.code(), "UNAUTHORIZED");
    assert!(error.to_string().contains("Bad credentials"), "{error}");
    assert!(error.hint().unwrap().contains("rejoin auth login copilot"));
    let odd = copilot(|_| Answer::json(200, r#"{"sku":"x"}"#), &[]);
    assert_eq!(ask(&provider(&odd)).0.unwrap_err().code(), "GARBAGE");
    // A busy GitHub is asked again, like any provider.
    let busy =
        copilot(|count| if count == 0 { Answer::json(503, "{}") } else { token("tid=1", LATER) }, &["tid=1"]);
    ask(&provider(&busy)).0.unwrap();
}

fn chat(messages: &[Message]) -> Asked {
    let server = copilot(|_| token("tid=1", LATER), &["tid=1"]);
    ask_with(&provider(&server), messages).0.unwrap();
    server.asked().pop().unwrap()
}

/// S0-57, COP-02, COP-03, COP-04: the headers of every request, of a request with an image, and the role of the last message.
#[test]
fn requests_carry_what_copilot_wants() {
    let asked = chat(&[Message::user("hello")]);
    assert!(asked.header("editor-version").unwrap().starts_with("rejoin/"));
    assert_eq!(asked.header("copilot-integration-id"), Some("vscode-chat"));
    assert_eq!(asked.header("x-initiator"), Some("user"));
    assert_eq!(asked.header("copilot-vision-request"), None);

    let call = ToolCall::new("call_1", "look", "{}");
    let after_tool =
        [Message::user("hello"), Message::assistant_with_tools(vec![call]), Message::tool("call_1", "seen")];
    assert_eq!(chat(&after_tool).header("x-initiator"), Some("agent"));

    // Words about images are no images.
    let words = [Message::user(r#"what is "image_url" in {"type":"image_url"}?"#)];
    assert_eq!(chat(&words).header("copilot-vision-request"), None);
    // An image far back in the history counts.
    let source = MediaSource::Url("https://x.example/a.png".into());
    let image = Block::new(BlockKind::Image(Box::new(Media { media_type: None, source, name: None })));
    let seen = [
        Message::new(Role::User, vec![Block::text("see"), image]),
        Message::assistant("a cat"),
        Message::user("sure?"),
    ];
    assert_eq!(chat(&seen).header("copilot-vision-request"), Some("true"));
}

/// S0-57: a result without a call does not reach Copilot; a call with its result does.
#[test]
fn no_orphan_reaches_copilot() {
    let call = ToolCall::new("call_1", "look", "{}");
    let server = copilot(|_| token("tid=1", LATER), &["tid=1"]);
    let copilot_provider = provider(&server);
    let messages = [
        Message::user("hello"),
        Message::tool("call_0", "lost"),
        Message::assistant_with_tools(vec![call]),
        Message::tool("call_1", "seen"),
    ];
    run(crate::provider::Provider::complete(&copilot_provider, &messages, &[])).unwrap();
    let body = server.asked().pop().unwrap().body;
    assert!(!body.contains("call_0") && body.matches("call_1").count() == 2, "{body}");
}

/// The exchange may move an account to another address of Copilot, and to no other.
#[test]
fn a_token_goes_only_to_copilot() {
    assert!(is_copilot("https://api.business.githubcopilot.com"));
    assert!(is_copilot("https://api.individual.githubcopilot.com/"));
    for odd in [
        "http://api.githubcopilot.com",
        "https://evil.example",
        "https://evil.example/.githubcopilot.com",
        "https://api.githubcopilot.com@evil.example",
        "https://evil.example\\x.githubcopilot.com",
        "https://api.githubcopilot.com.evil.example",
        "https://api.x.githubcopilot.com:1@evil.example",
        "",
    ] {
        assert!(!is_copilot(odd), "{odd}");
    }
    assert_eq!(
        moved("https://api.githubcopilot.com/chat/completions", "https://api.x.githubcopilot.com/"),
        "https://api.x.githubcopilot.com/chat/completions"
    );
}

fn github(polls: Vec<Answer>) -> Server {
    let count = AtomicUsize::new(0);
    Server::answering(move |asked| {
        assert_eq!(asked.header("accept"), Some("application/json"));
        assert!(asked.body.contains(CLIENT_ID), "{}", asked.body);
        if asked.line == "POST /login/device/code" {
            assert!(asked.body.contains("read:user"));
            return Answer::json(
                200,
                r#"{"device_code":"dev-0123456789","user_code":"ABCD-1234","verification_uri":"https://github.com/login/device","expires_in":60,"interval":0}"#,
            );
        }
        assert_eq!(asked.line, "POST /login/oauth/access_token");
        assert!(asked.body.contains("dev-0123456789"));
        polls[count.fetch_add(1, Ordering::SeqCst).min(polls.len() - 1)].clone()
    })
}

fn login(server: &Server) -> Result<SecretString, LoginError> {
    run(async {
        let login = DeviceLogin::begin(&quick_at(server)).await?;
        assert_eq!(
            (login.user_code.as_str(), login.address.as_str()),
            ("ABCD-1234", "https://github.com/login/device")
        );
        assert!(!format!("{login:?}").contains("dev-0"));
        login.finish().await
    })
}

fn says(error: &str) -> Answer {
    Answer::json(200, &format!(r#"{{"error":"{error}","error_description":"d"}}"#))
}

/// S0-57: a person enters the code on another device. Until then GitHub is polled, more slowly if it asks for that.
#[test]
fn a_person_logs_in_on_another_device() {
    let slow = Answer::json(200, r#"{"error":"slow_down","interval":1}"#);
    let done = Answer::json(
        200,
        &format!(r#"{{"access_token":"{GITHUB}","token_type":"bearer","scope":"read:user"}}"#),
    );
    let server = github(vec![says("authorization_pending"), Answer::json(502, ""), slow, done]);
    let before = Clock::now();
    assert_eq!(login(&server).unwrap().expose_secret(), GITHUB);
    assert_eq!(server.asked().len(), 5);
    assert!(before.elapsed() >= Duration::from_secs(1), "it slows down when it is asked to");
}

#[test]
fn a_login_ends_when_the_person_or_the_clock_says_so() {
    assert_eq!(login(&github(vec![says("access_denied")])).unwrap_err(), LoginError::Denied);
    assert_eq!(login(&github(vec![says("expired_token")])).unwrap_err(), LoginError::Expired);
    // The requested pause is longer than the time left.
    let slow = Answer::json(200, r#"{"error":"slow_down","interval":200}"#);
    assert_eq!(login(&github(vec![slow])).unwrap_err(), LoginError::Expired);
    let odd = login(&github(vec![Answer::json(200, r#"{"odd":"dev-0123456789"}"#)])).unwrap_err();
    assert!(matches!(odd, LoginError::Provider(ProviderError::Garbage(_))), "{odd:?}");
    assert!(!format!("{odd} {odd:?}").contains("dev-0123456789"), "{odd}");
    let none = Server::new(vec![Answer::json(404, "{}")]);
    assert!(matches!(login(&none), Err(LoginError::Provider(ProviderError::NotFound(_)))));
}
