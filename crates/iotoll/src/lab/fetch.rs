//! `iotoll lab fetch`: downloads the kernels of presets into the cache.

use crate::cli::LabFetch;
use crate::output::{self, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use lab::kernel::{Cache, KernelChoice, Mirror, Progress, fetch};
use lab::preset::{Preset, Presets};

/// Downloads kernels, and prints which are in the cache.
pub(super) fn run(args: &LabFetch) -> anyhow::Result<Outcome> {
    let presets = super::read_presets(args.presets.as_deref())?;
    let cache = Cache::from_environment()?;
    let bar = ProgressBar::no_length();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} {bytes}/{total_bytes} {bar:30}")?);
    let kernels = fetch(&cache, &kernel_choices(args, &presets)?, &chosen_mirror(args)?, &mut |progress| {
        show_progress(&bar, &progress)
    })?;
    bar.finish_and_clear();
    for kernel in kernels {
        let package = kernel.package.map(|package| package.to_string()).unwrap_or_default();
        output::print_text(&format!("{} {} ({package})", kernel.arch, kernel.release))?;
    }
    Ok(Outcome::Fine)
}

/// The kernels that the presets asked for run on, each once.
fn kernel_choices(args: &LabFetch, presets: &Presets) -> anyhow::Result<Vec<KernelChoice>> {
    let asked: Vec<&Preset> = match args.names.as_slice() {
        [] => presets.iter().collect(),
        names => names.iter().map(|name| presets.get(name)).collect::<Result<_, _>>()?,
    };
    let mut choices: Vec<KernelChoice> = Vec::new();
    for preset in asked {
        let choice = super::kernel_choice(preset)?;
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    Ok(choices)
}

/// The mirror to fetch from: debian.org, or what the options name.
fn chosen_mirror(args: &LabFetch) -> anyhow::Result<Mirror> {
    let mut mirror = Mirror::debian_org();
    if let Some(archive) = &args.mirror {
        mirror = mirror.with_archive(archive)?;
    }
    if let Some(security) = &args.security_mirror {
        mirror = mirror.with_security(security)?;
    }
    Ok(mirror)
}

/// Shows the progress on a bar, or as a line when a package was fetched.
fn show_progress(bar: &ProgressBar, progress: &Progress) {
    match progress {
        Progress::Waiting(arch) => {
            output::set_bar_message(bar, &format!("{arch}: another fetch is in progress, waiting"))
        }
        Progress::Lists { arch, percent } => {
            output::set_bar_message(bar, &format!("{arch}: package lists {percent:.0} %"))
        }
        Progress::Download { package, bytes_done, bytes } => {
            output::set_bar_message(bar, &package.to_string());
            bar.set_length(*bytes);
            bar.set_position(*bytes_done);
        }
        Progress::Unpack(package) => output::set_bar_message(bar, &format!("unpacking {package}")),
        Progress::Kept(package) => bar.suspend(|| output::print_note(&format!("fetched {package}"))),
        Progress::AlreadyKept(package) => {
            bar.suspend(|| output::print_note(&format!("already fetched: {package}")))
        }
    }
}
