//! The answer for a host with a flash array behind several adapters.

use super::runs::runs;
use super::words::{add_busy_shares, calculated_from, cpus, per_second};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{count, figure, time, with_interval};
use model::FileEvidence;
use model::flash_array::{FlashArrayAnswer, FlashArrayServed, LockAnswer, LogAnswer};

/// Columns for the names of facts.
const NAMES: usize = 14;

/// Throughput, latency and what limits them; then each load, the CPUs, lock contention, the error log, and how busy each part is.
pub fn flash_array_answer(answer: &FlashArrayAnswer, file: &str, evidence: &FileEvidence) -> Page {
    let mut page = Page::titled(&answer.what);
    let interrupts = with_interval(&answer.interrupts_per_second, per_second);
    let depth = with_interval(&answer.depth_mean, |depth| format!("{depth:.1}"));
    let path_length = answer.instructions_each.map(|instructions| {
        format!("{} instructions, the hypervisor's with them", with_interval(&instructions, per_second))
    });
    let facts = [
        ("throughput", Some(throughput(&answer.all))),
        ("latency", latency(&answer.all)),
        ("in flight", Some(format!("{depth} on average, {interrupts} interrupts/s"))),
        ("path length", path_length),
        ("cores used", Some(with_interval(&answer.cores_used, figure))),
        ("limited by", Some(answer.limit.clone())),
        ("runs", Some(runs(&answer.runs))),
        ("evidence", Some(calculated_from(file, evidence))),
    ];
    page.facts(facts.iter().filter_map(|(name, value)| Some(Fact::known(name, value.as_ref()?))), NAMES);
    page.heading("Loads");
    for load in &answer.loads {
        let latency = latency(load).map(|words| format!("; {words}")).unwrap_or_default();
        page.bullet(format!("{}{latency}", throughput(load)));
    }
    page.heading("What the CPUs do");
    page.bullet(cpus(&answer.cpus));
    page.heading("Locks");
    for lock in &answer.locks {
        page.bullet(contention(lock));
    }
    if !answer.log.is_empty() {
        page.heading("Error log");
        for entry in &answer.log {
            page.bullet(log_line(entry));
        }
        if answer.waiting > 0 {
            page.bullet(format!("{} wait for a path at the end", count(answer.waiting as usize, "I/O")));
        }
    }
    add_busy_shares(&mut page, "How busy the parts are", &answer.parts);
    page
}

/// Operations per second.
fn throughput(served: &FlashArrayServed) -> String {
    format!("{} operations/s", with_interval(&served.operations_per_second, per_second))
}

/// Mean and percentiles of the latency; `None` if no operation completed.
fn latency(served: &FlashArrayServed) -> Option<String> {
    let [mean, p50, p99] = [served.latency_mean_ns?, served.latency_p50_ns?, served.latency_p99_ns?]
        .map(|latency| with_interval(&latency, time));
    Some(format!("{mean} on average, {p50} for half of them, {p99} for 99 of 100"))
}

/// How long the busiest lock of a kind is held, and how many CPUs wait for locks of that kind.
fn contention(lock: &LockAnswer) -> String {
    let LockAnswer { name, busy_share, waiting_cpus } = lock;
    format!(
        "{name}: the busiest held {:.1} % of the time, {} CPUs wait",
        100.0 * busy_share,
        figure(*waiting_cpus)
    )
}

/// An entry of the error log: when, which path, what happened, and to how many I/Os.
fn log_line(entry: &LogAnswer) -> String {
    let LogAnswer { at_us, path, what, ios } = entry;
    format!("{}: path {path} {what}, {}", time(at_us * 1e3), count(*ios as usize, "I/O"))
}
