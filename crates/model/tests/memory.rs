//! Memory of a simulation does not grow with simulated time.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use des::Span;
use model::network::{HostsExperiment, Setup, run_window};
use std::fs;

/// Most memory that this process has had, in KiB; `None` where Linux does not say so.
fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// A host whose sender is stopped by its rings most of the time: what waited in front of them once grew for ever.
#[test]
fn memory_does_not_grow_with_simulated_time() {
    let Some(_) = peak_kib() else { return skip::skip("no VmHWM in /proc/self/status") };
    let text = include_str!("../../../experiments/two-hosts.toml")
        .replace("message_bytes = 1024", "message_bytes = 65536")
        .replace("pattern = \"exchange\"", "pattern = \"stream\"")
        .replace("protocol = \"udp\"", "protocol = \"tcp\"")
        .replace("inline_bytes = 104", "inline_bytes = 104\nfragment_bytes = 4096");
    let setup = HostsExperiment::read(&text, "x.toml").unwrap().setup();
    let run = |ms| {
        let setup = Setup { measured: Span::from_ms(ms), ..setup.clone() };
        let outcome = run_window(&setup).unwrap();
        assert!(outcome.hosts[0].send_stopped_share > 0.1, "{outcome:?}");
        peak_kib().unwrap()
    };
    let [short, long] = [run(30), run(600)];
    assert!(long < short + 2_048, "{short} KiB, then {long} KiB over twenty times the time");
}
