//! Reports of vendors' and distributions' tools, in the layout that each tool's source prints.
//!
//! The host is made up and the same in all of them. Each report also holds logs that must not be mixed in: that of an
//! earlier boot, whose command line and fault are known, and that of the X server.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod evidence;

use evidence::{folder, host_of};
use host::Host;
use host::tree::OpenError;
use std::io::Write;
use std::path::Path;

/// The kernel's messages from the banner to user space.
const BOOT: &str = "\
Linux version 6.4.0-150600.21-default (geeko@buildhost) (gcc (SUSE Linux) 7.5.0) #1 SMP PREEMPT_DYNAMIC Thu May 16 11:09:22 UTC 2024
Command line: BOOT_IMAGE=/boot/vmlinuz-6.4.0 root=UUID=0 intel_iommu=on quiet
Memory: 65716968K/66981244K available
Console: colour dummy device 80x25
rcu: Hierarchical RCU implementation.
Kernel command line: BOOT_IMAGE=/boot/vmlinuz-6.4.0 root=UUID=0 intel_iommu=on quiet
DMAR: IOMMU enabled
iommu: Default domain type: Translated (set via kernel command line)
pci 0000:01:00.0: Adding to iommu group 7
SCSI subsystem initialized
Freeing unused kernel image (initmem) memory: 2048K
Run /init as init process
igb 0000:01:00.0: added PHC on eth0
";

/// A line of an earlier boot that would be a finding.
const EARLIER_FAULT: &str = "DMAR: [DMA Write NO_PASID] Request device [01:00.0] fault addr 0xdead000 [fault reason 0x05] PTE Write access is not set";

const COMMAND_LINE: &str = "BOOT_IMAGE=/boot/vmlinuz-6.4.0 root=UUID=0 intel_iommu=on quiet";

const UNAME: &str = "Linux node1 6.4.0-150600.21-default #1 SMP PREEMPT_DYNAMIC Thu May 16 11:09:22 UTC 2024 (36c1e09) x86_64 x86_64 x86_64 GNU/Linux\n";

/// `lspci`.
const NAMES: &str =
    "01:00.0 Ethernet controller: Intel Corporation I350 Gigabit Network Connection (rev 01)\n";

/// `lspci -nn`.
const NUMBERS: &str = "01:00.0 Ethernet controller [0200]: Intel Corporation I350 Gigabit Network Connection [8086:1521] (rev 01)\n";

/// `lspci -vvv`, as root.
const DETAILS: &str = "\
01:00.0 Ethernet controller: Intel Corporation I350 Gigabit Network Connection (rev 01)
	Subsystem: Intel Corporation Ethernet Server Adapter I350-T2
	Control: I/O+ Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx+
	NUMA node: 0
	IOMMU group: 7
	Capabilities: [a0] Express (v2) Endpoint, MSI 00
		DevCap:	MaxPayload 512 bytes, PhantFunc 0, Latency L0s <512ns, L1 <64us
		DevCtl:	CorrErr- NonFatalErr- FatalErr- UnsupReq-
			RlxdOrd+ ExtTag- PhantFunc- AuxPwr- NoSnoop+ FLReset-
			MaxPayload 256 bytes, MaxReadReq 512 bytes
		LnkCap:	Port #0, Speed 5GT/s, Width x4, ASPM L0s L1
		LnkSta:	Speed 5GT/s, Width x4
	Kernel driver in use: igb
	Kernel modules: igb
";

/// `lspci -vvnn`.
fn details_with_names_and_numbers() -> String {
    DETAILS.replacen(NAMES, NUMBERS, 1)
}

/// `lspci -nvv`.
fn details_with_numbers() -> String {
    DETAILS.replacen(NAMES, "01:00.0 0200: 8086:1521 (rev 01)\n", 1)
}

const CPUINFO: &str =
    "processor\t: 0\nvendor_id\t: GenuineIntel\naddress sizes\t: 46 bits physical, 48 bits virtual\n";
const MEMINFO: &str = "MemTotal:       65716968 kB\nMemFree:        60000000 kB\n";
const IOMEM: &str = "00001000-0009ffff : System RAM\n100000000-107fffffff : System RAM\n";
const INTERRUPTS: &str = "            CPU0       CPU1\n  24:         10          0  IR-PCI-MSIX-0000:01:00.0    0-edge      eth0\n";

/// What `dmesg` prints of the last boot.
fn dmesg() -> String {
    (0..).zip(BOOT.lines()).map(|(at, line)| format!("[{:12.6}] {line}\n", f64::from(at) / 10.0)).collect()
}

/// Lines as `journalctl -o short-iso` prints them, those of a program between them.
fn journal(day: u32, messages: &str) -> String {
    let line = |line: &str| format!("2024-05-{day}T10:00:00+0200 node1 kernel: {line}\n");
    let messages: String = messages.lines().map(line).collect();
    format!("{messages}2024-05-{day}T10:00:09+0200 node1 sshd[812]: Server listening on 0.0.0.0 port 22.\n")
}

/// The messages of an earlier boot of the same kernel.
fn earlier_boot() -> String {
    let other = BOOT.replace("intel_iommu=on", "intel_iommu=on iommu=pt");
    format!("{}{EARLIER_FAULT}\n", other.replace("Translated", "Passthrough"))
}

/// The X server's log, whose times look like the kernel's.
const X_LOG: &str = "[    31.405] \nX.Org X Server 1.21.1.4\n[    31.405] Build Operating System: Linux\n[    31.409] (II) LoadModule: \"glx\"\n";

/// The host that a file or folder tells of.
fn read(path: &Path) -> Result<Host, OpenError> {
    host_of(&[path], None)
}

/// The host that a folder of files tells of.
fn of_folder(files: &[(&str, String)]) -> Host {
    read(folder(files).path()).unwrap()
}

/// The host that one text tells of.
fn of_text(text: &str) -> Host {
    of_folder(&[("report.txt", text.to_owned())])
}

/// Checks what every report with a log and `lspci -vvv` tells.
fn check_log(host: &Host) {
    assert!(host.log.covers_boot, "{}", host.log.file);
    assert_eq!(host.log.default_passthrough.as_ref().map(|said| said.value), Some(false));
    assert!(host.log.faults.is_empty(), "a fault of an earlier boot");
    check_command_line(host);
}

fn check_command_line(host: &Host) {
    let line = host.command_line.as_ref().unwrap();
    assert_eq!(line.value, COMMAND_LINE);
    assert_eq!(line.at.text, COMMAND_LINE);
}

fn check_details(host: &Host) {
    assert_eq!(host.adapters.len(), 1);
    let function = &host.adapters[0].function;
    assert_eq!((function.ids.vendor, function.ids.device), (Some(0x8086), Some(0x1521)));
    assert_eq!(function.driver.as_ref().unwrap().value, "igb");
    assert_eq!(function.iommu_group.as_ref().unwrap().value, 7);
    assert_eq!(function.numa_node.as_ref().unwrap().value, 0);
    assert!(function.link.value.speed.is_some());
    assert!(function.capabilities.express.get().is_some());
}

/// What is listed as not seen.
fn unseen(host: &Host) -> String {
    host.unseen.iter().map(|unseen| format!("{}\n", unseen.why)).collect()
}

/// A section of supportconfig (`_log_cmd`, `conf_files`, `log_files` in supportconfig.rc of supportutils 3.2).
fn section(kind: &str, heading: &str, body: &str) -> String {
    let rule = format!("#==[ {kind} ]");
    format!("{rule:=<52}#\n# {heading}\n{body}\n")
}

fn supportconfig() -> Vec<(&'static str, String)> {
    let command = |heading: &str, body: &str| section("Command", heading, body);
    let file = |heading: &str, body: &str| section("Configuration File", heading, body);
    let head = "=".repeat(77);
    let head = format!("{head}\n                     Support Utilities - Supportconfig\n{head}\n\n");
    vec![
        (
            "scc_node1_240521/basic-environment.txt",
            head.clone()
                + &command("/bin/date", "Tue May 21 10:10:00 CEST 2024\n")
                + &command("/bin/uname -a", UNAME)
                + &file(
                    "/etc/os-release",
                    "NAME=\"SLES\"\nPRETTY_NAME=\"SUSE Linux Enterprise Server 15 SP6\"\n",
                ),
        ),
        (
            "scc_node1_240521/hardware.txt",
            head.clone()
                + &file("/proc/cpuinfo", CPUINFO)
                + &file("/proc/cmdline", &format!("{COMMAND_LINE}\n"))
                + &file("/proc/bus/usb/devices - File not found", "")
                + &command(
                    "/sbin/lspci -b",
                    "01:00.0 Ethernet controller: Intel Corporation I350 Gigabit Network Connection (rev 01)\n",
                )
                + &command(
                    "/usr/sbin/hwinfo --all --log=/var/log/scc/hwinfo.txt",
                    "31: PCI 100.0: 0200 Ethernet controller\n  Driver: \"e1000e\"\n",
                )
                + &command("/sbin/lspci -nn", NUMBERS)
                + &command("/sbin/lspci -vvv", DETAILS),
        ),
        (
            "scc_node1_240521/boot.txt",
            head.clone()
                + &command("/bin/uname -a", UNAME)
                + &file("/proc/cmdline", &format!("{COMMAND_LINE}\n"))
                + &command(
                    "/usr/bin/journalctl --boot=0 --no-pager --disk-usage",
                    "Archived and active journals take up 16.0M.\n",
                )
                + &command(
                    "/usr/bin/journalctl --no-pager --list-boot",
                    "-1 0a 2024-05-20\n 0 0b 2024-05-21\n",
                )
                + &command("/usr/bin/journalctl --no-pager --boot=0 --output=short-iso", &journal(21, BOOT))
                + &command(
                    "/usr/bin/journalctl --no-pager --boot=1 --output=short-iso",
                    &journal(20, &earlier_boot()),
                )
                + &command(
                    "/bin/dmesg -T",
                    &dmesg()
                        .lines()
                        .map(|line| format!("[Tue May 21 10:00:00 2024] {}\n", &line[15..]))
                        .collect::<String>(),
                ),
        ),
        (
            "scc_node1_240521/messages.txt",
            head.clone()
                + &section(
                    "Log File",
                    "/var/log/messages - Last 500 Lines",
                    &journal(20, &format!("{EARLIER_FAULT}\n")),
                ),
        ),
        ("scc_node1_240521/messages-20240519.txt", journal(19, &earlier_boot())),
        ("scc_node1_240521/memory.txt", head.clone() + &file("/proc/meminfo", MEMINFO)),
        ("scc_node1_240521/x.txt", head + &section("Log File", "/var/log/Xorg.0.log", X_LOG)),
    ]
}

#[test]
fn supportconfig_of_suse() {
    let host = of_folder(&supportconfig());
    check_log(&host);
    check_details(&host);
    assert!(host.log.file.ends_with("/boot.txt"), "{}", host.log.file);
    assert_eq!(host.platform.distribution.as_ref().unwrap().value, "SUSE Linux Enterprise Server 15 SP6");
    assert_eq!(host.platform.kernel.as_ref().unwrap().value.release, "6.4.0-150600.21-default");
    assert_eq!(host.platform.memory_kib.as_ref().unwrap().value, 65_716_968);
    assert_eq!(host.platform.address_bits.as_ref().unwrap().value, 46);
    let unseen = unseen(&host);
    assert!(unseen.contains("boot.txt (/usr/bin/journalctl --no-pager --boot=1 --output=short-iso): the log of an earlier boot"), "{unseen}");
}

#[test]
fn links_that_supportconfig_lists_are_groups() {
    let links = "lrwxrwxrwx 1 root root 0 2024-05-21 10:10 /sys/kernel/iommu_groups/9/devices/0000:01:00.0 -> ../../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0\n";
    let find = section(
        "Command",
        "/bin/find /sys | sed -e 's/\\\\/\\\\\\\\/g' | xargs ls -ld --time-style=long-iso",
        links,
    );
    let host =
        of_folder(&[("hardware.txt", section("Command", "/sbin/lspci -nn", NUMBERS)), ("sysfs.txt", find)]);
    assert_eq!(host.adapters[0].function.iommu_group.as_ref().unwrap().value, 9);
}

/// A report of nvidia-bug-report.sh, change 37062940 (`append`, `report_file`, `report_command`).
fn nvidia() -> String {
    let rule = "_".repeat(44);
    let command = |heading: &str, body: &str| format!("{rule}\n\n{heading}\n\n{body}\n");
    let file = |path: &str, body: &str| {
        format!(
            "{rule}\n\n*** {path}\n*** ls: -r--r--r-- 1 root root 0 2024-05-21 10:10:00.000000000 +0200 {path}\n{body}\n"
        )
    };
    let head = format!(
        "{rule}\n\nStart of NVIDIA bug report log file.  Please include this file, along\nwith a detailed description of your problem, when reporting a graphics\n\
         driver bug via the NVIDIA Linux forum (see forums.developer.nvidia.com)\n\nDate: Tue May 21 10:10:00 CEST 2024\n\
         uname: Linux node1 6.4.0-150600.21-default #1 SMP x86_64 GNU/Linux\ncommand line flags: \n\n"
    );
    let scanned = format!(
        "  journalctl -b -0:\nMay 21 10:00:00 node1 kernel: NVRM: loading NVIDIA UNIX\n\n  journalctl -b -1:\nMay 20 10:00:00 node1 kernel: {EARLIER_FAULT}\n"
    );
    [
        head,
        format!("{rule}\n\n*** /proc/driver/nvidia/./gpus/0000:01:00.0/power does not exist\n\n"),
        command("journalctl -b -1 _COMM=Xorg", "May 20 10:00:00 node1 /usr/lib/Xorg[900]: (II) x\n"),
        file("/var/log/Xorg.0.log", X_LOG),
        command("/usr/bin/lspci -nntv", "-[0000:00]-+-00.0  Intel Corporation [8086:0c08]\n"),
        command("/usr/bin/lspci -nn", NUMBERS),
        command(
            "/usr/bin/lspci -nnDvvvxxxx",
            &format!("0000:{DETAILS}00: 86 80 21 15 07 04 10 00 01 00 00 02 10 00 80 00\n"),
        ),
        command("Scanning kernel log files for NVIDIA kernel messages:", &scanned),
        command("dmesg:", &dmesg()),
        file("/proc/cmdline", &format!("{COMMAND_LINE}\n")),
        file("/proc/cpuinfo", CPUINFO),
        file("/proc/interrupts", INTERRUPTS),
        file("/proc/meminfo", MEMINFO),
        file("/proc/version", BOOT.lines().next().unwrap()),
        format!("{rule}\n\n*** /proc/pci does not exist\n\n"),
        file("/proc/iomem", IOMEM),
        file("/proc/mtrr", "reg00: base=0x000000000 (    0MB), size=65536MB, count=1: write-back\n"),
        format!("{rule}\n\nEnd of NVIDIA bug report log file.\n"),
    ]
    .concat()
}

#[test]
fn nvidia_bug_report() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(nvidia().as_bytes()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), gzip.finish().unwrap()).unwrap();
    let host = read(file.path()).unwrap();
    check_log(&host);
    check_details(&host);
    assert_eq!(host.log.last_line_of_earlier_boots, None);
    assert_eq!(host.platform.memory_end.as_ref().unwrap().value, 0x10_8000_0000);
    assert_eq!(host.platform.kernel.as_ref().unwrap().value.release, "6.4.0-150600.21-default");
}

#[test]
fn pvereport_of_proxmox() {
    let command = |command: &str, body: &str| format!("\n# {command}\n{body}");
    let report = [
        "\n==== general system info ====\n".to_owned(),
        command("hostname", "pve1\n"),
        command("cat /proc/cmdline", &format!("{COMMAND_LINE}\n")),
        command("pveversion --verbose", "proxmox-ve: 8.2.0 (running kernel: 6.8.12-2-pve)\npve-manager: 8.2.4 (running version: 8.2.4/faa83925c9641325)\n"),
        "\n==== info about virtual guests ====\n".to_owned(),
        command("qm list", "VMID NAME\n"),
        command("cat /etc/pve/qemu-server/100.conf", "args: -append 'root=/dev/sda1 iommu=pt'\n# dmesg of the guest:\nroot=/dev/sda1 iommu=pt quiet\n"),
        "\n==== info about hardware ====\n".to_owned(),
        command("dmidecode -t bios", "# dmidecode 3.4\nBIOS Information\n"),
        command("lspci -nnk", &format!("{NUMBERS}\tSubsystem: Intel Corporation I350-T2 [8086:00a2]\n\tKernel driver in use: vfio-pci\n\tKernel modules: igb\n")),
        "\n==== info about block devices ====\n".to_owned(),
        command("lsblk --ascii", "sda 8:0\n"),
    ]
    .concat();
    let host = of_text(&report);
    check_command_line(&host);
    assert_eq!(host.platform.kernel.as_ref().unwrap().value.release, "6.8.12-2-pve");
    let function = &host.adapters[0].function;
    assert_eq!(
        (function.ids.device, function.driver.as_ref().unwrap().value.as_str()),
        (Some(0x1521), "vfio-pci")
    );
}

#[test]
fn a_probe_of_hw_probe() {
    let files = [
        ("hw.info/logs/dmesg", dmesg()),
        (
            "hw.info/logs/dmesg.1",
            dmesg()
                + &earlier_boot()
                    .lines()
                    .map(|line| format!("[    9.000000] {line}\n"))
                    .collect::<String>()
                    .repeat(3),
        ),
        ("hw.info/logs/lspci_all", details_with_names_and_numbers()),
        ("hw.info/logs/cpuinfo", CPUINFO.to_owned()),
        ("hw.info/logs/meminfo", MEMINFO.to_owned()),
        ("hw.info/logs/interrupts", INTERRUPTS.to_owned()),
        ("hw.info/logs/os-release", "PRETTY_NAME=\"ROSA Fresh 12.4\"\n".to_owned()),
        ("hw.info/logs/uname", "#1 SMP PREEMPT_DYNAMIC Thu May 16 11:09:22 UTC 2024\n".to_owned()),
        ("hw.info/logs/hwinfo", "31: PCI 100.0: 0200 Ethernet controller\n  Driver: \"e1000e\"\n".to_owned()),
        ("hw.info/logs/xorg.log", X_LOG.to_owned()),
        ("hw.info/logs/xorg.log.1", X_LOG.to_owned()),
        ("hw.info/host", "year:2024;\n".to_owned()),
    ];
    let check = |host: &Host| {
        check_log(host);
        check_details(host);
        assert!(host.log.file.ends_with("/logs/dmesg"), "{}", host.log.file);
        assert_eq!(host.platform.memory_kib.as_ref().unwrap().value, 65_716_968);
        assert_eq!(host.platform.distribution.as_ref().unwrap().value, "ROSA Fresh 12.4");
        assert!(unseen(host).contains("dmesg.1 (var/log/dmesg): another text"), "{}", unseen(host));
    };
    let folder = folder(&files);
    check(&read(folder.path()).unwrap());
    // As it is uploaded.
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_dir_all("hw.info", folder.path().join("hw.info")).unwrap();
    let packed = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(packed.path(), archive.into_inner().unwrap()).unwrap();
    check(&read(packed.path()).unwrap());
}

/// Attachments of a bug on Launchpad (apport, hookutils.py: `attach_hardware`), and the bug's text with the short fields.
#[test]
fn attachments_of_apport() {
    let bug = format!(
        "ProblemType: Bug\nDistroRelease: Ubuntu 24.04\nPackage: linux-image-6.8.0\nProcKernelCmdLine: {COMMAND_LINE}\nProcEnviron:\n TERM=xterm-256color\nTags: noble\n"
    );
    let host = of_folder(&[
        ("bug.txt", bug),
        ("CurrentDmesg.txt", dmesg()),
        ("Lspci.txt", details_with_names_and_numbers()),
        ("Lspci-vt.txt", "-[0000:00]---01.0-[01]----00.0  Intel Corporation I350\n".to_owned()),
        ("ProcCpuinfoMinimal.txt", CPUINFO.to_owned()),
        ("ProcInterrupts.txt", INTERRUPTS.to_owned()),
        ("ProcModules.txt", "igb 270336 0 - Live 0x0000000000000000\n".to_owned()),
        ("UdevDb.txt", "P: /devices/pci0000:00/0000:00:01.0/0000:01:00.0\nE: DRIVER=e1000e\n".to_owned()),
        ("acpidump.txt", "DSDT @ 0x0000000000000000\n  0000: 44 53 44 54  DSDT\n".to_owned()),
        ("XorgLog.txt", X_LOG.to_owned()),
    ]);
    check_log(&host);
    check_details(&host);
    assert_eq!(host.platform.address_bits.as_ref().unwrap().value, 46);
}

/// Checks a sosreport with these files, whose kernel log is read from `log`.
fn check_sosreport(log: &str, files: &[(&str, String)]) {
    let mut files = files.to_vec();
    files.push(("proc/cmdline", format!("{COMMAND_LINE}\n")));
    files.push(("sos_commands/kernel/uname_-a", UNAME.to_owned()));
    let host = of_folder(&files);
    assert_eq!(host.log.file, log);
    check_log(&host);
    check_details(&host);
}

/// A kernel log that has lost its beginning.
const WRAPPED: &str = "[ 9000.000000] usb 1-1: new device\n";

/// sosreport 4: plugins `kernel`, `logs` and `pci`.
#[test]
fn sosreports_of_version_4() {
    let earlier = journal(20, &earlier_boot());
    check_sosreport(
        "sos_commands/kernel/dmesg",
        &[
            ("sos_commands/kernel/dmesg", dmesg()),
            ("sos_commands/kernel/dmesg_-T", dmesg()),
            ("sos_commands/logs/journalctl_--no-pager_--boot_-1", earlier.clone()),
            ("sos_commands/pci/lspci_-nnvv", details_with_names_and_numbers()),
            ("sos_commands/pci/lspci_-tv", "-[0000:00]-\n".to_owned()),
            ("var/log/dmesg", earlier_boot()),
        ],
    );
    check_sosreport(
        "sos_commands/logs/journalctl_--no-pager_--boot",
        &[
            ("sos_commands/kernel/dmesg", WRAPPED.to_owned()),
            ("sos_commands/logs/journalctl_--no-pager_--boot", journal(21, BOOT)),
            ("sos_commands/logs/journalctl_--no-pager_--boot_-1", earlier),
            ("sos_commands/pci/lspci_-nnvv", details_with_names_and_numbers()),
        ],
    );
}

/// sosreport 3.3 to 3.9 print the journal's catalog as well; 3.0 to 3.2 have other options, and lspci without names.
#[test]
fn sosreports_of_version_3() {
    let earlier = journal(20, &earlier_boot());
    check_sosreport(
        "sos_commands/logs/journalctl_--no-pager_--catalog_--boot",
        &[
            ("sos_commands/kernel/dmesg", WRAPPED.to_owned()),
            ("sos_commands/logs/journalctl_--no-pager_--catalog_--boot", journal(21, BOOT)),
            ("sos_commands/logs/journalctl_--no-pager_--catalog_--boot_-1", earlier),
            ("sos_commands/pci/lspci_-nnvv", details_with_names_and_numbers()),
        ],
    );
    check_sosreport(
        "sos_commands/logs/journalctl_--all_--this-boot_--no-pager",
        &[
            ("sos_commands/kernel/dmesg", WRAPPED.to_owned()),
            ("sos_commands/logs/journalctl_--all_--this-boot_--no-pager", journal(21, BOOT)),
            ("sos_commands/pci/lspci", NAMES.to_owned()),
            ("sos_commands/pci/lspci_-nvv", details_with_numbers()),
        ],
    );
}

/// sosreport 2.2 of RHEL 6: `general` saves dmesg, `hardware` two outputs of lspci in one file.
#[test]
fn sosreports_of_version_2() {
    check_sosreport(
        "sos_commands/general/dmesg_now",
        &[
            ("sos_commands/general/dmesg_now", dmesg()),
            ("var/log/dmesg", dmesg()),
            (
                "sos_commands/hardware/lspci",
                format!("lspci:\n\n{NAMES}\nlspci -nvv:\n\n{}", details_with_numbers()),
            ),
        ],
    );
}

#[test]
fn a_captured_journal_holds_no_messages_of_programs() {
    let folder = folder(&[
        ("proc/cmdline", format!("{COMMAND_LINE}\n")),
        ("sos_commands/logs/journalctl_--no-pager_--boot", journal(21, BOOT)),
    ]);
    let tree = host::tree::Tree::open(folder.path()).unwrap();
    let first = Host::read(&tree);
    let mut saved = Vec::new();
    tree.save(&mut saved, &mut host::redact::Redactor::of_secrets()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), saved).unwrap();
    let again = host::tree::Tree::open(file.path()).unwrap();
    let journal = again.text("sos_commands/logs/journalctl_--no-pager_--boot").unwrap();
    assert!(!journal.body().contains("Server listening"), "{}", journal.body());
    assert_eq!(
        Host::read(&again).log.default_passthrough.unwrap().value,
        first.log.default_passthrough.unwrap().value
    );
}

#[test]
fn a_log_without_times_reaches_back_to_the_boot() {
    check_log(&of_text(BOOT));
    let asked = of_text(&format!("This is my log:\n\nuser@host:~$ dmesg -t\n{BOOT}user@host:~$ \n"));
    assert!(asked.log.covers_boot && asked.log.faults.is_empty());
    // An excerpt in prose reaches back, and does not cover the boot.
    let excerpt: String = BOOT.lines().take(2).map(|line| format!("{line}\n")).collect();
    let quoted = of_text(&format!("hello\n\n{excerpt}\nbye\n"));
    assert!(quoted.log.complete_from_boot && !quoted.log.covers_boot);
}

#[test]
fn of_several_boots_the_last_one_gives_version_and_command_line() {
    let old = earlier_boot().replace("6.4.0-150600.21", "5.14.21-150500.55");
    let host = of_text(&(journal(20, &old) + &journal(21, BOOT)));
    check_log(&host);
    assert_eq!(host.platform.kernel.as_ref().unwrap().value.release, "6.4.0-150600.21-default");
    assert!(host.log.last_line_of_earlier_boots.is_some());
}

#[test]
fn folders_deeper_than_texts_are_looked_for_are_listed() {
    let host = of_folder(&[("dmesg", dmesg()), ("a/b/c/d/dmesg", dmesg()), ("a/b/c/e/dmesg", dmesg())]);
    let unseen = unseen(&host);
    assert!(unseen.contains("/a/b/c/d and 1 more files: deeper than the 3 folders"), "{unseen}");
    assert_eq!(host.doubts().count(), 0);
}

#[test]
fn a_listing_of_another_host_beside_a_capture_is_refused() {
    let capture = folder(&[
        ("proc/cmdline", format!("{COMMAND_LINE}\n")),
        ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n".to_owned()),
        ("sys/bus/pci/devices/0000:01:00.0/device", "0x1b80\n".to_owned()),
    ]);
    let texts = folder(&[("lspci.txt", NUMBERS.to_owned())]);
    let error = host_of(&[capture.path(), texts.path()], None).unwrap_err().to_string();
    assert!(
        error.contains("0000:01:00.0 is 8086:1521 in line 1 and 10de:1b80 in the capture beside it"),
        "{error}"
    );
}

#[test]
fn reports_without_pci_are_refused_or_say_nothing() {
    let inxi = "System:\n  Host: node1 Kernel: 6.4.0 arch: x86_64\nNetwork:\n  Device-1: Intel I350 driver: igb v: kernel bus-ID: 01:00.0\n";
    let lshw = "node1\n    description: Computer\n  *-network\n       description: Ethernet interface\n       bus info: pci@0000:01:00.0\n       configuration: driver=igb\n";
    for text in [inxi, lshw] {
        let folder = folder(&[("report.txt", text.to_owned())]);
        if let Ok(host) = read(folder.path()) {
            assert!(host.adapters.iter().all(|adapter| adapter.function.driver.is_none()), "{text}");
        }
    }
}
