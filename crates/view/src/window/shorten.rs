//! Decides which results lose their middle because they would not fit into the window together.

use rejoin_record::{Block, BlockKind, content::ShortenedResult};

use crate::{TokenCounter, excerpt, path::Walk};

/// The fewest bytes that are shown of a result.
const SHORTEST: usize = 2 * 1024;

/// Results to shorten, and the tokens of all results before and after that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shortening {
    /// The results to shorten.
    pub results: Vec<ShortenedResult>,
    /// The tokens of all results now.
    pub tokens: u64,
    /// Their tokens afterwards.
    pub tokens_after: u64,
}

struct Candidate<'w> {
    place: usize,
    block: usize,
    content: &'w Block,
    tokens: u64,
}

/// Shortens the largest results from an index on, so that together they take at most `budget` tokens. Pinned results stay whole, and
/// at least about two kilobytes of every other result are shown.
#[must_use]
pub fn plan(walk: &Walk, counter: &TokenCounter, from: usize, budget: u64) -> Shortening {
    let candidates = candidates(walk, counter, from);
    let tokens = candidates.iter().map(|candidate| candidate.tokens).sum();
    let mut shortening = Shortening { results: Vec::new(), tokens, tokens_after: tokens };
    if tokens <= budget {
        return shortening;
    }
    let pinned = super::pinned(walk);
    let (fixed, free): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|candidate| pinned.contains(&candidate.place));
    let taken = fixed.iter().map(|candidate| candidate.tokens).sum();
    let share = share(free.iter().map(|candidate| candidate.tokens).collect(), budget.saturating_sub(taken));
    for candidate in free.iter().filter(|candidate| candidate.tokens > share) {
        if let Some((shown, after)) = length(candidate, counter, share, walk.numbers()[candidate.place]) {
            let entry = walk.entries()[candidate.place];
            let (block, shown) = (candidate.block as u64, shown as u64);
            shortening.results.push(ShortenedResult { entry, block, shown });
            shortening.tokens_after = (shortening.tokens_after + after).saturating_sub(candidate.tokens);
        }
    }
    shortening
}

fn candidates<'w>(walk: &'w Walk, counter: &TokenCounter, from: usize) -> Vec<Candidate<'w>> {
    let mut candidates = Vec::new();
    for (place, (message, entry)) in walk.messages().iter().zip(walk.entries()).enumerate().skip(from) {
        for (block, content) in message.blocks.iter().enumerate() {
            if content.as_result().is_some() && !walk.is_pruned(*entry, block as u64) {
                candidates.push(Candidate { place, block, content, tokens: counter.block(content) });
            }
        }
    }
    candidates
}

/// The most tokens that one result may take, so that all of them together take at most `budget`.
fn share(mut tokens: Vec<u64>, budget: u64) -> u64 {
    tokens.sort_unstable();
    let (mut left, mut count) = (budget, tokens.len() as u64);
    for tokens in tokens {
        if tokens > left / count {
            return left / count;
        }
        (left, count) = (left - tokens, count - 1);
    }
    u64::MAX
}

/// How many bytes to show of a result so that it takes at most `share` tokens, and the tokens that it then takes; `None` if it cannot
/// become shorter.
fn length(
    candidate: &Candidate<'_>,
    counter: &TokenCounter,
    share: u64,
    number: usize,
) -> Option<(usize, u64)> {
    let result = candidate.content.as_result()?;
    let bytes: usize = excerpt::texts(&result.content).map(|text| counter.bytes_sent(text)).sum();
    // Start from the average length of a token: the density of a text varies.
    let mut shown = (bytes as f64 * share as f64 / candidate.tokens as f64) as usize;
    loop {
        shown = shown.max(SHORTEST);
        let content = excerpt::of_result(&result.content, shown, number);
        let mut block = Block { span: None, ..candidate.content.clone() };
        if let BlockKind::ToolResult(result) = &mut block.kind {
            result.content = content;
        }
        let tokens = counter.block(&block);
        if tokens <= share || shown == SHORTEST {
            return (shown < bytes && tokens < candidate.tokens).then_some((shown, tokens));
        }
        shown = shown / 10 * 9;
    }
}
