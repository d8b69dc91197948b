//! The answer for two hosts that exchange messages over a network.

use super::words::{add_busy_shares, calculated_from, cpus, per_second};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time};
use model::network::HostsAnswer;

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Latency, throughput and what limits them; then the CPUs of both hosts, and how busy each part is.
pub fn hosts_answer(answer: &HostsAnswer, file: &str) -> Page {
    let mut page = Page::titled(&answer.what);
    let latency = answer.latency_mean_ns.zip(answer.latency_p99_ns);
    let latency =
        latency.map(|(mean, p99)| format!("{} on average, {} for 99 of 100", time(mean), time(p99)));
    let rate = per_second(answer.operations_per_second);
    let throughput = format!("{rate} operations/s, {} Gb/s", figure(answer.gigabits_per_second));
    let facts = [
        ("latency", latency),
        ("throughput", Some(throughput)),
        ("limited by", Some(answer.limit.clone())),
        ("evidence", Some(calculated_from(file))),
    ];
    page.facts(facts.iter().filter_map(|(name, value)| Some(Fact::known(name, value.as_ref()?))), NAMES);
    page.heading("What the CPUs do");
    for (name, host) in ["client", "server"].iter().zip(&answer.hosts) {
        page.bullet(format!("{name}: {}", cpus(host)));
    }
    add_busy_shares(&mut page, "How busy the parts are", &answer.parts);
    page
}
