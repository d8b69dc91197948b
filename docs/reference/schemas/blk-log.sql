-- Reads documents `iotoll.blk-log/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "blk_log" AS SELECT * FROM read_json('blk-log.ndjson', columns = {
    "entries": 'STRUCT("block" UBIGINT, "command" BIGINT, "count" UBIGINT, "namespace" BIGINT, "queue" BIGINT, "status" VARCHAR)[]',
    "firmware": 'VARCHAR',
    "groups": 'STRUCT("advice" VARCHAR, "count" BIGINT, "first_block" UBIGINT, "last_block" UBIGINT, "namespace" BIGINT, "queue" BIGINT, "sentence" VARCHAR, "status_code" BIGINT, "status_type" BIGINT)[]',
    "made_by": 'VARCHAR',
    "model": 'VARCHAR',
    "namespaces": 'STRUCT("block_bytes" UBIGINT, "blocks" UBIGINT, "number" BIGINT)[]',
    "schema": 'VARCHAR',
    "serial": 'VARCHAR'
});
