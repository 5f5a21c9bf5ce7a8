//! MCP servers and clients by other authors: rejoin calls the tools of three servers, in its sandbox and over HTTP, and two clients
//! read rejoin's history through `rejoin mcp serve`.
//!
//! Each server also gets a wrong call, which it must refuse. Each client is also started with a program that is not a server, and
//! must fail. Otherwise their success would prove nothing.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::loopback::{Config, Loopback, Service};

use super::{Failure, Verdict, install, rejoin::Rejoin};

const PYTHON_CLIENT: &str = include_str!("mcp_client.py");
const NODE_CLIENT: &str = include_str!("mcp_client.mjs");

/// A call of a tool, and what its result must contain.
struct Call {
    tool: &'static str,
    arguments: Value,
    says: &'static str,
    /// Whether the server must refuse it.
    wrong: bool,
}

fn call(tool: &'static str, arguments: Value, says: &'static str) -> Call {
    Call { tool, arguments, says, wrong: false }
}

fn wrong(tool: &'static str, arguments: Value) -> Call {
    Call { tool, arguments, says: "", wrong: true }
}

pub fn ask(folder: &Path, rejoin: Option<&Rejoin>) -> Result<Vec<Verdict>> {
    let (npm, python) = install::mcp(folder)?;
    let Some(rejoin) = rejoin else { return Ok(Vec::new()) };
    let work = folder.join("mcp-work");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let scene = Scene {
        rejoin,
        here: work.join("here"),
        home: work.join("home"),
        provider: Loopback::start(Config::default()),
    };
    fs::create_dir_all(&scene.here)?;
    fs::write(scene.here.join("note.txt"), "a note of mine\n")?;
    let packages = npm.join("node_modules/@modelcontextprotocol");
    let script = |package: &str| packages.join(package).join("dist/index.js").display().to_string();
    let npm_folder = npm.display().to_string();
    let venv = python.parent().and_then(Path::parent).unwrap_or(&python).display().to_string();
    let everything = script("server-everything");

    let mut verdicts = Vec::new();
    let programs = [
        (
            install::MCP_NPM[0],
            vec!["--read", &npm_folder],
            vec!["node".into(), everything.clone()],
            everything_calls(),
        ),
        (
            install::MCP_NPM[1],
            vec!["--read", &npm_folder, "--write", "."],
            vec!["node".into(), script("server-filesystem"), ".".into()],
            filesystem_calls(),
        ),
        (
            install::MCP_PYPI[0],
            vec!["--read", &venv],
            vec![python.display().to_string(), "-m".into(), "mcp_server_time".into()],
            time_calls(),
        ),
    ];
    for (peer, flags, program, calls) in programs {
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        let arguments = [&["mcp", "add", "peer"], &flags[..], &["--"], &program].concat();
        verdicts.push(scene.server(peer, &arguments, &calls)?);
    }
    let served = Served::start(&everything)?;
    let peer = format!("{}, over HTTP", install::MCP_NPM[0]);
    verdicts.push(scene.server(
        &peer,
        &["mcp", "add", "peer", "--url", &served.address],
        &everything_calls(),
    )?);
    drop(served);

    // Node.js looks for modules next to the importing file.
    let node_client = npm.join("client.mjs");
    fs::write(&node_client, NODE_CLIENT)?;
    let python_client = work.join("client.py");
    fs::write(&python_client, PYTHON_CLIENT)?;
    let node = PathBuf::from("node");
    for (peer, program, script) in
        [(install::MCP_PYPI[1], &python, &python_client), (install::MCP_NPM[2], &node, &node_client)]
    {
        verdicts.push(scene.client(peer, program, script)?);
    }
    Ok(verdicts)
}

fn everything_calls() -> Vec<Call> {
    vec![
        call("echo", json!({"message": "hello"}), "hello"),
        call("get-sum", json!({"a": 2, "b": 40}), "42"),
        call("get-tiny-image", json!({}), "[image: image/png"),
        call("get-structured-content", json!({"location": "Chicago"}), "temperature"),
        call("get-resource-links", json!({"count": 3}), "[link to a resource: "),
        call("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1}), "[resource "),
        call("get-annotated-message", json!({"messageType": "success", "includeImage": true}), "[image: "),
        call("trigger-long-running-operation", json!({"duration": 1, "steps": 2}), "completed"),
        wrong("get-sum", json!({"a": "two"})),
        wrong("echo", json!({})),
    ]
}

fn filesystem_calls() -> Vec<Call> {
    vec![
        call("list_directory", json!({"path": "."}), "[FILE] note.txt"),
        call("read_text_file", json!({"path": "note.txt"}), "a note of mine"),
        call("write_file", json!({"path": "made.txt", "content": "by-the-peer"}), "Successfully wrote"),
        call("read_text_file", json!({"path": "made.txt"}), "by-the-peer"),
        call("search_files", json!({"path": ".", "pattern": "*.txt"}), "made.txt"),
        wrong("read_text_file", json!({"path": "/etc/hostname"})),
        wrong("read_text_file", json!({"path": "missing.txt"})),
    ]
}

fn time_calls() -> Vec<Call> {
    let times = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    vec![
        call("get_current_time", json!({"timezone": "UTC"}), "\"timezone\": \"UTC\""),
        call("convert_time", times, "T21:00"),
        wrong("get_current_time", json!({"timezone": "Nowhere/Land"})),
    ]
}

/// The folders and programs of a run.
struct Scene<'r> {
    rejoin: &'r Rejoin,
    here: PathBuf,
    home: PathBuf,
    provider: Loopback,
}

impl Scene<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.rejoin.program());
        command.args(arguments).current_dir(&self.here).env("REJOIN_HOME", &self.home).stdin(Stdio::null());
        command.env("OPENAI_API_KEY", "key").env_remove("REJOIN_STORE");
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "rejoin {arguments:?} failed: {text}{errors}");
        Ok(text)
    }

    /// Calls tools of a server, each call in a separate turn.
    fn server(&self, peer: &str, add: &[&str], calls: &[Call]) -> Result<Verdict> {
        self.run(add)?;
        self.run(&["config", "set", "allow", "*"])?;
        let tested: Value = serde_json::from_str(&self.run(&["mcp", "test", "peer", "--json"])?)?;
        println!(
            "  {peer}: {} tools, started in {} ms",
            tested["tools"].as_array().map_or(0, Vec::len),
            tested["took_ms"]
        );
        let mut failures = Vec::new();
        for call in calls {
            if let Err(why) = self.called(call) {
                let name = format!("{} {}", call.tool, call.arguments);
                failures.push(Failure { name, reason: format!("{why:#}"), evidence: Vec::new() });
            }
        }
        self.run(&["mcp", "remove", "peer"])?;
        let by_hand = calls.iter().filter(|call| call.wrong).count();
        Ok(Verdict { peer: peer.to_owned(), what: "calls", by_hand, given: calls.len(), failures })
    }

    fn called(&self, call: &Call) -> Result<()> {
        let said = format!("call:peer__{} with:{}", call.tool, call.arguments);
        let base = self.provider.base(Service::OpenAi);
        let out = self.run(&[
            "run",
            "--json",
            "--provider",
            "openai",
            "--api",
            "chat",
            "--model",
            "gpt-4.1",
            "--base-url",
            &base,
            &said,
        ])?;
        let mut events = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ended = events.rfind(|event| event["type"] == "call_ended").context("no call ended")?;
        let text = ended["output"].as_str().unwrap_or_default();
        ensure!(ended["is_error"] == call.wrong, "is_error is {}: {text}", ended["is_error"]);
        ensure!(text.contains(call.says), "{:?} is not in: {text}", call.says);
        let violations = self.provider.violations();
        ensure!(violations.is_empty(), "the provider refused: {violations:#?}");
        Ok(())
    }

    /// Makes a client read the history of these calls.
    fn client(&self, peer: &str, program: &Path, script: &Path) -> Result<Verdict> {
        let calls = json!([
            {"name": "list", "arguments": {"limit": 2}},
            {"name": "search", "arguments": {"query": "note"}},
            {"name": "read", "arguments": {"conversation": "@1"}},
            {"name": "check", "arguments": {"conversation": "@1"}},
            {"name": "recall", "arguments": {"conversation": "@1", "query": "Nowhere"}},
            {"name": "read", "arguments": {"conversation": "no such thing"}},
        ]);
        let parts = [
            "\"id\":\"conv_",
            "\"conversation\":",
            "\"index\":0",
            "\"findings\":",
            "message ",
            "no such thing",
        ];
        let ask = |server: &[&str]| -> Result<(bool, Vec<Value>, String)> {
            let mut command = Command::new(program);
            command.arg(script).args(server).env("REJOIN_HOME", &self.home).current_dir(&self.here);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn()?;
            child.stdin.take().context("no input")?.write_all(calls.to_string().as_bytes())?;
            let output = child.wait_with_output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            Ok((output.status.success(), lines, String::from_utf8_lossy(&output.stderr).into_owned()))
        };
        let (accepted, ..) = ask(&["false"])?;
        ensure!(!accepted, "{peer} takes a program that ends at once for a server");
        let rejoin = self.rejoin.program().display().to_string();
        let (ended_well, answers, errors) = ask(&[&rejoin, "mcp", "serve"])?;
        ensure!(ended_well, "{peer} failed: {errors}");
        let tools = answers.first().map(|first| first["tools"].clone()).unwrap_or_default();
        ensure!(
            tools == json!(["search", "list", "read", "check", "recall"]),
            "{peer} sees the tools {tools}"
        );
        let mut failures = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let answer = answers.get(number + 1).cloned().unwrap_or_default();
            let should_fail = number + 1 == parts.len();
            let good = answer["text"].as_str().is_some_and(|text| text.contains(part))
                && answer["failed"] == should_fail;
            if !good {
                let reason = format!("{part:?} is not in: {answer}");
                failures.push(Failure { name: calls[number].to_string(), reason, evidence: Vec::new() });
            }
        }
        Ok(Verdict {
            peer: format!("{peer}, as a client"),
            what: "calls",
            by_hand: 1,
            given: parts.len(),
            failures,
        })
    }
}

/// The reference server over HTTP.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(script: &str) -> Result<Self> {
        // Use any port that is free now.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("node");
        command.args([script, "streamableHttp"]).env("PORT", port.to_string());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("no output")?).lines();
        let listens = |line: &String| line.contains(&port.to_string());
        let said = lines.by_ref().map_while(Result::ok).find(listens);
        // Keep reading, so that the server does not block in its next line.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let served = Self { child, address: format!("http://127.0.0.1:{port}/mcp") };
        ensure!(said.is_some(), "the reference server does not listen");
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
