//! Answers as a terminal shows them, for pieces of any size.

use super::*;

/// The screen of a terminal after an answer that arrived in pieces of `piece` characters, without styles, with the text that
/// scrolled off it.
fn screen(answer: &str, columns: u16, piece: usize) -> String {
    let rows = 400;
    let of = |size: u16| std::num::NonZeroU16::new(size).unwrap();
    let mut terminal = vt100::Parser::new(of(rows), of(columns), 0);
    let mut markdown = Markdown::of_size((usize::from(columns), usize::from(rows)));
    let chars: Vec<char> = answer.chars().collect();
    let mut written = String::new();
    for piece in chars.chunks(piece) {
        written.push_str(&markdown.take(&piece.iter().collect::<String>()));
    }
    written.push_str(&markdown.finish());
    terminal.process(written.replace('\n', "\r\n").as_bytes());
    let contents = terminal.screen().contents();
    contents.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// The screen, which must be the same for every size of pieces.
fn shown(answer: &str, columns: u16) -> String {
    let whole = screen(answer, columns, usize::MAX);
    for piece in [1, 2, 3, 7, 50] {
        assert_eq!(screen(answer, columns, piece), whole, "in pieces of {piece}");
    }
    whole
}

/// A list that looks on the screen as in the source.
const LIST: &str = "1. First
2. Second:
   ```rust
   fn main() {}
   ```

   More about the second.";

fn answer() -> String {
    format!(
        "# A title

Some **bold** and *slanted* text with `code`, and a [link](https://example.org/x) in a paragraph that is long enough to wrap.

{LIST}
- a bullet
  - inside it

> A quote
> of two lines

| name | what it is |
|------|-----------|
| a | the first letter |
| 日本 | wide |

---
Done."
    )
}

#[test]
fn blocks_are_drawn() {
    assert_eq!(
        shown(&answer(), 60),
        format!(
            "A title

Some bold and slanted text with code, and a link
(https://example.org/x) in a paragraph that is long enough
to wrap.

{LIST}
• a bullet
  • inside it

│ A quote of two lines

name │ what it is
─────┼─────────────────
a    │ the first letter
日本 │ wide

───────────────────────────────────────────────────────────
Done."
        )
    );
}

#[test]
fn forty_columns_are_enough() {
    let shown = shown(&answer(), 40);
    assert!(shown.lines().all(|line| wrap::width(line) < 40), "{shown}");
    assert!(shown.contains("日本 │ wide"), "{shown}");
}

/// A model's text cannot control the terminal, even if Markdown encodes it.
#[test]
fn nothing_steers_the_terminal() {
    for hostile in [
        "a \u{1b}[2Jb \u{9b}31m \u{7} \u{202e}x",
        "a &#27;[2J &#x9b;31m &#7; b",
        "[x](http://a/&#27;[2J) `\u{1b}]0;t\u{7}`",
        "```\n\u{1b}[2J\n&#27;\n```",
        "| a\u{1b}[2J | b |\n|--|--|\n| &#27; | \u{9b} |\n\nx",
        "    \u{1b}[31m indented\n\nx",
        "![a\u{1b}[1m](x\u{7}y)",
    ] {
        for piece in [1, 4, 1000] {
            let mut markdown = Markdown::of_size((40, 24));
            let chars: Vec<char> = hostile.chars().collect();
            let mut written = String::new();
            for piece in chars.chunks(piece) {
                written.push_str(&markdown.take(&piece.iter().collect::<String>()));
            }
            written.push_str(&markdown.finish());
            let ours = written.replace("\u{1b}[J", "").replace('\r', "");
            let ours = output::guarded(&ours).replace("\\u{1b}[1A", "").replace("\\u{1b}[2A", "");
            assert!(!ours.contains("\\u{"), "{hostile:?} in pieces of {piece} writes {written:?}");
        }
    }
}

/// Every word of an answer is on the screen.
#[test]
fn no_text_is_left_out() {
    for text in [
        "[name]: https://example.org\n\nafter",
        "<div>html</div>\n\n<!-- note -->",
        "text[^1]\n\n[^1]: a footnote",
        "Title\n=====\ntext",
        "* * *",
        "- \n- x",
        "```\nunclosed",
        "~~~\ncode\n~~~",
        "a\\\nb  \nc",
        "    four spaces\n    again\n\nx",
        "1) one\n2) two",
        "> > deep\n> shallow\n\nlast",
        "| not a table\n| at all",
    ] {
        let screen = shown(text, 40);
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1) {
            assert!(screen.contains(word), "{word} of {text:?} is not in\n{screen}");
        }
    }
}

/// A paragraph that is longer than the open block continues as one paragraph.
#[test]
fn long_paragraphs_stay_one() {
    let words: Vec<String> = (0..2000).map(|number| format!("w{number}")).collect();
    let screen = shown(&words.join(" "), 50);
    assert_eq!(screen.split_whitespace().collect::<Vec<_>>(), words);
    assert!(
        screen.lines().rev().skip(1).all(|line| wrap::width(line) > 40),
        "no row is cut short:\n{screen}"
    );
}

/// On a low terminal, nothing is drawn above its top.
#[test]
fn a_low_terminal_is_never_left_at_the_top() {
    let mut markdown = Markdown::of_size((20, 6));
    let mut written = String::from("before\n");
    for word in 0..200 {
        written.push_str(&markdown.take(&format!("**w{word}** ")));
    }
    written.push_str(&markdown.finish());
    let of = |size: u16| std::num::NonZeroU16::new(size).unwrap();
    let mut terminal = vt100::Parser::new(of(6), of(20), 1000);
    terminal.process(written.replace('\n', "\r\n").as_bytes());
    let mut rows = Vec::new();
    let screen = terminal.screen_mut();
    screen.set_scrollback(usize::MAX);
    for from in (0..=screen.scrollback()).rev() {
        screen.set_scrollback(from);
        let shown: Vec<String> = screen.rows(0, 20).collect();
        rows.extend(shown.into_iter().take(if from == 0 { 6 } else { 1 }));
    }
    let words: Vec<String> = rows.join(" ").split_whitespace().map(str::to_owned).collect();
    let expected: Vec<String> =
        std::iter::once(String::from("before")).chain((0..200).map(|word| format!("w{word}"))).collect();
    assert_eq!(words, expected);
}

/// The written text and the time grow linearly with the answer.
#[test]
fn hostile_answers_take_linear_work() {
    for unit in [
        "*", "[", ">", "_", "`", "#", "|", "![", "- ", "> ", "a", "a ", "<", "&", "\\", "(", "\n> ", "\t",
        "|-|\n",
    ] {
        let written = |length: usize| {
            let mut markdown = Markdown::of_size((80, 24));
            let answer = unit.repeat(length / unit.len());
            let mut bytes = 0;
            for piece in answer.as_bytes().chunks(64) {
                bytes += markdown.take(std::str::from_utf8(piece).unwrap()).len();
            }
            bytes + markdown.finish().len()
        };
        let (small, large) = (written(10_000), written(40_000));
        assert!(large < small * 8, "{unit:?}: {small} and {large} bytes are written");
    }
}

/// After a change of size, an answer continues below the drawn part, and no word is lost or shown twice.
#[test]
fn an_answer_survives_a_new_size() {
    let mut markdown = Markdown::of_size((30, 24));
    let mut written = String::new();
    for number in 0..40 {
        if number == 20 {
            markdown.resize((60, 24));
        }
        written.push_str(&markdown.take(&format!("word{number} ")));
    }
    written.push_str(&markdown.finish());
    let of = |size: u16| std::num::NonZeroU16::new(size).unwrap();
    let mut terminal = vt100::Parser::new(of(24), of(60), 0);
    terminal.process(written.replace('\n', "\r\n").as_bytes());
    let words: Vec<String> = terminal.screen().contents().split_whitespace().map(str::to_owned).collect();
    assert_eq!(words, (0..40).map(|number| format!("word{number}")).collect::<Vec<_>>());
}
