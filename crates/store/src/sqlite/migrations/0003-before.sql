-- The column `entry.before` (added in `schema.rs`, since a column cannot be added twice) says what an entry was appended to: the
-- parent's id (16 bytes) and hash (32 bytes). It proves an entry whose parent was lost. Entries of older versions do without.

-- What still has to be taken out of the files after something was erased or deleted: see `scrub.rs`.
INSERT OR IGNORE INTO meta VALUES ('scrub', '');
