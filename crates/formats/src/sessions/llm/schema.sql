-- The tables of llm 0.36. The view of migration m026 is left to llm, which makes it when it opens the database.
CREATE TABLE "_llm_migrations" ("name" TEXT PRIMARY KEY, "applied_at" TEXT);
INSERT INTO "_llm_migrations" ("name") SELECT "value" FROM json_each('[
  "m001_initial", "m002_id_primary_key", "m003_chat_id_foreign_key", "m004_column_order", "m004_drop_provider", "m005_debug",
  "m006_new_logs_table", "m007_finish_logs_table", "m008_reply_to_id_foreign_key", "m008_fix_column_order_in_logs",
  "m009_delete_logs_table_if_empty", "m010_create_new_log_tables", "m011_fts_for_responses", "m012_attachments_tables",
  "m013_usage", "m014_schemas", "m015_fragments_tables", "m016_fragments_table_pks", "m017_tools_tables", "m017_tools_plugin",
  "m018_tool_instances", "m019_resolved_model", "m020_tool_results_attachments", "m021_tool_results_exception",
  "m022_response_reasoning", "m023_message_store", "m024_tool_instance_references", "m025_turn_tools_instance_backfill",
  "m027_turns_response_json"
]');

-- What several of the tables refer to.
CREATE TABLE "attachments" ("id" TEXT PRIMARY KEY, "type" TEXT, "path" TEXT, "url" TEXT, "content" BLOB);
CREATE TABLE "schemas" ("id" TEXT PRIMARY KEY, "content" TEXT);
CREATE TABLE "fragments" ("id" INTEGER PRIMARY KEY, "hash" TEXT, "content" TEXT, "datetime_utc" TEXT, "source" TEXT);
CREATE UNIQUE INDEX "idx_fragments_hash" ON "fragments" ("hash");
CREATE TABLE "fragment_aliases" ("alias" TEXT PRIMARY KEY, "fragment_id" INTEGER REFERENCES "fragments"("id"));
CREATE TABLE "tools" (
  "id" INTEGER PRIMARY KEY, "hash" TEXT, "name" TEXT, "description" TEXT, "input_schema" TEXT, "plugin" TEXT
);
CREATE UNIQUE INDEX "idx_tools_hash" ON "tools" ("hash");
CREATE TABLE "tool_instances" ("id" INTEGER PRIMARY KEY, "plugin" TEXT, "name" TEXT, "arguments" TEXT);

-- Conversations, since 0.32.
CREATE TABLE "messages" (
  "hash" TEXT PRIMARY KEY, "parent_hash" TEXT REFERENCES "messages"("hash"), "role" TEXT, "provider_metadata" TEXT
);
CREATE INDEX "idx_messages_parent_hash" ON "messages" ("parent_hash");
CREATE TABLE "parts" (
  "id" INTEGER PRIMARY KEY,
  "message_hash" TEXT REFERENCES "messages"("hash"),
  "position" INTEGER,
  "type" TEXT,
  "tool_name" TEXT,
  "text" TEXT,
  "payload" TEXT
);
CREATE UNIQUE INDEX "idx_parts_message_hash_position" ON "parts" ("message_hash", "position");
CREATE TABLE "part_attachments" (
  "part_id" INTEGER REFERENCES "parts"("id"),
  "attachment_id" TEXT REFERENCES "attachments"("id"),
  "order" INTEGER,
  PRIMARY KEY ("part_id", "attachment_id", "order")
);
CREATE TABLE "part_fragments" (
  "part_id" INTEGER REFERENCES "parts"("id"),
  "fragment_id" INTEGER REFERENCES "fragments"("id"),
  "order" INTEGER,
  PRIMARY KEY ("part_id", "fragment_id", "order")
);
CREATE INDEX "idx_part_fragments_fragment_id" ON "part_fragments" ("fragment_id");
CREATE TABLE "threads" (
  "id" TEXT PRIMARY KEY,
  "name" TEXT,
  "tip_message_hash" TEXT REFERENCES "messages"("hash"),
  "forked_from" TEXT REFERENCES "threads"("id"),
  "datetime_utc" TEXT
);
CREATE TABLE "turns" (
  "id" TEXT PRIMARY KEY,
  "thread_id" TEXT REFERENCES "threads"("id"),
  "parent_message_hash" TEXT REFERENCES "messages"("hash"),
  "tip_message_hash" TEXT REFERENCES "messages"("hash"),
  "model" TEXT,
  "resolved_model" TEXT,
  "options_json" TEXT,
  "schema_id" TEXT REFERENCES "schemas"("id"),
  "input_tokens" INTEGER,
  "output_tokens" INTEGER,
  "token_details" TEXT,
  "duration_ms" INTEGER,
  "datetime_utc" TEXT,
  "response_json" TEXT
);
CREATE INDEX "idx_turns_thread_id" ON "turns" ("thread_id");
CREATE TABLE "turn_fragments" (
  "turn_id" TEXT REFERENCES "turns"("id"),
  "fragment_id" INTEGER REFERENCES "fragments"("id"),
  "order" INTEGER,
  "kind" TEXT,
  PRIMARY KEY ("turn_id", "fragment_id", "kind", "order")
);
CREATE INDEX "idx_turn_fragments_fragment_id" ON "turn_fragments" ("fragment_id");
CREATE TABLE "turn_tools" (
  "turn_id" TEXT REFERENCES "turns"("id"),
  "tool_id" INTEGER REFERENCES "tools"("id"),
  "instance_id" INTEGER REFERENCES "tool_instances"("id"),
  PRIMARY KEY ("turn_id", "tool_id")
);
CREATE TABLE "tool_instantiations" (
  "turn_id" TEXT REFERENCES "turns"("id"),
  "tool_call_id" TEXT,
  "instance_id" INTEGER REFERENCES "tool_instances"("id"),
  PRIMARY KEY ("turn_id", "tool_call_id")
);
CREATE TABLE "turn_search" (
  "id" INTEGER PRIMARY KEY, "turn_id" TEXT REFERENCES "turns"("id"), "prompt" TEXT, "response" TEXT
);
CREATE UNIQUE INDEX "idx_turn_search_turn_id" ON "turn_search" ("turn_id");
CREATE VIRTUAL TABLE "turn_search_fts" USING FTS5 ("prompt", "response", content="turn_search");
CREATE TRIGGER "turn_search_ai" AFTER INSERT ON "turn_search" BEGIN
  INSERT INTO "turn_search_fts" (rowid, "prompt", "response") VALUES (new.rowid, new."prompt", new."response");
END;
CREATE TRIGGER "turn_search_ad" AFTER DELETE ON "turn_search" BEGIN
  INSERT INTO "turn_search_fts" ("turn_search_fts", rowid, "prompt", "response")
    VALUES ('delete', old.rowid, old."prompt", old."response");
END;
CREATE TRIGGER "turn_search_au" AFTER UPDATE ON "turn_search" BEGIN
  INSERT INTO "turn_search_fts" ("turn_search_fts", rowid, "prompt", "response")
    VALUES ('delete', old.rowid, old."prompt", old."response");
  INSERT INTO "turn_search_fts" (rowid, "prompt", "response") VALUES (new.rowid, new."prompt", new."response");
END;

-- Conversations of older releases, which llm still reads.
CREATE TABLE "conversations" ("id" TEXT PRIMARY KEY, "name" TEXT, "model" TEXT);
CREATE TABLE "responses" (
  "id" TEXT PRIMARY KEY,
  "model" TEXT,
  "prompt" TEXT,
  "system" TEXT,
  "prompt_json" TEXT,
  "options_json" TEXT,
  "response" TEXT,
  "response_json" TEXT,
  "conversation_id" TEXT REFERENCES "conversations"("id"),
  "duration_ms" INTEGER,
  "datetime_utc" TEXT,
  "input_tokens" INTEGER,
  "output_tokens" INTEGER,
  "token_details" TEXT,
  "schema_id" TEXT REFERENCES "schemas"("id"),
  "resolved_model" TEXT,
  "reasoning" TEXT
);
CREATE VIRTUAL TABLE "responses_fts" USING FTS5 ("prompt", "response", content="responses");
CREATE TRIGGER "responses_ai" AFTER INSERT ON "responses" BEGIN
  INSERT INTO "responses_fts" (rowid, "prompt", "response") VALUES (new.rowid, new."prompt", new."response");
END;
CREATE TRIGGER "responses_ad" AFTER DELETE ON "responses" BEGIN
  INSERT INTO "responses_fts" ("responses_fts", rowid, "prompt", "response")
    VALUES ('delete', old.rowid, old."prompt", old."response");
END;
CREATE TRIGGER "responses_au" AFTER UPDATE ON "responses" BEGIN
  INSERT INTO "responses_fts" ("responses_fts", rowid, "prompt", "response")
    VALUES ('delete', old.rowid, old."prompt", old."response");
  INSERT INTO "responses_fts" (rowid, "prompt", "response") VALUES (new.rowid, new."prompt", new."response");
END;
CREATE TABLE "prompt_attachments" (
  "response_id" TEXT REFERENCES "responses"("id"),
  "attachment_id" TEXT REFERENCES "attachments"("id"),
  "order" INTEGER,
  PRIMARY KEY ("response_id", "attachment_id")
);
CREATE TABLE "prompt_fragments" (
  "response_id" TEXT REFERENCES "responses"("id"),
  "fragment_id" INTEGER REFERENCES "fragments"("id"),
  "order" INTEGER,
  PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "system_fragments" (
  "response_id" TEXT REFERENCES "responses"("id"),
  "fragment_id" INTEGER REFERENCES "fragments"("id"),
  "order" INTEGER,
  PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "tool_responses" (
  "tool_id" INTEGER REFERENCES "tools"("id"),
  "response_id" TEXT REFERENCES "responses"("id"),
  PRIMARY KEY ("tool_id", "response_id")
);
CREATE TABLE "tool_calls" (
  "id" INTEGER PRIMARY KEY,
  "response_id" TEXT REFERENCES "responses"("id"),
  "tool_id" INTEGER REFERENCES "tools"("id"),
  "name" TEXT,
  "arguments" TEXT,
  "tool_call_id" TEXT
);
CREATE TABLE "tool_results" (
  "id" INTEGER PRIMARY KEY,
  "response_id" TEXT REFERENCES "responses"("id"),
  "tool_id" INTEGER REFERENCES "tools"("id"),
  "name" TEXT,
  "output" TEXT,
  "tool_call_id" TEXT,
  "instance_id" INTEGER REFERENCES "tool_instances"("id"),
  "exception" TEXT
);
CREATE TABLE "tool_results_attachments" (
  "tool_result_id" INTEGER REFERENCES "tool_results"("id"),
  "attachment_id" TEXT REFERENCES "attachments"("id"),
  "order" INTEGER,
  PRIMARY KEY ("tool_result_id", "attachment_id")
);
