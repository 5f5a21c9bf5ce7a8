-- Large strings, once each.
CREATE TABLE IF NOT EXISTS blob (
    key INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    -- A zstd frame, or the bytes as they are if that is no longer than the frame would be.
    bytes BLOB NOT NULL
) STRICT;

-- Who uses them: a blob goes with its last use.
CREATE TABLE IF NOT EXISTS blob_use (
    blob INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    PRIMARY KEY (blob, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS blob_use_entry ON blob_use (entry);
