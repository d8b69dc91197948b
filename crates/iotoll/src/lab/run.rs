//! `iotoll lab run`: presets to toll sheets.

use super::flame::{FlameFile, FlameFiles};
use crate::cli::LabRun;
use crate::date::today;
use crate::interrupt;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use lab::flame::Flame;
use lab::guest::program::Program;
use lab::kernel::{Cache, Kernel, busybox};
use lab::plugin;
use lab::preset::{Access, Preset};
use lab::qemu::Limits;
use lab::run::{Detail, Measured, Plan, Progress};
use lab::workload::Workload;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use toll::{Limit, TollSheet, compare};

pub(super) fn run(args: &LabRun) -> anyhow::Result<Outcome> {
    let presets = super::presets(args.presets.as_deref())?;
    let chosen: Vec<&Preset> = match args.all {
        true => presets.iter().collect(),
        false => args.names.iter().map(|name| presets.get(name)).collect::<Result<_, _>>()?,
    };
    let session = Session::new(args)?;
    let flames = args.flame.as_ref().map(|file| session.flame_files(file, &chosen)).transpose()?;
    let (mut sheets, mut failed) = (Vec::new(), Vec::new());
    let mut differing = 0;
    for preset in &chosen {
        let repeated = match session.repeat(preset) {
            Ok(repeated) => repeated,
            Err(why) if chosen.len() == 1 || session.stop.load(Relaxed) => return Err(why),
            Err(why) => {
                output::complain(&why);
                failed.push(preset.name.as_str());
                continue;
            }
        };
        differing += usize::from(!repeated.same);
        session.keep_sheet(&repeated.sheet)?;
        if let Some(files) = &flames {
            repeated.flames.iter().try_for_each(|flame| files.write(flame))?;
        }
        sheets.push(repeated.sheet);
    }
    super::show::print(&sheets, args.json)?;
    super::page(&sheets, args.html.as_deref())?;
    if !failed.is_empty() {
        bail!("{} of {} presets failed: {}", failed.len(), chosen.len(), failed.join(", "));
    }
    Ok(Outcome::of(differing))
}

/// What all runs share.
struct Session<'a> {
    args: &'a LabRun,
    cache: Cache,
    today: String,
    stop: Arc<AtomicBool>,
}

/// A preset's sheet, after all its repeats.
struct Repeated {
    sheet: TollSheet,
    /// Of the first run.
    flames: Vec<Flame>,
    /// Whether all repeats counted the same.
    same: bool,
}

impl<'a> Session<'a> {
    fn new(args: &'a LabRun) -> anyhow::Result<Self> {
        // Guests are ended before the program.
        let stop = interrupt::stop_flag().context("can't wait for Ctrl-C")?;
        if let Some(folder) = &args.output {
            std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
        }
        Ok(Self { args, cache: Cache::of_environment()?, today: today()?, stop })
    }

    fn repeat(&self, preset: &Preset) -> anyhow::Result<Repeated> {
        let detail = if self.args.flame.is_some() { Detail::Flames } else { Detail::Tolls };
        let Measured { mut sheet, flames, .. } = self.once(preset, detail)?;
        let mut same = true;
        for repeat in 2..=self.args.repeat {
            let again = self.once(preset, Detail::Tolls)?.sheet;
            let changes = compare(&sheet, &again, Limit::default());
            if !changes.is_empty() {
                same = false;
                output::say(&format!("{}: repeat {repeat} differs from the first:", preset.name));
                output::say_report(&report::toll_difference(
                    &sheet,
                    &again,
                    &changes,
                    output::width(),
                    output::style(),
                ));
            }
            sheet.repeats = repeat;
        }
        Ok(Repeated { sheet, flames, same })
    }

    fn once(&self, preset: &Preset, detail: Detail) -> anyhow::Result<Measured> {
        let plugin = plugin::find(preset.arch, self.args.plugin.as_deref())?;
        let (kernel, busybox) = (self.kernel(preset)?, busybox(&self.cache, preset.arch)?);
        let scratch = Scratch::new(self.args.keep.as_deref(), &preset.name)?;
        let workloads = Workload::of(preset, &self.args.workloads)?;
        let program = match preset.access() {
            Access::User => Some(Program::find(preset.arch)?),
            Access::Kernel | Access::Ways => None,
        };
        let plan = Plan {
            preset,
            workloads: &workloads,
            kernel: &kernel,
            busybox: &busybox,
            plugin: &plugin,
            program: program.as_ref(),
            scratch: scratch.path(),
            today: &self.today,
            detail,
            limits: Limits { time: Duration::from_secs(self.args.timeout), stop: &self.stop },
        };
        let bar = spinner(&preset.name)?;
        let measured = lab::run::run(plan, &mut |progress| show(&bar, progress))
            .with_context(|| format!("preset {}", preset.name));
        bar.finish_and_clear();
        let measured = measured?;
        warn(preset, &measured);
        Ok(measured)
    }

    fn kernel(&self, preset: &Preset) -> anyhow::Result<Kernel> {
        Ok(match (&self.args.kernel, &self.args.modules) {
            (Some(image), Some(modules)) => Kernel::of_user(preset.arch, image, modules)?,
            _ => Kernel::newest(&self.cache, super::choice(preset)?)?,
        })
    }

    /// Where flames go; one file if there is but one.
    fn flame_files(&self, file: &FlameFile, presets: &[&Preset]) -> anyhow::Result<FlameFiles> {
        let of = |preset: &&Preset| Workload::of(preset, &self.args.workloads).map(|all| all.len());
        let flames: usize = presets.iter().map(of).sum::<Result<_, _>>()?;
        FlameFiles::new(file.clone(), flames)
    }

    fn keep_sheet(&self, sheet: &TollSheet) -> anyhow::Result<()> {
        let Some(folder) = &self.args.output else { return Ok(()) };
        sheet.check().with_context(|| format!("the sheet of {} contradicts itself", sheet.preset))?;
        let mut text = serde_json::to_string(sheet)?;
        text.push('\n');
        let path = folder.join(format!("{}.json", sheet.preset));
        WholeFile::write(&path, text.as_bytes())?;
        output::say(&format!("wrote {}", path.display()));
        Ok(())
    }
}

fn warn(preset: &Preset, measured: &Measured) {
    for (workload, why) in &measured.absent {
        output::say(&format!("{}: no {workload}: {why}", preset.name));
    }
    if measured.gave_up > 0 {
        let times = measured.gave_up;
        output::say(&format!(
            "{}: {times} times a device did not answer in 5 s: counts may vary",
            preset.name
        ));
    }
}

/// The folder of a run's files: kept where the user wants it, else gone with this.
enum Scratch {
    Kept(PathBuf),
    Gone(tempfile::TempDir),
}

impl Scratch {
    fn new(keep: Option<&Path>, preset: &str) -> anyhow::Result<Self> {
        let Some(folder) = keep else {
            let folder = tempfile::Builder::new().prefix("iotoll-lab-").tempdir();
            return Ok(Self::Gone(folder.context("can't make a folder for the run's files")?));
        };
        let folder = folder.join(preset);
        std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        Ok(Self::Kept(std::path::absolute(folder)?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Gone(folder) => folder.path(),
        }
    }
}

fn spinner(preset: &str) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {prefix} {elapsed} {msg}")?);
    bar.set_prefix(escape::terminal::plain(preset));
    bar.enable_steady_tick(Duration::from_millis(100));
    Ok(bar)
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    match progress {
        Progress::Boot { vcpus, workloads } => {
            output::show_progress(bar, &format!("{workloads} workloads on {vcpus} virtual CPU"));
        }
        Progress::Ended(workload) => output::show_progress(bar, &format!("{workload} ended")),
        Progress::Fold => output::show_progress(bar, "counting"),
    }
}
