//! Toll sheets in words.

use crate::fact::Fact;
use crate::quantity;
use toll::{Event, Toll, TollSheet};

/// What a sheet was measured on.
pub(crate) fn facts(sheet: &TollSheet) -> Vec<Fact> {
    let (machine, kernel) = (&sheet.machine, &sheet.kernel);
    let cpus = quantity::count(machine.vcpus as usize, "CPU");
    let memory = quantity::bytes(machine.memory_mib.saturating_mul(1 << 20));
    let package = kernel.package.as_ref().map(|package| format!(" ({package})")).unwrap_or_default();
    let times = quantity::count(sheet.repeats as usize, "time");
    vec![
        Fact::known("pays", sheet.dma_path.toll()),
        Fact::known(
            "machine",
            &format!("{} {}, {cpus}, {memory}, QEMU {}", machine.arch, machine.cpu, machine.qemu_version),
        ),
        Fact::known("kernel", &format!("Linux {}{package}", kernel.release)),
        Fact::known("options", &kernel.command_line),
        Fact::known("measured", &format!("{}, {times}", sheet.measured_on)),
    ]
}

/// What a workload does, how often it was counted, and how.
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

/// How often something happened per I/O, by the median, and by the mean where that says more. Nothing if
/// it was not counted.
pub(crate) fn happened(toll: &Toll, event: Event) -> String {
    let Some(tally) = toll.events.get(&event) else { return String::new() };
    let (median, mean) = (toll.per_io(tally.all.median), toll.mean_per_io(tally.all.total));
    let typical = quantity::per_io(median);
    if median == mean { typical } else { format!("{typical} ~{}", quantity::per_io(mean)) }
}
