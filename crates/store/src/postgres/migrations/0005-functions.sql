-- The columns for calls and results that the table of chat bots had before `tool_calls`. Imported rows show them again.
ALTER TABLE rejoin.said ADD COLUMN function_calls jsonb, ADD COLUMN function_results jsonb;

-- Rows that were imported earlier get theirs.
UPDATE rejoin.summary SET reported = -1
 WHERE format IS NOT NULL AND (scope_user <> '' OR scope_channel <> '' OR scope_thread <> '');

CREATE OR REPLACE VIEW rejoin.conversation_history AS
    SELECT md5(m.conversation || ' ' || m.seq || ' ' || m.part)::uuid AS id,
           s.scope_user AS user_id, s.scope_channel AS channel_id, m.role AS message_type, m.content,
           m.function_calls, m.function_results,
           m.at AS created_at, m.at AS updated_at, m.tool_call_id, m.tool_calls, m.tool_name,
           s.scope_thread AS thread_id, m.conversation, m.seq
      FROM rejoin.said m JOIN rejoin.summary s ON s.id = m.conversation
     WHERE s.scope_user <> '' OR s.scope_channel <> '' OR s.scope_thread <> '';
