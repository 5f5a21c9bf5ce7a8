//! Which source wins, for every combination of sources.

use super::*;

const NAMED: [ChoiceSource; 4] =
    [ChoiceSource::Flag, ChoiceSource::Conversation, ChoiceSource::Environment, ChoiceSource::Settings];

const PROVIDER: fn(&mut ProviderChoice) -> &mut Option<String> = |preference| &mut preference.provider;
const MODEL: fn(&mut ProviderChoice) -> &mut Option<String> = |preference| &mut preference.model;
const ADDRESS: fn(&mut ProviderChoice) -> &mut Option<String> = |preference| &mut preference.base_url;
const API: fn(&mut ProviderChoice) -> &mut Option<String> = |preference| &mut preference.api;

fn of(sources: &mut Sources, source: ChoiceSource) -> &mut ProviderChoice {
    match source {
        ChoiceSource::Flag => &mut sources.flags,
        ChoiceSource::Conversation => &mut sources.conversation,
        ChoiceSource::Environment => &mut sources.environment,
        ChoiceSource::Settings => &mut sources.settings,
        ChoiceSource::Default => unreachable!("it names nothing"),
    }
}

fn preference(provider: &str) -> ProviderChoice {
    ProviderChoice { provider: Some(provider.to_owned()), ..ProviderChoice::default() }
}

fn trust(provider: &str, base_url: &str) -> TrustedAddress {
    TrustedAddress {
        provider: provider.to_owned(),
        base_url: base_url.to_owned(),
        account: account(provider),
    }
}

/// An account function for which every provider has a key.
fn account(_: &str) -> Option<String> {
    Some(String::from("a key"))
}

/// A source that has a key for every provider.
struct AnyKey;

impl KeySource for AnyKey {
    fn keys(&self, _: &Service, _: &str) -> Vec<Key> {
        Key::api("sk-0123456789", crate::auth::KeyOrigin::Given).into_iter().collect()
    }
}

fn decide(sources: &Sources) -> Result<AnswerDecision, UntrustedAddress> {
    super::decide(sources, &account)
}

fn value_and_source(chosen: Option<&ChosenValue<String>>) -> (&str, ChoiceSource) {
    chosen.map_or(("", ChoiceSource::Default), |chosen| (chosen.value.as_str(), chosen.source))
}

/// The value that a source gives in [`every_combination`].
fn value(source: ChoiceSource, values: [&'static str; 4]) -> &'static str {
    values[NAMED.iter().position(|named| *named == source).unwrap()]
}

/// Sets one field in every combination of sources, from none to all, and checks that the first of `order` wins.
fn every_combination(
    order: [ChoiceSource; 4],
    values: [&'static str; 4],
    base: &Sources,
    field: fn(&mut ProviderChoice) -> &mut Option<String>,
    decided: fn(&AnswerDecision) -> Option<&ChosenValue<String>>,
) {
    for chosen in 0..16_usize {
        let gives = |source: ChoiceSource| chosen >> (source as usize) & 1 == 1;
        let mut sources = base.clone();
        for source in NAMED.into_iter().filter(|source| gives(*source)) {
            *field(of(&mut sources, source)) = Some(value(source, values).to_owned());
        }
        let winner = order.into_iter().find(|source| gives(*source));
        let expected = winner.map_or(("", ChoiceSource::Default), |winner| (value(winner, values), winner));
        let decision = decide(&sources).unwrap();
        assert_eq!(value_and_source(decided(&decision)), expected, "{sources:#?}");
    }
}

#[test]
fn provider_is_taken_from_flag_conversation_environment_settings() {
    let values = ["anthropic", "gemini", "groq", "mistral"];
    every_combination(NAMED, values, &Sources::default(), PROVIDER, |decision| decision.provider.as_ref());
}

#[test]
fn model_is_taken_from_flag_conversation_environment_settings() {
    let values = ["by-flag", "recorded", "by-variable", "set"];
    let named = Sources { flags: preference("openai"), ..Sources::default() };
    for base in [Sources::default(), named] {
        every_combination(NAMED, values, &base, MODEL, |decision| decision.model.as_ref());
    }
}

#[test]
fn address_is_taken_from_flag_environment_settings_conversation() {
    let order =
        [ChoiceSource::Flag, ChoiceSource::Environment, ChoiceSource::Settings, ChoiceSource::Conversation];
    let values = ["http://flag/v1", "http://recorded/v1", "http://variable/v1", "http://set/v1"];
    let trusted = vec![trust("openai", "http://recorded/v1")];
    let recorded = Sources { conversation: preference("openai"), trusted, ..Sources::default() };
    let set = Sources { settings: preference("openai"), ..recorded.clone() };
    for base in [recorded, set] {
        every_combination(order, values, &base, ADDRESS, |decision| decision.base_url.as_ref());
    }
}

#[test]
fn api_is_taken_from_flag_conversation_environment_settings() {
    let values = ["chat", "responses", "chat", "responses"];
    let base = Sources { conversation: preference("openai"), ..Sources::default() };
    every_combination(NAMED, values, &base, API, |decision| decision.api.as_ref());
}

/// Values that a source gives for one provider are not used with another provider that a stronger source names. The address in the
/// environment is the exception: it applies to any provider, as the flag does.
#[test]
fn what_belongs_to_another_provider_is_not_used() {
    for (at, stronger) in NAMED.into_iter().enumerate() {
        for weaker in NAMED.into_iter().skip(at + 1) {
            let mut sources = Sources::default();
            *of(&mut sources, stronger) = preference("anthropic");
            *of(&mut sources, weaker) = ProviderChoice {
                provider: Some("openai".into()),
                api: Some("chat".into()),
                model: Some("gpt-x".into()),
                base_url: Some("http://localhost:1/v1".into()),
                ..ProviderChoice::default()
            };
            let decision = decide(&sources).unwrap();
            assert_eq!(value_and_source(decision.provider.as_ref()), ("anthropic", stronger));
            assert_eq!((decision.model, decision.api), (None, None), "{stronger:?} over {weaker:?}");
            let address = value_and_source(decision.base_url.as_ref());
            if weaker == ChoiceSource::Environment {
                assert_eq!(address, ("http://localhost:1/v1", ChoiceSource::Environment));
            } else {
                assert_eq!(address, ("", ChoiceSource::Default), "{stronger:?} over {weaker:?}");
            }
        }
    }
}

/// Settings with an address and no provider apply that address to any provider.
#[test]
fn an_address_that_is_set_for_no_provider_applies_to_any() {
    let settings =
        ProviderChoice { base_url: Some("http://localhost:1/v1".into()), ..ProviderChoice::default() };
    for named in [ChoiceSource::Flag, ChoiceSource::Conversation, ChoiceSource::Environment] {
        let mut sources = Sources { settings: settings.clone(), ..Sources::default() };
        *of(&mut sources, named) = preference("openai");
        let decision = decide(&sources).unwrap();
        assert_eq!(
            value_and_source(decision.base_url.as_ref()),
            ("http://localhost:1/v1", ChoiceSource::Settings)
        );
    }
    let decision = decide(&Sources { settings, ..Sources::default() }).unwrap();
    assert_eq!(value_and_source(decision.provider.as_ref()), ("custom", ChoiceSource::Default));
}

#[test]
fn a_recorded_address_is_used_only_where_it_is_trusted_for_that_provider() {
    let there = "https://elsewhere.invalid/v1";
    let conversation = ProviderChoice { base_url: Some(there.into()), ..preference("openai") };
    let with = |trusted: &[TrustedAddress]| {
        decide(&Sources {
            conversation: conversation.clone(),
            trusted: trusted.to_vec(),
            ..Sources::default()
        })
    };
    let error = with(&[]).unwrap_err();
    assert_eq!((error.provider.as_str(), error.base_url.as_str()), ("openai", there));
    assert!(with(&[trust("anthropic", there)]).is_err(), "it was named for another provider");
    assert!(with(&[trust("openai", "https://elsewhere.invalid/v2")]).is_err());
    assert!(with(&[trust("openai", "http://elsewhere.invalid/v1")]).is_err());
    for known in [trust("openai", there), trust("ChatGPT", "https://elsewhere.invalid/v1/")] {
        let decision = with(&[known]).unwrap();
        assert_eq!(value_and_source(decision.base_url.as_ref()), (there, ChoiceSource::Conversation));
    }
    // The provider's own address needs no trust.
    let own = ProviderChoice { base_url: Some("https://api.openai.com/v1/".into()), ..preference("openai") };
    assert!(decide(&Sources { conversation: own, ..Sources::default() }).is_ok());
    // If the user names another provider or address, the recorded one does not matter.
    for flags in [
        preference("anthropic"),
        ProviderChoice { base_url: Some("http://mine".into()), ..ProviderChoice::default() },
    ] {
        let sources = Sources { flags, conversation: conversation.clone(), ..Sources::default() };
        assert!(decide(&sources).is_ok());
    }
}

/// An address that was used with a dummy key, or none, gets no other key because a conversation names it.
#[test]
fn an_address_is_trusted_with_the_key_that_it_was_used_with() {
    let there = "http://localhost:1/v1";
    let recorded = ProviderChoice { base_url: Some(there.into()), ..preference("openai") };
    let set = ProviderChoice { base_url: Some(there.into()), ..ProviderChoice::default() };
    for (used_with, now, is_trusted) in [
        (Some("dummy"), Some("dummy"), true),
        (Some("dummy"), Some("real"), false),
        (None, Some("real"), false),
        (Some("dummy"), None, true),
        (None, None, true),
    ] {
        let account = |_: &str| now.map(str::to_owned);
        let trusted =
            vec![TrustedAddress { account: used_with.map(str::to_owned), ..trust("openai", there) }];
        let followed = Sources { conversation: recorded.clone(), trusted, ..Sources::default() };
        let decision = super::decide(&followed, &account);
        assert_eq!(decision.is_ok(), is_trusted, "{used_with:?}, {now:?}");
        assert!(decision.err().is_none_or(|error| error.used_with_another_key));
        let environment =
            Sources { conversation: preference("openai"), environment: set.clone(), ..followed };
        let decision = super::decide(&environment, &account).unwrap();
        assert_eq!(decision.withholds_key, !is_trusted, "{used_with:?}, {now:?}");
    }
}

/// The conversation chooses the provider, and the environment or the settings choose the address. The provider's key goes there
/// only if the user named the address for this provider, now or earlier.
#[test]
fn a_key_goes_to_an_address_only_if_the_user_named_both() {
    let there = "http://localhost:1/v1";
    let address = ProviderChoice { base_url: Some(there.into()), ..ProviderChoice::default() };
    for source in [ChoiceSource::Environment, ChoiceSource::Settings] {
        let with = |named: Option<&str>, trusted: &[TrustedAddress]| {
            let mut sources = Sources {
                conversation: preference("openai"),
                trusted: trusted.to_vec(),
                ..Sources::default()
            };
            *of(&mut sources, source) =
                ProviderChoice { provider: named.map(str::to_owned), ..address.clone() };
            decide(&sources).unwrap()
        };
        let decision = with(None, &[]);
        let openai = registry::find("openai").unwrap();
        assert!(
            decision.withholds_key && decision.keys(&AnyKey).find(openai, "openai").is_none(),
            "{source:?}: has no provider"
        );
        assert!(with(None, &[trust("anthropic", there)]).withholds_key, "{source:?}: trusted for another");
        assert!(!with(None, &[trust("openai", there)]).withholds_key, "{source:?}: trusted");
        assert!(!with(Some("openai"), &[]).withholds_key, "{source:?}: named for this one");
    }
    // The settings say which provider the environment's address belongs to. An address for another provider is ignored in the
    // settings; in the environment it withholds the key.
    let mine = Sources {
        conversation: preference("openai"),
        environment: address.clone(),
        settings: preference("ollama"),
        ..Sources::default()
    };
    assert!(decide(&mine).unwrap().withholds_key);
    assert!(!decide(&Sources { settings: preference("openai"), ..mine.clone() }).unwrap().withholds_key);
    // A flag names both, whatever the conversation recorded.
    for flags in [preference("openai"), address] {
        let named = Sources { flags, ..mine.clone() };
        assert!(!decide(&named).unwrap().withholds_key, "{:?}", named.flags);
    }
}

/// An API that was recorded at one address does not apply to a server at another.
#[test]
fn a_recorded_api_belongs_to_its_address() {
    let conversation = ProviderChoice { api: Some("responses".into()), ..preference("openai") };
    let api = |sources: &Sources| decide(sources).unwrap().api;
    let recorded = Sources { conversation, ..Sources::default() };
    assert!(api(&recorded).is_some());
    for source in [ChoiceSource::Flag, ChoiceSource::Environment, ChoiceSource::Settings] {
        let mut sources = recorded.clone();
        of(&mut sources, source).base_url = Some("http://localhost:1/v1".into());
        assert_eq!(api(&sources), None, "{source:?}");
        sources.conversation.base_url = Some("http://localhost:1/v1".into());
        assert!(api(&sources).is_some(), "{source:?}");
    }
}

/// An API that is set without a provider is ignored for a provider that does not offer it.
#[test]
fn an_api_that_a_provider_lacks_is_used_only_if_asked_for() {
    let environment = ProviderChoice { api: Some("responses".into()), ..ProviderChoice::default() };
    let with = |provider: &str| Sources {
        flags: preference(provider),
        environment: environment.clone(),
        ..Sources::default()
    };
    assert_eq!(decide(&with("anthropic")).unwrap().api, None);
    assert!(decide(&with("openai")).unwrap().api.is_some());
}

#[test]
fn aliases_and_blank_values() {
    let sources = Sources {
        flags: ProviderChoice {
            provider: Some(" Claude ".into()),
            model: Some("  ".into()),
            ..ProviderChoice::default()
        },
        settings: ProviderChoice { model: Some("claude-x".into()), ..preference("anthropic") },
        ..Sources::default()
    };
    let decision = decide(&sources).unwrap();
    assert_eq!(value_and_source(decision.provider.as_ref()), ("anthropic", ChoiceSource::Flag));
    assert_eq!(value_and_source(decision.model.as_ref()), ("claude-x", ChoiceSource::Settings));
}
