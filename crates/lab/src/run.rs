//! From a preset to its toll sheet.

use crate::disk::Disk;
use crate::dma_path::Found;
use crate::flame::{Flame, Heading};
use crate::guest::init::{self, DONE, ENDED, Errand};
use crate::guest::program::Program;
use crate::guest::{Initramfs, InitramfsError, PlacedFile, agent, program};
use crate::kernel::{Kernel, ModuleError, ModuleTree};
use crate::machine::{self, Files};
use crate::preset::{Adapter, Preset};
use crate::qemu::{self, Limits, QemuError, Release};
use crate::record::{Record, RecordError};
use crate::replay;
use crate::stack::Landmarks;
use crate::stage::StageTable;
use crate::symbols::{Symbols, SymbolsError};
use crate::tolls::{Assay, Seen, typical};
use crate::trace::{self, Happenings, TraceError};
use crate::window::{Folder, Layout, Window};
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use toll::{DmaPath, Evidence, KernelId, Machine, SheetSchema, TollSheet};

/// Room for a kernel's symbols.
const SYMBOLS_BYTES: u64 = 32 << 20;

/// Why there is no toll sheet.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file of the run can't be made or read.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The kernel lacks a module.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The guest's program can't be built.
    #[error(transparent)]
    Agent(#[from] agent::AgentError),
    /// The guest's file system can't be built.
    #[error(transparent)]
    Initramfs(#[from] InitramfsError),
    /// QEMU or its guest failed.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// The record is no good.
    #[error("the plugin's record: {problem}{}", said(.qemu))]
    Record {
        /// What is wrong with it.
        problem: RecordError,
        /// What QEMU said.
        qemu: String,
    },
    /// The log is no good.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The guest's symbols are no good.
    #[error(transparent)]
    Symbols(#[from] SymbolsError),
    /// The guest says that something failed.
    #[error("in the guest: {what}{}", said(.qemu))]
    Guest {
        /// What failed.
        what: String,
        /// What QEMU and the plugin said.
        qemu: String,
    },
    /// The adapters took another DMA path than the preset says.
    #[error("its adapters are to take the DMA path {wanted}, but in its guest {address} {found}")]
    DmaPath {
        /// The preset's DMA path.
        wanted: DmaPath,
        /// The adapter.
        address: String,
        /// What it has instead, in words.
        found: String,
    },
    /// No workload ran.
    #[error("none of its workloads ran: {}", told(.absent))]
    NoToll {
        /// Each with why.
        absent: Vec<(String, String)>,
    },
    /// Windows in the record and in the log are not the same.
    #[error("the record has {record} windows and QEMU's log {log}: one of them is not whole")]
    Windows {
        /// In the record.
        record: usize,
        /// In the log.
        log: usize,
    },
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("; QEMU said: {text}") }
}

fn told(absent: &[(String, String)]) -> String {
    let each: Vec<String> = absent.iter().map(|(workload, why)| format!("{workload} ({why})")).collect();
    each.join(", ")
}

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// Machine and DMA path.
    pub preset: &'a Preset,
    /// What runs in it.
    pub workloads: &'a [Workload],
    /// The kernel.
    pub kernel: &'a Kernel,
    /// busybox of the guest's architecture.
    pub busybox: &'a Path,
    /// The plugin.
    pub plugin: &'a Path,
    /// The program that drives adapters by itself, for presets of that DMA path.
    pub program: Option<&'a Program>,
    /// An empty folder for the run's files.
    pub scratch: &'a Path,
    /// The day, YYYY-MM-DD.
    pub today: &'a str,
    /// What is wanted.
    pub detail: Detail,
    /// Time, and the user's wish to stop.
    pub limits: Limits<'a>,
}

/// What is wanted of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The toll sheet.
    Tolls,
    /// Also a flame of each workload, for which the record is read twice.
    Flames,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Boots a machine with so many virtual CPUs, for so many workloads.
    Boot {
        /// Virtual CPUs.
        vcpus: u32,
        /// Workloads.
        workloads: usize,
    },
    /// A workload ended in the guest.
    Ended(&'a str),
    /// Reads what was recorded.
    Fold,
}

/// What came out.
#[derive(Debug)]
pub struct Measured {
    /// The toll sheet.
    pub sheet: TollSheet,
    /// The typical window of each workload by call stack, if wanted.
    pub flames: Vec<Flame>,
    /// Workloads that did not run, each with why.
    pub absent: Vec<(String, String)>,
    /// Times that waiting for devices was given up: the counts may then depend on the machine's load.
    pub gave_up: usize,
}

/// Runs a preset: one boot for each number of virtual CPUs that its workloads want.
///
/// # Errors
/// [`RunError`]; nothing is left running.
pub fn run(plan: Plan<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Measured, RunError> {
    let mut measured =
        Measured { sheet: empty_sheet(plan)?, flames: Vec::new(), absent: Vec::new(), gave_up: 0 };
    let mut vcpus: Vec<u32> = plan.workloads.iter().map(|workload| workload.vcpus).collect();
    vcpus.sort_unstable();
    vcpus.dedup();
    for vcpus in vcpus {
        let own: Vec<(u64, Workload)> =
            (1..).zip(plan.workloads.iter().filter(|workload| workload.vcpus == vcpus).cloned()).collect();
        progress(Progress::Boot { vcpus, workloads: own.len() });
        let boot = Boot { plan, vcpus, workloads: &own };
        boot.run(&mut measured, progress)?;
    }
    if measured.sheet.tolls.is_empty() {
        return Err(RunError::NoToll { absent: measured.absent });
    }
    measured.sheet.tolls.sort_by(|a, b| a.workload.cmp(&b.workload));
    Ok(measured)
}

fn empty_sheet(plan: Plan<'_>) -> Result<TollSheet, RunError> {
    Ok(TollSheet {
        schema: SheetSchema,
        preset: plan.preset.name.clone(),
        dma_path: plan.preset.dma_path,
        machine: Machine {
            arch: plan.preset.arch.word().to_owned(),
            cpu: machine::cpu(plan.preset.arch).to_owned(),
            vcpus: 1,
            memory_mib: machine::MEMORY_MIB,
            qemu_version: qemu::version(plan.preset.arch)?,
            command_line: Vec::new(),
        },
        kernel: KernelId {
            release: plan.kernel.release.clone(),
            package: plan.kernel.package.as_ref().map(ToString::to_string),
            command_line: machine::kernel_command_line(plan.preset, 1),
        },
        measured_on: plan.today.to_owned(),
        repeats: 1,
        tolls: Vec::new(),
    })
}

/// One boot of a machine.
struct Boot<'a> {
    plan: Plan<'a>,
    vcpus: u32,
    workloads: &'a [(u64, Workload)],
}

impl Boot<'_> {
    fn run(&self, measured: &mut Measured, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), RunError> {
        let disk = Disk::serve();
        let disk = disk.map_err(|source| RunError::Io { what: "can't serve a disk".to_owned(), source })?;
        let files = self.files(&disk)?;
        let arch = self.plan.preset.arch;
        // A release that can't be read is taken for an old one: it is told nothing special.
        let release = Release::read(&measured.sheet.machine.qemu_version).unwrap_or(Release(0, 0));
        let arguments = machine::arguments(self.plan.preset, self.vcpus, &files, release);
        qemu::run(arch, &arguments, &files.console, self.plan.limits)?;
        let console = console(&files.console)?;
        self.check(&console, &files)?;
        for (_, workload) in self.workloads {
            progress(Progress::Ended(&workload.name));
        }
        if measured.sheet.machine.command_line.is_empty() {
            measured.sheet.machine.command_line = shown(arch.qemu(), &arguments, self.plan.scratch);
        }
        progress(Progress::Fold);
        self.fold(&console, &files, measured)
    }

    fn files(&self, disk: &Disk) -> Result<Files, RunError> {
        let scratch = self.plan.scratch.join(format!("{}cpu", self.vcpus));
        io(&scratch, "make the folder", fs::create_dir_all(&scratch))?;
        let initramfs = scratch.join("initramfs");
        io(&initramfs, "write", fs::write(&initramfs, self.initramfs(&scratch)?))?;
        let symbols = scratch.join("symbols");
        let made = File::create(&symbols).and_then(|file| file.set_len(SYMBOLS_BYTES));
        io(&symbols, "make the disk", made)?;
        Ok(Files {
            kernel: self.plan.kernel.image.clone(),
            initramfs,
            console: scratch.join("console"),
            disk: disk.socket(),
            disk_control: disk.control(),
            symbols,
            plugin: self.plan.plugin.to_owned(),
            record: scratch.join("record"),
            log: scratch.join("log"),
        })
    }

    fn initramfs(&self, scratch: &Path) -> Result<Vec<u8>, RunError> {
        let arch = self.plan.preset.arch;
        let tree = ModuleTree::of_kernel(self.plan.kernel)?;
        let early: Vec<&str> = self.plan.preset.modules.iter().map(String::as_str).collect();
        let early = tree.order(&early)?.load.len();
        let modules = tree.order(&self.modules())?.load;
        let program = agent::build(arch, scratch)?;
        let program = io(&program, "read", fs::read(&program))?;
        let busybox = io(self.plan.busybox, "read", fs::read(self.plan.busybox))?;
        let script = init::script(Errand {
            arch,
            vcpus: self.vcpus,
            access: self.plan.preset.access(),
            modules: &modules,
            early,
            workloads: self.workloads,
        });
        let mut files = vec![PlacedFile { path: init::AGENT, permissions: 0o755, bytes: &program }];
        let of_program = self.plan.program.iter().flat_map(|program| &program.files);
        files.extend(of_program.map(|(path, bytes)| PlacedFile { path, permissions: 0o755, bytes }));
        let release = &self.plan.kernel.release;
        let initramfs =
            Initramfs { release, busybox: &busybox, modules: &modules, init: &script, files: &files };
        Ok(initramfs.build()?)
    }

    fn modules(&self) -> Vec<&str> {
        let preset = self.plan.preset;
        let uses = |adapter| self.workloads.iter().any(|(_, workload)| workload.adapter == adapter);
        let adapters = preset.adapters.iter().copied().filter(|adapter| uses(*adapter));
        // The symbols go out through a disk on every machine.
        let mut modules: Vec<&str> = preset.modules.iter().map(String::as_str).collect();
        modules.extend(["nvme"]);
        for adapter in adapters.filter(|adapter| *adapter != Adapter::Nvme) {
            if adapter == Adapter::VirtioNet {
                modules.push("virtio_pci");
            }
            modules.push(adapter.driver());
        }
        modules
    }

    /// Whether the guest did everything, on the DMA path it should.
    fn check(&self, console: &str, files: &Files) -> Result<(), RunError> {
        if let Some(failed) = console.lines().find_map(|line| line.split_once("lab: failed: ")) {
            let qemu = qemu::last_lines(&files.console.with_extension("qemu"));
            return Err(RunError::Guest { what: failed.1.to_owned(), qemu });
        }
        if !console.lines().any(|line| line == DONE) {
            let console = qemu::last_lines(&files.console);
            return Err(QemuError::GuestFailed { console }.into());
        }
        self.check_dma_path(console)
    }

    fn check_dma_path(&self, console: &str) -> Result<(), RunError> {
        let wanted = self.plan.preset.dma_path;
        let used = self.slots();
        let mut adapters =
            console.lines().filter_map(Found::read).filter(|found| used.contains(&found.address));
        match adapters.find(|found| !found.is_on(wanted)) {
            None => Ok(()),
            Some(astray) => Err(RunError::DmaPath {
                wanted,
                address: astray.address.to_owned(),
                found: astray.given(wanted),
            }),
        }
    }

    /// Where the adapters are that the workloads use.
    fn slots(&self) -> Vec<&'static str> {
        let of = |adapter| match adapter {
            Adapter::Nvme => vec![machine::DISK_SLOT],
            other => machine::network_slots(other).map(Vec::from).unwrap_or_default(),
        };
        self.workloads.iter().flat_map(|(_, workload)| of(workload.adapter)).collect()
    }

    fn fold(&self, console: &str, files: &Files, measured: &mut Measured) -> Result<(), RunError> {
        let functions = self.plan.program.map(|program| program.functions.clone()).unwrap_or_default();
        let symbols = Symbols::read(&symbols_text(&files.symbols)?)?.with_program(functions);
        let (windows, gave_up) = self.windows(files, &symbols)?;
        measured.gave_up += gave_up;
        let log = io(&files.log, "read", File::open(&files.log))?;
        let happenings = trace::read(BufReader::new(log))?;
        if happenings.len() != windows.len() {
            return Err(RunError::Windows { record: windows.len(), log: happenings.len() });
        }
        let evidence = self.evidence(&measured.sheet);
        let mut typical_windows = BTreeMap::new();
        for (phase, workload) in self.workloads {
            let assay =
                Assay { arch: self.plan.preset.arch, symbols: &symbols, workload, evidence: &evidence };
            let seen = seen(*phase, &windows, &happenings);
            let toll = match ended(console, &workload.name) {
                Some("0") => assay.toll(&seen).ok_or_else(|| "it marked no window".to_owned()),
                other => Err(absence(console, &workload.name, other)),
            };
            match toll {
                Ok(toll) => measured.sheet.tolls.push(toll),
                Err(why) => {
                    measured.absent.push((workload.name.clone(), why));
                    continue;
                }
            }
            typical_windows.extend(typical(&seen).map(|window| (window.number, (workload, window.units))));
        }
        if self.plan.detail == Detail::Flames {
            measured.flames.extend(self.flames(files, &symbols, &typical_windows)?);
        }
        Ok(())
    }

    /// The flames of some windows, by their numbers.
    fn flames(
        &self,
        files: &Files,
        symbols: &Symbols,
        windows: &BTreeMap<u64, (&Workload, u64)>,
    ) -> Result<Vec<Flame>, RunError> {
        let landmarks = Landmarks::new(symbols, self.plan.preset.arch);
        let numbers = windows.keys().copied().collect();
        let stacks = self.read(files, |record| replay::stacks(record, symbols, &landmarks, &numbers))?;
        let stages = StageTable::built_in().stages(symbols);
        let flame = |(number, folded): (&u64, _)| {
            let (workload, ios) = *windows.get(number)?;
            let heading = Heading {
                preset: self.plan.preset.name.clone(),
                workload: workload.name.clone(),
                kernel: self.plan.kernel.release.clone(),
                ios,
            };
            Some(Flame::new(heading, folded, symbols, &stages))
        };
        Ok(stacks.iter().filter_map(flame).collect())
    }

    fn windows(&self, files: &Files, symbols: &Symbols) -> Result<(Vec<Window>, usize), RunError> {
        let stages = StageTable::built_in().stages(symbols);
        let mut folder = Folder::new(symbols, &stages, Layout::of(self.plan.preset.arch));
        let windows = self.read(files, |record| folder.fold(record))?;
        Ok((windows, folder.gave_up.len()))
    }

    /// Reads the record from its begin.
    fn read<T>(
        &self,
        files: &Files,
        read: impl FnOnce(&mut Record<BufReader<File>>) -> Result<T, RecordError>,
    ) -> Result<T, RunError> {
        let record = io(&files.record, "read", File::open(&files.record))?;
        let read = Record::new(BufReader::with_capacity(1 << 20, record)).and_then(|mut it| read(&mut it));
        read.map_err(|problem| RunError::Record {
            problem,
            qemu: qemu::last_lines(&files.console.with_extension("qemu")),
        })
    }

    fn evidence(&self, sheet: &TollSheet) -> Evidence {
        Evidence::Measured {
            how: format!("iotoll lab run {}", sheet.preset),
            on: format!(
                "QEMU {} (TCG, one instruction a nanosecond), {} of {} virtual CPU, Linux {}",
                sheet.machine.qemu_version, sheet.machine.cpu, self.vcpus, sheet.kernel.release
            ),
        }
    }
}

fn seen<'a>(phase: u64, windows: &'a [Window], happenings: &'a [Happenings]) -> Vec<Seen<'a>> {
    let pairs = windows.iter().zip(happenings).filter(|(window, _)| window.phase == phase);
    pairs.map(|(window, happenings)| Seen { window, happenings }).collect()
}

fn ended<'c>(console: &'c str, workload: &str) -> Option<&'c str> {
    let statuses = console.lines().filter_map(|line| line.trim_end().strip_prefix(ENDED));
    statuses
        .filter_map(|rest| rest.trim_start().split_once(' '))
        .find(|(name, _)| *name == workload)
        .map(|(_, status)| status)
}

/// Why a workload did not run: in the words of the guest's program, and if it has none, what the console had last.
fn absence(console: &str, workload: &str, status: Option<&str>) -> String {
    let Some(status) = status else { return "the guest did not get to it".to_owned() };
    let mut words: Vec<&str> = Vec::new();
    for line in console.lines().map(str::trim_end) {
        match line.strip_prefix(ENDED).map(|rest| rest.trim_start().split(' ').next()) {
            Some(ended) if ended == Some(workload) => break,
            Some(_) => words.clear(),
            None => words.push(line),
        }
    }
    let own = |line: &&str| {
        let speaker = line.split_once(": ").map(|(speaker, _)| speaker);
        speaker == Some("agent") || speaker == Some(program::NAME) || line.starts_with("absent ")
    };
    let said: Vec<&str> = words.iter().copied().filter(own).collect();
    let last = || words.iter().copied().rfind(|line| !line.is_empty()).map(|line| vec![line]);
    let said = if said.is_empty() { last().unwrap_or_default() } else { said };
    format!(
        "exit status {status}: {}",
        if said.is_empty() { "it said nothing".to_owned() } else { said.join("; ") }
    )
}

fn console(path: &Path) -> Result<String, RunError> {
    let bytes = io(path, "read", fs::read(path))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

fn symbols_text(path: &Path) -> Result<String, RunError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SYMBOLS_BYTES).read_to_end(&mut bytes));
    io(path, "read", read)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// The command line without the names of files that are gone when somebody reads it.
fn shown(program: &str, arguments: &[std::ffi::OsString], scratch: &Path) -> Vec<String> {
    let scratch = scratch.display().to_string();
    let parent = format!(",parent={}", std::process::id());
    let words =
        arguments.iter().map(|word| word.to_string_lossy().replace(&scratch, "SCRATCH").replace(&parent, ""));
    std::iter::once(program.to_owned()).chain(words.map(|word| without_home(&word))).collect()
}

/// File names outside the scratch folder are told by their last part.
fn without_home(word: &str) -> String {
    match word.split_once(',') {
        _ if !word.starts_with('/') => word.to_owned(),
        Some((path, rest)) => format!("{},{rest}", base_name(path)),
        None => base_name(word),
    }
}

fn base_name(path: &str) -> String {
    PathBuf::from(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn io<T>(path: &Path, what: &str, result: std::io::Result<T>) -> Result<T, RunError> {
    result.map_err(|source| RunError::Io { what: format!("can't {what} {}", path.display()), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_workload_did_not_run_is_in_its_own_words() {
        let console = "agent: of another time\nlab: ended a 1\nabsent uring 38\n[    1.0] noise\nlab: ended b 3\n\
                       Segmentation fault\n\nlab: ended c 139\nlab: ended d 9\nagent: open /dev/x: errno 6\n\
                       lab: ended bb 1\n";
        let check = |workload: &str, expected: &str| {
            assert_eq!(absence(console, workload, ended(console, workload)), expected);
        };
        check("a", "exit status 1: agent: of another time");
        check("b", "exit status 3: absent uring 38");
        check("c", "exit status 139: Segmentation fault");
        check("d", "exit status 9: it said nothing");
        check("bb", "exit status 1: agent: open /dev/x: errno 6");
        check("e", "the guest did not get to it");
    }
}
