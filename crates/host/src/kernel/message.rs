//! Kernel messages about DMA, typed.
//!
//! One file for each part of the kernel that prints them; each names its sources. A form that any of
//! the trees from 2.6.18 to 7.2 prints is recognised whatever the version of the kernel at hand:
//! distributions take newer code under older numbers.

pub mod amd_vi;
pub mod boot;
pub mod dma_mask;
pub mod driver;
pub mod eeh;
pub mod fault;
pub mod gart;
pub mod host_bridge;
pub mod interrupt_remapping;
pub mod iommu;
pub mod memory_type;
mod nvidia;
pub mod pcie;
mod problem;
pub mod resource;
pub(crate) mod scan;
pub mod smmu;
pub mod swiotlb;
pub mod vt_d;
pub mod window;
pub mod xen;

pub use amd_vi::AmdViMessage;
pub use boot::BootMessage;
pub use driver::DriverMessage;
pub use eeh::EehMessage;
pub use fault::DmaFault;
pub use gart::GartMessage;
pub use host_bridge::HostBridgeMessage;
pub use interrupt_remapping::InterruptRemappingMessage;
pub use iommu::IommuMessage;
pub use memory_type::MemoryTypeMessage;
pub use pcie::PcieMessage;
pub use resource::ResourceMessage;
pub use smmu::SmmuMessage;
pub use swiotlb::SwiotlbMessage;
pub use vt_d::VtDMessage;
pub use window::WindowMessage;
pub use xen::XenMessage;

use super::Log;
use crate::{Bdf, Citation};
use fault::Pending;

/// A message that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The IOMMU core and VFIO.
    Iommu(IommuMessage),
    /// Intel VT-d.
    VtD(VtDMessage),
    /// AMD-Vi.
    AmdVi(AmdViMessage),
    /// Arm's SMMU.
    Smmu(SmmuMessage),
    /// Bounce buffers and direct mapping.
    Swiotlb(SwiotlbMessage),
    /// The GART of old AMD processors.
    Gart(GartMessage),
    /// Host bridges of a device tree.
    HostBridge(HostBridgeMessage),
    /// POWER's DMA windows.
    Window(WindowMessage),
    /// POWER's PCI error recovery.
    Eeh(EehMessage),
    /// PCI Express links.
    Pcie(PcieMessage),
    /// Room for functions' registers.
    Resource(ResourceMessage),
    /// PAT, MTRR and mappings of device memory.
    MemoryType(MemoryTypeMessage),
    /// Command line, kernel version and memory encryption.
    Boot(BootMessage),
    /// Drivers that failed.
    Driver(DriverMessage),
    /// An IOMMU refused an access.
    Fault(DmaFault),
    /// Interrupts are not remapped.
    InterruptRemapping(InterruptRemappingMessage),
    /// Xen's hypervisor.
    Xen(XenMessage),
}

/// A message with its device, time and place.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// What it says.
    pub message: Message,
    /// The device that it is about, where it begins with one.
    pub device: Option<Device>,
    /// Seconds since boot, where the log says.
    pub seconds: Option<f64>,
    /// Where it stands.
    pub at: Citation,
}

impl Logged {
    /// Address of the device that the message begins with.
    pub fn bdf(&self) -> Option<Bdf> {
        self.device.as_ref()?.bdf
    }
}

/// The device prefix of a message, as `dev_printk` writes it: `nvme 0000:00:04.0: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The driver; the bus, if no driver is bound.
    pub driver: String,
    /// The device's name on its bus.
    pub name: String,
    /// The same as a PCI address, if it is one.
    pub bdf: Option<Bdf>,
}

/// Every message of a log that is understood. Faults that the kernel prints over several lines become one.
pub fn classify(log: &Log<'_>) -> Vec<Logged> {
    let mut understood: Vec<Logged> = Vec::new();
    let mut pending: Option<Pending> = None;
    let mut sentence = nvidia::Sentence::default();
    for record in log.records() {
        let (device, body) = split_device(xen::strip_prefix(record.message));
        let device = sentence.take(record.message, device.as_ref()).or(device);
        let continues = pending.as_mut().is_some_and(|pending| {
            let last = understood.last_mut();
            last.is_some_and(|last| last.device == device && pending.take_line(&mut last.message, body))
        });
        if continues {
            continue;
        }
        if let Some(message) = read_body(body, device.as_ref()) {
            pending = Pending::after(&message);
            understood.push(Logged { message, device, seconds: record.seconds, at: log.cite(record) });
        }
    }
    understood
}

/// Reads one message that stands alone.
pub fn read(message: &str) -> Option<(Option<Device>, Message)> {
    let (device, body) = split_device(xen::strip_prefix(message));
    let message = read_body(body, device.as_ref())?;
    Some((device, message))
}

/// Asks each family in turn; each looks at the first bytes and turns most messages down at once.
fn read_body(body: &str, device: Option<&Device>) -> Option<Message> {
    if body.len() < 8 {
        return None;
    }
    fault::read(body, device)
        .map(Message::Fault)
        .or_else(|| xen::read(body).map(Message::Xen))
        .or_else(|| interrupt_remapping::read(body).map(Message::InterruptRemapping))
        .or_else(|| iommu::read(body, device).map(Message::Iommu))
        .or_else(|| vt_d::read(body).map(Message::VtD))
        .or_else(|| amd_vi::read(body).map(Message::AmdVi))
        .or_else(|| smmu::read(body, device).map(Message::Smmu))
        .or_else(|| swiotlb::read(body).map(Message::Swiotlb))
        .or_else(|| gart::read(body).map(Message::Gart))
        .or_else(|| window::read(body).map(Message::Window))
        .or_else(|| eeh::read(body).map(Message::Eeh))
        .or_else(|| pcie::read(body).map(Message::Pcie))
        .or_else(|| nvidia::read(body, device).map(Message::Pcie))
        .or_else(|| resource::read(body, device).map(Message::Resource))
        .or_else(|| host_bridge::read(body, device).map(Message::HostBridge))
        .or_else(|| memory_type::read(body).map(Message::MemoryType))
        .or_else(|| boot::read(body).map(Message::Boot))
        .or_else(|| driver::read(body, device).map(Message::Driver))
}

/// Takes the device prefix off a message.
pub(crate) fn split_device(message: &str) -> (Option<Device>, &str) {
    let split = device_prefix(message).or_else(|| nvidia::split_device(message));
    split.map_or((None, message), |(device, body)| (Some(device), body))
}

fn device_prefix(message: &str) -> Option<(Device, &str)> {
    let (driver, rest) = message.split_once(' ')?;
    if driver.is_empty() || driver.contains(':') || driver.starts_with('[') {
        return None;
    }
    let (name, body) = rest.split_once(' ').unwrap_or((rest, ""));
    let (name, body) = match name.strip_suffix(':') {
        Some(name) => (name, body),
        // A network driver puts the interface between: "mlx5_core 0000:01:00.0 eth0: text".
        None => (name, scan::after(body, ": ")?),
    };
    let bdf = if name.matches(':').count() == 2 { name.parse().ok() } else { None };
    // Other buses: "arm-smmu-v3 9050000.smmuv3:", "platform MSFT0101:00:", "pci 0022:01     :".
    // The IOMMU's own device has its class in place of a driver: "iommu ivhd0:", "virtio_iommu virtio0:".
    let is_named = rest.get(name.len()..).is_some_and(|after| after.trim_start().starts_with(':'))
        && (name.contains(['.', ':', '@']) || matches!(driver, "iommu" | "virtio_iommu"));
    (bdf.is_some() || is_named)
        .then(|| (Device { driver: driver.to_owned(), name: name.to_owned(), bdf }, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Text;
    use proptest::prelude::*;

    /// Checks that `log` holds one message, of `family`, and what it says.
    pub(super) fn check(log: &str, family: &str, expect: &str) {
        let text = Text::new("dmesg", log);
        let got: Vec<String> =
            classify(&Log::parse(&text)).iter().map(|logged| format!("{:?}", logged.message)).collect();
        assert_eq!(got, [format!("{family}({expect})")], "{log}");
    }

    #[test]
    fn messages_that_say_nothing_of_dma() {
        let ignored = |message: &str| assert_eq!(read(message), None, "{message}");
        ignored("perf: amd_iommu: Detected. (0 banks, 0 counters)");
        ignored("pci 0001:06     : [PE# fd] Using 32-bit TCEs");
        ignored("EEH: pSeries platform initialized");
        ignored("mtrr: probably your BIOS does not setup all CPUs.");
        ignored(
            r#"PCI: Using host bridge windows from ACPI; if necessary, use "pci=nocrs" and report a bug"#,
        );
        ignored("DMA: preallocated 256 KiB GFP_KERNEL pool for atomic allocations");
        ignored("ACPI: DMAR 0x000000007FFE22E7 000088 (v01 BOCHS  BXPC     00000001 BXPC 00000001)");
    }

    #[test]
    fn device_prefixes() {
        let check = |message: &str, expect: Option<(&str, &str, Option<&str>)>, body: &str| {
            let (device, rest) = split_device(message);
            let device = device.map(|d| (d.driver, d.name, d.bdf.map(|b| b.to_string())));
            let got = device.as_ref().map(|d| (d.0.as_str(), d.1.as_str(), d.2.as_deref()));
            assert_eq!((got, rest), (expect, body), "{message}");
        };
        check(
            "nvme 0000:00:04.0: Adding to iommu group 0",
            Some(("nvme", "0000:00:04.0", Some("0000:00:04.0"))),
            "Adding to iommu group 0",
        );
        check(
            "mlx5_core 0000:01:00.0 eth0: x",
            Some(("mlx5_core", "0000:01:00.0", Some("0000:01:00.0"))),
            "x",
        );
        check(
            "arm-smmu-v3 9050000.smmuv3: ias 44-bit",
            Some(("arm-smmu-v3", "9050000.smmuv3", None)),
            "ias 44-bit",
        );
        check("iommu ivhd0: AMD-Vi: x", Some(("iommu", "ivhd0", None)), "AMD-Vi: x");
        check("platform MSFT0101:00: Adding", Some(("platform", "MSFT0101:00", None)), "Adding");
        check("DMAR: IOMMU enabled", None, "DMAR: IOMMU enabled");
        check("[Firmware Bug]: the BIOS", None, "[Firmware Bug]: the BIOS");
        check("IOMMU 0: reg_base_addr", None, "IOMMU 0: reg_base_addr");
        check("x", None, "x");
    }

    proptest! {
        #[test]
        fn no_message_panics(
            start in "(pci 0000:00:01.0: |DMAR: |AMD-Vi: |EEH: |software IO TLB: |ibm,|mtrr: |x86/PAT: |arm-smmu 1.smmu: )?",
            rest in "(\\[|event |Unhandled |query-pe-dma-windows\\(|Frozen PHB|mapped \\[mem )?[0-9a-fx\\[\\]():=,. \u{e9}-]{0,60}",
        ) {
            let body = format!("{start}{rest}\n{rest}\n{start}{start}{rest}");
            let text = Text::new("dmesg", body);
            classify(&Log::parse(&text));
        }
    }
}
