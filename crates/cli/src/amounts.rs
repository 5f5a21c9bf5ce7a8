//! Amounts for people: tokens, costs, and bars that compare them.

use std::time::Duration;

use rejoin::{providers::catalogue::Dollars, record::content::TokenUsage};

/// Tokens and cost in one line.
pub fn spent(usage: &TokenUsage, cost: Option<Dollars>) -> String {
    let mut line = format!("{} tokens in", count(usage.input));
    if usage.cached > 0 {
        line += &format!(" ({} cached)", count(usage.cached));
    }
    line += &format!(", {} out", count(usage.output));
    if usage.reasoning > 0 {
        line += &format!(" ({} reasoning)", count(usage.reasoning));
    }
    // A cost of zero need not be shown.
    if let Some(cost) = cost.filter(|cost| *cost > Dollars::default()) {
        line += &format!(", {cost}");
    }
    line
}

/// The cost of a turn, in one line: time, tokens and money, and how full the window is.
pub fn turn(
    time: Duration,
    usage: &TokenUsage,
    cost: Option<Dollars>,
    used: Option<u64>,
    window: Option<u64>,
) -> String {
    let seconds = time.as_secs();
    let mut line = match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f32()),
        _ => format!("{} min {:02} s", seconds / 60, seconds % 60),
    };
    if *usage != TokenUsage::default() {
        line += &format!(" · {}", spent(usage, cost));
    }
    let share = used.zip(window).and_then(|(used, window)| used.saturating_mul(100).checked_div(window));
    match share {
        Some(0) => line += " · <1% of the window",
        Some(share) => line += &format!(" · {share}% of the window"),
        None => {}
    }
    line
}

/// A number with commas between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.4 MB`
pub fn bytes(count: u64) -> String {
    match count {
        0..1000 => format!("{count} bytes"),
        1000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// The columns for bars next to `others` columns of text, at most `wanted`. On a narrow terminal it is a fifth of the width, so
/// that more of the text fits.
pub fn bar_columns(wanted: usize, others: usize) -> usize {
    narrow_bar(wanted, others, crate::output::terminal_size().0)
}

fn narrow_bar(wanted: usize, others: usize, columns: usize) -> usize {
    if wanted + others <= columns { wanted } else { wanted.min(columns / 5).max(1) }
}

/// A bar, at most `columns` wide, that shows an amount in proportion to the largest one. An amount above zero is always visible.
pub fn bar(amount: u64, largest: u64, columns: usize) -> String {
    if amount == 0 || largest == 0 {
        return String::new();
    }
    // Count in eighths of a column.
    let eighths = (amount as f64 / largest as f64 * columns as f64 * 8.0).round() as usize;
    let eighths = eighths.clamp(1, columns * 8);
    let mut bar = "\u{2588}".repeat(eighths / 8);
    if let Some(rest) = u32::try_from(eighths % 8).ok().filter(|rest| *rest > 0) {
        // The block characters shrink from U+2588, a whole column, to U+258F, an eighth.
        bar.extend(char::from_u32(0x2590 - rest));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(count(7), "7");
        assert_eq!(count(123), "123");
        assert_eq!(count(1_234), "1,234");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn bars_show_shares_and_never_vanish() {
        assert_eq!(bar(10, 10, 4), "\u{2588}\u{2588}\u{2588}\u{2588}");
        assert_eq!(bar(5, 10, 4), "\u{2588}\u{2588}");
        assert_eq!(bar(1, 10, 4), "\u{258d}");
        assert_eq!(bar(1, 1_000_000, 4), "\u{258f}");
        assert_eq!(bar(0, 10, 4), "");
    }

    #[test]
    fn bars_give_way_to_words() {
        assert_eq!(narrow_bar(24, 50, 80), 24);
        assert_eq!(narrow_bar(24, 50, 60), 12);
        assert_eq!(narrow_bar(24, 50, 40), 8);
        assert_eq!(narrow_bar(24, 50, 3), 1);
    }

    #[test]
    fn what_a_turn_took_fits_a_line() {
        let usage = TokenUsage { input: 12_000, output: 340, cached: 9_000, reasoning: 100 };
        let line = spent(&usage, Some(Dollars::new(0.0123)));
        assert_eq!(line, "12,000 tokens in (9,000 cached), 340 out (100 reasoning), $0.012");
        let usage = TokenUsage { input: 10, output: 3, ..TokenUsage::default() };
        assert_eq!(spent(&usage, Some(Dollars::default())), "10 tokens in, 3 out");
        assert_eq!(spent(&usage, None), "10 tokens in, 3 out");
        let line = turn(Duration::from_millis(3210), &usage, None, Some(13_000), Some(100_000));
        assert_eq!(line, "3.2 s · 10 tokens in, 3 out · 13% of the window");
        let line = turn(Duration::from_secs(125), &TokenUsage::default(), None, Some(1), Some(1000));
        assert_eq!(line, "2 min 05 s · <1% of the window");
        assert_eq!(turn(Duration::ZERO, &TokenUsage::default(), None, None, Some(0)), "0.0 s");
    }
}
