-- Reads documents `iotoll.bench-blk/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "bench_blk" AS SELECT * FROM read_json('bench-blk.ndjson', columns = {
    "command": 'VARCHAR[]',
    "date": 'VARCHAR',
    "disk": 'VARCHAR',
    "evidence": 'STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR)',
    "machine": 'STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE)',
    "made_by": 'VARCHAR',
    "rows": 'STRUCT("cells" STRUCT("absent" VARCHAR, "depth" BIGINT, "latency" STRUCT("max_ns" UBIGINT, "p50_ns" UBIGINT, "p90_ns" UBIGINT, "p99_99_ns" UBIGINT, "p99_9_ns" UBIGINT, "p99_ns" UBIGINT, "samples" UBIGINT), "reads_per_cpu_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "reads_per_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "writes_per_cpu_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "writes_per_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE))[], "operation" VARCHAR, "way" VARCHAR, "what" VARCHAR)[]',
    "schema": 'VARCHAR',
    "settings": 'STRUCT("bytes" UBIGINT, "depths" BIGINT[], "round_ms" UBIGINT, "rounds" BIGINT)',
    "warnings": 'VARCHAR[]'
});
