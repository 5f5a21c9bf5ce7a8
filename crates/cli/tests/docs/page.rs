//! The commands on a page: those that are run, their output, and those that are not run.

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The line number on the page, from 1.
    pub at: usize,
    /// The command line as typed.
    pub line: String,
    /// Whether it is run, and what the page shows for it.
    pub kind: Kind,
}

/// How the test treats a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is run (`sh`).
    Run,
    /// It is run and prints this (`console`).
    Shown(String),
    /// It is not run (`sh norun`, `text`); its flags must be there.
    Named,
}

/// The commands of a page, in order.
pub fn steps(page: &str) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    let mut fence: Option<&str> = None;
    for (line, at) in page.lines().zip(1..) {
        let Some(language) = fence else {
            fence = line.strip_prefix("```");
            continue;
        };
        let mut step = |line: &str, kind| found.push(Step { at, line: line.to_owned(), kind });
        match (language, line) {
            (_, "```") => fence = None,
            ("console", _) => match line.strip_prefix("$ ") {
                Some(command) => step(command, Kind::Shown(String::new())),
                None => match found.last_mut().map(|step| &mut step.kind) {
                    Some(Kind::Shown(text)) => {
                        text.push_str(line);
                        text.push('\n');
                    }
                    _ => panic!("line {at}: a console session begins with a command"),
                },
            },
            ("sh", _) if is_command(line) => step(line, Kind::Run),
            ("sh norun" | "text", _) => {
                let line = line.strip_prefix("$ ").unwrap_or(line);
                if of_rejoin(line).is_some() {
                    step(line, Kind::Named);
                }
            }
            _ => {}
        }
    }
    assert!(fence.is_none(), "a block of code never ends");
    found
}

/// The commands that a page mentions in passing, between backquotes.
pub fn mentioned(page: &str) -> Vec<Step> {
    let mut found = Vec::new();
    let mut inside = false;
    for (line, at) in page.lines().zip(1..) {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            let commands = quoted(line).into_iter().filter(|text| text.starts_with("rejoin "));
            found.extend(commands.map(|line| Step { at, line: line.to_owned(), kind: Kind::Named }));
        }
    }
    found
}

/// Whether a line of a shell block is run: not a comment, and not what builds and installs.
fn is_command(line: &str) -> bool {
    let built = ["cargo ", "git ", "#"];
    !line.trim().is_empty() && !built.iter().any(|word| line.starts_with(word))
}

/// The part of a line that runs rejoin: it may come after a pipe or after variables.
pub fn of_rejoin(line: &str) -> Option<Vec<String>> {
    let words = words(line.split(" # ").next().unwrap_or(line));
    let commands = words.split(|word| ["|", "&", ">", "<", "&&", ";"].contains(&word.as_str()));
    commands
        .map(|words| words.iter().skip_while(|word| is_assignment(word)).cloned().collect::<Vec<_>>())
        .find(|words| words.first().is_some_and(|word| word == "rejoin") && words.len() > 1)
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'))
}

/// A line as words; quotes hold words together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    assert!(quote.is_none(), "a quote never ends: {line}");
    words.extend(word);
    words
}

/// The rows of the tables under a heading, without their head rows.
pub fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = section.split("\n#").next().unwrap_or(section);
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    let mut rows = Vec::new();
    let mut is_body = false;
    for line in section.lines() {
        if line.starts_with("|---") {
            is_body = true;
        } else if !line.starts_with('|') {
            is_body = false;
        } else if is_body {
            rows.push(cells(line));
        }
    }
    rows
}

/// The words between backquotes.
pub fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn a_page_is_read() {
    let page = "```sh\ncargo x\nrejoin a  # b\n\n```\n```console\n$ rejoin b\nc\n\n$ d\n```\n```sh norun\nK=1 rejoin e\ncurl\n```\n";
    let kinds: Vec<_> = steps(page).into_iter().map(|step| (step.line, step.kind)).collect();
    let wanted = [
        ("rejoin a  # b", Kind::Run),
        ("rejoin b", Kind::Shown(String::from("c\n\n"))),
        ("d", Kind::Shown(String::new())),
        ("K=1 rejoin e", Kind::Named),
    ];
    assert_eq!(kinds, wanted.map(|(line, kind)| (String::from(line), kind)));
    let passing: Vec<_> =
        mentioned(page).into_iter().chain(mentioned("see `rejoin f`, `g`")).map(|step| step.line).collect();
    assert_eq!(passing, ["rejoin f"]);
    let command = |line| of_rejoin(line).map(|words| words.join("+"));
    assert_eq!(command("printf 'a b' | rejoin chat - > x"), Some(String::from("rejoin+chat+-")));
    assert_eq!(command("A_KEY=\"b c\" rejoin chat \"d 'e'\" # f"), Some(String::from("rejoin+chat+d 'e'")));
    assert_eq!(command("the command rejoin chat"), None);
}
