-- xzatoma makes every table that is missing when it opens the database, so only the one that is needed is here.
CREATE TABLE conversations (
  id TEXT PRIMARY KEY,
  title TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  model TEXT,
  messages JSON NOT NULL
);
CREATE INDEX idx_conversations_updated_at ON conversations(updated_at DESC);
