-- Reads documents `iotoll.bench-map/2` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "bench_map" AS SELECT * FROM read_json('bench-map.ndjson', columns = {
    "absent": 'VARCHAR[]',
    "command": 'VARCHAR[]',
    "date": 'VARCHAR',
    "evidence": 'STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR)',
    "machine": 'STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE)',
    "made_by": 'VARCHAR',
    "rows": 'STRUCT("cells" STRUCT("absent" VARCHAR, "bytes" UBIGINT, "ns_per_pair" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "per_pair" STRUCT("allocations" DOUBLE, "bounce_bytes" DOUBLE, "hypercalls" DOUBLE, "invalidations" DOUBLE, "table_entries" DOUBLE))[], "dma_path" VARCHAR, "what" VARCHAR)[]',
    "schema": 'VARCHAR',
    "settings": 'STRUCT("bytes" UBIGINT[], "dma_paths" VARCHAR[], "round_ms" UBIGINT, "rounds" BIGINT)',
    "warnings": 'VARCHAR[]'
});
