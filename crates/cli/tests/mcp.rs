//! MCP servers from outside: real servers in the real sandbox, over both transports, including hostile ones.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use expectrl::{Eof, Expect as _, session::OsSession};
use serde_json::{Value, json};
use support::{Home, Ran, has, services::PROVIDERS};
use testkit::{
    loopback::{Config, Loopback},
    mcp,
};

/// A home whose settings name one server, `kit`, that behaves like this.
fn with_server(arguments: &[&str], flags: &[&str]) -> Home {
    let home = Home::new("sqlite");
    add(&home, "kit", arguments, flags);
    home
}

fn add(home: &Home, name: &str, arguments: &[&str], flags: &[&str]) {
    let server = mcp::server().display().to_string();
    home.out(&[&["mcp", "add", name], flags, &["--", &server], arguments].concat());
}

/// A turn in which the model calls a tool of the server, on the provider of that number.
fn call_on(home: &Home, number: usize, said: &str, flags: &[&str]) -> Vec<Value> {
    let server = Loopback::start(Config::default());
    let arguments = [&["chat", "--json"], flags, &[said]].concat();
    let ran = Ran::of(PROVIDERS[number].command(home, &server, &arguments).output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(server.violations().is_empty(), "{:#?}", server.violations());
    // Keep its port in use. A later server on the same port would get reasoning that this one has sealed, and refuse it.
    std::mem::forget(server);
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The same on the first provider, with every call approved.
fn call(home: &Home, said: &str) -> Vec<Value> {
    call_on(home, 0, said, &["--mode", "auto"])
}

/// The output of the last call, and whether it is an error.
fn result(events: &[Value]) -> (String, bool) {
    let ended = events.iter().rev().find(|event| event["type"] == "call_ended").expect("no call ended");
    (ended["output"].as_str().unwrap().to_owned(), ended["is_error"].as_bool().unwrap())
}

fn warnings(events: &[Value]) -> String {
    let warnings = events.iter().filter(|event| event["type"] == "warning");
    warnings.map(|event| event["text"].as_str().unwrap().to_owned() + "\n").collect()
}

/// A call of a tool with these arguments.
fn asking(tool: &str, arguments: &Value) -> String {
    format!("call:kit__{tool} with:{arguments}")
}

/// S4-01: a chat calls the tools of an MCP server, on any provider, including OpenAI and Anthropic. The call and its result are
/// stored, and part of the next request.
#[test]
fn a_tool_of_a_server_is_called_on_every_provider() {
    for (number, provider) in PROVIDERS.iter().enumerate() {
        // This one gives wrong schemas, but every provider must still accept the request.
        let home = with_server(&["--manner", "lies"], &[]);
        let events = call_on(&home, number, "call:kit__echo", &["--mode", "auto"]);
        let (output, failed) = result(&events);
        assert!(output.starts_with("value 0 (") && !failed, "{output}");
        has(
            &warnings(&events),
            &[
                "the tool `no_object` takes any object: its schema is not an object",
                "the tool `wrong type` takes any object: its schema is not the schema of an object",
                "the tool `deep` takes any object: its schema is nested too deeply",
                "the MCP server `kit`: 4 more like this; its status lists them",
            ],
        );
        if number == 0 {
            let more = [
                "the tool `large` takes any object: its schema is too large",
                "a tool without a name",
                "the tool `echo` twice",
            ];
            let ran = home.run(&["mcp", "test", "kit"]);
            has(&(ran.out + &ran.err), &more);
        }
        let stored = home.out(&["history", "show", "--json"]);
        has(&stored, &["kit__echo", "value 0 ("]);
        let server = Loopback::start(Config::default());
        let arguments = ["chat", "--json", "--mode", "auto", "and then?"];
        let ran = Ran::of(provider.command(&home, &server, &arguments).output().unwrap());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let sent = String::from_utf8(server.requests().last().unwrap().body.to_vec()).unwrap();
        has(&sent, &["kit__echo", "value 0 (", "and then?"]);
        assert!(server.violations().is_empty(), "{:#?}", server.violations());
        home.verifies();
    }
}

#[test]
fn a_server_can_do_only_what_its_entry_allows() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (write, connect) = (
        asking("write", &json!({"path": "made.txt", "text": "x"})),
        asking("connect", &json!({"address": address})),
    );
    let home = with_server(&[], &[]);
    let secret = home.file("secret.txt", "hidden");
    home.file("here/open.txt", "visible");
    for (said, works) in [
        (write.clone(), false),
        (connect.clone(), false),
        (asking("read", &json!({"path": secret})), false),
        (asking("read", &json!({"path": "open.txt"})), true),
    ] {
        let (output, failed) = result(&call(&home, &said));
        assert_eq!(failed, !works, "{said}: {output}");
    }
    assert!(!home.path("here/made.txt").exists());
    // Access that the entry grants works. Such a call may reach beyond the sandbox, so mode `auto` asks; a rule allows it.
    home.out(&["mcp", "remove", "kit"]);
    home.out(&["config", "set", "allow", r#"["kit__write", "kit__connect", "kit__read"]"#]);
    add(&home, "kit", &[], &["--write", ".", "--network", "--read", &secret]);
    for said in [write, connect, asking("read", &json!({"path": secret}))] {
        let (output, failed) = result(&call(&home, &said));
        assert!(!failed, "{said}: {output}");
    }
    assert_eq!(fs::read_to_string(home.path("here/made.txt")).unwrap(), "x");
}

#[test]
fn variables_reach_a_server_only_by_its_entry() {
    let home = with_server(&[], &["--env", "GIVEN=${SOURCE}", "--env", "OTHER=${MISSING:-fallback}"]);
    let server = Loopback::start(Config::default());
    let value = |name: &str| {
        let said = asking("variable", &json!({"name": name}));
        let mut command = PROVIDERS[0].command(&home, &server, &["chat", "--json", "--mode", "auto", &said]);
        let ran = Ran::of(command.env("SOURCE", "from outside").env("A_TOKEN", "secret").output().unwrap());
        let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        result(&events).0
    };
    assert_eq!(value("GIVEN"), "from outside");
    assert_eq!(value("OTHER"), "fallback");
    assert_eq!(value("A_TOKEN"), "not set");
    assert_eq!(value("OPENAI_API_KEY"), "not set");
    // A variable that is missing is the server's problem, not the conversation's.
    let events = call(&home, "hello");
    has(&warnings(&events), &["the MCP server `kit` did not start: the variable SOURCE is not set"]);
}

#[test]
fn calls_are_approved_like_those_of_other_tools() {
    let home = with_server(&[], &[]);
    let ask = |flags: &[&str]| result(&call_on(&home, 0, "call:kit__echo", flags)).0;
    has(&ask(&[]), &["there is no terminal to ask at"]);
    has(&ask(&["--mode", "read-only"]), &["the mode is read-only"]);
    home.out(&["config", "set", "allow", "kit__echo"]);
    has(&ask(&[]), &["value"]);
    home.out(&["config", "set", "deny", "kit__echo"]);
    has(&ask(&["--mode", "auto"]), &["the rule `kit__echo` denies it"]);
    for key in ["allow", "deny"] {
        home.out(&["config", "unset", key]);
    }
    // A server's own hints count only if the entry says so.
    home.out(&["mcp", "remove", "kit"]);
    add(&home, "kit", &[], &["--trust-hints"]);
    has(&ask(&[]), &["value"]);
    let other = result(&call_on(&home, 0, "call:kit__escapes", &[])).0;
    has(&other, &["there is no terminal to ask at"]);
}

#[test]
fn pictures_and_resources_are_kept() {
    let home = with_server(&[], &[]);
    let (output, failed) = result(&call(&home, "call:kit__picture"));
    assert!(!failed);
    let parts = [
        "look:",
        "[image: image/png",
        "[audio: audio/wav",
        "[resource test://note]\na note",
        "[resource test://blob: application/zip",
        "[link to a resource: test://far, far away]",
        "hologram",
        "{\"pixels\":1}",
    ];
    has(&output, &parts);
    let record = home.out(&["history", "export", "@", "--to", "jsonl"]);
    has(&record, &["iVBORw0KGgo", "UklGRg==", "AAECAw=="]);
    home.verifies();
}

#[test]
fn a_server_that_dies_in_a_call_leaves_a_result_and_is_started_again() {
    let log = tempfile::tempdir().unwrap();
    let file = log.path().join("log").display().to_string();
    let home = with_server(&["--log", &file], &["--write", &log.path().display().to_string()]);
    home.out(&["config", "set", "allow", "kit__die"]);
    let events = call(&home, "call:kit__die steps:6");
    let ends = events.iter().filter(|event| event["type"] == "call_ended");
    let outputs: Vec<&str> = ends.map(|event| event["output"].as_str().unwrap()).collect();
    assert_eq!(outputs.len(), 6);
    for output in &outputs[..4] {
        let parts = [
            "the MCP server `kit` ended while this ran: it ended with exit code 9; it said: about to end",
            "a part of its work",
        ];
        has(output, &parts);
    }
    for output in &outputs[4..] {
        has(output, &["[not run: the MCP server `kit` does not work: it has ended 4 times in a row"]);
    }
    let starts = fs::read_to_string(&file).unwrap().lines().filter(|line| *line == "start").count();
    assert_eq!(starts, 4, "once, and three times again");
}

#[test]
fn a_call_without_an_answer_ends_and_the_server_is_told() {
    let log = tempfile::tempdir().unwrap();
    let file = log.path().join("log").display().to_string();
    let home =
        with_server(&["--log", &file], &["--write", &log.path().display().to_string(), "--timeout", "1"]);
    home.out(&["config", "set", "allow", r#"["kit__wait", "kit__echo"]"#]);
    let (output, failed) = result(&call(&home, "call:kit__wait"));
    assert!(failed && output.starts_with("[stopped after 1 seconds"), "{output}");
    has(&fs::read_to_string(&file).unwrap(), &["tools/call\nnotifications/cancelled\n"]);
}

/// Ctrl-C during a call: the server is told, the call gets a result, and the conversation continues.
#[test]
fn a_call_is_interrupted() {
    let log = tempfile::tempdir().unwrap();
    let file = log.path().join("log");
    let shown = file.display().to_string();
    let home = with_server(&["--log", &shown], &["--write", &log.path().display().to_string()]);
    home.out(&["config", "set", "allow", "kit__wait"]);
    let server = Loopback::start(Config::default());
    let mut command = PROVIDERS[0].command(&home, &server, &["chat", "--json", "call:kit__wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !fs::read_to_string(&file).unwrap_or_default().contains("tools/call") {
        assert!(Instant::now() < deadline, "the call never came");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(130));
    has(&String::from_utf8(ran.stdout).unwrap(), &["[interrupted: the turn was stopped while this ran"]);
    let record = home.out(&["history", "export", "@", "--to", "jsonl"]);
    has(&record, &["[interrupted: the turn was stopped while this ran"]);
    home.verifies();
}

#[test]
fn a_turn_waits_for_a_server_but_not_for_ever() {
    // It takes three seconds to start, and the turn waits for it.
    let home = with_server(&["--manner", "slow"], &[]);
    let events = call(&home, "call:kit__echo");
    let waits =
        events.iter().find(|event| event["type"] == "waiting_for_servers").expect("it says that it waits");
    assert_eq!(waits["names"], json!(["kit"]));
    has(&result(&events).0, &["value"]);
    // It never answers.
    home.out(&["mcp", "remove", "kit"]);
    add(&home, "kit", &["--manner", "silent"], &["--start-timeout", "1"]);
    let events = call(&home, "hello");
    has(
        &warnings(&events),
        &["the MCP server `kit` is still starting; its tools are not available in this turn"],
    );
    let answer = events.iter().rev().find(|event| event["type"] == "ended").unwrap();
    assert_eq!(answer["ending"], "done");
}

#[test]
fn a_server_that_fails_is_said_once_and_harmlessly() {
    let home = with_server(&["--manner", "dies"], &[]);
    let says = "the MCP server `kit` did not start: it ended with exit code 3; it said: [31mthe first line [0m / no licence found";
    let events = call(&home, "tools:1 steps:2");
    assert_eq!(warnings(&events).matches(says).count(), 1, "{}", warnings(&events));
    let home = with_server(&["--manner", "abyss"], &[]);
    has(&warnings(&call(&home, "hello")), &["it sent a message that is nested more than 120 levels deep"]);
    // On a busy machine it may be too slow to count as a flood. The turn ends in either case.
    let home = with_server(&["--manner", "chatty"], &[]);
    let (output, failed) = result(&call(&home, &asking("nap", &json!({"milliseconds": 2000}))));
    assert_eq!(failed, output != "slept", "{output}");
    assert!(!failed || output.contains("it sent more than 10000 messages in a second"), "{output}");
    let home = with_server(&["--manner", "pages"], &[]);
    has(&warnings(&call(&home, "hello")), &["it lists too many tools; only the first"]);
    let home = with_server(&["--manner", "garbage"], &[]);
    has(&result(&call(&home, "call:kit__echo")).0, &["value"]);
}

#[test]
fn a_flood_ends_the_call_and_not_the_turn() {
    let home = with_server(&[], &[]);
    let (output, failed) = result(&call(&home, &asking("large", &json!({"mebibytes": 2}))));
    assert!(!failed && output.len() >= 2 << 20);
    for flood in [asking("large", &json!({"mebibytes": 80})), String::from("call:kit__endless")] {
        let (output, failed) = result(&call(&home, &flood));
        assert!(failed, "{flood}");
        has(
            &output,
            &["the MCP server `kit` ended while this ran: it sent a message of more than 67108864 bytes"],
        );
    }
    home.verifies();
}

#[test]
fn no_escape_sequence_reaches_the_terminal() {
    let home = with_server(&["--manner", "lies"], &[]);
    let server = Loopback::start(Config::default());
    let said = "call:kit__escapes";
    let ran =
        Ran::of(PROVIDERS[0].command(&home, &server, &["chat", "--mode", "auto", said]).output().unwrap());
    let shown = home.out(&["history", "show", "@"]);
    let tested = home.run(&["mcp", "test", "kit"]);
    for text in [&ran.err, &shown, &tested.out, &tested.err] {
        assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{7}', '\u{202e}']), "{text:?}");
    }
    assert_eq!(tested.code, 0, "{}", tested.err);
}

fn project(home: &Home, manner: &[&str]) -> String {
    let command = mcp::server().display().to_string();
    let file = json!({"mcpServers": {"kit": {"command": command, "args": manner}}});
    home.file("here/.mcp.json", file.to_string())
}

#[test]
fn a_projects_servers_are_used_once_a_person_agreed() {
    let home = Home::new("sqlite");
    let file = project(&home, &[]);
    let ran = |arguments: &[&str]| {
        let server = Loopback::start(Config::default());
        Ran::of(PROVIDERS[0].command(&home, &server, arguments).output().unwrap())
    };
    let first = ran(&["chat", "--mode", "auto", "hello"]);
    assert_eq!(first.err.matches("names MCP servers you have not approved").count(), 1, "{}", first.err);
    assert!(home.out(&["mcp", "list"]).is_empty());
    let not_there = |home: &Home| {
        has(
            &result(&call(home, &asking("echo", &json!({"text": "x"})))).0,
            &["there is no tool `kit__echo`"],
        );
    };
    not_there(&home);
    home.out(&["mcp", "trust"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(home.path("home/mcp-projects")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    has(&result(&call(&home, "call:kit__echo")).0, &["value"]);
    assert_eq!(home.lines(&["mcp", "list", "--json"])[0]["from"], ".mcp.json");
    // A table in the settings without a command sets the permissions of the project's server.
    let config = home.path("home/config.toml");
    fs::write(&config, "allow = [\"kit__write\"]\n[mcp.kit]\nwrite = [\".\"]\n").unwrap();
    let (output, failed) = result(&call(&home, &asking("write", &json!({"path": "a.txt", "text": "x"}))));
    assert!(!failed, "{output}");
    // A file that changed is asked about again.
    project(&home, &["--manner", "garbage"]);
    assert!(ran(&["chat", "hello"]).err.contains("you have not approved"));
    not_there(&home);
    home.out(&["mcp", "trust", "--no"]);
    assert!(!ran(&["chat", "hello"]).err.contains("you have not approved"), "it was answered");
    fs::write(&file, "{").unwrap();
    has(&ran(&["chat", "hello"]).err, &[".mcp.json cannot be used: EOF"]);
}

#[test]
fn a_person_is_asked_about_a_projects_servers() {
    let home = Home::new("sqlite");
    project(&home, &["\u{1b}[31m"]);
    let mut command = home.command(&["chat", "--provider", "offline", "hello"]);
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    let mut session = OsSession::spawn(command).unwrap();
    session.set_expect_timeout(Some(Duration::from_secs(60)));
    session.expect("wants to use MCP servers:").unwrap();
    session.expect(r"mcp-server \u{1b}[31m").unwrap();
    session.expect("[y]es, [n]o [n] ").unwrap();
    session.send_line("y").unwrap();
    session.expect(Eof).unwrap();
    assert_eq!(home.lines(&["mcp", "list", "--json"])[0]["name"], "kit");
}

/// A server over HTTP, and its address.
struct Served(Child, String);

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(mcp::server());
        let mut child = command.arg("--http").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self(child, address.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_over_http() {
    for manner in [&[][..], &["--sse"]] {
        let served = Served::start(&[manner, &["--key", "Bearer very-secret-123"]].concat());
        let home = Home::new("sqlite");
        let header = "Authorization=Bearer ${KIT_PASS}";
        home.out(&["mcp", "add", "kit", "--url", &served.1, "--header", header]);
        home.out(&["config", "set", "allow", r#"["kit__echo", "kit__picture"]"#]);
        let server = Loopback::start(Config::default());
        let ask = |said: &str, key: &str| {
            let mut command = PROVIDERS[0].command(&home, &server, &["chat", "--json", said]);
            Ran::of(command.env("KIT_PASS", key).output().unwrap())
        };
        let good = ask("call:kit__echo", "very-secret-123");
        has(&good.out, &["value 0 ("]);
        has(&ask("call:kit__picture", "very-secret-123").out, &["image/png"]);
        let bad = ask("hello", "wrong-secret-456");
        has(&bad.out, &["the MCP server `kit` did not start"]);
        let record = home.out(&["history", "export", "@", "--to", "jsonl"]);
        let listed = home.out(&["mcp", "list", "--json"]);
        for text in [&good.out, &good.err, &bad.out, &bad.err, &record, &listed] {
            assert!(!text.contains("-secret-"), "{text}");
        }
        // In mode `auto` a service is asked about: it is not in the sandbox.
        home.out(&["config", "unset", "allow"]);
        let mut command =
            PROVIDERS[0].command(&home, &server, &["chat", "--json", "--mode", "auto", "call:kit__echo"]);
        let asked = Ran::of(command.env("KIT_PASS", "very-secret-123").output().unwrap());
        has(&asked.out, &["there is no terminal to ask at"]);
    }
}

#[test]
fn a_flood_over_http_ends_the_call() {
    let served = Served::start(&[]);
    let home = Home::new("sqlite");
    home.out(&["mcp", "add", "kit", "--url", &served.1]);
    home.out(&["config", "set", "allow", r#"["kit__endless", "kit__echo"]"#]);
    let (output, failed) = result(&call(&home, "call:kit__endless"));
    assert!(failed, "{output}");
    has(&output, &["it sent a message of more than 67108864 bytes"]);
    has(&result(&call(&home, "call:kit__echo")).0, &["value"]);
}

#[test]
fn a_service_that_is_gone_is_said() {
    let home = Home::new("sqlite");
    home.out(&["mcp", "add", "gone", "--url", "http://user:hidden-word@127.0.0.1:9/mcp"]);
    let tested = home.run(&["mcp", "test", "gone", "--json"]);
    assert_eq!(tested.code, 1);
    has(&tested.out, &["\"state\":\"failed\"", "it cannot be reached: Connection refused"]);
    assert!(!tested.out.contains("hidden-word") && !tested.err.contains("hidden-word"), "{}", tested.out);
    assert!(!home.out(&["mcp", "list"]).contains("hidden-word"));
}

#[test]
fn servers_are_added_tested_and_removed() {
    let home = with_server(&[], &["--network", "--env", "PLAIN=1", "--env", "MY_TOKEN=${T:-none}"]);
    let listed = &home.lines(&["mcp", "list", "--json"])[0];
    assert_eq!(
        (&listed["name"], &listed["network"], &listed["env"]),
        (&json!("kit"), &json!(true), &json!(["PLAIN", "MY_TOKEN"]))
    );
    let tested = &home.lines(&["mcp", "test", "kit", "--json"])[0];
    assert_eq!(tested["state"], "ready");
    assert!(tested["took_ms"].is_u64() && tested["tools"].as_array().unwrap().len() > 5, "{tested}");
    has(
        &home.out(&["mcp", "test", "kit"]),
        &["kit (workshop", "tools, started in", "kit__echo  Says it again."],
    );
    for (arguments, says) in [
        (&["mcp", "add", "kit", "--", "x"][..], "there is an MCP server `kit` already"),
        (&["mcp", "add", "a__b", "--", "x"], "cannot be the name"),
        (&["mcp", "add", "x", "--url", "ftp://x"], "is not an address"),
        (&["mcp", "add", "x"], "--url"),
        (&["mcp", "add", "x", "--url", "http://x", "--header", "y"], "NAME=VALUE"),
        (&["mcp", "remove", "kid"], "did you mean `kit`"),
        (&["mcp", "test", "other"], "there is no MCP server `other`"),
        (&["mcp", "lst"], "did you mean `rejoin mcp list`?"),
    ] {
        let ran = home.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
    }
    let warned = home.run(&["mcp", "add", "x", "--url", "http://x", "--header", "Authorization=abc"]);
    has(&warned.err, &["the value of Authorization is in"]);
    home.out(&["mcp", "remove", "kit"]);
    assert!(!home.out(&["mcp", "list"]).contains("kit"));
}

/// A client of `rejoin mcp serve`, by hand.
struct Client {
    child: Child,
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    next: u64,
}

impl Client {
    fn start(home: &Home) -> Self {
        Self::start_with(home, &[])
    }

    fn start_with(home: &Home, flags: &[&str]) -> Self {
        let mut command = home.command(&[&["mcp", "serve"], flags].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, input, output, next: 0 };
        let info = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = client.ask("initialize", info);
        assert_eq!(answer["result"]["serverInfo"]["name"], "rejoin", "{answer}");
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        client
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// The text of a result, and whether it is an error.
    fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        (text, result["isError"] == true)
    }

    fn end(self) {
        let Self { mut child, input, output, .. } = self;
        drop((input, output));
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_history_is_served() {
    Home::each(|home| {
        let broken = home.import("broken.json", support::BROKEN);
        home.import("sound.json", support::SOUND);
        let before = home.out(&["verify", "--json"]);
        let mut client = Client::start(home);
        let tools = client.ask("tools/list", json!({}));
        let names: Vec<&str> = tools["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["search", "list", "read", "check", "recall"]);
        let (text, failed) = client.call("search", json!({"query": "files"}));
        assert!(!failed);
        assert!(text.lines().count() >= 2 && text.contains(&broken), "{text}");
        let (text, _) = client.call("list", json!({"limit": 1}));
        has(&text, &["\"id\":\"conv_", "[the newest 1 of 2 are listed]"]);
        let (text, _) = client.call("read", json!({"conversation": broken, "from": 1, "limit": 2}));
        has(&text, &["\"index\":1", "\"index\":2", "secret-place", "more messages: call again with from=3"]);
        let (text, _) = client.call("check", json!({"conversation": "@1", "dialect": "anthropic"}));
        serde_json::from_str::<Value>(&text).unwrap();
        let (text, _) = client.call("check", json!({"conversation": broken}));
        has(&text, &["unanswered-call"]);
        let (text, _) = client.call("recall", json!({"conversation": broken, "query": "still there"}));
        has(&text, &["message 3: ", "still there?"]);
        let (text, _) = client.call("recall", json!({"conversation": broken, "message": 0}));
        has(&text, &["List the files, please"]);
        // An invalid request gets an error with the reason, and the server continues.
        client.say("no json \u{1b}[2J");
        client.say("{\"jsonrpc\": \"2.0\", \"id\": []}");
        for (tool, arguments, says) in [
            ("search", json!({}), "`query` is missing"),
            ("search", json!({"query": 3}), "`query` must be a non-empty string"),
            ("search", json!({"query": "x", "words": 1}), "there is no argument \"words\""),
            ("read", json!({"conversation": "no such"}), "no such"),
            ("read", json!({"conversation": broken, "from": 99}), "the numbers go from 0 to"),
            ("read", json!({"conversation": broken, "limit": -1}), "`limit` must be a whole number"),
            ("check", json!({"conversation": broken, "dialect": "klingon"}), "there is no dialect"),
            ("recall", json!({"conversation": broken}), "say what to look for"),
        ] {
            let (text, failed) = client.call(tool, arguments);
            assert!(failed && text.contains(says), "{tool}: {text}");
        }
        let unknown = client.ask("tools/call", json!({"name": "erase", "arguments": {}}));
        has(
            unknown["error"]["message"].as_str().unwrap(),
            &["there is no such tool; there are: search, list"],
        );
        client.end();
        assert_eq!(home.out(&["verify", "--json"]), before, "nothing has changed");
    });
}

/// A server that is limited to a scope shows nothing of another, neither in lists nor by id.
#[test]
fn a_served_history_keeps_to_its_scope() {
    Home::each(|home| {
        let id_of = |user: &str| {
            let scope = format!("user={user}");
            let said = format!("my name is {user}");
            home.out(&["chat", "--provider", "offline", "--scope", &scope, &said]);
            home.lines(&["list", "--json", "--scope", &scope])[0]["id"].as_str().unwrap().to_owned()
        };
        let (anns, bobs) = (id_of("ann"), id_of("bob"));
        let mut client = Client::start_with(home, &["--scope", "user=ann"]);
        let (text, _) = client.call("list", json!({}));
        assert!(text.contains(&anns) && !text.contains(&bobs), "{text}");
        let (text, _) = client.call("search", json!({"query": "name"}));
        assert!(text.contains(&anns) && !text.contains(&bobs), "{text}");
        for tool in ["read", "check", "recall"] {
            let mut arguments = json!({"conversation": bobs});
            if tool == "recall" {
                arguments["query"] = json!("name");
            }
            let (text, failed) = client.call(tool, arguments.clone());
            assert!(failed && text.contains("not found") && !text.contains("is bob"), "{tool}: {text}");
            arguments["conversation"] = json!(anns);
            assert!(!client.call(tool, arguments).1, "{tool}");
        }
        client.end();
    });
}

#[test]
fn serving_creates_nothing() {
    let home = Home::new("sqlite");
    let mut client = Client::start(&home);
    let (text, failed) = client.call("list", json!({}));
    assert!(failed && text.contains("no stored conversations yet"), "{text}");
    client.end();
    assert!(!home.place().exists() && !home.path("home").exists());
}

/// rejoin is a client and a server: it can talk to itself.
#[test]
fn rejoin_uses_the_history_of_rejoin() {
    let other = Home::new("jsonl");
    other.import("sound.json", support::SOUND);
    let home = Home::new("sqlite");
    let (program, store) = (env!("CARGO_BIN_EXE_rejoin"), other.store.clone());
    let folder = other.path("").display().to_string();
    home.out(&["mcp", "add", "kit", "--read", &folder, "--", program, "mcp", "serve", "--store", &store]);
    let (output, failed) = result(&call(&home, &asking("search", &json!({"query": "files"}))));
    assert!(!failed, "{output}");
    has(&output, &["How many"]);
}
