//! The scope of a conversation: the user, channel and thread that it belongs to. A `meta` entry stores it, in its field `scope`.

use crate::{
    json::{Doc, Object},
    text::Raw,
};

/// The owner of a conversation. Each of the three parts may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The user, as named by the program that serves them.
    pub user: String,
    /// The channel, room or chat.
    pub channel: String,
    /// The thread in the channel.
    pub thread: String,
}

impl Scope {
    /// The names of the parts, in the order of the fields.
    pub const PARTS: [&str; 3] = ["user", "channel", "thread"];

    /// The scope in the field of a `meta` entry; `None` if the field is about something else. A part that is missing or not a
    /// string is empty.
    pub fn read(field: &Raw) -> Option<Self> {
        let doc = Doc::parse(field.as_str()).ok()?;
        let root = doc.root()?;
        let given = Self::PARTS.map(|part| root.given(part));
        if given.iter().all(Option::is_none) {
            return None;
        }
        let [user, channel, thread] =
            given.map(|part| part.and_then(|part| part.as_str()).unwrap_or_default().into_owned());
        Some(Self { user, channel, thread })
    }

    /// Adds the parts to the scope object of a `meta` entry. Empty parts are left out. An empty scope is written as an empty user,
    /// so that it replaces an earlier one.
    pub fn write(&self, into: Object) -> Object {
        let named = Self::PARTS.iter().zip(self.parts()).filter(|(_, part)| !part.is_empty());
        let into = if self.is_empty() { into.text("user", "") } else { into };
        named.fold(into, |into, (name, part)| into.text(name, part))
    }

    /// The field of a `meta` entry.
    pub fn to_raw(&self) -> Raw {
        Raw::new(self.write(Object::new()).finish())
    }

    /// Whether all parts are empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The parts, in the order of [`Scope::PARTS`].
    pub fn parts(&self) -> [&str; 3] {
        [&self.user, &self.channel, &self.thread]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_was_written() {
        let scope = |user: &str, channel: &str, thread: &str| Scope {
            user: user.to_owned(),
            channel: channel.to_owned(),
            thread: thread.to_owned(),
        };
        for scope in [scope("u", "c", "t"), scope("u", "", ""), scope("", "c\0", "\"t"), Scope::default()] {
            assert_eq!(Scope::read(&scope.to_raw()), Some(scope));
        }
        assert_eq!(Scope::read(&Raw::new(r#"{"forked_from":{"conversation":"x"}}"#)), None);
        assert_eq!(Scope::read(&Raw::new(r#"{"user":7,"channel":"c"}"#)), Some(scope("", "c", "")));
        assert_eq!(Scope::read(&Raw::new("not JSON")), None);
    }
}
