-- Reads documents `iotoll.blk-list/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "blk_list" AS SELECT * FROM read_json('blk-list.ndjson', columns = {
    "adapters": 'STRUCT("address" VARCHAR, "disks" STRUCT("bytes" UBIGINT, "name" VARCHAR)[], "driver" VARCHAR, "iommu_group" BIGINT, "model" VARCHAR, "refusals" VARCHAR[])[]',
    "made_by": 'VARCHAR',
    "schema": 'VARCHAR'
});
