//! Which messages tell of something wrong, and of what.

use super::fault::Cause;
use super::{
    AmdViMessage, DriverMessage, EehMessage, GartMessage, HostBridgeMessage, InterruptRemappingMessage,
    IommuMessage, MemoryTypeMessage, Message, PcieMessage, SmmuMessage, SwiotlbMessage, VtDMessage,
    WindowMessage, XenMessage,
};

impl Message {
    /// What is wrong, in a few words; `None` for messages that tell of nothing wrong. Those that say that the kernel does not
    /// know an option are judged with the command line.
    pub fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Iommu(message) => of_iommu(message),
            Self::VtD(message) => of_vt_d(message),
            Self::AmdVi(message) => of_amd_vi(message),
            Self::Smmu(message) => of_smmu(message),
            Self::Swiotlb(message) => of_swiotlb(message),
            Self::Gart(GartMessage::Full { .. }) => Some("the GART's bus addresses ran out"),
            Self::Gart(GartMessage::InUse | GartMessage::Reserved { .. }) => None,
            Self::Window(message) => of_window(message),
            Self::Eeh(message) => of_eeh(message),
            Self::Pcie(message) => of_pcie(message),
            Self::MemoryType(message) => of_memory_type(message),
            Self::Driver(DriverMessage::ProbeFailed { .. }) => Some("a driver did not take its device"),
            Self::Driver(DriverMessage::AllocationFailed(_)) => Some("memory for DMA was not to be had"),
            Self::Driver(DriverMessage::PagesRefused(_)) => Some("pages of memory were not to be had"),
            Self::Driver(DriverMessage::KernelWarning) => {
                Some("the kernel's code for DMA warned: the call trace tells of whose error")
            }
            Self::Driver(DriverMessage::NoHostMemoryBuffer) => {
                Some("a drive got no buffer in the host's memory, and works without")
            }
            Self::Driver(DriverMessage::ControllerRefused { .. }) => {
                Some("the memory controller refused an access of a PCI Express controller or another device")
            }
            Self::Driver(DriverMessage::CommandTimeout) => Some("a drive did not complete a command in time"),
            Self::Driver(DriverMessage::AddressMode) => Some(
                "a program in user space has virtual addresses for DMA, and a driver without an IOMMU (uio): bind vfio-pci",
            ),
            Self::Driver(DriverMessage::NoMemoryKey) => {
                Some("an RDMA adapter has no memory key left, a limit of its own: registrations fail")
            }
            Self::Driver(DriverMessage::MaskRefused) => {
                Some("a driver did not get the DMA mask that it asked for")
            }
            Self::Driver(DriverMessage::Masks(_)) => None,
            Self::Fault(fault) if fault.cause == Cause::Interrupt => Some("an interrupt was refused"),
            Self::Fault(_) => Some("an IOMMU refused an access"),
            Self::InterruptRemapping(InterruptRemappingMessage::UserRefused) => {
                Some("the kernel refused to give a device to user space")
            }
            Self::InterruptRemapping(_) => Some("interrupts are not remapped"),
            // The kernel tries again: a finding tells how it ended.
            Self::Resource(_) => None,
            Self::Xen(XenMessage::SetupProblem(_)) => Some("a step of setting Xen's IOMMU up went wrong"),
            Self::Xen(XenMessage::Virtualisation(_)) => None,
            Self::HostBridge(HostBridgeMessage::LinkDown) => {
                Some("no device answered behind a host bridge: its link did not come up")
            }
            Self::Boot(_) | Self::HostBridge(_) => None,
        }
    }
}

fn of_iommu(message: &IommuMessage) -> Option<&'static str> {
    match message {
        IommuMessage::DefaultDomainFallback(_) => Some("no IOMMU domain of the wanted type could be made"),
        IommuMessage::UserAttachRefused => Some("the kernel refused to give a device to user space"),
        IommuMessage::GroupNotViable { .. } => {
            Some("other devices of its IOMMU group keep a device from user space")
        }
        IommuMessage::NoGroup { .. } => Some("no IOMMU was found for a device that a guest was to have"),
        IommuMessage::FaultsSuppressed(_) => Some("more faults than the kernel printed"),
        IommuMessage::UnsafeNoIommu => Some("user space drives a device without an IOMMU"),
        IommuMessage::DefaultDomain { .. }
        | IommuMessage::InvalidationPolicy { .. }
        | IommuMessage::GroupJoined { .. }
        | IommuMessage::GroupLeft { .. }
        | IommuMessage::WiderAddresses { .. }
        | IommuMessage::VirtioIommu => None,
    }
}

fn of_vt_d(message: &VtDMessage) -> Option<&'static str> {
    match message {
        VtDMessage::BrokenFirmware(_) => Some("firmware describes VT-d wrongly"),
        VtDMessage::SetupProblem(_) => Some("a step of setting VT-d up went wrong"),
        VtDMessage::FaultReason(_) => Some("an IOMMU refused an access"),
        VtDMessage::InvalidationError { .. } => Some("invalidations are not completed in time"),
        VtDMessage::UnmatchedUnmap => Some("a driver unmapped what it had not mapped"),
        VtDMessage::BeyondWidth { .. } => Some("a mapping was refused"),
        _ => None,
    }
}

fn of_amd_vi(message: &AmdViMessage) -> Option<&'static str> {
    match message {
        AmdViMessage::SnpNeedsTranslation => {
            Some("SEV-SNP was refused, because the IOMMU does not translate")
        }
        AmdViMessage::CompletionTimeout | AmdViMessage::InvalidationTimeout(_) => {
            Some("invalidations are not completed in time")
        }
        AmdViMessage::CommandRejected(_) => Some("the IOMMU rejected a command"),
        AmdViMessage::FirmwareTable(words) if words.contains("Firmware Bug") => {
            Some("firmware describes AMD-Vi wrongly")
        }
        _ => None,
    }
}

fn of_smmu(message: &SmmuMessage) -> Option<&'static str> {
    match message {
        SmmuMessage::CommandTimeout => Some("invalidations are not completed in time"),
        SmmuMessage::Bypass(_) => Some("the SMMU lets DMA of unknown devices pass"),
        SmmuMessage::CommandError(_) => Some("the IOMMU rejected a command"),
        SmmuMessage::FoundV3 { .. }
        | SmmuMessage::FoundV2
        | SmmuMessage::Queue { .. }
        | SmmuMessage::ShutDown => None,
    }
}

fn of_swiotlb(message: &SwiotlbMessage) -> Option<&'static str> {
    match message {
        SwiotlbMessage::NoMemory(_) => Some("there was no memory for bounce buffers"),
        SwiotlbMessage::CoherentFailed { .. } => Some("memory for DMA was not to be had"),
        SwiotlbMessage::Full { .. } => Some("no bounce buffer was to be had"),
        SwiotlbMessage::MaskOverflow { .. } => Some("a mapping was beyond the device's mask"),
        SwiotlbMessage::VmallocRejected => Some("a driver mapped memory that may not be mapped"),
        _ => None,
    }
}

fn of_window(message: &WindowMessage) -> Option<&'static str> {
    match message {
        WindowMessage::Query { returned, .. } if *returned != 0 => {
            Some("firmware refused a query for DMA windows")
        }
        WindowMessage::Create { returned, .. } if *returned != 0 => {
            Some("firmware refused to make a DMA window")
        }
        WindowMessage::MapFailed(_) => Some("memory could not be mapped into a DMA window"),
        WindowMessage::NoFreeWindow => Some("firmware has no DMA window left"),
        WindowMessage::Exhausted { .. } => Some("a DMA window ran full"),
        WindowMessage::EntryRefused(_) => Some("the hypervisor refused a translation entry"),
        WindowMessage::OutOfReach(_) => Some("a device's mask does not reach its DMA window"),
        _ => None,
    }
}

fn of_eeh(message: &EehMessage) -> Option<&'static str> {
    match message {
        EehMessage::Frozen { .. } | EehMessage::Fenced { .. } => Some("EEH cut a device off"),
        EehMessage::FailedTimes(_) => Some("EEH recovered a device again"),
        EehMessage::GivenUp(_) => Some("EEH gave a device up"),
        EehMessage::Recovery(_) | EehMessage::Location { .. } | EehMessage::Recovering { .. } => None,
    }
}

fn of_pcie(message: &PcieMessage) -> Option<&'static str> {
    match message {
        PcieMessage::PayloadRefused { .. } => Some("a payload size could not be set"),
        PcieMessage::BusError { .. } | PcieMessage::ErrorBit(_) => Some("PCI Express errors"),
        PcieMessage::TooSlow => Some("a driver says that its card's link is too slow"),
        PcieMessage::Inaccessible { .. } => Some("a device does not answer"),
        PcieMessage::Contained => Some("a port cut its link off after an error"),
        PcieMessage::Recovered(false) => Some("a driver did not come back after an error"),
        _ => None,
    }
}

fn of_memory_type(message: &MemoryTypeMessage) -> Option<&'static str> {
    match message {
        MemoryTypeMessage::Conflict { .. } => Some("two mappings want different memory types"),
        MemoryTypeMessage::RamType { .. } => Some(
            "a mapping of memory got another type than its driver asked for, which has to set it first (set_memory_wc)",
        ),
        MemoryTypeMessage::IoremapOnRam { .. } => Some("a driver mapped memory as if it were a device"),
        MemoryTypeMessage::MtrrMismatch { .. } | MemoryTypeMessage::MtrrOverlap(_) => {
            Some("two MTRRs disagree")
        }
        MemoryTypeMessage::MtrrsExhausted => Some("all MTRRs are in use"),
        MemoryTypeMessage::MemoryTrimmed { .. } => {
            Some("memory was given up because no MTRR makes it cacheable")
        }
        MemoryTypeMessage::MtrrsRepaired
        | MemoryTypeMessage::PatConfiguration(_)
        | MemoryTypeMessage::PatDisabled(_) => None,
    }
}
