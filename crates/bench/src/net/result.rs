//! The document `iotoll.bench-net/1` with the results of a run.

use super::path::NetPath;
use crate::bytes::Bytes;
use crate::head::Head;
use crate::host_summary::HostSummary;
use crate::latency::Latency;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use toll::Estimate;

/// The document's schema. Its version increases when a field is removed or changes its meaning, not for new fields.
pub const NET_SCHEMA: &str = "iotoll.bench-net/1";

/// What is sent, and by which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NetTest {
    /// Requests and answers of the same size over UDP.
    UdpRr,
    /// Requests and answers of the same size over TCP.
    TcpRr,
    /// A stream to the server over TCP.
    TcpStream,
}

/// A text that names no test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected one of udp-rr, tcp-rr, tcp-stream")]
pub struct UnknownTest;

impl NetTest {
    /// All tests.
    pub const ALL: [Self; 3] = [Self::UdpRr, Self::TcpRr, Self::TcpStream];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::UdpRr => "udp-rr",
            Self::TcpRr => "tcp-rr",
            Self::TcpStream => "tcp-stream",
        }
    }

    /// Whether it waits for answers.
    pub fn has_answers(self) -> bool {
        self != Self::TcpStream
    }
}

impl fmt::Display for NetTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for NetTest {
    type Err = UnknownTest;

    fn from_str(text: &str) -> Result<Self, UnknownTest> {
        Self::ALL.into_iter().find(|test| test.name() == text).ok_or(UnknownTest)
    }
}

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetSettings {
    /// The tests.
    pub tests: Vec<NetTest>,
    /// Sizes of a message.
    pub bytes: Vec<Bytes>,
    /// Numbers of instances: threads of the client, each with a socket of its own.
    pub instances: Vec<u16>,
    /// Measured rounds of each cell.
    pub rounds: usize,
    /// Seconds of a round that are counted.
    pub seconds: f64,
    /// Seconds before them, whose traffic is not counted.
    pub warm_up_seconds: f64,
    /// The profile of uperf that all this is from, by its name.
    pub profile: Option<String>,
    /// Whether instances are processes in the profile; they are threads here.
    pub are_processes: bool,
    /// Whether small segments are sent at once (`TCP_NODELAY`); `None`: with requests over TCP, but not in streams.
    pub is_nodelay: Option<bool>,
    /// Bytes of each socket's buffers, if they are not the kernel's choice.
    pub window_bytes: Option<u32>,
}

impl Default for NetSettings {
    /// Requests and streams, in some minutes.
    fn default() -> Self {
        Self {
            tests: vec![NetTest::UdpRr, NetTest::TcpStream],
            bytes: [64, 256, 1 << 10, 4 << 10, 8 << 10].map(Bytes).to_vec(),
            instances: vec![1, 2, 4, 8, 50],
            rounds: 7,
            seconds: 0.5,
            warm_up_seconds: 0.1,
            profile: None,
            are_processes: false,
            is_nodelay: None,
            window_bytes: None,
        }
    }
}

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetBenchmark {
    /// The document's head, with the schema [`NET_SCHEMA`]. Its machine is the client.
    #[serde(flatten)]
    pub head: Head,
    /// The settings of the run.
    pub settings: NetSettings,
    /// This side, which sends requests and streams.
    pub client: NetHost,
    /// The other side, which answers and receives.
    pub server: NetHost,
    /// Whether one kernel runs both sides; `None` if unknown.
    pub is_same_kernel: Option<bool>,
    /// The results of each test, size and number of instances.
    pub cells: Vec<NetCell>,
    /// What a model says of the same profile; `None` if none was asked.
    pub model: Option<NetModel>,
}

/// What a model of two hosts says of the profile that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetModel {
    /// The file that describes the hosts.
    pub file: String,
    /// The file's values that describe a machine.
    pub parameters: u32,
    /// Of these, how many are assumed.
    pub parameters_assumed: u32,
    /// Exchanges per second; for streams, writes of the client.
    pub transactions_per_second: Estimate,
    /// 10^9 bits per second to the server, without headers; of streams.
    pub gigabits_per_second: Option<Estimate>,
    /// The mean round trip, in nanoseconds; of tests with answers.
    pub round_trip_mean_ns: Option<Estimate>,
    /// The round trip within which 99 of 100 answers came; of tests with answers.
    pub round_trip_p99_ns: Option<Estimate>,
}

/// A side of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetHost {
    /// The program and its version.
    pub made_by: String,
    /// The machine.
    pub machine: HostSummary,
    /// Its address, interface and adapters.
    pub path: NetPath,
    /// CPUs that were busy in the second before the first round; `None` if unknown.
    pub busy_cpus_before: Option<f64>,
}

/// The results of a test with a size and a number of instances.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetCell {
    /// The test.
    pub test: NetTest,
    /// The size of a message.
    pub bytes: Bytes,
    /// Threads and sockets on each side.
    pub instances: u16,
    /// Transactions per second of all instances: answered requests, or messages of a stream that arrived.
    pub transactions_per_second: Option<Summary>,
    /// Bytes per second to the server, without headers.
    pub bytes_per_second: Option<Summary>,
    /// The median round trip of each round, in nanoseconds; of tests with answers.
    pub round_trip_p50_ns: Option<Summary>,
    /// Round trips of all rounds; of tests with answers.
    pub round_trip: Option<Latency>,
    /// CPU time per transaction.
    pub cpu: NetCpu,
    /// Datagrams without an answer in all rounds. They were sent again and are in no latency.
    pub lost: u64,
    /// All rounds, in order of time.
    pub rounds: Vec<NetRound>,
}

/// CPU time per transaction on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetCpu {
    /// Of the client.
    pub client: SideCpu,
    /// Of the server.
    pub server: SideCpu,
}

/// CPU time per transaction on one side, in nanoseconds; `None` where it could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideCpu {
    /// Of this program, in user mode and in the kernel.
    pub process_ns: Option<Summary>,
    /// Of the whole host, whoever took it: interrupts, softirqs and other programs too.
    pub host_ns: Option<Summary>,
    /// Of the whole host's, that in interrupts and softirqs.
    pub interrupts_ns: Option<Summary>,
}

/// One round of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetRound {
    /// Seconds in which transactions were counted. A stream is counted by the server's clock.
    pub seconds: f64,
    /// Transactions that ended in them.
    pub transactions: u64,
    /// Bytes to the server in them, without headers.
    pub bytes: u64,
    /// Datagrams without an answer.
    pub lost: u64,
    /// The median round trip.
    pub round_trip_p50_ns: Option<u64>,
    /// What the client took.
    pub client: Usage,
    /// What the server took. It reads its clock and counters itself, so its seconds differ a little.
    pub server: Usage,
}

/// What a side took in a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// The time by its own clock, in nanoseconds.
    pub wall_ns: u64,
    /// Bytes that it received and counted.
    pub received_bytes: u64,
    /// CPU time of the program; `None` if what a server counted is not plausible.
    pub process_ns: Option<u64>,
    /// CPU time of the whole host; `None` if it could not be read, or is not plausible.
    pub host: Option<HostCpu>,
}

/// CPU time of a whole host, from `/proc/stat`: in steps of 10 ms, and by samples where the kernel doesn't account interrupts by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostCpu {
    /// All but idle time, waiting for I/O and stolen time.
    pub busy_ns: u64,
    /// Of it, in interrupts and softirqs.
    pub interrupts_ns: u64,
    /// Time that the hypervisor took.
    pub steal_ns: u64,
}

impl Usage {
    /// What was taken since an earlier reading.
    pub(super) fn since(&self, before: &Self) -> Self {
        let host = |now: HostCpu, before: HostCpu| HostCpu {
            busy_ns: now.busy_ns.saturating_sub(before.busy_ns),
            interrupts_ns: now.interrupts_ns.saturating_sub(before.interrupts_ns),
            steal_ns: now.steal_ns.saturating_sub(before.steal_ns),
        };
        Self {
            wall_ns: self.wall_ns.saturating_sub(before.wall_ns),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            process_ns: self
                .process_ns
                .zip(before.process_ns)
                .map(|(now, before)| now.saturating_sub(before)),
            host: self.host.zip(before.host).map(|(now, before)| host(now, before)),
        }
    }

    /// CPUs that were busy on the host.
    pub(super) fn busy_cpus(&self) -> Option<f64> {
        Some(self.host?.busy_ns as f64 / self.wall_ns.max(1) as f64)
    }
}

impl NetRound {
    /// Transactions in a second.
    pub fn rate(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    /// CPU time per transaction: time in a second by transactions in a second, since each side has its own clock. `None` without transactions.
    pub fn per_transaction(&self, usage: &Usage, ns: u64) -> Option<f64> {
        let per_second = ns as f64 * 1e9 / usage.wall_ns as f64;
        Some(per_second / self.rate()).filter(|each| each.is_finite())
    }
}

impl NetCell {
    /// Whether no transaction was completed in any round.
    pub fn is_silent(&self) -> bool {
        self.rounds.iter().all(|round| round.transactions == 0)
    }

    /// Summarises the rounds of a cell.
    pub(super) fn of(
        (test, bytes, instances): (NetTest, Bytes, u16),
        rounds: Vec<NetRound>,
        round_trip: Option<Latency>,
    ) -> Self {
        let summary = |value: &dyn Fn(&NetRound) -> Option<f64>| {
            let values: Option<Vec<f64>> = rounds.iter().map(value).collect();
            values.and_then(Summary::of)
        };
        let side = |usage: fn(&NetRound) -> &Usage| {
            let each = |ns: fn(&Usage) -> Option<u64>| {
                summary(&|round: &NetRound| round.per_transaction(usage(round), ns(usage(round))?))
            };
            SideCpu {
                process_ns: each(|usage| usage.process_ns),
                host_ns: each(|usage| usage.host.map(|host| host.busy_ns)),
                interrupts_ns: each(|usage| usage.host.map(|host| host.interrupts_ns)),
            }
        };
        Self {
            test,
            bytes,
            instances,
            transactions_per_second: summary(&|round| Some(round.rate())),
            bytes_per_second: summary(&|round| Some(round.bytes as f64 / round.seconds)),
            round_trip_p50_ns: summary(&|round| round.round_trip_p50_ns.map(|ns| ns as f64)),
            round_trip,
            cpu: NetCpu { client: side(|round| &round.client), server: side(|round| &round.server) },
            lost: rounds.iter().map(|round| round.lost).sum(),
            rounds,
        }
    }

    /// The cell in words: `udp-rr, 64 B, 4 instances`.
    pub fn name(&self) -> String {
        cell_name(self.test, self.bytes, self.instances)
    }
}

/// A cell in words.
pub(super) fn cell_name(test: NetTest, bytes: Bytes, instances: u16) -> String {
    let word = if instances == 1 { "instance" } else { "instances" };
    format!("{test}, {bytes}, {instances} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(wall_ns: u64, process_ns: u64) -> Usage {
        let host = Some(HostCpu { busy_ns: 2 * process_ns, interrupts_ns: process_ns / 2, steal_ns: 0 });
        Usage { wall_ns, received_bytes: 0, process_ns: Some(process_ns), host }
    }

    #[test]
    fn cpu_time_per_transaction_is_by_each_side_s_clock() {
        let round = NetRound {
            seconds: 1.0,
            transactions: 1000,
            bytes: 64_000,
            lost: 1,
            round_trip_p50_ns: Some(500),
            client: usage(1_000_000_000, 3_000_000),
            server: usage(2_000_000_000, 3_000_000),
        };
        let cell = NetCell::of((NetTest::UdpRr, Bytes(64), 1), vec![round; 3], None);
        assert_eq!(cell.cpu.client.process_ns.unwrap().median, 3000.0);
        assert_eq!(cell.cpu.client.host_ns.unwrap().median, 6000.0);
        assert_eq!(cell.cpu.server.process_ns.unwrap().median, 1500.0);
        assert_eq!((cell.lost, cell.bytes_per_second.unwrap().median), (3, 64_000.0));
        assert_eq!(cell.name(), "udp-rr, 64 B, 1 instance");
    }

    #[test]
    fn a_round_without_transactions_has_no_time_per_transaction() {
        let none = NetRound {
            seconds: 1.0,
            transactions: 0,
            bytes: 0,
            lost: 3,
            round_trip_p50_ns: None,
            client: usage(1, 1),
            server: usage(1, 1),
        };
        let some = NetRound { transactions: 1, ..none.clone() };
        let round_trip = crate::latency::Latencies::new().percentiles();
        let cell = NetCell::of((NetTest::UdpRr, Bytes(64), 2), vec![none.clone()], Some(round_trip));
        assert!(cell.is_silent());
        assert!(!NetCell::of((NetTest::UdpRr, Bytes(64), 2), vec![none, some], None).is_silent());
        assert_eq!((cell.cpu.client.process_ns, cell.round_trip_p50_ns), (None, None));
        assert_eq!(cell.transactions_per_second.unwrap().median, 0.0);
    }
}
