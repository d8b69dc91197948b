//! Runs a preset's workloads in QEMU and computes the toll sheet.

use crate::boots;
use crate::flame::Flame;
use crate::guest::program::Program;
use crate::guest::{InitramfsError, agent};
use crate::kernel::{Kernel, ModuleError};
use crate::machine_boot::{BootRecord, MachineBoot, Tools};
use crate::preset::Preset;
use crate::qemu::{self, Limits, QemuError};
use crate::qemu_command;
use crate::record::RecordError;
use crate::symbols::SymbolsError;
use crate::tolls::TollInput;
use crate::trace::TraceError;
use crate::window::Window;
use crate::workload::Workload;
use std::path::Path;
use toll::{DmaPath, EmulatedMachine, Evidence, GuestProgram, KernelId, SheetSchema, TollSheet};

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
    /// A device did not complete a request for so long that the guest was let run on.
    #[error(
        "a device did not complete a request within {} s, so counts would depend on this host's load; run it again \
         when the host is less busy",
        .waited_ms.div_ceil(1000)
    )]
    SilentDevice {
        /// How long the guest was held, in milliseconds.
        waited_ms: u32,
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
    /// How often to boot the machine for each number of CPUs.
    pub boots: u32,
    /// Whether to keep the plugin's records and QEMU's logs, which are large.
    pub keeps_records: bool,
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
        /// The boot's number, from 1.
        number: u32,
        /// The number of boots.
        of: u32,
        /// The number of workloads that run in it.
        workloads: usize,
    },
    /// A workload runs in the guest.
    Workload {
        /// Its name.
        name: &'a str,
        /// The number of workloads that have ended before it in this boot.
        ended: usize,
        /// The number of workloads of this boot.
        of: usize,
    },
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
}

/// Runs a preset, with some boots for each number of virtual CPUs that its workloads need.
///
/// # Errors
/// [`RunError`]; QEMU has ended in any case.
pub fn run(plan: Plan<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Measured, RunError> {
    let (agent, identity) = agent::compiled(plan.preset.arch)?;
    let tools = Tools { agent, qemu_version: qemu::version(plan.preset.arch)? };
    let programs = std::iter::once(identity).chain(plan.program.map(|program| program.identity.clone()));
    let sheet = empty_sheet(plan, &tools, programs.collect());
    let mut measured = Measured { sheet, flames: Vec::new(), absent: Vec::new() };
    let mut vcpus: Vec<u32> = plan.workloads.iter().map(|workload| workload.vcpus).collect();
    vcpus.sort_unstable();
    vcpus.dedup();
    for vcpus in vcpus {
        let own: Vec<(u64, Workload)> =
            (1..).zip(plan.workloads.iter().filter(|workload| workload.vcpus == vcpus).cloned()).collect();
        let mut records = Vec::new();
        for (number, boot) in (1..).zip(&measured.sheet.boots) {
            progress(Progress::Boot { vcpus, number, of: plan.boots, workloads: own.len() });
            let workloads = boots::order(*boot, &own);
            records.push(MachineBoot { plan, tools: &tools, vcpus, boot: *boot, workloads }.run(progress)?);
        }
        if let Some(first) = records.first().filter(|_| measured.sheet.machine.command_line.is_empty()) {
            measured.sheet.machine.command_line.clone_from(&first.command_line);
        }
        Machine { plan, vcpus, workloads: &own, boots: &records }.evaluate(&mut measured)?;
    }
    if measured.sheet.tolls.is_empty() {
        return Err(RunError::NoToll { absent: measured.absent });
    }
    measured.sheet.tolls.sort_by(|a, b| a.workload.cmp(&b.workload));
    Ok(measured)
}

/// A sheet with the machine and kernel, and without tolls.
fn empty_sheet(plan: Plan<'_>, tools: &Tools, programs: Vec<GuestProgram>) -> TollSheet {
    TollSheet {
        schema: SheetSchema,
        made_by: concat!("iotoll ", env!("CARGO_PKG_VERSION")).to_owned(),
        preset: plan.preset.name.clone(),
        base: plan.preset.untranslated.clone(),
        dma_path: plan.preset.dma_path,
        machine: EmulatedMachine {
            arch: plan.preset.arch.word().to_owned(),
            cpu: qemu_command::cpu(plan.preset).to_owned(),
            vcpus: 1,
            memory_mib: boots::MEMORY_MIB,
            qemu_version: tools.qemu_version.clone(),
            command_line: Vec::new(),
        },
        kernel: KernelId {
            release: plan.kernel.release.clone(),
            package: plan.kernel.package.as_ref().map(ToString::to_string),
            command_line: qemu_command::kernel_command_line(plan.preset, 1),
        },
        programs,
        boots: boots::boots(plan.boots),
        measured_on: plan.today.to_owned(),
        repeats: 1,
        tolls: Vec::new(),
    }
}

/// A machine with one number of virtual CPUs, and what its boots recorded.
struct Machine<'a> {
    plan: Plan<'a>,
    vcpus: u32,
    workloads: &'a [(u64, Workload)],
    boots: &'a [BootRecord],
}

impl Machine<'_> {
    /// Computes the tolls and flame graphs, and adds them to `measured`.
    fn evaluate(&self, measured: &mut Measured) -> Result<(), RunError> {
        let evidence = self.evidence(&measured.sheet);
        let mut typical: Vec<(&Window, &Workload)> = Vec::new();
        for (phase, workload) in self.workloads {
            let boots = self.boots.iter().map(|boot| boot.windows_of(*phase, &workload.name));
            let input = TollInput { arch: self.plan.preset.arch, workload, evidence: &evidence };
            let toll = boots.collect::<Result<Vec<_>, _>>().and_then(|boots| {
                let (toll, window) =
                    input.toll(&boots).ok_or_else(|| "its windows have no I/O".to_owned())?;
                typical.push((window, workload));
                Ok(toll)
            });
            match toll {
                Ok(toll) => measured.sheet.tolls.push(toll),
                Err(reason) => measured.absent.push((workload.name.clone(), reason)),
            }
        }
        if self.plan.detail == Detail::Flames {
            for boot in self.boots {
                let own = typical.iter().filter(|(window, _)| boot.has(window));
                let own = own.map(|(window, workload)| (window.number, (*workload, window.ios))).collect();
                measured.flames.extend(boot.flames(self.plan, &own)?);
            }
        }
        Ok(())
    }

    /// How and on which machine the tolls were measured.
    fn evidence(&self, sheet: &TollSheet) -> Evidence {
        Evidence::Measured {
            how: format!("iotoll lab run {} --boots {}", sheet.preset, sheet.boots.len()),
            on: format!(
                "QEMU {} (TCG, one instruction a nanosecond), {} of {} virtual CPU, Linux {}",
                sheet.machine.qemu_version, sheet.machine.cpu, self.vcpus, sheet.kernel.release
            ),
        }
    }
}
