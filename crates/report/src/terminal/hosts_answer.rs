//! What a model says of two hosts, on a terminal.

use super::model_answer::calculated_from;
use super::page::Page;
use crate::bench_text::{figure, time};
use crate::fact::Fact;
use crate::quantity;
use crate::style::Style;
use escape::terminal::plain;
use model::host::CpusAnswer;
use model::network::HostsAnswer;

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Rates, latency, what CPUs do, how busy each part is, and which one limits.
pub fn hosts_answer(answer: &HostsAnswer, file: &str, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&plain(&answer.what));
    if let (Some(mean), Some(p99)) = (answer.latency_mean_ns, answer.latency_p99_ns) {
        page.fact(
            &Fact::known("latency", &format!("{} on average, {} for 99 of 100", time(mean), time(p99))),
            NAMES,
        );
    }
    let rate = quantity::grouped(answer.operations_per_second.round() as u64);
    for (name, value) in [
        ("throughput", format!("{rate} operations/s, {} Gb/s", figure(answer.gigabits_per_second))),
        ("limited by", answer.limit.clone()),
        ("evidence", calculated_from(file)),
    ] {
        page.fact(&Fact::known(name, &value), NAMES);
    }
    page.heading("What the CPUs do");
    for (name, host) in ["client", "server"].iter().zip(&answer.hosts) {
        page.item("- ", &format!("{name}: {}", cpus(host)), 2);
    }
    page.parts("How busy the parts are", &answer.parts);
    page.done()
}

/// What a host's CPUs do, in words.
pub(super) fn cpus(host: &CpusAnswer) -> String {
    let stages = host.stages.iter().filter(|stage| stage.busy_cpus > 0.0);
    let stages: Vec<String> = stages.map(|stage| format!("{} {:.2}", stage.name, stage.busy_cpus)).collect();
    let mut words = format!("{:.2} hardware threads busy ({})", host.busy_cpus, stages.join(", "));
    for (rate, what) in
        [(host.hypercalls_per_second, "hypercalls"), (host.invalidations_per_second, "invalidations")]
    {
        if rate > 0.0 {
            let rate = quantity::grouped(rate.round() as u64);
            words.push_str(&format!("; {rate} {what}/s; {} wait for a lock", time(host.lock_wait_mean_ns)));
        }
    }
    if let Some(iommu) = host.iommu {
        let lookups = quantity::grouped(iommu.lookups_per_second.round() as u64);
        let missed = iommu.miss_share * 100.0;
        words.push_str(&format!("; {lookups} lookups/s in the IOTLB, {missed:.1} % not found"));
        if iommu.stale_uses > 0 {
            words.push_str(&format!("; {} led by what is stale", quantity::grouped(iommu.stale_uses)));
        }
    }
    if host.mappings_refused > 0 {
        let refused = quantity::grouped(host.mappings_refused);
        words.push_str(&format!("; {refused} mappings refused: the window is full"));
    }
    words
}
