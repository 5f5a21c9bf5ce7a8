//! OpenAI Responses, and the backend that Codex speaks to.

mod answers;
mod around;
mod decode;
mod encode;
mod pieces;

mod stream;

use std::sync::Arc;

use rejoin_view::{Rule, SoundView};

use super::{
    DecodeError, Decoded, arriving::Decoder, outline::Encode, registry::Wire, stream::StreamDecoder,
};
use crate::{
    convert::Settings,
    media::{self, Accepts},
};

/// The images and documents that the API takes.
pub(crate) const MEDIA: Accepts =
    Accepts { images: Some(media::PICTURES), documents: None, schemes: media::WEB };

/// The dialect.
pub struct OpenAiResponses;

impl Wire for OpenAiResponses {
    fn name(&self) -> &'static str {
        crate::responses::FORMAT
    }
    fn provider(&self) -> &'static str {
        "OpenAI"
    }
    fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
        encode::encoder(settings, view)
    }
    fn decode(&self, response: &[u8]) -> Result<Decoded, DecodeError> {
        decode::decode(response)
    }
    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::new(Decoder::new(stream::ResponseAssembly::default())))
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
