//! Packed files: whole, cut off, damaged, and bombs.

use std::io::{Cursor, Write as _};

use rejoin_view::{Finding, Rule, Severity};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::*;

/// A file of `turns` lines, each with one message of words that do not repeat.
fn lines(turns: usize) -> String {
    let mut state = 7u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:08x}", state >> 32)
    };
    let line = |turn: usize| {
        let words: Vec<String> = (0..200).map(|_| word()).collect();
        format!("{{\"role\":\"user\",\"content\":\"turn {turn} {}\"}}\n", words.join(" "))
    };
    (0..turns).map(line).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

fn zip(method: CompressionMethod, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Reads bytes as a file and as a stream, which must give the same.
fn read_bytes(bytes: &[u8]) -> Result<Vec<Session>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed");
    fs::write(&path, bytes).unwrap();
    let options = SourceOptions::default();
    let sessions = |opened: Result<OpenedSource, Unread>| {
        opened.and_then(|opened| Ok(opened.sessions?)).map_err(|why| why.to_string())
    };
    let of_file = sessions(read(&path, &options));
    let of_stream = sessions(read_stream("-", Box::new(Cursor::new(bytes.to_vec())), &options));
    let outline = |read: &Result<Vec<Session>, String>| {
        read.clone().map(|sessions| {
            let outline = |session: &Session| (session.messages.len(), session.findings.clone());
            sessions.iter().map(outline).collect::<Vec<_>>()
        })
    };
    assert_eq!(outline(&of_file), outline(&of_stream));
    of_file
}

/// The rule, the line and the message of the finding about a packed file.
fn damage(session: &Session) -> (Rule, Option<usize>, String) {
    let is_packed = |finding: &&Finding| {
        let detail = finding.detail.as_ref().map(|detail| detail.to_string()).unwrap_or_default();
        detail.contains("packed file") || detail.contains("archive")
    };
    let finding = session.findings.iter().find(is_packed).expect("a finding about the packed file");
    assert!(finding.severity >= Severity::Warning);
    (finding.rule, finding.at.line, finding.detail.as_ref().unwrap().to_string())
}

#[test]
fn a_packed_file_that_is_cut_off_gives_what_is_complete() {
    let text = lines(400);
    for packed in [gzip(text.as_bytes()), zstd::encode_all(text.as_bytes(), 3).unwrap()] {
        let sessions = read_bytes(&packed[..packed.len() * 3 / 4]).unwrap();
        let count = sessions[0].messages.len();
        assert!((200..400).contains(&count), "{count} messages");
        let (rule, line, why) = damage(&sessions[0]);
        assert_eq!((rule, line), (Rule::TornTail, Some(count + 1)), "{why}");
        assert!(why.contains("the packed file is cut off after"), "{why}");
        // If only its check sums are cut off, the content is complete.
        let sessions = read_bytes(&packed[..packed.len() - 2]).unwrap();
        assert!(sessions[0].messages.len() >= 300, "{}", sessions[0].messages.len());
        assert_eq!(damage(&sessions[0]).0, Rule::TornTail);
        // If it is cut off before anything is complete, there is no conversation.
        let why = read_bytes(&packed[..12]).unwrap_err();
        assert!(why.contains("it is cut off before anything in it is complete"), "{why}");
        assert!(read_bytes(&packed).unwrap()[0].findings.is_empty());
    }
}

#[test]
fn a_packed_file_that_is_damaged_gives_what_comes_before() {
    let text = lines(400);
    for mut packed in [gzip(text.as_bytes()), zstd::encode_all(text.as_bytes(), 3).unwrap()] {
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0xff);
        let sessions = read_bytes(&packed).unwrap();
        let count = sessions[0].messages.len();
        assert!((100..400).contains(&count), "{count} messages");
        let (rule, _, why) = damage(&sessions[0]);
        assert_eq!(rule, Rule::DamagedEntry, "{why}");
    }
    // Bytes after the end of a gzip file are not part of it, and are reported.
    let sessions = read_bytes(&[gzip(text.as_bytes()), b"this is no gzip".to_vec()].concat()).unwrap();
    assert_eq!(sessions[0].messages.len(), 400);
    assert_eq!(damage(&sessions[0]).0, Rule::DamagedEntry);
}

/// A log of Inspect with one sample per text.
fn log(method: CompressionMethod, texts: &[String]) -> Vec<u8> {
    let samples: Vec<(String, String)> = texts.iter().enumerate().map(|(number, text)| {
        let sample = format!(
            r#"{{"id":{number},"epoch":1,"target":"","output":{{}},"messages":[{{"role":"user","content":"{text}"}}]}}"#
        );
        (format!("samples/{number}.json"), sample)
    }).collect();
    let mut files: Vec<(&str, &[u8])> =
        vec![("_journal/start.json", br#"{"version":2,"eval":{"task":"t","model":"m"}}"#)];
    files.extend(samples.iter().map(|(name, sample)| (name.as_str(), sample.as_bytes())));
    zip(method, &files)
}

#[test]
fn an_archive_that_is_cut_off_gives_the_files_that_are_whole() {
    let texts: Vec<String> =
        (0..4).map(|number| format!("{number} {}", "words ".repeat(500 + number))).collect();
    for method in [CompressionMethod::Deflated, CompressionMethod::Stored, CompressionMethod::Zstd] {
        let whole = log(method, &texts);
        assert_eq!(read_bytes(&whole).unwrap().len(), 4);
        let last = whole.windows(14).position(|name| name == b"samples/3.json").unwrap();
        // In the last file, in its name, and in the list of files.
        for (cut, count) in [(last + 30, 3), (last + 2, 3), (whole.len() - 60, 4)] {
            let sessions = read_bytes(&whole[..cut]).unwrap();
            assert_eq!(sessions.len(), count, "{method:?} {cut}");
            let (rule, _, why) = damage(sessions.last().unwrap());
            assert_eq!(rule, Rule::TornTail);
            let names = cut == last + 30;
            assert_eq!(why.contains("`samples/3.json`"), names, "{why}");
            assert!(why.contains(&format!("{} files before that are whole", count + 1)), "{why}");
        }
        let why = read_bytes(&whole[..20]).unwrap_err();
        assert!(why.contains("it was cut off before a file in it is complete; get a whole copy"), "{why}");
        for cut in 4..whole.len().min(600) {
            _ = read_bytes(&whole[..cut]);
        }
    }
}

#[test]
fn an_archive_of_one_session_is_read_like_the_session() {
    let text = lines(50);
    let method = CompressionMethod::Deflated;
    let whole = zip(method, &[("session.jsonl", text.as_bytes())]);
    for archive in [
        whole.clone(),
        zip(method, &[("readme.txt", b"hello"), ("a/session.jsonl", text.as_bytes()), ("x.bin", &[0; 99])]),
        zip(method, &[("__MACOSX/._s.jsonl", b"\0\x05"), ("s.jsonl", text.as_bytes()), (".DS_Store", b"x")]),
        zip(method, &[("s.jsonl.gz", &gzip(text.as_bytes()))]),
    ] {
        let sessions = read_bytes(&archive).unwrap();
        assert_eq!((sessions.len(), sessions[0].messages.len()), (1, 50));
        assert!(sessions[0].findings.is_empty());
    }
    // If it is cut off, the complete part is read.
    let sessions = read_bytes(&whole[..whole.len() / 2]).unwrap();
    let count = sessions[0].messages.len();
    assert!((10..50).contains(&count), "{count} messages");
    let (rule, line, _) = damage(&sessions[0]);
    assert_eq!((rule, line), (Rule::TornTail, Some(count + 1)));
}

#[test]
fn an_archive_of_several_sessions_names_its_files() {
    let text = lines(2);
    let names: Vec<String> = (10..30).map(|number| format!("{number}.jsonl")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), text.as_bytes())).collect();
    let why = read_bytes(&zip(CompressionMethod::Deflated, &files)).unwrap_err();
    assert!(why.contains("an archive of 20 files"), "{why}");
    assert!(why.contains("10.jsonl, 11.jsonl") && why.contains("19.jsonl, …"), "{why}");
    assert!(!why.contains("20.jsonl"), "{why}");
    let inner = zip(CompressionMethod::Stored, &[("s.jsonl", text.as_bytes())]);
    let why = read_bytes(&zip(CompressionMethod::Stored, &[("inner.zip", &inner)])).unwrap_err();
    assert!(why.contains("it is an archive in an archive"), "{why}");
}

/// Limits hold in an archive without its list of files, too.
#[test]
fn a_bomb_that_is_cut_off_ends_at_the_limit() {
    let bomb = zip(CompressionMethod::Deflated, &[("s.jsonl", &vec![b' '; 64 * 1024 * 1024])]);
    for bytes in [&bomb[..], &bomb[..bomb.len() - 30], &gzip(&vec![0; 64 * 1024 * 1024])[..150_000]] {
        let why = read_bytes(bytes).unwrap_err();
        assert!(why.contains("it unpacks to more than"), "{why}");
    }
}
