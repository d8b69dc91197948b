//! What the kinds of figures in `experiments/*.toml` claim, held against the runs themselves.
//!
//! A kind can be wrong in two ways: it says more than the run, or a row that should have it does not. Both are looked for.

use crate::REPRODUCED;
use model::{Curve, FigureKind, Part, Point, Reproduction};

/// A part limits from this share of the time on.
const LIMITS_FROM: f64 = 0.95;
/// Values that differ by less are the same.
const SAME: f64 = 1e-3;
/// Parts that carry data at a rate which is an input.
const WIRES: [&str; 4] = ["wire", "link", "cable", "bus "];
/// Parts that begin their work at a rate which is an input.
const ENGINES: [&str; 2] = ["the engine's beginning of transfers", "the walker's beginning of walks"];

/// A row with its curve and its study.
#[derive(Clone, Copy)]
struct Row<'r> {
    study: &'r Reproduction,
    curve: &'r Curve,
    point: &'r Point,
}

impl std::fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}, at {}: {:?}", self.study.study, self.curve.name, self.point.x, self.point)
    }
}

fn rows() -> impl Iterator<Item = Row<'static>> {
    REPRODUCED.iter().flat_map(|study| {
        let of_curve = move |curve| rows_of_curve(study, curve);
        study.curves.iter().flat_map(of_curve)
    })
}

fn rows_of_curve<'r>(study: &'r Reproduction, curve: &'r Curve) -> impl Iterator<Item = Row<'r>> {
    curve.points.iter().map(move |point| Row { study, curve, point })
}

fn of_kind(kind: FigureKind) -> impl Iterator<Item = Row<'static>> {
    rows().filter(move |row| row.point.kind == kind)
}

/// The row that a row repeats.
fn repeated(row: Row<'static>) -> Row<'static> {
    let named = row.point.repeats.as_ref().unwrap_or_else(|| panic!("{row} names no row"));
    rows()
        .filter(|other| other.study.study == row.study.study)
        .find(|other| other.curve.name == named.curve && other.point.x == named.x)
        .unwrap_or_else(|| panic!("{row} names a row that does not exist"))
}

fn is_same(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < SAME
}

fn is_limited_by(point: &Point, parts: &[&str]) -> bool {
    let is_one = |part: &Part| parts.iter().any(|word| part.name.contains(word));
    point.limit.as_ref().is_some_and(|part| part.busy_share >= LIMITS_FROM && is_one(part))
}

#[test]
fn a_saturated_row_is_limited_by_a_wire() {
    for row in of_kind(FigureKind::Saturated) {
        assert!(is_limited_by(row.point, &WIRES), "{row}");
    }
}

#[test]
fn a_row_that_repeats_has_the_value_of_the_row_that_it_names() {
    for row in of_kind(FigureKind::Repeats) {
        let named = repeated(row);
        assert!(is_same(row.point.ours, named.point.ours), "{row}\n{named}");
        assert!(named.point.kind != FigureKind::Repeats, "{row} repeats a row that repeats another: {named}");
        assert_eq!(row.curve.y_title, named.curve.y_title, "{row}");
    }
    for row in rows().filter(|row| row.point.kind != FigureKind::Repeats) {
        assert!(row.point.repeats.is_none(), "{row}");
    }
}

#[test]
fn an_interpolated_row_is_between_calibrated_ones_and_no_other_is() {
    for row in rows() {
        let calibrated = || row.curve.points.iter().filter(|point| point.kind == FigureKind::Calibrated);
        let is_between = calibrated().any(|point| point.x < row.point.x)
            && calibrated().any(|point| point.x > row.point.x);
        match row.point.kind {
            FigureKind::Interpolated => assert!(is_between, "{row}"),
            FigureKind::OutOfSample => assert!(!is_between, "{row}"),
            _ => {}
        }
    }
}

/// A hit out of sample counts, so none may be one for another reason.
#[test]
fn a_row_out_of_sample_is_no_wires_rate_no_input_and_no_other_row() {
    for row in of_kind(FigureKind::OutOfSample) {
        assert!(!is_limited_by(row.point, &WIRES) && !is_limited_by(row.point, &ENGINES), "{row}");
        for parameter in &row.study.parameters {
            assert!(!is_same(row.point.ours, parameter.value), "{row} is {}", parameter.name);
        }
        let others = rows().filter(|other| {
            other.study.study == row.study.study
                && other.curve.y_title == row.curve.y_title
                && !std::ptr::eq(other.point, row.point)
                && is_same(other.point.ours, row.point.ours)
        });
        for other in others {
            let is_repeat =
                other.point.kind == FigureKind::Repeats && std::ptr::eq(repeated(other).point, row.point);
            assert!(is_repeat, "{row} has the value of {other}");
        }
    }
}

/// A reader has to be told which rule, and what was chosen.
#[test]
fn rules_and_choices_are_explained() {
    for kind in [FigureKind::Rule, FigureKind::StructureChosen] {
        for row in of_kind(kind) {
            assert!(row.curve.remark.is_some(), "{row}");
        }
    }
}

#[test]
fn calibrated_rows_are_met() {
    for row in of_kind(FigureKind::Calibrated) {
        assert!(row.point.error().abs() < 0.04, "{row}");
    }
}

/// What is one job's rate times the jobs, or one thread's time, does not depend on the model.
#[test]
fn rows_without_contention_are_multiples_of_one() {
    let without = |row: &Row<'_>| {
        row.curve.name.starts_with("fio on a VDUSE disk") && row.point.kind == FigureKind::Rule
    };
    let mut checked = 0;
    for row in rows().filter(without) {
        let one = row.curve.points.iter().find(|point| point.x == 1.0).unwrap();
        assert!((row.point.ours / (row.point.x * one.ours) - 1.0).abs() < 0.02, "{row}");
        checked += 1;
    }
    assert_eq!(checked, 6);
}

#[test]
fn every_kind_of_a_row_occurs() {
    for kind in FigureKind::OF_ROWS {
        assert!(of_kind(kind).next().is_some(), "{kind:?}");
    }
}
