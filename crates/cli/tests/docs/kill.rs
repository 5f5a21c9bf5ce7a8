//! Tests the guide on kills. A file that ends after any entry of a turn equals the result of a kill at that moment: from each of
//! them, the conversation continues as the guide says.

use std::fs;

use serde_json::Value;

use super::{
    page::{quoted, table},
    read,
    shell::ShellHome,
};

/// A moment of a turn with two tools.
struct Moment {
    /// The row of the guide.
    row: usize,
    messages: u64,
    /// Calls without a result.
    unanswered: u64,
    /// The decisions about these calls in the next request: how many may have run, and how many never began.
    decided: [u64; 2],
}

/// After each entry of the turn: the row of the guide, the messages, the calls without a result, and the decisions about them.
const MOMENTS: &str = "\
0 0 0 0 0
0 0 0 0 0
1 1 0 0 0
1 1 0 0 0
3 2 2 0 2
4 2 2 1 1
4 2 2 2 0
4 3 1 1 0
5 4 0 0 0
1 4 0 0 0
6 5 0 0 0
6 5 0 0 0";

fn moments() -> Vec<Moment> {
    let moment = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [row, messages, unanswered, ran, never_began] = numbers[..] else {
            panic!("five numbers: {line}")
        };
        Moment { row: row as usize, messages, unanswered, decided: [ran, never_began] }
    };
    MOMENTS.lines().map(moment).collect()
}

/// The guide's name for an entry.
fn name(line: &str) -> String {
    let entry: Value = serde_json::from_str(line).unwrap();
    let body = &entry["body"];
    let more = body["role"].as_str().or(body["state"].as_str());
    [entry["type"].as_str(), more].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// S2-38: from every moment of a turn, the conversation continues; completed calls never run again, and others only on request.
#[test]
fn every_moment_is_as_the_guide_says() {
    let guide = read("docs/guides/kill-and-resume.md");
    let rows = table(&guide, "## What each kill leaves");
    let cli = ShellHome::new();
    let asked = "rejoin chat --new --store jsonl:whole 'What is 6*7? Also list the files here'";
    assert_eq!(cli.run(asked).code, 0);
    let folder = fs::read_dir(cli.path().join("whole")).unwrap().map(|entry| entry.unwrap().path());
    let file = folder.into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap();
    let id = file.file_stem().unwrap().to_str().unwrap();
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let moments = moments();
    assert_eq!(lines.len(), moments.len(), "{whole}");
    for (at, moment) in moments.iter().enumerate() {
        let newest = name(lines[at]);
        let row = &rows[moment.row];
        let context = format!("after {newest} ({at}): {row:?}");
        assert!(quoted(&row[1]).contains(&newest.as_str()), "{context}");
        let cut = |name: String| {
            let folder = cli.path().join(&name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(format!("{id}.jsonl")), lines[..=at].concat()).unwrap();
            (folder, format!("jsonl:{name}"))
        };
        let (folder, store) = cut(format!("cut-{at}"));

        let stands = &objects(&cli.run(&format!("rejoin resume {id} --json --store {store}")).out)[0];
        assert_eq!(stands["state"], row[2].as_str(), "{context}");
        assert_eq!(stands["messages"], moment.messages, "{context}");
        assert_eq!(stands["unanswered_calls"], moment.unanswered, "{context}");

        let said = cli.run(&format!("rejoin resume {id} 'What did I ask before?' --json --store {store}"));
        assert_eq!(said.code, 0, "{context}: {}", said.err);
        let events = objects(&said.out);
        let closed = events.iter().find(|event| event["type"] == "closed");
        let decided =
            ["interrupted", "left_out"].map(|how| closed.map_or(0, |closed| closed[how].as_u64().unwrap()));
        assert_eq!(decided, moment.decided, "{context}");
        assert!(events.iter().all(|event| event["type"] != "call_started"), "{context}: nothing runs again");
        for command in ["check", "verify"] {
            let ran = cli.run(&format!("rejoin {command} {id} --store {store}"));
            assert_eq!(ran.code, 0, "{context}: {}", ran.out);
        }
        if moment.unanswered > 0 {
            let (_, store) = cut(format!("again-{at}"));
            let ran = cli.run(&format!("rejoin resume {id} --on-broken rerun --json --store {store}"));
            assert_eq!(ran.code, 0, "{context}: {}", ran.err);
            let events = objects(&ran.out);
            let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count() as u64;
            let counts = [of("call_started"), of("call_ended")];
            assert_eq!(counts, [moment.unanswered; 2], "{context}: what has no result runs, and only that");
            assert_eq!(events.last().unwrap()["ending"], "done", "{context}");
        }
        let kept = fs::read_to_string(folder.join(format!("{id}.jsonl"))).unwrap();
        assert!(kept.starts_with(&lines[..=at].concat()), "{context}: what was there stays");
    }
    let named: Vec<usize> = moments.iter().map(|moment| moment.row).collect();
    // A draft is not an entry of the turn; `tests/kill.rs` kills real processes while they write one.
    let is_moment = |row: usize| named.contains(&row) || rows[row][1].contains("draft");
    assert!((0..rows.len()).all(is_moment), "each row of the guide is a moment");
}
