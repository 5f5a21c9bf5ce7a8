//! Random damage to the files of a store: bits, pages, ends, and swapped files.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::script::Dice;

/// The files of a folder: their paths in it, and their bytes.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Reads every file of a folder.
///
/// # Errors
/// If something in it cannot be read.
pub fn snapshot(folder: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for item in fs::read_dir(next)? {
            let path = item?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
                files.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

/// Writes files into a folder that has none.
///
/// # Errors
/// If they cannot be written.
pub fn materialise(files: &Files, folder: &Path) -> io::Result<()> {
    for (name, bytes) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// How a file is laid out, as far as damage likes to follow it.
#[derive(Debug, Clone, Copy)]
pub struct Grain {
    /// The header before the first page.
    pub head: usize,
    /// The size of a page.
    pub page: usize,
}

/// Damages one file, and says which and how. `older` has the files as they were some time ago; `grain` says where pages begin.
pub fn strike(
    dice: &mut Dice,
    files: &mut Files,
    older: &Files,
    grain: impl Fn(&Path) -> Grain,
) -> (PathBuf, String) {
    let name = choose(dice, files);
    let how = strike_in(dice, &name, files, older, grain(&name));
    (name, how)
}

/// Damages a file of that name, and says how.
///
/// # Panics
/// If there is no such file.
pub fn strike_in(dice: &mut Dice, name: &Path, files: &mut Files, older: &Files, grain: Grain) -> String {
    let Grain { head, page } = grain;
    let bytes = files.get_mut(name).expect("BUG: there is a file of that name");
    let size = bytes.len();
    let pages = (size.saturating_sub(head) / page).max(1) as u64;
    let some_page = |dice: &mut Dice| head + dice.below(pages) as usize * page;
    let what = match dice.below(12) {
        0 | 1 => {
            let at = dice.below(size as u64) as usize;
            let bit = dice.below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            format!("bit {bit} of byte {at} flipped")
        }
        2 => {
            // The beginning matters most: nothing is found without it.
            let at = dice.below(size.min(200) as u64) as usize;
            let bit = dice.below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            format!("bit {bit} of byte {at} flipped")
        }
        3 | 4 => {
            let at = some_page(dice).min(size);
            let end = (at + page).min(size);
            bytes[at..end].fill(0);
            format!("bytes {at} to {end} zeroed")
        }
        5 => {
            let at = dice.below(size as u64) as usize;
            let end = (at + 1 + dice.below(1500) as usize).min(size);
            bytes[at..end].iter_mut().for_each(|byte| *byte = dice.roll() as u8);
            format!("bytes {at} to {end} overwritten")
        }
        6 => {
            let end = some_page(dice).min(size);
            bytes.truncate(end);
            format!("cut at the page that begins at byte {end}")
        }
        7 => {
            let end = dice.below(size as u64) as usize;
            bytes.truncate(end);
            format!("cut at byte {end}")
        }
        8 => {
            let (one, other) = (some_page(dice), some_page(dice));
            if one.max(other) + page <= size {
                for place in 0..page {
                    bytes.swap(one + place, other + place);
                }
            }
            format!("the pages at {one} and {other} swapped")
        }
        9 => {
            let more = 1 + dice.below(3 * page as u64);
            bytes.extend((0..more).map(|_| dice.roll() as u8));
            format!("{more} bytes of garbage appended")
        }
        10 => {
            bytes.clear();
            String::from("emptied")
        }
        _ => match older.get(name) {
            Some(older) => {
                bytes.clone_from(older);
                String::from("replaced by an older copy")
            }
            None => {
                bytes.clear();
                String::from("emptied")
            }
        },
    };
    format!("{}: {what}", name.display())
}

/// Mostly the files that hold the most, sometimes any.
fn choose(dice: &mut Dice, files: &Files) -> PathBuf {
    let filled: Vec<&PathBuf> =
        files.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(name, _)| name).collect();
    let sizes = |name: &&PathBuf| files[*name].len() as u64;
    if dice.below(3) == 0 {
        return filled[dice.below(filled.len() as u64) as usize].clone();
    }
    let mut place = dice.below(filled.iter().map(&sizes).sum());
    for name in &filled {
        match place.checked_sub(sizes(name)) {
            Some(rest) => place = rest,
            None => return (*name).clone(),
        }
    }
    filled[0].clone()
}
