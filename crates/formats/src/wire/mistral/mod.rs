//! Mistral's own API, as it is hosted: strict about ids, and about who may speak after whom.

mod answers;
pub(crate) mod decode;
mod encode;

use std::sync::Arc;

use rejoin_view::{Rule, SoundView};

use super::{
    DecodeError, Decoded, arriving::Decoder, openai_chat, outline::Encode, registry::Wire,
    stream::StreamDecoder,
};
use crate::{
    convert::Settings,
    media::{self, Accepts},
};

/// The images and documents that the API takes.
pub(crate) const MEDIA: Accepts =
    Accepts { images: Some(media::PICTURES), documents: None, schemes: media::WEB };

/// The dialect.
pub struct Mistral;

impl Wire for Mistral {
    fn name(&self) -> &'static str {
        "mistral"
    }
    fn provider(&self) -> &'static str {
        "Mistral"
    }
    fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
        encode::encoder(settings, view)
    }
    fn decode(&self, response: &[u8]) -> Result<Decoded, DecodeError> {
        decode::decode(response)
    }
    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::new(Decoder::new(openai_chat::stream::ChatAssembly::of_mistral())))
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
