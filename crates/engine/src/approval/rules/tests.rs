//! Tables of what rules allow and deny, and a property test: `rule_for` returns a rule that allows its call.

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

/// Whether a rule allows a call.
fn allows(rule: &str, subject: &CallSubject<'_>) -> bool {
    matches!(rules(&[rule], &[]).verdict(subject), RuleVerdict::Allow(_))
}

/// Whether a rule denies a call that another rule allows.
fn denies(rule: &str, subject: &CallSubject<'_>) -> bool {
    matches!(rules(&["*"], &[rule]).verdict(subject), RuleVerdict::Deny(_))
}

/// Checks for each rule what it matches and what it does not match.
fn check(cases: &[(&str, &[&str], &[&str])], matches: impl Fn(&str, &str) -> bool) {
    for (rule, matched, others) in cases {
        let cases = matched.iter().map(|case| (case, true)).chain(others.iter().map(|case| (case, false)));
        for (case, expected) in cases {
            assert_eq!(matches(rule, case), expected, "{rule} on {case}");
        }
    }
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
    check(
        &[
            ("run:ls*", &["ls -l"], &["lsof"]),
            ("run:ls", &[], &["ls -l"]),
            ("run:npm run test:*", &["npm run test:unit", "npm run test:unit -- -v"], &["npm run deploy"]),
            ("run:cargo * --quiet", &["cargo check --quiet"], &["cargo check -p x --quiet"]),
            ("run:cat src/*", &["cat src/a.rs"], &["cat src/../secret", "cat src/.."]),
            ("run:./scripts/*", &[], &["./scripts/../evil"]),
            ("run:cargo te*t -q", &["cargo test -q"], &[]),
            (r"run:ls \*", &["ls '*'"], &["ls *", "ls x"]),
            (r"run:git commit -m a\ b", &["git commit -m 'a b'"], &["git commit -m a b"]),
            (
                "run:RUST_BACKTRACE=1 cargo test*",
                &["RUST_BACKTRACE=1 cargo test -p x"],
                &["RUST_BACKTRACE=2 cargo test", "cargo test", "'RUST_BACKTRACE=1' cargo test"],
            ),
            ("run:A=1 *", &[], &["A=1 rm x"]),
            ("run:timeout *", &["timeout 5 cargo test"], &[]),
            ("run:*", &["uname -a"], &["timeout 5 cargo test", "make", "python3.11 x.py", "A=1 uname"]),
            (
                "run:git *",
                &["git log --oneline"],
                &["git -c alias.x=!rm x", "git --exec-path=. log", "git clone --upload-pa=x y", "git *"],
            ),
            ("run:git -c color.ui=never diff*", &["git -c color.ui=never diff"], &[]),
            ("run:find *", &["find . -name x"], &["find . -exec rm {} +", "find . *"]),
            ("run:find . -exec ls {} +", &["find . -exec ls {} +"], &[]),
            ("run:python *", &["python x.py"], &["python -c x", "python -Ic x"]),
            ("run:python -c *", &["python -c x"], &[]),
            ("run:perl *", &[], &["perl -pe x"]),
            ("run:bash *", &["bash x.sh"], &["bash -c x", "bash <<E\nrm x\nE"]),
            ("run", &["ls $(rm x)"], &[]),
            ("*", &["ls $(rm x)"], &[]),
            ("run:=ls $(x)", &["ls $(x)"], &["ls  $(x)"]),
            ("run:=ls", &[], &["ls; ls"]),
            ("fetch", &[], &["ls"]),
        ],
        |rule, line| allows(rule, &CallSubject::Command(line)),
    );
}

#[test]
fn deny_rules_find_commands_everywhere() {
    check(
        &[
            ("run:rm", &["rm x"], &[]),
            (
                "run:rm *",
                &[
                    "rm",
                    "ls; rm x",
                    "/bin/rm x",
                    "\\rm x",
                    "r\"\"m x",
                    "RM x",
                    "$'\\x72m' x",
                    "A=1 rm x",
                    "env rm x",
                    "env A=1 rm x",
                    "sudo -u me rm x",
                    "ls | xargs -0 rm",
                    "sh -c 'rm x'",
                    "sh -c \"ls; rm x\"",
                    "sudo bash -c 'ls && rm x'",
                    "sh -c \"sh -c 'rm x'\"",
                    "eval rm x",
                    "eval 'rm x'",
                    "ssh host 'rm x'",
                    "find . -exec rm {} +",
                    "ls $(rm x)",
                    "ls \"$(rm x)\"",
                    "ls `rm x`",
                    "ls `ls \\`rm x\\``",
                    "ls <(rm x)",
                    "ls ${x:-$(rm x)}",
                    "if ls; then rm x; fi",
                    "case x in x) rm x;; esac",
                    "f() { rm x; }; f",
                    "function f { rm x; }",
                    "ls &>/dev/null rm x",
                    "sh <<E\nrm x\nE",
                    "cat <<E | sh\nrm x\nE",
                    "cat <<E\n$(rm x)\nE",
                    "cat <<E\nls\nE\nrm x",
                    "sh <<<'rm x'",
                    "time rm x",
                    "! rm x",
                ],
                &["ls '", "ls rm", "echo 'rm x'", "cat <<E\nrm x\nE", "rmdir x"],
            ),
            ("run:rm*", &["rmdir x"], &[]),
            ("run:git push", &["git push --force", "git -C x push", "sudo git -c a=b push"], &["git pull"]),
            ("run:*", &["anything '"], &[]),
            ("run", &["anything"], &[]),
            ("*", &["anything"], &[]),
            ("edit_file", &[], &["anything"]),
        ],
        |rule, line| denies(rule, &CallSubject::Command(line)),
    );
    let verdict = rules(&["run"], &["run:rm *"]).verdict(&CallSubject::Command("$X x"));
    assert_eq!(verdict, RuleVerdict::Ask(AskReason::Unclear(Doubt::Variable("$X".to_owned()))));
}

#[test]
fn paths_are_normalised_before_they_are_matched() {
    check(
        &[
            (
                "edit_file:src/**",
                &[
                    "src/a.rs",
                    "src/deep/b.rs",
                    "./src//a.rs",
                    "src/a/",
                    "/work/app/src/a.rs",
                    "/work/app/../app/src/a.rs",
                ],
                &[
                    "/work/app/src/../a.rs",
                    "/work/application/src/a.rs",
                    "/src/a.rs",
                    "src/../secret",
                    "src",
                    "SRC/a.rs",
                    "../app/src/a.rs",
                ],
            ),
            (
                "edit_file:**",
                &["a/b/c"],
                &["../x", "x/../../y", "/etc/passwd", "a\0b", "a\u{202e}b", "a\\..\\b"],
            ),
            ("edit_file", &[], &["/etc/passwd"]),
            ("*", &["x"], &["../x"]),
            ("edit_file:*", &["a"], &["a/b"]),
            ("edit_file:?.rs", &["a.rs"], &[]),
            ("edit_file:a?b", &[], &["a/b"]),
            ("edit_file:*.{md,txt}", &["x.md"], &[]),
            ("edit_file:docs/*.md", &[], &["docs/old/x.md"]),
            (r"edit_file:a\*b", &["a*b"], &["axb"]),
            ("edit_file:.", &["", "x/.."], &[]),
            ("write_file:**", &[], &["a"]),
        ],
        |rule, path| allows(rule, &CallSubject::File { tool: "edit_file", path, workspace: "/work/app" }),
    );
    check(
        &[
            ("edit_file:secrets", &["Secrets/key", "src/../SECRETS"], &[]),
            ("edit_file:*.md", &[], &["a.md/b"]),
            ("edit_file:**/.env", &["/home/me/.env"], &[]),
            ("edit_file:**", &["../x"], &[]),
            ("edit_file:src/**", &[], &["secrets"]),
        ],
        |rule, path| denies(rule, &CallSubject::File { tool: "edit_file", path, workspace: "/work/app" }),
    );
}

#[test]
fn addresses_are_normalised_before_they_are_matched() {
    check(
        &[
            (
                "fetch:https://docs.rs/*",
                &["https://docs.rs/serde/latest?x=1#y", "HTTPS://DOCS.RS:443"],
                &[
                    "https://docs.rs.evil.com/",
                    "https://docs.rs@evil.com/",
                    "https://docs.rs:x@evil.com/",
                    "https://evil.com@docs.rs/",
                    "https://@docs.rs/",
                    "https://evil.com/https://docs.rs/",
                    "https://evil.com\\@docs.rs/",
                    "https://docs.rs\\.evil.com/",
                    "http://docs.rs/",
                    "https://docs.rs:8443/",
                    "https://docs.rs./",
                    "https://docs.rs\u{200b}/",
                    " https://docs.rs/",
                    "https://docs.rs/\n",
                    "https://d\u{43e}cs.rs/",
                    "//docs.rs/",
                    "file:///etc/passwd",
                ],
            ),
            (
                "fetch:https://docs.rs/a/*",
                &["https://docs.rs/b/../a/c"],
                &["https://docs.rs/a/../b", "https://docs.rs/a/%2e%2e/b", "https://docs.rs/a/..%2fb"],
            ),
            ("fetch:https://docs.rs", &["https://docs.rs/"], &["https://docs.rs/x"]),
            (
                "fetch:https://*.example.com/*",
                &["https://a.b.example.com/x"],
                &["https://example.com/x", "https://evilexample.com/x"],
            ),
            ("fetch:http://localhost:8080/*", &["http://localhost:8080/x"], &["http://localhost/x"]),
            ("fetch", &["nonsense"], &[]),
            ("run", &[], &["https://docs.rs/"]),
        ],
        |rule, url| allows(rule, &CallSubject::Url(url)),
    );
    check(
        &[
            ("fetch:https://evil.com/*", &["http://me@EVIL.com.:81/x"], &["https://notevil.com/"]),
            ("fetch:https://evil.com/admin*", &["https://evil.com/%61dmin"], &[]),
        ],
        |rule, url| denies(rule, &CallSubject::Url(url)),
    );
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
