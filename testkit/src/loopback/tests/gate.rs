//! Copilot's gate: the code, the token, and the headers.

use std::time::Duration;

use serde_json::json;

use super::{
    super::{Config, Gate, Loopback, Service},
    Client, first,
};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

fn sign_in(server: &Loopback) -> String {
    let json = [("accept", "application/json".to_owned())];
    let form = b"client_id=Iv1.loopback&scope=read%3Auser";
    let code = Client::to(server).post("/login/device/code", &json, form).json();
    let poll = || {
        let body =
            json!({"client_id": "Iv1.loopback", "device_code": code["device_code"], "grant_type": GRANT});
        Client::to(server).post("/login/oauth/access_token", &json, body.to_string().as_bytes()).json()
    };
    assert_eq!(poll()["error"], "authorization_pending");
    let slower = poll();
    assert_eq!((&slower["error"], &slower["interval"]), (&json!("slow_down"), &json!(6)));
    poll()["access_token"].as_str().unwrap().to_owned()
}

fn chat(server: &Loopback, token: &str, more: &[(&'static str, &str)]) -> super::Got {
    let mut headers = vec![("authorization", format!("Bearer {token}"))];
    headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let body = first(Service::Copilot, "", "hello", true).to_string();
    Client::to(server).post("/copilot/chat/completions", &headers, body.as_bytes())
}

const EDITOR: [(&str, &str); 3] =
    [("editor-version", "rejoin/0.1"), ("copilot-integration-id", "vscode-chat"), ("x-initiator", "user")];

/// COP-01 to COP-04.
#[test]
fn copilot_is_entered_by_its_gate() {
    let copilot = Gate { token_life: Duration::from_secs(60), ..Gate::default() };
    let server = Loopback::start(Config { copilot, ..Config::default() });
    let token = sign_in(&server);
    let exchange = |token: &str| {
        Client::to(&server).get("/copilot_internal/v2/token", &[("authorization", format!("token {token}"))])
    };
    assert_eq!(exchange("nonsense").status, 401);
    let exchanged = exchange(&token).json();
    let short = exchanged["token"].as_str().unwrap();
    assert_eq!(exchanged["endpoints"]["api"], "http://127.0.0.1/copilot");
    assert_eq!(chat(&server, short, &EDITOR).status, 200);
    assert_eq!(server.violations(), []);
    // The token of GitHub itself is not enough, and an old one is too old.
    assert_eq!(chat(&server, &token, &EDITOR).status, 401);
    server.expire_tokens();
    let got = chat(&server, short, &EDITOR);
    assert_eq!((got.status, got.text().contains("token expired")), (401, true));
    let short = exchange(&token).json()["token"].as_str().unwrap().to_owned();
    let models = |headers: &[(&str, &str)]| {
        let mut all = vec![("authorization", format!("Bearer {short}"))];
        all.extend(headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
        Client::to(&server).get("/copilot/models", &all)
    };
    assert!(models(&EDITOR).json()["data"][0]["capabilities"]["limits"]["max_prompt_tokens"].is_u64());
    assert_eq!(server.violations(), []);
    let got = chat(&server, &short, &EDITOR[1..]);
    assert_eq!(
        (got.status, &*got.text()),
        (400, "bad request: missing Editor-Version header for IDE auth\n")
    );
    let got = chat(&server, &short, &[EDITOR[0], EDITOR[1], ("x-initiator", "agent")]);
    assert_eq!((got.status, server.violations().last().unwrap().rule.as_str()), (400, "COP-04"));
    let seen = json!({"model": "gpt", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}]});
    let mut headers = vec![("authorization", format!("Bearer {short}"))];
    headers.extend(EDITOR.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let look = |headers: &[(&str, String)]| {
        Client::to(&server).post("/copilot/chat/completions", headers, seen.to_string().as_bytes())
    };
    assert!(look(&headers).text().contains("missing required Copilot-Vision-Request header"));
    headers.push(("copilot-vision-request", "true".into()));
    assert_eq!(look(&headers).status, 200);
}

/// COP-01: a token that lasts no time is no good.
#[test]
fn tokens_expire() {
    let copilot = Gate { token_life: Duration::ZERO, polls: Vec::new(), ..Gate::default() };
    let server = Loopback::start(Config { copilot, key: Some("ghu_known".into()), ..Config::default() });
    let exchange = |token| {
        Client::to(&server).get("/copilot_internal/v2/token", &[("authorization", format!("token {token}"))])
    };
    assert_eq!(exchange("ghu_other").status, 401);
    let short = exchange("ghu_known").json()["token"].as_str().unwrap().to_owned();
    assert_eq!(chat(&server, &short, &EDITOR).status, 401);
}

/// COP-01, the other way: GitHub's token is accepted directly.
#[test]
fn copilot_may_take_the_token_as_it_is() {
    let copilot = Gate { direct: true, ..Gate::default() };
    let server = Loopback::start(Config { copilot, ..Config::default() });
    let token = sign_in(&server);
    let exchange =
        Client::to(&server).get("/copilot_internal/v2/token", &[("authorization", format!("token {token}"))]);
    assert_eq!(exchange.status, 403);
    assert_eq!(chat(&server, &token, &EDITOR).status, 200);
    assert_eq!(chat(&server, "github_pat_x", &EDITOR).status, 401);
}
