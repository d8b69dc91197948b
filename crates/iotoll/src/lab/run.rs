//! `iotoll lab run`: measures presets in QEMU and writes toll sheets.

use super::flame::FlameFiles;
use super::run_progress::RunProgress;
use crate::cli::LabRun;
use crate::date::today;
use crate::flame_file::FlameFile;
use crate::interrupt;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use anyhow::{Context, bail};
use lab::flame::Flame;
use lab::guest::program::Program;
use lab::kernel::{Cache, Kernel, busybox};
use lab::plugin;
use lab::preset::{Access, Preset};
use lab::qemu::Limits;
use lab::run::{Detail, Measured, Plan};
use lab::workload::Workload;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use toll::{Limit, PriceList, TollSheet, compare};

/// Measures presets, and prints or writes their sheets. A preset whose repeats differ counts as a finding.
pub(super) fn run(args: &LabRun) -> anyhow::Result<Outcome> {
    let presets = super::read_presets(args.presets.as_deref())?;
    let chosen: Vec<&Preset> = match args.all {
        true => presets.iter().collect(),
        false => args.names.iter().map(|name| presets.get(name)).collect::<Result<_, _>>()?,
    };
    let session = Session::new(args)?;
    let flames = args.flame.as_ref().map(|file| session.flame_files(file, &chosen)).transpose()?;
    let (mut sheets, mut failed) = (Vec::new(), Vec::new());
    let mut differing = 0;
    for preset in &chosen {
        let repeated = match session.measure_repeatedly(preset) {
            Ok(repeated) => repeated,
            Err(why) if chosen.len() == 1 || session.stop.load(Relaxed) => return Err(why),
            Err(why) => {
                output::print_error(&why);
                failed.push(preset.name.as_str());
                continue;
            }
        };
        differing += usize::from(!repeated.same);
        session.write_sheet(&repeated.sheet)?;
        if let Some(files) = &flames {
            repeated.flames.iter().try_for_each(|flame| files.write(flame))?;
        }
        sheets.push(repeated.sheet);
    }
    if !sheets.is_empty() {
        super::show::print_sheets(&sheets, args.json)?;
        super::write_page(&sheets, args.html.as_deref())?;
    }
    if !failed.is_empty() {
        bail!("{} of {} presets failed: {}", failed.len(), chosen.len(), failed.join(", "));
    }
    Ok(Outcome::of_findings(differing))
}

/// The options and resources that all runs of a command share.
struct Session<'a> {
    args: &'a LabRun,
    cache: Cache,
    today: String,
    /// Set by a signal: the guest is stopped before the program ends.
    stop: Arc<AtomicBool>,
}

/// A preset's sheet, after all its repeats.
struct Repeated {
    sheet: TollSheet,
    /// Flame graphs of the first run.
    flames: Vec<Flame>,
    /// Whether all repeats counted the same.
    same: bool,
}

impl<'a> Session<'a> {
    /// Prepares a run: Ctrl-C handling, the output folder, the cache and the date.
    fn new(args: &'a LabRun) -> anyhow::Result<Self> {
        // Ctrl-C must stop the guest before the program ends.
        let stop = interrupt::stop_flag().context("can't wait for Ctrl-C")?;
        if let Some(folder) = &args.output {
            std::fs::create_dir_all(folder).with_context(|| format!("can't create {}", folder.display()))?;
        }
        Ok(Self { args, cache: Cache::from_environment()?, today: today()?, stop })
    }

    /// Measures a preset as often as `--repeat` says and compares the counts.
    fn measure_repeatedly(&self, preset: &Preset) -> anyhow::Result<Repeated> {
        let detail = if self.args.flame.is_some() { Detail::Flames } else { Detail::Tolls };
        let Measured { mut sheet, flames, .. } = self.measure_once(preset, detail)?;
        let mut same = true;
        for repeat in 2..=self.args.repeat {
            let again = self.measure_once(preset, Detail::Tolls)?.sheet;
            let changes = compare(&sheet, &again, Limit::default());
            if !changes.is_empty() {
                same = false;
                output::print_note(&format!("{}: repeat {repeat} differs from the first:", preset.name));
                output::print_note_lines(&output::page_text(&report::toll_difference(
                    &sheet,
                    &again,
                    &changes,
                    PriceList::builtin(),
                )));
            }
            sheet.repeats = repeat;
        }
        Ok(Repeated { sheet, flames, same })
    }

    /// Boots a preset and measures its workloads once.
    fn measure_once(&self, preset: &Preset, detail: Detail) -> anyhow::Result<Measured> {
        lab::installed::check(preset.arch)?;
        let plugin = plugin::find(preset.arch, self.args.plugin.as_deref())?;
        let (kernel, busybox) = (self.kernel(preset)?, busybox(&self.cache, preset.arch)?);
        let scratch = Scratch::new(self.args.keep.as_deref(), &preset.name)?;
        let workloads = Workload::select(preset, &self.args.workloads)?;
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
            boots: self.args.boots,
            keeps_records: self.args.keep.is_some(),
            limits: Limits { time: Duration::from_secs(self.args.timeout), stop: &self.stop },
        };
        let mut shown = RunProgress::new(&preset.name)?;
        let measured = lab::run::run(plan, &mut |progress| shown.update(progress))
            .with_context(|| format!("preset {}", preset.name));
        shown.finish();
        let measured = measured?;
        print_warnings(preset, &measured);
        Ok(measured)
    }

    /// The kernel of `--kernel`, or the newest one in the cache.
    fn kernel(&self, preset: &Preset) -> anyhow::Result<Kernel> {
        Ok(match (&self.args.kernel, &self.args.modules) {
            (Some(image), Some(modules)) => Kernel::of_user(preset.arch, image, modules)?,
            _ => Kernel::newest(&self.cache, super::kernel_choice(preset)?)?,
        })
    }

    /// The files for flame graphs: the named file if there is one graph, otherwise one beside it for each.
    fn flame_files(&self, file: &FlameFile, presets: &[&Preset]) -> anyhow::Result<FlameFiles> {
        let of = |preset: &&Preset| Workload::select(preset, &self.args.workloads).map(|all| all.len());
        let flames: usize = presets.iter().map(of).sum::<Result<_, _>>()?;
        FlameFiles::new(file.clone(), flames)
    }

    /// Writes a sheet to the folder of `--output`, if one is given.
    fn write_sheet(&self, sheet: &TollSheet) -> anyhow::Result<()> {
        let Some(folder) = &self.args.output else { return Ok(()) };
        sheet.check().with_context(|| format!("the sheet of {} contradicts itself", sheet.preset))?;
        let mut text = serde_json::to_string(sheet)?;
        text.push('\n');
        let path = folder.join(format!("{}.json", sheet.preset));
        WholeFile::write(&path, text.as_bytes())?;
        Ok(())
    }
}

/// Prints what could not be measured.
fn print_warnings(preset: &Preset, measured: &Measured) {
    for (workload, why) in &measured.absent {
        output::print_note(&format!("{}: no {workload}: {why}", preset.name));
    }
}

/// The folder of a run's files: kept if `--keep` names one, otherwise temporary and removed when this is dropped.
enum Scratch {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl Scratch {
    fn new(keep: Option<&Path>, preset: &str) -> anyhow::Result<Self> {
        let Some(folder) = keep else {
            let folder = tempfile::Builder::new().prefix("iotoll-lab-").tempdir();
            return Ok(Self::Temporary(folder.context("can't create a folder for the run's files")?));
        };
        let folder = folder.join(preset);
        std::fs::create_dir_all(&folder).with_context(|| format!("can't create {}", folder.display()))?;
        Ok(Self::Kept(std::path::absolute(folder)?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}
