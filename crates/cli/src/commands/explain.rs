//! `rejoin explain`: the page of a rule, or the list of all.

use rejoin::{Rule, record::json::write};

use crate::{args::ExplainArguments, failure::Failure, output};

/// Prints a page or the list.
pub fn run(arguments: &ExplainArguments) -> Result<u8, Failure> {
    let rules: &[Rule] = match &arguments.rule {
        Some(rule) => std::slice::from_ref(rule),
        None => Rule::ALL,
    };
    for rule in rules {
        if arguments.json {
            output::raw_data(&as_json(*rule))?;
        } else if arguments.rule.is_some() {
            output::data(rule.page().trim_end())?;
        } else {
            output::data(&format!("{:<20} {:<8} {}", rule.name(), rule.severity().name(), rule.summary()))?;
        }
    }
    Ok(0)
}

fn as_json(rule: Rule) -> String {
    let mut out = String::from("{");
    let fields = [
        ("rule", rule.name()),
        ("severity", rule.severity().name()),
        ("summary", rule.summary()),
        ("page", rule.page()),
    ];
    for (name, value) in fields {
        write::key(&mut out, name);
        write::string(&mut out, value);
    }
    out.push('}');
    out
}
