//! A failure, or the end of the process, at every single call that changes a file.

use rejoin_record::Entry;
use rejoin_store::memory::Memory;
use testkit::faults::{
    Child, ChildOutput, Dice, Fault, Job, Kind, Model, Script, Shim, Step, difference, digest, read_all,
    verified,
};

use super::{KINDS, Place, cases, conversation, each, shim};

/// A short script in which everything occurs: batches, large texts, a branch, an erasure.
const SEED: u64 = 68;
const STEPS: u64 = 6;

fn the_job(place: &Place) -> Job {
    Job { seed: SEED, ..place.job(1, STEPS) }
}

/// The entries that the script leaves in a store that never fails.
fn expected() -> Vec<Entry> {
    let store: Box<dyn rejoin_store::Store> = Box::new(Memory::new(digest));
    let mut script = Script::new(conversation(1), &[], SEED);
    let (mut erasures, mut branches, mut batches, mut large) = (0, 0, 0, 0);
    for _ in 0..STEPS {
        let after = script.tail();
        match script.step() {
            Step::Append(entries) => {
                batches += usize::from(entries.len() > 1);
                large += usize::from(entries.iter().any(|entry| entry.to_line().len() > 20_000));
                branches += entries.iter().filter(|entry| entry.envelope().kind.as_str() == "branch").count();
                store.append(conversation(1), after, &entries).unwrap();
            }
            Step::Erase { entry, note } => {
                erasures += 1;
                store.erase(conversation(1), after.unwrap(), entry, &note).unwrap();
            }
        }
    }
    assert!(erasures > 0 && branches > 0 && batches > 1 && large > 0, "the script shows too little");
    store.entries(conversation(1)).unwrap()
}

/// How many calls the script makes.
fn count(shim: &Shim, kind: &'static str) -> u64 {
    let place = Place::new(kind);
    let fault = place.fault(Kind::Eio, 0);
    let said = Child::of("child", &the_job(&place)).with(shim, &fault).run();
    assert!(said.done && said.failed.is_empty() && said.wrong.is_empty(), "{said:#?}");
    fault.calls().filter(|calls| *calls > 0).expect("the shim is loaded and counts calls")
}

fn ran(place: &Place, shim: &Shim, fault: &Fault) -> ChildOutput {
    let said = Child::of("child", &the_job(place)).with(shim, fault).run();
    assert!(said.wrong.is_empty(), "{fault:?}: {:?}\n{}", said.wrong, place.trace());
    said
}

/// Tries faults at every call that the script makes, each in a new place, for each kind of store.
fn at_every_call(shim: &Shim, faults: &[Kind], check: impl Fn(&Place, Kind, u64) + Sync) {
    for kind in KINDS {
        let calls = count(shim, kind);
        let cases = cases(calls, faults);
        println!("{kind}: {calls} calls, {} cases", cases.len());
        each(&cases, |fault, at| check(&Place::new(kind), fault, at));
    }
}

/// S4-24, B29: whichever call fails, acknowledged entries stay, the same entries can be appended again, each of them is stored
/// once, and in the end the store is the same as without the failure.
#[test]
fn a_call_that_fails_loses_nothing() {
    let Some(shim) = shim() else { return };
    let expected = expected();
    at_every_call(&shim, &Kind::REFUSALS, |place, fault, at| {
        let kind = place.kind;
        let said = ran(place, &shim, &place.fault(fault, at));
        assert!(said.done, "{kind} {fault:?} at {at}: the child did not come to its end\n{}", said.stderr);
        let mut model = Model::default();
        model.hear(&said);
        let store = place.open();
        let held = model.check(&*store, conversation(1));
        match held.and_then(|entries| verified(&*store, None).map(|()| entries)) {
            Ok(entries) => assert_eq!(difference(&entries, &expected), None, "{kind} {fault:?} at {at}"),
            Err(why) => panic!("{kind} {fault:?} at {at}: {why}\n{}", place.trace()),
        }
    });
}

/// B42, B50: at whichever call the process ends, by a kill or a power cut, acknowledged entries stay, nothing half written is
/// accepted, and the next process continues.
#[test]
fn an_end_at_any_call_loses_nothing() {
    let Some(shim) = shim() else { return };
    at_every_call(&shim, &Kind::ENDS, |place, end, at| {
        let kind = place.kind;
        let mut model = Model::default();
        let checked = |model: &Model, when: &str| {
            let store = match rejoin_store::open(&place.location(), super::WRITE) {
                Ok(store) => store,
                Err(why) => {
                    panic!("{kind} {end:?} at {at}, {when}: it does not open: {why}\n{}", place.trace())
                }
            };
            let held = model.check(&*store, conversation(1)).and_then(|_| verified(&*store, None));
            if let Err(why) = held {
                panic!("{kind} {end:?} at {at}, {when}: {why}\n{}", place.trace());
            }
        };
        model.hear(&ran(place, &shim, &place.fault(end, at)));
        // A process that only reads must not need to write.
        let reader = rejoin_store::open(&place.location(), super::READ);
        if model.acknowledged() > 0 {
            let held = reader.map_err(|why| why.to_string());
            let held = held.and_then(|store| model.check(&*store, conversation(1)));
            if let Err(why) = held {
                panic!("{kind} {end:?} at {at}, only read: {why}\n{}", place.trace());
            }
        }
        checked(&model, "afterwards");
        let job = Job { seed: Dice(at).roll(), steps: 3, ..the_job(place) };
        let said = Child::of("child", &job).run();
        assert!(
            said.done && said.wrong.is_empty() && said.failed.is_empty(),
            "{kind} {end:?} at {at}: {said:#?}"
        );
        model.hear(&said);
        checked(&model, "gone on with");
    });
}

/// B29: a failed operation leaves nothing that looks like damage after a crash.
#[test]
fn what_was_given_up_is_no_damage() {
    let Some(shim) = shim() else { return };
    at_every_call(&shim, &Kind::REFUSALS, |place, fault, at| {
        let kind = place.kind;
        let job = Job { what: String::from("give up"), ..the_job(place) };
        let said = Child::of("child", &job).with(&shim, &place.fault(fault, at)).run();
        let context = format!("{kind} {fault:?} at {at}");
        assert!(said.done && said.wrong.is_empty(), "{context}: {said:#?}");
        let store = place.open();
        let mut model = Model::default();
        model.hear(&said);
        let held = model.check(&*store, conversation(1)).and_then(|_| verified(&*store, None));
        if let Err(why) = held {
            panic!("{context}: {why}\n{}", place.trace());
        }
        let last = read_all(&*store, conversation(2)).unwrap();
        let last: Vec<String> = last
            .iter()
            .map(|entry| format!("{} {} {}", entry.envelope().seq, entry.id(), entry.hash()))
            .collect();
        assert_eq!(last, said.told, "{context}");
    });
}
