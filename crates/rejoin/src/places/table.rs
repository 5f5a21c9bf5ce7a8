//! Where each agent keeps its sessions, on each system, and how a session is given to it.
//!
//! A root begins with `~` (the home folder), `.` (the working folder), `$DATA` or `$CONFIG` (the system's folders for data and
//! settings), or an environment variable. Of the roots of a spot, the first whose variable is set counts.
//!
//! A pattern leads from a root to the files: `*` stands for any part of one name, `**` for any folders, and a pattern that ends
//! with `/` names folders that are read as a whole. An empty pattern is the root itself.

use super::{
    AgentPlace, Spot,
    System::{Linux, MacOs, Windows},
    installing,
};

const fn spot(roots: &'static [&'static str], patterns: &'static [&'static str]) -> Spot {
    Spot { systems: &[Linux, MacOs, Windows], roots, patterns }
}

/// An agent whose sessions are found, but to which none can be given.
const fn found(name: &'static str, format: &'static str, spots: &'static [Spot]) -> AgentPlace {
    AgentPlace { name, format, spots, installs: None }
}

const TASKS: &[&str] = &["tasks/*/"];

/// The places in which editors keep the data of an extension; each line is one extension.
macro_rules! extension {
    ($name:literal, $($more:expr),*) => {
        &[
            spot(&[concat!("$CONFIG/Code/User/globalStorage/", $name)], TASKS),
            spot(&[concat!("$CONFIG/Code - Insiders/User/globalStorage/", $name)], TASKS),
            spot(&[concat!("$CONFIG/VSCodium/User/globalStorage/", $name)], TASKS),
            spot(&[concat!("$CONFIG/Cursor/User/globalStorage/", $name)], TASKS),
            spot(&[concat!("$CONFIG/Windsurf/User/globalStorage/", $name)], TASKS),
            spot(&[concat!("~/.vscode-server/data/User/globalStorage/", $name)], TASKS),
            $($more),*
        ]
    };
}

/// The agents whose sessions are looked for.
pub const AGENTS: &[AgentPlace] = &[
    AgentPlace {
        name: "Codex",
        format: "codex",
        spots: &[spot(
            &["$CODEX_HOME", "~/.codex"],
            &[
                "sessions/**/rollout-*.jsonl",
                "sessions/**/rollout-*.jsonl.zst",
                "archived_sessions/**/rollout-*.jsonl",
                "archived_sessions/**/rollout-*.jsonl.zst",
            ],
        )],
        installs: Some(installing::codex),
    },
    AgentPlace {
        name: "Claude Code",
        format: "claude-code",
        spots: &[spot(&["$CLAUDE_CONFIG_DIR", "~/.claude"], &["projects/**/*.jsonl"])],
        installs: Some(installing::claude_code),
    },
    AgentPlace {
        name: "cody",
        format: "cody",
        spots: &[spot(&["$CODY_HOME", "~/.cody"], &["conversations/*.jsonl"])],
        installs: Some(installing::cody),
    },
    found(
        "agent-orchestration-system",
        "agent-orchestration",
        &[spot(&["."], &[".agent-sessions/*/events.jsonl"])],
    ),
    AgentPlace {
        name: "xzatoma",
        format: "xzatoma",
        spots: &[
            spot(&["$XZATOMA_HISTORY_DB"], &[""]),
            Spot { systems: &[Linux], roots: &["$DATA/xzatoma"], patterns: &["history.db"] },
            Spot { systems: &[MacOs], roots: &["$DATA/com.xbcsmith.xzatoma"], patterns: &["history.db"] },
            Spot { systems: &[Windows], roots: &["$DATA/xbcsmith/xzatoma/data"], patterns: &["history.db"] },
        ],
        installs: Some(installing::xzatoma),
    },
    found("ploke", "ploke", &[spot(&["."], &[".ploke_history.md"])]),
    AgentPlace {
        name: "Gemini CLI",
        format: "gemini-cli",
        spots: &[spot(
            &["$GEMINI_CLI_HOME/.gemini", "~/.gemini"],
            &[
                "tmp/*/chats/session-*.jsonl",
                "tmp/*/chats/session-*.json",
                "tmp/*/chats/*/*.jsonl",
                "tmp/*/checkpoint-*.json",
            ],
        )],
        installs: Some(installing::gemini_cli),
    },
    found(
        "Qwen Code",
        "qwen-code",
        &[spot(&["~/.qwen"], &["projects/*/chats/*.jsonl", "tmp/*/chats/session-*.json"])],
    ),
    AgentPlace {
        name: "pi",
        format: "pi",
        spots: &[
            spot(&["$PI_CODING_AGENT_DIR", "~/.pi/agent"], &["sessions/**/*.jsonl"]),
            spot(&["~/.openclaw", "~/.clawdbot"], &["agents/*/sessions/*.jsonl"]),
        ],
        installs: Some(installing::pi),
    },
    found("Copilot CLI", "copilot-cli", &[spot(&["~/.copilot"], &["session-state/*/events.jsonl"])]),
    found("Cursor", "cursor", &[spot(&["~/.cursor"], &["projects/*/agent-transcripts/**/*.jsonl"])]),
    found("Droid", "droid", &[spot(&["~/.factory"], &["sessions/**/*.jsonl"])]),
    found("Kiro", "kiro", &[spot(&["~/.kiro"], &["sessions/**/*.json", "sessions/**/*.jsonl"])]),
    found("iFlow", "iflow", &[spot(&["~/.iflow"], &["projects/*/*.jsonl"])]),
    found("Cline", "cline", extension!("saoudrizwan.claude-dev", spot(&["~/.cline/data"], TASKS))),
    found("Roo Code", "roo-code", extension!("rooveterinaryinc.roo-cline",)),
    AgentPlace {
        name: "opencode",
        format: "opencode",
        spots: &[
            spot(&["$OPENCODE_DB"], &[""]),
            spot(
                &["$XDG_DATA_HOME/opencode", "~/.local/share/opencode"],
                &["opencode.db", "opencode-*.db", "storage/"],
            ),
        ],
        installs: Some(installing::opencode),
    },
    AgentPlace {
        name: "goose",
        format: "goose",
        spots: &[
            spot(&["$GOOSE_PATH_ROOT/data"], &["sessions/sessions.db", "sessions/*.jsonl"]),
            Spot {
                systems: &[Linux, MacOs],
                roots: &["$XDG_DATA_HOME/goose", "~/.local/share/goose"],
                patterns: &["sessions/sessions.db", "sessions/*.jsonl"],
            },
            Spot {
                systems: &[MacOs],
                roots: &["$DATA/Block/goose"],
                patterns: &["**/sessions.db", "**/sessions/*.jsonl"],
            },
            Spot {
                systems: &[Windows],
                roots: &["$DATA/Block/goose"],
                patterns: &["data/sessions/sessions.db", "data/sessions/*.jsonl"],
            },
            spot(&["~/.goose"], &["sessions/*.jsonl"]),
        ],
        installs: Some(installing::goose),
    },
    found("Crush", "crush", &[spot(&["."], &[".crush/crush.db"])]),
    AgentPlace {
        name: "llm",
        format: "llm",
        spots: &[spot(&["$LLM_USER_PATH", "$CONFIG/io.datasette.llm"], &["logs.db"])],
        installs: Some(installing::llm),
    },
    found("OpenHands", "openhands", &[spot(&["~/.openhands"], &["conversations/*/", "sessions/*/"])]),
    found("mini-swe-agent", "mini-swe-agent", &[spot(&["$CONFIG/mini-swe-agent"], &["*.traj.json"])]),
    found("aider", "aider", &[spot(&["."], &[".aider.chat.history.md"])]),
    found("SpecStory", "specstory", &[spot(&["."], &[".specstory/history/*.md"])]),
];
