-- Rows for reports. They follow from the entries and can be made again from them; a moment after an append they are up to date.

-- The newest entry whose rows are there.
ALTER TABLE rejoin.summary ADD COLUMN reported bigint NOT NULL DEFAULT -1;
CREATE INDEX summary_unreported ON rejoin.summary (id) WHERE reported < seq;

-- Messages of conversations that have a scope.
CREATE TABLE rejoin.said (
    conversation text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    part integer NOT NULL,
    role text NOT NULL,
    content text,
    tool_calls jsonb,
    tool_call_id text,
    tool_name text,
    at timestamptz NOT NULL,
    PRIMARY KEY (conversation, seq, part)
);

-- The calls of tools.
CREATE TABLE rejoin.called (
    conversation text COLLATE "C" NOT NULL,
    request uuid NOT NULL,
    number integer NOT NULL,
    -- The `seq` of the request.
    seq bigint NOT NULL,
    call_id text NOT NULL,
    tool text NOT NULL,
    status text NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    error_kind text,
    args_sha256 text NOT NULL,
    arguments text,
    error text,
    outcome text,
    PRIMARY KEY (conversation, request, number)
);
CREATE INDEX called_unfinished ON rejoin.called (conversation, seq) WHERE status IN ('requested', 'running');

-- What the operator decides. `audit_arguments`: whether `called` holds arguments and results (`true`), or hashes only.
CREATE TABLE rejoin.setting (
    name text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO rejoin.setting (name, value) VALUES ('audit_arguments', 'false');

-- The key of the hashes of arguments, without which short arguments could be guessed. Roles that only read reports need no right to it.
CREATE TABLE rejoin.secret (
    name text PRIMARY KEY,
    value bytea NOT NULL
);
INSERT INTO rejoin.secret (name, value)
    VALUES ('audit', sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- The table of messages that chat bots had, for the reports that read it.
CREATE VIEW rejoin.conversation_history AS
    SELECT md5(m.conversation || ' ' || m.seq || ' ' || m.part)::uuid AS id,
           s.scope_user AS user_id, s.scope_channel AS channel_id, m.role AS message_type, m.content,
           NULL::jsonb AS function_calls, NULL::jsonb AS function_results,
           m.at AS created_at, m.at AS updated_at, m.tool_call_id, m.tool_calls, m.tool_name,
           s.scope_thread AS thread_id, m.conversation, m.seq
      FROM rejoin.said m JOIN rejoin.summary s ON s.id = m.conversation
     WHERE s.scope_user <> '' OR s.scope_channel <> '' OR s.scope_thread <> '';

-- The audit of calls.
CREATE VIEW rejoin.tool_calls AS
    SELECT c.conversation, c.request AS request_id, c.call_id, c.tool AS tool_name, c.status, c.started_at, c.ended_at,
           greatest(0, round(extract(epoch FROM c.ended_at - c.started_at) * 1000))::bigint AS latency_ms,
           c.error_kind, c.error AS error_msg, c.args_sha256, c.arguments, c.outcome,
           s.scope_user AS user_id, s.scope_channel AS channel_id, s.scope_thread AS thread_id
      FROM rejoin.called c JOIN rejoin.summary s ON s.id = c.conversation;
