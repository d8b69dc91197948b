//! Runs a preset's workloads in QEMU and computes the toll sheet.

use crate::disk::Disk;
use crate::dma_path::AdapterInfo;
use crate::flame::{Flame, Heading};
use crate::guest::init::{self, DONE, ENDED, ScriptPlan};
use crate::guest::program::Program;
use crate::guest::{Initramfs, InitramfsError, PlacedFile, agent, program};
use crate::kernel::{Kernel, ModuleError, ModuleTree};
use crate::preset::{EmulatedAdapter, Preset};
use crate::qemu::{self, Limits, QemuError, Release};
use crate::qemu_command::{self, Files};
use crate::record::{Record, RecordError};
use crate::replay;
use crate::stack::Landmarks;
use crate::stage::StageTable;
use crate::symbols::{Symbols, SymbolsError};
use crate::tolls::{TollInput, TracedWindow, typical_window};
use crate::trace::{self, TraceError, WindowEvents};
use crate::window::{Layout, Window, WindowCounter};
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use toll::{DmaPath, EmulatedMachine, Evidence, KernelId, SheetSchema, TollSheet};

/// Size of the disk to which the guest writes the kernel's symbols.
const SYMBOLS_BYTES: u64 = 32 << 20;

/// Why a run produced no toll sheet.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file of the run can't be created or read.
    #[error("{action}")]
    Io {
        /// What failed, as in `can't read FILE`.
        action: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The kernel lacks a module.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The agent can't be built.
    #[error(transparent)]
    Agent(#[from] agent::AgentError),
    /// The guest's initramfs can't be built.
    #[error(transparent)]
    Initramfs(#[from] InitramfsError),
    /// QEMU or its guest failed.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// The plugin's record can't be decoded.
    #[error("the plugin's record: {problem}{}", quote_qemu(.qemu))]
    Record {
        /// What is wrong with it.
        problem: RecordError,
        /// The end of QEMU's output.
        qemu: String,
    },
    /// QEMU's log can't be parsed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The guest's symbols can't be parsed.
    #[error(transparent)]
    Symbols(#[from] SymbolsError),
    /// The guest's init script reported a failure.
    #[error("in the guest: {failure}{}", quote_qemu(.qemu))]
    Guest {
        /// What failed.
        failure: String,
        /// The end of QEMU's output.
        qemu: String,
    },
    /// An adapter has another DMA path than the preset says.
    #[error("expected adapters on the DMA path {wanted}, but in the guest {address} {found}")]
    DmaPath {
        /// The preset's DMA path.
        wanted: DmaPath,
        /// The adapter's PCI address.
        address: String,
        /// The deciding property of the adapter, as in `has an IOMMU group of type DMA`.
        found: String,
    },
    /// No workload ran.
    #[error("none of its workloads ran: {}", list_absent(.absent))]
    NoToll {
        /// Workloads and the reasons why they did not run.
        absent: Vec<(String, String)>,
    },
    /// The record and the log have different numbers of windows.
    #[error(
        "the record has {record} windows and QEMU's log {log}; expected the same number, so one is incomplete"
    )]
    Windows {
        /// Windows in the record.
        record: usize,
        /// Windows in the log.
        log: usize,
    },
}

/// The end of QEMU's output for the end of an error message, or nothing.
fn quote_qemu(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("; QEMU's output ends with: {text}") }
}

/// `a (reason), b (reason)`.
fn list_absent(absent: &[(String, String)]) -> String {
    let each: Vec<String> =
        absent.iter().map(|(workload, reason)| format!("{workload} ({reason})")).collect();
    each.join(", ")
}

/// The inputs of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The machine and its DMA path.
    pub preset: &'a Preset,
    /// The workloads to run in it.
    pub workloads: &'a [Workload],
    /// The kernel to boot.
    pub kernel: &'a Kernel,
    /// The path of a busybox for the guest's architecture.
    pub busybox: &'a Path,
    /// The path of the plugin.
    pub plugin: &'a Path,
    /// The program with the user-space driver, for presets that need it.
    pub program: Option<&'a Program>,
    /// An empty folder for the run's files.
    pub scratch: &'a Path,
    /// The day, YYYY-MM-DD.
    pub today: &'a str,
    /// Which results to compute.
    pub detail: Detail,
    /// The time limit, and whether the user interrupted.
    pub limits: Limits<'a>,
}

/// Which results a run computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The toll sheet.
    Tolls,
    /// Also a flame graph of each workload, for which the record is read twice.
    Flames,
}

/// A step of a run, reported while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A machine boots.
    Boot {
        /// Its virtual CPUs.
        vcpus: u32,
        /// The number of workloads that run in it.
        workloads: usize,
    },
    /// The workload of this name ended in the guest.
    Ended(&'a str),
    /// The record and the log are being evaluated.
    Fold,
}

/// The results of a run.
#[derive(Debug)]
pub struct Measured {
    /// The toll sheet.
    pub sheet: TollSheet,
    /// The typical window of each workload by call stack, if requested.
    pub flames: Vec<Flame>,
    /// Workloads that did not run, and the reasons.
    pub absent: Vec<(String, String)>,
    /// How often the plugin stopped waiting for devices. If it did, the counts may depend on the host's load.
    pub gave_up: usize,
}

/// Runs a preset, with one boot for each number of virtual CPUs that its workloads need.
///
/// # Errors
/// [`RunError`]; QEMU has ended in any case.
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

/// A sheet with the machine and kernel, and without tolls.
fn empty_sheet(plan: Plan<'_>) -> Result<TollSheet, RunError> {
    Ok(TollSheet {
        schema: SheetSchema,
        made_by: concat!("iotoll ", env!("CARGO_PKG_VERSION")).to_owned(),
        preset: plan.preset.name.clone(),
        dma_path: plan.preset.dma_path,
        machine: EmulatedMachine {
            arch: plan.preset.arch.word().to_owned(),
            cpu: qemu_command::cpu(plan.preset.arch).to_owned(),
            vcpus: 1,
            memory_mib: qemu_command::MEMORY_MIB,
            qemu_version: qemu::version(plan.preset.arch)?,
            command_line: Vec::new(),
        },
        kernel: KernelId {
            release: plan.kernel.release.clone(),
            package: plan.kernel.package.as_ref().map(ToString::to_string),
            command_line: qemu_command::kernel_command_line(plan.preset, 1),
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
    /// Boots, runs the workloads and adds their results to `measured`.
    fn run(&self, measured: &mut Measured, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), RunError> {
        let disk = Disk::serve();
        let disk = disk.map_err(|source| RunError::Io { action: "can't serve a disk".to_owned(), source })?;
        let files = self.create_files(&disk)?;
        let arch = self.plan.preset.arch;
        // An unknown release counts as old and gets no options of newer ones.
        let release = Release::parse(&measured.sheet.machine.qemu_version).unwrap_or(Release(0, 0));
        let arguments = qemu_command::arguments(self.plan.preset, self.vcpus, &files, release);
        qemu::run(arch, &arguments, &files.console, self.plan.limits)?;
        let console = read_console(&files.console)?;
        self.check_console(&console, &files)?;
        for (_, workload) in self.workloads {
            progress(Progress::Ended(&workload.name));
        }
        if measured.sheet.machine.command_line.is_empty() {
            measured.sheet.machine.command_line =
                anonymous_command_line(arch.qemu(), &arguments, self.plan.scratch);
        }
        progress(Progress::Fold);
        self.evaluate(&console, &files, measured)
    }

    /// Writes the initramfs and creates the disk for the symbols; returns the paths of all files.
    fn create_files(&self, disk: &Disk) -> Result<Files, RunError> {
        let scratch = self.plan.scratch.join(format!("{}cpu", self.vcpus));
        io(&scratch, "create the folder", fs::create_dir_all(&scratch))?;
        let initramfs = scratch.join("initramfs");
        io(&initramfs, "write", fs::write(&initramfs, self.build_initramfs(&scratch)?))?;
        let symbols = scratch.join("symbols");
        let created = File::create(&symbols).and_then(|file| file.set_len(SYMBOLS_BYTES));
        io(&symbols, "create the disk", created)?;
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

    /// Compiles the agent and builds the archive; `scratch` is a folder for the agent.
    fn build_initramfs(&self, scratch: &Path) -> Result<Vec<u8>, RunError> {
        let arch = self.plan.preset.arch;
        let tree = ModuleTree::of_kernel(self.plan.kernel)?;
        let early: Vec<&str> = self.plan.preset.modules.iter().map(String::as_str).collect();
        let early = tree.load_order(&early)?.load.len();
        let modules = tree.load_order(&self.wanted_modules())?.load;
        let program = agent::build(arch, scratch)?;
        let program = io(&program, "read", fs::read(&program))?;
        let busybox = io(self.plan.busybox, "read", fs::read(self.plan.busybox))?;
        let script = init::script(ScriptPlan {
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

    /// Names of the preset's modules and of the drivers that the workloads need.
    fn wanted_modules(&self) -> Vec<&str> {
        let preset = self.plan.preset;
        let uses = |adapter| self.workloads.iter().any(|(_, workload)| workload.adapter == adapter);
        let adapters = preset.adapters.iter().copied().filter(|adapter| uses(*adapter));
        // Every machine needs the NVMe driver, for the disk that the guest writes its symbols to.
        let mut modules: Vec<&str> = preset.modules.iter().map(String::as_str).collect();
        modules.extend(["nvme"]);
        for adapter in adapters.filter(|adapter| *adapter != EmulatedAdapter::Nvme) {
            if adapter == EmulatedAdapter::VirtioNet {
                modules.push("virtio_pci");
            }
            modules.push(adapter.driver());
        }
        modules
    }

    /// Checks that the guest's script ran to its end, and that the adapters have the preset's DMA path.
    fn check_console(&self, console: &str, files: &Files) -> Result<(), RunError> {
        if let Some(failed) = console.lines().find_map(|line| line.split_once("lab: failed: ")) {
            let qemu = qemu::last_lines(&files.console.with_extension("qemu"));
            return Err(RunError::Guest { failure: failed.1.to_owned(), qemu });
        }
        if !console.lines().any(|line| line == DONE) {
            let console = qemu::last_lines(&files.console);
            return Err(QemuError::GuestFailed { console }.into());
        }
        self.check_dma_path(console)
    }

    /// Checks the DMA path of each adapter that the workloads use, by the guest's console.
    fn check_dma_path(&self, console: &str) -> Result<(), RunError> {
        let wanted = self.plan.preset.dma_path;
        let used = self.used_slots();
        let mut adapters =
            console.lines().filter_map(AdapterInfo::parse).filter(|adapter| used.contains(&adapter.address));
        match adapters.find(|adapter| !adapter.uses(wanted)) {
            None => Ok(()),
            Some(other) => Err(RunError::DmaPath {
                wanted,
                address: other.address.to_owned(),
                found: other.describe(wanted),
            }),
        }
    }

    /// PCI addresses of the adapters that the workloads use.
    fn used_slots(&self) -> Vec<&'static str> {
        let of = |adapter| match adapter {
            EmulatedAdapter::Nvme => vec![qemu_command::DISK_SLOT],
            other => qemu_command::network_slots(other).map(Vec::from).unwrap_or_default(),
        };
        self.workloads.iter().flat_map(|(_, workload)| of(workload.adapter)).collect()
    }

    /// Computes the tolls and flame graphs from the record, the log and the symbols, and adds them to `measured`.
    fn evaluate(&self, console: &str, files: &Files, measured: &mut Measured) -> Result<(), RunError> {
        let functions = self.plan.program.map(|program| program.functions.clone()).unwrap_or_default();
        let symbols = Symbols::parse(&read_symbols(&files.symbols)?)?.with_program(functions);
        let (windows, gave_up) = self.count_windows(files, &symbols)?;
        measured.gave_up += gave_up;
        let log = io(&files.log, "read", File::open(&files.log))?;
        let events = trace::read_log(BufReader::new(log))?;
        if events.len() != windows.len() {
            return Err(RunError::Windows { record: windows.len(), log: events.len() });
        }
        let evidence = self.evidence(&measured.sheet);
        let mut typical_windows = BTreeMap::new();
        for (phase, workload) in self.workloads {
            let input =
                TollInput { arch: self.plan.preset.arch, symbols: &symbols, workload, evidence: &evidence };
            let traced = traced_windows(*phase, &windows, &events);
            let toll = match exit_status(console, &workload.name) {
                Some("0") => input.toll(&traced).ok_or_else(|| "it marked no window".to_owned()),
                other => Err(absence_reason(console, &workload.name, other)),
            };
            match toll {
                Ok(toll) => measured.sheet.tolls.push(toll),
                Err(reason) => {
                    measured.absent.push((workload.name.clone(), reason));
                    continue;
                }
            }
            typical_windows
                .extend(typical_window(&traced).map(|window| (window.number, (workload, window.ios))));
        }
        if self.plan.detail == Detail::Flames {
            measured.flames.extend(self.flames(files, &symbols, &typical_windows)?);
        }
        Ok(())
    }

    /// Flame graphs of `windows`: for each window's number, its workload and number of I/Os.
    fn flames(
        &self,
        files: &Files,
        symbols: &Symbols,
        windows: &BTreeMap<u64, (&Workload, u64)>,
    ) -> Result<Vec<Flame>, RunError> {
        let landmarks = Landmarks::new(symbols, self.plan.preset.arch);
        let numbers = windows.keys().copied().collect();
        let stacks =
            self.read_record(files, |record| replay::stacks(record, symbols, &landmarks, &numbers))?;
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

    /// All windows of the record, and how often the plugin stopped waiting for devices.
    fn count_windows(&self, files: &Files, symbols: &Symbols) -> Result<(Vec<Window>, usize), RunError> {
        let stages = StageTable::built_in().stages(symbols);
        let mut counter = WindowCounter::new(symbols, &stages, Layout::of(self.plan.preset.arch));
        let windows = self.read_record(files, |record| counter.count(record))?;
        Ok((windows, counter.gave_up.len()))
    }

    /// Opens the record and passes it to `read`.
    fn read_record<T>(
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

    /// How and on which machine the tolls were measured.
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

/// The windows of the workload of a number, each with its trace events. The two slices have the same order.
fn traced_windows<'a>(
    phase: u64,
    windows: &'a [Window],
    events: &'a [WindowEvents],
) -> Vec<TracedWindow<'a>> {
    let pairs = windows.iter().zip(events).filter(|(window, _)| window.phase == phase);
    pairs.map(|(window, events)| TracedWindow { window, events }).collect()
}

/// A workload's exit status on the console; `None` if it did not end.
fn exit_status<'c>(console: &'c str, workload: &str) -> Option<&'c str> {
    let statuses = console.lines().filter_map(|line| line.trim_end().strip_prefix(ENDED));
    statuses
        .filter_map(|rest| rest.trim_start().split_once(' '))
        .find(|(name, _)| *name == workload)
        .map(|(_, status)| status)
}

/// Why a workload did not run: its program's messages on the console, or the console's last line if it printed none.
fn absence_reason(console: &str, workload: &str, status: Option<&str>) -> String {
    let Some(status) = status else { return "the guest ended before it ran".to_owned() };
    let mut words: Vec<&str> = Vec::new();
    for line in console.lines().map(str::trim_end) {
        match line.strip_prefix(ENDED).map(|rest| rest.trim_start().split(' ').next()) {
            Some(ended) if ended == Some(workload) => break,
            Some(_) => words.clear(),
            None => words.push(line),
        }
    }
    let is_message = |line: &&str| {
        let program = line.split_once(": ").map(|(program, _)| program);
        program == Some("agent") || program == Some(program::NAME) || line.starts_with("absent ")
    };
    let messages: Vec<&str> = words.iter().copied().filter(is_message).collect();
    let last = || words.iter().copied().rfind(|line| !line.is_empty()).map(|line| vec![line]);
    let messages = if messages.is_empty() { last().unwrap_or_default() } else { messages };
    format!(
        "exit status {status}: {}",
        if messages.is_empty() { "it printed nothing".to_owned() } else { messages.join("; ") }
    )
}

/// Reads the guest's console without carriage returns.
fn read_console(path: &Path) -> Result<String, RunError> {
    let bytes = io(path, "read", fs::read(path))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

/// Reads the text that the guest wrote to the disk for symbols; zero bytes follow it.
fn read_symbols(path: &Path) -> Result<String, RunError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SYMBOLS_BYTES).read_to_end(&mut bytes));
    io(path, "read", read)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// The command line without paths and process numbers of this host.
fn anonymous_command_line(program: &str, arguments: &[std::ffi::OsString], scratch: &Path) -> Vec<String> {
    let scratch = scratch.display().to_string();
    let parent = format!(",parent={}", std::process::id());
    let words =
        arguments.iter().map(|word| word.to_string_lossy().replace(&scratch, "SCRATCH").replace(&parent, ""));
    std::iter::once(program.to_owned()).chain(words.map(|word| without_folders(&word))).collect()
}

/// A word that begins with an absolute path, with only the path's last component.
fn without_folders(word: &str) -> String {
    match word.split_once(',') {
        _ if !word.starts_with('/') => word.to_owned(),
        Some((path, rest)) => format!("{},{rest}", base_name(path)),
        None => base_name(word),
    }
}

/// The last component of a path.
fn base_name(path: &str) -> String {
    PathBuf::from(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Turns an I/O error into one that says `can't VERB PATH`.
fn io<T>(path: &Path, verb: &str, result: std::io::Result<T>) -> Result<T, RunError> {
    result.map_err(|source| RunError::Io { action: format!("can't {verb} {}", path.display()), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_why_a_workload_did_not_run_quotes_its_program() {
        let console = "agent: of another time\nlab: ended a 1\nabsent uring 38\n[    1.0] noise\nlab: ended b 3\n\
                       Segmentation fault\n\nlab: ended c 139\nlab: ended d 9\nagent: open /dev/x: errno 6\n\
                       lab: ended bb 1\n";
        let check = |workload: &str, expected: &str| {
            assert_eq!(absence_reason(console, workload, exit_status(console, workload)), expected);
        };
        check("a", "exit status 1: agent: of another time");
        check("b", "exit status 3: absent uring 38");
        check("c", "exit status 139: Segmentation fault");
        check("d", "exit status 9: it printed nothing");
        check("bb", "exit status 1: agent: open /dev/x: errno 6");
        check("e", "the guest ended before it ran");
    }
}
