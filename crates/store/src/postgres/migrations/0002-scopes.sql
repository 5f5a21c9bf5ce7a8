-- Whose a conversation is. Each part may be empty.
ALTER TABLE rejoin.summary ADD COLUMN scope_user text NOT NULL DEFAULT '';
ALTER TABLE rejoin.summary ADD COLUMN scope_channel text NOT NULL DEFAULT '';
ALTER TABLE rejoin.summary ADD COLUMN scope_thread text NOT NULL DEFAULT '';
CREATE INDEX summary_of_user ON rejoin.summary (scope_user, updated DESC, id) WHERE scope_user <> '';
CREATE INDEX summary_of_channel ON rejoin.summary (scope_channel, updated DESC, id) WHERE scope_channel <> '';
CREATE INDEX summary_of_thread ON rejoin.summary (scope_thread, updated DESC, id) WHERE scope_thread <> '';
