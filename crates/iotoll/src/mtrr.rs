//! `iotoll mtrr plan`: the writes to `/proc/mtrr` that give ranges the wanted types.

use crate::cli::{Order, Plan as Args};
use crate::output::{self, Outcome};
use crate::source::open;
use anyhow::{Context, bail};
use host::memory::plan::{self, Machine, Plan, Wish, assume_register_count};
use host::memory::{DefaultType, TableLayout};
use host::{Host, Tree};
use serde::Serialize;
use toll::Evidence;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    machine: &'a Machine,
    registers_evidence: &'a Evidence,
    plan: &'a Plan,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let tree = open(args.from.as_deref())?;
    let (machine, evidence) = machine(&tree, args)?;
    let plan = plan::plan(&machine, &args.wishes, order(args.order)).with_context(|| asked(&args.wishes))?;
    match (args.json, args.script) {
        (true, _) => output::json(&Document {
            schema: "iotoll.mtrr-plan/1",
            machine: &machine,
            registers_evidence: &evidence,
            plan: &plan,
        })?,
        (false, true) => output::data(&plan.script())?,
        (false, false) => output::report(report::mtrr_plan(&plan, &machine, &evidence, output::width()))?,
    }
    Ok(Outcome::Fine)
}

fn asked(wishes: &[Wish]) -> String {
    let wishes: Vec<String> = wishes.iter().map(ToString::to_string).collect();
    format!("no plan for {}", wishes.join(", "))
}

fn order(order: Order) -> plan::Order {
    match order {
        Order::FewestSteps => plan::Order::FewestSteps,
        Order::FewestRegisters => plan::Order::FewestRegisters,
        Order::Tidy => plan::Order::Tidy,
    }
}

fn after(doubts: &[String]) -> String {
    doubts.iter().map(|doubt| format!("; {doubt}")).collect()
}

fn machine(tree: &Tree, args: &Args) -> anyhow::Result<(Machine, Evidence)> {
    let host = Host::read(tree);
    let doubts: Vec<String> = host.doubts().collect();
    let Some(memory) = &host.memory else {
        bail!("MTRRs are registers of x86 CPUs; this host is none{}", after(&doubts))
    };
    for doubt in &doubts {
        output::say(&format!("the plan may be wrong: {doubt}"));
    }
    let Some(table) = &memory.mtrr else {
        if let Some(why) = host.unread.get("proc/mtrr") {
            bail!("/proc/mtrr could not be read: {why}");
        }
        bail!("/proc/mtrr is not there: this kernel or virtual machine has no MTRRs to plan with")
    };
    if let Some(problem) = memory.problems.iter().find(|problem| problem.at.file.as_ref() == "proc/mtrr") {
        bail!("{problem}: a plan from half a table could damage the other half");
    }
    let registers: Vec<_> = table.registers.iter().map(|register| register.value).collect();
    let (register_count, evidence) = match args.registers {
        Some(count) => (count, Evidence::Assumed { why: "given by --registers".to_owned() }),
        None => assume_register_count(&registers),
    };
    let address_bits = host.platform.address_bits.as_ref().map_or(36, |cited| cited.value);
    let machine = Machine {
        registers,
        register_count,
        address_bits,
        default: args.default_type.map_or_else(|| memory.default.clone(), DefaultType::given),
        kernel: memory.kernel,
        layout: table.layout.unwrap_or_else(|| TableLayout::of_kernel(memory.kernel)),
    };
    Ok((machine, evidence))
}
