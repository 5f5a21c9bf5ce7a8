//! Runs a target so that a panic becomes a result like any other.

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

use super::{Broken, Signs, Target};

/// The place of a panic, and its message.
type Panic = (String, String);

thread_local! {
    /// While something is watched here: whether it panicked.
    static WATCHED: RefCell<Option<Option<Panic>>> = const { RefCell::new(None) };
}

/// Runs an input. A panic is a broken law, named by its place.
///
/// # Errors
/// What does not hold.
pub fn guarded(target: &Target, input: &[u8], signs: &mut Signs) -> Result<(), Broken> {
    watched(|| target.run(input, signs))?
}

/// Does something that may panic.
///
/// # Errors
/// Where it did.
pub fn watched<T>(act: impl FnOnce() -> T) -> Result<T, Broken> {
    listen();
    WATCHED.set(Some(None));
    let result = panic::catch_unwind(AssertUnwindSafe(act));
    let said = WATCHED.take().flatten();
    result.map_err(|_| {
        let (place, words) = said.unwrap_or_default();
        Broken::new(format!("panic at {place}"), words)
    })
}

/// Keeps panics of watched code from being printed, because there may be thousands. Other panics are printed as usual.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let heard = WATCHED.with_borrow_mut(|watched| {
                let Some(said) = watched else { return false };
                let place = info.location().map(|place| format!("{}:{}", place.file(), place.line()));
                *said =
                    Some((place.unwrap_or_default(), info.payload_as_str().unwrap_or_default().to_owned()));
                true
            });
            if !heard {
                before(info);
            }
        }));
    });
}
