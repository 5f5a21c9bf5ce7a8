//! Google Gemini, `generateContent`.

mod answers;
mod around;
mod decode;
mod edit;
mod encode;
mod pieces;
mod results;

mod stream;

use std::sync::Arc;

use rejoin_view::{Rule, SoundView};

use super::{
    DecodeError, Decoded, arriving::Decoder, outline::Encode, registry::Wire, stream::StreamDecoder,
};
use crate::{convert::Settings, media::Accepts};

/// The images and documents that the API takes: what it can do with a type depends on the model.
pub(crate) const MEDIA: Accepts =
    Accepts { images: None, documents: None, schemes: &["https://", "http://", "gs://"] };

/// The dialect.
pub struct Gemini;

impl Wire for Gemini {
    fn name(&self) -> &'static str {
        crate::gemini::FORMAT
    }
    fn provider(&self) -> &'static str {
        "Google"
    }
    fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
        encode::encoder(settings, view)
    }
    fn decode(&self, response: &[u8]) -> Result<Decoded, DecodeError> {
        decode::decode(response)
    }
    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::new(Decoder::new(stream::ContentAssembly::default())))
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
