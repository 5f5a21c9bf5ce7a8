//! The exact output of each command: a few cases per command, for wiring and wording.
//!
//! To accept changes: `cargo insta test --accept -p rejoin-cli --test snapshots` (`cargo install cargo-insta`), then read the diff.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use insta::assert_snapshot;
use serde_json::json;
use support::{BROKEN, Home, SOUND};

/// The output and exit code of a command, with names in place of values that differ from run to run.
fn shown(home: &Home, arguments: &[&str]) -> String {
    let ran = home.run(arguments);
    let mut shown = ran.out.trim_end().to_owned();
    if !ran.err.is_empty() {
        shown.push_str(&format!("\n--- on standard error\n{}", ran.err.trim_end()));
    }
    if ran.code != 0 {
        shown.push_str(&format!("\n--- exit code {}", ran.code));
    }
    let shown = shown.replace(&home.path("").display().to_string(), "~/");
    let shown: Vec<String> = shown.lines().map(without_columns).collect();
    let shown = shown.join("\n");
    numbered(&named(&shown), "conv_", 12, |letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
}

/// A line whose columns are not padded: how wide they are depends on the folder that the test runs in.
fn without_columns(line: &str) -> String {
    let text = line.trim_start();
    let mut out = line[..line.len() - text.len()].to_owned();
    let mut blanks = 0;
    for letter in text.chars() {
        blanks = if letter == ' ' { blanks + 1 } else { 0 };
        if blanks < 3 {
            out.push(letter);
        }
    }
    out
}

/// Ids of conversations, in the order in which they turn up.
fn numbered(text: &str, beginning: &str, length: usize, is_part: impl Fn(char) -> bool) -> String {
    let (mut out, mut rest, mut known) = (String::new(), text, Vec::new());
    while let Some(at) = rest.find(beginning) {
        let from = at + beginning.len();
        let id: String = rest[from..].chars().take(length).take_while(|letter| is_part(*letter)).collect();
        out.push_str(&rest[..from]);
        rest = &rest[from + id.len()..];
        if id.len() < length {
            out.push_str(&id);
            continue;
        }
        let number = known.iter().position(|other| *other == id).unwrap_or_else(|| {
            known.push(id);
            known.len() - 1
        });
        out.push_str(&format!("{}", number + 1));
    }
    out + rest
}

/// Times, hashes and ids of entries under names.
fn named(text: &str) -> String {
    let words =
        text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && !"-:.+".contains(letter));
    let named = |word: &str| {
        let bare = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let end = &word[bare.len()..];
        let is_hex = bare.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
        match bare.len() {
            64 if is_hex => format!("[hash]{end}"),
            36 if is_hex && bare.matches('-').count() == 4 => format!("[entry]{end}"),
            20.. if bare.starts_with("20") && bare.contains('T') && bare.ends_with('Z') => {
                format!("[time]{end}")
            }
            16 if is_hex => format!("[hash]{end}"),
            10 if bare.starts_with("20") && bare.matches('-').count() == 2 => format!("[date]{end}"),
            8 if bare.matches(':').count() == 2 => format!("[clock]{end}"),
            _ => word.to_owned(),
        }
    };
    words.map(named).collect()
}

/// A home with a broken and a sound conversation. Both have fixed times, so lists look the same on any day.
fn filled() -> (Home, String, String) {
    let home = Home::new("sqlite");
    let broken = home.import("broken.json", BROKEN);
    let sound = home.import("sound.json", SOUND);
    (home, broken, sound)
}

#[test]
fn check() {
    let (home, broken, _) = filled();
    assert_snapshot!(shown(&home, &["check", &home.path("broken.json").display().to_string()]), @r#"
    ~/broken.json (openai-chat request)
      error at message 1 (line 3): An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_2 [OAC-01]
      error at message 4 (line 8): Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. [OAC-02]
      note at message 1 (line 3): some results of a parallel batch of calls are missing (call_2): 1 of 2 calls has no result [partial-batch]
          rejoin: what arrived stays, what is missing is added
      note at message 1, block 1 (line 3): a tool call has no result (call_2, tool stat) [unanswered-call]
          rejoin: a result is added that says none was recorded; the call stays
      note at message 4, block 0 (line 8): a tool result has no call (call_7) [orphan-result]
          rejoin: it becomes a labelled text, so nothing of it is lost
      refused: OpenAI would answer 400: 2 errors. `rejoin convert ~/broken.json --to openai-chat` writes a request that is accepted, and no text is lost.
    --- exit code 1
    "#);
    assert_snapshot!(shown(&home, &["check", &home.path("sound.json").display().to_string()]), @r#"
    ~/sound.json (openai-chat request)
      accepted: OpenAI would accept this request: 5 messages, 2 calls, 2 results.
    "#);
    assert_snapshot!(shown(&home, &["check", &broken, "--for", "anthropic"]), @r#"
    conv_1 (List the files, please)
      error at message 1: some results of a parallel batch of calls are missing (call_2): 1 of 2 calls has no result [partial-batch]
          Anthropic would answer 400: messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: call_2. Each `tool_use` block must have a corresponding `tool_result` block in the next message.
          rejoin: what arrived stays, what is missing is added
      error at message 1, block 1: a tool call has no result (call_2, tool stat) [unanswered-call]
          Anthropic would answer 400: messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: call_2. Each `tool_use` block must have a corresponding `tool_result` block in the next message.
          rejoin: a result is added that says none was recorded; the call stays
      error at message 4, block 0: a tool result has no call (call_7) [orphan-result]
          Anthropic would answer 400: messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: call_7. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.
          rejoin: it becomes a labelled text, so nothing of it is lost
      note in the request: tools of the history were declared because the dialect demands it (ls, stat) [stub-tools]
          rejoin: what is missing is added
      note in the request: a setting of another dialect was left out (model) [foreign-field]
          rejoin: it is left out of the request; the file keeps it
      broken: 5 messages, 2 calls, 2 results: 3 errors, 2 notes. `rejoin resume conv_1` continues it; nothing is lost. Anthropic would accept the request that rejoin makes of it.
    --- exit code 1
    "#);
    assert_snapshot!(shown(&home, &["check", &home.file("odd.json", "{\"messages\": 7}")]), @r#"

    --- on standard error
    error: cannot read ~/odd.json: the format is not known: one JSON value with the field messages
    hint: `rejoin check --describe ~/odd.json` prints its fields without their values, for a report
    --- exit code 2
    "#);
    assert_snapshot!(shown(&home, &["check", "nowhere.json"]), @r#"

    --- on standard error
    error: cannot read nowhere.json: No such file or directory (os error 2)
    hint: check the path; `-` reads standard input
    --- exit code 2
    "#);
}

#[test]
fn convert() {
    let (home, broken, _) = filled();
    assert_snapshot!(shown(&home, &["convert", &broken, "--to", "anthropic"]), @r#"
    {"messages":[{"role":"user","content":"List the files, please"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"ls","input":{"path":"secret-place"}},{"type":"tool_use","id":"call_2","name":"stat","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"a.txt"},{"type":"tool_result","tool_use_id":"call_2","content":"[no result was recorded for this call; it may or may not have run]","is_error":true}]},{"role":"user","content":"still there?"},{"role":"user","content":[{"type":"text","text":"[tool result for call call_7, whose call is not in this conversation]\nwho asked?"}]}],"tools":[{"name":"ls","input_schema":{"type":"object"}},{"name":"stat","input_schema":{"type":"object"}}]}
    --- on standard error
    warning: Anthropic would refuse this request: model: Field required
    warning: Anthropic would refuse this request: max_tokens: Field required
    hint: add `--model MODEL` and `--max-tokens N`
    error at message 1: some results of a parallel batch of calls are missing (call_2): 1 of 2 calls has no result [partial-batch] — what arrived stays, what is missing is added
    error at message 1, block 1: a tool call has no result (call_2, tool stat) [unanswered-call] — a result is added that says none was recorded; the call stays
    error at message 4, block 0: a tool result has no call (call_7) [orphan-result] — it becomes a labelled text, so nothing of it is lost
    note in the request: tools of the history were declared because the dialect demands it (ls, stat) [stub-tools] — what is missing is added
    note in the request: a setting of another dialect was left out (model) [foreign-field] — it is left out of the request; the file keeps it
    "#);
    assert_snapshot!(shown(&home, &["convert", &broken, "--to", "nonsense"]), @r#"

    --- on standard error
    error: invalid value 'nonsense' for '--to <DIALECT|FORMAT>'
      [possible values: openai-chat, openai-responses, anthropic, gemini, ollama, mistral, bedrock, claude-code, codex, cody, xzatoma, gemini-cli, pi, opencode, goose, llm, turns, jsonl, markdown]

    For more information, try '--help'.
    --- exit code 2
    "#);
}

#[test]
fn import() {
    let home = Home::new("sqlite");
    let file = home.file("broken.json", BROKEN);
    assert_snapshot!(shown(&home, &["import", &file]), @r#"
    conv_1  7 added  5 messages  ~/broken.json
    --- on standard error
    1 conversation read: 1 new, 0 grown, 0 as before.
    "#);
    assert_snapshot!(shown(&home, &["import", &file]), @r#"
    conv_1  nothing new  5 messages  ~/broken.json
    --- on standard error
    1 conversation read: 0 new, 0 grown, 1 as before.
    "#);
    assert_snapshot!(shown(&home, &["import", "nowhere.json"]), @r#"

    --- on standard error
    error: cannot read nowhere.json: there is no such file or folder
    There is nothing to import.
    --- exit code 2
    "#);
}

#[test]
fn list() {
    let (home, _, _) = filled();
    assert_snapshot!(shown(&Home::new("sqlite"), &["list"]), @r#"
    No saved conversations.
    Create one: rejoin new
    "#);
    assert_snapshot!(shown(&home, &["list", "--all"]), @r#"
    Saved Conversations:

      conv_1  How many files? [ready]
        Provider: unknown (gpt-y)
        Updated: [date] [clock], 5 messages

      conv_2  List the files, please [interrupted]
        Provider: unknown (gpt-x)
        Updated: [date] [clock], 5 messages

    Total: 2 conversation(s)
    "#);
    assert_snapshot!(shown(&home, &["list", "--all", "--json"]), @r#"
    {"id":"conv_1","title":"How many files?","state":"ready","provider":null,"model":"gpt-y","directory":null,"format":"openai-chat","forked_from":null,"scope":null,"messages":5,"created_at":"[time]","updated_at":"[time]","active":false}
    {"id":"conv_2","title":"List the files, please","state":"interrupted","provider":null,"model":"gpt-x","directory":null,"format":"openai-chat","forked_from":null,"scope":null,"messages":5,"created_at":"[time]","updated_at":"[time]","active":false}
    "#);
}

#[test]
fn new() {
    let home = Home::new("sqlite");
    assert_snapshot!(shown(&home, &["new", "--title", "Plans"]), @r#"conv_1"#);
    assert_snapshot!(shown(&home, &["new", "--json"]), @r#"{"id":"conv_1","title":null,"provider":null,"model":null}"#);
}

#[test]
fn chat() {
    let home = Home::new("sqlite");
    assert_snapshot!(shown(&home, &["chat", "what is 6*7?", "--provider", "offline"]), @r#"
    6*7 = 42
    --- on standard error
    note: new conversation with offline (--provider)
    → calculate {"expression":"6*7"}
    ← calculate 42
    "#);
    assert_snapshot!(shown(&home, &["chat", "hello", "--provider", "nonsense"]), @r#"

    --- on standard error
    error: no provider is called `nonsense` (from --provider)
    hint: there are anthropic, openai, gemini, openrouter, mistral, groq, deepseek, xai, together, fireworks, cerebras, azure, copilot, ollama, lmstudio, vllm, llamacpp, custom, offline; any other needs its address: `--base-url URL`, or `rejoin config set base_url URL`
    --- exit code 2
    "#);
}

#[test]
fn resume() {
    let (home, broken, _) = filled();
    assert_snapshot!(shown(&home, &["resume", &broken, "go on", "--provider", "offline"]), @r#"
    You said: "go on". I have no model to think about it. I remember what you tell me ("my name is …"), do sums, list and read files here, run commands ("run `ls`"), write files ("write `hello` to notes.txt"), say what you asked before, and summarise. For a real model: `rejoin auth login`, or `--provider`.
    --- on standard error
    ✓ Resumed conversation: conv_1
      Provider: offline, model: offline
      State: interrupted, 5 messages; 1 call has no result; nothing is lost
    note: the history had 3 problems that a provider would refuse; the model sees it repaired, and the record is unchanged (`rejoin check @` lists them)
    note: 1 call without a result: shown to the model as interrupted
    "#);
    assert_snapshot!(shown(&home, &["resume", "conv_zzzz"]), @r#"

    --- on standard error
    ✗ Conversation 'conv_zzzz' not found
      List available: rejoin list
    --- exit code 1
    "#);
}

#[test]
fn history_show() {
    let (home, broken, sound) = filled();
    assert_snapshot!(shown(&home, &["history", "show", &broken, "--limit", "3"]), @r#"
    Conversation: List the files, please
    ID: conv_1
    Model: gpt-x
    Messages: 5 total
    Showing: last 3 messages
    ================================================================================

    [2] TOOL
    Time: [date] [clock]
    Tool Call ID: call_1
    Content:
    a.txt

    [3] USER
    Time: [date] [clock]
    Content:
    still there?

    [4] TOOL
    Time: [date] [clock]
    Tool Call ID: call_7
    Content:
    who asked?
    "#);
    assert_snapshot!(shown(&home, &["history", "show", &sound, "--json"]), @r#"
    {"index":0,"entry":"[entry]","type":"message","time":"[time]","role":"user","content":"How many files?"}
    {"index":1,"entry":"[entry]","type":"message","time":"[time]","role":"assistant","content":"I look.","tool_calls":[{"id":"call_1","name":"ls","arguments":"{}"},{"id":"call_2","name":"wc","arguments":"{}"}]}
    {"index":2,"entry":"[entry]","type":"message","time":"[time]","role":"tool","content":null,"tool_results":[{"tool_call_id":"call_1","content":"a.txt b.txt","is_error":false}]}
    {"index":3,"entry":"[entry]","type":"message","time":"[time]","role":"tool","content":null,"tool_results":[{"tool_call_id":"call_2","content":"2","is_error":false}]}
    {"index":4,"entry":"[entry]","type":"message","time":"[time]","role":"assistant","content":"Two."}
    "#);
    assert_snapshot!(shown(&home, &["history", "show", &broken, "--view"]), @r#"
    Conversation: List the files, please
    ID: conv_1
    Model: gpt-x
    Messages: 5 total
    ================================================================================

    [0] USER
    Content:
    List the files, please

    [1] ASSISTANT
    Tool Calls: 2 total
      - ls (id: call_1)
      - stat (id: call_2)
      → error at message 1: some results of a parallel batch of calls are missing (call_2): 1 of 2 calls has no result [partial-batch] — what arrived stays, what is missing is added
      → error at message 1, block 1: a tool call has no result (call_2, tool stat) [unanswered-call] — a result is added that says none was recorded; the call stays

    [2] TOOL
    Tool Call ID: call_1
    Content:
    a.txt

    [+] TOOL  (added)
    Tool Call ID: call_2 (failed)
    Content:
    [no result was recorded for this call; it may or may not have run]

    [3] USER
    Content:
    still there?

    [4] USER  (changed)
    Content:
    [tool result for call call_7, whose call is not in this conversation]
    who asked?
      → error at message 4, block 0: a tool result has no call (call_7) [orphan-result] — it becomes a labelled text, so nothing of it is lost
    "#);
}

#[test]
fn history_search() {
    let (home, _, _) = filled();
    assert_snapshot!(shown(&home, &["history", "search", "files"]), @r#"
    conv_1  How many files?
        [0] USER  [date] [clock]
        How many *files*?

    conv_2  List the files, please
        [0] USER  [date] [clock]
        List the *files*, please
    "#);
    assert_snapshot!(shown(&home, &["history", "search", "nothing of the kind"]), @r#"

    --- on standard error
    Nothing found for: nothing of the kind
    "#);
}

#[test]
fn history_calls() {
    let (home, broken, sound) = filled();
    assert_snapshot!(shown(&home, &["history", "calls", &broken]), @r#"
    call  tool  status  started  took  args_sha256
    call_1  ls  completed  -  -  [hash]
    call_2  stat  requested  -  -  [hash]
    "#);
    assert_snapshot!(shown(&home, &["history", "calls", &sound]), @r#"
    call  tool  status  started  took  args_sha256
    call_1  ls  completed  -  -  [hash]
    call_2  wc  completed  -  -  [hash]
    "#);
}

#[test]
fn history_export() {
    let (home, _, sound) = filled();
    assert_snapshot!(shown(&home, &["history", "export", &sound, "-o", "out.jsonl"]), @r#"

    --- on standard error
    conv_1: 5 messages written to out.jsonl
    "#);
    assert_snapshot!(shown(&home, &["history", "export", &sound, "--to", "markdown"]), @r#"
    # How many files?

    ## User

    How many files?

    ## Assistant

    I look.

    **ls**

    ```json
    {}
    ```

    gave:

    ```
    a.txt b.txt
    ```

    **wc**

    ```json
    {}
    ```

    gave:

    ```
    2
    ```

    ## Assistant

    Two.
    "#);
}

#[test]
fn history_changes() {
    let (home, broken, sound) = filled();
    assert_snapshot!(shown(&home, &["history", "rename", &broken, "Files"]), @r#"

    --- on standard error
    conv_1 is now called: Files
    "#);
    assert_snapshot!(shown(&home, &["history", "fork", &sound]), @r#"
    conv_1
    --- on standard error
    The fork is now the active conversation here. Back to the original: rejoin resume conv_2
    "#);
    assert_snapshot!(shown(&home, &["history", "erase", &broken, "--message", "0", "--dry-run"]), @r#"
    Would erase the content of 1 message of conv_1 (Files):
      1 message in 1 entry, 164 bytes of content
    No other conversation holds the same content.
    Nothing was changed.
    "#);
    assert_snapshot!(shown(&home, &["history", "erase", &broken, "--message", "0", "--yes"]), @r#"

    --- on standard error
    conv_1: the content of 1 message is erased; its hashes stay.
    "#);
    assert_snapshot!(shown(&home, &["history", "delete", &broken, "--dry-run"]), @r#"
    Would delete conv_1 (Files, 4 messages):
      4 messages in 8 entries, 1410 bytes of content
    No other conversation holds the same content.
    Nothing was changed.
    "#);
    assert_snapshot!(shown(&home, &["history", "delete", &broken, "--yes"]), @r#"

    --- on standard error
    Deleted conversation: conv_1
    "#);
    assert_snapshot!(shown(&home, &["history", "delete", "conv_", "--yes"]), @r#"

    --- on standard error
    error: `conv_` could mean several conversations
    hint: give the id of one of them:
      conv_1  How many files?
      conv_2  How many files?
    --- exit code 2
    "#);
}

#[test]
fn copy() {
    let (home, _, _) = filled();
    assert_snapshot!(shown(&home, &["copy", "--all", "--to", "jsonl:copies"]), @r#"
    conv_1  7 of 7 entries copied
    conv_2  7 of 7 entries copied
    "#);
    assert_snapshot!(shown(&home, &["copy", "--all", "--to", "jsonl:copies"]), @r#"
    conv_1  nothing new, 7 entries
    conv_2  nothing new, 7 entries
    "#);
}

#[test]
fn verify() {
    let (home, _, _) = filled();
    assert_snapshot!(shown(&home, &["verify"]), @r#"sound: 2 conversations with 14 entries: everything is as it was when it was saved."#);
    home.damage("still there?", "still where?");
    assert_snapshot!(shown(&home, &["verify"]), @r#"
    error in conv_1, row 4: entry [entry] has changed since it was appended
    error in conv_1: 1 of its 7 entries is missing
    damaged: 2 conversations with 13 entries: 2 problems found. Everything else can be read: `rejoin history show ID`.
    --- exit code 1
    "#);
}

#[test]
fn doctor() {
    let home = Home::new("sqlite");
    assert_snapshot!(shown(&home, &["doctor"]), @r#"
    No sessions found. Looked in:
      Codex: ~/.codex/sessions and 1 more
      Claude Code: ~/.claude/projects
      cody: ~/.cody/conversations
      agent-orchestration-system: ./.agent-sessions
      xzatoma: ~/.local/share/xzatoma/history.db
      ploke: ./.ploke_history.md
      Gemini CLI: ~/.gemini/tmp
      Qwen Code: ~/.qwen/projects and 1 more
      pi: ~/.pi/agent/sessions and 1 more
      Copilot CLI: ~/.copilot/session-state
      Cursor: ~/.cursor/projects
      Droid: ~/.factory/sessions
      Kiro: ~/.kiro/sessions
      iFlow: ~/.iflow/projects
      Cline: ~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks and 6 more
      Roo Code: ~/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks and 5 more
      opencode: ~/.local/share/opencode
      goose: ~/.local/share/goose/sessions and 1 more
      Crush: ./.crush/crush.db
      llm: ~/.config/io.datasette.llm/logs.db
      OpenHands: ~/.openhands/conversations and 1 more
      mini-swe-agent: ~/.config/mini-swe-agent
      aider: ./.aider.chat.history.md
      SpecStory: ./.specstory/history
    Give files or folders to look at: `rejoin doctor PATH…`.
    "#);
}

#[test]
fn config() {
    let home = Home::new("sqlite");
    assert_snapshot!(shown(&home, &["config", "set", "model", "tiny"]), @"");
    assert_snapshot!(shown(&home, &["config", "get", "model"]), @r#"tiny"#);
    assert_snapshot!(shown(&home, &["config", "path"]), @r#"~/home/config.toml"#);
    assert_snapshot!(shown(&home, &["config", "unset", "model"]), @"");
    assert_snapshot!(shown(&home, &["config", "get", "nonsense"]), @r#"

    --- on standard error
    error: there is no setting `nonsense`
    hint: `rejoin config list` lists all settings
    --- exit code 2
    "#);
    assert_snapshot!(shown(&home, &["config", "list"]), @r#"
    store  sqlite:~/chats.db  environment
    provider  -  not set
    model  -  not set
    api  -  not set
    base_url  -  not set
    auth  any  default
    keyring  false  default
    effort  -  not set
    system  -  not set
    agents_md  true  default
    context_window  -  not set
    limits.requests  50  default
    limits.seconds  3600  default
    limits.tokens  -  not set
    limits.retries  4  default
    limits.answer_tokens  -  not set
    limits.silence_seconds  300  default
    limits.tool_seconds  120  default
    limits.tool_output  163840  default
    limits.output_kept  67108864  default
    mode  ask  default
    allow  -  not set
    deny  -  not set
    sandbox.read  ["~/.cargo/bin", "~/.cargo/registry", "~/.cargo/git", "~/.rustup", "~/.pyenv", "~/.nvm", "~/.local/bin", "~/go"]  default
    sandbox.network  false  default
    tools.fetch  false  default
    on_broken  keep  default
    persist_special_commands  true  default
    max_tokens  -  not set
    min_retain_turns  2  default
    prune_threshold  0.8  default
    prune.keep_last  -  not set
    prune.max_age_seconds  -  not set
    prune.token_budget  -  not set
    prune.batch  -  not set
    compact  auto  default
    compact_threshold  0.8  default
    compact.model  -  not set
    compact.tail_tokens  -  not set
    audit.full_arguments  false  default
    addresses.chatgpt  -  not set
    addresses.claude  -  not set
    addresses.github  -  not set
    addresses.github_api  -  not set
    agent_folders  -  not set
    color  auto  default
    pager  -  not set
    "#);
}

#[test]
fn providers() {
    let home = Home::new("sqlite");
    assert_snapshot!(shown(&home, &["auth", "status"]), @r#"
    anthropic  no key; set ANTHROPIC_API_KEY or `rejoin auth login anthropic`
    openai  no key; set OPENAI_API_KEY or `rejoin auth login openai`
    gemini  no key; set GEMINI_API_KEY or `rejoin auth login gemini`
    openrouter  no key; set OPENROUTER_API_KEY or `rejoin auth login openrouter`
    mistral  no key; set MISTRAL_API_KEY or `rejoin auth login mistral`
    groq  no key; set GROQ_API_KEY or `rejoin auth login groq`
    deepseek  no key; set DEEPSEEK_API_KEY or `rejoin auth login deepseek`
    xai  no key; set XAI_API_KEY or `rejoin auth login xai`
    together  no key; set TOGETHER_API_KEY or `rejoin auth login together`
    fireworks  no key; set FIREWORKS_API_KEY or `rejoin auth login fireworks`
    cerebras  no key; set CEREBRAS_API_KEY or `rejoin auth login cerebras`
    azure  no key; set AZURE_OPENAI_API_KEY or `rejoin auth login azure`
    copilot  no key; set COPILOT_GITHUB_TOKEN or `rejoin auth login copilot`
    ollama  needs no key
    lmstudio  needs no key
    vllm  needs no key
    llamacpp  needs no key
    custom  needs no key
    "#);
    assert_snapshot!(shown(&home, &["auth", "logout", "openai"]), @r#"

    --- on standard error
    There was no key for openai.
    "#);
    assert_snapshot!(shown(&home, &["set-provider", "offline"]), @r#"

    --- on standard error
    ✓ New conversations go to offline (model: its own).
    "#);
    assert_snapshot!(shown(&home, &["set-auth", "nonsense"]), @r#"

    --- on standard error
    error: `auth` cannot be set: `nonsense` is not one of any, key, chatgpt, claude
    hint: auth: how to authenticate: API key, Codex's login, Claude Code's login, or any of them
    --- exit code 2
    "#);
    assert_snapshot!(shown(&home, &["models", "list", "--provider", "offline"]), @r#"
    offline  128000 tokens
    tiny  4096 tokens
    "#);
}

#[test]
fn explain() {
    let home = Home::new("sqlite");
    assert_snapshot!(shown(&home, &["explain", "orphan-result"]), @r#"
    # orphan-result

    There is a tool result, but no call in the conversation that it could answer.

    **What it looks like**

        user → result A → assistant → user  (no message calls A)

    **How it comes about.** Old messages were cut off between a call and its result, a compaction put a
    summary in the place of the call, messages were deleted by hand, or the result came only after the
    model had been told that there is none.

    **What a provider answers.** Anthropic:
    ```
    messages.{i}.content.{j}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each
    `tool_result` block must have a corresponding `tool_use` block in the previous message.
    ```
    OpenAI Chat:
    ```
    Invalid parameter: messages with role 'tool' must be a response to a preceeding message with
    'tool_calls'.
    ```

    **What rejoin does.** `keep` turns it into a user message in the same place. It begins with a label,
    `[tool result of tool grep for call A, whose call is not in this conversation]`, and the output
    follows, with its images and documents. Between the results of a batch it moves after them. `drop`
    leaves it out.

    **What you can do.** If an older copy of the file still has the call, put that message back.
    "#);
    assert_snapshot!(shown(&home, &["explain", "orphan"]), @r#"

    --- on standard error
    error: there is no rule `orphan`
    hint: did you mean `orphan-result`? `rejoin explain` lists all findings
    --- exit code 2
    "#);
}

#[test]
fn mistakes() {
    let home = Home::new("sqlite");
    assert_snapshot!(shown(&home, &["histroy", "list"]), @r#"

    --- on standard error
    error: there is no command `rejoin histroy`
    hint: did you mean `rejoin history list`?
    hint: `rejoin --help` lists the commands; to send it as a message: rejoin chat 'histroy list'
    --- exit code 2
    "#);
    assert_snapshot!(shown(&home, &["list", "--sideways"]), @r#"

    --- on standard error
    error: unexpected argument '--sideways' found

    Usage: rejoin list [OPTIONS]

    For more information, try '--help'.
    --- exit code 2
    "#);
}

/// Twelve turns with a call each, long enough to be pruned and compacted.
fn long() -> String {
    let turn = |number: usize| {
        let call = json!({"id": format!("call_{number}"), "type": "function", "function": {"name": "ls", "arguments": "{}"}});
        [
            json!({"role": "user", "content": format!("Question {number}: {}", "why does it fail here? ".repeat(40))}),
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": format!("call_{number}"), "content": "a.txt b.txt ".repeat(100)}),
            json!({"role": "assistant", "content": format!("Answer {number}: {}", "a header is missing. ".repeat(40))}),
        ]
    };
    json!({"model": "gpt-y", "messages": (0..12).flat_map(turn).collect::<Vec<_>>()}).to_string()
}

#[test]
fn compact() {
    let home = Home::new("sqlite");
    let id = home.import("long.json", &long());
    let compact = ["compact", &id, "--provider", "offline", "--model", "tiny"];
    assert_snapshot!(shown(&home, &[&compact[..], &["--dry-run"]].concat()), @"
    before ██████████████████████████████ 15264 tokens: 48 messages
    after  ████████████▉  6580 tokens: 9 older messages, the last 12 messages, and a short summary; a longer one takes more
    --- on standard error
    Nothing was sent and nothing was changed.
    ");
    assert_snapshot!(shown(&home, &compact), @"
    before ██████████████████████████████ 15264 tokens: 48 messages
    after  █▊  864 tokens: 4 messages
    --- on standard error
    note: Compacting conversation history... (17129 tokens, 418% of the window)
    note: messages compacted from 15264 to 864 tokens; the record keeps every word
    The record keeps every word; `rejoin uncompact conv_1` undoes it.
    ");
    assert_snapshot!(shown(&home, &compact), @"
    before ██████████████████████████████ 864 tokens: 4 messages
    after  ████████████▍  355 tokens: 2 messages
    --- on standard error
    note: Compacting conversation history... (2729 tokens, 66% of the window)
    note: messages compacted from 864 to 355 tokens; the record keeps every word
    The record keeps every word; `rejoin uncompact conv_1` undoes it.
    ");
    assert_snapshot!(shown(&home, &["uncompact", &id]), @"
    before ████████████▍  355 tokens: 2 messages
    after  ██████████████████████████████ 864 tokens: 4 messages
    ");
    assert_snapshot!(shown(&home, &["uncompact", &id]), @"
    before █▊  864 tokens: 4 messages
    after  ██████████████████████████████ 15264 tokens: 48 messages
    ");
}

#[test]
fn prune() {
    let home = Home::new("sqlite");
    let id = home.import("long.json", &long());
    assert_snapshot!(shown(&home, &["prune", &id, "--keep-last", "2", "--dry-run"]), @"
    before ██████████████████████████████ 15264 tokens
    after  ████████████████▏  8194 tokens: 10 results left out, 2 stay
    --- on standard error
    Nothing was changed.
    ");
    assert_snapshot!(shown(&home, &["prune", &id, "--keep-last", "2"]), @"
    before ██████████████████████████████ 15264 tokens
    after  ████████████████▏  8194 tokens: 10 results left out, 2 stay
    --- on standard error
    The record keeps every word, and the tool `recall` reads it again.
    ");
    assert_snapshot!(shown(&home, &["prune", &id, "--keep-last", "2"]), @"

    --- on standard error
    No result needs to be removed: 2 results stay. `--keep-last N` chooses another limit.
    ");
    assert_snapshot!(shown(&home, &["prune", &id, "--keep-last", "-2"]), @"

    --- on standard error
    error: invalid value '-2' for '--keep-last <N>': it must be a whole number from 0

    For more information, try '--help'.
    --- exit code 2
    ");
}

#[test]
fn history_tokens() {
    let home = Home::new("sqlite");
    let id = home.import("long.json", &long());
    assert_snapshot!(shown(&home, &["history", "show", &id, "--tokens", "--model", "gpt-4o"]), @"
    10,524 of 128,000 tokens in the window of gpt-4o (8%), counted
      instructions  0  0%
      tools  0  0%
      people  2,988  28%
      answers  2,628  25%
      results  4,908  47%
      summaries  0  0%
    ");
    assert_snapshot!(shown(&home, &["history", "show", &id, "--tokens", "--model", "unknown"]), @"
    15,264 tokens, estimated; the window of unknown is not known: `rejoin config set context_window N`
      instructions  0  0%
      tools  0  0%
      people  3,576  23%
      answers  3,156  21%
      results  8,532  56%
      summaries  0  0%
    ");
}

#[test]
fn run() {
    let home = Home::new("sqlite");
    let question = ["--new", "--provider", "offline", "What is 6*7?"];
    let run = shown(&home, &[&["run"], &question[1..]].concat());
    assert_eq!(run, shown(&home, &[&["chat"], &question[..]].concat()));
    assert_snapshot!(shown(&home, &["run", "--provider", "offline", "--mode", "read-only", "write `hi` to notes.txt"]), @r#"
    write_file did not work: [not run: the mode is read-only, so nothing may be changed]
    --- on standard error
    note: new conversation with offline (--provider)
    → write_file {"path":"notes.txt","content":"hi\n"}
    ✗ write_file [not run: the mode is read-only, so nothing may be changed]
    "#);
    assert_snapshot!(shown(&home, &["run"]), @"

    --- on standard error
    error: the following required arguments were not provided:
      <TASK>

    Usage: rejoin run <TASK>

    For more information, try '--help'.
    --- exit code 2
    ");
    assert_snapshot!(shown(&home, &["run", "--max-turn-tokens", "-5", "What is 6*7?"]), @"

    --- on standard error
    error: invalid value '-5' for '--max-turn-tokens <N>': it must be a whole number from 1

    For more information, try '--help'.
    --- exit code 2
    ");
}

#[test]
fn undo() {
    let home = Home::new("sqlite");
    let run = |task: &str| shown(&home, &["run", "--provider", "offline", "--mode", "auto", task]);
    home.file("here/notes.txt", "first\n");
    assert_snapshot!(shown(&home, &["undo"]), @"

    --- on standard error
    error: there is no active conversation here
    hint: `rejoin new` starts one; `rejoin list` lists the existing ones, `@1` is the newest
    --- exit code 1
    ");
    assert_snapshot!(run("write `second` to notes.txt"), @r#"
    changed `notes.txt` (1 line added, 1 removed)
    --- on standard error
    note: new conversation with offline (--provider)
    → write_file {"path":"notes.txt","content":"second\n"}
    ← write_file changed `notes.txt` (1 line added, 1 removed)
    "#);
    assert_snapshot!(shown(&home, &["history", "edits"]), @"
    applied  notes.txt  (write_file, [date] [clock], turn 1, allowed by the mode)
      --- a/notes.txt
      +++ b/notes.txt
      @@ -1 +1 @@
      -first
      +second
    ");
    assert_snapshot!(shown(&home, &["undo"]), @"notes.txt: restored");
    assert_snapshot!(shown(&home, &["history", "edits"]), @"
    reverted  notes.txt  (write_file, [date] [clock], turn 1, allowed by the mode)
      --- a/notes.txt
      +++ b/notes.txt
      @@ -1 +1 @@
      -first
      +second
    ");
    assert_snapshot!(shown(&home, &["undo"]), @"

    --- on standard error
    There is nothing to undo in conv_1.
    ");
    home.out(&["chat", "--new", "--provider", "offline", "write `second` to notes.txt"]);
    assert_snapshot!(shown(&home, &["history", "edits"]), @"
    denied: approval is needed, and there is no terminal to ask at  notes.txt  (write_file, [date] [clock], turn 1)
      --- a/notes.txt
      +++ b/notes.txt
      @@ -1 +1 @@
      -first
      +second
    ");
    home.out(&["new"]);
    assert_snapshot!(shown(&home, &["history", "edits"]), @"

    --- on standard error
    No tool has proposed to change a file in conv_1.
    ");
}

#[cfg(feature = "mcp")]
#[test]
fn mcp() {
    let home = Home::new("sqlite");
    assert_snapshot!(shown(&home, &["mcp", "list"]), @"

    --- on standard error
    There are no MCP servers. `rejoin mcp add NAME -- COMMAND` adds one.
    ");
    assert_snapshot!(shown(&home, &["mcp", "add", "files", "--", "true"]), @"

    --- on standard error
    Added files. `rejoin mcp test files` starts it.
    ");
    assert_snapshot!(shown(&home, &["mcp", "list"]), @"files  true  settings");
    assert_snapshot!(shown(&home, &["mcp", "test", "files"]), @"

    --- on standard error
    warning: files does not work: it ended with exit code 0
    --- exit code 1
    ");
    assert_snapshot!(shown(&home, &["mcp", "remove", "file"]), @"

    --- on standard error
    error: there is no MCP server `file`
    hint: did you mean `files`? `rejoin mcp list` lists them
    --- exit code 2
    ");
    assert_snapshot!(shown(&home, &["mcp", "remove", "files"]), @"

    --- on standard error
    Removed files.
    ");
}

#[test]
fn store() {
    let (home, ..) = filled();
    // How large the store is depends on the version of SQLite.
    let size = |shown: String| {
        let lines = shown.lines().map(|line| if line.starts_with("size:") { "size: [size]" } else { line });
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(size(shown(&home, &["store"])), @"
    store:  sqlite:~/chats.db
    conversations: 2
    size: [size]
    schema:  3
    ");
    assert_snapshot!(shown(&home, &["store", "enable", "partitions"]), @"

    --- on standard error
    error: cannot enable partitions in sqlite:~/chats.db: it has no options: stores in SQLite and JSONL always have an index for searches, and need no partitions
    hint: name a store in PostgreSQL: `--store postgres://…`
    --- exit code 1
    ");
    assert_snapshot!(shown(&Home::new("jsonl"), &["store"]), @"
    store:  jsonl:~/chats
                   does not exist yet; the first conversation creates it
    ");
}

#[test]
fn demo() {
    assert_snapshot!(shown(&Home::new("sqlite"), &["demo"]), @r#"
    1. A turn with three tools, on the built-in responder. The tools are slow on purpose.
       $ rejoin chat "What is 6*7? Also list the files here and read notes.txt"
       → calculate {"expression":"6*7"}
       → list_dir {"path":"."}
       → read_file {"path":"notes.txt"}
       ← calculate 42
       killed (SIGKILL) after 1 of 3 tools

    2. What is left. A provider would refuse it, however often it is sent:
       $ rejoin list
       Saved Conversations:
       * conv_1  What is 6*7? Also list the files here and read notes.txt [interrupted]
           Provider: offline (offline)
           Updated: [date] [clock], 3 messages
       Total: 1 conversation(s)
       $ rejoin check @ --for anthropic
       conv_1 (What is 6*7? Also list the files here and read notes.txt)
         error at message 1: some results of a parallel batch of calls are missing (offline_2, offline_3): 2 of 3 calls have no result [partial-batch]
             Anthropic would answer 400: messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: offline_2, offline_3. Each `tool_use` block must have a corresponding `tool_result` block in the next message.
             rejoin: what arrived stays, what is missing is added
         error at message 1, block 1: a tool call has no result (offline_2, tool list_dir) [unanswered-call]
             Anthropic would answer 400: messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: offline_2. Each `tool_use` block must have a corresponding `tool_result` block in the next message.
             rejoin: a result is added that says none was recorded; the call stays
         error at message 1, block 2: a tool call has no result (offline_3, tool read_file) [unanswered-call]
             Anthropic would answer 400: messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: offline_3. Each `tool_use` block must have a corresponding `tool_result` block in the next message.
             rejoin: a result is added that says none was recorded; the call stays
         note in the request: a setting of another dialect was left out (model) [foreign-field]
             rejoin: it is left out of the request; the file keeps it
         broken: 3 messages, 3 calls, 1 result: 3 errors, 1 note. `rejoin resume conv_1` continues it; nothing is lost. Anthropic would accept the request that rejoin makes of it.

    3. Resumed: calls that ran are not run again; the others run now.
       $ rejoin resume @ --on-broken rerun
         Provider: offline, model: offline
         State: interrupted, 3 messages; 2 calls have no result; nothing is lost
       note: 2 calls without a result: run again
       → list_dir {"path":"."}
       → read_file {"path":"notes.txt"}
       ← list_dir notes.txt
       ← read_file buy milk call Alice
       ✓ Resumed conversation: conv_1
       6*7 = 42
       In this folder:
       notes.txt
       notes.txt says:
       buy milk
       call Alice

    4. Every word is still there, and its hashes prove it.
       $ rejoin verify
       sound: 1 conversation with 18 entries: everything is as it was when it was saved.
       $ rejoin chat "What did I ask before?"
       note: continuing conv_1 with offline (as before)
       You said: "What is 6*7? Also list the files here and read notes.txt"

    Your own: `rejoin doctor` checks the sessions of every agent on this machine.
    "#);
}

/// The output of `--follow`: first the conversation, then the entries that another process appends.
#[cfg(unix)]
#[test]
fn history_follow() {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };
    let home = Home::new("sqlite");
    let chat = |words: &str| home.out(&["chat", "--provider", "offline", words]);
    chat("my name is Alice");
    let mut following = home.command(&["history", "show", "@", "--follow"]);
    let mut following = following.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut seen = Vec::new();
    let mut until = |words: &str| {
        for line in lines.by_ref() {
            seen.push(named(&line));
            if line.contains(words) {
                break;
            }
        }
    };
    until("I will remember");
    chat("what is my name?");
    until("Your name is Alice.");
    assert!(Command::new("kill").args(["-INT", &following.id().to_string()]).status().unwrap().success());
    assert_eq!(following.wait().unwrap().code(), Some(0));
    assert_snapshot!(numbered(&seen.join("\n"), "conv_", 12, |letter| letter.is_ascii_alphanumeric()), @"
    Conversation: my name is Alice
    ID: conv_1
    Model: offline
    Messages: 2 total
    ================================================================================

    [0] USER
    Time: [date] [clock]
    Content:
    my name is Alice

    [1] ASSISTANT
    Time: [date] [clock]
    Content:
    I will remember that your name is Alice.

    [2] USER
    Time: [date] [clock]
    Content:
    what is my name?

    [3] ASSISTANT
    Time: [date] [clock]
    Content:
    Your name is Alice.
    ");
}
