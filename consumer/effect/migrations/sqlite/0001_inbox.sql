CREATE TABLE tidemark_inbox (
    scope      text   NOT NULL,
    event_id   text   NOT NULL,
    entity     text   NOT NULL,
    sequence   bigint NOT NULL,
    topic      text   NOT NULL DEFAULT '',
    part       integer NOT NULL DEFAULT -1,
    off        bigint NOT NULL DEFAULT -1,
    generation bigint NOT NULL DEFAULT -1,
    applied_ms bigint NOT NULL,
    PRIMARY KEY (scope, event_id)
) WITHOUT ROWID;
CREATE TABLE tidemark_entity (
    scope    text   NOT NULL,
    entity   text   NOT NULL,
    sequence bigint NOT NULL,
    event_id text   NOT NULL,
    PRIMARY KEY (scope, entity)
) WITHOUT ROWID;
