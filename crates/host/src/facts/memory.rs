//! Memory types of an x86 host: MTRRs, PAT, areas of `memmap=`, and who owns which addresses.

use super::platform::Platform;
use crate::kernel::{KernelVersion, Requests};
use crate::memory::effective::{self, Effective};
use crate::memory::memmap;
use crate::memory::mtrr::parse_default_type;
use crate::memory::{
    DefaultType, Iomem, LineProblem, MemmapArea, MemoryType, Memtype, MtrrTable, PhysRange, parse_iomem,
    parse_memtype_list, parse_mtrr,
};
use crate::{Cited, Text, Tree};

/// What is known of memory types.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryTypes {
    /// `/proc/mtrr`; `None` where the kernel or the machine has none.
    pub mtrr: Option<MtrrTable>,
    /// The type outside all registers.
    pub default: DefaultType,
    /// `/proc/iomem`.
    pub iomem: Option<Iomem>,
    /// Mappings that the kernel tracks (debugfs).
    pub memtypes: Vec<Cited<Memtype>>,
    /// Areas of `memmap=` with what this kernel makes of them.
    pub memmap: Vec<MemmapArea>,
    /// PAT is off.
    pub without_pat: bool,
    /// The kernel whose rules count.
    pub kernel: (u32, u32, u32),
    /// Lines that could not be understood.
    pub problems: Vec<LineProblem>,
}

/// Without a version the rules of current kernels are taken; `unseen` says that it is missing.
const KERNEL_DEFAULT: (u32, u32, u32) = (6, 1, 0);

/// Reads `/proc/iomem`.
pub(super) fn read_iomem(tree: &Tree) -> Option<(Iomem, Vec<LineProblem>)> {
    tree.text("proc/iomem").map(|text| parse_iomem(&text))
}

/// Reads the rest; `None` on other architectures.
pub(super) fn read(
    tree: &Tree,
    platform: &Platform,
    iomem: Option<(Iomem, Vec<LineProblem>)>,
    log: Option<&Text>,
    requests: &Requests,
) -> Option<MemoryTypes> {
    if !platform.architecture.as_ref().is_some_and(|architecture| architecture.is_x86()) {
        return None;
    }
    let (iomem, mut problems) = iomem.map_or((None, Vec::new()), |(iomem, problems)| (Some(iomem), problems));
    let (mtrr, more) = tree.text("proc/mtrr").map(|text| parse_mtrr(&text)).unzip();
    let listed = tree.text("sys/kernel/debug/x86/pat_memtype_list").map(|text| parse_memtype_list(&text));
    let (memtypes, still_more) = listed.unwrap_or_default();
    problems.extend(more.into_iter().flatten().chain(still_more));
    let kernel =
        platform.kernel.as_ref().map(|cited| &cited.value).map_or(KERNEL_DEFAULT, KernelVersion::numbers);
    let ram = iomem.as_ref().map_or_else(Vec::new, Iomem::ram);
    let printed: Option<Cited<MemoryType>> = log.and_then(parse_default_type);
    let empty = MtrrTable::default();
    Some(MemoryTypes {
        default: DefaultType::infer(mtrr.as_ref().unwrap_or(&empty), &ram, printed.as_ref()),
        mtrr,
        iomem,
        memtypes,
        memmap: tree.text("proc/cmdline").map_or_else(Vec::new, |text| memmap::parse_cmdline(&text, kernel)),
        without_pat: requests.no_pat.is_some(),
        kernel,
        problems,
    })
}

impl MemoryTypes {
    /// Whether nothing read tells where memory lies and which type registers give it.
    pub fn shows_no_types(&self) -> bool {
        self.mtrr.is_none() && self.iomem.is_none() && self.memtypes.is_empty()
    }

    /// The type of a physical range, and what each kind of mapping of it would be.
    pub fn effective(&self, range: PhysRange) -> Effective {
        let empty = Iomem::default();
        let facts = effective::Facts {
            registers: self.mtrr.as_ref().map_or(&[], |table| &table.registers),
            default: &self.default,
            iomem: self.iomem.as_ref().unwrap_or(&empty),
            memmap: &self.memmap,
            memtypes: &self.memtypes,
            without_pat: self.without_pat,
            kernel: self.kernel,
        };
        effective::effective(&facts, range)
    }
}
