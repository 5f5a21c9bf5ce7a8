//! Power cuts at every sync of every operation on a store: later writes are dropped, reordered or torn.
//!
//! `REJOIN_FAULTS` tests every state; an ordinary run tests some of them. `REJOIN_SEED` chooses others.

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    fs,
    hash::{Hash as _, Hasher as _},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use rejoin_engine::open_store;
use rejoin_store::Access;
use testkit::faults::{
    Child, Cut, Dice, Job, Journal, Ledger, Place, Shim, failures, materialise, number_from, quick_folder,
    thorough,
};

use super::{Jobs as _, KINDS, deeds, shim};

/// The operations during which the power fails.
const DEEDS: [&str; 9] = ["begin", "turn", "say", "import", "fork", "erase", "delete", "copy", "rename"];

/// Makes the store, and folders for it.
const FIRST: &str = "first";

/// How often, for each moment, the remaining writes are chosen at random.
const BY_CHANCE: u64 = 5;

/// A store in which something was done, and how.
struct Scene {
    kind: &'static str,
    deed: &'static str,
    seed: u64,
    /// The path of the store in the folder.
    inside: &'static str,
    journal: Journal,
    /// The facts that were known before.
    ledger: Ledger,
}

/// Does a deed to a store that holds something, and writes down each call.
fn scene(kind: &'static str, deed: &'static str, seed: u64, shim: &Shim) -> Result<Scene, String> {
    let place = Place::new(quick_folder(), kind);
    deeds::make_other(&place.notes(), kind);
    let mut ledger = Ledger::default();
    let inside = if deed == FIRST { "new/deeper" } else { "" };
    let child = |what: &str, seed, steps| {
        let store = Place::location_in(&place.under().join(inside), kind);
        let job = Job { store, ..place.job(what, seed, steps) };
        Child::of("child", &job).env("REJOIN_NOTES", place.notes())
    };
    if deed != FIRST {
        for (what, steps) in [("deed begin", 2), ("deed say", 6), ("deed turn", 1)] {
            let said = child(what, seed, steps).run();
            if !said.done {
                return Err(format!("setting up: {}", said.stderr));
            }
            ledger.hear(&said);
        }
    }
    let before = Journal::begin(&place.under()).map_err(|why| why.to_string())?;
    let path = place.notes().join("journal");
    let what = if deed == FIRST { "begin" } else { deed };
    let said = child(&format!("deed {what}"), seed, 2).with_journal(shim, &place.under(), &path).run();
    if !said.done {
        return Err(format!("{deed}: {}", said.stderr));
    }
    let journal = before.journal(&path)?;
    Ok(Scene { kind, deed, seed, inside, journal, ledger })
}

/// One state of the disk after the power went.
fn after(scene: &Scene, cut: Cut, seen: &Mutex<HashSet<u64>>) -> Option<Vec<String>> {
    let (files, folders) = scene.journal.after(cut);
    let said = scene.journal.said(cut.at);
    let mut hasher = DefaultHasher::new();
    (scene.kind, scene.deed, scene.seed, &files, &folders, said.len()).hash(&mut hasher);
    if !seen.lock().unwrap().insert(hasher.finish()) {
        return None;
    }
    let folder = quick_folder();
    let store = folder.path().join("store");
    for path in &folders {
        fs::create_dir_all(store.join(path)).unwrap();
    }
    materialise(&files, &store).unwrap();
    let mut ledger = scene.ledger.clone();
    for line in &said {
        ledger.hear_line(line);
    }
    let mut wrong = Vec::new();
    for access in [Access::Read, Access::Write] {
        match open_store(&Place::location_in(&store.join(scene.inside), scene.kind), access) {
            Ok(store) => wrong.extend(ledger.check(&*store)),
            Err(_) if access == Access::Read && ledger.acknowledged() == 0 => {}
            Err(why) => wrong.push(format!("does not open: {access:?}: {why}")),
        }
    }
    let Scene { kind, deed, seed, .. } = scene;
    let about = format!("{kind}, {deed}, seed {seed}, {cut:?}");
    Some(wrong.iter().map(|why| format!("{kind}, {why}\n    {about}")).collect())
}

/// The faults after power cuts at every sync of some operations.
fn power_cuts(shim: &Shim, deeds: &[&'static str]) -> Vec<String> {
    let first = number_from("REJOIN_SEED").unwrap_or(1);
    let both = KINDS.iter().flat_map(|kind| deeds.iter().map(move |deed| (*kind, *deed)));
    let scenes: Vec<Scene> = both.map(|(kind, deed)| scene(kind, deed, first, shim).unwrap()).collect();
    let mut cuts: Vec<(&Scene, Cut)> = Vec::new();
    for scene in &scenes {
        for at in scene.journal.moments() {
            cuts.extend(
                (0..4 + BY_CHANCE).map(|way| (scene, Cut { at, way: way + (way / 4) * first * 100 })),
            );
        }
    }
    if !thorough() {
        let mut dice = Dice(first);
        cuts.retain(|_| dice.below(15) == 0);
    }
    let syncs: usize = scenes.iter().map(|scene| scene.journal.syncs()).sum();
    let (next, states) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (seen, all) = (Mutex::default(), Mutex::new(Vec::new()));
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((scene, cut)) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(wrong) = after(scene, *cut, &seen) {
                        states.fetch_add(1, Ordering::Relaxed);
                        all.lock().unwrap().extend(wrong);
                    }
                }
            });
        }
    });
    let states = states.into_inner();
    println!("{states} states of the disk at {syncs} syncs in {} scenes", scenes.len());
    assert!(states > 20, "too few states");
    all.into_inner().unwrap()
}

/// B50: at every sync of every operation on a store, the power may fail: everything acknowledged is kept, the store opens and can
/// be read in every way, and `verify` finds no damage.
#[test]
fn a_power_cut_loses_nothing() {
    let Some(shim) = shim() else { return };
    failures(&power_cuts(&shim, &DEEDS));
}

/// The same for a store that is being created, in new folders.
#[test]
fn a_power_cut_after_the_first_append_loses_nothing() {
    let Some(shim) = shim() else { return };
    failures(&power_cuts(&shim, &[FIRST]));
}
