//! `iotoll bench net`: measures the network to another host, or serves who measures it.

mod modelled;
mod server_log;

use super::given_or_default;
use crate::cli::BenchNet;
use crate::input;
use crate::inspect::program_version;
use crate::interrupt;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use bench::net::{HostPort, ListenAddress, NetBenchmark, NetSettings, Secret, ServeLimits, run_net, serve};
use model::uperf::Profile;
use modelled::modelled;
use server_log::ServerLog;
use std::path::Path;
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
    let profile = args.profile.as_deref().map(|path| read_profile(args, host, path)).transpose()?;
    let settings = settings_from(args, profile.as_ref())?;
    // Before the measurement, which its simulation would disturb, and which takes longer than an error of the file.
    let asked = args.model.as_deref().zip(profile.as_ref());
    let model = asked.map(|(path, profile)| modelled(path, profile)).transpose()?;
    let origin = super::benchmark_origin()?;
    let stop = interrupt::stop_flag()?;
    let measured =
        super::measure_with_bar(|progress| run_net(host, &secret, settings, origin, &stop, progress))?;
    let benchmark = NetBenchmark { model, ..measured };
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

/// Reads the profile with its variables: `$h` is the host, unless it is given.
fn read_profile(args: &BenchNet, host: &HostPort, path: &Path) -> anyhow::Result<Profile> {
    // What is given comes later, so it counts.
    let named = std::iter::once(("h".to_owned(), host.host.clone()));
    input::read_profile(path, &named.chain(args.variables.iter().cloned()).collect())
}

/// The settings of the profile, or of the command line with defaults for what it does not set.
fn settings_from(args: &BenchNet, profile: Option<&Profile>) -> anyhow::Result<NetSettings> {
    if let Some(profile) = profile {
        return Ok(NetSettings::of_profile(profile, args.rounds.unwrap_or(PROFILE_ROUNDS))?);
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
