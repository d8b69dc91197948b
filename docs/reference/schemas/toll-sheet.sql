-- Reads documents `iotoll.toll-sheet/4` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "toll_sheet" AS SELECT * FROM read_json('toll-sheet.ndjson', columns = {
    "base": 'VARCHAR',
    "boots": 'STRUCT("memory_mib" UBIGINT, "seed" UBIGINT)[]',
    "dma_path": 'VARCHAR',
    "kernel": 'STRUCT("command_line" VARCHAR, "package" VARCHAR, "release" VARCHAR)',
    "machine": 'STRUCT("arch" VARCHAR, "command_line" VARCHAR[], "cpu" VARCHAR, "memory_mib" UBIGINT, "qemu_version" VARCHAR, "vcpus" BIGINT)',
    "made_by": 'VARCHAR',
    "measured_on": 'VARCHAR',
    "preset": 'VARCHAR',
    "programs": 'STRUCT("compiler" VARCHAR, "flags" VARCHAR[], "name" VARCHAR, "sha256" VARCHAR)[]',
    "repeats": 'BIGINT',
    "schema": 'VARCHAR',
    "tolls": 'STRUCT("boots" STRUCT("events" STRUCT("count" UBIGINT, "event" VARCHAR)[], "stages" STRUCT("instructions" UBIGINT, "stage" VARCHAR)[], "windows" UBIGINT[])[], "bytes_per_io" UBIGINT, "driver" VARCHAR, "events" STRUCT("by_name" STRUCT("median" UBIGINT, "name" VARCHAR, "total" UBIGINT)[], "event" VARCHAR, "median" UBIGINT, "total" UBIGINT)[], "evidence" STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR), "functions" STRUCT("function" VARCHAR, "instructions" UBIGINT)[], "instructions" STRUCT("at_median" BIGINT, "max" UBIGINT, "median" UBIGINT, "min" UBIGINT, "p99" UBIGINT), "ios_per_window" BIGINT, "kernel" UBIGINT, "stages" STRUCT("instructions" UBIGINT, "stage" VARCHAR)[], "user" UBIGINT, "what" VARCHAR, "windows" BIGINT, "workload" VARCHAR)[]'
});
