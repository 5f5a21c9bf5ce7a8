//! The plan of a body: its content and its faults, before anything is written. Shared by several shapes.

use proptest::{option, prelude::*, sample::select};

/// How a text looks around its token.
#[derive(Debug, Clone, Copy)]
pub enum Dress {
    /// Just words.
    Plain,
    /// Several lines and quotes.
    Lines,
    /// A NUL and an escape sequence.
    Control,
    /// Half of a surrogate pair.
    Lone,
    /// Nothing but white space, without a token.
    Blank,
    /// Nothing at all.
    Empty,
}

pub fn dress() -> impl Strategy<Value = Dress> {
    prop_oneof![
        8 => Just(Dress::Plain), 2 => Just(Dress::Lines), 1 => Just(Dress::Control), 1 => Just(Dress::Lone),
        1 => Just(Dress::Blank), 1 => Just(Dress::Empty)
    ]
}

pub const IDS: &[&str] = &[
    "c1",
    "c2",
    "c3",
    "c4",
    "functions.read:0",
    "a b",
    "call_2_0",
    "c1_2",
    "toolu_01234567890123456789012345678901234567890123456789012345678901234567",
];
pub const NAMES: &[&str] = &["read", "run_tests", "mcp.files:list", "", "näme"];
/// Arguments as text, and whether they are an object (then a token goes in front).
pub const OBJECTS: &[&str] = &[
    "{%}",
    "{%,\"a\":1}",
    " {%, \"n\": 123456789012345678901234567890.5e400 } ",
    "{%,\"a\":1,\"a\":2}",
    "{%,\"e\":\"\\u0000\"}",
    "{%,\"s\":\"\\ud83d\"}",
    "{%,\"o\":{\"p\":[1,[2]]}}",
];
pub const NO_OBJECTS: &[&str] = &["{\"a\":", "[1]", "\"x\"", "not json", "5", "{\"a\":NaN}"];
pub const BLANKS: &[&str] = &["", " "];

#[derive(Debug, Clone)]
pub enum Args {
    Object(usize),
    NoObject(usize),
    Blank(usize),
    Absent,
    /// The other dialect's form: JSON in place of a string, or a string in place of JSON.
    Swapped(usize),
    Deep(usize),
}

pub fn args() -> impl Strategy<Value = Args> {
    prop_oneof![
        8 => (0..OBJECTS.len()).prop_map(Args::Object), 1 => (0..NO_OBJECTS.len()).prop_map(Args::NoObject),
        1 => (0..BLANKS.len()).prop_map(Args::Blank), 1 => Just(Args::Absent),
        1 => (0..OBJECTS.len()).prop_map(Args::Swapped), 1 => select(vec![126usize, 128, 129, 300]).prop_map(Args::Deep)
    ]
}

#[derive(Debug, Clone)]
pub struct Call {
    pub id: Option<usize>,
    pub name: usize,
    pub args: Args,
}

pub fn call() -> impl Strategy<Value = Call> {
    (option::weighted(0.95, id()), name(), args()).prop_map(|(id, name, args)| Call { id, name, args })
}

/// A call that any dialect takes, but for its id.
pub fn sound_call() -> impl Strategy<Value = Call> {
    (id(), 0..2usize, 0..2usize).prop_map(|(id, name, object)| Call {
        id: Some(id),
        name,
        args: Args::Object(object),
    })
}

pub fn id() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..4usize, 1 => 4..IDS.len()]
}

pub fn name() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..2usize, 1 => 2..NAMES.len()]
}

/// The value of `content`, which consists of parts of some kind.
#[derive(Debug, Clone)]
pub enum Content<P> {
    Text(Dress),
    Parts(Vec<P>),
    Null,
    Absent,
}

pub fn content<P: Clone + std::fmt::Debug>(
    part: impl Strategy<Value = P>,
) -> impl Strategy<Value = Content<P>> {
    prop_oneof![
        6 => dress().prop_map(Content::Text), 3 => proptest::collection::vec(part, 0..3).prop_map(Content::Parts),
        1 => Just(Content::Null), 1 => Just(Content::Absent)
    ]
}

/// The fields around the messages.
#[derive(Debug, Clone)]
pub struct Around {
    pub whole: bool,
    pub tools: usize,
    pub system: Option<Dress>,
    pub thinking: bool,
    pub model: bool,
    pub spaced: bool,
}

pub fn around() -> impl Strategy<Value = Around> {
    (
        prop::bool::weighted(0.7),
        0..4usize,
        option::of(dress()),
        prop::bool::weighted(0.2),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(whole, tools, system, thinking, model, spaced)| Around {
            whole,
            tools,
            system,
            thinking,
            model,
            spaced,
        })
}
