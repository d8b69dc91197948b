//! What to do about a refused access: the most probable cause first, each with what shows it.

use crate::diagnose::Case;
use crate::facts::device_memory::{self, DeviceMemory};
use crate::facts::fault::{Fault, FaultKind};
use crate::facts::invalidation_error::InvalidationFailure;
use crate::facts::{Function, Host};
use crate::kernel::message::fault::{Access, Cause, Reporter};
use crate::pci::PortType;
use crate::{Bdf, Citation};
use std::collections::BTreeSet;

/// Advice on a fault.
pub(super) struct Remedy {
    /// What to do.
    pub(super) fix: String,
    /// What that may break.
    pub(super) risk: &'static str,
    /// What tells the cause, beside the fault itself.
    pub(super) evidence: Vec<Citation>,
}

impl Remedy {
    fn new(fix: impl Into<String>, risk: &'static str) -> Self {
        Self { fix: fix.into(), risk, evidence: Vec::new() }
    }

    fn shown_by(mut self, at: &Citation) -> Self {
        self.evidence.push(at.clone());
        self
    }
}

const OF_FIRMWARE: &str = ". If firmware owns the address (RMRR, IVMD, RMR), an update of it must list it";
const DEBUG: &str =
    "; a driver under development shows the mapping with CONFIG_DMA_API_DEBUG and dma_debug_driver=<driver>";
const OF_EEH: &str = "find who used an address that was not mapped: update the adapter's firmware and driver first; a driver \
                      under development shows the mapping with CONFIG_DMA_API_DEBUG and dma_debug_driver=<driver>. The lines \
                      after it in `dmesg` and the event log (rtas_errd, opal-elog) name the register that failed; faults of the \
                      slot or cable freeze it as well";
const OF_FENCE: &str = "look at the registers that the firmware prints after it (errors of the host bridge, linkStatus) and at the event log \
                        (rtas_errd, opal-elog): they tell whether the link, the card, the bridge or an address failed. Update the \
                        machine's and the card's firmware; try the card in another slot";
const OF_REQUESTER: &str = "find the device that sends with this ID: where no function has it, a bridge to conventional PCI \
                            sends the requests of all functions behind it as BUS:00.0, a non-transparent bridge those of the \
                            other host with IDs of its own, and some cards use the ID of another function. Newer kernels know \
                            more of such devices (quirks); update the kernel and the card's firmware";
const OF_RUNNING: &str = "if such lines end with the boot, they do no harm: firmware left the device running (a picture on the screen, \
                          a boot from the network), and its DMA came before its driver. If they go on: an update of the machine's \
                          firmware has to list that memory (RMRR, IVMD), or to stop the device";
const OF_STREAM: &str = "find the device with this stream in firmware's tables (IORT, or `iommu-map` and `iommus` of the device \
                         tree). It sends DMA before a driver attached a domain to it, because firmware or an earlier kernel left \
                         it running, or the tables do not list the stream: update the firmware or correct the device tree";
const OF_ENTRY: &str = "try another kernel, the last that worked or a newer one: the kernel itself wrote the entry that the \
                        hardware rejects, no mapping of the driver is at fault. Drivers that fail after it are its victims";
const OF_PASID: &str = "look at the program that uses the PASID: it ended, or its address space was taken from the device, \
                        while the device went on. Update the driver, which has to stop the device first";
const OF_REQUEST: &str = "update the card's firmware and the kernel: the card sends translated requests, or asks for \
                          translations or pages, and its entry forbids that. `pci=noats` as a test keeps ATS off";
const OF_TABLE: &str = "look for memory errors (`dmesg` and the machine's event log), then try another kernel: the tables lie in \
                        memory, and the kernel alone writes them";
const RISK_OF_IOMMU: &str = "passthrough only ends the refusals: the device is then no longer confined, and what was refused \
                             here reaches memory";
const RISK_OF_PASSTHROUGH: &str = "with passthrough the devices are no longer confined";
const RISK_OF_REQUESTER: &str =
    "passthrough need not help, as the ID has no entry then either; without the IOMMU nothing is confined";
const NO_RISK: &str = "none in looking";
const RISK_OF_STREAM: &str = "`arm-smmu.disable_bypass=0` lets the DMA of all unknown streams through: stray accesses then \
                              reach memory";
const RISK_OF_CRASH: &str =
    "without translation, DMA that the crashed kernel began may reach memory of the crash kernel";
const RISK_OF_INTERRUPT: &str =
    "`intremap=off` only hides it, and lets devices send any interrupt to any processor";
const RISK_OF_EEH: &str =
    "eeh=off only hides it: the adapter then reads all ones and its driver fails in other ways";

/// What to do about the faults of one requester, of which `first` is the first.
pub(super) fn of(case: &Case<'_>, faults: &[&Fault], first: &Fault) -> Remedy {
    let host = case.host;
    match first.kind {
        FaultKind::Fenced => Remedy::new(OF_FENCE, RISK_OF_EEH),
        FaultKind::Frozen => Remedy::new(OF_EEH, RISK_OF_EEH),
        FaultKind::Refused(Cause::Interrupt) => Remedy::new(of_interrupt(first), RISK_OF_INTERRUPT),
        FaultKind::Refused(Cause::UnknownRequester) => of_unknown_requester(host, first),
        FaultKind::Refused(Cause::InvalidEntry) => Remedy::new(OF_ENTRY, RISK_OF_IOMMU),
        FaultKind::Refused(Cause::UnknownPasid) => Remedy::new(OF_PASID, RISK_OF_IOMMU),
        FaultKind::Refused(Cause::InvalidRequest) => Remedy::new(OF_REQUEST, RISK_OF_IOMMU),
        FaultKind::Refused(Cause::TableError) => Remedy::new(OF_TABLE, RISK_OF_IOMMU),
        FaultKind::Refused(_) => {
            let told = behind_silent_device(host, first).or_else(|| in_crash_kernel(host));
            let told =
                told.or_else(|| to_device_memory(host, first)).or_else(|| to_null(host, faults, first));
            let told = told.or_else(|| of_user_space(host, first));
            let told = told.or_else(|| of_graphics(host, first)).or_else(|| alike(host));
            let told = told.or_else(|| of_unmatched_unmap(host)).or_else(|| between_gpus(host, first));
            told.or_else(|| behind_bridge(host, first)).unwrap_or_else(|| of_mapping(host, first))
        }
    }
}

/// By the reason of an interrupt fault (VT-d specification, interrupt-remapping fault conditions).
fn of_interrupt(fault: &Fault) -> &'static str {
    let says = |words: &str| fault.what.contains(words);
    if says("compatibility format") {
        "once at boot it does no harm. Else something sends interrupts in the format from before remapping: a driver or \
         firmware that wrote the interrupt's address into the device itself, or an IO-APIC or HPET that firmware left on: update \
         both"
    } else if says("Present field") || says("index exceeded") {
        "once at boot, at a driver's end or in a crash kernel it does no harm: the device sends an interrupt that the kernel freed \
         or never set up. If it goes on, the device's driver lost it: update the kernel and the card's firmware"
    } else if says("source-id") {
        "the interrupt came with another requester ID than it was set up for, as behind some bridges: newer kernels know more of \
         such devices (quirks). `intremap=nosid` as a test does not compare the ID"
    } else if says("reserved") || says("Error accessing") {
        "update the kernel and the machine's firmware: the entry for the interrupt could not be read or is not valid"
    } else if fault.reporter == Some(Reporter::VtD) && fault.is_at_boot {
        "once at boot it does no harm. If it goes on, update the kernel and the card's firmware; the line with the fault reason \
         tells more"
    } else if fault.reporter == Some(Reporter::VtD) {
        "the device's driver lost the interrupt, or the kernel freed it too early: update the kernel and the card's firmware; the \
         line with the fault reason tells more"
    } else {
        "have the device use MSI instead of line interrupts, or update the machine's firmware, whose tables tell the IOMMU where \
         interrupts come from"
    }
}

/// The requester has no entry.
fn of_unknown_requester(host: &Host, fault: &Fault) -> Remedy {
    let is_smmu = matches!(fault.reporter, Some(Reporter::SmmuV2 | Reporter::SmmuV3));
    if let Some(at) = host.crash_kernel() {
        let fix = "this is a crash kernel, and a device of the crashed kernel still sends DMA: it does no harm, and ends when the \
                   device's driver resets it. If the dump fails for it, load that driver in the crash kernel";
        return Remedy::new(fix, if is_smmu { RISK_OF_STREAM } else { RISK_OF_CRASH }).shown_by(at);
    }
    if let Some(at) = host.log.smmu_shut_down.as_ref().filter(|_| is_smmu) {
        let fix = "the SMMU was shut down while the device still sent DMA. What was refused reached nothing, but drivers that still map \
                   then fail or crash: update the kernel, and until then stop the devices (interfaces down, volumes unmounted) \
                   before the reboot";
        return Remedy::new(fix, RISK_OF_STREAM).shown_by(at);
    }
    if is_smmu {
        Remedy::new(OF_STREAM, RISK_OF_STREAM)
    } else if fault.is_at_boot {
        Remedy::new(OF_RUNNING, RISK_OF_REQUESTER)
    } else {
        Remedy::new(OF_REQUESTER, RISK_OF_REQUESTER)
    }
}

/// Another device holds up the IOMMU's commands, and with them the mappings of this one.
fn behind_silent_device(host: &Host, fault: &Fault) -> Option<Remedy> {
    let is_other = |failed: &&InvalidationFailure| failed.device.is_some() && failed.device != fault.address;
    let silent = host.log.invalidation_failures.iter().find(is_other)?;
    let fix = format!(
        "first mend {}, which does not answer the IOMMU (invalidation-timeout): until it does, the IOMMU does not drop or renew \
         the translations of other devices either",
        silent.device?
    );
    Some(Remedy::new(fix, NO_RISK).shown_by(&silent.at))
}

/// The kernel that crashed left its devices running, and the tables.
fn in_crash_kernel(host: &Host) -> Option<Remedy> {
    let at = host.crash_kernel()?;
    let fix = "this is a crash kernel: what is refused was begun by the kernel that crashed, or the tables taken over from it do \
               not fit the new mappings. Lines before the adapter's driver starts do no harm. If the driver fails, update the \
               kernel; way round: `iommu=pt` (Arm: `iommu.passthrough=1`) on the crash kernel's own command line \
               (KDUMP_COMMANDLINE_APPEND)";
    Some(Remedy::new(fix, RISK_OF_CRASH).shown_by(at))
}

/// A guest or a program maps for the device, not this kernel.
fn of_user_space(host: &Host, fault: &Fault) -> Option<Remedy> {
    let driver = host.adapter(fault.address?)?.function.vfio_driver()?;
    let fix = "a guest or a program in user space has this device, and maps for it: look there for DMA to memory that it did not map, \
               or unmapped while the device still ran. At its start the device may still run from before: a reset of it ends that";
    Some(Remedy::new(fix, NO_RISK).shown_by(&driver.at))
}

/// The address is memory of a device. The allocator of IOVAs leaves such ranges out (drivers/iommu/dma-iommu.c,
/// `iova_reserve_pci_windows`), so it did not hand it out.
fn to_device_memory(host: &Host, fault: &Fault) -> Option<Remedy> {
    let memory = device_memory::at(host, fault.iova?)?;
    let DeviceMemory { address, is_peer_memory, at, .. } = memory;
    let is_own = fault.address == Some(address);
    let whose = if is_own { "the device's own memory".to_owned() } else { format!("memory of {address}") };
    let lent = if is_peer_memory { ", lent for transfers between devices" } else { "" };
    let without = match is_nvme(host, address) {
        true => "; `nvme.use_cmb_sqs=0` as a test does without the controller's memory",
        false => "",
    };
    let fix = format!(
        "the address is {whose}{lent}, not RAM: a transfer between devices went up to the IOMMU, where nothing maps it. Bus \
         addresses of devices work only where nothing translates (identity domains for both, without ACS in between); else the \
         driver has to map them for the device (p2pdma, dma_map_resource){without}{}",
        guest(host)
    );
    Some(Remedy::new(fix, RISK_OF_PASSTHROUGH).shown_by(&at))
}

fn is_nvme(host: &Host, address: Bdf) -> bool {
    host.adapter(address).is_some_and(|adapter| adapter.function.has_driver("nvme"))
}

/// All addresses lie in the first page: no buffer is there, as IOVAs begin with the second (drivers/iommu/dma-iommu.c,
/// `iommu_dma_init_domain`).
fn to_null(host: &Host, faults: &[&Fault], first: &Fault) -> Option<Remedy> {
    const PAGE_BYTES: u64 = 0x1000;
    first.iova?;
    let all_null = faults.iter().filter_map(|fault| fault.iova).all(|iova| iova < PAGE_BYTES);
    let fix = format!(
        "address 0 is no buffer: the device was given an empty pointer, or its own program made one up. Update the adapter's driver \
         and firmware; mappings and the machine's tables are not at fault{}",
        guest(host)
    );
    all_null.then(|| Remedy::new(fix, RISK_OF_IOMMU))
}

/// The log shows a driver that unmaps what it did not map: an error of the driver.
fn of_unmatched_unmap(host: &Host) -> Option<Remedy> {
    let at = host.log.unmatched_unmap.as_ref()?;
    let is_passed_through = host.requests.passthrough.as_ref().is_some_and(|asked| asked.value);
    let way_round = if is_passed_through { "" } else { ". Way round until then: `iommu=pt`" };
    let fix = format!(
        "a driver here unmaps what it did not map (the warning names it in its trace), and what it maps for the device is wrong: take the \
         driver out or update it; a changed one (netmap and the like) does not use the DMA API right{way_round}"
    );
    Some(Remedy::new(fix, RISK_OF_IOMMU).shown_by(at))
}

/// GPUs that copy to each other, which NVIDIA supports with an IOMMU in guests only ("CUDA C++ Programming Guide", NVIDIA, 2024,
/// "IOMMU on Linux").
fn between_gpus(host: &Host, fault: &Fault) -> Option<Remedy> {
    let function = &host.adapter(fault.address?)?.function;
    let driver = function.driver.as_ref()?;
    if !function.has_driver("nvidia") || host.platform.hypervisor.is_some() {
        return None;
    }
    let fix = "if GPUs copy to each other when it happens (CUDA peer access, NCCL), this is such a copy: on bare metal NVIDIA supports them only \
               where nothing translates. Use identity domains for the GPUs and switch ACS redirection off, or do without peer access \
               (`NCCL_P2P_DISABLE=1`). If they do not, the driver had not mapped the address: update it, and the GPU's firmware";
    Some(Remedy::new(fix, RISK_OF_PASSTHROUGH).shown_by(&driver.at))
}

/// Where Intel's chipsets up to about 2014 have their bridge to conventional PCI.
const CONVENTIONAL_BRIDGE: Bdf = Bdf { domain: 0, bus: 0, device: 0x1e, function: 0 };

/// The requester is a bridge, whose ID stands for the devices behind it.
fn behind_bridge(host: &Host, fault: &Fault) -> Option<Remedy> {
    let address = fault.address?;
    let is_to_pci = |bridge: &Function| {
        let express = bridge.capabilities.express.get();
        express.and_then(|express| express.port) == Some(PortType::ExpressToPciBridge)
    };
    let is_bridge = host.bridges.get(&address).is_some_and(is_to_pci);
    let class = host.adapter(address).and_then(|adapter| adapter.function.ids.class);
    let is_unknown = class.is_none() && !host.bridges.contains_key(&address);
    let may_be = is_unknown && fault.reporter == Some(Reporter::VtD) && address == CONVENTIONAL_BRIDGE;
    if !is_bridge && !may_be {
        return None;
    }
    let which = if is_bridge {
        "this is a bridge"
    } else {
        "on Intel's chipsets up to about 2014 this is the bridge to conventional PCI"
    };
    let fix = format!(
        "{which}, and its ID stands for the devices behind it: `lspci -tv` shows them (in servers mostly the management processor). Update \
         their drivers and firmware, and the machine's{OF_FIRMWARE}"
    );
    Some(Remedy::new(fix, RISK_OF_IOMMU))
}

/// Nothing but the driver and the device explains the address.
fn of_mapping(host: &Host, fault: &Fault) -> Remedy {
    let cause = match fault.cause() {
        Some(Cause::NotPermitted) if fault.access == Some(Access::Read) => {
            "the buffer was mapped for writing alone (DMA_FROM_DEVICE for one that the device reads), or the device reads where it should \
             write: update the adapter's firmware and driver first"
        }
        Some(Cause::NotPermitted) => {
            "the buffer was mapped in the other direction (DMA_TO_DEVICE for one that the device writes), or the device writes \
             where it should read: update the adapter's firmware and driver first"
        }
        Some(Cause::BeyondWidth) => {
            "the device put an address on the bus that nobody gave it, or its driver set a DMA mask that is too wide: update the \
             adapter's firmware and driver first"
        }
        _ => {
            "the driver had not mapped the address, or had unmapped it while the device still used it: update the adapter's \
             firmware and driver first"
        }
    };
    let hints = [stream(fault), interrupts(fault), guest(host)].concat();
    let of_firmware = if host.platform.hypervisor.is_none() || fault.by_xen { OF_FIRMWARE } else { "" };
    Remedy::new(format!("{cause}{DEBUG}{of_firmware}{hints}"), RISK_OF_IOMMU)
}

/// Adapters with different drivers that are refused alike have one cause in common.
fn alike(host: &Host) -> Option<Remedy> {
    let refused = host.log.faults.iter().filter(|fault| fault.is_of_an_address());
    let adapters = refused.filter_map(|fault| host.adapter(fault.address?));
    let drivers: BTreeSet<&str> =
        adapters.filter_map(|adapter| Some(adapter.function.driver.as_ref()?.value.as_str())).collect();
    if drivers.len() < 2 {
        return None;
    }
    let fix = format!(
        "adapters of different drivers ({}) are refused alike: suspect what they share, the kernel's IOMMU code and tables left by \
         firmware or an earlier kernel (kexec, kdump), before each of them. Try another kernel; `iommu=pt` (Arm: \
         `iommu.passthrough=1`) as a test shows whether the mappings are at fault",
        drivers.into_iter().collect::<Vec<_>>().join(", ")
    );
    Some(Remedy::new(fix, RISK_OF_PASSTHROUGH))
}

/// Integrated graphics of Intel can be left out of the IOMMU.
fn of_graphics(host: &Host, fault: &Fault) -> Option<Remedy> {
    let is_integrated = fault.address.is_some_and(|at| (at.domain, at.bus, at.device) == (0, 0, 2));
    let is_vt_d = fault.reporter == Some(Reporter::VtD);
    let is_left_out = host.has_option("intel_iommu=igfx_off");
    (is_vt_d && is_integrated && !is_left_out && guest(host).is_empty()).then_some(())?;
    let way_round = match fault.by_xen {
        true => "`iommu=no-igfx` on Xen's command line (dom0's own has no say)",
        false => "`intel_iommu=igfx_off`",
    };
    let fix = format!(
        "update the kernel, whose graphics driver uses memory that is not mapped, or not any more. Way round: {way_round} leaves \
         integrated graphics out of the IOMMU{OF_FIRMWARE}"
    );
    Some(Remedy::new(fix, RISK_OF_IOMMU))
}

/// Which function has a stream, where no adapter fits.
fn stream(fault: &Fault) -> &'static str {
    match fault.stream.is_some() && fault.address.is_none() {
        true => {
            ". Which function sends with this stream, the IORT or `iommu-map` of the device tree tells: functions behind one \
             controller may share it"
        }
        false => "",
    }
}

/// x86 interrupts are writes to 0xfeexxxxx (Intel SDM, message signalled interrupts).
fn interrupts(fault: &Fault) -> &'static str {
    let is_x86 = matches!(fault.reporter, Some(Reporter::VtD | Reporter::AmdVi));
    match is_x86 && fault.iova.is_some_and(|iova| iova >> 20 == 0xfee) {
        true => {
            ". 0xfee00000 to 0xfeefffff are interrupts, no memory: the device reads there, or writes what is no message"
        }
        false => "",
    }
}

/// In a guest the device may be a program.
fn guest(host: &Host) -> &'static str {
    let hypervisor = host.platform.hypervisor.as_ref().filter(|cited| !cited.value.hides_iommu());
    match hypervisor {
        Some(_) => {
            ". This is a guest: an emulated device is a program of the hypervisor, whose version counts, and a start without the \
             virtual IOMMU tells both apart"
        }
        None => "",
    }
}
