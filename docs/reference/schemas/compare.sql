-- Reads documents `iotoll.compare/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "compare" AS SELECT * FROM read_json('compare.ndjson', columns = {
    "after": 'STRUCT("command" VARCHAR[], "date" VARCHAR, "file" VARCHAR, "intervals" BIGINT, "machine" STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE), "made_by" VARCHAR, "seconds" DOUBLE)',
    "before": 'STRUCT("command" VARCHAR[], "date" VARCHAR, "file" VARCHAR, "intervals" BIGINT, "machine" STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE), "made_by" VARCHAR, "seconds" DOUBLE)',
    "differences": 'STRUCT("after" VARCHAR, "before" VARCHAR, "what" VARCHAR)[]',
    "documents": 'VARCHAR',
    "doubts": 'STRUCT("files" VARCHAR[], "side" VARCHAR, "words" VARCHAR)[]',
    "groups": 'STRUCT("explanations" STRUCT("after" DOUBLE, "before" DOUBLE, "cause" VARCHAR)[], "kind" VARCHAR, "name" VARCHAR, "rows" STRUCT("after" DOUBLE, "before" DOUBLE, "contestant" VARCHAR, "quantity" VARCHAR, "ratio" DOUBLE, "ratio_high" DOUBLE, "ratio_low" DOUBLE, "reason" VARCHAR, "runs_after" BIGINT, "runs_before" BIGINT, "sample" VARCHAR, "sign" VARCHAR, "stage" VARCHAR, "unit" VARCHAR)[])[]',
    "made_by": 'VARCHAR',
    "runs": 'STRUCT("after" STRUCT("command" VARCHAR[], "date" VARCHAR, "file" VARCHAR, "intervals" BIGINT, "machine" STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE), "made_by" VARCHAR, "seconds" DOUBLE)[], "before" STRUCT("command" VARCHAR[], "date" VARCHAR, "file" VARCHAR, "intervals" BIGINT, "machine" STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE), "made_by" VARCHAR, "seconds" DOUBLE)[])',
    "schema": 'VARCHAR'
});
