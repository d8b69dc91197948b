//! Accesses that an IOMMU refused and slots that EEH froze, as the kernel's log tells of them.

use super::{Adapter, iommu};
use crate::kernel::message::DmaFault;
use crate::kernel::message::fault::{Access, Cause, Reporter};
use crate::{Bdf, Citation};

/// Buses are probed, and their drivers begin, about so long after the kernel began.
const BOOT_SECONDS_MAX: f64 = 2.0;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// An IOMMU refused an access.
    Refused(Cause),
    /// POWER's EEH cut the device off.
    Frozen,
    /// POWER's EEH cut a whole host bridge off.
    Fenced,
}

/// A DMA fault, or a slot frozen because of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The function named in it, or the only one with its stream.
    pub address: Option<Bdf>,
    /// The stream of an SMMU's fault.
    pub stream: Option<u32>,
    /// What happened.
    pub kind: FaultKind,
    /// The IOVA that was accessed.
    pub iova: Option<u64>,
    /// Which kind of IOMMU refused it.
    pub reporter: Option<Reporter>,
    /// Whether the device wanted to read or to write.
    pub access: Option<Access>,
    /// It was in the first seconds after the kernel began, before most drivers.
    pub is_at_boot: bool,
    /// Xen reports it.
    pub by_xen: bool,
    /// What happened, in a few words.
    pub what: String,
    /// The line.
    pub at: Citation,
}

impl Fault {
    /// A slot or a host bridge that EEH cut off.
    pub(super) fn by_eeh(kind: FaultKind, address: Option<Bdf>, what: String, at: Citation) -> Self {
        Self {
            address,
            stream: None,
            kind,
            iova: None,
            reporter: None,
            access: None,
            is_at_boot: false,
            by_xen: false,
            what,
            at,
        }
    }

    /// A fault that an IOMMU reports.
    pub(super) fn of_iommu(fault: &DmaFault, seconds: Option<f64>, at: &Citation) -> Self {
        Self {
            address: fault.device,
            stream: fault.stream,
            kind: FaultKind::Refused(fault.cause),
            iova: fault.address.filter(|_| fault.cause != Cause::Interrupt),
            reporter: Some(fault.reporter),
            access: fault.access,
            is_at_boot: seconds.is_some_and(|seconds| seconds < BOOT_SECONDS_MAX),
            by_xen: fault.by_xen,
            what: in_words(fault),
            at: at.clone(),
        }
    }

    /// What the hardware's record proves, of a refused access.
    pub fn cause(&self) -> Option<Cause> {
        match self.kind {
            FaultKind::Refused(cause) => Some(cause),
            FaultKind::Frozen | FaultKind::Fenced => None,
        }
    }

    /// Whether it is about one address, so that the IOMMU looked it up in the requester's tables.
    pub fn is_of_an_address(&self) -> bool {
        use Cause::{BeyondWidth, NotMapped, NotMappedOrNotPermitted, NotPermitted};
        let of_address = [NotMapped, NotPermitted, NotMappedOrNotPermitted, BeyondWidth];
        self.cause().is_some_and(|cause| of_address.contains(&cause))
    }

    /// Whether it shows that this function's DMA is translated by an IOMMU that this kernel drives.
    pub fn shows_translation(&self) -> bool {
        // Of a record that was cut off, an address is left: few faults are about a requester without any.
        let is_cut_off = self.cause() == Some(Cause::Unknown) && self.iova.is_some();
        let was_looked_up = self.is_of_an_address() && self.cause() != Some(Cause::BeyondWidth);
        (was_looked_up || is_cut_off) && !self.by_xen
    }

    /// Whether the IOMMU lets nothing of the requester pass, whatever the address.
    pub fn blocks_requester(&self) -> bool {
        matches!(self.cause(), Some(Cause::UnknownRequester | Cause::InvalidEntry))
    }
}

/// The kind of IOMMU that reports.
pub(super) fn kind_of(reporter: Reporter) -> iommu::Kind {
    match reporter {
        Reporter::VtD => iommu::Kind::VtD,
        Reporter::AmdVi => iommu::Kind::AmdVi,
        Reporter::SmmuV2 => iommu::Kind::Smmu,
        Reporter::SmmuV3 => iommu::Kind::SmmuV3,
        Reporter::Virtio => iommu::Kind::VirtioIommu,
    }
}

/// What was refused: `write to 0xffffc000: PTE Write access is not set`.
fn in_words(fault: &DmaFault) -> String {
    let reason = fault.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    if fault.cause == Cause::Interrupt {
        return format!("interrupt{reason}");
    }
    let access = match fault.access {
        Some(Access::Read) => "read of",
        Some(Access::Write) => "write to",
        None => "access to",
    };
    let address =
        fault.address.map_or_else(|| "an address not told".to_owned(), |address| format!("{address:#x}"));
    format!("{access} {address}{reason}")
}

/// Names the functions of streams. Firmware usually makes a function's requester ID its stream's low 16 bits (IORT, identity
/// mapping of a root complex). Taken only where one adapter alone fits.
pub(super) fn resolve_streams(faults: &mut [Fault], adapters: &[Adapter]) {
    for fault in faults.iter_mut().filter(|fault| fault.address.is_none()) {
        fault.address = fault.stream.and_then(|stream| of_stream(adapters, stream));
    }
}

fn of_stream(adapters: &[Adapter], stream: u32) -> Option<Bdf> {
    let fits = |address: &Bdf| u32::from(address.requester_id()) == stream & 0xffff;
    let mut fitting = adapters.iter().map(|adapter| adapter.function.address).filter(fits);
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}
