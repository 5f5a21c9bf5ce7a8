-- The record: conversations, and their entries in the order of appending.
CREATE TABLE IF NOT EXISTS conversation (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE IF NOT EXISTS entry (
    -- Grows by one with every entry of any conversation, and is never used again.
    key INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    id BLOB NOT NULL,
    -- The `seq` of the parent; the parent's id as 16 bytes, if it is not here; null for a header.
    parent ANY,
    -- Microseconds since 1970.
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    source_time TEXT,
    -- The hash of salt and body; kept only where they were erased.
    inner BLOB,
    hash BLOB NOT NULL,
    -- Salt and body are null where they were erased.
    salt BLOB,
    -- Text as it is, or four bytes of length (little end first) and an LZ4 block of it. `\x01N\x01` stands for the text of blob N.
    body ANY,
    -- The envelope's exact text, where a newer version wrote more into it.
    envelope TEXT
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS entry_place ON entry (conversation, seq);

-- Which store this is, and counters.
CREATE TABLE IF NOT EXISTS meta (
    name TEXT PRIMARY KEY,
    value ANY
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES ('store', lower(hex(randomblob(16)))), ('floor', 0), ('removed', 0);
