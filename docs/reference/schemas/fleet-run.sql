-- Reads documents `iotoll.fleet-run/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "fleet_run" AS SELECT * FROM read_json('fleet-run.ndjson', columns = {
    "errors": 'BIGINT',
    "errors_before": 'BIGINT',
    "inputs": 'BIGINT',
    "inputs_of_shard": 'BIGINT',
    "inspected": 'BIGINT',
    "inspected_before": 'BIGINT',
    "made_by": 'VARCHAR',
    "out": 'VARCHAR',
    "parts_written": 'BIGINT',
    "schema": 'VARCHAR',
    "shard": 'VARCHAR',
    "unlisted": 'BIGINT'
});
