//! `calculate`: evaluates arithmetic expressions.

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{Raw, json::Doc};

use super::{Plan, RunningCall, Tool, ToolOutput};
use crate::provider::BoxFuture;

/// Evaluates an arithmetic expression.
#[derive(Debug, Clone, Copy, Default)]
pub struct Calculate;

const SCHEMA: &str = r#"{"type":"object","properties":{"expression":{"type":"string","description":"such as (2+3)*4^2, with + - * / % ^ and parentheses"}},"required":["expression"],"additionalProperties":false}"#;

/// The deepest nesting of parentheses and signs, which bounds the recursion.
const DEPTH: usize = 64;

impl Tool for Calculate {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration::function("calculate", "Evaluates an arithmetic expression.", Raw::new(SCHEMA))
    }

    fn plan<'a>(&'a self, _arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        Plan::reads()
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let doc = Doc::parse(call.arguments);
            let expression = doc.as_ref().ok().and_then(|doc| doc.root()?.get("expression")?.as_str());
            match expression {
                None => ToolOutput::error("`expression` is missing: it takes a string such as \"2+2\""),
                Some(expression) => match evaluate(&expression) {
                    Ok(value) => ToolOutput::of(number(value)),
                    Err(why) => ToolOutput::error(format!("`{expression}` cannot be calculated: {why}")),
                },
            }
        })
    }
}

/// A number in its usual notation.
fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        format!("{value:.0}").replace("-0", if value == 0.0 { "0" } else { "-0" })
    } else {
        // Twelve decimal places hide the rounding of binary fractions.
        let text = format!("{value:.12}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        // For a small number, a fixed number of decimal places would show too few significant digits.
        let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
        if value.abs() < 1e-3 { format!("{rounded:e}") } else { text.to_owned() }
    }
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SumError {
    /// It divides by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// The result is infinite, or undefined.
    #[error("the result is not a number")]
    NoNumber,
    /// It is not an expression.
    #[error("{0}")]
    Malformed(String),
}

/// The value of an expression.
pub fn evaluate(expression: &str) -> Result<f64, SumError> {
    let mut parser = Parser { rest: expression.trim(), depth: 0 };
    let value = parser.sum()?;
    if !parser.rest.is_empty() {
        return Err(SumError::Malformed(format!("`{}` was not expected", parser.rest)));
    }
    if value.is_finite() { Ok(value) } else { Err(SumError::NoNumber) }
}

struct Parser<'e> {
    rest: &'e str,
    depth: usize,
}

impl Parser<'_> {
    fn next(&mut self, of: &[char]) -> Option<char> {
        let found = self.rest.chars().next().filter(|letter| of.contains(letter))?;
        self.rest = self.rest[found.len_utf8()..].trim_start();
        Some(found)
    }

    fn sum(&mut self) -> Result<f64, SumError> {
        let mut value = self.product()?;
        while let Some(sign) = self.next(&['+', '-', '\u{2212}']) {
            let other = self.product()?;
            value = if sign == '+' { value + other } else { value - other };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, SumError> {
        let mut value = self.power()?;
        while let Some(sign) = self.next(&['*', '/', '%', '\u{d7}', '\u{f7}']) {
            let other = self.power()?;
            value = match sign {
                '*' | '\u{d7}' => value * other,
                _ if other == 0.0 => return Err(SumError::DivisionByZero),
                '%' => value % other,
                _ => value / other,
            };
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<f64, SumError> {
        let base = self.value()?;
        if self.next(&['^']).is_none() {
            return Ok(base);
        }
        self.deeper()?;
        let exponent = self.power()?;
        self.depth -= 1;
        Ok(base.powf(exponent))
    }

    fn value(&mut self) -> Result<f64, SumError> {
        self.deeper()?;
        let value = match self.next(&['-', '+', '(', '\u{2212}']) {
            Some('(') => {
                let value = self.sum()?;
                self.next(&[')']).ok_or_else(|| SumError::Malformed(String::from("a `)` is missing")))?;
                value
            }
            Some('+') => self.value()?,
            Some(_) => -self.power()?,
            None => self.literal()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn literal(&mut self) -> Result<f64, SumError> {
        let digit = |letter: char| letter.is_ascii_digit() || letter == '.' || letter == '_';
        let length = self.rest.find(|letter| !digit(letter)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(length);
        let value = text.replace('_', "").parse().map_err(|_| {
            SumError::Malformed(match self.rest.chars().next() {
                Some(letter) => format!("a number was expected, not `{letter}`"),
                None => String::from("a number was expected at the end"),
            })
        })?;
        self.rest = rest.trim_start();
        Ok(value)
    }

    fn deeper(&mut self) -> Result<(), SumError> {
        self.depth += 1;
        if self.depth > DEPTH {
            Err(SumError::Malformed(String::from("it is nested too deeply")))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
