-- Secrets of the gateway itself, sealed: the canary that refuses a wrong key.
CREATE TABLE secrets (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
