-- Reads documents `iotoll.sweep-report/1` into DuckDB, from a file with a line for each.
-- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.
CREATE TABLE "sweep_report" AS SELECT * FROM read_json('sweep-report.ndjson', columns = {
    "errors": 'STRUCT("error" VARCHAR, "points" BIGINT)[]',
    "figure": 'STRUCT("curves" STRUCT("of" STRUCT("field" VARCHAR, "value" VARCHAR), "points" STRUCT("figure" STRUCT("high" DOUBLE, "low" DOUBLE, "mean" DOUBLE), "x" DOUBLE)[], "x" VARCHAR)[], "effects" STRUCT("field" VARCHAR, "values" STRUCT("groups" BIGINT, "limit" VARCHAR, "limit_groups" BIGINT, "range" STRUCT("greatest" DOUBLE, "least" DOUBLE, "median" DOUBLE), "value" VARCHAR)[])[], "extremes" STRUCT("figure" STRUCT("high" DOUBLE, "low" DOUBLE, "mean" DOUBLE), "limit" VARCHAR, "values" STRUCT("field" VARCHAR, "value" VARCHAR)[])[], "groups" BIGINT, "interaction" STRUCT("column_field" VARCHAR, "columns" VARCHAR[], "row_field" VARCHAR, "rows" STRUCT("medians" DOUBLE[], "value" VARCHAR)[]), "name" VARCHAR, "seeds_fewest" BIGINT, "seeds_most" BIGINT, "shares" STRUCT("fields" VARCHAR[], "share" DOUBLE)[])',
    "figures": 'VARCHAR[]',
    "limits": 'STRUCT("part" VARCHAR, "points" BIGINT)[]',
    "machine": 'VARCHAR',
    "made_by": 'VARCHAR',
    "model": 'VARCHAR',
    "plans": 'BIGINT',
    "points": 'BIGINT',
    "points_of_plan": 'UBIGINT',
    "results": 'VARCHAR',
    "schema": 'VARCHAR',
    "shared_seeds": 'UBIGINT',
    "unsteady": 'BIGINT',
    "what": 'VARCHAR'
});
