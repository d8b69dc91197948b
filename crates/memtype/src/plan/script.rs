//! A plan as a shell script.

use super::{Plan, PlannedStep, Step};
use crate::{mtrr::print_table, range::describe_bytes};
use escape::shell::quote;
use std::fmt::{self, Write};

/// The script of `plan`: see [`Plan::script`].
pub(super) fn script(plan: &Plan) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_script(plan, &mut text);
    text
}

/// The whole script.
fn write_script(plan: &Plan, out: &mut String) -> fmt::Result {
    write_head(plan, out)?;
    out.write_str(FUNCTIONS)?;
    write_tables(plan, out)?;
    write_undo(plan, out)?;
    write_steps(plan, out)
}

fn write_head(plan: &Plan, out: &mut String) -> fmt::Result {
    writeln!(out, "#!/bin/sh\n# Changes memory types through /proc/mtrr, so that:")?;
    for wish in &plan.wishes {
        writeln!(out, "#   {wish}  ({})", describe_bytes(wish.range.size_bytes()))?;
    }
    writeln!(out, "# Every other address keeps its type.\n#\n# Table before:")?;
    write_comment(out, &print_table(&plan.before, plan.layout))?;
    writeln!(out, "# Table after:")?;
    write_comment(out, &print_table(plan.after(), plan.layout))?;
    writeln!(
        out,
        "#\n# Each write stops all CPUs and runs them without caches for a moment. The changes are gone\n\
         # after a reboot.\n# Usage: as root, `sh SCRIPT` to change, `sh SCRIPT undo` to go back.\n"
    )
}

/// Each line as a comment.
fn write_comment(out: &mut String, lines: &str) -> fmt::Result {
    lines.lines().try_for_each(|line| writeln!(out, "#   {line}"))
}

const FUNCTIONS: &str = r#"set -u

# Tables are compared without blanks: their columns differ between kernels.
table() {
    tr -d ' ' < /proc/mtrr
}

is_at() {
    [ "$(table)" = "$(expected "$1")" ]
}

# The kernel drops the last character of a write, so the newline of echo is needed.
change() {
    echo "$1"
    echo "$1" > /proc/mtrr
}

step() {
    change "$2" && is_at "$1" && return
    echo "step $1 did not do what was planned; going back" >&2
    undo
    exit 1
}

"#;

fn write_tables(plan: &Plan, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "# The table after each step, 0 being the one to begin with.\nexpected() {{\n    case $1 in"
    )?;
    let tables = std::iter::once(&plan.before).chain(plan.steps.iter().map(|step| &step.table));
    for (number, table) in tables.enumerate() {
        let lines = print_table(table, plan.layout).replace(' ', "");
        writeln!(out, "    {number}) cat << 'END'\n{lines}END\n    ;;")?;
    }
    writeln!(out, "    esac\n}}\n")
}

fn write_undo(plan: &Plan, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "# Goes back from any of these tables, and touches no other.\nundo() {{\n    if is_at 0; then\n        return"
    )?;
    for (number, step) in (1..).zip(&plan.steps) {
        writeln!(out, "    elif is_at {number}; then")?;
        step.undo.iter().try_for_each(|step| writeln!(out, "        change {}", word(step)))?;
    }
    writeln!(
        out,
        "    else\n        echo 'the table is none of those planned; nothing was changed' >&2\n        cat /proc/mtrr >&2\n        exit 2\n    fi\n    \
         is_at 0 || {{ echo 'going back failed; this is the table:' >&2; cat /proc/mtrr >&2; exit 2; }}\n}}\n"
    )
}

fn write_steps(plan: &Plan, out: &mut String) -> fmt::Result {
    writeln!(out, "if [ \"${{1-}}\" = undo ]; then\n    undo\n    exit 0\nfi\n")?;
    writeln!(
        out,
        "is_at 0 || {{ echo 'the table is not the one this was planned for; nothing was changed' >&2; exit 2; }}\n"
    )?;
    (1_usize..).zip(&plan.steps).try_for_each(|(number, step)| write_step(number, step, out))
}

fn write_step(number: usize, planned: &PlannedStep, out: &mut String) -> fmt::Result {
    let PlannedStep { step, register, transients, .. } = planned;
    match step {
        Step::Disable { .. } => writeln!(out, "# Takes reg{register:02} back.")?,
        Step::Add { range, kind } => {
            let size = describe_bytes(range.size_bytes());
            writeln!(out, "# Goes into reg{register:02}: {size} at {:#x} become {kind}.", range.base())?;
        }
    }
    transients.iter().try_for_each(|transient| writeln!(out, "# Until the next step {transient}."))?;
    writeln!(out, "step {number} {}", word(step))
}

/// A step as one word of the shell.
fn word(step: &Step) -> String {
    quote(&step.to_string()).unwrap_or_default()
}
