//! Ollama's `/api/chat`: contents are strings, calls have no ids.

mod answers;
mod decode;
mod encode;

use std::sync::Arc;

use rejoin_view::{Rule, SoundView};

use super::{arriving::Decoder, outline::Encode, registry::Wire, stream::StreamDecoder};
use crate::{
    convert::Settings,
    media::{self, Accepts},
};

/// The images that the server decodes; it knows no documents and follows no addresses.
pub(crate) const MEDIA: Accepts =
    Accepts { images: Some(media::PICTURES), documents: None, schemes: media::WEB };

/// The dialect.
pub struct Ollama;

impl Wire for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }
    fn provider(&self) -> &'static str {
        "Ollama"
    }
    fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
        encode::encoder(settings, view)
    }
    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Decoder::<decode::LinesAssembly>::boxed()
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
