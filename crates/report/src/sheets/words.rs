//! Parts of toll sheets in words, the same on a terminal and in HTML.

use crate::page::fact::Fact;
use crate::page::quantity;
use escape::terminal::plain;
use toll::{Event, Given, GuestProgram, PriceList, Toll, TollSheet};

/// The machine and kernel that a sheet was measured on, and the cost of its DMA path in words.
pub(crate) fn facts(sheet: &TollSheet) -> Vec<Fact> {
    let (machine, kernel) = (&sheet.machine, &sheet.kernel);
    let cpus = quantity::count(machine.vcpus as usize, "CPU");
    let memory = quantity::bytes(machine.memory_mib.saturating_mul(1 << 20));
    let package = kernel.package.as_ref().map(|package| format!(" ({package})")).unwrap_or_default();
    let times = quantity::count(sheet.repeats as usize, "time");
    let boots = quantity::count(sheet.boots.len(), "boot");
    let programs: Vec<String> = sheet.programs.iter().map(program).collect();
    vec![
        Fact::known("cost", sheet.dma_path.toll()),
        Fact::known(
            "machine",
            &format!("{} {}, {cpus}, {memory}, QEMU {}", machine.arch, machine.cpu, machine.qemu_version),
        ),
        Fact::known("kernel", &format!("Linux {}{package}", kernel.release)),
        Fact::known("options", &kernel.command_line),
        Fact::known("programs", &programs.join("; ")),
        Fact::known("measured", &format!("{}, {boots}, {times}", sheet.measured_on)),
    ]
}

/// A program in the guest: its name, the beginning of its digest, and its compiler.
fn program(program: &GuestProgram) -> String {
    let digest: String = program.sha256.chars().take(12).collect();
    format!("{} (SHA-256 {digest}..., {})", program.name, program.compiler)
}

/// A workload: its I/O, its driver, how many windows were counted, and how.
pub(crate) fn workload(toll: &Toll) -> String {
    format!(
        "{}; driver {}, {} per I/O, {} per window; {} of {} at the median; {}",
        toll.what,
        toll.driver,
        quantity::bytes(toll.bytes_per_io),
        quantity::count(toll.ios_per_window.get() as usize, "I/O"),
        quantity::grouped(u64::from(toll.instructions.at_median)),
        quantity::count(toll.windows.get() as usize, "window"),
        toll.evidence,
    )
}

/// Events per I/O: those of the median window, then ` ~` and the mean of all windows where that differs. Empty if they were not
/// counted.
pub(crate) fn per_io(toll: &Toll, event: Event) -> String {
    let Some(tally) = toll.events.get(&event) else { return String::new() };
    let (median, mean) = (toll.per_io(tally.all.median), toll.mean_per_io(tally.all.total));
    let median_words = quantity::per_io(median);
    if median == mean { median_words } else { format!("{median_words} ~{}", quantity::per_io(mean)) }
}

/// What is priced, the prices of instructions and of these events, each with the kind of its evidence, and which of the events have none.
pub(crate) fn price_words(what: &str, list: &PriceList, events: &[Event]) -> String {
    let words = |name: &str, price: &Given| {
        let kind = price.evidence.to_string();
        let kind = kind.split([':', ' ']).next().unwrap_or_default();
        format!("{name} {} ({kind})", quantity::time(price.value))
    };
    let priced = events.iter().filter_map(|event| Some(words(event.word(), list.event_ns.get(event)?)));
    let all: Vec<String> =
        std::iter::once(words("instruction", &list.instruction_ns)).chain(priced).collect();
    let unpriced = events.iter().filter(|event| !list.event_ns.contains_key(event));
    let unpriced: Vec<&str> = unpriced.map(|event| event.word()).collect();
    let unpriced = match unpriced.is_empty() {
        true => String::new(),
        false => format!("; not priced: {}", unpriced.join(", ")),
    };
    format!(
        "priced: DMA stages and events {what}, at the prices of {}: {}{unpriced}",
        plain(&list.platform),
        all.join(", ")
    )
}
