-- Reads documents `iotoll.sweep/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "sweep" AS SELECT * FROM read_json('sweep.ndjson', columns = {
    "done": 'BIGINT',
    "errors": 'BIGINT',
    "errors_before": 'BIGINT',
    "made_by": 'VARCHAR',
    "model": 'VARCHAR',
    "out": 'VARCHAR',
    "parts_written": 'BIGINT',
    "plan": 'VARCHAR',
    "points": 'UBIGINT',
    "points_of_shard": 'BIGINT',
    "schema": 'VARCHAR',
    "shard": 'VARCHAR',
    "skipped": 'BIGINT',
    "what": 'VARCHAR'
});
