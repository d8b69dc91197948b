//! `iotoll bench net`: measures the network to another host, or serves who measures it.

use super::given_or_default;
use crate::cli::BenchNet;
use crate::input;
use crate::inspect::program_version;
use crate::interrupt;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use bench::net::{HostPort, ListenAddress, NetSettings, Secret, ServeLimits, ServerEvent, run_net, serve};
use model::uperf::Profile;

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
    serve(address, &secret, &limits, program_version(), &stop, &|event| {
        output::print_note(&event_words(&event))
    })?;
    Ok(Outcome::Fine)
}

/// What happened at the server, in a line.
fn event_words(event: &ServerEvent) -> String {
    let chain = |error: &dyn std::error::Error| {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    };
    match event {
        ServerEvent::Listening { address } => format!(
            "listening on TCP {address}{}, and on UDP ports of it during tests; end with Ctrl-C",
            if address.ip().is_unspecified() { ", which is every address of this host" } else { "" }
        ),
        ServerEvent::Began { peer } => format!("{peer}: session began"),
        ServerEvent::Test { peer, test, bytes, instances } => {
            format!("{peer}: {test}, {bytes} bytes, instances: {instances}")
        }
        ServerEvent::Ended { peer, error: None } => format!("{peer}: session ended"),
        ServerEvent::Ended { peer, error: Some(error) } => format!("{peer}: session ended: {}", chain(error)),
        ServerEvent::Refused { peer, error: Some(error) } => format!("{peer}: refused: {}", chain(error)),
        ServerEvent::Refused { peer, error: None } => format!("{peer}: refused: another session is running"),
        _ => "something else happened".to_owned(),
    }
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
        let text = input::read_text(path, input::DESCRIPTION_BYTES_MAX, "profile")?;
        // What is given comes later, so it counts.
        let named = std::iter::once(("h".to_owned(), host.host.clone()));
        let variables = named.chain(args.variables.iter().cloned()).collect();
        let profile = Profile::read(&text, &path.display().to_string(), &variables)?;
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
