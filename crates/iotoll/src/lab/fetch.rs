//! `iotoll lab fetch`: kernels into the cache.

use crate::cli::LabFetch;
use crate::output::{self, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use lab::kernel::{Cache, KernelChoice, Mirror, Progress, fetch};
use lab::preset::{Preset, Presets};

pub(super) fn run(args: &LabFetch) -> anyhow::Result<Outcome> {
    let presets = super::presets(args.presets.as_deref())?;
    let cache = Cache::of_environment()?;
    let bar = ProgressBar::no_length();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} {bytes}/{total_bytes} {bar:30}")?);
    let kernels =
        fetch(&cache, &choices(args, &presets)?, &mirror(args)?, &mut |progress| show(&bar, &progress))?;
    bar.finish_and_clear();
    for kernel in kernels {
        let package = kernel.package.map(|package| package.to_string()).unwrap_or_default();
        output::data(&format!("{} {} ({package})", kernel.arch, kernel.release))?;
    }
    Ok(Outcome::Fine)
}

fn choices(args: &LabFetch, presets: &Presets) -> anyhow::Result<Vec<KernelChoice>> {
    let asked: Vec<&Preset> = match args.names.as_slice() {
        [] => presets.iter().collect(),
        names => names.iter().map(|name| presets.get(name)).collect::<Result<_, _>>()?,
    };
    let mut choices: Vec<KernelChoice> = Vec::new();
    for preset in asked {
        let choice = super::choice(preset)?;
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    Ok(choices)
}

fn mirror(args: &LabFetch) -> anyhow::Result<Mirror> {
    let mut mirror = Mirror::debian_org();
    if let Some(archive) = &args.mirror {
        mirror = mirror.with_archive(archive)?;
    }
    if let Some(security) = &args.security_mirror {
        mirror = mirror.with_security(security)?;
    }
    Ok(mirror)
}

fn show(bar: &ProgressBar, progress: &Progress) {
    match progress {
        Progress::Waiting(arch) => {
            output::show_progress(bar, &format!("{arch}: another fetch is in progress, waiting"))
        }
        Progress::Lists { arch, percent } => {
            output::show_progress(bar, &format!("{arch}: package lists {percent:.0} %"))
        }
        Progress::Download { package, bytes_done, bytes } => {
            output::show_progress(bar, &package.to_string());
            bar.set_length(*bytes);
            bar.set_position(*bytes_done);
        }
        Progress::Unpack(package) => output::show_progress(bar, &format!("unpacking {package}")),
        Progress::Kept(package) => bar.suspend(|| output::say(&format!("fetched {package}"))),
        Progress::AlreadyKept(package) => bar.suspend(|| output::say(&format!("here already: {package}"))),
    }
}
