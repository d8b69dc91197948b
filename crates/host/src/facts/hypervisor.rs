//! The hypervisor that the kernel runs under, where anything read names one.
//!
//! What it decides, no setting inside can change: whether a guest has an IOMMU, and what firmware offers.

use super::log::LogFacts;
use crate::{Citation, Cited, Text, Tree};
use serde::Serialize;

/// Who runs this kernel as a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Hypervisor {
    /// Xen, and this is the domain that drives the hardware.
    XenDom0,
    /// Xen.
    Xen,
    /// Hyper-V, Azure and WSL2 among it.
    HyperV,
    /// KVM.
    Kvm,
    /// `VMware`.
    VmWare,
    /// QEMU, with KVM or without.
    Qemu,
    /// One that is not named here.
    Other,
}

impl Hypervisor {
    /// Its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::XenDom0 | Self::Xen => "Xen",
            Self::HyperV => "Hyper-V",
            Self::Kvm => "KVM",
            Self::VmWare => "VMware",
            Self::Qemu => "QEMU",
            Self::Other => "a hypervisor",
        }
    }

    /// Whether the kernel drives hardware and does not see its IOMMU, because Xen keeps that to itself.
    pub fn hides_iommu(self) -> bool {
        self == Self::XenDom0
    }
}

/// Reads who runs this kernel: Xen's files, the log, the processor's flags and the machine's model.
pub(super) fn read(
    tree: &Tree,
    log: &LogFacts,
    cpuinfo: Option<&Text>,
    kernel: Option<&Citation>,
) -> Option<Cited<Hypervisor>> {
    xen(tree)
        .or_else(|| log.hypervisor.clone())
        .or_else(|| by_kernel(kernel?))
        .or_else(|| by_model(tree))
        .or_else(|| by_flag(cpuinfo?))
        .or_else(|| Some(Cited::new(Hypervisor::Other, log.batching_disallowed.clone()?)))
}

/// Xen's own files.
fn xen(tree: &Tree) -> Option<Cited<Hypervisor>> {
    let capabilities = tree.value("proc/xen/capabilities").filter(|cited| cited.value.contains("control_d"));
    if let Some(dom0) = capabilities {
        return Some(Cited::new(Hypervisor::XenDom0, dom0.at));
    }
    let kind = tree.value("sys/hypervisor/type").filter(|cited| cited.value == "xen")?;
    Some(Cited::new(Hypervisor::Xen, kind.at))
}

/// What a message of the kernel says of its hypervisor (arch/x86/kernel/cpu/hypervisor.c, arch/x86/xen, drivers/hv), or of a
/// machine that only a hypervisor emulates.
pub(super) fn named_by(message: &str) -> Option<Hypervisor> {
    let named = |name: &str| match name {
        name if name.starts_with("Microsoft Hyper-V") || name.starts_with("Microsoft HyperV") => {
            Hypervisor::HyperV
        }
        name if name.starts_with("KVM") => Hypervisor::Kvm,
        name if name.starts_with("VMware") => Hypervisor::VmWare,
        name if name.starts_with("Xen") => Hypervisor::Xen,
        _ => Hypervisor::Other,
    };
    if let Some(machine) = named_machine(message) {
        return emulated(machine);
    }
    match message.as_bytes().first()? {
        b'H' => message.strip_prefix("Hypervisor detected: ").map(named),
        b'B' => {
            let kernel = message.strip_prefix("Booting paravirtualized kernel on ")?;
            (kernel.starts_with("Xen") || kernel.starts_with("KVM")).then(|| named(kernel))
        }
        b'x' => message.starts_with("xen:swiotlb_xen: ").then_some(Hypervisor::Xen),
        b'h' => {
            let is_bus = message.starts_with("hv_vmbus: ") || message.starts_with("hv_pci ");
            is_bus.then_some(Hypervisor::HyperV)
        }
        _ => None,
    }
}

/// The maker and model of the machine, in the line that the kernel prints at boot and with each call trace.
pub(super) fn named_machine(message: &str) -> Option<&str> {
    let name = message.strip_prefix("Hardware name: ").or_else(|| message.strip_prefix("DMI: "))?;
    Some(name.split_once(", BIOS").map_or(name, |(name, _)| name).trim())
}

/// The hypervisor that emulates machines of this maker and model.
fn emulated(machine: &str) -> Option<Hypervisor> {
    const MODELS: [(&str, Hypervisor); 9] = [
        ("QEMU ", Hypervisor::Qemu),
        ("linux,dummy-virt", Hypervisor::Qemu),
        ("Red Hat KVM", Hypervisor::Kvm),
        ("Google Google Compute Engine", Hypervisor::Kvm),
        ("Amazon EC2 ", Hypervisor::Kvm),
        ("VMware", Hypervisor::VmWare),
        ("Microsoft Corporation Virtual Machine", Hypervisor::HyperV),
        ("Xen ", Hypervisor::Xen),
        ("innotek GmbH VirtualBox", Hypervisor::Other),
    ];
    // Amazon's names of machines without a hypervisor end so: m5.metal.
    let is_bare = machine.contains(".metal");
    let found = MODELS.iter().find(|(start, _)| machine.starts_with(start));
    found.filter(|_| !is_bare).map(|(_, hypervisor)| *hypervisor)
}

/// WSL2's kernels say so in their version.
fn by_kernel(version: &Citation) -> Option<Cited<Hypervisor>> {
    version.text.contains("microsoft-standard").then(|| Cited::new(Hypervisor::HyperV, version.clone()))
}

/// The model that hypervisors give the machine in SMBIOS.
fn by_model(tree: &Tree) -> Option<Cited<Hypervisor>> {
    let value = |name: &str| tree.value(&format!("sys/class/dmi/id/{name}"));
    let (maker, model) = (value("sys_vendor")?, value("product_name"));
    let is_model = |name: &str| model.as_ref().is_some_and(|model| model.value == name);
    let hypervisor = match maker.value.as_str() {
        "QEMU" => Hypervisor::Qemu,
        "Xen" => Hypervisor::Xen,
        "Google" if is_model("Google Compute Engine") => Hypervisor::Kvm,
        "Microsoft Corporation" if is_model("Virtual Machine") => Hypervisor::HyperV,
        maker if maker.starts_with("VMware") => Hypervisor::VmWare,
        _ if is_model("KVM") => Hypervisor::Kvm,
        _ => return None,
    };
    Some(Cited::new(hypervisor, maker.at))
}

/// x86 processors show a guest the flag `hypervisor`.
fn by_flag(cpuinfo: &Text) -> Option<Cited<Hypervisor>> {
    let (line, words) = cpuinfo.lines().find(|(_, words)| words.starts_with("flags"))?;
    let has_flag = words.split_whitespace().any(|flag| flag == "hypervisor");
    has_flag.then(|| Cited::new(Hypervisor::Other, cpuinfo.cite(line, "flags: hypervisor")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Memory;

    #[test]
    fn messages_that_name_a_hypervisor() {
        assert_eq!(named_by("Hypervisor detected: Microsoft Hyper-V"), Some(Hypervisor::HyperV));
        assert_eq!(named_by("Hypervisor detected: KVM"), Some(Hypervisor::Kvm));
        assert_eq!(named_by("Booting paravirtualized kernel on Xen"), Some(Hypervisor::Xen));
        assert_eq!(named_by("Booting paravirtualized kernel on bare hardware"), None);
        assert_eq!(named_by("hv_vmbus: registering driver hv_pci"), Some(Hypervisor::HyperV));
        assert_eq!(named_by("hv_utils: x"), None);
        let machine =
            "Hardware name: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.2-debian-1.16.2-1 04/01/2014";
        assert_eq!(named_by(machine), Some(Hypervisor::Qemu));
        assert_eq!(named_machine(machine), Some("QEMU Standard PC (Q35 + ICH9, 2009)"));
        assert_eq!(named_by("DMI: Dell Inc. PowerEdge R640/0X45NX, BIOS 2.4.8 11/26/2019"), None);
        assert_eq!(named_by("Hardware name: Amazon EC2 m5.metal/Not Specified, BIOS 1.0 10/16/2017"), None);
    }

    #[test]
    fn files_that_name_a_hypervisor() {
        let read_files = |files: &[(&str, &str)]| {
            let mut memory = Memory::default();
            files.iter().for_each(|(path, text)| memory.file(path, *text));
            let tree = Tree::of_memory(memory);
            let cpuinfo = tree.text("proc/cpuinfo");
            read(&tree, &LogFacts::default(), cpuinfo.as_ref(), None).map(|cited| cited.value)
        };
        let xen = [("sys/hypervisor/type", "xen\n"), ("proc/xen/capabilities", "control_d\n")];
        assert_eq!(read_files(&xen), Some(Hypervisor::XenDom0));
        assert_eq!(read_files(&xen[..1]), Some(Hypervisor::Xen));
        let maker = ("sys/class/dmi/id/sys_vendor", "QEMU\n");
        assert_eq!(read_files(&[maker]), Some(Hypervisor::Qemu));
        assert_eq!(read_files(&[("sys/class/dmi/id/sys_vendor", "Dell Inc.\n")]), None);
        assert_eq!(
            read_files(&[("proc/cpuinfo", "flags\t\t: fpu hypervisor lahf_lm\n")]),
            Some(Hypervisor::Other)
        );
        assert_eq!(read_files(&[("proc/cpuinfo", "flags\t\t: fpu lahf_lm\n")]), None);
    }
}
