//! Text of the kernel and of lspci.

use crate::{parts, text};
use host::Bdf;
use host::facts::{interrupts, log::LogFacts, numa::CpuList};
use host::kernel::verdict::{BootedKernel, check_command_line};
use host::kernel::{Architecture, CommandLine, CpuVendor, KernelVersion, Log, Requests, classify};
use host::pci::{Presence, lspci};
use host::power::partition;

/// The kernel's log: records, messages, and what is concluded from them.
pub fn kernel_log(data: &[u8]) {
    let text = text("dmesg", data);
    let log = Log::parse(&text);
    for record in log.records() {
        let _ = log.cite(record);
    }
    for logged in classify(&log) {
        let _ = logged.bdf();
    }
    let _ = LogFacts::read(&text);
}

/// The command line, as read by a machine that the first bytes choose.
pub fn command_line(data: &[u8]) {
    const VERSIONS: [&str; 6] = [
        "",
        "Linux version 2.6.18-398.el5 (x86_64)",
        "Linux version 2.6.32-754.el6.ppc64",
        "Linux version 4.18.0-553.el8_10.x86_64",
        "Linux version 5.10.0-28-amd64",
        "Linux version 6.12.0",
    ];
    const NAMES: [&str; 5] = ["", "x86_64", "ppc64le", "aarch64", "s390x"];
    const VENDORS: [&str; 3] = ["", "vendor_id : GenuineIntel\n", "vendor_id : AuthenticAMD\n"];
    let Some(([version, machine], words)) = data.split_first_chunk() else { return };
    let version = KernelVersion::parse(VERSIONS[usize::from(*version) % VERSIONS.len()]);
    let architecture = Architecture::from_name(NAMES[usize::from(*machine) % NAMES.len()]);
    let vendor = VENDORS[usize::from(*machine) / NAMES.len() % VENDORS.len()];
    let vendor = CpuVendor::from_cpuinfo(&text("proc/cpuinfo", vendor.as_bytes()));
    let line = CommandLine::parse(&text("proc/cmdline", words));
    let machine = BootedKernel {
        version: version.as_ref(),
        architecture: architecture.as_ref(),
        vendor: vendor.as_ref().map(|cited| &cited.value),
    };
    let verdicts = check_command_line(&line, &machine);
    let _ = Requests::collect(&verdicts);
    for token in line.of_kernel() {
        let _ = token.words();
    }
}

/// `/proc/version` and `/proc/cpuinfo`.
pub fn version_cpuinfo(data: &[u8]) {
    let [version, cpuinfo] = parts(data).map(|part| text("proc/version", part));
    if let Some(version) = KernelVersion::from_text(&version).map(|cited| cited.value) {
        let _ = (version.to_string(), version.numbers(), version.rhel(), version.tells_lazy_groups());
    }
    for text in [&version, &cpuinfo] {
        let _ = Architecture::from_version_text(text.body());
        let _ = Architecture::from_release(text.body());
        let _ = Architecture::from_cpuinfo(text).map(|cited| cited.value.to_string());
        let _ = CpuVendor::from_cpuinfo(text);
        let _ = partition::platform(text);
    }
}

/// What lspci prints.
pub fn lspci_text(data: &[u8]) {
    let text = text("lspci", data);
    let records = lspci::parse(&text);
    assert!(lspci::addresses(text.body()).count() >= records.len(), "the bound counts every record");
    for record in records {
        let _ = record.cite("LnkSta");
        if let Presence::Present(express) = &record.capabilities.express {
            let _ = host::pci::LinkEnd::from_registers(record.bdf, express);
        }
    }
}

/// `/proc/interrupts`, lists of CPUs, and addresses of functions.
pub fn interrupts_numa(data: &[u8]) {
    let [table, list, other, address] = parts(data).map(String::from_utf8_lossy);
    for vector in interrupts::parse(&text("proc/interrupts", table.as_bytes())) {
        let _ = vector.count;
    }
    let (list, other) = (CpuList::parse(&list), CpuList::parse(&other));
    assert_eq!(list.is_empty(), list.count() == 0);
    assert_eq!(list.meets(&other), other.meets(&list));
    assert_eq!(CpuList::parse(&list.to_string()), list, "what is written reads the same");
    if let Ok(address) = address.parse::<Bdf>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}
