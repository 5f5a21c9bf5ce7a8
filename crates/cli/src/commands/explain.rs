//! `rejoin explain`: the page of a finding, what a provider's rule demands, or the list of all findings.

use rejoin::{Rule, checkers::ProviderRule};

use crate::{
    args::{ExplainArguments, Explained},
    failure::Failure,
    json::Object,
    output,
};

/// Prints a page or the list.
pub fn run(arguments: &ExplainArguments) -> Result<u8, Failure> {
    match (arguments.rule, arguments.json) {
        (Some(Explained::Demand(rule)), json) => demand(rule, json)?,
        (Some(Explained::Finding(rule)), true) => output::json_data(&as_json(rule))?,
        (Some(Explained::Finding(rule)), false) => output::data(rule.page().trim_end())?,
        (None, json) => {
            for rule in Rule::ALL {
                let line = || format!("{:<20} {:<8} {}", rule.name(), rule.severity().name(), rule.summary());
                if json { output::json_data(&as_json(*rule))? } else { output::data(&line())? }
            }
        }
    }
    Ok(0)
}

/// What a provider demands.
fn demand(rule: &ProviderRule, json: bool) -> Result<(), Failure> {
    if json {
        let object = Object::new().text("rule", rule.name).text("summary", rule.demands);
        return output::json_data(&object.finish());
    }
    output::data(&format!("# {}\n\n{}\n", rule.name, rule.demands))?;
    output::data(
        "The provider refuses a request that breaks this rule. Where it is about messages, `rejoin convert`\n\
         writes a request that keeps it. Settings such as the model are yours to choose.",
    )
}

fn as_json(rule: Rule) -> String {
    Object::new()
        .text("rule", rule.name())
        .text("severity", rule.severity().name())
        .text("summary", rule.summary())
        .text("page", rule.page())
        .finish()
}
