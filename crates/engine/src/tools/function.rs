//! Tools made of a function, which gets its arguments as a JSON value.

use std::ops::Index;

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;
use serde_json::Value;

use super::{Plan, PlannedChange, RunningCall, Tool, ToolOutput};
use crate::provider::BoxFuture;

/// The arguments of a call: a JSON value, and the exact text that the model wrote.
///
/// The value holds less than the text: of several fields with the same name only the last, and numbers beyond 64 bits lose digits.
/// A tool that needs more reads [`ToolArguments::text`].
#[derive(Debug, Clone, PartialEq)]
pub struct ToolArguments {
    text: String,
    value: Value,
}

impl ToolArguments {
    /// Parses arguments that a model wrote. Blank text means no arguments, `{}`.
    ///
    /// # Errors
    /// If the text is not JSON, or is nested too deeply.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let json = if text.trim().is_empty() { "{}" } else { text };
        Ok(Self { value: serde_json::from_str(json)?, text: text.to_owned() })
    }

    /// The exact text that the model wrote.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All arguments as a JSON object.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// One argument; `None` if the model did not pass it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.value.get(name)
    }

    /// One argument as text.
    ///
    /// # Errors
    /// If the argument is absent or is not a string: a result that tells the model so.
    pub fn string(&self, name: &str) -> Result<&str, ToolOutput> {
        let found = self.get(name).and_then(Value::as_str);
        found.ok_or_else(|| ToolOutput::error(format!("`{name}` is missing: it must be a string")))
    }
}

/// One argument; `null` if the model did not pass it.
impl Index<&str> for ToolArguments {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        &self.value[name]
    }
}

/// A tool made of a declaration and an async function.
///
/// ```
/// use rejoin_engine::{serde_json::json, tools::{FunctionTool, Tools}};
///
/// let parameters = json!({
///     "type": "object",
///     "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
///     "required": ["city"],
/// });
/// let weather = FunctionTool::new("weather", "Forecasts the weather.", parameters, |arguments| async move {
///     let city = arguments.string("city")?.to_owned();
///     let days = arguments["days"].as_u64().unwrap_or(1);
///     Ok(format!("{days} sunny day(s) in {city}"))
/// });
/// let tools = Tools::default().with(weather);
/// assert_eq!(tools.declarations().len(), 1);
/// ```
pub struct FunctionTool {
    declaration: ToolDeclaration,
    run: Box<dyn Fn(ToolArguments) -> BoxFuture<'static, ToolOutput> + Send + Sync>,
    /// The text that a person sees before a call runs; `None` if calls only read.
    preview: Option<Preview>,
}

/// Describes the effect of a call.
type Preview = Box<dyn Fn(&ToolArguments) -> String + Send + Sync>;

impl FunctionTool {
    /// A tool with a name, a description for the model, a JSON schema of its parameters, and a function that runs a call. The model
    /// gets an error as a failed result. Calls run at once and in parallel; for a tool that changes something, add
    /// [`FunctionTool::asking`].
    pub fn new<F, T>(
        name: &str,
        description: &str,
        parameters: Value,
        run: impl Fn(ToolArguments) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<T, ToolOutput>> + Send + 'static,
        T: Into<String>,
    {
        Self {
            declaration: ToolDeclaration::function(name, description, Raw::new(parameters.to_string())),
            run: Box::new(move |arguments| {
                let work = run(arguments);
                Box::pin(async move {
                    match work.await {
                        Ok(text) => ToolOutput::of(text),
                        Err(output) => ToolOutput { is_error: true, ..output },
                    }
                })
            }),
            preview: None,
        }
    }

    /// Asks for approval before each call, unless a rule allows it, and runs the calls one after another. `preview` describes the
    /// effect of a call to the person who decides.
    #[must_use]
    pub fn asking(mut self, preview: impl Fn(&ToolArguments) -> String + Send + Sync + 'static) -> Self {
        self.preview = Some(Box::new(preview));
        self
    }
}

/// The result of a call whose arguments are not JSON.
fn unreadable(why: &serde_json::Error) -> ToolOutput {
    ToolOutput::error(format!("the arguments cannot be read: {why}; the tool was not run"))
}

impl std::fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FunctionTool({})", self.declaration.name)
    }
}

impl Tool for FunctionTool {
    fn declaration(&self) -> ToolDeclaration {
        self.declaration.clone()
    }

    fn plan<'a>(&'a self, arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        let Some(preview) = &self.preview else { return Plan::reads() };
        let planned = match ToolArguments::parse(arguments) {
            Ok(arguments) => Ok(Plan::Changes(PlannedChange::new(preview(&arguments)))),
            Err(why) => Err(unreadable(&why)),
        };
        Box::pin(std::future::ready(planned))
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        match ToolArguments::parse(call.arguments) {
            Ok(arguments) => (self.run)(arguments),
            Err(why) => Box::pin(std::future::ready(unreadable(&why))),
        }
    }
}

/// An error becomes a failed result, so that a tool can use `?`.
impl<E: std::error::Error> From<E> for ToolOutput {
    fn from(error: E) -> Self {
        Self::error(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(tool: &FunctionTool, arguments: &str) -> ToolOutput {
        let (live, stop) = (super::super::LiveOutput::default(), crate::turn::Stop::new());
        let call = RunningCall::with(arguments, &live, &stop);
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(tool.run(call))
    }

    #[test]
    fn a_function_gets_values_and_the_exact_text() {
        let tool = FunctionTool::new("t", "", json!({"type": "object"}), |arguments| async move {
            let n: i64 = arguments.string("n")?.parse()?;
            Ok(format!("{} {n} {}", arguments["list"][1], arguments.text()))
        });
        let text = r#"{"list":[1,{"b":2,"a":1}],  "n":"7"}"#;
        assert_eq!(run(&tool, text), ToolOutput::of(format!(r#"{{"b":2,"a":1}} 7 {text}"#)));
        assert_eq!(run(&tool, r#"{"n":"x"}"#), ToolOutput::error("invalid digit found in string"));
        assert_eq!(run(&tool, ""), ToolOutput::error("`n` is missing: it must be a string"));
        assert!(run(&tool, "{").is_error, "it is not run");
        assert!(run(&tool, &format!(r#"{{"a":{}}}"#, "[".repeat(1_000))).is_error);
    }

    #[test]
    fn the_schema_is_declared_as_it_was_given() {
        let schema = json!({"type": "object", "properties": {"z": {}, "a": {}}});
        let tool = FunctionTool::new("t", "Does it.", schema.clone(), |_| async { Ok("done") });
        assert_eq!(tool.declaration().schema.unwrap().as_str(), schema.to_string());
        assert_eq!(run(&tool, "{}"), ToolOutput::of("done"));
    }
}
