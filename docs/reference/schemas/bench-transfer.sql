-- Reads documents `iotoll.bench-transfer/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "bench_transfer" AS SELECT * FROM read_json('bench-transfer.ndjson', columns = {
    "adapter": 'VARCHAR',
    "command": 'VARCHAR[]',
    "date": 'VARCHAR',
    "evidence": 'STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR)',
    "expected_from": 'VARCHAR',
    "forces_snooping": 'BOOLEAN',
    "machine": 'STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE)',
    "made_by": 'VARCHAR',
    "memories": 'STRUCT("controller_reads" STRUCT("bytes_per_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "commands" UBIGINT, "miscompares" UBIGINT), "controller_writes" STRUCT("bytes_per_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "first_miscompare" STRUCT("expected" UBIGINT, "found" UBIGINT, "is_stale" BOOLEAN, "offset" UBIGINT), "miscompares" UBIGINT, "words" UBIGINT), "cpu_load_bytes_per_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "cpu_store_bytes_per_second" STRUCT("lower_quartile" DOUBLE, "max" DOUBLE, "median" DOUBLE, "min" DOUBLE, "upper_quartile" DOUBLE), "mapping" VARCHAR, "memory_type" VARCHAR, "name" VARCHAR, "rounds" STRUCT("controller_reads" DOUBLE, "controller_writes" DOUBLE, "cpu_loads" DOUBLE, "cpu_stores" DOUBLE)[])[]',
    "model": 'VARCHAR',
    "schema": 'VARCHAR',
    "settings": 'STRUCT("bytes" UBIGINT, "command_bytes" UBIGINT, "depth" BIGINT, "first" UBIGINT, "round_ms" UBIGINT, "rounds" BIGINT)',
    "warnings": 'VARCHAR[]'
});
