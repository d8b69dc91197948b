-- Reads documents `iotoll.lab-list/2` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "lab_list" AS SELECT * FROM read_json('lab-list.ndjson', columns = {
    "made_by": 'VARCHAR',
    "presets": 'STRUCT("dma_path" VARCHAR, "kernel" VARCHAR, "name" VARCHAR, "what" VARCHAR, "workloads" BIGINT)[]',
    "schema": 'VARCHAR',
    "workloads": 'STRUCT("name" VARCHAR, "what" VARCHAR)[]'
});
