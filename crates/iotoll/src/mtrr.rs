//! `iotoll mtrr plan`: plans the writes to `/proc/mtrr` that give ranges the wanted memory types.

use crate::cli::{Order, Plan as Args};
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::source::open_tree;
use anyhow::{Context, bail};
use host::memory::plan::{self, Plan, PlanTarget, REGISTER_COUNT_REASON, Wish, assume_register_count};
use host::memory::{DefaultType, TableLayout};
use host::{Host, Tree};
use serde::Serialize;
use toll::Evidence;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.mtrr-plan/2";

/// What `iotoll mtrr plan --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.mtrr-plan/2`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The processor and kernel that the plan is for.
    machine: &'a PlanTarget,
    /// Where the number of its registers comes from.
    registers_evidence: &'a Evidence,
    /// The writes, and those that undo them.
    plan: &'a Plan,
}

/// Plans the MTRR changes and prints them as a page, a script or JSON.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let tree = open_tree(args.from.as_deref())?;
    let (machine, evidence) = read_machine(&tree, args)?;
    let plan = plan::plan(&machine, &args.wishes, planner_order(args.order))
        .with_context(|| no_plan_for(&args.wishes))?;
    match (args.json, args.script) {
        (true, _) => output::print_json(&Document {
            schema: SCHEMA,
            made_by: program_version(),
            machine: &machine,
            registers_evidence: &evidence,
            plan: &plan,
        })?,
        (false, true) => output::print_text(&plan.script())?,
        (false, false) => output::print_page(&report::mtrr_plan(&plan, &machine, &evidence))?,
    }
    Ok(Outcome::Fine)
}

/// The context of an error of the planner: the ranges and types asked for.
fn no_plan_for(wishes: &[Wish]) -> String {
    let wishes: Vec<String> = wishes.iter().map(ToString::to_string).collect();
    format!("no plan for {}", wishes.join(", "))
}

fn planner_order(order: Order) -> plan::Order {
    match order {
        Order::FewestSteps => plan::Order::FewestSteps,
        Order::FewestRegisters => plan::Order::FewestRegisters,
        Order::Tidy => plan::Order::Tidy,
    }
}

/// What could not be read, to append to an error.
fn doubts_suffix(doubts: &[String]) -> String {
    doubts.iter().map(|doubt| format!("; {doubt}")).collect()
}

/// The processor and kernel to plan for, and where the number of registers comes from.
fn read_machine(tree: &Tree, args: &Args) -> anyhow::Result<(PlanTarget, Evidence)> {
    let host = Host::read(tree);
    let doubts: Vec<String> = host.doubts().collect();
    let Some(memory) = &host.memory else {
        bail!("only x86 CPUs have MTRRs; this host is not x86{}", doubts_suffix(&doubts))
    };
    for doubt in &doubts {
        output::print_note(&format!("the plan may be wrong: {doubt}"));
    }
    let Some(table) = &memory.mtrr else {
        if let Some(why) = host.unread.get("proc/mtrr") {
            bail!("/proc/mtrr could not be read: {why}");
        }
        bail!("there is no /proc/mtrr: this kernel or virtual machine has no MTRRs")
    };
    if let Some(problem) = memory.problems.iter().find(|problem| problem.at.file.as_ref() == "proc/mtrr") {
        bail!("{problem}: a plan from a table read in part could damage the rest");
    }
    let registers: Vec<_> = table.registers.iter().map(|register| register.value).collect();
    let (register_count, evidence) = match args.registers {
        Some(count) => (count, Evidence::Assumed { why: "given by --registers".to_owned() }),
        None => {
            let why = REGISTER_COUNT_REASON.to_owned();
            (assume_register_count(&registers), Evidence::Assumed { why })
        }
    };
    let address_bits = host.platform.address_bits.as_ref().map_or(36, |cited| cited.value);
    let machine = PlanTarget {
        registers,
        register_count,
        address_bits,
        default: args.default_type.map_or_else(|| memory.default.clone(), DefaultType::given),
        kernel: memory.kernel,
        layout: table.layout.unwrap_or_else(|| TableLayout::of_kernel(memory.kernel)),
    };
    Ok((machine, evidence))
}
