//! Breaks in `store`: what is appended, read back, found, locked, damaged and removed.

use super::{Break, lib, test};

pub const BREAKS: &[Break] = &[
    Break {
        what: "a file of lines is acknowledged before it is synced",
        file: "crates/store/src/jsonl/append/mod.rs",
        from: "        locked.file.sync_data()?;
        if locked.birth == Birth::Unnamed {",
        to: "        if locked.birth == Birth::Unnamed {",
        tests: test("rejoin-store", "faults", "an_end_at_any_call"),
    },
    Break {
        what: "the folder of a new file is not synced",
        file: "crates/store/src/jsonl/append/mod.rs",
        from: "            store.folder.sync()?;
            locked.first_look = false;",
        to: "            locked.first_look = false;",
        tests: test("rejoin-engine", "faults", "a_power_cut_after_the_first"),
    },
    Break {
        what: "a failed append is left half written",
        file: "crates/store/src/jsonl/append/mod.rs",
        from: "            cut_back(locked);
            return Err(failure);",
        to: "            return Err(failure);",
        tests: test("rejoin-store", "jsonl_faults", ""),
    },
    Break {
        what: "an entry that is sealed onto another parent is appended",
        file: "crates/store/src/scan.rs",
        from: "        if !entry.verifies(parent.map(|(_, hash)| hash)) {",
        to: "        if !entry.verifies(parent.map(|(_, hash)| hash)) && false {",
        tests: test("rejoin-store", "conformance", "entries_that_do_not_follow"),
    },
    Break {
        what: "an id may be appended twice",
        file: "crates/store/src/jsonl/append/mod.rs",
        from: "    if entries.iter().any(|entry| end.seen.contains_key(&entry.id())) {",
        to: "    if entries.iter().any(|entry| end.seen.contains_key(&entry.id()) && false) {",
        tests: test("rejoin-store", "conformance", "entries_that_do_not_follow"),
    },
    Break {
        what: "the next line is glued onto a torn one",
        file: "crates/store/src/jsonl/append/mod.rs",
        from: "        lines.insert_str(0, before);
",
        to: "",
        tests: test("rejoin-store", "jsonl_damage", "torn::"),
    },
    Break {
        what: "what is damaged is not copied aside before more is written",
        file: "crates/store/src/jsonl/append/mod.rs",
        from: "if let Err(why) = store.asides.keep(&conversation.to_string(), &damage.bytes) {",
        to: "if let Err(why) = store.asides.keep(&conversation.to_string(), &damage.bytes[..0]) {",
        tests: test("rejoin-store", "jsonl_damage", "torn::"),
    },
    Break {
        what: "a conversation with entries of a newer version is written to",
        file: "crates/store/src/jsonl/append/mod.rs",
        from: "        if is_newer {
",
        to: "        if is_newer && false {
",
        tests: test("rejoin-store", "jsonl_damage", "entries_of_a_newer"),
    },
    Break {
        what: "an entry in the middle of a damaged line is believed without its parent",
        file: "crates/store/src/jsonl/known.rs",
        from: "_ if !leads || !entry.body_verifies() => changed(),",
        to: "_ if !entry.body_verifies() => changed(),",
        tests: test("rejoin-store", "jsonl_damage", "an_entry_inside"),
    },
    Break {
        what: "a changed entry is believed",
        file: "crates/store/src/jsonl/known.rs",
        from: "(Some((_, true)), _) => changed(),",
        to: "(Some((_, true)), _) => Verdict::Unsure,",
        tests: test("rejoin-store", "jsonl_damage", "a_flipped_bit"),
    },
    Break {
        what: "lines out of order are read in the order of the file",
        file: "crates/store/src/jsonl/resolve.rs",
        from: "    order.sort_by_key(|place| found[*place].seq);
",
        to: "",
        tests: test("rejoin-store", "jsonl_damage", "lines::"),
    },
    Break {
        what: "a second copy of a line counts twice",
        file: "crates/store/src/jsonl/resolve.rs",
        from: "    if known.has(one.id) {",
        to: "    if known.has(one.id) && false {",
        tests: test("rejoin-store", "jsonl_damage", "lines::"),
    },
    Break {
        what: "a mark at the beginning of a file is damage",
        file: "crates/store/src/jsonl/pieces.rs",
        from: r#"let mark = if is_first && line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };"#,
        to: r#"let mark = if is_first && line.starts_with(b"\xef\xbb\xbf") { 0 } else { 0 };"#,
        tests: test("rejoin-store", "jsonl_damage", "lines::"),
    },
    Break {
        what: "the newest entry is believed without its parent's hash",
        file: "crates/store/src/jsonl/tail.rs",
        from: "            return Ok(is_sound.then(|| Tail::of(child)));",
        to: "            return Ok((is_sound || true).then(|| Tail::of(child)));",
        tests: test("rejoin-store", "jsonl_damage", "changed::"),
    },
    Break {
        what: "reading from a place on begins one entry late",
        file: "crates/store/src/jsonl/resolve.rs",
        from: "if number < span.from {",
        to: "if number <= span.from {",
        tests: test("rejoin-store", "jsonl_damage", ""),
    },
    Break {
        what: "an erasure that fails leaves its draft behind",
        file: "crates/store/src/jsonl/erase.rs",
        from: "        let _ = store.folder.remove(&draft);
        return Err(locked",
        to: "        return Err(locked",
        tests: test("rejoin-store", "jsonl_faults", ""),
    },
    Break {
        what: "an erased file takes its place before it is synced",
        file: "crates/store/src/jsonl/erase.rs",
        from: "    file.sync_all()
}",
        to: "    let _ = file;
    Ok(())
}",
        tests: test("rejoin-store", "faults", "an_end_at_any_call"),
    },
    Break {
        what: "erasing forgets the copies that were set aside",
        file: "crates/store/src/jsonl/erase.rs",
        from: "    let forgotten = store.asides.forget(&conversation.to_string(), Sought::any(&sought));",
        to: "    let forgotten: io::Result<()> = { let _ = &sought; Ok(()) };",
        tests: test("rejoin-store", "jsonl_damage", "erasing_reaches"),
    },
    Break {
        what: "deleting a conversation leaves what was set aside of it",
        file: "crates/store/src/jsonl/delete.rs",
        from: "    store.asides.forget(&conversation.to_string(), |_| true).map_err(failed())?;
",
        to: "",
        tests: test("rejoin-store", "jsonl_damage", "deleting_reaches"),
    },
    Break {
        what: "a draft of a deleted conversation stays",
        file: "crates/store/src/jsonl/delete.rs",
        from: "    store.drafts.remove(conversation)?;
",
        to: "",
        tests: test("rejoin-store", "conformance", "keeping::"),
    },
    Break {
        what: "a summary is kept although its file has changed",
        file: "crates/store/src/jsonl/feed.rs",
        from: "known.remove(&id.to_string()).as_ref() != Some(mark)",
        to: "{ let _ = mark; known.remove(&id.to_string()).is_none() }",
        tests: test("rejoin-store", "conformance", "finding::"),
    },
    Break {
        what: "a memory lock is never given back",
        file: "crates/store/src/lock.rs",
        from: "held.retain(|(other, _)| other != conversation);",
        to: "held.retain(|_| true);",
        tests: test("rejoin-store", "conformance", "a_lock_names"),
    },
    Break {
        what: "conversations are listed by their ids",
        file: "crates/store/src/scan.rs",
        from: "    all.sort_by_key(key);
",
        to: "    all.sort_by_key(|summary| summary.id);
",
        tests: test("rejoin-store", "conformance", "finding::"),
    },
    Break {
        what: "the last page claims that there is more",
        file: "crates/store/src/scan.rs",
        from: "let more = all.len() > limit;",
        to: "let more = all.len() >= limit;",
        tests: test("rejoin-store", "conformance", "finding::"),
    },
    Break {
        what: "a word with a star finds only itself",
        file: "crates/store/src/scan.rs",
        from: "said.starts_with(word.as_str())",
        to: "said == word",
        tests: lib("rejoin-store", ""),
    },
    Break {
        what: "a header of another conversation is not noticed",
        file: "crates/store/src/scan.rs",
        from: "        && header.conversation != conversation
",
        to: "        && header.conversation != conversation && false
",
        tests: test("rejoin-store", "jsonl_damage", "folder::"),
    },
    Break {
        what: "a changed header is believed",
        file: "crates/store/src/sqlite/rows.rs",
        from: "} else if entry.follows(None) {",
        to: "} else if entry.follows(None) || true {",
        tests: test("rejoin-store", "conformance", "a_changed_header"),
    },
    Break {
        what: "a changed row is believed",
        file: "crates/store/src/sqlite/rows.rs",
        from: "Ok(entry) if entry.follows(Some(parent)) => {",
        to: "Ok(entry) if entry.follows(Some(parent)) || true => {",
        tests: test("rejoin-store", "sqlite_damage", "a_flipped_bit"),
    },
    Break {
        what: "a row forgets the time of its source",
        file: "crates/store/src/sqlite/rows.rs",
        from: "envelope.source_time.as_ref().map(Text::as_str),",
        to: "None::<&str>,",
        tests: test("rejoin-store", "conformance", "the_time_of_a_source"),
    },
    Break {
        what: "a large string is stored but its use is not",
        file: "crates/store/src/sqlite/rows.rs",
        from: "    for blob in used {
",
        to: "    for blob in used.into_iter().skip(1) {
",
        tests: test("rejoin-store", "layout", ""),
    },
    Break {
        what: "the database is not written anew after an erasure",
        file: "crates/store/src/sqlite/scrub.rs",
        from: r#"pen.connection.execute_batch("VACUUM")"#,
        to: r#"pen.connection.execute_batch("SELECT 1")"#,
        tests: test("rejoin-store", "conformance", "gone::"),
    },
    Break {
        what: "backups keep what was erased",
        file: "crates/store/src/sqlite/scrub.rs",
        from: "        scrub_backup(&backup, &removals)?;",
        to: "        let _ = scrub_backup(&backup, &[]);",
        tests: test("rejoin-store", "conformance", "gone::"),
    },
    Break {
        what: "a file that something else changed is not looked over",
        file: "crates/store/src/sqlite/opening.rs",
        from: "    if !salvage::is_sound(connection)? {",
        to: "    if false && !salvage::is_sound(connection)? {",
        tests: test("rejoin-store", "faults", "corrupt::"),
    },
    Break {
        what: "an entry behind a lost one is lost as well",
        file: "crates/store/src/sqlite/rows.rs",
        from: "            candidates.extend(before.filter(|before| !candidates.contains(before)));",
        to: "            candidates.extend(before.filter(|_| false));",
        tests: test("rejoin-store", "sqlite_damage", "a_child_of_a_lost_entry"),
    },
    Break {
        what: "what is missed once is forgotten",
        file: "crates/store/src/index/mod.rs",
        from: "        lost::put(new, lost)?;",
        to: "        let _ = (new, lost);",
        tests: test("rejoin-store", "sqlite_damage", "what_was_cut_off"),
    },
    Break {
        what: "compressed text is expanded without a bound",
        file: "crates/store/src/sqlite/body.rs",
        from: "        let left = left.checked_sub(bytes as u64);",
        to: "        let left = Some(left.saturating_sub(bytes as u64));",
        tests: test("rejoin-store", "sqlite_damage", "a_bomb"),
    },
    Break {
        what: "a store with triggers is opened",
        file: "crates/store/src/sqlite/opening.rs",
        from: "WHERE type IN ('trigger', 'view')",
        to: "WHERE type IN ('view')",
        tests: test("rejoin-store", "sqlite_damage", "triggers_and_views"),
    },
    Break {
        what: "the log of an emptied database is forgotten before it is read",
        file: "crates/store/src/sqlite/salvage.rs",
        from: "    let emptied = opening::is_empty(path);",
        to: "    let emptied = opening::is_empty(path) && false;",
        tests: test("rejoin-store", "sqlite_damage", "emptied"),
    },
];
