//! What a model says of a host with an array, on a terminal.

use super::hosts_answer::cpus;
use super::model_answer::calculated_from;
use super::page::Page;
use crate::bench_text::{figure, time};
use crate::fact::Fact;
use crate::quantity;
use crate::style::Style;
use escape::terminal::plain;
use model::flash_array::{FlashArrayAnswer, FlashArrayServed, LockAnswer, LogAnswer};

/// Columns for the names of facts.
const NAMES: usize = 14;

/// Rates, latency, each load, what CPUs do, who waits for which lock, what happened to paths, how busy each part is, and which one limits.
pub fn flash_array_answer(answer: &FlashArrayAnswer, file: &str, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&plain(&answer.what));
    let mut fact = |name: &str, value: &str| page.fact(&Fact::known(name, value), NAMES);
    fact("throughput", &throughput(&answer.all));
    if let Some(words) = latency(&answer.all) {
        fact("latency", &words);
    }
    let interrupts = count(answer.interrupts_per_second);
    fact("in flight", &format!("{:.1} on average, {interrupts} interrupts/s", answer.depth_mean));
    if let Some(instructions) = answer.instructions_each {
        fact("path length", &format!("{} instructions, the hypervisor's with them", count(instructions)));
    }
    fact("cores used", &figure(answer.cores_used));
    fact("limited by", &answer.limit);
    fact("evidence", &calculated_from(file));
    page.heading("Loads");
    for load in &answer.loads {
        let latency = latency(load).map(|words| format!("; {words}")).unwrap_or_default();
        page.item("- ", &format!("{}{latency}", throughput(load)), 2);
    }
    page.heading("What the CPUs do");
    page.item("- ", &cpus(&answer.cpus), 2);
    page.heading("Locks");
    for lock in &answer.locks {
        page.item("- ", &self::lock(lock), 2);
    }
    if !answer.log.is_empty() {
        page.heading("Error log");
        for entry in &answer.log {
            page.item("- ", &log(entry), 2);
        }
        if answer.waiting > 0 {
            page.item(
                "- ",
                &format!("{} wait for a path at the end", quantity::count(answer.waiting as usize, "I/O")),
                2,
            );
        }
    }
    page.parts("How busy the parts are", &answer.parts);
    page.done()
}

fn count(value: f64) -> String {
    quantity::grouped(value.round() as u64)
}

fn throughput(served: &FlashArrayServed) -> String {
    format!("{} operations/s", count(served.operations_per_second))
}

/// Nothing where none ended.
fn latency(served: &FlashArrayServed) -> Option<String> {
    let [mean, half, most] =
        [served.latency_mean_ns?, served.latency_p50_ns?, served.latency_p99_ns?].map(time);
    Some(format!("{mean} on average, {half} for half of them, {most} for 99 of 100"))
}

fn lock(lock: &LockAnswer) -> String {
    let LockAnswer { name, busy_share, waiting_cpus } = lock;
    format!(
        "{name}: the busiest held {:.1} % of the time, {} CPUs wait",
        100.0 * busy_share,
        figure(*waiting_cpus)
    )
}

fn log(entry: &LogAnswer) -> String {
    let LogAnswer { at_us, path, what, ios } = entry;
    format!("{}: path {path} {what}, {}", time(at_us * 1e3), quantity::count(*ios as usize, "I/O"))
}
