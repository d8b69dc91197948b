//! Files of a host with contents that no kernel writes.

use super::case::Case;
use super::host::Host;

const DEVICE: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";

/// What stands in for any text.
const TEXTS: [(&str, &str); 8] = [
    ("escape sequences", "\x1b[2J\x1b]0;hostile\x07\x1b[31mred\x1bc"),
    ("controls of one byte", "\u{9b}31m\u{9d}0;x\u{9c}\u{85}\u{90}"),
    ("direction marks", "\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}\u{2028}x\u{2029}"),
    ("mark-up", "<hostile a=\"'>\" onhostile=\"1\"<script>hostile</script>&lt;"),
    ("a shell's words", "$(touch${IFS}HOSTILE)`touch${IFS}HOSTILE`;touch${IFS}HOSTILE'"),
    ("a terminal's line editing", "x\x08\x08\x7f\r\x0b\x0cHOSTILE\t"),
    ("NUL", "a\0b\0"),
    ("numbers without end", "99999999999999999999999999999999999999999999999"),
];

/// Files that an inspection reads as text.
const FILES: [&str; 33] = [
    "proc/cmdline",
    "proc/version",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/iomem",
    "proc/mtrr",
    "proc/interrupts",
    "proc/bus/pci/devices",
    "var/log/dmesg",
    "sos_commands/pci/lspci_-nnvv",
    "etc/os-release",
    "usr/share/hwdata/pci.ids",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/distance",
    "sys/kernel/debug/x86/pat_memtype_list",
    "sys/kernel/debug/swiotlb/io_tlb_nslabs",
    "sys/kernel/iommu_groups/1/type",
    "sys/kernel/iommu_groups/1/reserved_regions",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/vendor",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/device",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/class",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/dma_mask_bits",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/numa_node",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/local_cpulist",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_speed",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/max_link_width",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/sriov_numvfs",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/virtio0/features",
    "sys/firmware/devicetree/base/model",
    "proc/powerpc/lparcfg",
    "sys/bus/pci/slots/1/address",
];

pub(crate) fn cases() -> Vec<Case> {
    let mut all = texts();
    all.extend(numbers());
    all.extend(tables());
    all.extend(large());
    all
}

fn case(name: impl Into<String>, host: impl Fn(Host) -> Host + Send + Sync + 'static) -> Case {
    Case::archive("contents", name, move || host(Host::plain()).archive())
}

/// Each text in every file at once, as all of it, behind what is there, and before it.
fn texts() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, text) in TEXTS {
        for (how, whole) in [("everywhere", true), ("behind each file", false)] {
            all.push(case(format!("{name} {how}"), move |host| {
                FILES.iter().fold(host.clone(), |changed, path| {
                    let known = host.0.iter().find(|(known, _)| known == path);
                    let known = match known {
                        Some((_, super::host::Thing::File(bytes))) if !whole => {
                            String::from_utf8_lossy(bytes).trim_end().to_owned()
                        }
                        _ => String::new(),
                    };
                    changed.file(path, format!("{known} {text}\n"))
                })
            }));
        }
    }
    for path in ["proc/cmdline", "proc/version", "var/log/dmesg", "etc/os-release"] {
        all.push(case(format!("no UTF-8 in {path}"), move |host| {
            host.file(
                path,
                b"Linux version 6.1.0 \xff\xfe\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80 iommu=\xff\n".repeat(50),
            )
        }));
        all.push(case(format!("nothing in {path}"), move |host| host.file(path, "")));
    }
    all
}

/// Numbers and lists.
fn numbers() -> Vec<Case> {
    let mut all = Vec::new();
    let lists = [
        "0-4294967295",
        "4294967295-0",
        "0-18446744073709551615",
        "1,".repeat(20_000).leak(),
        "0-7:99999999999999999999/1",
        "-5--1",
    ];
    for list in lists {
        all.push(case(format!("CPUs {}", &list[..list.len().min(30)]), move |host| {
            let host = host.file("sys/devices/system/node/node0/cpulist", list);
            let host = host.file("sys/devices/system/node/node1/cpulist", list);
            let host = host.file(&format!("{DEVICE}/local_cpulist"), list).file(&format!("{DEVICE}/numa_node"), "1\n");
            let host = host.file(&format!("{DEVICE}/msi_irqs/24"), "msix\n");
            host.file("proc/irq/24/effective_affinity_list", list).file(
                "proc/interrupts",
                "           CPU0       CPU1\n 24:  18446744073709551615  18446744073709551615  PCI-MSI nvme0q1\n",
            )
        }));
    }
    for number in [
        "0",
        "-1",
        "18446744073709551615",
        "18446744073709551616",
        "0xffffffffffffffff",
        "1e308",
        "nan",
        "",
        " ",
        "\u{0664}",
    ] {
        all.push(case(format!("every number is {number:?}"), move |mut host| {
            let names = [
                "dma_mask_bits",
                "consistent_dma_mask_bits",
                "numa_node",
                "current_link_width",
                "max_link_width",
                "sriov_numvfs",
                "irq",
                "vendor",
                "device",
                "class",
                "subsystem_vendor",
                "subsystem_device",
            ];
            for name in names {
                host = host.file(&format!("{DEVICE}/{name}"), number);
            }
            for name in ["io_tlb_nslabs", "io_tlb_used", "io_tlb_used_hiwater"] {
                host = host.file(&format!("sys/kernel/debug/swiotlb/{name}"), number);
            }
            let memory = format!("MemTotal:       {number} kB\n");
            let host = host
                .file("proc/meminfo", memory.clone())
                .file("sys/devices/system/node/node0/meminfo", memory);
            let host = host.file("sys/devices/system/memory/block_size_bytes", number);
            host.file("sys/devices/system/node/node0/distance", number)
        }));
    }
    for words in [
        "swiotlb=4294967295,force",
        "swiotlb=18446744073709551616",
        "memmap=0xffffffffffffffff$0xffffffffffffffff",
        "memmap=16E!16E",
        "memmap=64K$18446744073709551615",
        "iommu.strict=",
        "intel_iommu=,,,,,,,,",
        "iommu=\"",
        "\"\"\"\"\"\"",
        "-- -- --",
        "disable_ddw=x=y=z",
        "pci=resource_alignment=99999999999@pci:ffffffff:ffffffff",
        "iommu=pt iommu=off iommu=force iommu=soft iommu=noforce",
        "mem=-1",
        "numa=fake=4294967295",
    ] {
        all.push(case(format!("command line {words}"), move |host| {
            host.file("proc/cmdline", format!("BOOT_IMAGE=/x ro {words} intel_iommu=on,strict\n"))
        }));
    }
    all
}

/// Tables and registers.
fn tables() -> Vec<Case> {
    let x86 = || Host::rule("memmap-split-by-mtrr");
    let with = |name: &str, host: fn() -> Host, path: &'static str, content: String| {
        Case::archive("contents", name.to_owned(), move || host().file(path, content.clone()).archive())
    };
    let iomem = |lines: &[(u64, u64)]| -> String {
        lines.iter().map(|(first, last)| format!("{first:016x}-{last:016x} : System RAM\n")).collect()
    };
    let max = u64::MAX;
    let mut all = vec![
        with("a memory map up to 2^64", x86, "proc/iomem", iomem(&[(0, max), (max, max), (1, max - 1)])),
        with(
            "a memory map that overlaps",
            x86,
            "proc/iomem",
            iomem(&[(0, 1 << 40), (1 << 20, 1 << 41), (0, 1 << 39)]),
        ),
        with("a memory map that goes backwards", x86, "proc/iomem", iomem(&[(max, 0), (5, 4), (1 << 63, 1)])),
        with(
            "a memory map of other digits",
            x86,
            "proc/iomem",
            "zzzz-\u{1b}[2J : System RAM\n-- : <hostile>\n".repeat(100),
        ),
        with(
            "a memory map in 2,000 levels",
            x86,
            "proc/iomem",
            (0..2000).map(|n| format!("{}00-ff : System RAM\n", " ".repeat(n))).collect(),
        ),
        with(
            "MTRRs that are none",
            x86,
            "proc/mtrr",
            "reg00: base=0xffffffffffffffff (-1MB), size=99999999999999999999MB: \u{1b}[2J, count=-1\n"
                .repeat(50),
        ),
        with(
            "MTRRs of size 0",
            x86,
            "proc/mtrr",
            "reg00: base=0x0 (   0MB), size=   0MB: write-back, count=0\n".repeat(8),
        ),
        with(
            "MTRRs up to 2^64",
            x86,
            "proc/mtrr",
            "reg00: base=0xfffffffffffff000 (0MB), size=18446744073709551615kB: uncachable, count=1\n"
                .to_owned(),
        ),
        with(
            "10,000 MTRRs",
            x86,
            "proc/mtrr",
            (0..10_000)
                .map(|n| format!("reg{n}: base=0x{:x} (0MB), size=   1MB: write-back, count=1\n", n << 20))
                .collect(),
        ),
        with(
            "100,000 areas of memmap=",
            x86,
            "proc/cmdline",
            (0..100_000_u64).map(|n| format!("memmap=64K${} ", n << 17)).collect(),
        )
        .heavy(),
        with("configuration space of 255", Host::plain, "proc/bus/pci/01/00.0", "\u{7f}".repeat(4096)),
        with("lspci of a hostile bus", Host::plain, "sos_commands/pci/lspci_-nnvv", LSPCI.repeat(20)),
        with(
            "lspci with 4 MiB in a line",
            Host::plain,
            "sos_commands/pci/lspci_-nnvv",
            format!(
                "01:00.0 Class [0108]: {} [144d:a80a]\n\tLnkSta: {}\n",
                "A".repeat(2 << 20),
                "B".repeat(2 << 20)
            ),
        ),
        with(
            "lspci of 100,000 functions",
            Host::plain,
            "sos_commands/pci/lspci_-nnvv",
            (0..100_000)
                .map(|n| {
                    format!(
                        "{:04x}:{:02x}:{:02x}.{} Non-Volatile memory controller [0108]: x [144d:a80a]\n\n",
                        n >> 16,
                        n >> 8 & 255,
                        n >> 3 & 31,
                        n & 7
                    )
                })
                .collect(),
        )
        .heavy(),
        with(
            "a reserved region up to 2^64",
            Host::plain,
            "sys/kernel/iommu_groups/1/reserved_regions",
            "0x0000000000000000 0xffffffffffffffff direct\n0xffffffffffffffff 0x0 \u{1b}[2J\n".repeat(100),
        ),
    ];
    for (name, byte) in [("zeros", 0_u8), ("255", 255), ("a pointer to itself", 0x40)] {
        all.push(case(format!("configuration space of {name}"), move |host| {
            let mut bytes = vec![byte; 4096];
            bytes[..4].copy_from_slice(&[0x4d, 0x14, 0x0a, 0xa8]);
            bytes[6] = 0x10;
            host.file(&format!("{DEVICE}/config"), bytes.clone())
                .file("sys/devices/pci0000:00/0000:00:01.0/config", bytes)
        }));
    }
    for length in [1, 3, 63, 65, 255, 257, 4095, 1 << 20] {
        all.push(case(format!("configuration space of {length} bytes"), move |host| {
            host.file(&format!("{DEVICE}/config"), (0..length).map(|n| (n * 7) as u8).collect::<Vec<_>>())
        }));
    }
    let power = |name: &str, path: &'static str, bytes: Vec<u8>| {
        Case::archive("contents", name.to_owned(), move || {
            Host::rule("power-maximum-4-tb").file(path, bytes.clone()).archive()
        })
    };
    let base = "sys/firmware/devicetree/base/ibm,dynamic-reconfiguration-memory";
    let memory = "sys/firmware/devicetree/base/ibm,dynamic-reconfiguration-memory/ibm,dynamic-memory";
    let version_2 = "sys/firmware/devicetree/base/ibm,dynamic-reconfiguration-memory/ibm,dynamic-memory-v2";
    let _ = base;
    all.extend([
        power("device tree: memory of 2^32 blocks", memory, vec![0xff; 64]),
        power("device tree: memory of a count without blocks", memory, vec![0xff, 0xff, 0xff, 0xff]),
        power("device tree: memory, version 2, of 255", version_2, vec![0xff; 4096]),
        power("device tree: memory, version 2, cut off", version_2, vec![0, 0, 0, 9, 0]),
        power(
            "device tree: a window of 255",
            "sys/firmware/devicetree/base/pci@1/ibm,dma-window",
            vec![0xff; 20],
        ),
        power(
            "device tree: a model that steers a terminal",
            "sys/firmware/devicetree/base/model",
            b"IBM,\x1b[2J\xc2\x9b<hostile>\0".to_vec(),
        ),
        power(
            "device tree: a version of firmware without end",
            "sys/firmware/devicetree/base/openprom/ibm,fw-vernum_encoded",
            vec![b'A'; 1 << 20],
        ),
        power(
            "device tree: a location code of escape sequences",
            "sys/firmware/devicetree/base/pci@1/ethernet@0/ibm,loc-code",
            b"U78\x1b[2J-P1-C\xe2\x80\xae\0".to_vec(),
        ),
    ]);
    all
}

const LSPCI: &str = "\
ffff:ff:1f.7 \u{1b}[2J<hostile> [ffff]: $(touch HOSTILE) [ffff:ffff] (rev ff) (prog-if ff [\u{202e}])
\tCapabilities: [40] Express (v99) Endpoint, MSI 00
\t\tLnkCap:\tPort #4294967296, Speed 99999GT/s, Width x4294967295, ASPM \u{7}
\t\tLnkSta:\tSpeed nan, Width x-1
\tKernel driver in use: \u{1b}]0;x\u{7}
00: ff ff ff ff zz
fff: 00
";

/// Files of many megabytes, and of many lines.
fn large() -> Vec<Case> {
    let case = |name: &str, host: fn(Host) -> Host| case(name.to_owned(), host).heavy();
    vec![
        case("a kernel log of one line of 60 MiB", |host| host.file("var/log/dmesg", vec![b'A'; 60 << 20])),
        case("a kernel log of 400,000 faults", |host| {
            host.file("var/log/dmesg", (0..400_000_u32).map(|n| fault(n, 0x0300)).collect::<String>())
        }),
        case("a kernel log of faults of 65,536 adapters", |host| {
            host.file("var/log/dmesg", (0..65_536_u32).map(|n| fault(n, n)).collect::<String>())
        }),
        case("a kernel log of 400,000 full bounce buffers", |host| {
            let line = |n: u32| {
                format!(
                    "[{n:5}.000000] nvme 0000:01:00.0: swiotlb buffer is full (sz: {n} bytes), total 32768 (slots), used {n} (slots)\n"
                )
            };
            host.file("var/log/dmesg", (0..400_000).map(line).collect::<String>())
        }),
        case("a kernel log of 30 million empty lines", |host| {
            host.file("var/log/dmesg", vec![b'\n'; 30 << 20])
        }),
        case("a kernel log of 20 MiB of escape sequences", |host| {
            host.file("var/log/dmesg", b"\x1b[2J\x1b[31m DMAR: [DMA Read] ".repeat(700_000))
        }),
        case("a kernel log of 100,000 memory types", |host| {
            let line = |n: u32| {
                format!(
                    "[{n:5}.000000] x86/PAT: x:{n} conflicting memory types {:x}-{:x} uncached-minus<->write-combining\n",
                    n << 12,
                    (n << 12) + 4096
                )
            };
            host.file("var/log/dmesg", (0..100_000).map(line).collect::<String>())
        }),
        case("a command line of 4 MiB of options", |host| host.file("proc/cmdline", "a=1 ".repeat(1 << 20))),
        case("a command line of 1 MiB of known options", |host| {
            host.file("proc/cmdline", "iommu=pt intel_iommu=on,strict swiotlb=1 ".repeat(25_000))
        }),
        case("a command line of 16 MiB in a word", |host| host.file("proc/cmdline", vec![b'x'; 16 << 20])),
        case("interrupts of 4,096 CPUs in 20,000 lines", |host| {
            let line = |n: u32| format!("{n:4}: {} PCI-MSI nvme0q{n}\n", "1 ".repeat(100));
            host.file(
                "proc/interrupts",
                "           CPU0 ".to_owned()
                    + &"CPU1 ".repeat(99)
                    + "\n"
                    + &(0..20_000).map(line).collect::<String>(),
            )
        }),
        case("a memory map of 300,000 ranges", |_| {
            let line = |n: u64| format!("{:016x}-{:016x} : System RAM\n", n << 20, (n << 20) + 0xffff);
            Host::rule("memmap-split-by-mtrr").file("proc/iomem", (0..300_000).map(line).collect::<String>())
        }),
        case("a list of 300,000 mappings", |_| {
            let line = |n: u64| {
                format!("PAT: [mem 0x{:016x}-0x{:016x}] write-combining\n", n << 16, (n << 16) + 0x1000)
            };
            Host::rule("memmap-split-by-mtrr")
                .file("sys/kernel/debug/x86/pat_memtype_list", (0..300_000).map(line).collect::<String>())
        }),
        case("60 MiB of pci.ids", |host| {
            host.file(
                "usr/share/hwdata/pci.ids",
                "144d  Hostile\n\ta80a  Hostile\n\t\t1234 5678  Hostile\n".repeat(1_000_000),
            )
        }),
        case("60 MiB of /proc/bus/pci/devices", |host| {
            host.file(
                "proc/bus/pci/devices",
                "0100\t144da80a\t18\tfe000004\t0\t0\t0\t0\t0\t0\t4000\t0\t0\t0\t0\t0\t0\tnvme\n"
                    .repeat(800_000),
            )
        }),
        case("60 MiB of /proc/cpuinfo", |host| {
            host.file("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n".repeat(1_300_000))
        }),
        case("60 MiB of os-release", |host| {
            host.file("etc/os-release", "ID=\"x\"\nVERSION_ID='9'\n".repeat(2_500_000))
        }),
        case("60 MiB of lspci", |host| host.file("sos_commands/pci/lspci_-nnvv", LSPCI.repeat(120_000))),
    ]
}

fn fault(n: u32, requester: u32) -> String {
    let (bus, device, function) = (requester >> 8 & 255, requester >> 3 & 31, requester & 7);
    format!(
        "[{n:5}.000000] DMAR: [DMA Read] Request device [{bus:02x}:{device:02x}.{function}] fault addr {:x} [fault reason 06] PTE Read access is not set\n",
        u64::from(n) << 12
    )
}
