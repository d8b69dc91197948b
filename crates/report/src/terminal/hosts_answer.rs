//! What a model says of two hosts, on a terminal.

use super::page::Page;
use crate::bench_text::{figure, time};
use crate::fact::Fact;
use crate::plain::plain;
use crate::quantity;
use crate::style::Style;
use model::network::{HostAnswer, HostsAnswer};

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
        ("evidence", format!("calculated from {}, whose values are its author's", plain(file))),
    ] {
        page.fact(&Fact::known(name, &value), NAMES);
    }
    page.heading("What the CPUs do");
    for (name, host) in ["client", "server"].iter().zip(&answer.hosts) {
        page.item("- ", &format!("{name}: {}", cpus(host)), 2);
    }
    page.heading("How busy the parts are");
    for part in &answer.parts {
        page.item("- ", &format!("{}: {:.1} %", part.name, part.busy_share * 100.0), 2);
    }
    page.done()
}

fn cpus(host: &HostAnswer) -> String {
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
    if host.mappings_refused > 0 {
        let refused = quantity::grouped(host.mappings_refused);
        words.push_str(&format!("; {refused} mappings refused: the window is full"));
    }
    words
}
