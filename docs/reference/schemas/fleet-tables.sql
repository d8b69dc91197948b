-- The tables of `iotoll fleet`, `iotoll.fleet/1`, as DuckDB sees them.
CREATE TABLE "hosts" (
    "input" VARCHAR NOT NULL,
    "input_bytes" BIGINT,
    "modified" TIMESTAMP WITH TIME ZONE,
    "capture" VARCHAR NOT NULL,
    "rules" VARCHAR NOT NULL,
    "source" VARCHAR NOT NULL,
    "host_name" VARCHAR,
    "machine" VARCHAR,
    "architecture" VARCHAR,
    "cpu_vendor" VARCHAR,
    "hypervisor" VARCHAR,
    "distribution" VARCHAR,
    "kernel_release" VARCHAR,
    "command_line" VARCHAR,
    "memory_bytes" BIGINT,
    "complete" BOOLEAN NOT NULL,
    "doubts" VARCHAR[] NOT NULL
);
CREATE TABLE "adapters" (
    "capture" VARCHAR NOT NULL,
    "rules" VARCHAR NOT NULL,
    "input" VARCHAR NOT NULL,
    "address" VARCHAR NOT NULL,
    "dma_path" VARCHAR NOT NULL,
    "condition" VARCHAR,
    "reason" VARCHAR,
    "vendor_id" VARCHAR,
    "device_id" VARCHAR,
    "subsystem_vendor_id" VARCHAR,
    "subsystem_device_id" VARCHAR,
    "class" VARCHAR,
    "vendor_name" VARCHAR,
    "device_name" VARCHAR,
    "driver" VARCHAR,
    "iommu_group" BIGINT,
    "numa_node" BIGINT,
    "dma_mask_bits" BIGINT
);
CREATE TABLE "findings" (
    "capture" VARCHAR NOT NULL,
    "rules" VARCHAR NOT NULL,
    "input" VARCHAR NOT NULL,
    "id" VARCHAR NOT NULL,
    "severity" VARCHAR NOT NULL,
    "address" VARCHAR,
    "what" VARCHAR NOT NULL,
    "fix" VARCHAR NOT NULL,
    "commands" VARCHAR[] NOT NULL,
    "risk" VARCHAR NOT NULL
);
CREATE TABLE "unseen" (
    "capture" VARCHAR NOT NULL,
    "rules" VARCHAR NOT NULL,
    "input" VARCHAR NOT NULL,
    "what" VARCHAR NOT NULL,
    "why" VARCHAR NOT NULL,
    "remedy" VARCHAR NOT NULL,
    "decisive" BOOLEAN NOT NULL,
    "file" VARCHAR
);
CREATE TABLE "errors" (
    "input" VARCHAR NOT NULL,
    "input_bytes" BIGINT,
    "modified" TIMESTAMP WITH TIME ZONE,
    "rules" VARCHAR NOT NULL,
    "kind" VARCHAR NOT NULL,
    "what" VARCHAR NOT NULL
);
