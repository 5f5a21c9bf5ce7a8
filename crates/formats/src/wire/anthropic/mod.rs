//! Anthropic Messages (`/v1/messages`), in its strictest profile: no prefill, no system messages inside the list.

mod answers;
mod around;
mod decode;
mod encode;
mod marks;
mod pieces;
mod results;

use std::sync::Arc;

use rejoin_view::{Rule, SoundView};

use super::{arriving::Decoder, outline::Encode, registry::Wire, stream::StreamDecoder};
use crate::{
    convert::Settings,
    media::{self, Accepts},
};

/// The images and documents that the API takes.
pub(crate) const MEDIA: Accepts =
    Accepts { images: Some(media::PICTURES), documents: Some(&["application/pdf"]), schemes: &["https://"] };

/// The dialect.
pub struct Anthropic;

impl Wire for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }
    fn provider(&self) -> &'static str {
        "Anthropic"
    }
    fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
        encode::encoder(settings, view)
    }
    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Decoder::<decode::MessagesAssembly>::boxed()
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
