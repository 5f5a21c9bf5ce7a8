//! The fixtures: refused or accepted as `verdicts.tsv` says, and accepted everywhere after repair.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{fs, path::Path};

use rejoin_formats::{Dialect, Input, convert, sessions};
use rejoin_view::OnBroken;

/// Fixture, dialect, body, verdict.
fn fixtures() -> Vec<(String, Dialect, Vec<u8>, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../checkers/fixtures");
    let verdicts = fs::read_to_string(folder.join("verdicts.tsv")).unwrap();
    let known = |line: &&str| line.split('\t').nth(1).is_some_and(|name| name.parse::<Dialect>().is_ok());
    let rows = verdicts.lines().skip(1).filter(known).map(|line| {
        let mut columns = line.split('\t');
        let (name, dialect, verdict) =
            (columns.next().unwrap(), columns.next().unwrap(), columns.next().unwrap());
        let body = fs::read(folder.join(dialect).join(format!("{name}.json"))).unwrap();
        (name.to_owned(), dialect.parse().unwrap(), body, verdict.to_owned())
    });
    rows.collect()
}

#[test]
fn the_checkers_agree_with_the_table() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 46, "{} fixtures", fixtures.len());
    for (name, dialect, body, verdict) in fixtures {
        let violations = testkit::refusals(dialect, &body);
        if verdict == "ok" {
            assert_eq!(violations, [], "{name} {dialect}");
        } else {
            assert!(
                violations.iter().any(|violation| violation.rule == verdict),
                "{name} {dialect} {verdict}: {violations:?}"
            );
        }
    }
}

/// S2-05: after repair, no checker finds anything, whatever was wrong before; least of all a call without a result.
#[test]
fn after_repair_every_dialect_accepts_them() {
    for (name, dialect, body, _) in fixtures() {
        let input = Input::new(name.as_str(), &body).unwrap();
        let session = sessions::read(&input, sessions::registry::named(dialect.name())).unwrap().remove(0);
        // A body of a dialect that is only written is read as another one, and keeps the settings that are foreign there.
        let foreign = sessions::named(dialect.name()).is_none();
        for to in Dialect::all().filter(|to| !foreign || session.context.dialect != Some(*to)) {
            for policy in [OnBroken::Keep, OnBroken::Drop] {
                let out = convert(&session, to, None, policy).unwrap();
                assert_eq!(
                    testkit::refusals(to, out.body.as_bytes()),
                    [],
                    "{name} {dialect} → {to} {policy:?}"
                );
            }
        }
    }
}

/// What is accepted as it stands comes back as it was, if the pairing law holds: some APIs ask for less.
#[test]
fn what_is_accepted_is_left_alone() {
    for (name, dialect, body, verdict) in fixtures() {
        // Some dialects are only written.
        if verdict != "ok" || sessions::named(dialect.name()).is_none() {
            continue;
        }
        let input = Input::new(name.as_str(), &body).unwrap();
        let session = sessions::read(&input, sessions::registry::named(dialect.name())).unwrap().remove(0);
        if !rejoin_view::repair(&session.history(), rejoin_view::OnBroken::Keep).findings.is_empty() {
            continue;
        }
        if session
            .messages
            .iter()
            .flat_map(|message| message.tool_calls())
            .any(|call| call.arguments.class() != rejoin_record::ArgumentsClass::Object)
        {
            continue;
        }
        let out = convert(&session, dialect, None, OnBroken::Keep).unwrap();
        let parse = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        assert_eq!(parse(out.body.as_bytes()), parse(&body), "{name} {dialect}");
        assert!(out.findings.is_empty(), "{name} {dialect}: {:?}", out.findings);
    }
}
