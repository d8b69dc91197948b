//! The answer for two hosts that exchange messages over a network.

use super::runs::runs;
use super::words::{add_busy_shares, calculated_from, cpus, per_second};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time, with_interval};
use model::FileEvidence;
use model::network::{HostAnswer, HostsAnswer};

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Latency, throughput and what limits them; then the CPUs of both hosts, and how busy each part is.
pub fn hosts_answer(answer: &HostsAnswer, file: &str, evidence: &FileEvidence) -> Page {
    let mut page = Page::titled(&answer.what);
    let latency = answer.latency_mean_ns.zip(answer.latency_p99_ns);
    let latency = latency.map(|(mean, p99)| [mean, p99].map(|latency| with_interval(&latency, time)));
    let latency = latency.map(|[mean, p99]| format!("{mean} on average, {p99} for 99 of 100"));
    let rate = with_interval(&answer.operations_per_second, per_second);
    let gigabits = with_interval(&answer.gigabits_per_second, figure);
    let throughput = format!("{rate} operations/s, {gigabits} Gb/s");
    let server = answer.is_server_as_client.then(|| "as the client (not given)".to_owned());
    let facts = [
        ("latency", latency),
        ("throughput", Some(throughput)),
        ("limited by", Some(answer.limit.clone())),
        ("server", server),
        ("runs", Some(runs(&answer.runs))),
        ("evidence", Some(calculated_from(file, evidence))),
    ];
    page.facts(facts.iter().filter_map(|(name, value)| Some(Fact::known(name, value.as_ref()?))), NAMES);
    page.heading("What the CPUs do");
    for (name, host) in ["client", "server"].iter().zip(&answer.hosts) {
        page.bullet(format!("{name}: {}{}", cpus(&host.cpus), full_rings(host)));
    }
    add_busy_shares(&mut page, "How busy the parts are", &answer.parts);
    page
}

/// How often rings were full; nothing if they never were.
fn full_rings(host: &HostAnswer) -> String {
    let send = (host.send_stopped_share, "send rings full, so that packets waited");
    let receive = (host.receive_paused_share, "a receive ring full, so that frames waited");
    let full = [send, receive].into_iter().filter(|(share, _)| *share > 0.0);
    full.map(|(share, what)| format!("; {:.1} % of the time {what}", 100.0 * share)).collect()
}
