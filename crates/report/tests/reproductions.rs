//! The pages of reproduced figures, `docs/FAMILY.md`, are what the models say.
//!
//! `IOTOLL_UPDATE=1 cargo test -p report --test reproductions` writes them anew.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use model::{Curve, Reproduction};
use report::Style;
use std::fmt::Write;
use std::{fs, path::Path};

fn page(one: &Reproduction) -> String {
    let (predicted, missed) = one.predictions();
    let own = one.curves.iter().find_map(|curve| curve.within);
    let mut page = format!(
        "# {}: published figures, and ours\n\n{} {}\n\n    iotoll reproduce {0} --html {0}.html    # with plots\n\n\
         Of {predicted} predicted figures {} are within {:.0} % of what was published{}; the others stay as they came out. Made by\n\
         `IOTOLL_UPDATE=1 cargo test -p report --test reproductions` from `experiments/{0}.toml`.\n",
        one.family,
        one.question,
        one.method,
        predicted - missed,
        one.bound * 100.0,
        own.map(|within| format!(" (ratios within {within})")).unwrap_or_default()
    );
    for (number, curve) in (1..).zip(&one.curves) {
        self::curve(&mut page, curve, one.bound, &drawing(&one.family, number));
    }
    page.push_str("\n## What the model takes as given\n\n| parameter | value | evidence |\n|---|---:|---|\n");
    for given in &one.parameters {
        writeln!(page, "| `{}` | {:.2} | {} |", given.name, given.value, given.evidence).unwrap();
    }
    page
}

/// Where the drawing of a curve is, seen from the page.
fn drawing(family: &str, number: usize) -> String {
    format!("{family}/{number}.svg")
}

fn curve(page: &mut String, curve: &Curve, bound: f64, drawing: &str) {
    let Curve { name, x_title, y_title, source, .. } = curve;
    let drawing = if curve.is_line() { format!("![{name}]({drawing})\n\n") } else { String::new() };
    write!(page, "\n## {name}\n\nIn {y_title}; {source}.\n\n{drawing}| {x_title} | published | ours | error | |\n|---:|---:|---:|---:|---|\n")
        .unwrap();
    for point in &curve.points {
        let missed = if curve.misses(point, bound) { ", missed" } else { "" };
        let published = point.published.map(figure).unwrap_or_default();
        let error = point.error().map(|error| format!("{:+.1} %", error * 100.0)).unwrap_or_default();
        let (x, ours, role) = (point.x, figure(point.ours), point.role.word());
        writeln!(page, "| {x} | {published} | {ours} | {error} | {role}{missed} |").unwrap();
    }
    if let Some(remark) = &curve.remark {
        writeln!(page, "\n{remark}").unwrap();
    }
}

/// As many digits as tell it from its neighbours.
fn figure(value: f64) -> String {
    let digits = if value.abs() < 10.0 { 3 } else { 1 };
    format!("{value:.digits$}")
}

#[test]
fn pages_are_what_the_models_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for family in model::families() {
        let one = model::reproduce(family).unwrap();
        let drawn = (1..)
            .zip(&one.curves)
            .filter(|(_, curve)| curve.is_line())
            .map(|(number, curve)| (drawing(family, number), report::curve_drawing(curve)));
        for (name, made) in drawn.chain([(format!("{family}.md"), page(&one))]) {
            let path = docs.join(&name);
            if std::env::var_os("IOTOLL_UPDATE").is_some() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &made).unwrap();
            }
            let kept = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(kept, made, "docs/{name} is out of date: IOTOLL_UPDATE=1 writes it anew");
        }
    }
}

#[test]
fn figures_are_shown_with_their_errors_and_evidence() {
    let one = model::reproduce("iotlb").unwrap();
    let shown = report::reproduction(&one, 100, Style::Plain);
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    for words in [
        "iotlb: 81 of 134 predicted figures within 10 %",
        "predicted, MISSED",
        "calibrated against",
        "walk_gap_ns",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let html = report::reproduction_page(&[one], "iotoll test");
    assert_eq!(html.matches("<svg class=\"plot\"").count(), 31);
    assert!(!html.contains("<script") && !html.contains("src="));
}

#[test]
fn there_is_no_such_family() {
    let error = model::reproduce("nobody").unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"there is no family "nobody"; there are power-window, dma-contention, iotlb"#
    );
}
