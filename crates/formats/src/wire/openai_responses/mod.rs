//! OpenAI Responses, and the backend that Codex speaks to.

mod answers;
mod around;
mod decode;
mod encode;
mod pieces;

use std::sync::Arc;

use rejoin_view::{Rule, SoundView};

use super::{arriving::Decoder, outline::Encode, registry::Wire, stream::StreamDecoder};
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
    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Decoder::<decode::ResponseAssembly>::boxed()
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
