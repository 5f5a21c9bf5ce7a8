//! A hand-written MCP server, over standard input and output or HTTP, that can misbehave in ways that a library would not allow.
//!
//! `--manner` sets how it misbehaves from the start; its tools misbehave during a call. It writes the messages it receives to the
//! file of `--log`, so that a test can read them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the workshop")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write},
    net::{TcpListener, TcpStream},
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

const USAGE: &str = "mcp-server [--http] [--sse] [--key KEY] [--log FILE] [--manner MANNER]...

  --http           answer on a free port of 127.0.0.1, whose address is printed first
  --sse            over HTTP, answer with a stream of events
  --key KEY        over HTTP, the value that `Authorization` must have
  --log FILE       write down what is heard
  --manner MANNER  silent, dies, slow, lies, abyss, chatty, pages, garbage or tidy";

/// A picture of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[derive(Default)]
struct Options {
    http: bool,
    sse: bool,
    key: Option<String>,
    log: Option<String>,
    manners: Vec<String>,
}

fn main() -> ExitCode {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--http" => options.http = true,
            "--sse" => options.sse = true,
            "--key" => options.key = arguments.next(),
            "--log" => options.log = arguments.next(),
            "--manner" => options.manners.extend(arguments.next()),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let server = Arc::new(Server {
        options,
        out: Mutex::new(Box::new(std::io::stdout())),
        renamed: AtomicBool::new(false),
        calls: AtomicU32::new(0),
    });
    server.note("start");
    if server.is("dies") {
        eprintln!("\x1b[31mthe first line\x1b[0m\nno \x07licence\u{202e} found");
        return ExitCode::from(3);
    }
    if server.options.http {
        server.serve_http()
    } else {
        server.serve_stdio()
    }
    ExitCode::SUCCESS
}

struct Server {
    options: Options,
    out: Mutex<Box<dyn Write + Send>>,
    /// Whether the tool `echo` has another name by now.
    renamed: AtomicBool,
    calls: AtomicU32,
}

impl Server {
    fn is(&self, manner: &str) -> bool {
        self.options.manners.iter().any(|given| given == manner)
    }

    fn note(&self, line: &str) {
        let Some(path) = &self.options.log else { return };
        if let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(path) {
            let _ = writeln!(file, "{line}");
        }
    }

    fn send(&self, message: &Value) {
        if let Ok(mut out) = self.out.lock() {
            let _ = writeln!(out, "{message}").and_then(|()| out.flush());
        }
    }

    fn serve_stdio(self: &Arc<Self>) {
        if self.is("chatty") {
            let server = Arc::clone(self);
            thread::spawn(move || {
                loop {
                    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}));
                }
            });
        }
        if self.is("garbage") {
            println!("Listening on \x1b[1mstdio\x1b[0m\n{{\"half\": \n\u{fffd}\n[]\n7");
        }
        for line in std::io::stdin().lines() {
            let Ok(line) = line else { break };
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            self.note(message["method"].as_str().unwrap_or("answer"));
            if message["id"].is_null() || message["method"].is_null() {
                continue;
            }
            let server = Arc::clone(self);
            // Calls take their time, and what comes after them is heard meanwhile.
            thread::spawn(move || {
                if let Some(answer) = server.answer(&message) {
                    server.send(&answer);
                }
            });
        }
        if self.is("tidy") {
            thread::sleep(Duration::from_millis(100));
            self.note("tidied");
        }
        self.note("end");
    }

    fn answer(&self, message: &Value) -> Option<Value> {
        let id = &message["id"];
        let good = |result: Value| Some(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let bad = |code: i32, text: &str| {
            Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}))
        };
        if self.is("silent") {
            return None;
        }
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                if self.is("slow") {
                    thread::sleep(Duration::from_secs(3));
                }
                let version = message["params"]["protocolVersion"].clone();
                good(json!({
                    "protocolVersion": version,
                    "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "workshop\u{1b}[31m", "version": "1"},
                }))
            }
            "ping" => good(json!({})),
            "tools/list" => good(self.tools()),
            "tools/call" => {
                let number = self.calls.fetch_add(1, Ordering::Relaxed);
                let (name, given) =
                    (message["params"]["name"].as_str().unwrap_or_default(), &message["params"]["arguments"]);
                match self.call(name, given, number) {
                    Ok(Some(result)) => good(result),
                    Ok(None) => None,
                    Err(why) => bad(-32602, &why),
                }
            }
            method => bad(-32601, &format!("there is no method {method}")),
        }
    }

    fn tools(&self) -> Value {
        let tool = |name: &str, about: &str, properties: Value, required: Value| {
            json!({"name": name, "description": about,
                "inputSchema": {"type": "object", "properties": properties, "required": required}})
        };
        let text = json!({"type": "string"});
        let echo = if self.renamed.load(Ordering::Relaxed) { "echo_again" } else { "echo" };
        let mut tools = vec![
            tool(echo, "Says it again.", json!({"text": text}), json!(["text"])),
            tool("nap", "Sleeps.", json!({"milliseconds": {"type": "integer"}}), json!(["milliseconds"])),
            tool("wait", "Waits for ever.", json!({}), json!([])),
            tool("die", "Ends the server.", json!({}), json!([])),
            tool("picture", "Shows a picture and more.", json!({}), json!([])),
            tool("rename", "Renames a tool.", json!({}), json!([])),
            tool("large", "Says much.", json!({"mebibytes": {"type": "integer"}}), json!(["mebibytes"])),
            tool("endless", "Never stops.", json!({}), json!([])),
            tool("escapes", "Says what steers terminals.", json!({}), json!([])),
            tool("write", "Writes a file.", json!({"path": text, "text": text}), json!(["path", "text"])),
            tool("read", "Reads a file.", json!({"path": text}), json!(["path"])),
            tool("connect", "Connects to an address.", json!({"address": text}), json!(["address"])),
            tool("variable", "Reads a variable.", json!({"name": text}), json!(["name"])),
        ];
        if let Some(echo) = tools.first_mut() {
            echo["annotations"] = json!({"readOnlyHint": true});
        }
        if self.is("lies") || self.is("abyss") {
            let mut deep = json!({"type": "object"});
            for _ in 0..if self.is("abyss") { 100 } else { 40 } {
                deep = json!({"type": "object", "properties": {"a": deep}});
            }
            tools.push(json!({"name": "no_object", "inputSchema": "string"}));
            tools.push(json!({"name": "wrong type", "inputSchema": {"type": "array"}}));
            tools.push(json!({"name": "deep", "inputSchema": deep}));
            tools.push(json!({"name": "large", "inputSchema": {"type": "object", "description": "x".repeat(1 << 20)}}));
            tools.push(json!({"name": "\u{1b}]0;title\u{7}", "description": "\u{1b}[2Jclears\u{202e}\nthe screen", "inputSchema": {}}));
            tools.push(json!({"name": "n".repeat(300), "inputSchema": {"type": "object", "properties": 7, "required": "all"}}));
            tools.push(json!({"description": "nameless"}));
            tools.push(json!(7));
            tools.push(json!({"name": "echo"}));
            tools.push(json!({"name": "run"}));
        }
        if self.is("pages") {
            return json!({"tools": tools, "nextCursor": "again"});
        }
        json!({"tools": tools})
    }

    /// The result of a call; none if there never is one.
    fn call(&self, name: &str, given: &Value, number: u32) -> Result<Option<Value>, String> {
        let text = |name: &str| given[name].as_str().unwrap_or_default();
        let said = |said: String| Ok(Some(json!({"content": [{"type": "text", "text": said}]})));
        let tried = |tried: std::io::Result<String>| {
            let (text, failed) = match tried {
                Ok(text) => (text, false),
                Err(why) => (why.to_string(), true),
            };
            Ok(Some(json!({"content": [{"type": "text", "text": text}], "isError": failed})))
        };
        match name {
            "echo" if self.renamed.load(Ordering::Relaxed) => Err(String::from("there is no tool echo")),
            "echo" | "echo_again" => said(format!("{} ({number})", text("text"))),
            "nap" => {
                thread::sleep(Duration::from_millis(given["milliseconds"].as_u64().unwrap_or(0)));
                said(String::from("slept"))
            }
            "wait" => Ok(None),
            "die" => {
                eprintln!("about to end");
                std::process::exit(9);
            }
            "picture" => Ok(Some(json!({
                "content": [
                    {"type": "text", "text": "look:"},
                    {"type": "image", "data": PNG, "mimeType": "image/png"},
                    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
                    {"type": "resource", "resource": {"uri": "test://note", "text": "a note", "mimeType": "text/plain"}},
                    {"type": "resource", "resource": {"uri": "test://blob", "blob": "AAECAw==", "mimeType": "application/zip"}},
                    {"type": "resource_link", "uri": "test://far", "name": "far away"},
                    {"type": "hologram", "depth": 3},
                ],
                "structuredContent": {"pixels": 1},
            }))),
            "rename" => {
                self.renamed.store(true, Ordering::Relaxed);
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                said(String::from("echo is echo_again now"))
            }
            "large" => {
                said("0123456789abcde\n".repeat(given["mebibytes"].as_u64().unwrap_or(1) as usize * 65_536))
            }
            "endless" => {
                let mut out = self.out.lock().map_err(|why| why.to_string())?;
                let piece = vec![b'x'; 1 << 16];
                while out.write_all(&piece).is_ok() {}
                Ok(None)
            }
            "escapes" => {
                said(String::from("\u{1b}[2J\u{1b}]0;owned\u{7}cleared \u{9b}31m \u{202e}backwards"))
            }
            "write" => tried(fs::write(text("path"), text("text")).map(|()| String::from("written"))),
            "read" => tried(fs::read_to_string(text("path"))),
            "connect" => tried(TcpStream::connect(text("address")).map(|_| String::from("connected"))),
            "variable" => said(std::env::var(text("name")).unwrap_or_else(|_| String::from("not set"))),
            other => Err(format!("there is no tool {other}")),
        }
    }

    fn serve_http(self: &Arc<Self>) {
        let Ok(listener) = TcpListener::bind("127.0.0.1:0") else { return };
        let Ok(address) = listener.local_addr() else { return };
        println!("http://{address}/mcp");
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(self);
            thread::spawn(move || drop(server.connection(stream)));
        }
    }

    fn connection(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut out = stream.try_clone()?;
        let mut lines = BufReader::new(stream);
        loop {
            let mut first = String::new();
            if lines.read_line(&mut first)? == 0 {
                return Ok(());
            }
            let (mut length, mut key) = (0, None);
            loop {
                let mut line = String::new();
                lines.read_line(&mut line)?;
                let Some((name, value)) = line.trim().split_once(':') else { break };
                match name.to_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().unwrap_or(0),
                    "authorization" => key = Some(value.trim().to_owned()),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            lines.read_exact(&mut body)?;
            let answer = |status: &str, kind: &str, body: &str| {
                format!(
                    "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nmcp-session-id: s1\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                )
            };
            let method = first.split(' ').next().unwrap_or_default();
            let text = if self.options.key.is_some() && key != self.options.key {
                self.note("refused");
                answer("401 Unauthorized", "text/plain", "who are you?")
            } else if method != "POST" {
                answer("405 Method Not Allowed", "text/plain", "")
            } else {
                let message: Value = serde_json::from_slice(&body).unwrap_or_default();
                self.note(message["method"].as_str().unwrap_or("answer"));
                if message["id"].is_null() {
                    answer("202 Accepted", "text/plain", "")
                } else if message["params"]["name"] == "endless" {
                    out.write_all(
                        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\"",
                    )?;
                    loop {
                        out.write_all(&[b'x'; 1 << 16])?;
                    }
                } else {
                    match self.answer(&message) {
                        Some(value) if self.options.sse => answer(
                            "200 OK",
                            "text/event-stream",
                            &format!("event: message\ndata: {value}\n\n"),
                        ),
                        Some(value) => answer("200 OK", "application/json", &value.to_string()),
                        None => loop {
                            thread::sleep(Duration::from_secs(60));
                        },
                    }
                }
            };
            out.write_all(text.as_bytes())?;
        }
    }
}
