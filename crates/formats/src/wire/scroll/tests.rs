//! The growing list, settled at any time.

use super::*;

fn text(scroll: &Scroll) -> String {
    let (settled, fresh) = scroll.clone().into_parts();
    settled.iter().map(|piece| &**piece).chain([fresh.as_str()]).collect()
}

#[test]
fn what_is_written_does_not_depend_on_when_it_is_settled() {
    let mut whole = Scroll::default();
    let mut settled = Scroll::default();
    for scroll in [&mut whole, &mut settled] {
        scroll.push("1");
    }
    settled.settle();
    for scroll in [&mut whole, &mut settled] {
        scroll.open("[", "]");
        scroll.part("2");
    }
    settled.settle();
    assert_eq!(whole.prefix("x", Some("4")), settled.prefix("x", Some("4")));
    for scroll in [&mut whole, &mut settled] {
        scroll.part("3");
        scroll.push_by_user(|out| out.push('4'));
    }
    assert_eq!((text(&whole).as_str(), text(&settled)), ("1,[2,3],4", text(&whole)));
    assert_eq!(settled.clone().into_parts().0.len(), 2);
    assert_eq!(whole.prefix("x", None), settled.prefix("x", None));
    assert_eq!((settled.length(), settled.count()), (9, 3));
    let last = settled.by_user().last().unwrap();
    assert_eq!(settled.text(last), "4");
}

#[test]
fn prefixes_tell_everything_apart() {
    let mut one = Scroll::default();
    one.open("[", "]");
    one.part("1");
    let mut closed = Scroll::default();
    closed.push("[1]");
    assert_eq!(one.prefix("", None), closed.prefix("", None), "only what goes out counts");
    assert_eq!(Scroll::default().prefix("", Some("[1]")), closed.prefix("", None));
    assert_ne!(one.prefix("", None), one.prefix("1", None));
    let before = one.prefix("", None);
    one.part("2");
    assert_ne!(one.prefix("", None), before);
}
