//! `rejoin explain`: shows the page of a finding, a provider's rule, or the list of all findings.

use rejoin::{
    Rule,
    checkers::{RULES, rule_named},
    shape,
};

use crate::{args::ExplainArguments, failure::Failure, near, output};

pub fn run(arguments: &ExplainArguments) -> Result<u8, Failure> {
    let Some(given) = &arguments.rule else {
        for rule in Rule::ALL {
            let line = || format!("{:<20} {:<8} {}", rule.name(), rule.severity().name(), rule.summary());
            if arguments.json { output::json_data(&shape::rule(*rule))? } else { output::data(&line())? }
        }
        return Ok(0);
    };
    let name = given.trim().to_lowercase();
    if let Some(rule) = Rule::ALL.iter().find(|rule| rule.name() == name) {
        if arguments.json {
            output::json_data(&shape::rule(*rule))?
        } else {
            output::data(rule.page().trim_end())?
        }
    } else if let Some(rule) = rule_named(&name) {
        let demanded = || {
            format!(
                "# {}\n\n{}\n\nThe provider refuses a request that breaks this rule. Where it is about messages, \
                 `rejoin convert`\nwrites a request that keeps it. Settings such as the model are yours to choose.",
                rule.name, rule.demands
            )
        };
        let json = || shape::provider_rule(rule);
        if arguments.json { output::json_data(&json())? } else { output::data(&demanded())? }
    } else {
        let known = Rule::ALL.iter().map(|rule| rule.name()).chain(RULES.iter().map(|rule| rule.name));
        let near = near::did_you_mean(&name, known);
        let hint = Some(format!("{near}`rejoin explain` lists all findings"));
        return Err(Failure::Usage { what: format!("there is no rule `{given}`"), hint });
    }
    Ok(0)
}
