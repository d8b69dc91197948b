//! Which of uperf's own profiles are run, and why others are not.
//!
//!     IOTOLL_UPERF_WORKLOADS=uperf/workloads cargo test -p iotoll-bench --test profiles -- --nocapture   # the folder in uperf's sources

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use bench::net::NetSettings;
use std::fs;
use std::path::Path;
use uperf::{Profile, Variables};

/// What becomes of a profile.
fn verdict(text: &str, name: &str, protocol: &str) -> Result<NetSettings, String> {
    let hosts = ["h", "h1", "h2", "h3", "h4", "host1", "hostlo1"].map(|name| (name, "192.0.2.2"));
    let numbers = ["nthr", "nth", "conn", "iter", "n"].map(|name| (name, "2"));
    let others = ["size", "msg_r", "msg_w"].map(|name| (name, "64"));
    let values = hosts.into_iter().chain(numbers).chain(others).chain([("proto", protocol), ("dur", "30s")]);
    let profile =
        Profile::read(text, name, &Variables::from_iter(values)).map_err(|error| error.to_string())?;
    NetSettings::of_profile(&profile, 1).map_err(|error| error.to_string())
}

#[test]
fn our_profiles_are_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/uperf");
    for name in ["udp-rr.xml", "tcp-rr.xml", "tcp-stream.xml"] {
        let settings = verdict(&fs::read_to_string(folder.join(name)).unwrap(), name, "tcp").unwrap();
        assert_eq!((settings.instances, settings.seconds), (vec![2], 30.0), "{name}");
        assert_eq!(format!("{}.xml", settings.tests[0]), name);
    }
}

#[test]
fn some_of_uperf_s_own_profiles_are_run() {
    let Some(folder) = std::env::var_os("IOTOLL_UPERF_WORKLOADS") else {
        return skip::skip("IOTOLL_UPERF_WORKLOADS names no folder with uperf's profiles");
    };
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|end| end == "xml"));
    names.sort();
    let mut run = Vec::new();
    for path in &names {
        let name = path.file_name().unwrap().to_string_lossy();
        for protocol in ["tcp", "udp"] {
            match verdict(&fs::read_to_string(path).unwrap(), &name, protocol) {
                Ok(settings) => run.push(format!("{name} over {protocol}: {}", settings.tests[0])),
                Err(why) => println!("{protocol} {}", why.split("; bench net runs").next().unwrap()),
            }
        }
    }
    assert_eq!(
        run,
        ["iperf.xml over tcp: tcp-stream", "netperf.xml over tcp: tcp-rr", "netperf.xml over udp: udp-rr"]
    );
}
