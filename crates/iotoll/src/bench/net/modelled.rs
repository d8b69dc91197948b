//! A model's answer to the profile that is measured.

use crate::input;
use anyhow::{Context, bail};
use bench::net::NetModel;
use model::uperf::Profile;
use model::{Description, FileEvidence};
use std::path::Path;

/// Gives the profile to the two hosts that a file describes.
pub(super) fn modelled(path: &Path, profile: &Profile) -> anyhow::Result<NetModel> {
    let file = path.display().to_string();
    let text = input::read_text(path, input::DESCRIPTION_BYTES_MAX, "experiment")?;
    let description = Description::read(&text, &file)?;
    let evidence = FileEvidence::of(&description, &text)?.values;
    let Description::Hosts(hosts) = description else {
        bail!("{file} describes no network; expected two hosts, as in experiments/two-hosts.toml");
    };
    let answer = hosts.with_profile(profile)?.run().with_context(|| file.clone())?;
    // A stream has no exchanges whose time could be told.
    let is_stream = answer.latency_mean_ns.is_none();
    Ok(NetModel {
        file,
        parameters: evidence.all(),
        parameters_assumed: evidence.assumed,
        transactions_per_second: answer.operations_per_second,
        gigabits_per_second: is_stream.then_some(answer.gigabits_per_second),
        round_trip_mean_ns: answer.latency_mean_ns,
        round_trip_p99_ns: answer.latency_p99_ns,
    })
}
