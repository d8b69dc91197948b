-- Reads documents `iotoll.range/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "range" AS SELECT * FROM read_json('range.ndjson', columns = {
    "doubts": 'VARCHAR[]',
    "made_by": 'VARCHAR',
    "mappings": 'STRUCT("answer" STRUCT("kind" VARCHAR, "page" VARCHAR), "call" VARCHAR, "parts" STRUCT("range" VARCHAR, "type" VARCHAR)[], "reasons" STRUCT("at" STRUCT("file" VARCHAR, "line" BIGINT, "text" VARCHAR), "what" VARCHAR)[])[]',
    "parts": 'STRUCT("mtrr" STRUCT("type" VARCHAR, "undefined" VARCHAR[]), "range" VARCHAR, "reasons" STRUCT("at" STRUCT("file" VARCHAR, "line" BIGINT, "text" VARCHAR), "what" VARCHAR)[])[]',
    "range": 'VARCHAR',
    "schema": 'VARCHAR'
});
