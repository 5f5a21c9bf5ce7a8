//! Reduces HTML to readable text: no tags, scripts and styles, a line for each block, and the targets of links.
//!
//! It is not a parser: it reads the page once from left to right, accepts any input, and takes linear time.

use reqwest::Url;

/// Elements whose content is not text for readers.
const SKIPPED: &[&str] = &["script", "style", "noscript", "template", "svg", "iframe", "object", "canvas"];
/// Elements that begin and end a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "br",
    "caption",
    "center",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "legend",
    "li",
    "main",
    "menu",
    "nav",
    "ol",
    "option",
    "p",
    "pre",
    "section",
    "select",
    "summary",
    "table",
    "tbody",
    "textarea",
    "tfoot",
    "thead",
    "title",
    "tr",
    "ul",
];

/// Whether a text without a media type begins like a page.
pub(super) fn looks_like(text: &str) -> bool {
    let start = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// The text of a page at an address.
pub(super) fn to_text(html: &str, page: &Url) -> String {
    let mut out = Out::default();
    let mut links: Vec<Option<Url>> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        out.text(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let Some(tag) = Tag::read(rest) else {
            // A `<` that begins no tag is text.
            out.text("<");
            rest = &rest[1..];
            continue;
        };
        rest = &rest[tag.length..];
        let name = tag.name.to_ascii_lowercase();
        if SKIPPED.contains(&name.as_str()) && !tag.closes {
            rest = after_closing(rest, &name);
            continue;
        }
        if BLOCKS.contains(&name.as_str()) {
            out.line();
        }
        match (name.as_str(), tag.closes) {
            ("p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "table" | "pre" | "ul" | "ol" | "title", _) => {
                out.paragraph()
            }
            ("li", false) => out.raw("- "),
            ("td" | "th", true) => out.raw(" | "),
            _ => {}
        }
        match (name.as_str(), tag.closes) {
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                out.raw(&format!("{} ", "#".repeat(usize::from(name.as_bytes()[1] - b'0'))));
            }
            ("pre", closes) => out.verbatim = !closes,
            ("a", false) => links.push(tag.attribute("href").and_then(|to| target(page, &to))),
            ("a", true) => {
                if let Some(Some(to)) = links.pop() {
                    out.raw(&format!(" ({to})"));
                }
            }
            ("img", _) => {
                if let Some(said) = tag.attribute("alt").filter(|said| !said.trim().is_empty()) {
                    out.text(&format!("[image: {said}]"));
                }
            }
            _ => {}
        }
    }
    out.text(rest);
    out.finish()
}

/// The target of a link, if it is another page of the web.
fn target(page: &Url, to: &str) -> Option<Url> {
    let to = page.join(to.trim()).ok()?;
    let elsewhere = to.scheme() != page.scheme()
        || to.host() != page.host()
        || to.path() != page.path()
        || to.query() != page.query();
    (matches!(to.scheme(), "http" | "https") && elsewhere).then_some(to)
}

/// The rest after the closing tag of an element. Its content may be anything.
fn after_closing<'r>(rest: &'r str, name: &str) -> &'r str {
    let mut from = 0;
    while let Some(at) = rest[from..].find("</") {
        let start = from + at + 2;
        let is_it = rest.get(start..start + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
        if is_it {
            return rest[start..].find('>').map_or("", |end| &rest[start + end + 1..]);
        }
        from = start;
    }
    ""
}

/// A tag at the beginning of a text.
struct Tag<'t> {
    name: &'t str,
    attributes: &'t str,
    closes: bool,
    length: usize,
}

impl<'t> Tag<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let inner = text.strip_prefix('<')?;
        let closes = inner.starts_with('/');
        let begin = 1 + usize::from(closes);
        let first = text[begin..].chars().next()?;
        if !first.is_ascii_alphabetic() && first != '!' && first != '?' {
            return None;
        }
        // A `>` inside quotation marks does not end the tag.
        let mut quote = None;
        let end = text[begin..].char_indices().find(|(_, c)| match (quote, c) {
            (None, '>') => true,
            (None, '"' | '\'') => {
                quote = Some(*c);
                false
            }
            (Some(mark), c) => {
                if mark == *c {
                    quote = None;
                }
                false
            }
            _ => false,
        });
        // If no end was found, the quotation marks were plain text.
        let end =
            end.map(|(at, _)| at).or_else(|| text[begin..].find('>')).map_or(text.len(), |at| begin + at);
        let whole = &text[begin..end];
        let name_end = whole.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(whole.len());
        Some(Self {
            name: &whole[..name_end],
            attributes: &whole[name_end..],
            closes,
            length: (end + 1).min(text.len()),
        })
    }

    fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
            let end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
            if end == 0 && !rest.starts_with('=') {
                return None;
            }
            let found = &rest[..end];
            rest = rest[end..].trim_start();
            let Some(value) = rest.strip_prefix('=') else { continue };
            let value = value.trim_start();
            let (value, after) = match value.chars().next() {
                Some(mark @ ('"' | '\'')) => value[1..].split_once(mark).unwrap_or((&value[1..], "")),
                _ => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
            };
            if found.eq_ignore_ascii_case(name) {
                return Some(decoded(value));
            }
            rest = after;
        }
    }
}

/// The text while it is built.
#[derive(Default)]
struct Out {
    text: String,
    /// Whether white space came last; it becomes one space before the next word.
    space: bool,
    /// Whether white space is kept, as in `pre`.
    verbatim: bool,
}

impl Out {
    fn text(&mut self, html: &str) {
        let text = decoded(html);
        if self.verbatim {
            self.text.push_str(&text);
            return;
        }
        for (number, word) in text.split(|c: char| c.is_whitespace()).enumerate() {
            self.space |= number > 0;
            if !word.is_empty() {
                self.raw(word);
            }
        }
    }

    /// Appends text, after a space if white space came before it.
    fn raw(&mut self, text: &str) {
        if std::mem::take(&mut self.space) && !self.text.is_empty() && !self.text.ends_with(['\n', ' ']) {
            self.text.push(' ');
        }
        self.text.push_str(text);
    }

    fn line(&mut self) {
        self.space = false;
        self.text.truncate(self.text.trim_end_matches(' ').len());
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn paragraph(&mut self) {
        self.line();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn finish(self) -> String {
        // Remove the empty lines and list marks that blocks without text leave behind.
        let mut text = String::with_capacity(self.text.len());
        let mut empty = 0;
        for line in self.text.lines() {
            let line = line.trim_end();
            empty = if matches!(line, "" | "-" | "|") { empty + 1 } else { 0 };
            if empty == 0 {
                text.push_str(line);
                text.push('\n');
            } else if empty == 1 {
                text.push('\n');
            }
        }
        text.trim_matches('\n').to_owned()
    }
}

/// A text with its character references decoded. Unknown names stay unchanged.
fn decoded(html: &str) -> String {
    const NAMES: &[(&str, &str)] = &[
        ("amp", "&"),
        ("lt", "<"),
        ("gt", ">"),
        ("quot", "\""),
        ("apos", "'"),
        ("nbsp", "\u{a0}"),
        ("copy", "©"),
        ("reg", "®"),
        ("trade", "™"),
        ("hellip", "…"),
        ("mdash", "—"),
        ("ndash", "–"),
        ("lsquo", "‘"),
        ("rsquo", "’"),
        ("ldquo", "“"),
        ("rdquo", "”"),
        ("laquo", "«"),
        ("raquo", "»"),
        ("bull", "•"),
        ("middot", "·"),
        ("times", "×"),
        ("rarr", "→"),
        ("larr", "←"),
        ("euro", "€"),
        ("pound", "£"),
        ("sect", "§"),
        ("deg", "°"),
        ("auml", "ä"),
        ("ouml", "ö"),
        ("uuml", "ü"),
        ("Auml", "Ä"),
        ("Ouml", "Ö"),
        ("Uuml", "Ü"),
        ("szlig", "ß"),
        ("eacute", "é"),
        ("egrave", "è"),
        ("agrave", "à"),
        ("ccedil", "ç"),
        ("ntilde", "ñ"),
        ("shy", ""),
        ("zwnj", ""),
        ("ensp", " "),
        ("emsp", " "),
        ("thinsp", " "),
    ];
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.bytes().take(10).position(|byte| byte == b';');
        let name = end.and_then(|end| rest.get(..end));
        let found = name.and_then(|name| match name.strip_prefix('#') {
            Some(number) => {
                let code = match number.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => number.parse(),
                };
                char::from_u32(code.ok()?).filter(|c| *c != '\0').map(String::from)
            }
            None => NAMES.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned()),
        });
        match (found, end) {
            (Some(found), Some(end)) => {
                text.push_str(&found);
                rest = &rest[end + 1..];
            }
            _ => text.push('&'),
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_readable_text() {
        let page = Url::parse("https://example.com/a/b?q=1").unwrap();
        for (html, text) in [
            ("", ""),
            ("plain", "plain"),
            ("a < b && c &gt; d", "a < b && c > d"),
            ("<p>one<p>two", "one\n\ntwo"),
            ("<title>T</title><h2>Head</h2><p>some  \n <b>bold</b>text</p>", "T\n\n## Head\n\nsome boldtext"),
            ("<script>if (a<b) {}</script>x<style>p{}</style>y<!-- <p>no -->z", "xyz"),
            ("<SCRIPT>1</Script >x<script>never closed", "x"),
            ("<ul><li>one<li>two <a href='/c'>link</a></ul>", "- one\n- two link (https://example.com/c)"),
            ("<a href=\"#top\">here</a> <a href=javascript:x>js</a>", "here js"),
            ("<a title='a > b' href=\"x?y&amp;z\">t</a>", "t (https://example.com/a/x?y&z)"),
            ("<pre>a\n  b</pre>c", "a\n  b\n\nc"),
            ("<table><tr><td>1</td><td>2</td></tr></table>", "1 | 2 |"),
            ("x<br>y<br/>z<img alt='a cat' src=x>", "x\ny\nz[image: a cat]"),
            ("&#228;&#xe4;&auml;&unknown;&#0;&", "äää&unknown;&#0;&"),
            ("<div><div></div></div><div>a</div>", "a"),
            ("5 <3 and <", "5 <3 and <"),
            ("<p never ends", ""),
            ("<p x=\"never ends>text", "text"),
        ] {
            assert_eq!(to_text(html, &page), text, "{html}");
        }
    }

    /// A page full of unclosed constructs still takes only linear time.
    #[test]
    fn hostile_pages_are_read_once() {
        let page = Url::parse("https://example.com").unwrap();
        for piece in ["<", "<a", "<!--", "<script", "<script>", "&", "</", "<a href='", "<p \"", "&#"] {
            let html = piece.repeat(100_000);
            let began = std::time::Instant::now();
            to_text(&html, &page);
            assert!(began.elapsed().as_secs() < 20, "{piece}");
        }
    }
}
