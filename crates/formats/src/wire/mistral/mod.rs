//! Mistral's own API, as it is hosted: strict about ids, and about who may speak after whom.

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
    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Decoder::<decode::MistralAssembly>::boxed()
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
