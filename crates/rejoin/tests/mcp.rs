//! MCP servers in a program with several turns: tools that change between turns, crashes, and stops.
//!
//! It has a `main`, because `sandbox::init` must come first.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("test result: ok. 0 passed; 0 failed; skipped: the server needs the sandbox of Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    rejoin::sandbox::init();
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    type Test = fn(&linux::Scene);
    let tests: [(&str, Test); 4] = [
        ("tools_change_between_turns_and_not_within", linux::tools_change_between_turns),
        ("a_server_that_died_between_turns_comes_back", linux::comes_back),
        ("a_stop_ends_a_call_and_the_wait_for_a_server", linux::stops),
        ("dropping_the_servers_ends_them", linux::ends),
    ];
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&filter)) {
        test(&linux::Scene::new());
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok.");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        path::PathBuf,
        sync::Arc,
        time::{Duration, Instant},
    };

    use rejoin::{
        Agent, ScriptedProvider, Step, Stop, ToolCall, TurnOutcome,
        approval::{ApprovalMode, Approvals},
        mcp::{McpEntry, McpPhase, McpServers, McpTransport},
        sandbox::Policy,
    };

    pub struct Scene {
        folder: tempfile::TempDir,
        runtime: tokio::runtime::Runtime,
    }

    impl Scene {
        pub fn new() -> Self {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            Self { folder: tempfile::tempdir().unwrap(), runtime }
        }

        fn log(&self) -> PathBuf {
            self.folder.path().join("log")
        }

        fn heard(&self, what: &str) -> usize {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            log.lines().filter(|line| *line == what).count()
        }

        fn servers(&self, manner: &[&str]) -> Arc<McpServers> {
            let server = testkit::mcp::server();
            let mut program =
                vec![server.display().to_string(), String::from("--log"), self.log().display().to_string()];
            program.extend(manner.iter().map(ToString::to_string));
            let mut policy = Policy::new(self.folder.path());
            policy.read.push(server);
            let transport = McpTransport::Program { program, policy: Box::new(policy) };
            let entry = McpEntry { start_time: Duration::from_secs(60), ..McpEntry::new("kit", transport) };
            Arc::new(McpServers::start(vec![entry]))
        }

        fn agent(&self, provider: &Arc<ScriptedProvider>, servers: &Arc<McpServers>) -> Agent {
            let approvals = Approvals { mode: ApprovalMode::Auto, ..Approvals::default() };
            let provider: Arc<ScriptedProvider> = Arc::clone(provider);
            Agent::builder(provider)
                .tool_source(Arc::<McpServers>::clone(servers))
                .approvals(approvals)
                .build()
        }

        fn ask(&self, agent: &mut Agent) -> TurnOutcome {
            self.runtime.block_on(agent.ask("go on")).unwrap()
        }
    }

    fn calls(name: &str, arguments: &str) -> Step {
        Step::calls(vec![ToolCall::new(format!("call_{name}"), format!("kit__{name}"), arguments)])
    }

    /// Everything that a turn added, as text.
    fn text(turned: &TurnOutcome) -> String {
        format!("{:?}", turned.messages)
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn tools_change_between_turns(scene: &Scene) {
        let servers = scene.servers(&[]);
        let provider = Arc::new(ScriptedProvider::new([
            calls("rename", "{}"),
            calls("echo", r#"{"text":"x"}"#),
            Step::says("one"),
            calls("echo", r#"{"text":"y"}"#),
            calls("echo_again", r#"{"text":"z"}"#),
            Step::says("two"),
        ]));
        let mut agent = scene.agent(&provider, &servers);
        // Within the turn the list stays, and the call of the tool that is gone gets the server's refusal.
        let first = text(&scene.ask(&mut agent));
        assert!(first.contains("refused the call: there is no tool echo"), "{first}");
        let second = text(&scene.ask(&mut agent));
        assert!(second.contains("there is no tool `kit__echo`; there are: kit__echo_again"), "{second}");
        assert!(second.contains("z ("), "{second}");
        assert_eq!(scene.heard("tools/list"), 2);
    }

    pub fn comes_back(scene: &Scene) {
        let servers = scene.servers(&[]);
        let provider = Arc::new(ScriptedProvider::new([
            calls("die", "{}"),
            Step::says("one"),
            calls("echo", r#"{"text":"again"}"#),
            Step::says("two"),
        ]));
        let mut agent = scene.agent(&provider, &servers);
        let first = text(&scene.ask(&mut agent));
        assert!(first.contains("ended while this ran: it ended with exit code 9"), "{first}");
        assert!(matches!(servers.states()[0].phase, McpPhase::Ended(_)));
        let second = text(&scene.ask(&mut agent));
        assert!(second.contains("again (0)"), "{second}");
        assert_eq!((scene.heard("start"), servers.states()[0].phase.clone()), (2, McpPhase::Ready));
    }

    pub fn stops(scene: &Scene) {
        let servers = scene.servers(&[]);
        let provider =
            Arc::new(ScriptedProvider::new([calls("wait", "{}"), Step::says("never"), Step::says("fine")]));
        let mut agent = scene.agent(&provider, &servers);
        let stop: Stop = agent.stop();
        let log = scene.log();
        let watcher = std::thread::spawn(move || {
            until("the call comes", || {
                std::fs::read_to_string(&log).unwrap_or_default().contains("tools/call")
            });
            stop.stop();
        });
        let turned = text(&scene.ask(&mut agent));
        watcher.join().unwrap();
        assert!(turned.contains("[interrupted: the turn was stopped while this ran"), "{turned}");
        until("the server is told", || scene.heard("notifications/cancelled") == 1);
        // A server that never answers does not keep a turn from being stopped.
        let silent = scene.servers(&["--manner", "silent"]);
        let mut agent = scene.agent(&provider, &silent);
        let stop = agent.stop();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            stop.stop();
        });
        let before = Instant::now();
        scene.ask(&mut agent);
        assert!(before.elapsed() < Duration::from_secs(50), "it was not waited for");
    }

    pub fn ends(scene: &Scene) {
        let servers = scene.servers(&[]);
        scene.runtime.block_on(servers.settled());
        let marker = scene.log().display().to_string();
        let runs = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let mut lines =
                processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
            lines.any(|line| line.split(|byte| *byte == 0).any(|word| word == marker.as_bytes()))
        };
        assert!(runs(), "{:?}", servers.states());
        drop(servers);
        until("it ends", || !runs());
    }
}
