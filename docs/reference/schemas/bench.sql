-- Reads documents `iotoll.bench/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "bench" AS SELECT * FROM read_json('bench.ndjson', columns = {
    "baseline": 'VARCHAR',
    "cases": 'STRUCT("cpus" BIGINT, "entries" STRUCT("absent" VARCHAR, "contestant" VARCHAR, "measured" STRUCT("allocate" STRUCT("max_ns" UBIGINT, "p50_ns" UBIGINT, "p90_ns" UBIGINT, "p99_99_ns" UBIGINT, "p99_9_ns" UBIGINT, "p99_ns" UBIGINT, "samples" UBIGINT), "cached_pages" UBIGINT, "cpu_ns_per_pair" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "cpu_over_baseline" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "failed" UBIGINT, "free" STRUCT("max_ns" UBIGINT, "p50_ns" UBIGINT, "p90_ns" UBIGINT, "p99_99_ns" UBIGINT, "p99_9_ns" UBIGINT, "p99_ns" UBIGINT, "samples" UBIGINT), "memory_bytes" UBIGINT, "ns_per_pair" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "over_baseline" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "pairs_per_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "pairs_per_thread" UBIGINT, "refused" UBIGINT, "rounds" STRUCT("cached_pages" UBIGINT, "cpu_ns" UBIGINT, "failed" UBIGINT, "pairs" UBIGINT, "wall_ns" UBIGINT)[]))[], "queue_ns_per_pair" DOUBLE, "scenario" VARCHAR, "sizes" VARCHAR, "threads" BIGINT, "what" VARCHAR)[]',
    "clock": 'STRUCT("name" VARCHAR, "overhead_ns" DOUBLE, "sample_every" BIGINT)',
    "command": 'VARCHAR[]',
    "contestants": 'STRUCT("name" VARCHAR, "what" VARCHAR)[]',
    "date": 'VARCHAR',
    "evidence": 'STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR)',
    "machine": 'STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE)',
    "made_by": 'VARCHAR',
    "schema": 'VARCHAR',
    "settings": 'STRUCT("bits" BIGINT, "burst" UBIGINT, "full_bits" BIGINT, "held" UBIGINT, "pairs" UBIGINT, "pin" BOOLEAN, "round_ms" UBIGINT, "rounds" BIGINT, "scenarios" VARCHAR[], "seed" UBIGINT, "threads" BIGINT[])',
    "warnings": 'VARCHAR[]'
});
