//! Hosts made up at random, whose sysfs and log show what the second telling of the kernel says that they would.

use super::kernel::{Machine, Maker, settings};
use host::tree::Memory;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Releases as their builders name them, with the words of /proc/version that tell the builder.
const RELEASES: [(&str, &str); 12] = [
    ("3.10.0-1160.el7.x86_64", "(mockbuild@kbuilder.bsys.centos.org)"),
    ("4.18.0-553.el8_10.x86_64", "(mockbuild@x86-64-01.build.eng.rdu2.redhat.com)"),
    ("4.19.0-27-amd64", "(debian-kernel@lists.debian.org)"),
    ("5.4.0-150-generic", "(buildd@lcy02-amd64-016)"),
    ("5.10.0-28-amd64", "(debian-kernel@lists.debian.org)"),
    ("5.14.0-427.13.1.el9_4.x86_64", "(mockbuild@x86-64-01.build.eng.rdu2.redhat.com)"),
    ("5.15.0-91-generic", "(buildd@lcy02-amd64-016)"),
    ("6.1.0-18-amd64", "(debian-kernel@lists.debian.org)"),
    ("6.6.30", "(user@host)"),
    ("6.8.0-31-generic", "(buildd@lcy02-amd64-016)"),
    ("6.12.3", "(user@host)"),
    ("7.2.0", "(user@host)"),
];

/// Arguments of which a random command line is made.
const ARGUMENTS: [&str; 32] = [
    "iommu=pt",
    "iommu=nopt",
    "iommu=off",
    "iommu=soft",
    "iommu=soft,pt",
    "iommu=pt,usedac",
    "iommu.passthrough=1",
    "iommu.passthrough=0",
    "iommu.strict=1",
    "iommu.strict=0",
    "intel_iommu=on",
    "intel_iommu=off",
    "intel_iommu=on,strict",
    "intel_iommu=strict",
    "intel_iommu=igfx_off",
    "intel_iommu=on,igfx_off,sm_on",
    "amd_iommu=on",
    "amd_iommu=pt",
    "amd_iommu=off",
    "amd_iommu=fullflush",
    "amd_iommu=pgtbl_v2",
    "swiotlb=65536",
    "swiotlb=131072,8",
    "swiotlb=force",
    "swiotlb=65536,force",
    "swiotlb=noforce",
    "pci=noats",
    "pci=nommconf",
    "pci=nommconf,noaer",
    "pci=pcie_bus_perf",
    "quiet",
    "crashkernel=256M",
];

/// Lines that a log may have beside the banner.
const LINES: [&str; 7] = [
    "ACPI: DMAR 0x000000007B7E7000 0000A8 (v01 INTEL  SKL      00000001 INTL 00000001)",
    "ACPI: IVRS 0x00000000BE7E7000 0000A8 (v02 AMD    AmdTable 00000001 AMD  00000001)",
    "DMAR: IOMMU batching disallowed due to virtualization",
    "e1000e 0000:01:00.0: swiotlb buffer is full (sz: 4096 bytes), total 32768 (slots), used 32760 (slots)",
    "e1000e 0000:01:00.0: swiotlb buffer is full (sz: 524288 bytes), total 32768 (slots), used 100 (slots)",
    "e1000e 0000:01:00.0: overflow 0x000000107ffff000+4096 of DMA mask ffffffff bus mask 0",
    "software IO TLB: mapped [mem 0x0000000077000000-0x000000007b000000] (64MB)",
];

/// An adapter below the root port `00:01.0`.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    mask_bits: u32,
    class: &'static str,
    is_removable: bool,
    has_driver: bool,
}

/// A made-up host.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    release: (&'static str, &'static str),
    arm: bool,
    amd: bool,
    on_by_default: bool,
    distribution: Option<&'static str>,
    gibibytes: u64,
    pub arguments: Vec<&'static str>,
    lines: Vec<&'static str>,
    has_log: bool,
    cards: Vec<Card>,
    shares_group: bool,
    is_guest: bool,
}

fn cards() -> impl Strategy<Value = Vec<Card>> {
    let card =
        (select(vec![32, 40, 64]), select(vec!["0x020000", "0x010802", "0x030200"]), any::<[bool; 2]>())
            .prop_map(|(mask_bits, class, [is_removable, has_driver])| Card {
                mask_bits,
                class,
                is_removable,
                has_driver,
            });
    prop::collection::vec(card, 1..3)
}

/// All of them.
pub(crate) fn hosts() -> impl Strategy<Value = Made> {
    let distributions = [
        None,
        Some("Debian GNU/Linux 12 (bookworm)"),
        Some("Red Hat Enterprise Linux 9.4 (Plow)"),
        Some("SUSE Linux Enterprise Server 15 SP5"),
    ];
    let arguments = subsequence(ARGUMENTS.to_vec(), 0..6).prop_shuffle();
    let lines = subsequence(LINES.to_vec(), 0..4);
    let machine = (select(RELEASES.to_vec()), any::<[bool; 6]>(), select(distributions.to_vec()));
    (machine, arguments, lines, cards(), select(vec![2_u64, 64])).prop_map(
        |(
            (release, [arm, amd, on_by_default, has_log, shares_group, is_guest], distribution),
            arguments,
            lines,
            cards,
            gibibytes,
        )| Made {
            release,
            arm,
            amd,
            on_by_default,
            distribution,
            gibibytes,
            arguments,
            lines,
            has_log,
            cards,
            shares_group,
            is_guest,
        },
    )
}

impl Made {
    fn machine(&self) -> Machine {
        let is_virtual_iommu =
            self.has_log && self.own_lines().any(|line| line.contains("batching disallowed"));
        Machine { is_virtual_iommu, ..self.bare_machine() }
    }

    fn bare_machine(&self) -> Machine {
        let mut numbers = self.release.0.split('.').map(|part| part.parse().unwrap_or(0));
        let release = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Machine {
            release,
            takes_newer_code: self.release.0.contains(".el"),
            gart_mebibytes: None,
            maker: match (self.arm, self.amd) {
                (true, _) => Maker::Arm,
                (false, true) => Maker::Amd,
                (false, false) => Maker::Intel,
            },
            is_virtual_iommu: false,
        }
    }

    /// Whether its IOMMU translates or passes through.
    fn is_on(&self) -> bool {
        let machine = Machine { is_virtual_iommu: false, ..self.bare_machine() };
        settings(&machine, &self.line()).iommu.unwrap_or(self.on_by_default || machine.maker != Maker::Intel)
    }

    /// Lines of its log that a machine of its maker can have.
    fn own_lines(&self) -> impl Iterator<Item = &str> {
        let is_own = |line: &&str| match () {
            // Behind an IOMMU that is off nothing is batched.
            () if line.contains("batching") => !self.arm && !self.amd && self.is_on(),
            () if line.contains("DMAR") => !self.arm && !self.amd,
            () if line.contains("IVRS") => !self.arm && self.amd,
            () => true,
        };
        self.lines.iter().copied().filter(is_own)
    }

    /// Its files.
    pub(crate) fn files(&self) -> Memory {
        let mut files = Memory::default();
        let machine = self.machine();
        let now = settings(&machine, &self.line());
        // Read in place of the table that comes with the program, which has thousands of lines.
        files.file("usr/share/misc/pci.ids", "8086  Intel Corporation\n".to_owned());
        let (release, builder) = self.release;
        let release = if self.arm {
            release.replace("x86_64", "aarch64").replace("amd64", "arm64")
        } else {
            release.to_owned()
        };
        let version = format!("Linux version {release} {builder} (gcc) #1 SMP");
        files.file("proc/version", format!("{version}\n"));
        files.file("proc/cmdline", format!("{}\n", self.line()));
        files.file("proc/meminfo", format!("MemTotal: {} kB\n", self.gibibytes << 20));
        if !self.arm {
            let vendor = if self.amd { "AuthenticAMD" } else { "GenuineIntel" };
            let flags = if self.is_guest { "flags\t\t: fpu hypervisor\n" } else { "" };
            files.file("proc/cpuinfo", format!("processor\t: 0\nvendor_id\t: {vendor}\n{flags}"));
        }
        if let Some(name) = self.distribution {
            files.file("etc/os-release", format!("PRETTY_NAME=\"{name}\"\n"));
        }
        if self.has_log {
            let lines = self.own_lines().map(|line| format!("[    1.000000] {line}\n")).collect::<String>();
            files.file(
                "var/log/dmesg",
                format!(
                    "[    0.000000] {version}\n[    0.000000] Kernel command line: {}\n{lines}",
                    self.line()
                ),
            );
        }
        let is_on = self.is_on();
        files.folder("sys/class/iommu");
        if is_on {
            let name = match machine.maker {
                Maker::Intel => "dmar0",
                Maker::Amd => "ivhd0",
                _ => "smmu3.0x0000000009050000",
            };
            files.link(&format!("sys/class/iommu/{name}"), &format!("../../devices/virtual/iommu/{name}"));
        }
        self.devices(&mut files, is_on, &machine, &now);
        files
    }

    fn devices(&self, files: &mut Memory, is_on: bool, machine: &Machine, now: &super::kernel::Settings) {
        let port = "sys/devices/pci0000:00/0000:00:01.0";
        files.link("sys/bus/pci/devices/0000:00:01.0", "../../../devices/pci0000:00/0000:00:01.0");
        function(files, port, "0x060400", 64, Some("pcieport"));
        for (index, card) in self.cards.iter().enumerate() {
            let address = format!("0000:01:00.{index}");
            let address = if self.shares_group { format!("0000:0{}:00.0", index + 1) } else { address };
            let folder = format!("{port}/{address}");
            files.link(
                &format!("sys/bus/pci/devices/{address}"),
                &format!("../../../devices/pci0000:00/0000:00:01.0/{address}"),
            );
            let driver = match card.class {
                _ if !card.has_driver => None,
                "0x020000" => Some("e1000e"),
                "0x010802" => Some("nvme"),
                _ => Some("amdgpu"),
            };
            function(files, &folder, card.class, card.mask_bits, driver);
            if card.is_removable {
                files.file(&format!("{folder}/removable"), "removable\n");
            }
            if is_on {
                let group = if self.shares_group { 1 } else { index + 1 };
                files.link(
                    &format!("{folder}/iommu_group"),
                    &format!("../../../../kernel/iommu_groups/{group}"),
                );
                files.link(
                    &format!("sys/kernel/iommu_groups/{group}/devices/{address}"),
                    &format!("../../../../devices/pci0000:00/0000:00:01.0/{address}"),
                );
                let untrusted = if self.shares_group {
                    self.cards.iter().any(|card| card.is_removable)
                } else {
                    card.is_removable
                };
                let tells_lazy = machine.release >= (5, 15);
                let kind = match () {
                    () if now.identity == Some(true) && !untrusted => "identity",
                    () if tells_lazy && now.strict == Some(false) && !untrusted => "DMA-FQ",
                    () => "DMA",
                };
                // The file came with 5.1.
                if machine.release >= (5, 1) {
                    files.file(&format!("sys/kernel/iommu_groups/{group}/type"), format!("{kind}\n"));
                }
            }
        }
    }

    /// Its command line.
    pub(crate) fn line(&self) -> String {
        let own = ["BOOT_IMAGE=/vmlinuz", "root=/dev/sda1", "ro"];
        own.iter().chain(&self.arguments).copied().collect::<Vec<_>>().join(" ")
    }
}

fn function(files: &mut Memory, folder: &str, class: &str, mask_bits: u32, driver: Option<&str>) {
    let up = "../".repeat(folder.split('/').count() - 1);
    for (name, value) in [("vendor", "0x8086"), ("device", "0x10d3"), ("class", class)] {
        files.file(&format!("{folder}/{name}"), format!("{value}\n"));
    }
    files.file(&format!("{folder}/dma_mask_bits"), format!("{mask_bits}\n"));
    if let Some(driver) = driver {
        files.link(&format!("{folder}/driver"), &format!("{up}bus/pci/drivers/{driver}"));
    }
}
