//! `iotoll bench net`: measures the network to another host, or serves who measures it.

mod server_log;

use super::given_or_default;
use crate::cli::BenchNet;
use crate::input;
use crate::inspect::program_version;
use crate::interrupt;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use bench::net::{HostPort, ListenAddress, NetSettings, Secret, ServeLimits, run_net, serve};
use server_log::ServerLog;
use std::time::Instant;

/// Rounds of a profile, unless others are given: one lasts as long as uperf's run.
const PROFILE_ROUNDS: usize = 3;

/// Serves with `--listen`; measures otherwise.
pub(super) fn run(args: &BenchNet) -> anyhow::Result<Outcome> {
    match (&args.listen, &args.host) {
        (Some(address), _) => listen(args, *address),
        (None, Some(host)) => measure(args, host),
        (None, None) => anyhow::bail!("expected HOST, or --listen ADDRESS"),
    }
}

/// Serves until a signal arrives.
fn listen(args: &BenchNet, address: ListenAddress) -> anyhow::Result<Outcome> {
    let secret = Secret::read(&args.secret)?;
    let limits =
        ServeLimits { seconds_max: args.seconds_max, instances_max: args.instances_max, is_once: args.once };
    let stop = interrupt::stop_flag()?;
    let log = ServerLog::new();
    serve(address, &secret, &limits, program_version(), &stop, &|event| {
        if let Some(line) = log.line(&event, Instant::now()) {
            output::print_note(&line);
        }
    })?;
    Ok(Outcome::Fine)
}

/// Measures the network to a host that listens.
fn measure(args: &BenchNet, host: &HostPort) -> anyhow::Result<Outcome> {
    WholeFile::check(args.html.as_deref())?;
    let secret = Secret::read(&args.secret)?;
    let settings = settings_from(args, host)?;
    let origin = super::benchmark_origin()?;
    let stop = interrupt::stop_flag()?;
    let benchmark =
        super::measure_with_bar(|progress| run_net(host, &secret, settings, origin, &stop, progress))?;
    let page = report::net_benchmark(&benchmark);
    if let Some(path) = &args.html {
        WholeFile::write(path, report::html(&page, "iotoll · bench net", program_version()).as_bytes())?;
    }
    match args.json {
        true => output::print_json(&benchmark)?,
        false => output::print_page(&page)?,
    }
    let is_silent = benchmark.cells.iter().any(bench::net::NetCell::is_silent);
    Ok(if is_silent { Outcome::Findings } else { Outcome::Fine })
}

/// The settings of the profile, or of the command line with defaults for what it does not set.
fn settings_from(args: &BenchNet, host: &HostPort) -> anyhow::Result<NetSettings> {
    if let Some(path) = &args.profile {
        // What is given comes later, so it counts.
        let named = std::iter::once(("h".to_owned(), host.host.clone()));
        let variables = named.chain(args.variables.iter().cloned()).collect();
        let profile = input::read_profile(path, &variables)?;
        return Ok(NetSettings::of_profile(&profile, args.rounds.unwrap_or(PROFILE_ROUNDS))?);
    }
    let usual = NetSettings::default();
    Ok(NetSettings {
        tests: given_or_default(&args.tests, usual.tests),
        bytes: given_or_default(&args.sizes, usual.bytes),
        instances: given_or_default(&args.instances, usual.instances),
        rounds: args.rounds.unwrap_or(usual.rounds),
        seconds: args.seconds.unwrap_or(usual.seconds),
        ..usual
    })
}
