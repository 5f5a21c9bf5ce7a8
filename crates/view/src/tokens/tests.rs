//! Known counts, the errors of estimates, and linear work.

use super::*;

/// Texts of many kinds.
#[cfg(feature = "tokenizer")]
fn samples() -> Vec<(&'static str, String)> {
    let random = |alphabet: &str, count: usize| -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            letters[(state >> 33) as usize % letters.len()]
        };
        (0..count).map(|_| next()).collect()
    };
    vec![
        ("prose", include_str!("../../../../README.md").to_owned()),
        ("code", include_str!("mod.rs").to_owned()),
        (
            "json",
            format!(
                "[{}]",
                r#"{"path":"src/main.rs","line":120,"text":"let x = 1;","is_error":false},"#.repeat(50)
            ),
        ),
        (
            "log",
            "2026-08-14T10:22:31.123456Z  INFO rejoin::turn: request 17 took 1203 ms, 48211 bytes\n"
                .repeat(50),
        ),
        ("base64", random("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 4000)),
        ("hex", random("0123456789abcdef", 4000)),
        ("letters", random("abcdefghijklmnopqrstuvwxyz", 4000)),
        (
            "chinese",
            "每个对话都逐字记录,模型看到的内容则另行计算。工具调用必须有结果,否则服务商会拒绝请求。"
                .repeat(20),
        ),
        ("japanese", "会話はすべてそのまま記録され、モデルに見せる内容は別に計算されます。".repeat(20)),
        ("korean", "모든 대화는 그대로 기록되며 모델이 보는 내용은 따로 계산됩니다. ".repeat(20)),
        (
            "russian",
            "Каждый разговор записывается дословно, а то, что видит модель, вычисляется отдельно. "
                .repeat(20),
        ),
        (
            "french",
            "Chaque conversation est enregistrée mot à mot ; ce que voit le modèle est calculé séparément. "
                .repeat(20),
        ),
        ("arabic", "تُسجَّل كل محادثة كلمة بكلمة، ويُحسب ما يراه النموذج على حدة. ".repeat(20)),
        ("hindi", "हर बातचीत शब्दशः दर्ज होती है, और मॉडल जो देखता है वह अलग से गिना जाता है। ".repeat(20)),
        ("emoji", "🙂🚀✨🔥👩‍💻".repeat(50)),
    ]
}

#[cfg(feature = "tokenizer")]
#[test]
fn estimates_are_seldom_below_the_truth_and_never_far_above_the_older_tokenizer() {
    for (name, text) in samples() {
        let estimated = TokenCounter::for_model("gpt-5").estimating().text(&text);
        let [newer, older] = ["gpt-5", "gpt-4"].map(|model| TokenCounter::for_model(model).text(&text));
        assert!(estimated * 100 >= newer * 93, "{name}: {estimated} of {newer}");
        assert!(estimated * 100 >= older * 85, "{name}: {estimated} of {older}");
        assert!(estimated * 100 <= older * 140, "{name}: {estimated} of {older}");
    }
}

#[cfg(feature = "tokenizer")]
#[test]
fn counts_of_openai_models_are_exact() {
    let count = |text: &str| ["gpt-5", "gpt-4"].map(|model| TokenCounter::for_model(model).text(text));
    assert_eq!(count(""), [0, 0]);
    assert_eq!(count("hello world"), [2, 2]);
    assert_eq!(count("The quick brown fox jumps over the lazy dog."), [10, 10]);
    assert_eq!(count("fn main() { println!(\"{}\", 1 + 2); }"), [13, 13]);
    assert_eq!(count("\u{4f60}\u{597d},\u{4e16}\u{754c}"), [3, 6]);
    assert_eq!(count("\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}, \u{43c}\u{438}\u{440}!"), [5, 7]);
    assert_eq!(count("\u{1f642}\u{1f642}"), [2, 4]);
    assert_eq!(count("<|endoftext|>"), count("<|endoftext|> ").map(|count| count - 1), "it is text here");
    assert!(count("<|endoftext|>")[0] > 1);
}

#[cfg(feature = "tokenizer")]
#[test]
fn cutting_a_text_does_not_change_its_count() {
    let vocabulary = tiktoken::get_encoding("o200k_base").unwrap();
    for (name, text) in samples() {
        let long = text.repeat(40_000 / text.len() + 1);
        let (whole, cut) = (vocabulary.count(&long) as u64, TokenCounter::for_model("gpt-5").text(&long));
        // A text without words may be cut anywhere: at most one extra token per cut, or two in scripts with multi-byte characters.
        let cuts = (long.len() / exact::PIECE * 2) as u64;
        let allowed = if matches!(name, "prose" | "code") { 0 } else { cuts };
        assert!(whole.abs_diff(cut) <= allowed, "{name}: {cut} in pieces, {whole} whole");
    }
}

/// The tokenizer only gets short pieces, and few of them, so its work grows linearly with the text.
#[cfg(feature = "tokenizer")]
#[test]
fn every_text_is_cut_into_few_short_pieces() {
    let mut texts: Vec<String> =
        ["a", " ", "\n", "\u{e9}", "\u{1f642}", "word ", "\n\n "].map(|unit| unit.repeat(300_000)).into();
    texts.extend(samples().into_iter().map(|(_, text)| text.repeat(100)));
    for text in texts {
        let pieces: Vec<&str> = exact::pieces(&text).collect();
        assert_eq!(pieces.concat(), text);
        assert!(pieces.iter().all(|piece| piece.len() <= exact::PIECE));
        assert!(pieces.len() <= text.len() / (exact::PIECE / 2) + 1, "{} of {}", pieces.len(), text.len());
    }
    assert_eq!(exact::pieces("").count(), 0);
}

#[test]
fn models_are_known_by_their_names() {
    assert_eq!(tokenizer("gpt-4-0613"), Some("cl100k_base"));
    assert_eq!(tokenizer("gpt-4o-mini"), Some("o200k_base"));
    assert_eq!(tokenizer("openai/gpt-4.1"), Some("o200k_base"));
    assert_eq!(tokenizer("ft:gpt-3.5-turbo:org::id"), Some("cl100k_base"));
    assert_eq!(tokenizer("o3-pro"), Some("o200k_base"));
    assert_eq!(tokenizer("claude-opus-4-5"), None);
    assert_eq!(tokenizer("offline"), None);
    assert!(!TokenCounter::for_model("claude-opus-4-5").is_exact());
}

#[test]
fn text_that_certainly_fits_is_estimated() {
    let counter = TokenCounter::for_model("gpt-5");
    assert!(!counter.near(999, 1_000).is_exact());
    assert_eq!(counter.near(1_000, 1_000), counter);
    assert_eq!(counter.estimating().near(u64::MAX, 0), counter.estimating());
}

#[test]
fn reported_usage_corrects_within_bounds() {
    let counter = TokenCounter::for_model("claude-opus-4-5");
    let corrected = |counted, reported| Correction::learned(&counter, counted, reported).unwrap();
    assert_eq!(corrected(1_000, 1_500).provider_tokens(300), 450);
    assert_eq!(corrected(1_000, 1_500).counted_tokens(450), 300);
    assert_eq!(corrected(1_000, 1_000_000).provider_tokens(300), 900);
    assert_eq!(corrected(1_000, 1).provider_tokens(300), 180);
    assert_eq!(Correction::default().provider_tokens(300), 300);
    assert_eq!(Correction::learned(&counter, 0, 10), None);
    assert_eq!(Correction::learned(&counter, 10, 0), None);
}

/// Exact counts need only small corrections.
#[cfg(feature = "tokenizer")]
#[test]
fn exact_counts_are_corrected_less() {
    let corrected = |counted, reported| {
        Correction::learned(&TokenCounter::for_model("gpt-5"), counted, reported).unwrap()
    };
    assert_eq!(corrected(1_000, 2_000).provider_tokens(300), 450);
    assert_eq!(corrected(1_000, 500).provider_tokens(300), 270);
}

#[test]
fn a_ledger_counts_each_entry_once() {
    let mut ledger = TokenLedger::new(TokenCounter::for_model("claude-opus-4-5"));
    let [first, second] = [1, 2].map(|seed| EntryId::from_bytes([seed; 16]));
    let (short, long) = (Message::user("Hello."), Message::user("Hello. ".repeat(100)));
    let count = ledger.message(first, &short);
    assert_eq!(count, ledger.counter().message(&short));
    assert_eq!(ledger.message(first, &long), count, "it is not counted again");
    assert!(ledger.message(second, &long) > count);
    let other = TokenCounter { factor: 2.0, ..*ledger.counter() };
    ledger.set_counter(other);
    assert_eq!(ledger.message(first, &long), other.message(&short), "another factor, the same count");
    ledger.forget(first);
    assert_eq!(ledger.message(first, &long), other.message(&long));
}

/// Arguments that are too long to send count as the note that replaces them.
#[test]
fn arguments_that_are_not_sent_take_no_tokens() {
    let arguments = format!(r#"{{"content":"{}"}}"#, "word ".repeat(crate::sound::LONGEST_ARGUMENTS / 5 + 1));
    let call = rejoin_record::ToolCall::new("a", "write_file", arguments.as_str());
    let tokens = TokenCounter::for_model("claude").message(&Message::assistant_with_tools(vec![call]));
    assert!(tokens < 100, "{tokens}");
}
