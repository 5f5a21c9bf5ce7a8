//! What is damaged, copied into a file of its own beside the store. Such a file is never overwritten.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use rejoin_record::{ConversationId, hash};

use super::{Jsonl, files, pieces};
use crate::{error::StoreError, store::Damage};

/// The folder in the store's folder.
const FOLDER: &str = "aside";

impl Jsonl {
    /// Keeps a copy of something damaged, and says where. The same thing twice is one file; of what cannot be read at all
    /// there is none.
    ///
    /// # Errors
    /// If the folder cannot be written. What is damaged stays in its own file as well.
    pub fn set_aside(
        &self,
        conversation: ConversationId,
        damage: &Damage,
    ) -> Result<Option<PathBuf>, StoreError> {
        if damage.bytes.is_empty() {
            return Ok(None);
        }
        let folder = self.folder.join(FOLDER);
        files::make_folder(&folder)?;
        let name: String = hash::of_bytes(&damage.bytes).to_string().chars().take(16).collect();
        let path = folder.join(format!("{conversation}-{name}.txt"));
        let failed = || StoreError::io(format!("setting aside {}", path.display()));
        match files::make_new(&path) {
            Ok(mut file) => {
                file.write_all(&damage.bytes).and_then(|()| file.sync_data()).map_err(failed())?;
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(failed()(why)),
        }
        Ok(Some(path))
    }

    /// The files that hold what was set aside of a conversation.
    pub(super) fn asides(&self, conversation: ConversationId) -> io::Result<Vec<PathBuf>> {
        let folder = match fs::read_dir(self.folder.join(FOLDER)) {
            Ok(folder) => folder,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(why),
        };
        let beginning = format!("{conversation}-");
        let mut paths = Vec::new();
        for file in folder {
            let file = file?;
            if file.file_name().to_str().is_some_and(|name| name.starts_with(&beginning)) {
                paths.push(file.path());
            }
        }
        Ok(paths)
    }

    /// Removes what was set aside of a conversation: all of it, or what holds some text.
    pub(super) fn forget_asides(&self, conversation: ConversationId, with: Option<&str>) -> io::Result<()> {
        let mut removed = false;
        for path in self.asides(conversation)? {
            let holds = match with {
                None => true,
                Some(text) => pieces::find(&fs::read(&path)?, text.as_bytes()).is_some(),
            };
            if holds {
                fs::remove_file(&path)?;
                removed = true;
            }
        }
        if removed { files::sync_folder(&self.folder.join(FOLDER)) } else { Ok(()) }
    }
}
