//! AWS Bedrock's Converse, as Claude takes it: two roles in turn, content blocks.

mod answers;
mod around;
mod decode;
mod encode;
mod media;

use std::sync::Arc;

use rejoin_view::{Rule, SoundView};

use super::{arriving::Decoder, outline::Encode, registry::Wire, stream::StreamDecoder};
use crate::{
    convert::Settings,
    media::{Accepts, DOCUMENTS, PICTURES, WEB},
};

/// The images and documents that the API takes.
pub(crate) const MEDIA: Accepts =
    Accepts { images: Some(PICTURES), documents: Some(DOCUMENTS), schemes: WEB };

/// The dialect.
pub struct Bedrock;

impl Wire for Bedrock {
    fn name(&self) -> &'static str {
        "bedrock"
    }
    fn provider(&self) -> &'static str {
        "AWS Bedrock"
    }
    fn encoder(&self, settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
        encode::encoder(settings, view)
    }
    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Decoder::<decode::ConverseAssembly>::boxed()
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
