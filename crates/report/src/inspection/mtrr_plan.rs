//! The page of a plan to change MTRRs.

use crate::page::Page;
use escape::shell::Command;
use host::memory::mtrr::print_table;
use host::memory::plan::{Harm, Plan, PlanTarget, PlannedStep, Step};
use toll::Evidence;

/// The page of a plan: the table before, each step with its temporary effect on other ranges, the table after, and the steps that undo it.
pub fn mtrr_plan(plan: &Plan, machine: &PlanTarget, registers_evidence: &Evidence) -> Page {
    let mut page = Page::default();
    add_table(&mut page, "Table before", &print_table(&plan.before, plan.layout));
    if plan.steps.is_empty() {
        page.blank();
        page.line("Nothing to do: every wish is fulfilled already.");
        return page;
    }
    page.blank();
    page.line("Steps, each a write to /proc/mtrr as root:");
    for (number, step) in (1..).zip(&plan.steps) {
        add_step(&mut page, number, step);
    }
    page.blank();
    add_table(&mut page, "Table after, as predicted", &print_table(plan.after(), plan.layout));
    page.blank();
    page.line("The way back:");
    plan.undo().iter().for_each(|step| page.line(format!("  {}", command(step))));
    page.blank();
    page.prose(
        format!(
            "Planned for {} variable registers ({registers_evidence}), {} address bits, default type {} ({}).",
            machine.register_count,
            machine.address_bits,
            machine.default.kind,
            machine.default.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        ),
        0,
    );
    if plan.worst() == Some(Harm::Dangerous) {
        page.prose(
            "On the way a range is more freely cached than before and after: do this before drivers of devices there are \
             loaded, or not at all.",
            0,
        );
    }
    page.line("With checks and a way back at each step: --script.");
    page
}

/// The command that does a step.
fn command(step: &Step) -> Command {
    Command::write(step.to_string(), "/proc/mtrr")
}

/// Adds a table of MTRRs under its title.
fn add_table(page: &mut Page, title: &str, table: &str) {
    page.line(format!("{title}:"));
    table.lines().for_each(|line| page.line(format!("  {line}")));
}

/// Adds a step, and the memory types that ranges have between this step and the next.
fn add_step(page: &mut Page, number: usize, step: &PlannedStep) {
    page.line(format!("  {number:2}.  {}    # reg{:02}", command(&step.step), step.register));
    for transient in &step.transients {
        page.prose(transient.to_string(), 7);
    }
}
