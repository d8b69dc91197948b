-- Reads documents `iotoll.bench-map-threads/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "bench_map_threads" AS SELECT * FROM read_json('bench-map-threads.ndjson', columns = {
    "baseline": 'VARCHAR',
    "cases": 'STRUCT("cpus" BIGINT, "entries" STRUCT("absent" VARCHAR, "contestant" VARCHAR, "measured" STRUCT("cpu_ns_per_pair" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "cpu_over_baseline" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "ns_per_pair" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "over_baseline" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "pairs_per_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "pairs_per_thread" UBIGINT, "per_pair" STRUCT("allocations" DOUBLE, "bounce_bytes" DOUBLE, "hypercalls" DOUBLE, "invalidations" DOUBLE, "table_entries" DOUBLE), "rounds" STRUCT("cpu_ns" UBIGINT, "pairs" UBIGINT, "wall_ns" UBIGINT)[]))[], "threads" BIGINT)[]',
    "command": 'VARCHAR[]',
    "contestants": 'STRUCT("name" VARCHAR, "what" VARCHAR)[]',
    "date": 'VARCHAR',
    "evidence": 'STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR)',
    "machine": 'STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE)',
    "made_by": 'VARCHAR',
    "schema": 'VARCHAR',
    "settings": 'STRUCT("bytes" UBIGINT, "pairs" UBIGINT, "pin" BOOLEAN, "round_ms" UBIGINT, "rounds" BIGINT, "threads" BIGINT[])',
    "warnings": 'VARCHAR[]'
});
