-- A call that has not begun or ended has no latency. `greatest` ignores nulls, so it was 0.
CREATE OR REPLACE VIEW rejoin.tool_calls AS
    SELECT c.conversation, c.request AS request_id, c.call_id, c.tool AS tool_name, c.status, c.started_at, c.ended_at,
           CASE WHEN c.started_at IS NOT NULL AND c.ended_at IS NOT NULL
                THEN greatest(0, round(extract(epoch FROM c.ended_at - c.started_at) * 1000)) END::bigint AS latency_ms,
           c.error_kind, c.error AS error_msg, c.args_sha256, c.arguments, c.outcome,
           s.scope_user AS user_id, s.scope_channel AS channel_id, s.scope_thread AS thread_id
      FROM rejoin.called c JOIN rejoin.summary s ON s.id = c.conversation;
