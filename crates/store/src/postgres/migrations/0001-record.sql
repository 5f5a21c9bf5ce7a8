-- The record: conversations, and their entries in the order of appending. Statements of the append and read path use only these two
-- tables and `summary`, by conversation, so that they can be spread over several machines by it.
CREATE TABLE rejoin.conversation (
    id text COLLATE "C" PRIMARY KEY,
    -- The newest entry.
    seq bigint NOT NULL,
    tail uuid NOT NULL,
    hash bytea NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE rejoin.entry (
    conversation text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    id uuid NOT NULL,
    -- Null for a header.
    parent uuid,
    parent_hash bytea,
    -- Microseconds since 1970.
    at bigint NOT NULL,
    kind text NOT NULL,
    source_time text,
    -- The hash of salt and body; kept only where they were erased.
    inner_hash bytea,
    hash bytea NOT NULL,
    -- Salt and body are null where they were erased. The body is JSON in UTF-8, byte for byte as it was hashed.
    salt bytea,
    body bytea,
    -- The envelope's exact text, where a newer version wrote more into it, or where the columns cannot hold a text.
    envelope text,
    PRIMARY KEY (conversation, seq)
);

-- What lists show. It follows from the entries and can be made again from them.
CREATE TABLE rejoin.summary (
    id text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL,
    tail uuid NOT NULL,
    hash bytea NOT NULL,
    title text,
    renamed boolean NOT NULL,
    provider text,
    model text,
    directory text,
    format text,
    state text NOT NULL,
    messages bigint NOT NULL,
    entries bigint NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    -- What the state depends on, for the program alone.
    standing bytea NOT NULL,
    damaged boolean NOT NULL,
    forked_from text
) WITH (fillfactor = 70);
CREATE INDEX summary_newest ON rejoin.summary (updated DESC, id);

-- Conversations whose summary has to be made again.
CREATE TABLE rejoin.stale (
    id text COLLATE "C" PRIMARY KEY
);

-- The number of conversations, in parts, so that those who begin one do not wait for each other.
CREATE TABLE rejoin.total (
    part integer PRIMARY KEY,
    conversations bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO rejoin.total SELECT part, 0 FROM generate_series(0, 31) AS part;

-- Who writes to a conversation, and until when that counts.
CREATE TABLE rejoin.lease (
    conversation text COLLATE "C" PRIMARY KEY,
    token uuid NOT NULL,
    holder text NOT NULL,
    until timestamptz NOT NULL
);

-- What opens a long conversation faster. It may be deleted at any time.
CREATE TABLE rejoin.checkpoint (
    conversation text COLLATE "C" NOT NULL,
    piece integer NOT NULL,
    text bytea NOT NULL,
    PRIMARY KEY (conversation, piece)
);
