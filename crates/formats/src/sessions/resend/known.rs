//! What is known of agents that change calls and results before they send a session, or that send them as they are. Each entry says
//! where it is known from: "seen" means that the program was run with broken sessions and its requests were looked at. What was only
//! read in a source holds for the version that was read, and was not tried.
//!
//! What an agent that is not here does about a broken session has not been found out.

use super::{
    DuplicateResults, Habits, LateResults, Orphans, ReusedIdHandling, SearchRange, TargetDialect, Unanswered,
};
use crate::{
    sessions::{
        agents::pi,
        registry::{KnownAgent, Resend},
    },
    wire::registry::Dialect,
};

const fn pairs(name: &'static str, to: TargetDialect, habits: &'static [Habits]) -> Option<KnownAgent> {
    Some(KnownAgent { name, resend: Resend::Pairs { to, habits } })
}

/// Sends everything unchanged.
const NOTHING: Habits = Habits {
    search: SearchRange::Everywhere,
    unanswered: Unanswered::Sent,
    orphans: Orphans::Sent,
    duplicates: DuplicateResults::Sent,
    late_results: LateResults::Sent,
    reused: ReusedIdHandling::Sent,
};

/// Whatever is no pair is left out.
const PAIRED: Habits = Habits {
    unanswered: Unanswered::LeftOut,
    orphans: Orphans::LeftOut,
    duplicates: DuplicateResults::LeftOut,
    ..NOTHING
};

/// Seen with 0.61: it joins what one side said in a row, and changes no call and no result. Its source has a pass that would
/// (`hardenHistory`), which only an experimental setting turns on.
pub(crate) const GEMINI_CLI: Option<KnownAgent> =
    pairs("Gemini CLI", TargetDialect::Only(Dialect::Gemini), &[NOTHING]);

/// Seen with llm 0.36, whose own models are OpenAI's.
#[cfg(feature = "sqlite")]
pub(crate) const LLM: Option<KnownAgent> =
    pairs("llm", TargetDialect::ByModel(Dialect::OpenAiChat), &[NOTHING]);

/// Seen with 1.0.102 and requests of Chat Completions, Responses and Anthropic: it mends everything except, in the last two, an id
/// that two calls have.
pub(crate) const COPILOT_CLI: Option<KnownAgent> = pairs(
    "Copilot CLI",
    TargetDialect::ByModel(Dialect::OpenAiChat),
    &[Habits {
        search: SearchRange::Everywhere,
        unanswered: Unanswered::Answered,
        orphans: Orphans::LeftOut,
        duplicates: DuplicateResults::LeftOut,
        late_results: LateResults::Moved,
        reused: ReusedIdHandling::RenamedIn(Dialect::OpenAiChat),
    }],
);

/// Seen with 0.225.2 and requests of Chat Completions, Responses and Anthropic: it answers a call that has no result before the next
/// message, and leaves out a result that comes later. A result before its call counts, and is sent in that place.
pub(crate) const DROID: Option<KnownAgent> = pairs(
    "Droid",
    TargetDialect::ByModel(Dialect::Anthropic),
    &[Habits {
        search: SearchRange::BesideOrBefore,
        unanswered: Unanswered::Answered,
        orphans: Orphans::LeftOut,
        duplicates: DuplicateResults::LeftOut,
        late_results: LateResults::Sent,
        reused: ReusedIdHandling::LeftOut,
    }],
);

/// The source of the program that it grew out of, Amazon Q. There, `chat/conversation.rs` answers the calls of the last answer, and
/// makes a text of results in the first message. `agent/mod.rs`, which came later, looks at each answer and the message after it:
/// it adds the missing results to that message, and makes texts of those that have no call.
pub(crate) const KIRO: Option<KnownAgent> = pairs(
    "Kiro",
    TargetDialect::Like(Dialect::Anthropic),
    &[
        Habits {
            search: SearchRange::Beside,
            unanswered: Unanswered::AnsweredInNextMessage,
            orphans: Orphans::LeftOut,
            ..NOTHING
        },
        Habits { search: SearchRange::Beside, unanswered: Unanswered::AnsweredAtTheEnd, ..NOTHING },
    ],
);

/// Its loader takes the newest rows as they are, which may cut a pair in two; there is no check for that.
pub(crate) const PROMETHEUS: Option<KnownAgent> =
    pairs("Prometheus Protocol's bot", TargetDialect::ByModel(Dialect::OpenAiChat), &[NOTHING]);

/// Seen with goose 1.34, and `conversation/mod.rs` of its source: a result counts from its call on, and once.
pub(crate) const GOOSE: Option<KnownAgent> = pairs(
    "goose",
    TargetDialect::ByModel(Dialect::OpenAiChat),
    &[Habits { search: SearchRange::Onwards, ..PAIRED }],
);

/// Seen with 1.18.33, and `session/message-v2.ts` of its source: a call that still runs is sent as one that failed. A call and its
/// result are one part, so a result cannot be without its call.
pub(crate) const OPENCODE: Option<KnownAgent> = pairs(
    "opencode",
    TargetDialect::ByModel(Dialect::OpenAiChat),
    &[Habits { search: SearchRange::Beside, unanswered: Unanswered::Answered, ..NOTHING }],
);

/// Two programs write these files, and what each of them does is below.
pub(crate) const PI_OR_OPENCLAW: Option<KnownAgent> = Some(KnownAgent {
    name: "pi or OpenClaw",
    resend: Resend::ByWriter(|session| if pi::is_of_openclaw(session) { &OPENCLAW } else { &PI }),
});

/// Seen with 0.87.1, and `transform-messages.ts` of its source: it answers a call that has no result before the next message, and
/// sends everything else unchanged. An answer that was aborted or failed is left out, and its results are not: they are sent as
/// results without a call, which every provider refuses.
static PI: KnownAgent = KnownAgent {
    name: "pi",
    resend: Resend::Pairs {
        to: TargetDialect::Recorded,
        habits: &[Habits { search: SearchRange::Beside, unanswered: Unanswered::Answered, ..NOTHING }],
    },
};

/// `session-transcript-repair.ts` of its source: it also moves results to their calls, and leaves out second results and those without
/// a call, so also the results of an answer that was aborted.
static OPENCLAW: KnownAgent = KnownAgent {
    name: "OpenClaw",
    resend: Resend::Pairs {
        to: TargetDialect::Recorded,
        habits: &[Habits {
            search: SearchRange::ToNextAnswer,
            unanswered: Unanswered::Answered,
            orphans: Orphans::LeftOut,
            duplicates: DuplicateResults::LeftOut,
            late_results: LateResults::Moved,
            ..NOTHING
        }],
    },
};

/// `openaiContentGenerator/converter.ts` of its source: before each request it removes calls and results whose other half is nowhere
/// in the list. Where the halves stand is not looked at.
pub(crate) const QWEN_CODE: Option<KnownAgent> = pairs(
    "Qwen Code",
    TargetDialect::Only(Dialect::OpenAiChat),
    &[Habits { unanswered: Unanswered::LeftOut, orphans: Orphans::LeftOut, ..NOTHING }],
);

/// `internal/agent/agent.go` of its source: it answers calls whose result is nowhere, and leaves out results whose call is nowhere.
/// Later versions may move results to their calls as well.
#[cfg(feature = "sqlite")]
pub(crate) const CRUSH: Option<KnownAgent> = pairs(
    "Crush",
    TargetDialect::ByModel(Dialect::OpenAiChat),
    &[
        Habits { unanswered: Unanswered::Answered, orphans: Orphans::LeftOut, ..NOTHING },
        Habits {
            unanswered: Unanswered::Answered,
            orphans: Orphans::LeftOut,
            late_results: LateResults::Moved,
            ..NOTHING
        },
    ],
);

/// `ContextManager.ts` of its source: in the message after calls, missing results are added and others than theirs left out. Any
/// other message is sent unchanged.
pub(crate) const CLINE: Option<KnownAgent> = pairs(
    "Cline",
    TargetDialect::Recorded,
    &[Habits {
        search: SearchRange::Beside,
        unanswered: Unanswered::AnsweredInNextMessage,
        orphans: Orphans::LeftOutAmongResults,
        ..NOTHING
    }],
);

/// `Task.ts` of its source: on resuming it answers the calls of the last answer, and looks at nothing before.
pub(crate) const ROO_CODE: Option<KnownAgent> = pairs(
    "Roo Code",
    TargetDialect::Recorded,
    &[Habits { search: SearchRange::Beside, unanswered: Unanswered::AnsweredAtTheEnd, ..NOTHING }],
);

/// `context/view.py` of its SDK, and `conversation_memory.py` before that: calls and results whose other half is nowhere are left
/// out. The SDK leaves out the whole batch of such a call and, in later versions, second results; the older program does not.
pub(crate) const OPENHANDS: Option<KnownAgent> = pairs(
    "OpenHands",
    TargetDialect::ByModel(Dialect::OpenAiChat),
    &[
        Habits {
            unanswered: Unanswered::LeftOutWithItsBatch,
            orphans: Orphans::LeftOut,
            duplicates: DuplicateResults::LeftOut,
            ..NOTHING
        },
        Habits { unanswered: Unanswered::LeftOut, orphans: Orphans::LeftOut, ..NOTHING },
    ],
);

/// `run_internal/items.py` of its source: before a run it leaves out calls without an output, and all but one of several outputs.
#[cfg(feature = "sqlite")]
pub(crate) const OPENAI_AGENTS: Option<KnownAgent> = pairs(
    "the OpenAI Agents SDK",
    TargetDialect::Recorded,
    &[Habits { unanswered: Unanswered::LeftOut, duplicates: DuplicateResults::LeftOut, ..NOTHING }],
);

/// It checks the list when it builds a request, and removes results whose call is nowhere in it.
pub(crate) const XZATOMA: Option<KnownAgent> = pairs(
    "xzatoma",
    TargetDialect::Only(Dialect::OpenAiChat),
    &[Habits { orphans: Orphans::LeftOut, ..NOTHING }],
);

/// A port of Codex: when it builds a prompt, it answers calls without an output with `aborted`, and leaves out outputs without a
/// call.
pub(crate) const CODY: Option<KnownAgent> = pairs(
    "cody",
    TargetDialect::Recorded,
    &[Habits { unanswered: Unanswered::Answered, orphans: Orphans::LeftOut, ..NOTHING }],
);

/// Its loader removes a call if the model speaks before the result, and with it the result; if the list is still not valid, it removes
/// more, down to nothing. So what is left can always be sent.
pub(crate) const ORCHESTRATION: Option<KnownAgent> = pairs(
    "agent-orchestration-system",
    TargetDialect::Recorded,
    &[Habits { search: SearchRange::ToNextAnswer, late_results: LateResults::Moved, ..PAIRED }],
);
