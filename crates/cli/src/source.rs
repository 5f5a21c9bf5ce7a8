//! Where inputs come from: files and standard input. What is too large for one text is read line by line.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use rejoin::{
    Input, InputError, ReadError, Session, Stream,
    record::limits,
    sessions::{self, FORMATS},
};

use crate::{beside::Beside, failure::Failure};

/// Reads the conversations of a file, or of standard input for `-`.
pub fn read(place: impl AsRef<Path>, from: Option<&str>) -> Result<(Input, Vec<Session>), Failure> {
    let (input, sessions) = read_input(place, from)?;
    Ok((input, sessions?))
}

/// Reads a file or standard input, and the conversations in it if there are any.
pub fn read_input(
    place: impl AsRef<Path>,
    from: Option<&str>,
) -> Result<(Input, Result<Vec<Session>, Failure>), Failure> {
    let place = place.as_ref();
    // A name need not be text to be a name; to a person it is shown as text.
    let path = &*place.to_string_lossy();
    let (name, source) = if path == "-" {
        (String::from("standard input"), Box::new(io::stdin()) as Box<dyn io::Read>)
    } else {
        (path.to_owned(), Box::new(file(place)?) as Box<dyn io::Read>)
    };
    let unreadable = |error: ReadError| {
        let hint = hint(&error, from);
        Failure::Unreadable { name: name.clone(), why: error.to_string(), hint }
    };
    let stopped =
        |error: io::Error| Failure::Unreadable { name: name.clone(), why: error.to_string(), hint: None };
    let format = from.and_then(sessions::named);
    let beside = (path != "-").then(|| Beside::new(place));
    let mut source = io::BufReader::with_capacity(READ_AT_ONCE, source);
    let mut bytes = Vec::new();
    (&mut source).take(LOOK_AT).read_to_end(&mut bytes).map_err(stopped)?;
    // The beginning tells whether it is a file of lines: such a file need not be one text to be read.
    let beginning = String::from_utf8_lossy(&bytes);
    let detected = format.or_else(|| sessions::detect(&beginning));
    let lines = detected.and_then(|format| format.read.as_ref()).filter(|reading| reading.lines);
    if lines.is_none() {
        // One byte more than the limit is enough to know that it is too much for one text.
        let rest = limits::BODY_BYTES as u64 + 1 - bytes.len() as u64;
        (&mut source).take(rest).read_to_end(&mut bytes).map_err(stopped)?;
    }
    let nothing = || Input { name: path.to_owned(), text: "".into(), replaced_at: None, companions: None };
    if lines.is_some() || bytes.len() > limits::BODY_BYTES {
        let too_large = ReadError::Input(InputError::TooLarge { bytes: bytes.len() });
        let reading = detected.and_then(|format| format.read.as_ref());
        let reading = reading.ok_or_else(|| unreadable(too_large))?;
        let mut whole = io::Cursor::new(bytes).chain(source);
        let stream =
            Stream { name: path, source: &mut whole, companions: beside.as_ref().map(|beside| beside as _) };
        let read = reading.read_stream(stream).map_err(unreadable)?;
        return Ok((nothing(), Ok(read)));
    }
    let mut input = Input::new(path, &bytes).map_err(|error| unreadable(error.into()))?;
    drop(bytes);
    input.companions = beside.map(|beside| Arc::new(beside) as _);
    let read = sessions::read(&input, format).map_err(unreadable);
    Ok((input, read))
}

/// How much is read at once.
const READ_AT_ONCE: usize = 256 * 1024;

/// How much of an input tells its format.
const LOOK_AT: u64 = 1024 * 1024;

fn hint(error: &ReadError, from: Option<&str>) -> Option<String> {
    let read = FORMATS.iter().filter(|format| format.read.is_some());
    let formats: Vec<&str> = read.map(|format| format.name).collect();
    let formats = formats.join(", ");
    Some(match error {
        ReadError::UnknownFormat => format!("say what it is with `--from FORMAT`; known formats: {formats}"),
        ReadError::NoConversation(_) if from.is_some() => {
            format!("leave `--from` out, or try another of {formats}")
        }
        ReadError::MostlyUnread { .. } if from.is_some() => {
            format!("leave `--from` out, or try another of {formats}")
        }
        ReadError::NoConversation(_) | ReadError::Foreign { .. } | ReadError::MostlyUnread { .. } => {
            format!("rejoin reads {formats}")
        }
        ReadError::Io(_) => return None,
        ReadError::NotJson { .. } => format!("rejoin reads JSON in these formats: {formats}"),
        ReadError::Input(InputError::Empty) => format!("was it saved? rejoin reads {formats}"),
        ReadError::Input(InputError::Binary { .. }) => {
            format!("is it compressed, or a database? rejoin reads {formats}")
        }
        ReadError::Input(InputError::TooLarge { .. }) => String::from("split it: one conversation a file"),
    })
}

fn file(path: &Path) -> Result<File, Failure> {
    let unreadable = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => Some(String::from("check the path; `-` reads standard input")),
            io::ErrorKind::PermissionDenied => Some(String::from("check who may read it: `ls -l`")),
            io::ErrorKind::IsADirectory => {
                Some(String::from("give a file in it, or `rejoin doctor` the folder"))
            }
            _ => None,
        };
        Failure::Unreadable { name: path.display().to_string(), why: error.to_string(), hint }
    };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(unreadable(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    Ok(file)
}
