//! The answer for a host with an NVMe disk.

use super::words::{add_busy_shares, calculated_from, cpus, per_second};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time};
use escape::terminal::plain;
use model::block::{BlockAnswer, ServedAnswer};

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Latency, throughput and what limits them; then each job, the CPUs, and how busy each part is.
pub fn block_answer(answer: &BlockAnswer, file: &str) -> Page {
    let mut page = Page::titled(&answer.what);
    let interrupts = per_second(answer.interrupts_per_second);
    let ignored = (!answer.set_aside.is_empty()).then(|| answer.set_aside.join(", "));
    let facts = [
        ("latency", latency(&answer.all)),
        ("throughput", Some(throughput(&answer.all))),
        ("in flight", Some(format!("{:.1} on average, {interrupts} interrupts/s", answer.depth_mean))),
        ("limited by", Some(answer.limit.clone())),
        ("set aside", ignored),
        ("evidence", Some(calculated_from(file))),
    ];
    page.facts(facts.iter().filter_map(|(name, value)| Some(Fact::known(name, value.as_ref()?))), NAMES);
    page.heading("Jobs");
    for job in &answer.jobs {
        let latency = latency(&job.served).map(|words| format!("; {words}")).unwrap_or_default();
        page.bullet(format!("{}: {}{latency}", plain(&job.name), throughput(&job.served)));
    }
    page.heading("What the CPUs do");
    page.bullet(cpus(&answer.cpus));
    add_busy_shares(&mut page, "How busy the parts are", &answer.parts);
    page
}

/// Operations and gigabytes per second.
fn throughput(served: &ServedAnswer) -> String {
    let rate = per_second(served.operations_per_second);
    format!("{rate} operations/s, {} GB/s", figure(served.gigabytes_per_second))
}

/// Mean and percentiles of the latency; `None` if no operation completed.
fn latency(served: &ServedAnswer) -> Option<String> {
    let [mean, p50, p99, p99_9] =
        [served.latency_mean_ns?, served.latency_p50_ns?, served.latency_p99_ns?, served.latency_p99_9_ns?]
            .map(time);
    Some(format!("{mean} on average, {p50} for half of them, {p99} for 99 of 100, {p99_9} for 999 of 1,000"))
}
