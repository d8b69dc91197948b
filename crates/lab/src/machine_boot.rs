//! One boot of a preset's machine: QEMU runs the workloads, and what it recorded is read.

use crate::disk::Disk;
use crate::dma_path::{ADAPTER, AdapterInfo};
use crate::flame::{Flame, Heading};
use crate::guest::init::{self, DONE, ENDED, ScriptPlan};
use crate::guest::{Initramfs, PlacedFile, program};
use crate::kernel::ModuleTree;
use crate::preset::EmulatedAdapter;
use crate::qemu::{self, QemuError, Release};
use crate::qemu_command::{self, Files};
use crate::record::{Record, RecordError};
use crate::replay;
use crate::run::{Detail, Plan, Progress, RunError};
use crate::stack::Landmarks;
use crate::stage::StageTable;
use crate::symbols::Symbols;
use crate::tolls::TracedWindow;
use crate::trace::{self, WindowEvents};
use crate::window::{Layout, Window, WindowCounter};
use crate::workload::Workload;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use toll::Boot;

/// Size of the disk to which the guest writes the kernel's symbols.
const SYMBOLS_BYTES: u64 = 32 << 20;

/// One boot of a machine.
pub(crate) struct MachineBoot<'a> {
    /// The run that it is part of.
    pub(crate) plan: Plan<'a>,
    /// The agent, and the version that QEMU says it is.
    pub(crate) tools: &'a Tools,
    /// Virtual CPUs.
    pub(crate) vcpus: u32,
    /// What is different in this boot.
    pub(crate) boot: Boot,
    /// The workloads in the order in which they run, each with its number.
    pub(crate) workloads: Vec<(u64, Workload)>,
}

/// What all boots of a run use.
pub(crate) struct Tools {
    /// The agent's file.
    pub(crate) agent: Vec<u8>,
    /// The version that QEMU says it is.
    pub(crate) qemu_version: String,
}

/// What one boot recorded.
pub(crate) struct BootRecord {
    /// The guest's symbols.
    symbols: Symbols,
    /// All windows, in the order of their ends.
    windows: Vec<Window>,
    /// The trace events of each window.
    events: Vec<WindowEvents>,
    /// The text on the guest's console.
    console: String,
    files: Files,
    /// QEMU's command line without paths and process numbers of this host.
    pub(crate) command_line: Vec<String>,
}

impl MachineBoot<'_> {
    /// Boots, runs the workloads and reads what was recorded.
    pub(crate) fn run(&self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<BootRecord, RunError> {
        let disk = Disk::serve();
        let disk = disk.map_err(|source| RunError::Io { action: "can't serve a disk".to_owned(), source })?;
        let files = self.create_files(&disk)?;
        let arch = self.plan.preset.arch;
        // An unknown release counts as old and gets no options of newer ones.
        let release = Release::parse(&self.tools.qemu_version).unwrap_or(Release(0, 0));
        let arguments = qemu_command::arguments(self.plan.preset, self.vcpus, self.boot, &files, release);
        let mut shown = None;
        qemu::run(arch, &arguments, &files.console, self.plan.limits, &mut |console| {
            self.show_progress(console, &mut shown, progress);
        })?;
        let console = read_console(&files.console)?;
        self.check_console(&console, &files)?;
        progress(Progress::Fold);
        let command_line = anonymous_command_line(arch.qemu(), &arguments, self.plan.scratch);
        self.read(console, files, command_line)
    }

    /// Reports the workload that runs now, if it is not the one that was `shown` last.
    fn show_progress(
        &self,
        console: &str,
        shown: &mut Option<usize>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) {
        let ended = console.lines().filter(|line| line.starts_with(ENDED)).count();
        if *shown == Some(ended) || (ended == 0 && !console.contains(ADAPTER)) {
            return;
        }
        *shown = Some(ended);
        if let Some((_, workload)) = self.workloads.get(ended) {
            progress(Progress::Workload { name: &workload.name, ended, of: self.workloads.len() });
        }
    }

    /// Writes the initramfs and creates the disk for the symbols; returns the paths of all files.
    fn create_files(&self, disk: &Disk) -> Result<Files, RunError> {
        let scratch = self.plan.scratch.join(format!("{}cpu-seed{}", self.vcpus, self.boot.seed));
        io(&scratch, "create the folder", fs::create_dir_all(&scratch))?;
        let initramfs = scratch.join("initramfs");
        io(&initramfs, "write", fs::write(&initramfs, self.build_initramfs()?))?;
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

    /// Builds the archive with the guest's files.
    fn build_initramfs(&self) -> Result<Vec<u8>, RunError> {
        let arch = self.plan.preset.arch;
        let tree = ModuleTree::of_kernel(self.plan.kernel)?;
        let early: Vec<&str> = self.plan.preset.modules.iter().map(String::as_str).collect();
        let early = tree.load_order(&early)?.load.len();
        let modules = tree.load_order(&self.wanted_modules())?.load;
        let busybox = io(self.plan.busybox, "read", fs::read(self.plan.busybox))?;
        let script = init::script(ScriptPlan {
            arch,
            vcpus: self.vcpus,
            access: self.plan.preset.access(),
            modules: &modules,
            early,
            workloads: &self.workloads,
            boot: self.boot,
            dma_path: self.plan.preset.dma_path,
        });
        let mut files = vec![PlacedFile { path: init::AGENT, permissions: 0o755, bytes: &self.tools.agent }];
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

    /// Reads the record, the log and the symbols.
    fn read(&self, console: String, files: Files, command_line: Vec<String>) -> Result<BootRecord, RunError> {
        let functions = self.plan.program.map(|program| program.functions.clone()).unwrap_or_default();
        let symbols = Symbols::parse(&read_symbols(&files.symbols)?)?.with_program(functions);
        let windows = self.count_windows(&files, &symbols)?;
        let log = io(&files.log, "read", File::open(&files.log))?;
        let events = trace::read_log(BufReader::new(log))?;
        if events.len() != windows.len() {
            return Err(RunError::Windows { record: windows.len(), log: events.len() });
        }
        if self.plan.detail == Detail::Tolls && !self.plan.keeps_records {
            // The largest files, which nobody reads again.
            io(&files.record, "remove", fs::remove_file(&files.record))?;
            io(&files.log, "remove", fs::remove_file(&files.log))?;
        }
        Ok(BootRecord { symbols, windows, events, console, files, command_line })
    }

    /// All windows of the record.
    fn count_windows(&self, files: &Files, symbols: &Symbols) -> Result<Vec<Window>, RunError> {
        let stages = StageTable::built_in().stages(symbols);
        let mut counter = WindowCounter::new(symbols, &stages, Layout::of(self.plan.preset.arch));
        let windows = files.read_record(|record| counter.count(record))?;
        match counter.gave_up_ms {
            Some(waited_ms) => Err(RunError::SilentDevice { waited_ms }),
            None => Ok(windows),
        }
    }
}

impl Files {
    /// Opens the record and passes it to `read`.
    fn read_record<T>(
        &self,
        read: impl FnOnce(&mut Record<BufReader<File>>) -> Result<T, RecordError>,
    ) -> Result<T, RunError> {
        let record = io(&self.record, "read", File::open(&self.record))?;
        let read = Record::new(BufReader::with_capacity(1 << 20, record)).and_then(|mut it| read(&mut it));
        read.map_err(|problem| RunError::Record {
            problem,
            qemu: qemu::last_lines(&self.console.with_extension("qemu")),
        })
    }
}

impl BootRecord {
    /// The windows of the workload of a number, each with its trace events; otherwise why it did not run.
    pub(crate) fn windows_of(&self, phase: u64, workload: &str) -> Result<Vec<TracedWindow<'_>>, String> {
        match exit_status(&self.console, workload) {
            Some("0") => {}
            other => return Err(absence_reason(&self.console, workload, other)),
        }
        // Both lists have the same order.
        let pairs = self.windows.iter().zip(&self.events).filter(|(window, _)| window.phase == phase);
        let windows: Vec<_> =
            pairs.map(|(window, events)| TracedWindow { window, events, symbols: &self.symbols }).collect();
        if windows.is_empty() { Err("it marked no window".to_owned()) } else { Ok(windows) }
    }

    /// Whether a window is one of this boot's.
    pub(crate) fn has(&self, window: &Window) -> bool {
        self.windows.as_ptr_range().contains(&std::ptr::from_ref(window))
    }

    /// Flame graphs of `windows`: for each window's number, its workload and number of I/Os.
    pub(crate) fn flames(
        &self,
        plan: Plan<'_>,
        windows: &BTreeMap<u64, (&Workload, u64)>,
    ) -> Result<Vec<Flame>, RunError> {
        let landmarks = Landmarks::new(&self.symbols, plan.preset.arch);
        let numbers: BTreeSet<u64> = windows.keys().copied().collect();
        let stacks =
            self.files.read_record(|record| replay::stacks(record, &self.symbols, &landmarks, &numbers))?;
        let stages = StageTable::built_in().stages(&self.symbols);
        let flame = |(number, folded): (&u64, _)| {
            let (workload, ios) = *windows.get(number)?;
            let heading = Heading {
                preset: plan.preset.name.clone(),
                workload: workload.name.clone(),
                kernel: plan.kernel.release.clone(),
                ios,
            };
            Some(Flame::new(heading, folded, &self.symbols, &stages))
        };
        Ok(stacks.iter().filter_map(flame).collect())
    }
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
fn anonymous_command_line(program: &str, arguments: &[OsString], scratch: &Path) -> Vec<String> {
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
pub(crate) fn io<T>(path: &Path, verb: &str, result: std::io::Result<T>) -> Result<T, RunError> {
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
