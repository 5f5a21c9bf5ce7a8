//! `markdown`: a conversation for people to read. It is written only; nothing is read back from it.

use rejoin_record::{BlockKind, Text, text::plural};
use rejoin_view::{
    ExchangeRef, SoundRole, SoundView,
    sound::{self, PartRef},
};

use super::writing::{Writing, Written};
use crate::{
    session::Session,
    wire::{TooLarge, render},
};

pub(crate) const FORMAT: &str = "markdown";

/// Writes the view of a session for people. Never fails.
pub(crate) fn write(session: &Session, view: &SoundView, _: &Writing<'_>) -> Result<Written, TooLarge> {
    let title = Some(session.headline()).filter(|title| !title.is_empty());
    let mut out = format!("# {}\n", title.unwrap_or_else(|| session.id.to_string()));
    let hidden = session.hidden().count();
    if hidden > 0 {
        let messages = plural(hidden, "message");
        paragraph(
            &mut out,
            &format!(
                "_Left out: {messages} that the model no longer sees (summarized, pruned, or on another branch). `--to jsonl` writes \
                 every message._"
            ),
        );
    }
    for piece in session.context.system() {
        heading(&mut out, "System", None);
        paragraph(&mut out, &piece.text);
    }
    for item in view.items() {
        let who = match item.role() {
            SoundRole::System | SoundRole::Developer => "System",
            SoundRole::User => "User",
            SoundRole::Assistant => "Assistant",
        };
        let time = session.details.get(item.index()).and_then(|detail| detail.time.as_ref());
        heading(&mut out, who, time);
        for part in item.parts() {
            match part {
                PartRef::Block(_, block) => match &block.kind {
                    BlockKind::Text(text) => paragraph(&mut out, text),
                    BlockKind::Reasoning(reasoning) if !reasoning.text.is_blank() => {
                        quote(&mut out, &reasoning.text)
                    }
                    BlockKind::Image(_) | BlockKind::Document(_) => {
                        paragraph(&mut out, &render::media_label(&block.kind))
                    }
                    BlockKind::Opaque(opaque) => {
                        paragraph(&mut out, &format!("[{}]", opaque.kind));
                        fence(&mut out, "json", opaque.raw.as_str());
                    }
                    _ => {}
                },
                PartRef::Exchange(exchange) => write_exchange(&mut out, exchange),
                PartRef::Orphan(_, result) => paragraph(&mut out, &render::orphan_text(result)),
            }
        }
    }
    Ok(Written::text(out, Vec::new()))
}

fn heading(out: &mut String, who: &str, time: Option<&Text>) {
    match time {
        Some(time) => out.push_str(&format!("\n## {who} · {time}\n")),
        None => out.push_str(&format!("\n## {who}\n")),
    }
}

fn paragraph(out: &mut String, text: &str) {
    out.push('\n');
    out.push_str(text.trim_end());
    out.push('\n');
}

fn quote(out: &mut String, text: &str) {
    out.push('\n');
    for line in text.lines() {
        out.push_str(&format!("> {line}\n"));
    }
}

fn write_exchange(out: &mut String, exchange: ExchangeRef<'_>) {
    let call = exchange.call();
    out.push_str(&format!("\n**{}**\n", call.name));
    fence(out, "json", call.arguments.text());
    let mut answered = false;
    for result in exchange.results() {
        answered = true;
        out.push_str(if result.result().is_error { "\nfailed:\n" } else { "\ngave:\n" });
        for block in &result.result().content {
            match &block.kind {
                BlockKind::Text(text) => fence(out, "", text),
                BlockKind::Image(_) | BlockKind::Document(_) => {
                    paragraph(out, &render::media_label(&block.kind))
                }
                BlockKind::Opaque(opaque) => fence(out, "json", opaque.raw.as_str()),
                _ => {}
            }
        }
    }
    if !answered {
        paragraph(out, sound::NO_RESULT);
    }
}

/// Writes a code block whose fence is longer than any run of backticks in it.
fn fence(out: &mut String, language: &str, text: &str) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let ticks = "`".repeat((longest + 1).max(3));
    out.push_str(&format!("\n{ticks}{language}\n{}\n{ticks}\n", text.trim_end_matches('\n')));
}
