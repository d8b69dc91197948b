//! A plan of MTRR changes, as text.

use crate::wrap::wrap;
use escape::shell::Command;
use host::memory::mtrr::print_table;
use host::memory::plan::{Harm, Machine, Plan, PlannedStep, Step};
use std::fmt::Write;
use toll::Evidence;

/// Steps, the table they lead to, what is amiss on the way, and the way back.
pub fn mtrr_plan(plan: &Plan, machine: &Machine, registers_evidence: &Evidence, width: usize) -> String {
    let mut text = String::new();
    section(&mut text, "Table before", &print_table(&plan.before, plan.layout));
    if plan.steps.is_empty() {
        text.push_str("\nNothing to do: every wish is fulfilled already.\n");
        return text;
    }
    let _ = writeln!(text, "\nSteps, each a write to /proc/mtrr as root:");
    for (number, step) in (1..).zip(&plan.steps) {
        planned(&mut text, number, step, width);
    }
    text.push('\n');
    section(&mut text, "Table after, as predicted", &print_table(plan.after(), plan.layout));
    let _ = writeln!(text, "\nThe way back:");
    plan.undo().iter().for_each(|step| {
        let _ = writeln!(text, "  {}", write(step));
    });
    text.push('\n');
    let assumptions = format!(
        "Planned for {} variable registers ({registers_evidence}), {} address bits, default type {} ({}).",
        machine.register_count,
        machine.address_bits,
        machine.default.kind,
        machine.default.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    );
    wrap(&assumptions, width).iter().for_each(|line| {
        let _ = writeln!(text, "{line}");
    });
    if plan.worst() == Some(Harm::Dangerous) {
        let warning = "On the way a range is more freely cached than before and after: do this before drivers of \
                       devices there are loaded, or not at all.";
        wrap(warning, width).iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    text.push_str("With checks and a way back at each step: --script.\n");
    text
}

fn write(step: &Step) -> Command {
    Command::write(step.to_string(), "/proc/mtrr")
}

fn section(text: &mut String, title: &str, table: &str) {
    let _ = writeln!(text, "{title}:");
    table.lines().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
}

fn planned(text: &mut String, number: usize, step: &PlannedStep, width: usize) {
    const INDENT: &str = "       ";
    let _ = writeln!(text, "  {number:2}.  {}    # reg{:02}", write(&step.step), step.register);
    for transient in &step.transients {
        for line in wrap(&transient.to_string(), width.saturating_sub(INDENT.len())) {
            let _ = writeln!(text, "{INDENT}{line}");
        }
    }
}
