//! Google Gemini, `generateContent`.

mod answers;
mod around;
mod decode;
mod edit;
mod encode;
mod pieces;
mod results;

use std::sync::Arc;

use rejoin_view::{Rule, SoundView};

use super::{arriving::Decoder, outline::Encode, registry::Wire, stream::StreamDecoder};
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
    fn decoder(&self) -> Box<dyn StreamDecoder> {
        Decoder::<decode::ContentAssembly>::boxed()
    }
    fn answer(&self, rule: Rule) -> Option<&'static str> {
        answers::answer(rule)
    }
}
