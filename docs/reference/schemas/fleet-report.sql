-- Reads documents `iotoll.fleet-report/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "fleet_report" AS SELECT * FROM read_json('fleet-report.ndjson', columns = {
    "by_host": 'STRUCT("adapters" BIGINT, "critical" BIGINT, "host" VARCHAR, "input" VARCHAR, "machine" VARCHAR, "modified_us" BIGINT, "notes" BIGINT, "warnings" BIGINT)[]',
    "captures": 'BIGINT',
    "changes": 'STRUCT("after" VARCHAR, "before" VARCHAR, "host" VARCHAR, "modified_us" BIGINT, "what" VARCHAR)[]',
    "compared": 'BIGINT',
    "errors": 'STRUCT("input" VARCHAR, "kind" VARCHAR, "what" VARCHAR)[]',
    "findings": 'STRUCT("findings" BIGINT, "fixes" STRUCT("addresses" VARCHAR[], "commands" VARCHAR[], "findings" BIGINT, "fix" VARCHAR, "hosts" VARCHAR[], "risk" VARCHAR, "what" VARCHAR, "what_of" VARCHAR)[], "hosts" VARCHAR[], "id" VARCHAR, "severity" VARCHAR)[]',
    "hosts": 'BIGINT',
    "incomplete": 'BIGINT',
    "inputs": 'BIGINT',
    "made_by": 'VARCHAR',
    "odd": 'STRUCT("host" VARCHAR, "input" VARCHAR, "machine" VARCHAR, "peers" BIGINT, "same" BIGINT, "usual" VARCHAR, "value" VARCHAR, "what" VARCHAR)[]',
    "of_one_time": 'VARCHAR[]',
    "paths": 'STRUCT("adapters" BIGINT, "dma_path" VARCHAR, "hosts" BIGINT)[]',
    "schema": 'VARCHAR',
    "tables": 'VARCHAR',
    "unread": 'VARCHAR[]',
    "without_adapters": 'BIGINT'
});
