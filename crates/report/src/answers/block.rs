//! The answer for a host with an NVMe disk.

use super::runs::runs;
use super::words::{add_busy_shares, calculated_from, cpus, per_second};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time, with_interval};
use escape::terminal::plain;
use model::FileEvidence;
use model::block::{BlockAnswer, ServedAnswer};

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Latency, throughput and what limits them; then each job, the CPUs, and how busy each part is.
pub fn block_answer(answer: &BlockAnswer, file: &str, evidence: &FileEvidence) -> Page {
    let mut page = Page::titled(&answer.what);
    let interrupts = with_interval(&answer.interrupts_per_second, per_second);
    let depth = with_interval(&answer.depth_mean, |depth| format!("{depth:.1}"));
    let ignored = (!answer.set_aside.is_empty()).then(|| answer.set_aside.join(", "));
    let facts = [
        ("latency", latency(&answer.all)),
        ("throughput", Some(throughput(&answer.all))),
        ("in flight", Some(format!("{depth} on average, {interrupts} interrupts/s"))),
        ("limited by", Some(answer.limit.clone())),
        ("set aside", ignored),
        ("runs", Some(runs(&answer.runs))),
        ("evidence", Some(calculated_from(file, evidence))),
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
    let rate = with_interval(&served.operations_per_second, per_second);
    format!("{rate} operations/s, {} GB/s", with_interval(&served.gigabytes_per_second, figure))
}

/// Mean and percentiles of the latency; `None` if no operation completed.
fn latency(served: &ServedAnswer) -> Option<String> {
    let [mean, p50, p99, p99_9] =
        [served.latency_mean_ns?, served.latency_p50_ns?, served.latency_p99_ns?, served.latency_p99_9_ns?]
            .map(|latency| with_interval(&latency, time));
    Some(format!("{mean} on average, {p50} for half of them, {p99} for 99 of 100, {p99_9} for 999 of 1,000"))
}
