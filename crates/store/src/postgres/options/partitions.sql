-- Entries in 16 tables, by a hash of the conversation. Later migrations change `rejoin.entry`, and the server changes all of them.
LOCK TABLE rejoin.entry IN ACCESS EXCLUSIVE MODE;
ALTER INDEX rejoin.entry_pkey RENAME TO entry_before_pkey;
ALTER TABLE rejoin.entry RENAME TO entry_before;
CREATE TABLE rejoin.entry (LIKE rejoin.entry_before INCLUDING ALL) PARTITION BY HASH (conversation);
DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format('CREATE TABLE rejoin.entry_%s PARTITION OF rejoin.entry FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END
$$;
