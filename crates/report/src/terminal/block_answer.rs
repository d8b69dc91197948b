//! What a model says of a host with a disk, on a terminal.

use super::hosts_answer::cpus;
use super::model_answer::calculated_from;
use super::page::Page;
use crate::bench_text::{figure, time};
use crate::fact::Fact;
use crate::quantity;
use crate::style::Style;
use escape::terminal::plain;
use model::block::{BlockAnswer, ServedAnswer};

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Rates, latency, each job, what CPUs do, how busy each part is, and which one limits.
pub fn block_answer(answer: &BlockAnswer, file: &str, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&plain(&answer.what));
    let mut fact = |name: &str, value: &str| page.fact(&Fact::known(name, value), NAMES);
    if let Some(words) = latency(&answer.all) {
        fact("latency", &words);
    }
    fact("throughput", &throughput(&answer.all));
    let interrupts = quantity::grouped(answer.interrupts_per_second.round() as u64);
    fact("in flight", &format!("{:.1} on average, {interrupts} interrupts/s", answer.depth_mean));
    fact("limited by", &answer.limit);
    if !answer.set_aside.is_empty() {
        fact("set aside", &plain(&answer.set_aside.join(", ")));
    }
    fact("evidence", &calculated_from(file));
    page.heading("Jobs");
    for job in &answer.jobs {
        let latency = latency(&job.served).map(|words| format!("; {words}")).unwrap_or_default();
        page.item("- ", &format!("{}: {}{latency}", plain(&job.name), throughput(&job.served)), 2);
    }
    page.heading("What the CPUs do");
    page.item("- ", &cpus(&answer.cpus), 2);
    page.parts("How busy the parts are", &answer.parts);
    page.done()
}

fn throughput(served: &ServedAnswer) -> String {
    let rate = quantity::grouped(served.operations_per_second.round() as u64);
    format!("{rate} operations/s, {} GB/s", figure(served.gigabytes_per_second))
}

/// Nothing where none ended.
fn latency(served: &ServedAnswer) -> Option<String> {
    let [mean, half, most, nearly_all] =
        [served.latency_mean_ns?, served.latency_p50_ns?, served.latency_p99_ns?, served.latency_p99_9_ns?]
            .map(time);
    Some(format!(
        "{mean} on average, {half} for half of them, {most} for 99 of 100, {nearly_all} for 999 of 1,000"
    ))
}
