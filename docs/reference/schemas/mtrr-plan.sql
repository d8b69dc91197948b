-- Reads documents `iotoll.mtrr-plan/2` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "mtrr_plan" AS SELECT * FROM read_json('mtrr-plan.ndjson', columns = {
    "machine": 'STRUCT("address_bits" BIGINT, "default" STRUCT("reasons" STRUCT("at" STRUCT("file" VARCHAR, "line" BIGINT, "text" VARCHAR), "kind" VARCHAR, "ram" VARCHAR)[], "top_mem2" UBIGINT, "type" VARCHAR), "kernel" VARCHAR, "layout" VARCHAR, "register_count" BIGINT, "registers" STRUCT("count" BIGINT, "number" BIGINT, "range" VARCHAR, "type" VARCHAR)[])',
    "made_by": 'VARCHAR',
    "plan": 'STRUCT("before" STRUCT("count" BIGINT, "number" BIGINT, "range" VARCHAR, "type" VARCHAR)[], "layout" VARCHAR, "steps" STRUCT("register" BIGINT, "step" STRUCT("kind" VARCHAR, "range" VARCHAR, "register" BIGINT, "type" VARCHAR), "table" STRUCT("count" BIGINT, "number" BIGINT, "range" VARCHAR, "type" VARCHAR)[], "transients" STRUCT("after" STRUCT("type" VARCHAR, "undefined" VARCHAR[]), "before" STRUCT("type" VARCHAR, "undefined" VARCHAR[]), "harm" VARCHAR, "meanwhile" STRUCT("type" VARCHAR, "undefined" VARCHAR[]), "range" VARCHAR)[], "undo" STRUCT("kind" VARCHAR, "range" VARCHAR, "register" BIGINT, "type" VARCHAR)[])[], "wishes" STRUCT("range" VARCHAR, "type" VARCHAR)[])',
    "registers_evidence": 'STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR)',
    "schema": 'VARCHAR'
});
