-- Reads documents `iotoll.toll-diff/3` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "toll_diff" AS SELECT * FROM read_json('toll-diff.ndjson', columns = {
    "a": 'STRUCT("dma_path" VARCHAR, "file" VARCHAR, "kernel" STRUCT("command_line" VARCHAR, "package" VARCHAR, "release" VARCHAR), "preset" VARCHAR)',
    "b": 'STRUCT("dma_path" VARCHAR, "file" VARCHAR, "kernel" STRUCT("command_line" VARCHAR, "package" VARCHAR, "release" VARCHAR), "preset" VARCHAR)',
    "changes": 'STRUCT("a" DOUBLE, "average" VARCHAR, "b" DOUBLE, "change" VARCHAR, "event" VARCHAR, "event_name" VARCHAR, "function" VARCHAR, "grew" BOOLEAN, "may_be_chance" BOOLEAN, "only_in" VARCHAR, "stage" VARCHAR, "workload" VARCHAR)[]',
    "grew": 'BOOLEAN',
    "limit": 'STRUCT("events" DOUBLE, "instructions" DOUBLE, "instructions_percent" DOUBLE)',
    "made_by": 'VARCHAR',
    "schema": 'VARCHAR'
});
