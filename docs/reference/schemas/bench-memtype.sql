-- Reads documents `iotoll.bench-memtype/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "bench_memtype" AS SELECT * FROM read_json('bench-memtype.ndjson', columns = {
    "absent": 'VARCHAR[]',
    "areas": 'STRUCT("kind" VARCHAR, "name" VARCHAR, "rows" STRUCT("access" VARCHAR, "cells" STRUCT("bytes" UBIGINT, "gigabytes_per_second" DOUBLE, "ns_per_access" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE))[])[])[]',
    "command": 'VARCHAR[]',
    "date": 'VARCHAR',
    "evidence": 'STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR)',
    "machine": 'STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE)',
    "made_by": 'VARCHAR',
    "schema": 'VARCHAR',
    "settings": 'STRUCT("bar_stores" BOOLEAN, "bars" VARCHAR[], "bytes" UBIGINT[], "in_use" BOOLEAN, "round_ms" UBIGINT, "rounds" BIGINT)',
    "warnings": 'VARCHAR[]'
});
