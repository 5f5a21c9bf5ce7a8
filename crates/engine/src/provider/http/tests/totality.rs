//! Any bytes that a server sends are read to an end without a panic.

use proptest::prelude::*;

use super::super::{models, refusal::ErrorAnswer};
use crate::auth::redact::{harmless, redact};

/// JSON, nearly JSON, and arbitrary text.
fn bodies() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("error"),
        Just("message"),
        Just("code"),
        Just("type"),
        Just("metadata"),
        Just("raw"),
        Just("detail"),
        Just("details"),
        Just("loc"),
        Just("msg"),
        Just("data"),
        Just("models"),
        Just("id"),
        Just("capabilities"),
        Just("limits"),
        Just("retryDelay"),
        Just("name"),
    ];
    let leaf = prop_oneof![
        Just(String::from("null")),
        any::<u64>().prop_map(|number| number.to_string()),
        ".{0,12}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        word.clone().prop_map(|word| format!("\"{word}\"")),
    ];
    let json = leaf.prop_recursive(4, 24, 4, move |inner| {
        let list =
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(",")));
        let field = (word.clone(), inner).prop_map(|(name, value)| format!("\"{name}\":{value}"));
        prop_oneof![
            list,
            prop::collection::vec(field, 0..4).prop_map(|fields| format!("{{{}}}", fields.join(",")))
        ]
    });
    let cut = (json.clone(), any::<prop::sample::Index>())
        .prop_map(|(text, at)| text.chars().take(at.index(text.chars().count() + 1)).collect());
    prop_oneof![4 => json, 1 => cut, 1 => any::<String>()]
}

proptest! {
    /// Any status with any body is an error of some kind, short and safe to print, without the secret.
    #[test]
    fn any_refusal_is_an_error(body in bodies(), status in prop::option::of(100_u16..1000), extra in ".{0,8}") {
        let secret = secrecy::SecretString::from("Sk-0123456789");
        let body = body.replacen("message", "message sk-0123456789", usize::from(body.len() % 2 == 0)) + &extra;
        let secrets = [&secret];
        let refusal = ErrorAnswer {
            provider: "p", status, body: &body, secrets: &secrets, retry_after: None, is_final: false,
        };
        let failure = refusal.failure();
        let shown = format!("{}", failure.error);
        prop_assert!(shown.chars().count() < 700, "{shown}");
        prop_assert!(!shown.chars().any(char::is_control), "{shown:?}");
        let all = format!("{:?}", failure.error).to_lowercase();
        prop_assert!(!all.contains("sk-0123456789"), "{all}");
        prop_assert!(!failure.again || failure.error.is_transient());
    }

    #[test]
    fn any_list_of_models_is_read_or_not(body in bodies()) {
        if let Some(models) = models::read(&body) {
            prop_assert!(models.iter().all(|model| model.name.as_deref() != Some(&model.id)));
        }
    }

    #[test]
    fn redacting_leaves_nothing_and_harmless_is_short(text in ".{0,80}", secret in "[a-zA-Z0-9-]{6,12}", at in any::<prop::sample::Index>()) {
        let mut characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len() + 1);
        characters.splice(at..at, secret.chars());
        let text: String = characters.into_iter().collect();
        let clean = redact(&text, &[&secret.as_str().into()]);
        prop_assert!(!clean.to_lowercase().contains(&secret.to_lowercase()), "{clean}");
        prop_assert!(harmless(&text, 10).chars().count() <= 11);
    }
}
