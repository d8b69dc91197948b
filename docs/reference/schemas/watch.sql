-- Reads documents `iotoll.watch/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "watch" AS SELECT * FROM read_json('watch.ndjson', columns = {
    "adapters": 'STRUCT("actions" STRUCT("action" VARCHAR, "by_bytes" UBIGINT[], "by_ns" UBIGINT[], "bytes" UBIGINT, "calls" UBIGINT, "ns" UBIGINT, "own_ns" UBIGINT, "parts" UBIGINT, "programs_ns" UBIGINT)[], "adapter" VARCHAR, "completed" STRUCT("block_bytes" UBIGINT, "block_requests" UBIGINT, "interrupts" UBIGINT, "packet_bytes" UBIGINT, "packets" UBIGINT), "completed_while_counted" STRUCT("block_bytes" UBIGINT, "block_requests" UBIGINT, "interrupts" UBIGINT, "packet_bytes" UBIGINT, "packets" UBIGINT), "paths" STRUCT("calls" UBIGINT, "functions" VARCHAR[], "own_ns" UBIGINT, "programs_ns" UBIGINT)[], "stages" STRUCT("ns" UBIGINT, "programs_ns" UBIGINT, "stage" VARCHAR)[], "stays_mapped" STRUCT("bounce_buffers" BIGINT, "coherent_bytes" BIGINT, "table_bytes" BIGINT))[]',
    "assumes_parameters": 'BOOLEAN',
    "calls": 'UBIGINT',
    "command": 'VARCHAR[]',
    "command_ended": 'VARCHAR',
    "costs_per_io": 'STRUCT("adapter" VARCHAR, "interval_ns" DOUBLE[], "io" VARCHAR, "is_net" BOOLEAN, "ns" DOUBLE)[]',
    "date": 'VARCHAR',
    "evidence": 'STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR)',
    "functions": 'VARCHAR[]',
    "gains": 'STRUCT("address" VARCHAR, "cores_saved" DOUBLE, "counted_io" VARCHAR, "dma_path_now" VARCHAR, "dma_path_then" VARCHAR, "finding" VARCHAR, "now_ns" DOUBLE, "then_ns" DOUBLE)[]',
    "hardware_counts": 'STRUCT("count" DOUBLE, "counted_share" DOUBLE, "event" VARCHAR, "source" VARCHAR, "unit" VARCHAR, "why" VARCHAR)[]',
    "hooks": 'STRUCT("hook" VARCHAR, "inside_ns" DOUBLE, "is_measured" BOOLEAN, "outside_ns" DOUBLE)[]',
    "intervals": 'STRUCT("adapters" STRUCT("adapter" VARCHAR, "completed" STRUCT("block_bytes" UBIGINT, "block_requests" UBIGINT, "interrupts" UBIGINT, "packet_bytes" UBIGINT, "packets" UBIGINT), "completed_in_period" STRUCT("block_bytes" UBIGINT, "block_requests" UBIGINT, "interrupts" UBIGINT, "packet_bytes" UBIGINT, "packets" UBIGINT), "mapping" STRUCT("bounced_bytes" UBIGINT, "invalidations" UBIGINT, "iovas" UBIGINT, "mapped_bytes" UBIGINT, "maps" UBIGINT, "ns" UBIGINT, "stages" STRUCT("ns" UBIGINT, "programs_ns" UBIGINT, "stage" VARCHAR)[], "table_writes" UBIGINT, "unmaps" UBIGINT))[], "end_s" DOUBLE, "seconds" DOUBLE, "stands_for_s" DOUBLE)[]',
    "losses": 'STRUCT("contexts" UBIGINT, "depth" UBIGINT, "interrupted" UBIGINT, "tallies" UBIGINT, "unseen" UBIGINT, "without_end" UBIGINT, "without_entry" UBIGINT)',
    "machine": 'STRUCT("architecture" VARCHAR, "cpu" VARCHAR, "cpus" BIGINT, "governor" VARCHAR, "is_virtual" BOOLEAN, "kernel" VARCHAR, "load_average" DOUBLE)',
    "made_by": 'VARCHAR',
    "part_time": 'STRUCT("cores" DOUBLE, "counted_s" DOUBLE, "elapsed_s" DOUBLE, "max_cores" DOUBLE)',
    "probed": 'VARCHAR[]',
    "program_ns": 'DOUBLE',
    "schema": 'VARCHAR',
    "seconds": 'DOUBLE',
    "stacks": 'STRUCT("all" STRUCT("cores" DOUBLE, "cores_interval" DOUBLE[], "ns_per_io" DOUBLE, "ns_per_io_interval" DOUBLE[], "samples" UBIGINT), "cpus" BIGINT, "cycle_ns" DOUBLE[], "cycles" DOUBLE, "cycles_per_sample" UBIGINT, "evidence" VARCHAR, "interrupts_off_samples" UBIGINT, "io" STRUCT("name" VARCHAR, "number" UBIGINT), "kernel_samples" UBIGINT, "lost_samples" UBIGINT, "malformed_bytes" UBIGINT, "paths" STRUCT("functions" VARCHAR[], "samples" UBIGINT, "stage" VARCHAR)[], "program_samples" UBIGINT, "samples" UBIGINT, "stages" STRUCT("cores" DOUBLE, "cores_interval" DOUBLE[], "ns_per_io" DOUBLE, "ns_per_io_interval" DOUBLE[], "samples" UBIGINT, "stage" VARCHAR)[], "throttled" UBIGINT, "unknown" VARCHAR)',
    "uncounted": 'VARCHAR',
    "unwatched": 'STRUCT("function" VARCHAR, "why" VARCHAR)[]',
    "warnings": 'VARCHAR[]'
});
