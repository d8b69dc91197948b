//! What inspections keep of toll sheets: the workloads that a host's adapters are compared with, without
//! functions and without the stages that no DMA path changes.
//!
//! A sheet is some hundred KiB, and the program carries what was kept of all of them: `data/tolls/digest.toml`
//! is made from the sheets beside it (test `digest`). Users' own sheets are digested when they are read.

use crate::facts::iommu::Kind;
use crate::kernel::Architecture;
use ddw::TceCalls;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::LazyLock;
use toll::{BootCounts, DmaPath, Estimate, Event, Evidence, KernelId, Stage, Toll, TollSheet};

/// The workloads that are kept, by the end of their names: before it stands the adapter. Of the network's those whose cost of mapping
/// is the steadiest from boot to boot: a TCP stream is cut into other packets each time.
pub const WORKLOADS: [&str; 3] = ["-read-4k", "-udp-64", "-udp-16k"];

/// The events that a DMA path decides about.
pub(crate) const EVENTS: [Event; 4] =
    [Event::Hypercalls, Event::Invalidations, Event::TableEntries, Event::StringIterations];

/// What was kept of some sheets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digest {
    /// One of each sheet.
    pub sheets: Vec<SheetDigest>,
}

/// What was kept of a sheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SheetDigest {
    /// The preset.
    pub preset: String,
    /// The DMA path that its adapters took.
    pub dma_path: DmaPath,
    /// The machine's architecture in the lab's words: `x86`, `arm`, `ppc`.
    pub arch: String,
    /// The CPU model, as QEMU names it.
    pub cpu: String,
    /// What translates, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu: Option<Kind>,
    /// The version that QEMU says it is.
    pub qemu_version: String,
    /// The day it was measured, YYYY-MM-DD.
    pub measured_on: String,
    /// The kernel.
    pub kernel: KernelId,
    /// What was kept of its tolls.
    pub tolls: Vec<TollDigest>,
}

/// What was kept of a toll. Counts are per window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TollDigest {
    /// The workload's name.
    pub workload: String,
    /// What it does, in words.
    pub what: String,
    /// The kernel's driver of the adapter.
    pub driver: String,
    /// Bytes that one I/O moves.
    pub bytes_per_io: u64,
    /// I/Os in a window.
    pub ios_per_window: NonZeroU32,
    /// Whether the kernel was seen to write entries of a translation table.
    pub writes_entries: bool,
    /// What was counted in each boot.
    pub boots: Vec<BootDigest>,
    /// How it was obtained, and on what.
    pub evidence: Evidence,
}

/// What was kept of a boot: totals of all its windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootDigest {
    /// Windows that were counted.
    pub windows: NonZeroU32,
    /// Instructions in the stages of DMA mapping.
    pub dma: u64,
    /// Of these, the stage of invalidations.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub invalidation: u64,
    /// Of these, the stage of bounce buffers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bounce: u64,
    /// Instructions in all other stages.
    pub elsewhere: u64,
    /// Events that a DMA path decides about. A kind that is not here was not counted.
    pub events: BTreeMap<Event, u64>,
}

impl Digest {
    /// The one that the program carries.
    pub fn builtin() -> &'static Self {
        // `data/tolls/digest.toml` as JSON, by `build.rs`. That it can be read is held by a test: without it there would be no predictions,
        // and no harm.
        const JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/digest.json"));
        static BUILTIN: LazyLock<Digest> = LazyLock::new(|| serde_json::from_str(JSON).unwrap_or_default());
        &BUILTIN
    }

    /// Reads one from TOML.
    ///
    /// # Errors
    /// If it is not TOML, or has fields missing, unknown or of another type.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Keeps what is needed of a sheet: nothing of one that has none of the workloads.
    pub fn add(&mut self, sheet: &TollSheet) {
        let digest = SheetDigest::of(sheet);
        if !digest.tolls.is_empty() {
            self.sheets.push(digest);
        }
    }
}

impl SheetDigest {
    fn of(sheet: &TollSheet) -> Self {
        let kept = |toll: &&Toll| WORKLOADS.iter().any(|end| toll.workload.ends_with(end));
        Self {
            preset: sheet.preset.clone(),
            dma_path: sheet.dma_path,
            arch: sheet.machine.arch.clone(),
            cpu: sheet.machine.cpu.clone(),
            iommu: iommu(&sheet.machine.arch, &sheet.machine.command_line),
            qemu_version: sheet.machine.qemu_version.clone(),
            measured_on: sheet.measured_on.clone(),
            kernel: sheet.kernel.clone(),
            tolls: sheet.tolls.iter().filter(kept).map(TollDigest::of).collect(),
        }
    }

    /// Whether it was measured on this architecture. A sheet of 64-bit little-endian POWER says nothing of
    /// the big-endian kernels, which are other programs.
    pub fn is_of(&self, architecture: &Architecture) -> bool {
        sheet_word(architecture) == Some(&self.arch)
    }

    /// How its kernel writes translation entries: QEMU's machines offer calls for many at once.
    pub fn tce_calls(&self) -> Option<TceCalls> {
        (self.iommu == Some(Kind::Tce)).then(|| TceCalls::of(&["hcall-multi-tce"], &self.kernel.command_line))
    }

    /// The toll of a workload with a driver.
    pub fn toll(&self, workload: &str, driver: &str) -> Option<&TollDigest> {
        self.tolls.iter().find(|toll| toll.workload == workload && toll.driver == driver)
    }
}

impl TollDigest {
    fn of(toll: &Toll) -> Self {
        Self {
            workload: toll.workload.clone(),
            what: toll.what.clone(),
            driver: toll.driver.clone(),
            bytes_per_io: toll.bytes_per_io,
            ios_per_window: toll.ios_per_window,
            writes_entries: toll.stages.get(&Stage::TableWrite).is_some_and(|instructions| *instructions > 0),
            boots: toll.boots.iter().filter_map(BootDigest::of).collect(),
            evidence: toll.evidence.clone(),
        }
    }

    /// Instructions per I/O, by the mean.
    pub fn instructions_per_io(&self) -> f64 {
        self.mean_per_io(|boot| boot.dma.checked_add(boot.elsewhere)).unwrap_or_default()
    }

    /// Events of a kind per I/O, by the mean, which shows what is rare; `None` if they were not counted.
    pub fn events_per_io(&self, event: Event) -> Option<f64> {
        let mean = self.mean_per_io(|boot| boot.events.get(&event).copied())?;
        // Entries that are written, and of which none was counted, were not to be seen.
        (event != Event::TableEntries || mean > 0.0 || !self.writes_entries).then_some(mean)
    }

    /// The mean of a total per I/O over the boots in which it was counted; `None` if it was in none.
    pub(crate) fn mean_per_io(&self, total: impl Fn(&BootDigest) -> Option<u64>) -> Option<f64> {
        Estimate::of(&self.by_boot(total)).map(|estimate| estimate.mean)
    }

    /// A total per I/O in each boot; without boots in which it was not counted.
    pub fn by_boot(&self, total: impl Fn(&BootDigest) -> Option<u64>) -> Vec<f64> {
        let ios = |boot: &BootDigest| f64::from(self.ios_per_window.get()) * f64::from(boot.windows.get());
        self.boots.iter().filter_map(|boot| Some(total(boot)? as f64 / ios(boot))).collect()
    }
}

impl BootDigest {
    /// `None` without windows.
    fn of(boot: &BootCounts) -> Option<Self> {
        let total = |is_dma: bool| -> u64 {
            let stages = boot.stages.iter().filter(|(stage, _)| stage.is_dma() == is_dma);
            stages.map(|(_, instructions)| *instructions).fold(0, u64::saturating_add)
        };
        let events = EVENTS.iter().filter_map(|event| Some((*event, *boot.events.get(event)?)));
        Some(Self {
            windows: NonZeroU32::new(u32::try_from(boot.windows.len()).ok()?)?,
            dma: total(true),
            invalidation: boot.stages.get(&Stage::Invalidation).copied().unwrap_or_default(),
            bounce: boot.stages.get(&Stage::Bounce).copied().unwrap_or_default(),
            elsewhere: total(false),
            events: events.collect(),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The word of toll sheets and price lists for an architecture; `None` where there are none.
pub fn sheet_word(architecture: &Architecture) -> Option<&'static str> {
    match architecture {
        Architecture::X86_64 => Some("x86"),
        Architecture::Aarch64 => Some("arm"),
        Architecture::Ppc64le => Some("ppc"),
        _ => None,
    }
}

/// What translates on a machine, by the words of QEMU's command line. POWER machines always do.
fn iommu(arch: &str, command_line: &[String]) -> Option<Kind> {
    let kind = |word: &String| match word.split(',').next().unwrap_or_default() {
        "intel-iommu" => Some(Kind::VtD),
        "amd-iommu" => Some(Kind::AmdVi),
        "virtio-iommu-pci" => Some(Kind::VirtioIommu),
        _ if word.split(',').any(|part| part == "iommu=smmuv3") => Some(Kind::SmmuV3),
        _ => None,
    };
    if arch == "ppc" { Some(Kind::Tce) } else { command_line.iter().find_map(kind) }
}
