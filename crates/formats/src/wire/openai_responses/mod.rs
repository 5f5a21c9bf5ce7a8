//! OpenAI Responses, and the backend that Codex speaks to.

mod answers;
mod around;
pub mod checker;
mod decode;
mod encode;

mod stream;

use rejoin_view::{Rule, SoundView};

use super::{
    DecodeError, Decoded, Encoded, TooLarge, Violation, arriving::Decoder, registry::Wire,
    stream::StreamDecoder,
};
use crate::convert::Target;

/// The dialect.
pub struct OpenAiResponses;

impl Wire for OpenAiResponses {
    fn name(&self) -> &'static str {
        crate::responses::FORMAT
    }
    fn provider(&self) -> &'static str {
        "OpenAI"
    }
    fn encode(&self, view: &SoundView, target: &Target<'_>) -> Result<Encoded, TooLarge> {
        encode::encode(view, target)
    }
    fn decode(&self, response: &[u8]) -> Result<Decoded, DecodeError> {
        decode::decode(response)
    }
    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::new(Decoder::new(stream::ResponseAssembly::default())))
    }
    fn check(&self, body: &[u8]) -> Vec<Violation> {
        checker::check(body)
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
