//! A request that grows with its conversation: what was sent once is encoded once, and shared by every later request.

use std::sync::Arc;

use rejoin_record::{Text, block::Origin};
use rejoin_view::{Finding, SoundView};

use crate::{
    context::Context,
    convert::Target,
    wire::{TooLarge, registry::Dialect},
};

/// A request body as pieces of JSON that make up the whole when they are put one behind the other.
#[derive(Debug, Clone, Default)]
pub struct Body {
    pieces: Vec<Arc<str>>,
    length: usize,
}

impl Body {
    /// The pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pieces.iter()
    }

    /// How many bytes they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl std::fmt::Display for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pieces.iter().try_for_each(|piece| f.write_str(piece))
    }
}

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Drafted {
    /// The body.
    pub body: Body,
    /// What had to be changed for the dialect, of what is new since the request before.
    pub findings: Vec<Finding>,
    /// Tool names that got another spelling: ours, theirs.
    pub names: Vec<(String, String)>,
    /// A hash of everything that the answer stands on: reasoning in it is bound to that.
    pub prefix: Option<Text>,
}

/// What is needed to write the next request.
#[derive(Debug)]
pub struct Draft {
    dialect: Dialect,
    context: Context,
    model: Option<String>,
    issuer: Origin,
}

impl Draft {
    /// A conversation of which nothing was sent yet. `issuer` says who answers: reasoning from elsewhere does not go there.
    #[must_use]
    pub fn new(dialect: Dialect, context: Context, model: Option<String>, issuer: Origin) -> Self {
        Self { dialect, context, model, issuer }
    }

    /// The request of a view that begins as the view before it did.
    ///
    /// # Errors
    /// If the provider takes nothing this large.
    pub fn request(&mut self, view: &SoundView) -> Result<Drafted, TooLarge> {
        let _ = &self.issuer;
        let target = Target { model: self.model.as_deref(), ..Target::of(&self.context) };
        let encoded = self.dialect.wire().encode(view, &target)?;
        let body = Body { length: encoded.body.len(), pieces: vec![Arc::from(encoded.body)] };
        Ok(Drafted { body, findings: encoded.findings, names: encoded.names, prefix: None })
    }
}
