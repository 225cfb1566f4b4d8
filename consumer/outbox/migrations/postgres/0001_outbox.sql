CREATE TABLE tidemark_outbox (
    position     bigserial PRIMARY KEY,
    scope        text     NOT NULL,
    event_id     text     NOT NULL,
    topic        text     NOT NULL,
    lane         text     NOT NULL,
    record_key   bytea,
    record_value bytea,
    value_null   smallint NOT NULL,
    headers      text     NOT NULL,
    status       smallint NOT NULL DEFAULT 0,
    attempts     integer  NOT NULL DEFAULT 0,
    error        text     NOT NULL DEFAULT '',
    part         integer  NOT NULL DEFAULT -1,
    off          bigint   NOT NULL DEFAULT -1,
    created_ms   bigint   NOT NULL,
    closed_ms    bigint   NOT NULL DEFAULT 0,
    UNIQUE (scope, event_id)
);
CREATE INDEX tidemark_outbox_pending ON tidemark_outbox (scope, position) WHERE status = 0;
CREATE INDEX tidemark_outbox_sending ON tidemark_outbox (scope, position) WHERE status = 1;
CREATE INDEX tidemark_outbox_poison ON tidemark_outbox (scope, lane) WHERE status = 3;
CREATE TABLE tidemark_outbox_publisher (
    scope      text   NOT NULL PRIMARY KEY,
    owner      text   NOT NULL,
    expires_ms bigint NOT NULL,
    boundary   text   NOT NULL
);
