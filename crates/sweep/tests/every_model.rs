//! Sweeps of every model: what can be varied, what comes out, and what a summary says of it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fs;
use std::path::Path;
use sweep::{Plan, Results, Row, Summary, Table, Value};

/// A plan of an example of `experiments/`, with these axes.
fn plan(example: &str, axes: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(example);
    let mut base: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    base.remove("what");
    let mut file: toml::Table = format!("what = \"test\"\n[axes]\n{axes}").parse().unwrap();
    file.insert("base".to_owned(), base.into());
    file.to_string()
}

/// The plan with further fields of its machine.
fn with_base(plan: &str, fields: &str) -> String {
    let mut file: toml::Table = plan.parse().unwrap();
    let fields: toml::Table = fields.parse().unwrap();
    file["base"].as_table_mut().unwrap().extend(fields);
    file.to_string()
}

fn read(text: &str) -> Plan {
    Plan::read(text, "plan.toml").unwrap()
}

fn rows(plan: &Plan) -> Vec<Row> {
    (0..plan.len()).map(|position| plan.point(position).unwrap().run()).collect()
}

/// A result of a row that is a number.
fn number(row: &Row, name: &str) -> f64 {
    let results = row.outcome.as_ref().unwrap();
    match results.iter().find(|(found, _)| found == name) {
        Some((_, Value::Float(number))) => *number,
        Some((_, Value::Integer(number))) => *number as f64,
        other => panic!("{name} is {other:?} in {results:?}"),
    }
}

/// Writes a part for each of some rows, and opens them.
fn results(folder: &Path, plan: &Plan, parts: &[&[Row]]) -> Results {
    let table = Table::of(plan, "test 1.0").unwrap();
    let paths = parts.iter().enumerate().map(|(number, rows)| {
        let path = folder.join(format!("part-{number}.parquet"));
        fs::write(&path, table.parquet_bytes(rows).unwrap()).unwrap();
        path
    });
    Results::open(paths.collect()).unwrap()
}

/// If one of these changes, so must the version of its model in `sweep::version`.
#[test]
fn the_same_fields_give_the_same_numbers() {
    let examples = [
        ("engine.toml", "engine/3", "latency_mean_ns", 969.747),
        (
            "memory-types.toml",
            "memory-types/1",
            "memories_static_test_to_card_bytes_per_second",
            1753046431.76301,
        ),
        ("two-hosts.toml", "network/1", "latency_p99_ns", 948961.279),
        ("nvme.toml", "block/1", "latency_p99_ns", 210632.703),
        ("flash-array.toml", "flash-array/1", "latency_p99_ns", 446431.231),
        ("infiniband.toml", "infiniband/1", "memory_less_latency_mean_ns", 73407.398),
    ];
    let mut found = Vec::new();
    for (example, version, figure, _) in examples {
        let axes = if example == "memory-types.toml" { "\"test.passes\" = [4]" } else { "seed = [7]" };
        let mut text = plan(example, axes);
        if !matches!(example, "memory-types.toml") {
            text = text.replacen("[base]", "[base]\nseeds = 1", 1);
        }
        let plan = read(&text.replace("measured_us = 192000", "measured_us = 30000"));
        assert_eq!(plan.version().unwrap(), version);
        found.push((example, version, figure, number(&rows(&plan)[0], figure)));
    }
    assert_eq!(found, examples);
}

#[test]
fn any_field_is_an_axis() {
    // An element of a list of tables, a list, a boolean, a job file, and a word.
    let flash = read(&plan(
        "flash-array.toml",
        "\"loads.0.threads\" = [16, 64]\n\"cpus.core_capacity\" = [[1.0], [1.0, 1.6]]",
    ));
    let rows = rows(&flash);
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[3].values, [Value::Word("[1.0, 1.6]".to_owned()), Value::Integer(64)]);
    assert!(number(&rows[1], "operations_per_second") > 2.0 * number(&rows[0], "operations_per_second"));
    let jobs = read(&plan(
        "nvme.toml",
        "jobs = [\"[a]\\nrw=randread\\nbs=4k\\ndirect=1\\n\", \"[b]\\nrw=randread\\nbs=8k\\ndirect=1\\n\"]",
    ));
    let rows = self::rows(&jobs);
    let columns =
        |row: &Row| row.outcome.as_ref().unwrap().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert!(columns(&rows[0]).contains(&"jobs_a_latency_mean_ns".to_owned()));
    assert!(columns(&rows[1]).contains(&"jobs_b_latency_mean_ns".to_owned()));
    for wrong in ["\"loads.1.threads\" = [1]", "\"loads.x\" = [1]", "\"cpus.cores.x\" = [1]"] {
        let error = Plan::read(&plan("flash-array.toml", wrong), "plan.toml").unwrap_err().to_string();
        assert!(error.contains("is no field of base; expected one that a machine has"), "{wrong}: {error}");
    }
}

/// The answer says the kernel, too.
#[test]
fn a_result_with_the_name_of_an_axis_has_a_column_of_its_own() {
    let plan = read(&plan("memory-types.toml", "kernel = [\"2.6.18\", \"2.6.32\"]"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part");
    fs::write(&path, Table::of(&plan, "test 1.0").unwrap().parquet_bytes(&rows(&plan)).unwrap()).unwrap();
    let columns = columns::TableFile::open(&path).unwrap().columns(&["kernel", "result_kernel"]).unwrap();
    let texts = columns::Cells::Text(vec![Some("2.6.18".to_owned()), Some("2.6.32".to_owned())]);
    assert_eq!(columns.iter().map(|column| &column.cells).collect::<Vec<_>>(), [&texts, &texts]);
}

#[test]
fn a_point_without_an_answer_is_a_row_with_its_error() {
    // Threads of the user's way need a queue each, and those of the kernel's share its own.
    let text = plan("flash-array.toml", "\"loads.0.way\" = [\"kernel\", \"user\"]").replacen(
        "queues_max = 508",
        "queues_max = 20",
        1,
    );
    let plan = read(&text);
    let rows = rows(&plan);
    let failed: Vec<&Row> = rows.iter().filter(|row| row.outcome.is_err()).collect();
    assert_eq!(failed.len(), 1, "{rows:?}");
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path(), &plan, &[&rows]);
    let summary = Summary::of(&results, None).unwrap();
    let errors: usize = summary.errors.iter().map(|error| error.points).sum();
    assert_eq!((summary.points, errors), (2, 1));
    assert_eq!(summary.figure.unwrap().groups, 1);
}

#[test]
fn a_summary_takes_seeds_together_and_each_point_once() {
    let axes = "seed = [1, 2, 3]\n\"engine.in_flight_max\" = [1, 34]\n\"iommu.walk_ns\" = [60, 299, 1200]";
    let plan = read(&with_base(&plan("engine.toml", axes), "seeds = 1\ntransfers = 2000"));
    let rows = rows(&plan);
    let folder = tempfile::tempdir().unwrap();
    // Two runs of other shards have both made some of the points.
    let results = results(folder.path(), &plan, &[&rows[..12], &rows[6..]]);
    let summary = Summary::of(&results, Some("transfers_per_second")).unwrap();
    assert_eq!((summary.points, summary.errors.len()), (18, 0));
    assert_eq!(summary.limits.iter().map(|limit| limit.points).sum::<usize>(), 18);
    let figure = summary.figure.unwrap();
    assert_eq!((figure.groups, figure.seeds_fewest, figure.seeds_most, figure.effects.len()), (6, 3, 3, 2));
    let rate = |row: &Row| number(row, "transfers_per_second");
    let fast = figure.extremes.last().unwrap();
    let of_fast: Vec<_> = fast.values.iter().map(|value| (&*value.field, &*value.value)).collect();
    assert_eq!(of_fast, [("engine.in_flight_max", "34"), ("iommu.walk_ns", "60")]);
    let of_point = |row: &&Row| {
        row.values == [Value::Integer(34), Value::Integer(60)]
            || row.values[..2] == [Value::Integer(34), Value::Integer(60)]
    };
    let seeds: Vec<f64> = rows.iter().filter(of_point).map(rate).collect();
    let mean = seeds.iter().sum::<f64>() / seeds.len() as f64;
    assert_eq!(seeds.len(), 3);
    assert!((fast.figure.mean / mean - 1.0).abs() < 1e-12, "{} and {mean}", fast.figure.mean);
    let t = 4.302_652_729_911_275;
    let variance = seeds.iter().map(|seed| (seed - mean).powi(2)).sum::<f64>() / 2.0;
    let half = t * (variance / 3.0).sqrt();
    assert!(((fast.figure.high.unwrap() - mean) / half - 1.0).abs() < 1e-6);
    // Numbers in their order, one curve for each number in flight.
    assert_eq!(
        figure.effects[1].values.iter().map(|value| value.value.as_str()).collect::<Vec<_>>(),
        ["60", "299", "1200"]
    );
    assert_eq!(
        figure.curves.iter().map(|curve| curve.of.clone().unwrap().value).collect::<Vec<_>>(),
        ["1", "34"]
    );
    let curve: Vec<f64> = figure.curves[1].points.iter().map(|point| point.x).collect();
    assert_eq!(curve, [60.0, 299.0, 1200.0]);
    // Those who wait long and have one transfer in flight lose most.
    let shares: Vec<(String, f64)> =
        figure.shares.iter().map(|share| (share.fields.join(" "), share.share)).collect();
    assert_eq!(shares.len(), 3);
    assert!((shares.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    let interaction = figure.interaction.unwrap();
    assert_eq!(
        (&*interaction.row_field, &*interaction.column_field),
        ("iommu.walk_ns", "engine.in_flight_max")
    );
    assert_eq!(interaction.columns, ["1", "34"]);
    let row = &interaction.rows[0];
    assert_eq!((&*row.value, row.medians[1]), ("60", Some(fast.figure.mean)));
    let error = Summary::of(&results, Some("speed")).unwrap_err().to_string();
    assert!(
        error.starts_with("no figure speed; expected one of ") && error.contains("miss_share"),
        "{error}"
    );
}

/// Parts of two plans, whose points share runs: neither plan can tell.
#[test]
fn a_summary_tells_plans_apart_and_seeds_that_are_shared() {
    let plan = |seeds: &str| {
        let axes = format!("seed = {seeds}\n\"engine.in_flight_max\" = [1, 34]");
        read(&with_base(&self::plan("engine.toml", &axes), "seeds = 2\ntransfers = 2000"))
    };
    let (one, same, other) = (plan("[1, 3]"), plan("[3, 1]"), plan("[2, 4]"));
    let folder = tempfile::tempdir().unwrap();
    let mut parts = Vec::new();
    let mut add = |plan: &Plan| {
        let path = folder.path().join(format!("{}.parquet", parts.len()));
        fs::write(&path, Table::of(plan, "test 1.0").unwrap().parquet_bytes(&rows(plan)).unwrap()).unwrap();
        parts.push(path);
        let results = Results::open(parts.clone()).unwrap();
        let summary = Summary::of(&results, None).unwrap();
        (summary.plans, summary.points, summary.points_of_plan, summary.shared_seeds)
    };
    assert_eq!(add(&one), (1, 4, Some(4), None));
    assert_eq!(add(&same), (1, 4, Some(4), None));
    assert_eq!(add(&other), (2, 8, None, Some(2)));
    // Merged, they are still of two plans.
    let merged = folder.path().join("merged.parquet");
    Results::open(parts).unwrap().merge(fs::File::create(&merged).unwrap(), "test 1.0").unwrap();
    let results = Results::open(vec![merged]).unwrap();
    assert_eq!((results.plans(), results.points_of_plan()), (2, None));
    let machine = results.machine().unwrap();
    for field in ["transfers = 2000", "seed = \"varies\"", "in_flight_max = \"varies\""] {
        assert!(machine.contains(field), "{field}: {machine}");
    }
}

/// Numbers above 2^53 are told apart, which as numbers with a fraction are equal.
#[test]
fn great_seeds_are_no_shared_ones() {
    let axes = "seed = [9007199254740992, 9007199254740993]\n\"engine.in_flight_max\" = [1, 34]";
    let plan = read(&with_base(&plan("engine.toml", axes), "seeds = 1\ntransfers = 2000"));
    let folder = tempfile::tempdir().unwrap();
    let summary = Summary::of(&results(folder.path(), &plan, &[&rows(&plan)]), None).unwrap();
    assert_eq!(summary.shared_seeds, None);
}

/// A file whose metadata name an axis that it has no column of is none of a sweep's.
#[test]
fn a_part_without_an_axis_is_refused() {
    let plan = read(&plan("infiniband.toml", "\"verbs.connections\" = [1, 2]"));
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part.parquet");
    let bytes = Table::of(&plan, "test 1.0").unwrap().parquet_bytes(&rows(&plan)).unwrap();
    fs::write(&part, &bytes).unwrap();
    let (axis, other) = (b"verbs.connections".as_slice(), b"verbs.connectionz");
    // As often in the metadata, whose length stays.
    let mut edited = bytes;
    let places: Vec<usize> =
        (0..edited.len() - axis.len()).filter(|place| edited[*place..].starts_with(axis)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|place| edited[place..place + other.len()].copy_from_slice(other));
    fs::write(&part, edited).unwrap();
    let error = Results::open(vec![part]).unwrap_err();
    assert!(matches!(error, sweep::ResultsError::NoSweep { .. }), "{error:?}");
}

/// Rows have the columns of one plan's axes: another one's are none of them, even where its field has the same value in all of them.
#[test]
fn a_folder_is_of_one_set_of_axes() {
    let text = plan("infiniband.toml", "\"verbs.connections\" = [1, 2]");
    let mut file: toml::Table = text.parse().unwrap();
    file["base"]["verbs"].as_table_mut().unwrap().insert("is_loop".to_owned(), false.into());
    let one = read(&file.to_string());
    file["axes"].as_table_mut().unwrap().insert("verbs.is_loop".to_owned(), vec![false].into());
    let other = read(&file.to_string());
    assert_eq!(one.base_key().unwrap(), other.base_key().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part.parquet");
    let table = |plan| Table::of(plan, "test 1.0").unwrap();
    fs::write(&part, table(&one).parquet_bytes(&rows(&one)).unwrap()).unwrap();
    assert_eq!(table(&one).keys(&part).unwrap().len(), 2);
    assert!(matches!(table(&other).keys(&part), Err(sweep::PartError::OtherPlan)));
}

/// The card's link is the same, and what the card reads is not: a reader who names no figure must see that.
#[test]
fn a_summary_is_of_a_figure_that_depends_on_the_axes() {
    let plan = read(&plan("memory-types.toml", "\"card.no_snoop\" = [\"never\", \"always\"]"));
    let folder = tempfile::tempdir().unwrap();
    let figure = Summary::of(&results(folder.path(), &plan, &[&rows(&plan)]), None).unwrap().figure.unwrap();
    let means: Vec<f64> = figure.extremes.iter().map(|group| group.figure.mean).collect();
    assert!(means[0] != means[means.len() - 1], "{}: {means:?}", figure.name);
    assert!(!figure.name.ends_with("gigabits_per_second"), "{}", figure.name);
}

/// Jobs are a text in a file of fio's form, which has mistakes of its own.
#[test]
fn a_mistake_in_jobs_is_found_before_points_run() {
    let jobs = |engine: &str| format!("\"[a]\\nrw=randread\\nbs=4k\\ndirect=1\\nioengine={engine}\\n\"");
    let text = plan("nvme.toml", &format!("jobs = [{}, {}]", jobs("io_uring"), jobs("io_urin")));
    let mistake = Plan::read(&text, "plan.toml").err().map(|error| error.to_string());
    let mistake = mistake.unwrap_or_else(|| read(&text).check(1).unwrap_err().to_string());
    assert!(
        mistake.contains("plan.toml:") && mistake.contains("line 5: ioengine is io_urin; expected"),
        "{mistake}"
    );
}

/// The last row of each of these tables was lost, or has no result: a reader must see that.
#[test]
fn a_summary_says_what_is_not_there() {
    let axes = "seed = [1, 2]\n\"engine.in_flight_max\" = [1, 34]";
    let plan = read(&with_base(&plan("engine.toml", axes), "seeds = 1\ntransfers = 2000"));
    let mut rows = rows(&plan);
    let of = |rows: &[Row]| {
        let folder = tempfile::tempdir().unwrap();
        Summary::of(&results(folder.path(), &plan, &[rows]), Some("transfers_per_second")).unwrap()
    };
    let summary = of(&rows[..3]);
    assert_eq!((summary.points, summary.points_of_plan, summary.unsteady), (3, Some(4), 0));
    let figure = summary.figure.unwrap();
    assert_eq!((figure.seeds_fewest, figure.seeds_most), (1, 2));
    // All points with 34 transfers in flight have an error.
    for row in rows.iter_mut().filter(|row| row.values[0] == Value::Integer(34)) {
        row.outcome = Err("no window".to_owned());
    }
    let figure = of(&rows).figure.unwrap();
    let groups: Vec<_> = figure.effects[0].values.iter().map(|value| (&*value.value, value.groups)).collect();
    assert_eq!(groups, [("1", 1), ("34", 0)]);
    assert_eq!(figure.effects[0].values[1].range, None);
    let is_steady = |(name, value): &mut (String, Value)| {
        if name == "runs_is_steady" {
            *value = Value::Flag(false);
        }
    };
    rows[0].outcome.as_mut().unwrap().iter_mut().for_each(is_steady);
    assert_eq!(of(&rows).unsteady, 1);
}

#[test]
fn jobs_whose_names_are_equal_as_columns_have_columns_of_their_own() {
    let jobs = ["[a-b] bs=4k", "[a_b] bs=128k", "[c] bs=4k"].map(|job| {
        let (name, size) = job.split_once(' ').unwrap();
        format!("{name}\\nrw=randread\\ndirect=1\\n{size}\\n")
    });
    let axes = format!("jobs = [\"{}{}\", \"{}\"]", jobs[0], jobs[1], jobs[2]);
    let plan = read(&with_base(&plan("nvme.toml", &axes), "seeds = 1"));
    let rows = rows(&plan);
    assert!(
        number(&rows[0], "jobs_a_b_2_gigabytes_per_second")
            > number(&rows[0], "jobs_a_b_gigabytes_per_second")
    );
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path(), &plan, &[&rows]);
    for figure in ["jobs_a_b_gigabytes_per_second", "jobs_a_b_2_gigabytes_per_second"] {
        let shown = Summary::of(&results, Some(figure)).unwrap().figure.unwrap();
        assert_eq!(shown.groups, 1, "only the first point has {figure}");
        assert_eq!(shown.extremes[0].figure.mean, number(&rows[0], figure));
    }
}

#[test]
fn merged_results_have_each_point_once_and_all_columns() {
    let text = plan(
        "nvme.toml",
        "jobs = [\"[a]\\nrw=randread\\nbs=4k\\ndirect=1\\n\", \"[b]\\nrw=randread\\nbs=8k\\ndirect=1\\n\"]",
    );
    let plan = read(&text);
    let rows = rows(&plan);
    let folder = tempfile::tempdir().unwrap();
    let results = results(folder.path(), &plan, &[&rows[..1], &rows[1..], &rows]);
    let merged = folder.path().join("merged.parquet");
    results.merge(fs::File::create(&merged).unwrap(), "test 1.0").unwrap();
    let merged = Results::open(vec![merged]).unwrap();
    let mut figures = (merged.figures(), results.figures());
    figures.0.sort_unstable();
    figures.1.sort_unstable();
    assert_eq!(figures.0, figures.1);
    assert!(figures.0.contains(&"jobs_a_latency_mean_ns") && figures.0.contains(&"jobs_b_latency_mean_ns"));
    assert!(!figures.0.contains(&"jobs_a_latency_mean_ns_low"));
    let of = |results: &Results, figure| Summary::of(results, Some(figure)).unwrap();
    assert_eq!(of(&merged, "jobs_a_latency_mean_ns"), of(&results, "jobs_a_latency_mean_ns"));
    assert_eq!(of(&merged, "jobs_a_latency_mean_ns").figure.unwrap().groups, 1);
    assert_eq!(of(&merged, "latency_mean_ns").figure.unwrap().groups, 2);
}
