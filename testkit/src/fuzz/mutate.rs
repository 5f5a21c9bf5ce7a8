//! Makes new inputs from old ones: bytes, lines, tokens and JSON values are flipped, cut, swapped, repeated and mixed.
//!
//! It does not parse: an input may be anything, and its JSON is found by brackets and quotes.

use std::ops::Range;

use super::random::Random;

/// No input grows beyond this. Size is the driver's concern: it stretches inputs to see how time grows.
pub const MOST_BYTES: usize = 12 * 1024;

/// The material for new inputs.
pub struct Material<'m> {
    /// Other inputs.
    pub pool: &'m [Vec<u8>],
    /// Words that mean something to a reader.
    pub words: &'m [Vec<u8>],
}

type Change = fn(&mut Random, &mut Vec<u8>, &Material<'_>);

/// The mutations of an input. Those that change values are listed twice, because they reach furthest.
const CHANGES: &[Change] = &[
    flip,
    set_bytes,
    insert_bytes,
    cut,
    copy_within,
    repeat,
    splice,
    insert_other,
    truncate,
    line_twice,
    line_gone,
    lines_swapped,
    line_torn,
    lines_glued,
    line_broken,
    line_of_other,
    word_in,
    word_as_value,
    number,
    number,
    values_swapped,
    values_swapped,
    value_replaced,
    value_replaced,
    value_of_other,
    value_of_other,
    value_twice,
    value_twice,
    value_gone,
    value_gone,
    string_shared,
    string_shared,
    nested,
    string_spoiled,
    dressed,
];

/// Makes a new input of a base.
#[must_use]
pub fn mutate(random: &mut Random, base: &[u8], material: &Material<'_>) -> Vec<u8> {
    let mut input = base.to_vec();
    loop {
        let change = *random.pick(CHANGES);
        change(random, &mut input, material);
        if random.once_in(2) {
            break;
        }
    }
    input.truncate(MOST_BYTES);
    input
}

/// The ranges of the JSON values of a text, or of what looks like them: strings, words and numbers, arrays and objects.
#[must_use]
pub fn values(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut open) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at += 1;
        match bytes[start] {
            b'"' => {
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                found.push(start..at);
            }
            b'[' | b'{' => open.push(start),
            b']' | b'}' => found.extend(open.pop().map(|start| start..at)),
            byte if byte.is_ascii_alphanumeric() || byte == b'-' => {
                let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
                at += bytes[at..].iter().take_while(|byte| in_word(byte)).count();
                found.push(start..at);
            }
            _ => {}
        }
    }
    found
}

/// Repeats a line or a value of an input until it is that long: an input whose size alone is new.
#[must_use]
pub fn stretched(random: &mut Random, base: &[u8], length: usize) -> Vec<u8> {
    let lines = lines(base);
    let values: Vec<_> = values(base).into_iter().filter(|range| range.len() < 2_000).collect();
    let (range, between): (_, &[u8]) = if !values.is_empty() && (lines.len() < 2 || random.once_in(2)) {
        (random.pick(&values).clone(), b",")
    } else if lines.len() > 1 {
        (random.pick(&lines).clone(), b"")
    } else {
        (random.stretch(base.len(), 64), b"")
    };
    let piece = [&base[range.clone()], between].concat();
    if piece.is_empty() {
        return Vec::new();
    }
    let times = (length.saturating_sub(base.len()) / piece.len()).max(1);
    [&base[..range.start], &piece.repeat(times), &base[range.start..]].concat()
}

/// The lines of an input, line breaks included.
fn lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    let ends = |line: &[u8]| {
        let range = start..start + line.len();
        start = range.end;
        range
    };
    bytes.split_inclusive(|byte| *byte == b'\n').map(ends).collect()
}

fn replace(input: &mut Vec<u8>, range: Range<usize>, with: impl AsRef<[u8]>) {
    input.splice(range, with.as_ref().iter().copied());
}

fn other<'m>(random: &mut Random, material: &Material<'m>) -> &'m [u8] {
    if material.pool.is_empty() { &[] } else { random.pick(material.pool).as_slice() }
}

/// A value, if the input has one.
fn value(random: &mut Random, input: &[u8]) -> Option<Range<usize>> {
    let found = values(input);
    (!found.is_empty()).then(|| random.pick(&found).clone())
}

#[expect(clippy::ptr_arg, reason = "a change like any other")]
fn flip(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let at = random.below(input.len());
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

#[expect(clippy::ptr_arg, reason = "a change like any other")]
fn set_bytes(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    for at in random.stretch(input.len(), 4) {
        input[at] =
            *random.pick(b"\0\t\n\r \"\\{}[],:0-9eu\x7f\x80\xc3\xed\xff") ^ u8::from(random.once_in(16));
    }
}

fn insert_bytes(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let at = random.below(input.len() + 1);
    let bytes: Vec<u8> = (0..=random.below(4)).map(|_| random.bits() as u8).collect();
    replace(input, at..at, bytes);
}

fn cut(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let range = random.stretch(input.len(), 256);
    replace(input, range, []);
}

fn copy_within(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let range = random.stretch(input.len(), 512);
    let at = random.below(input.len() + 1);
    let piece = input[range].to_vec();
    replace(input, at..at, piece);
}

fn repeat(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let range = random.stretch(input.len(), 128);
    let piece = input[range.clone()].repeat(1 + random.below(20));
    replace(input, range, piece);
}

fn splice(random: &mut Random, input: &mut Vec<u8>, material: &Material<'_>) {
    let other = other(random, material);
    input.truncate(random.below(input.len() + 1));
    input.extend_from_slice(&other[random.below(other.len() + 1)..]);
}

fn insert_other(random: &mut Random, input: &mut Vec<u8>, material: &Material<'_>) {
    let other = other(random, material);
    let piece = &other[random.stretch(other.len(), 512)];
    let at = random.below(input.len() + 1);
    replace(input, at..at, piece);
}

fn truncate(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    // Mostly near the end: that is where a write is torn.
    let most = if random.once_in(2) { input.len() } else { input.len().min(64) };
    input.truncate(input.len() - random.below(most + 1));
}

fn line_twice(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let lines = lines(input);
    if !lines.is_empty() {
        let (line, at) = (random.pick(&lines).clone(), random.pick(&lines).start);
        let line = input[line].to_vec();
        replace(input, at..at, line);
    }
}

fn line_gone(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let lines = lines(input);
    if lines.len() > 1 {
        replace(input, random.pick(&lines).clone(), []);
    }
}

fn lines_swapped(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let lines = lines(input);
    if lines.len() > 1 {
        let (a, b) = (random.pick(&lines).clone(), random.pick(&lines).clone());
        swap(input, a, b);
    }
}

fn line_torn(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let lines = lines(input);
    if !lines.is_empty() {
        let line = random.pick(&lines).clone();
        let from = line.start + random.below(line.len());
        // Its end is lost, with or without the line break.
        let to = line.end - usize::from(random.once_in(2) && input[line.end - 1] == b'\n');
        replace(input, from.min(to)..to, []);
    }
}

fn lines_glued(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let breaks: Vec<usize> = (0..input.len()).filter(|at| input[*at] == b'\n').collect();
    if !breaks.is_empty() {
        let at = *random.pick(&breaks);
        replace(input, at..at + 1, []);
    }
}

fn line_broken(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let at = random.below(input.len() + 1);
    let how: &[u8] = random.pick::<&[u8]>(&[b"\n", b"\r\n", b"\n\n", b"\r", b"\xe2\x80\xa8"]);
    replace(input, at..at, how);
}

fn line_of_other(random: &mut Random, input: &mut Vec<u8>, material: &Material<'_>) {
    let other = other(random, material);
    let (own, theirs) = (lines(input), lines(other));
    if !theirs.is_empty() && !own.is_empty() {
        let at = random.pick(&own).start;
        let line = &other[random.pick(&theirs).clone()];
        replace(input, at..at, line);
    }
}

fn word_in(random: &mut Random, input: &mut Vec<u8>, material: &Material<'_>) {
    if !material.words.is_empty() {
        let at = random.below(input.len() + 1);
        replace(input, at..at, random.pick(material.words));
    }
}

fn word_as_value(random: &mut Random, input: &mut Vec<u8>, material: &Material<'_>) {
    if let Some(range) = value(random, input).filter(|_| !material.words.is_empty()) {
        replace(input, range, random.pick(material.words));
    }
}

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "00",
    "1.",
    ".5",
    "1e5",
    "1E+400",
    "-1e-400",
    "0.1",
    "1e",
    "NaN",
    "-Infinity",
    "255",
    "4294967296",
    "9007199254740993",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "1700000000",
    "1700000000000",
    "99999999999999999999999999999999999999999999",
];

fn number(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let numbers: Vec<_> =
        values(input).into_iter().filter(|range| input[range.start].is_ascii_digit()).collect();
    if !numbers.is_empty() {
        replace(input, random.pick(&numbers).clone(), random.pick(NUMBERS));
    }
}

fn values_swapped(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    if let (Some(a), Some(b)) = (value(random, input), value(random, input)) {
        swap(input, a, b);
    }
}

fn value_replaced(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    if let Some(range) = value(random, input) {
        let with =
            ["null", "\"\"", "[]", "{}", "true", "0", "\" \"", "[null]", "[[]]", "{\"type\":\"text\"}", "7"];
        replace(input, range, random.pick(&with));
    }
}

fn value_of_other(random: &mut Random, input: &mut Vec<u8>, material: &Material<'_>) {
    let other = other(random, material);
    if let (Some(range), Some(theirs)) = (value(random, input), value(random, other)) {
        replace(input, range, &other[theirs]);
    }
}

fn value_twice(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    if let Some(range) = value(random, input) {
        let again = [b",", &input[range.clone()]].concat();
        replace(input, range.end..range.end, again);
    }
}

fn value_gone(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    if let Some(range) = value(random, input) {
        replace(input, with_comma(input, range), []);
    }
}

/// A value together with the comma that parts it from its neighbour.
#[must_use]
pub fn with_comma(input: &[u8], range: Range<usize>) -> Range<usize> {
    let after = input[range.end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if input.get(range.end + after) == Some(&b',') {
        return range.start..range.end + after + 1;
    }
    let before = input[..range.start].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    match range.start.checked_sub(before + 1) {
        Some(comma) if input[comma] == b',' => comma..range.end,
        _ => range,
    }
}

/// One string takes the place of another: ids, names and roles meet that did not.
fn string_shared(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    let short = |range: &Range<usize>| range.len() < 80;
    let strings: Vec<_> =
        values(input).into_iter().filter(|range| input[range.start] == b'"').filter(short).collect();
    if !strings.is_empty() {
        let from = input[random.pick(&strings).clone()].to_vec();
        replace(input, random.pick(&strings).clone(), from);
    }
}

fn nested(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    if let Some(range) = value(random, input) {
        let depth = *random.pick(&[1, 2, 5, 126, 128, 129, 1_000]);
        let (open, close) = *random.pick(&[("[", "]"), ("{\"a\":", "}"), ("[{\"content\":", "}]")]);
        // Now and then it stays open.
        let close = if random.once_in(8) { String::new() } else { close.repeat(depth) };
        replace(input, range.end..range.end, close);
        replace(input, range.start..range.start, open.repeat(depth));
    }
}

/// Puts into a string what no string should hold.
fn string_spoiled(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    const SPOILS: &[&[u8]] = &[
        b"\\ud83d",
        b"\\ude00",
        b"\\ud83d\\ude00",
        b"\\u0000",
        b"\\u001f",
        b"\\x",
        b"\\",
        b"\x01",
        b"\xff",
        b"\xed\xa0\xbd",
        b"\\\"",
        b"\\n",
        b" ",
        b"\\u00a0",
        b"\xc2\xa0",
        b"\\u2028",
        b"\xef\xbb\xbf",
        b"{\\\"a\\\":1}",
        b"\n",
        b"\\/",
    ];
    let strings: Vec<_> = values(input).into_iter().filter(|range| input[range.start] == b'"').collect();
    if !strings.is_empty() {
        let range = random.pick(&strings).clone();
        let at = (range.start + 1 + random.below(range.len().saturating_sub(1))).min(input.len());
        replace(input, at..at, random.pick(SPOILS));
    }
}

/// The whole input in another dress: a byte-order mark, UTF-16, other line breaks.
fn dressed(random: &mut Random, input: &mut Vec<u8>, _: &Material<'_>) {
    match random.below(8) {
        0 => replace(input, 0..0, b"\xef\xbb\xbf"),
        1 => {
            let text = String::from_utf8_lossy(input).into_owned();
            let units = text.encode_utf16().flat_map(u16::to_le_bytes);
            *input = [0xff, 0xfe].into_iter().chain(units).collect();
        }
        2 => *input = String::from_utf8_lossy(input).replace('\n', "\r\n").into_bytes(),
        3 => input.push(b'\n'),
        4 => input.extend_from_slice(b"\0\0\0\0"),
        5 => *input = [b"[", &input[..], b"]"].concat(),
        6 => replace(input, 0..0, b" \n"),
        _ => input.retain(|byte| *byte != b'\n'),
    }
}

/// Swaps two stretches; if they overlap, one replaces the other.
fn swap(input: &mut Vec<u8>, a: Range<usize>, b: Range<usize>) {
    let (first, second) = if a.start <= b.start { (a, b) } else { (b, a) };
    let (one, two) = (input[first.clone()].to_vec(), input[second.clone()].to_vec());
    if first.end > second.start {
        replace(input, first, two);
        return;
    }
    replace(input, second, one);
    replace(input, first, two);
}
