-- Reads documents `iotoll.blk-namespaces/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "blk_namespaces" AS SELECT * FROM read_json('blk-namespaces.ndjson', columns = {
    "address": 'VARCHAR',
    "block_sizes_bytes": 'UBIGINT[]',
    "can_manage_namespaces": 'BOOLEAN',
    "capacity_bytes": 'VARCHAR',
    "controller": 'BIGINT',
    "controllers": 'BIGINT[]',
    "made_by": 'VARCHAR',
    "model": 'VARCHAR',
    "namespaces": 'STRUCT("attached_controllers" BIGINT[], "block_bytes" UBIGINT, "blocks" UBIGINT, "bytes" UBIGINT, "eui64" VARCHAR, "is_attached" BOOLEAN, "is_shared" BOOLEAN, "namespace" BIGINT, "nguid" VARCHAR)[]',
    "namespaces_max": 'BIGINT',
    "schema": 'VARCHAR',
    "serial": 'VARCHAR',
    "subsystem": 'VARCHAR',
    "unallocated_bytes": 'VARCHAR'
});
