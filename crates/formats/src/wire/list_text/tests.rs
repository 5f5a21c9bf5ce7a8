//! The growing list, settled at any time.

use super::*;

fn text(list: &ListText) -> String {
    let (settled, fresh) = list.clone().into_parts();
    settled.iter().map(|piece| &**piece).chain([fresh.as_str()]).collect()
}

#[test]
fn what_is_written_does_not_depend_on_when_it_is_settled() {
    let mut whole = ListText::default();
    let mut settled = ListText::default();
    for list in [&mut whole, &mut settled] {
        list.push("1");
    }
    settled.settle();
    for list in [&mut whole, &mut settled] {
        list.open("r", "p");
        list.part("2");
    }
    settled.settle();
    assert_eq!(whole.prefix("x", Some("4")), settled.prefix("x", Some("4")));
    for list in [&mut whole, &mut settled] {
        list.part("3");
        list.push_by_user(|out| out.push('4'));
    }
    assert_eq!((text(&whole).as_str(), text(&settled)), (r#"1,{"role":"r","p":[2,3]},4"#, text(&whole)));
    assert_eq!(settled.clone().into_parts().0.len(), 2);
    assert_eq!(whole.prefix("x", None), settled.prefix("x", None));
    assert_eq!((settled.length(), settled.count()), (26, 3));
    let last = settled.by_user().last().unwrap();
    assert_eq!(settled.text(last), "4");
}

#[test]
fn prefixes_tell_everything_apart() {
    let mut one = ListText::default();
    one.open("r", "p");
    one.part("1");
    let mut closed = ListText::default();
    closed.push(r#"{"role":"r","p":[1]}"#);
    assert_eq!(one.prefix("", None), closed.prefix("", None), "only what goes out counts");
    assert_eq!(ListText::default().prefix("", Some(r#"{"role":"r","p":[1]}"#)), closed.prefix("", None));
    assert_ne!(one.prefix("", None), one.prefix("1", None));
    let before = one.prefix("", None);
    one.part("2");
    assert_ne!(one.prefix("", None), before);
}

#[test]
fn long_lists_have_the_prefix_of_their_text() {
    let mut whole = ListText::default();
    let mut settled = ListText::default();
    for number in 0..400 {
        let message = format!("\"{}\"", "x".repeat(number));
        whole.push(&message);
        settled.push(&message);
        settled.settle();
        // Asking for it changes nothing.
        if number % 90 == 7 {
            settled.prefix("", None);
        }
    }
    assert!(whole.length() > 2 * BATCH);
    assert_eq!(whole.prefix("x", None), settled.prefix("x", None));
    assert_eq!(settled.clone().prefix("y", None), whole.clone().prefix("y", None));
}
