CREATE INDEX tidemark_inbox_position ON tidemark_inbox (scope, topic, part, off);
CREATE INDEX tidemark_inbox_sequence ON tidemark_inbox (scope, entity, sequence);
CREATE INDEX tidemark_inbox_age ON tidemark_inbox (scope, applied_ms);
