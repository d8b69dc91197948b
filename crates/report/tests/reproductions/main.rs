//! The pages of reproduced figures, `docs/studies/STUDY.md`, are what the models say.
//!
//! `IOTOLL_UPDATE=1 cargo test -p iotoll-report --test reproductions` writes them anew.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod figure_kinds;

use model::{Chart, Curve, EvidenceShare, FigureKind, Point, Reproduction, Tally};
use report::{Length, Stories, Style};
use std::fmt::Write;
use std::sync::LazyLock;
use std::{fs, path::Path};

fn page(one: &Reproduction) -> String {
    let mut own: Vec<String> =
        one.curves.iter().filter_map(|curve| curve.within).map(|own| own.to_string()).collect();
    own.sort();
    own.dedup();
    let own = if own.is_empty() { String::new() } else { format!(" (ratios within {})", own.join(" or ")) };
    let bound = format!("{:.0} % of what was published{own}", one.bound * 100.0);
    let mut page = format!(
        "# {}: published figures, and ours\n\n**Question.** {}\n\n**Method.** {}\n\n    iotoll reproduce {0} --html {0}.html    # with plots\n\n\
         **Result.** {}\n\n{}{}\n{} Made by\n`IOTOLL_UPDATE=1 cargo test -p iotoll-report --test reproductions` from `experiments/{0}.toml`.\n",
        one.study,
        one.question,
        one.method,
        result(one, &bound),
        kinds(one),
        bounded(one),
        evidence(one),
    );
    for (number, curve) in (1..).zip(&one.curves) {
        self::curve(&mut page, curve, one.bound, &drawing(&one.study, number));
    }
    for (number, chart) in (one.curves.len() + 1..).zip(&one.charts) {
        self::chart(&mut page, chart, &drawing(&one.study, number));
    }
    page.push_str("\n## Parameters of the model\n\n| parameter | value | evidence |\n|---|---:|---|\n");
    for given in &one.parameters {
        writeln!(page, "| `{}` | {:.2} | {} |", given.name, given.value, given.evidence).unwrap();
    }
    page
}

/// What counts: the rows out of sample.
fn result(one: &Reproduction, bound: &str) -> String {
    match one.out_of_sample() {
        Tally { rows: 0, .. } => {
            format!("No figure is out of sample, so none counts as a hit. The bound is {bound}.")
        }
        tally => format!("{} of {} figures out of sample are within {bound}.", tally.within(), tally.rows),
    }
}

/// A table of the rows by kind.
fn kinds(one: &Reproduction) -> String {
    let mut table = "| kind | figures | within | missed |\n|---|---:|---:|---:|\n".to_owned();
    for kind in FigureKind::OF_ROWS.into_iter().rev() {
        let tally = one.tally(|of| of == kind);
        let (within, missed) = match kind.can_miss() {
            true => (tally.within().to_string(), tally.missed.to_string()),
            false => ("-".to_owned(), "-".to_owned()),
        };
        if tally.rows > 0 {
            writeln!(table, "| {} | {} | {within} | {missed} |", kind.word(), tally.rows).unwrap();
        }
    }
    table
}

/// Where only bounds were published: the points outside.
fn bounded(one: &Reproduction) -> String {
    match one.bounded() {
        Tally { rows: 0, .. } => String::new(),
        tally => format!(
            "\nFor {} points, only bounds were published; {} of them are outside. Those inside prove little.\n",
            tally.rows, tally.missed
        ),
    }
}

/// How much of the model is evidence.
fn evidence(one: &Reproduction) -> String {
    let EvidenceShare { published, measured, calibrated, assumed, .. } = one.evidence;
    format!(
        "Of {} parameters, {published} are published, {measured} measured or counted, {calibrated} calibrated and {assumed} assumed.",
        one.evidence.all()
    )
}

/// Where the drawing of a curve is, seen from the page.
fn drawing(study: &str, number: usize) -> String {
    format!("{study}/{number}.svg")
}

fn curve(page: &mut String, curve: &Curve, bound: f64, drawing: &str) {
    let Curve { name, x_title, y_title, source, .. } = curve;
    let drawing = if curve.is_line() { format!("![{name}]({drawing})\n\n") } else { String::new() };
    let reference = curve.reference.word();
    write!(page, "\n## {name}\n\nUnit: {y_title}. Source: {source}.\n\n{drawing}| {x_title} | {reference} | ours | error | kind |\n|---:|---:|---:|---:|---|\n")
        .unwrap();
    for point in &curve.points {
        let missed = match (curve.misses(point, bound), curve.is_open(point, bound)) {
            (true, false) => ", missed",
            (true, true) => ", missed ?",
            (false, true) => ", within ?",
            (false, false) => "",
        };
        let [reference, ours] = [figure(point.reference), with_interval(point)];
        let (x, percent, kind) = (point.x, point.error() * 100.0, kind(curve, point));
        let error = if percent.abs() < 0.05 { "0.0".to_owned() } else { format!("{percent:+.1}") };
        writeln!(page, "| {x} | {reference} | {ours} | {error} % | {kind}{missed} |").unwrap();
    }
    if let Some(remark) = &curve.remark {
        writeln!(page, "\n{remark}").unwrap();
    }
}

/// A row's kind, with the row that it repeats or the part that limits it.
fn kind(curve: &Curve, point: &Point) -> String {
    let word = point.kind.word();
    match (&point.repeats, &point.limit) {
        (Some(row), _) if row.curve == curve.name => format!("{word} {}", row.x),
        (Some(row), _) => format!("{word} {} of \"{}\"", row.x, row.curve),
        (None, Some(limit)) if point.kind == FigureKind::Saturated => format!("{word}: {}", limit.name),
        _ => word.to_owned(),
    }
}

fn chart(page: &mut String, chart: &Chart, drawing: &str) {
    let Chart { name, x_title, y_title, source, .. } = chart;
    let names = chart.lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>().join(" | ");
    let rule = "---:|".repeat(chart.lines.len());
    write!(page, "\n## {name}\n\nUnit: {y_title}. All values are ours. Published: {source}.\n\n![{name}]({drawing})\n\n| {x_title} | {names} |\n|---:|{rule}\n")
        .unwrap();
    for row in 0..chart.lines.iter().map(|line| line.points.len()).max().unwrap_or(0) {
        let cell = |line: &model::Line| {
            let outside = if line.is_outside(line.points[row]) == Some(true) { ", outside" } else { "" };
            let digits = if line.bounds.is_some_and(|bounds| bounds.is_narrow()) { 5 } else { 2 };
            format!("{:.digits$}{outside}", line.points[row].1)
        };
        let cells = chart.lines.iter().map(cell).collect::<Vec<_>>().join(" | ");
        let place = chart.categories.get(row).cloned();
        let place = place.unwrap_or_else(|| chart.lines[0].points[row].0.to_string());
        writeln!(page, "| {place} | {cells} |").unwrap();
    }
    if chart.lines.iter().any(|line| line.bounds.is_some()) {
        page.push_str("\nPublished bounds:\n\n");
    }
    for line in &chart.lines {
        if let Some(bounds) = line.bounds {
            writeln!(page, "- {}: {} to {}, up to x = {}", line.name, bounds.low, bounds.high, bounds.x_max)
                .unwrap();
        }
    }
    if let Some(remark) = &chart.remark {
        writeln!(page, "\n{remark}").unwrap();
    }
}

/// Ours, with half of its interval if that has a width.
fn with_interval(point: &Point) -> String {
    let (ours, half) = (figure(point.ours), figure(point.estimate().half_width().unwrap()));
    if half == figure(0.0) { ours } else { format!("{ours} ±{half}") }
}

/// A figure with three decimals below ten, else with one.
fn figure(value: f64) -> String {
    let digits = if value.abs() < 10.0 { 3 } else { 1 };
    format!("{value:.digits$}")
}

/// The reproductions of all studies, run in parallel, once for all tests.
static REPRODUCED: LazyLock<Vec<Reproduction>> = LazyLock::new(|| {
    std::thread::scope(|scope| {
        let running: Vec<_> =
            model::studies().map(|study| scope.spawn(|| model::reproduce(study).unwrap())).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
});

fn reproduced(study: &str) -> &'static Reproduction {
    REPRODUCED.iter().find(|one| one.study == study).unwrap()
}

#[test]
fn pages_of_studies_are_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies");
    for one in &*REPRODUCED {
        let study = &one.study;
        let drawings = (1..).zip(report::drawings(one));
        let drawn =
            drawings.filter_map(|(number, made)| Some((drawing(study, number), report::svg_file(&made?))));
        for (name, made) in drawn.chain([(format!("{study}.md"), page(one))]) {
            let path = docs.join(&name);
            if std::env::var_os("IOTOLL_UPDATE").is_some() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &made).unwrap();
            }
            let kept = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(kept, made, "docs/studies/{name} is out of date: IOTOLL_UPDATE=1 writes it anew");
        }
    }
}

/// The table of all studies in pages that people write.
const TABLE: [&str; 2] = [
    "<!-- figures out of sample: made by cargo test -p iotoll-report --test reproductions -->\n",
    "<!-- end -->",
];

/// A row for each study: what counts, what misses, and how much is assumed.
fn table_of_studies(folder: &str) -> String {
    let mut table = "| study | out of sample, within bound | others that miss | points outside bounds | parameters assumed |\n\
                     |---|---:|---:|---:|---:|\n"
        .to_owned();
    let of = |part: usize, all: usize| if all == 0 { "-".to_owned() } else { format!("{part} of {all}") };
    for one in &*REPRODUCED {
        let (counted, others, bounded) = (one.out_of_sample(), one.others(), one.bounded());
        let cells = [
            of(counted.within(), counted.rows),
            of(others.missed, others.rows),
            of(bounded.missed, bounded.rows),
            of(one.evidence.assumed as usize, one.evidence.all() as usize),
        ];
        writeln!(table, "| [{}]({folder}{0}.md) | {} |", one.study, cells.join(" | ")).unwrap();
    }
    let counted: Tally = REPRODUCED.iter().map(Reproduction::out_of_sample).sum();
    let others: Tally = REPRODUCED.iter().map(Reproduction::others).sum();
    let outside: Tally = REPRODUCED.iter().map(Reproduction::bounded).sum();
    writeln!(
        table,
        "| all | {} | {} | {} | |",
        of(counted.within(), counted.rows),
        of(others.missed, others.rows),
        of(outside.missed, outside.rows)
    )
    .unwrap();
    table
}

#[test]
fn tables_of_studies_are_up_to_date() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, folder) in [("README.md", "docs/studies/"), ("docs/validation/accuracy.md", "../studies/")] {
        let path = repository.join(file);
        let kept = fs::read_to_string(&path).unwrap();
        let from = kept.find(TABLE[0]).unwrap() + TABLE[0].len();
        let to = from + kept[from..].find(TABLE[1]).unwrap();
        let made = table_of_studies(folder);
        if std::env::var_os("IOTOLL_UPDATE").is_some() {
            fs::write(&path, format!("{}{made}{}", &kept[..from], &kept[to..])).unwrap();
        } else {
            assert_eq!(&kept[from..to], made, "{file} is out of date: IOTOLL_UPDATE=1 writes it anew");
        }
    }
}

#[test]
fn figures_are_shown_with_their_errors_and_evidence() {
    let one = reproduced("iotlb");
    let page = report::reproductions(std::slice::from_ref(one), Stories::Open);
    let shown = report::text(&page, 100, Style::Plain, Length::Folded);
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    for words in [
        "rule, MISSED",
        "Saturated: the link",
        "Repeats: at 256 that of Ivy Bridge",
        "parameters are assumed",
        "calibrated against",
        "walk_gap_ns",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let html = report::html(&page, "iotoll", "iotoll test");
    assert_eq!(html.matches("<svg class=\"plot\"").count(), 1 + 31);
    assert!(!html.contains("<script") && !html.contains("src="));
}

#[test]
fn bounds_are_shown_with_the_points_outside_them() {
    let one = reproduced("dma-contention");
    let page = report::reproductions(std::slice::from_ref(one), Stories::Open);
    let shown = report::text(&page, 120, Style::Plain, Length::Folded);
    assert!(shown.lines().all(|line| line.chars().count() <= 120), "{shown}");
    for words in [
        "figures out of sample within",
        "out of sample, MISSED",
        "points out of bounds",
        "OUTSIDE",
        "tree 1 to 450, up to x = 8",
        "measured here",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let html = report::html(&page, "iotoll", "iotoll test");
    let lines = one.curves.iter().filter(|curve| curve.is_line()).count();
    assert_eq!(html.matches("<svg class=\"plot\"").count(), 1 + lines + one.charts.len());
    assert_eq!(html.matches(" OUTSIDE<").count(), one.bounded().missed);
}

#[test]
fn an_unknown_study_is_an_error_that_names_all_studies() {
    let error = model::reproduce("nobody").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            r#"there is no study "nobody"; expected one of {}"#,
            model::studies().collect::<Vec<_>>().join(", ")
        )
    );
}

#[test]
fn all_figures_stand_in_one_table_before_the_folded_stories() {
    let page = report::reproductions(&REPRODUCED, Stories::Folded);
    let shown = report::text(&page, 100, Style::Plain, Length::Folded);
    let figures: usize = REPRODUCED.iter().flat_map(|one| &one.curves).map(|curve| curve.points.len()).sum();
    let is_row = |line: &&str| {
        let verdict =
            [", MISSED ?", ", MISSED", ", within ?"].into_iter().find(|words| line.ends_with(words));
        let kind = line.strip_suffix(verdict.unwrap_or_default()).unwrap_or(line);
        line.contains(" % ") && FigureKind::OF_ROWS.iter().any(|one| kind.ends_with(one.word()))
    };
    assert_eq!(shown.lines().filter(is_row).count(), figures, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    assert!(!shown.contains("Parameters of the model"), "stories are left out");
    let full = report::text(&page, 100, Style::Plain, Length::Full);
    assert_eq!(full.matches("Parameters of the model").count(), REPRODUCED.len());
    let html = report::html(&page, "iotoll", "iotoll test");
    assert_eq!(html.matches("<details class=\"story\"").count(), REPRODUCED.len());
    let table = html.find("<table class=\"figures\"").unwrap();
    assert!(html.find("<svg class=\"plot\"").unwrap() < table && table < html.find("<details").unwrap());
}
