//! OpenAI Chat Completions, and the many services that speak it.

mod answers;
mod around;
pub(crate) mod decode;
mod decode_calls;
mod encode;

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
pub struct OpenAiChat;

impl Wire for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai-chat"
    }
    fn provider(&self) -> &'static str {
        "OpenAI"
    }
    fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
        encode::encoder(settings, view)
    }
    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Decoder::<decode::ChatAssembly>::boxed()
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
