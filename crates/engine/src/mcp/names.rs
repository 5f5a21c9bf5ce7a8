//! Names of tools: `SERVER__TOOL`, in letters and a length that every provider accepts.
//!
//! A name that has to be changed gets a short hash of its original, so that two different names never become one, and a name is
//! always changed in the same way.

/// The longest name that every provider accepts, in characters.
const LONGEST: usize = 64;

/// The longest name of a server, in characters, so that there is room for the names of its tools.
const LONGEST_SERVER: usize = 32;

/// Whether a name can be used for a server without a change: letters, digits, `-` and single `_`, beginning with a letter.
pub fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_SERVER
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(is_plain)
        // A double `_` would leave open where the name of the tool begins.
        && !name.contains("__")
        && !name.ends_with('_')
}

/// The name by which models call a tool.
pub(super) fn tool_name(server: &str, tool: &str) -> String {
    let server = if is_name(server) { server.to_owned() } else { respelled(server, LONGEST_SERVER) };
    let room = LONGEST - server.len() - 2;
    let fits = !tool.is_empty() && tool.len() <= room && tool.chars().all(is_plain);
    let tool = if fits { tool.to_owned() } else { respelled(tool, room) };
    format!("{server}__{tool}")
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// A name with other letters replaced, and a hash of the original.
fn respelled(name: &str, longest: usize) -> String {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let hash = &hash[..8];
    let mut plain = String::new();
    for letter in name.chars().take(longest - hash.len() - 1) {
        let letter = if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        if letter != '_' || !plain.ends_with('_') {
            plain.push(letter);
        }
    }
    let plain = plain.trim_matches('_');
    let plain = if plain.starts_with(|first: char| first.is_ascii_alphabetic()) { plain } else { "x" };
    format!("{plain}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit_stay() {
        assert_eq!(tool_name("files", "read_file"), "files__read_file");
        assert_eq!(tool_name("my-server", "a__b"), "my-server__a__b");
    }

    #[test]
    fn other_names_are_respelled_and_stay_distinct() {
        let long = "l".repeat(500);
        let names = [
            "read file",
            "read\u{1b}[31mfile",
            "read/file",
            "",
            "ü",
            "\u{202e}x",
            &long,
            &format!("{long}2"),
        ];
        for server in ["s", "a__b", "9", "", "ends_", &long] {
            let mut made: Vec<String> = names.iter().map(|name| tool_name(server, name)).collect();
            for name in &made {
                assert!(name.len() <= 64 && name.chars().all(is_plain), "{name}");
                assert!(name.starts_with(|first: char| first.is_ascii_alphabetic()), "{name}");
                assert_eq!(name.matches("__").count(), 1, "{name}");
            }
            assert_eq!(made[0], tool_name(server, names[0]), "always the same");
            made.sort();
            made.dedup();
            assert_eq!(made.len(), names.len(), "{made:?}");
        }
        assert_ne!(tool_name("a__b", "c"), tool_name("a", "b__c"));
    }
}
