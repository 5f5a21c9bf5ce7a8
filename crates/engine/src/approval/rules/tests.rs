//! What rules allow and deny, as tables, and the law of `rule_for` as a property.

use proptest::prelude::*;

use super::{AskReason, CallSubject, Doubt, RuleProblem, RuleVerdict, Rules, rule_for, shell};

const ALLOW: &[&str] = &["run:cargo test*", "run:git status", "run:ls *"];

/// Command lines of a table: one per line, with escapes; `%%` begins a heading.
fn cases(table: &str) -> impl Iterator<Item = String> + '_ {
    table.lines().filter(|line| !line.starts_with("%%")).map(unescape)
}

fn unescape(line: &str) -> String {
    let mut text = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('0') => text.push('\0'),
            Some('\\') => text.push('\\'),
            Some('u') => {
                let code: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                text.push(char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap());
            }
            other => panic!("unknown escape {other:?} in {line}"),
        }
    }
    text
}

fn rules(allow: &[&str], deny: &[&str]) -> Rules {
    Rules::parse(allow, deny).unwrap()
}

fn is_allowed(allow: &[&str], line: &str) -> bool {
    matches!(rules(allow, &[]).verdict(&CallSubject::Command(line)), RuleVerdict::Allow(_))
}

#[test]
fn evasions_are_not_allowed() {
    let rules = rules(ALLOW, &[]);
    let mut count = 0;
    let allowed: Vec<String> = cases(include_str!("cases/evasions.txt"))
        .inspect(|_| count += 1)
        .filter(|line| !matches!(rules.verdict(&CallSubject::Command(line)), RuleVerdict::Ask(_)))
        .collect();
    assert!(allowed.is_empty(), "allowed: {allowed:#?}");
    assert!(count > 300, "{count}");
}

#[test]
fn a_wide_rule_does_not_allow_options_that_run_programs() {
    let mut count = 0;
    let wrong: Vec<String> = cases(include_str!("cases/options.txt"))
        .inspect(|_| count += 1)
        .filter(|case| {
            let (expected, case) =
                case.strip_prefix("+ ").map_or((false, case.as_str()), |case| (true, case));
            let (rule, line) = case.split_once(" => ").unwrap();
            let verdict = rules(&[rule], &[]).verdict(&CallSubject::Command(line));
            expected != matches!(verdict, RuleVerdict::Allow(_))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 80, "{count}");
}

#[test]
fn ordinary_lines_are_allowed() {
    let rules = rules(ALLOW, &[]);
    let asked: Vec<_> = cases(include_str!("cases/allowed.txt"))
        .filter_map(|line| match rules.verdict(&CallSubject::Command(&line)) {
            RuleVerdict::Allow(_) => None,
            other => Some((line, other)),
        })
        .collect();
    assert!(asked.is_empty(), "not allowed: {asked:#?}");
}

#[test]
fn patterns_of_commands_match_word_by_word() {
    for (rule, line, expected) in [
        ("run:ls*", "ls -l", true),
        ("run:ls*", "lsof", false),
        ("run:ls", "ls -l", false),
        ("run:npm run test:*", "npm run test:unit", true),
        ("run:npm run test:*", "npm run test:unit -- -v", true),
        ("run:npm run test:*", "npm run deploy", false),
        ("run:cargo * --quiet", "cargo check --quiet", true),
        ("run:cargo * --quiet", "cargo check -p x --quiet", false),
        ("run:cat src/*", "cat src/a.rs", true),
        ("run:cat src/*", "cat src/../secret", false),
        ("run:cat src/*", "cat src/..", false),
        ("run:./scripts/*", "./scripts/../evil", false),
        ("run:cargo te*t -q", "cargo test -q", true),
        (r"run:ls \*", "ls '*'", true),
        (r"run:ls \*", "ls *", false),
        (r"run:ls \*", "ls x", false),
        (r"run:git commit -m a\ b", "git commit -m 'a b'", true),
        (r"run:git commit -m a\ b", "git commit -m a b", false),
        ("run:RUST_BACKTRACE=1 cargo test*", "RUST_BACKTRACE=1 cargo test -p x", true),
        ("run:RUST_BACKTRACE=1 cargo test*", "RUST_BACKTRACE=2 cargo test", false),
        ("run:RUST_BACKTRACE=1 cargo test*", "cargo test", false),
        ("run:RUST_BACKTRACE=1 cargo test*", "'RUST_BACKTRACE=1' cargo test", false),
        ("run:A=1 *", "A=1 rm x", false),
        ("run:timeout *", "timeout 5 cargo test", true),
        ("run:*", "timeout 5 cargo test", false),
        ("run:*", "make", false),
        ("run:*", "python3.11 x.py", false),
        ("run:*", "uname -a", true),
        ("run:*", "A=1 uname", false),
        ("run:git *", "git log --oneline", true),
        ("run:git *", "git -c alias.x=!rm x", false),
        ("run:git *", "git --exec-path=. log", false),
        ("run:git *", "git clone --upload-pa=x y", false),
        ("run:git *", "git *", false),
        ("run:git -c color.ui=never diff*", "git -c color.ui=never diff", true),
        ("run:find *", "find . -name x", true),
        ("run:find *", "find . -exec rm {} +", false),
        ("run:find *", "find . *", false),
        ("run:find . -exec ls {} +", "find . -exec ls {} +", true),
        ("run:python *", "python x.py", true),
        ("run:python *", "python -c x", false),
        ("run:python *", "python -Ic x", false),
        ("run:python -c *", "python -c x", true),
        ("run:perl *", "perl -pe x", false),
        ("run:bash *", "bash x.sh", true),
        ("run:bash *", "bash -c x", false),
        ("run:bash *", "bash <<E\nrm x\nE", false),
        ("run", "ls $(rm x)", true),
        ("*", "ls $(rm x)", true),
        ("run:=ls $(x)", "ls $(x)", true),
        ("run:=ls $(x)", "ls  $(x)", false),
        ("run:=ls", "ls; ls", false),
        ("fetch", "ls", false),
    ] {
        assert_eq!(is_allowed(&[rule], line), expected, "{rule} on {line}");
    }
}

#[test]
fn deny_rules_find_commands_everywhere() {
    for (rule, line, expected) in [
        ("run:rm", "rm x", true),
        ("run:rm *", "rm", true),
        ("run:rm *", "ls; rm x", true),
        ("run:rm *", "/bin/rm x", true),
        ("run:rm *", "\\rm x", true),
        ("run:rm *", "r\"\"m x", true),
        ("run:rm *", "RM x", true),
        ("run:rm *", "$'\\x72m' x", true),
        ("run:rm *", "A=1 rm x", true),
        ("run:rm *", "env rm x", true),
        ("run:rm *", "env A=1 rm x", true),
        ("run:rm *", "sudo -u me rm x", true),
        ("run:rm *", "ls | xargs -0 rm", true),
        ("run:rm *", "sh -c 'rm x'", true),
        ("run:rm *", "sh -c \"ls; rm x\"", true),
        ("run:rm *", "sudo bash -c 'ls && rm x'", true),
        ("run:rm *", "sh -c \"sh -c 'rm x'\"", true),
        ("run:rm *", "eval rm x", true),
        ("run:rm *", "eval 'rm x'", true),
        ("run:rm *", "ssh host 'rm x'", true),
        ("run:rm *", "find . -exec rm {} +", true),
        ("run:rm *", "ls $(rm x)", true),
        ("run:rm *", "ls \"$(rm x)\"", true),
        ("run:rm *", "ls `rm x`", true),
        ("run:rm *", "ls `ls \\`rm x\\``", true),
        ("run:rm *", "ls <(rm x)", true),
        ("run:rm *", "ls ${x:-$(rm x)}", true),
        ("run:rm *", "if ls; then rm x; fi", true),
        ("run:rm *", "case x in x) rm x;; esac", true),
        ("run:rm *", "f() { rm x; }; f", true),
        ("run:rm *", "function f { rm x; }", true),
        ("run:rm *", "ls &>/dev/null rm x", true),
        ("run:rm *", "sh <<E\nrm x\nE", true),
        ("run:rm *", "cat <<E | sh\nrm x\nE", true),
        ("run:rm *", "cat <<E\n$(rm x)\nE", true),
        ("run:rm *", "cat <<E\nls\nE\nrm x", true),
        ("run:rm *", "sh <<<'rm x'", true),
        ("run:rm *", "time rm x", true),
        ("run:rm *", "! rm x", true),
        ("run:rm *", "ls '", false),
        ("run:rm *", "ls rm", false),
        ("run:rm *", "echo 'rm x'", false),
        ("run:rm *", "cat <<E\nrm x\nE", false),
        ("run:rm *", "rmdir x", false),
        ("run:rm*", "rmdir x", true),
        ("run:git push", "git push --force", true),
        ("run:git push", "git -C x push", true),
        ("run:git push", "sudo git -c a=b push", true),
        ("run:git push", "git pull", false),
        ("run:*", "anything '", true),
        ("run", "anything", true),
        ("*", "anything", true),
        ("edit_file", "anything", false),
    ] {
        let verdict = rules(&["*"], &[rule]).verdict(&CallSubject::Command(line));
        assert_eq!(matches!(verdict, RuleVerdict::Deny(_)), expected, "{rule} on {line}: {verdict:?}");
    }
    let verdict = rules(&["run"], &["run:rm *"]).verdict(&CallSubject::Command("$X x"));
    assert_eq!(verdict, RuleVerdict::Ask(AskReason::Unclear(Doubt::Variable("$X".to_owned()))));
}

#[test]
fn paths_are_normalised_before_they_are_matched() {
    for (rule, path, expected) in [
        ("edit_file:src/**", "src/a.rs", true),
        ("edit_file:src/**", "src/deep/b.rs", true),
        ("edit_file:src/**", "./src//a.rs", true),
        ("edit_file:src/**", "src/a/", true),
        ("edit_file:src/**", "/work/app/src/a.rs", true),
        ("edit_file:src/**", "/work/app/../app/src/a.rs", true),
        ("edit_file:src/**", "/work/app/src/../a.rs", false),
        ("edit_file:src/**", "/work/application/src/a.rs", false),
        ("edit_file:src/**", "/src/a.rs", false),
        ("edit_file:src/**", "src/../secret", false),
        ("edit_file:src/**", "src", false),
        ("edit_file:src/**", "SRC/a.rs", false),
        ("edit_file:src/**", "../app/src/a.rs", false),
        ("edit_file:**", "../x", false),
        ("edit_file:**", "x/../../y", false),
        ("edit_file:**", "/etc/passwd", false),
        ("edit_file:**", "a/b/c", true),
        ("edit_file:**", "a\0b", false),
        ("edit_file:**", "a\u{202e}b", false),
        ("edit_file:**", "a\\..\\b", false),
        ("edit_file", "/etc/passwd", false),
        ("*", "../x", false),
        ("*", "x", true),
        ("edit_file:*", "a", true),
        ("edit_file:*", "a/b", false),
        ("edit_file:?.rs", "a.rs", true),
        ("edit_file:a?b", "a/b", false),
        ("edit_file:*.{md,txt}", "x.md", true),
        ("edit_file:docs/*.md", "docs/old/x.md", false),
        (r"edit_file:a\*b", "a*b", true),
        (r"edit_file:a\*b", "axb", false),
        ("edit_file:.", "", true),
        ("edit_file:.", "x/..", true),
        ("write_file:**", "a", false),
    ] {
        let subject = CallSubject::File { tool: "edit_file", path, workspace: "/work/app" };
        let verdict = rules(&[rule], &[]).verdict(&subject);
        assert_eq!(matches!(verdict, RuleVerdict::Allow(_)), expected, "{rule} on {path}: {verdict:?}");
    }
    for (rule, path, expected) in [
        ("edit_file:secrets", "Secrets/key", true),
        ("edit_file:secrets", "src/../SECRETS", true),
        ("edit_file:*.md", "a.md/b", false),
        ("edit_file:**/.env", "/home/me/.env", true),
        ("edit_file:**", "../x", true),
        ("edit_file:src/**", "secrets", false),
    ] {
        let subject = CallSubject::File { tool: "edit_file", path, workspace: "/work/app" };
        let verdict = rules(&["*"], &[rule]).verdict(&subject);
        assert_eq!(matches!(verdict, RuleVerdict::Deny(_)), expected, "{rule} on {path}: {verdict:?}");
    }
}

#[test]
fn addresses_are_normalised_before_they_are_matched() {
    for (rule, url, expected) in [
        ("fetch:https://docs.rs/*", "https://docs.rs/serde/latest?x=1#y", true),
        ("fetch:https://docs.rs/*", "HTTPS://DOCS.RS:443", true),
        ("fetch:https://docs.rs/*", "https://docs.rs.evil.com/", false),
        ("fetch:https://docs.rs/*", "https://docs.rs@evil.com/", false),
        ("fetch:https://docs.rs/*", "https://docs.rs:x@evil.com/", false),
        ("fetch:https://docs.rs/*", "https://evil.com@docs.rs/", false),
        ("fetch:https://docs.rs/*", "https://@docs.rs/", false),
        ("fetch:https://docs.rs/*", "https://evil.com/https://docs.rs/", false),
        ("fetch:https://docs.rs/*", "https://evil.com\\@docs.rs/", false),
        ("fetch:https://docs.rs/*", "https://docs.rs\\.evil.com/", false),
        ("fetch:https://docs.rs/*", "http://docs.rs/", false),
        ("fetch:https://docs.rs/*", "https://docs.rs:8443/", false),
        ("fetch:https://docs.rs/*", "https://docs.rs./", false),
        ("fetch:https://docs.rs/*", "https://docs.rs\u{200b}/", false),
        ("fetch:https://docs.rs/*", " https://docs.rs/", false),
        ("fetch:https://docs.rs/*", "https://docs.rs/\n", false),
        ("fetch:https://docs.rs/*", "https://d\u{43e}cs.rs/", false),
        ("fetch:https://docs.rs/*", "//docs.rs/", false),
        ("fetch:https://docs.rs/*", "file:///etc/passwd", false),
        ("fetch:https://docs.rs/a/*", "https://docs.rs/a/../b", false),
        ("fetch:https://docs.rs/a/*", "https://docs.rs/a/%2e%2e/b", false),
        ("fetch:https://docs.rs/a/*", "https://docs.rs/a/..%2fb", false),
        ("fetch:https://docs.rs/a/*", "https://docs.rs/b/../a/c", true),
        ("fetch:https://docs.rs", "https://docs.rs/", true),
        ("fetch:https://docs.rs", "https://docs.rs/x", false),
        ("fetch:https://*.example.com/*", "https://a.b.example.com/x", true),
        ("fetch:https://*.example.com/*", "https://example.com/x", false),
        ("fetch:https://*.example.com/*", "https://evilexample.com/x", false),
        ("fetch:http://localhost:8080/*", "http://localhost:8080/x", true),
        ("fetch:http://localhost:8080/*", "http://localhost/x", false),
        ("fetch", "nonsense", true),
        ("run", "https://docs.rs/", false),
    ] {
        let verdict = rules(&[rule], &[]).verdict(&CallSubject::Url(url));
        assert_eq!(matches!(verdict, RuleVerdict::Allow(_)), expected, "{rule} on {url}: {verdict:?}");
    }
    for (rule, url, expected) in [
        ("fetch:https://evil.com/*", "http://me@EVIL.com.:81/x", true),
        ("fetch:https://evil.com/admin*", "https://evil.com/%61dmin", true),
        ("fetch:https://evil.com/*", "https://notevil.com/", false),
    ] {
        let verdict = rules(&["*"], &[rule]).verdict(&CallSubject::Url(url));
        assert_eq!(matches!(verdict, RuleVerdict::Deny(_)), expected, "{rule} on {url}: {verdict:?}");
    }
}

#[test]
fn other_tools_match_by_name() {
    let rules = rules(&["calculate", "mcp.docs/search"], &["search"]);
    let verdict = |tool| rules.verdict(&CallSubject::Other { tool });
    assert_eq!(verdict("calculate"), RuleVerdict::Allow(vec!["calculate".to_owned()]));
    assert_eq!(verdict("mcp.docs/search"), RuleVerdict::Allow(vec!["mcp.docs/search".to_owned()]));
    assert_eq!(verdict("search"), RuleVerdict::Deny("search".to_owned()));
    assert_eq!(verdict("Calculate"), RuleVerdict::Ask(AskReason::NoRule("Calculate".to_owned())));
}

#[test]
fn invalid_rules_say_what_would_be_right() {
    let problem = |rule: &str| Rules::parse(&[rule], &[]).unwrap_err().problem;
    for (rule, expected) in [
        ("", RuleProblem::Empty),
        (" ", RuleProblem::Empty),
        (":x", RuleProblem::NoTool),
        ("run:", RuleProblem::NoPattern("run".to_owned())),
        ("cargo test", RuleProblem::ToolName("cargo test".to_owned())),
        ("edit_*", RuleProblem::ToolName("edit_*".to_owned())),
        ("*:x", RuleProblem::PatternForEveryTool("x".to_owned())),
        ("run: ls", RuleProblem::Spaces),
        ("run:ls ", RuleProblem::Spaces),
        ("run:ls  x", RuleProblem::Spaces),
        ("run:echo \"x\"", RuleProblem::Quotes),
        ("run:ls; rm", RuleProblem::ShellSyntax(';')),
        ("run:ls > x", RuleProblem::ShellSyntax('>')),
        ("run:ls $HOME", RuleProblem::ShellSyntax('$')),
        ("run:ls \\", RuleProblem::Escape),
        ("run:ls \\n", RuleProblem::Escape),
        ("run:ls \u{200b}", RuleProblem::Character('\u{200b}')),
        ("edit_file:/etc/**", RuleProblem::Path),
        ("edit_file:../x", RuleProblem::Path),
        ("edit_file:./x", RuleProblem::Path),
        ("edit_file:~/x", RuleProblem::Path),
        ("edit_file:src/", RuleProblem::Folder("src/".to_owned())),
        ("edit_file:[ab]", RuleProblem::CharacterClass),
        ("fetch:docs.rs", RuleProblem::Url("docs.rs".to_owned())),
        ("fetch:ftp://x/", RuleProblem::Scheme),
        ("fetch:https://docs.rs*", RuleProblem::Host),
        ("fetch:https://a.*.com/", RuleProblem::Host),
        ("fetch:https://me@docs.rs/", RuleProblem::UrlPart),
    ] {
        assert_eq!(problem(rule), expected, "{rule}");
    }
    assert!(matches!(problem("edit_file:{a"), RuleProblem::Glob(_)));
    assert_eq!(problem(&"x".repeat(super::MAX_RULE_LENGTH + 1)), RuleProblem::TooLong);
    let error = Rules::parse(&["run"], &["fetch:docs.rs"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the rule `fetch:docs.rs` is not valid: `docs.rs` is not an address; write for example `https://docs.rs/*`"
    );
}

#[test]
fn reasons_are_plain_sentences() {
    let rules = rules(ALLOW, &[]);
    for (line, expected) in [
        ("cargo test && rm -rf build", "no rule allows `rm -rf build`"),
        ("ls $(date)", "the command cannot be fully understood: it contains `$(…)`"),
        ("env ls", "`env` can run other programs or change later commands, and no rule names it"),
        ("cargo test --config x", "`cargo test --config x` contains `--config`, and no rule names that"),
        ("ls > out", "the command cannot be fully understood: it reads or writes `out` through `<` or `>`"),
    ] {
        let RuleVerdict::Ask(reason) = rules.verdict(&CallSubject::Command(line)) else { panic!("{line}") };
        assert_eq!(reason.to_string(), expected);
    }
}

#[test]
fn long_and_deep_lines_are_asked_about_quickly() {
    let long = format!("ls {}", "a".repeat(shell::MAX_LENGTH));
    let fits = format!("ls {}", "a".repeat(1000));
    assert!(!is_allowed(ALLOW, &long));
    assert!(is_allowed(ALLOW, &fits));
    for open in ["(", "$(", "{ ", "if ", "\"$(", "${a:-", "`", "<(", "\"${a\"", "sh -c '", "$((", "while "] {
        let line = format!("ls; {}", open.repeat(5000 / open.len()));
        let verdict = rules(ALLOW, &["run:rm *"]).verdict(&CallSubject::Command(&line));
        assert!(matches!(verdict, RuleVerdict::Ask(_)), "{open}");
    }
    let nested = |depth: usize| format!("{}ls{}", "( ".repeat(depth), " )".repeat(depth));
    assert!(is_allowed(ALLOW, &nested(shell::MAX_DEPTH)));
    assert!(!is_allowed(ALLOW, &nested(shell::MAX_DEPTH + 1)));
}

#[test]
fn calls_that_no_rule_can_allow_get_none() {
    let file = |path| CallSubject::File { tool: "edit_file", path, workspace: "/work/app" };
    assert_eq!(rule_for(&file("../x")), None);
    assert_eq!(rule_for(&file("a\\b")), None);
    assert_eq!(rule_for(&CallSubject::Url("https://me@docs.rs/")), None);
    assert_eq!(rule_for(&CallSubject::Other { tool: "a b" }), None);
}

fn lines() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "ls", "rm", " ", " ", "*", "\\", "'", "\"", ";", "=", "$(x)", "a", "\n", ">", "?", "[", "{", ":",
        "é", "test",
    ]);
    prop_oneof![prop::collection::vec(fragment, 0..8).prop_map(|parts| parts.concat()), any::<String>()]
}

fn paths() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "a", "b", "/", "..", ".", "*", "**", "?", "{", "}", ",", "[", "]", "=", "!", "A", " ", "-",
    ]);
    prop::collection::vec(fragment, 1..8).prop_map(|parts| parts.concat())
}

fn urls() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec!["a", "/", "..", "*", "?", "%2f", "%2A", "=", "&", "B", "'"]);
    let host = prop::sample::select(vec!["docs.rs", "DOCS.rs", "docs.rs:443", "docs.rs:1", "x.docs.rs"]);
    (host, prop::collection::vec(fragment, 0..8))
        .prop_map(|(host, path)| format!("https://{host}/{}", path.concat()))
}

fn allows(rule: &str, subject: &CallSubject<'_>) -> bool {
    matches!(rules(&[rule], &[]).verdict(subject), RuleVerdict::Allow(_))
}

proptest! {
    #[test]
    fn a_rule_for_a_command_allows_exactly_that_line(line in lines(), other in lines()) {
        let rule = rule_for(&CallSubject::Command(&line)).unwrap();
        prop_assert!(allows(&rule, &CallSubject::Command(&line)));
        prop_assert_eq!(allows(&rule, &CallSubject::Command(&other)), line == other);
    }

    #[test]
    fn a_rule_for_a_file_allows_exactly_that_file(path in paths(), other in paths()) {
        let subject = |path| CallSubject::File { tool: "edit_file", path, workspace: "/w" };
        let same = super::path::locate(&path, "/w") == super::path::locate(&other, "/w");
        match rule_for(&subject(&path)) {
            Some(rule) => {
                prop_assert!(allows(&rule, &subject(&path)), "{}", rule);
                prop_assert_eq!(allows(&rule, &subject(&other)), same, "{}", rule);
                let tool = CallSubject::File { tool: "write_file", path: &path, workspace: "/w" };
                prop_assert!(!allows(&rule, &tool));
            }
            None => prop_assert!(matches!(super::path::locate(&path, "/w"), super::path::Location::Outside(_))),
        }
    }

    #[test]
    fn a_rule_for_an_address_allows_exactly_that_address(url in urls(), other in urls()) {
        let normal = |url: &str| super::Address::parse(url).unwrap().text().to_owned();
        let rule = rule_for(&CallSubject::Url(&url)).unwrap();
        prop_assert!(allows(&rule, &CallSubject::Url(&url)));
        prop_assert_eq!(allows(&rule, &CallSubject::Url(&other)), normal(&url) == normal(&other), "{}", rule);
    }

    #[test]
    fn any_text_gets_a_verdict(line in any::<String>(), rule in any::<String>()) {
        let deny = rules(&["run:ls *"], &["run:rm *", "run:a b*"]);
        deny.verdict(&CallSubject::Command(&line));
        deny.verdict(&CallSubject::Url(&line));
        deny.verdict(&CallSubject::File { tool: "x", path: &line, workspace: "/w" });
        for tool in ["", "run:", "fetch:https://", "edit_file:"] {
            let _ = Rules::parse(&[format!("{tool}{rule}")], &[]);
        }
    }
}
