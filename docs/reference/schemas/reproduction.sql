-- Reads documents `iotoll.reproduction/4` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "reproduction" AS SELECT * FROM read_json('reproduction.ndjson', columns = {
    "made_by": 'VARCHAR',
    "reproductions": 'STRUCT("bound" DOUBLE, "charts" STRUCT("categories" VARCHAR[], "lines" STRUCT("bounds" STRUCT("high" DOUBLE, "low" DOUBLE, "x_max" DOUBLE), "name" VARCHAR, "points" STRUCT("ours" DOUBLE, "x" DOUBLE)[])[], "name" VARCHAR, "remark" VARCHAR, "source" VARCHAR, "x_title" VARCHAR, "y_title" VARCHAR)[], "curves" STRUCT("name" VARCHAR, "points" STRUCT("kind" VARCHAR, "limit" STRUCT("busy_share" DOUBLE, "name" VARCHAR), "ours" DOUBLE, "ours_high" DOUBLE, "ours_low" DOUBLE, "reference" DOUBLE, "repeats" STRUCT("curve" VARCHAR, "x" DOUBLE), "x" DOUBLE)[], "reference" VARCHAR, "remark" VARCHAR, "source" VARCHAR, "within" DOUBLE, "x_title" VARCHAR, "y_title" VARCHAR)[], "evidence" STRUCT("assumed" BIGINT, "calibrated" BIGINT, "given" BIGINT, "measured" BIGINT, "published" BIGINT), "method" VARCHAR, "parameters" STRUCT("evidence" STRUCT("against" VARCHAR, "how" VARCHAR, "kind" VARCHAR, "on" VARCHAR, "source" VARCHAR, "why" VARCHAR), "name" VARCHAR, "value" DOUBLE)[], "question" VARCHAR, "study" VARCHAR)[]',
    "schema": 'VARCHAR'
});
