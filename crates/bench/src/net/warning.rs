//! Reasons to doubt the figures of a benchmark of the network, and the sizes that tests may have.

use super::path::NetPath;
use super::result::{NetBenchmark, NetCell, NetHost, NetTest};
use super::{TCP_BYTES_MAX, UDP_BYTES_MAX, UDP_BYTES_MIN};
use crate::host_summary::HostSummary;
use crate::warning::of_machine;

/// More CPUs that were busy before the first round cause a warning.
const BUSY_MAX: f64 = 0.2;
/// Quartiles further apart than this share of the median cause a warning.
const SPREAD_MAX: f64 = 0.2;

/// The smallest and the largest message of a test.
pub(super) fn size_limits(test: NetTest) -> (u64, u64) {
    match test {
        NetTest::UdpRr => (UDP_BYTES_MIN, UDP_BYTES_MAX),
        NetTest::TcpRr | NetTest::TcpStream => (1, TCP_BYTES_MAX),
    }
}

/// Warnings about a side's program and machine.
pub(super) fn of_side(machine: &HostSummary) -> Vec<String> {
    let governor = machine.governor.as_ref().filter(|governor| *governor != "performance");
    let frequency = governor
        .map(|governor| format!("the CPUs' frequency varies (governor {governor}); `performance` holds it"));
    of_machine(machine).into_iter().chain(frequency).collect()
}

/// All warnings, the most serious first. Those of the server about itself are given.
pub(super) fn of_benchmark(benchmark: &NetBenchmark, of_server: &[String]) -> Vec<String> {
    let mut warnings: Vec<String> = of_silent(&benchmark.cells).into_iter().collect();
    if benchmark.is_same_kernel == Some(true) {
        warnings.push(
            "both sides run on one kernel: they share its CPUs, and each side's CPU time of the host is that of both"
                .to_owned(),
        );
    }
    if benchmark.settings.are_processes {
        warnings.push("the profile's processes ran as threads".to_owned());
    }
    let NetBenchmark { client, server, .. } = benchmark;
    warnings.extend(of_sides(of_path(&client.path), of_path(&server.path)));
    warnings.extend(of_sides(of_side(&client.machine), of_server.iter().cloned()));
    warnings.extend(of_sides(of_busy(client), of_busy(server)));
    warnings.extend(of_lost(&benchmark.cells));
    warnings.extend(of_spread(&benchmark.cells));
    warnings
}

/// Warnings of both sides with the side's name. What both say is said once.
fn of_sides(
    client: impl IntoIterator<Item = String>,
    server: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let mut server: Vec<String> = server.into_iter().collect();
    let mut warnings = Vec::new();
    for words in client {
        let number = server.len();
        server.retain(|other| *other != words);
        let sides = if server.len() < number { "client and server" } else { "client" };
        warnings.push(format!("{sides}: {words}"));
    }
    warnings.extend(server.iter().map(|words| format!("server: {words}")));
    warnings
}

/// A warning if no adapter is on the way, or it is unknown.
fn of_path(path: &NetPath) -> Option<String> {
    let name = path.interface.as_deref();
    match (path.is_local, path.adapters.is_empty(), name) {
        (true, _, _) => Some("loopback: no adapter's DMA is in these figures".to_owned()),
        (false, true, Some(name)) => Some(format!(
            "virtual interface ({name}), as far as sysfs shows: no adapter's DMA is in these figures"
        )),
        (false, true, None) => Some(
            "the interface is unknown, so it is open whether an adapter's DMA is in these figures".to_owned(),
        ),
        (false, false, _) => None,
    }
}

/// A warning if other programs used the host before the first round.
fn of_busy(host: &NetHost) -> Option<String> {
    let busy = host.busy_cpus_before.filter(|busy| *busy > BUSY_MAX)?;
    Some(format!(
        "{busy:.2} CPUs were busy before the first round; CPU time of the whole host contains what other programs take"
    ))
}

/// A warning if no transaction of a test was completed.
fn of_silent(cells: &[NetCell]) -> Option<String> {
    let mut silent = cells.iter().filter(|cell| cell.is_silent());
    let first = silent.next()?;
    let others = match silent.count() {
        0 => String::new(),
        number => format!(", as in {number} other results"),
    };
    let why = match first.test {
        NetTest::UdpRr => {
            format!(
                "no datagram was answered ({} lost){others}. A firewall blocks the server's UDP ports, or the network drops datagrams of this size",
                first.lost
            )
        }
        NetTest::TcpRr | NetTest::TcpStream => format!("nothing arrived{others}"),
    };
    Some(format!("{}: {why}", first.name()))
}

/// A warning if datagrams were lost, where others were answered.
fn of_lost(cells: &[NetCell]) -> Option<String> {
    let lost: Vec<&NetCell> = cells.iter().filter(|cell| cell.lost > 0 && !cell.is_silent()).collect();
    let worst = lost.iter().max_by_key(|cell| cell.lost)?;
    Some(format!(
        "datagrams were lost in {} of {} results, most in {} ({}); they are in no latency, but the time until they were sent again is in the rate",
        lost.len(),
        cells.len(),
        worst.name(),
        worst.lost
    ))
}

/// A warning if rounds of a cell differ much.
fn of_spread(cells: &[NetCell]) -> Option<String> {
    let spread = |cell: &NetCell| cell.transactions_per_second.map_or(0.0, |rate| rate.spread());
    let wide: Vec<&NetCell> = cells.iter().filter(|cell| spread(cell) > SPREAD_MAX).collect();
    let worst = wide.iter().max_by(|a, b| spread(a).total_cmp(&spread(b)))?;
    Some(format!(
        "rounds differ: in {} of {} results the quartiles are more than {:.0} % of the median apart, most in {} ({:.0} %)",
        wide.len(),
        cells.len(),
        SPREAD_MAX * 100.0,
        worst.name(),
        spread(worst) * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_sides_say_is_said_once() {
        let words = |all: &[&str]| all.iter().map(|&words| words.to_owned()).collect::<Vec<_>>();
        let found = of_sides(words(&["loopback", "a busy machine"]), words(&["slow", "loopback"]));
        assert_eq!(found, ["client and server: loopback", "client: a busy machine", "server: slow"]);
        assert_eq!(of_sides(None, words(&["slow"])), ["server: slow"]);
    }
}
