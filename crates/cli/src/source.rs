//! Where inputs come from: files and standard input, read up to the limit and no further.

use std::{
    fs::File,
    io::{self, Read as _},
};

use rejoin::{
    Input, InputError, ReadError, Session,
    record::limits,
    sessions::{self, FORMATS},
};

use crate::failure::Failure;

/// Reads the conversations of a file, or of standard input for `-`.
pub fn read(path: &str, from: Option<&str>) -> Result<(Input, Vec<Session>), Failure> {
    let (name, bytes) =
        if path == "-" { (String::from("standard input"), stdin()?) } else { (path.to_owned(), file(path)?) };
    let unreadable = |error: &ReadError| {
        let hint = hint(error, from);
        Failure::Unreadable { name: name.clone(), why: error.to_string(), hint }
    };
    let input = Input::new(if path == "-" { "-" } else { path }, &bytes)
        .map_err(|error| unreadable(&error.into()))?;
    drop(bytes);
    let format = from.and_then(sessions::registry::named);
    let sessions = sessions::read(&input, format).map_err(|error| unreadable(&error))?;
    Ok((input, sessions))
}

fn hint(error: &ReadError, from: Option<&str>) -> Option<String> {
    let formats: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    let formats = formats.join(", ");
    Some(match error {
        ReadError::UnknownFormat => format!("say what it is with `--from FORMAT`; known formats: {formats}"),
        ReadError::NoConversation(_) if from.is_some() => {
            format!("leave `--from` out, or try another of {formats}")
        }
        ReadError::NoConversation(_) => format!("rejoin reads {formats}"),
        ReadError::NotJson { .. } => format!("rejoin reads JSON in these formats: {formats}"),
        ReadError::Input(InputError::Empty) => format!("was it saved? rejoin reads {formats}"),
        ReadError::Input(InputError::Binary { .. }) => {
            format!("is it compressed, or a database? rejoin reads {formats}")
        }
        ReadError::Input(InputError::TooLarge { .. }) => String::from("split it: one conversation a file"),
    })
}

fn file(path: &str) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => Some(String::from("check the path; `-` reads standard input")),
            io::ErrorKind::PermissionDenied => Some(String::from("check who may read it: `ls -l`")),
            io::ErrorKind::IsADirectory => Some(String::from("give a file in it")),
            _ => None,
        };
        Failure::Unreadable { name: path.to_owned(), why: error.to_string(), hint }
    };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(unreadable(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    up_to_limit(file).map_err(unreadable)
}

fn stdin() -> Result<Vec<u8>, Failure> {
    up_to_limit(io::stdin().lock()).map_err(|error| Failure::Unreadable {
        name: String::from("standard input"),
        why: error.to_string(),
        hint: None,
    })
}

/// One byte more than the limit is enough to know that it is too much.
fn up_to_limit(reader: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limits::BODY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
