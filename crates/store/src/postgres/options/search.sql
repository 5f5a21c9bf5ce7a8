-- The words of entries, for searches. They follow from the entries and can be made again from them.

-- The newest entry whose words are there.
ALTER TABLE rejoin.summary ADD COLUMN searched bigint NOT NULL DEFAULT -1;
CREATE INDEX summary_unsearched ON rejoin.summary (id) WHERE searched < seq;

CREATE TABLE rejoin.words (
    -- An erasure deletes the summary, and so the words, whichever version of the program erases.
    conversation text COLLATE "C" NOT NULL REFERENCES rejoin.summary (id) ON DELETE CASCADE,
    seq bigint NOT NULL,
    -- Null if there are too many for a tsvector. Then every search reads the entry.
    words tsvector,
    PRIMARY KEY (conversation, seq)
);
CREATE INDEX words_by_word ON rejoin.words USING gin (words);
CREATE INDEX words_too_many ON rejoin.words (conversation, seq) WHERE words IS NULL;
