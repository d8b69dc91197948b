//! Archives: names, links, members and sizes that no honest one has, and what they are packed in.

use super::case::Case;
use super::host::Host;
use super::promises::SECRET;
use super::tar::{BLOCK, end, file, header, link, long, member, pax, pax_raw, summed, with};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

pub(crate) fn cases() -> Vec<Case> {
    [names(), links(), members(), sizes(), sparse(), extended(), cut(), packed(), many()]
        .into_iter()
        .flatten()
        .collect()
}

/// A whole host with this before it.
fn before(bytes: Vec<u8>) -> Vec<u8> {
    [bytes, Host::plain().archive()].concat()
}

/// A whole host with this behind it.
fn behind(bytes: Vec<u8>) -> Vec<u8> {
    [Host::plain().members(), bytes, end()].concat()
}

fn names() -> Vec<Case> {
    let case = |name: &str, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        Case::archive("names", name, move || behind(file(&bytes, b"1\n")))
    };
    let deep = |levels: usize| "d/".repeat(levels) + "f";
    let mut all = vec![
        case("escape sequences", b"proc/\x1b[2J\x1b]0;hostile\x07"),
        case("escape sequences of one byte, as UTF-8", "proc/\u{9b}31m\u{9d}0;x\u{9c}".as_bytes()),
        case("escape sequences of one byte, alone", b"proc/\x9b31m"),
        case("right to left", "proc/\u{202e}gpj.exe\u{2066}".as_bytes()),
        case("line ends", b"proc/a\nb\r\nc"),
        case("a mark-up element", b"proc/<script>hostile</script><hostile a=\"'>"),
        case("no UTF-8", b"proc/\xff\xfe\xc0\x80\xed\xa0\x80"),
        case("upwards", b"../../../../../../tmp/HOSTILE"),
        case("upwards in the middle", b"proc/../../../etc/HOSTILE"),
        case("upwards at the end", b"proc/.."),
        case("absolute", b"/tmp/HOSTILE"),
        case("absolute into the host", b"/proc/cmdline"),
        case("only slashes", b"////"),
        case("only dots", b"././././."),
        case("empty", b""),
        case("of a device of Windows", b"C:\\proc\\cmdline"),
        case("blanks", b"proc/   "),
        case("a shell's words", b"proc/$(touch HOSTILE);`touch HOSTILE`"),
        case("100 bytes, with no NUL behind", &[b'n'; 100]),
        case("4095 bytes", &[b'n'; 4095]),
        case("4096 bytes", &[b'n'; 4096]),
        case("4097 bytes", &[b'n'; 4097]),
        case("64 KiB", &[b'n'; 64 << 10]),
        case("1 MiB", &[b'n'; 1 << 20]),
        case("64 KiB of escape sequences", &b"\x1b[31m".repeat(13_000)),
        case("2,000 folders deep", deep(2000).as_bytes()),
        case("2,000 folders deep in /sys", ("sys/devices/".to_owned() + &deep(2000)).as_bytes()),
        case("50,000 folders deep", deep(50_000).as_bytes()),
    ];
    all.push(Case::archive("names", "upwards in the root of a link", || {
        behind([link(b"proc/x", b"../../../.."), file(b"proc/x/HOSTILE", b"1")].concat())
    }));
    all.push(Case::archive("names", "twice, with other content", || {
        behind(
            [file(b"proc/cmdline", b"a"), file(b"proc/cmdline", b"iommu=pt"), file(b"./proc//cmdline", b"b")]
                .concat(),
        )
    }));
    all.push(Case::archive("names", "a file, then a folder", || {
        behind([file(b"proc/x", b"a"), file(b"proc/x/y", b"b"), member(b'5', b"proc/x", b"", b"")].concat())
    }));
    all.push(Case::archive("names", "a folder, then a file", || {
        behind([member(b'5', b"sys/bus/pci/", b"", b""), file(b"sys/bus/pci", b"b")].concat())
    }));
    all.push(Case::archive("names", "/proc is a file", || before(file(b"proc", b"a"))));
    all.push(Case::archive("names", "/sys is a file", || behind(file(b"sys", b"a"))));
    all.push(Case::archive("names", "two hosts side by side", || {
        [
            file(b"one/proc/version", b"Linux version 6.1.0"),
            file(b"two/proc/version", b"Linux version 6.2.0"),
            end(),
        ]
        .concat()
    }));
    all.push(Case::archive("names", "64 hosts side by side", || {
        let host = |n: u32| file(format!("{n}/proc/version").as_bytes(), b"Linux version 6.1.0");
        [(0..64).flat_map(host).collect(), end()].concat()
    }));
    all.push(Case::archive("names", "the folder above the host steers terminals", || {
        [file(b"\x1b[2J<hostile>/proc/version", b"Linux version 6.1.0 (x86_64)"), end()].concat()
    }));
    all.push(Case::archive("names", "devices with hostile addresses", || {
        let names =
            ["0000:00:00.8", "ffff:ff:1f.7", "10000:00:00.0", "0000:00:0\u{1b}[2J.0", "-1:00:00.0", "..."];
        let link = |name: &&str| {
            link(
                format!("sys/bus/pci/devices/{name}").as_bytes(),
                b"../../../devices/pci0000:00/0000:00:01.0",
            )
        };
        behind(names.iter().flat_map(link).collect())
    }));
    all
}

fn links() -> Vec<Case> {
    let case = |name: &str, path: &str, target: &str| {
        let (path, target) = (path.to_owned(), target.to_owned());
        Case::archive("links", name, move || behind(link(path.as_bytes(), target.as_bytes())))
    };
    let mut all = vec![
        case("to itself", "proc/cmdline", "cmdline"),
        case("to an absolute file", "proc/cmdline", "/etc/shadow"),
        case("out of the archive", "proc/cmdline", "../../../../../../etc/shadow"),
        case("to standard input", "proc/cmdline", "/proc/self/fd/0"),
        case("to endless zeros", "proc/cmdline", "/dev/zero"),
        case("to the terminal", "proc/cmdline", "/dev/tty"),
        case("to nothing", "proc/cmdline", ""),
        case("to a folder", "proc/cmdline", "/sys"),
        case("to the root", "sys/bus/pci/devices", "/"),
        case("the root in itself", "sys/sys", ".."),
        case("/proc is one to /sys", "proc", "sys"),
        case("a target of 64 KiB", "proc/cmdline", &"a/".repeat(32 << 10)),
        case("a target of 4,000 steps up and down", "proc/cmdline", &"../proc/".repeat(4000)),
        case("a target with escape sequences", "proc/cmdline", "\x1b[2J\u{202e}<hostile>"),
        case("a driver with escape sequences", DRIVER, "../../\x1b[2J\x1b]0;x\x07"),
        case("a driver with line ends", DRIVER, "../../nvme\nHOSTILE\n"),
        case("a driver with mark-up", DRIVER, "../../<hostile>\" onhostile=\"1"),
        case("a driver that is a path upwards", DRIVER, "../../.."),
        case("a driver of 4 KiB", DRIVER, &"n".repeat(4096)),
        case("a group of no number", GROUP, "../../../../kernel/iommu_groups/-1"),
        case("a group of a number too large", GROUP, "../../../../kernel/iommu_groups/99999999999999999999"),
        case("a device that is its own parent", "sys/bus/pci/devices/0000:01:00.0", "0000:01:00.0"),
        case("a device without a folder", "sys/bus/pci/devices/0000:05:00.0", "../../../devices/nowhere"),
    ];
    for length in [2, 39, 40, 41, 1000] {
        all.push(Case::archive("links", format!("a chain of {length}"), move || {
            let step = |n: usize| link(format!("proc/l{n}").as_bytes(), format!("l{}", n + 1).as_bytes());
            let chain: Vec<u8> = (0..length).flat_map(step).collect();
            behind(
                [link(b"proc/cmdline", b"l0"), chain, file(format!("proc/l{length}").as_bytes(), b"quiet")]
                    .concat(),
            )
        }));
    }
    all.push(Case::archive("links", "a loop of two", || {
        behind([link(b"proc/cmdline", b"b"), link(b"proc/b", b"cmdline")].concat())
    }));
    all.push(Case::archive("links", "each names the next twice", || {
        let step = |n: usize| link(format!("proc/d{n}").as_bytes(), format!("d{0}/d{0}", n + 1).as_bytes());
        behind([link(b"proc/cmdline", b"d0/d0"), (0..40).flat_map(step).collect()].concat())
    }));
    all.push(Case::archive("links", "through a link out of the archive", || {
        behind(
            [
                link(b"sys/out", b"/"),
                file(b"sys/out/tmp/HOSTILE", b"1"),
                link(b"proc/cmdline", b"/sys/out/etc/shadow"),
            ]
            .concat(),
        )
    }));
    for (name, target) in [
        ("to nothing", "proc/nothing"),
        ("to itself", "proc/hard"),
        ("upwards", "../../etc/shadow"),
        ("absolute", "/etc/shadow"),
        ("empty", ""),
        ("to a folder", "sys"),
    ] {
        all.push(Case::archive("links", format!("hard, {name}"), move || {
            behind(
                [member(b'1', b"proc/hard", target.as_bytes(), b""), link(b"proc/cmdline", b"hard")].concat(),
            )
        }));
    }
    all.push(Case::archive("links", "hard, with data", || {
        behind(member(b'1', b"proc/hard", b"proc/cmdline", SECRET.as_bytes()))
    }));
    all
}

const DEVICE: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
const DRIVER: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/driver";
const GROUP: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/iommu_group";

/// Members of every kind where a file should be.
fn members() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, kind) in [
        ("a FIFO", b'6'),
        ("a character device", b'3'),
        ("a block device", b'4'),
        ("a contiguous file", b'7'),
        ("a folder", b'5'),
        ("a file of an old archive", 0),
        ("a dump folder (GNU)", b'D'),
        ("a continued file (GNU)", b'M'),
        ("a volume's name (GNU)", b'V'),
        ("a list of names (GNU)", b'N'),
        ("a sparse file without a map (GNU)", b'S'),
        ("a Solaris attribute", b'X'),
        ("an inode (Solaris)", b'I'),
        ("an access list (Solaris)", b'A'),
        ("of a kind that there is not", b'~'),
        ("of a kind that is no ASCII", 0xff),
    ] {
        all.push(Case::archive("members", format!("{name} in place of a file"), move || {
            behind(
                [b"proc/cmdline".as_slice(), b"proc/version", b"sys/class/iommu"]
                    .iter()
                    .flat_map(|path| member(kind, path, b"", b""))
                    .collect(),
            )
        }));
        all.push(Case::archive("members", format!("{name} with data"), move || {
            behind(member(kind, b"proc/cmdline", b"proc/version", b"iommu=pt"))
        }));
    }
    all
}

/// Sizes, checksums and numbers.
fn sizes() -> Vec<Case> {
    let plain = || header(b'0', b"proc/meminfo", b"", 8);
    let case = |name: &str, at: usize, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        let name = name.to_owned();
        Case::archive("sizes", name, move || {
            behind([with(plain(), at, &bytes).to_vec(), vec![b'1'; BLOCK]].concat())
        })
    };
    let base_256 = |first: u8, number: u64| {
        let mut bytes = [0; 12];
        bytes[0] = first;
        bytes[4..].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    let mut all = vec![
        case("negative in octal digits", 124, b"-0000000010\0"),
        case("no digits", 124, b"\x1b[2J\x1b[2J\x1b[2"),
        case("blanks", 124, b"            "),
        case("all NUL", 124, &[0; 12]),
        case("digits beyond 7", 124, b"99999999999\0"),
        case("the largest in octal digits", 124, b"77777777777\0"),
        case("12 digits, with no NUL behind", 124, b"777777777777"),
        case("base 256, 2^63 - 1", 124, &base_256(0x80, u64::MAX >> 1)),
        case("base 256, 2^63", 124, &base_256(0x80, 1 << 63)),
        case("base 256, 2^64 - 1", 124, &base_256(0x80, u64::MAX)),
        case("base 256, 2^64 - 512", 124, &base_256(0x80, u64::MAX - 511)),
        case("base 256, beyond 64 bits", 124, &[0xbf, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]),
        case("base 256, negative", 124, &[0xff; 12]),
        case("base 256, 1 GiB", 124, &base_256(0x80, 1 << 30)),
        case("base 256, 1 GiB and a byte", 124, &base_256(0x80, (1 << 30) + 1)),
        case("base 256, 64 TiB", 124, &base_256(0x80, 64 << 40)),
        case("a mode of no digits", 100, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        case("a time of 2^63", 136, &base_256(0x80, 1 << 63)),
        case("a link's count of devices", 329, b"99999999"),
        case("a magic of an older form", 257, b"ustar  \0"),
        case("a magic of no form", 257, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        case("a name in two parts", 345, b"../../../../tmp"),
    ];
    let wrong = |name: &str, change: fn(&mut [u8; BLOCK])| {
        Case::archive("sizes", name.to_owned(), move || {
            let mut header = plain();
            change(&mut header);
            behind([header.to_vec(), vec![b'1'; BLOCK]].concat())
        })
    };
    all.extend([
        wrong("a wrong checksum", |header| header[0] ^= 1),
        wrong("a checksum of no digits", |header| header[148..156].fill(b'x')),
        wrong("a checksum of NUL", |header| header[148..156].fill(0)),
        wrong("a checksum of the largest number", |header| header[148..156].fill(b'7')),
        wrong("all bytes 255", |header| header.fill(255)),
    ]);
    all.push(Case::archive("sizes", "a checksum with signed bytes", || {
        let mut bytes = header(b'0', b"proc/\xff\xff", b"", 0);
        bytes[148..156].fill(b' ');
        let sum: i32 = bytes.iter().map(|byte| i32::from(*byte as i8)).sum();
        bytes[148..156].copy_from_slice(format!("{:06o}\0 ", sum.max(0)).as_bytes());
        behind(bytes.to_vec())
    }));
    all.push(Case::archive("sizes", "a folder with a size", || {
        behind(header(b'5', b"proc/x/", b"", 1 << 20).to_vec())
    }));
    all.push(Case::archive("sizes", "a link with a size", || {
        behind(header(b'2', b"proc/x", b"y", 4096).to_vec())
    }));
    all.push(Case::archive("sizes", "a member beyond the archive's end", || {
        [Host::plain().members(), header(b'0', b"proc/meminfo", b"", 1 << 20).to_vec(), vec![b'1'; 100]]
            .concat()
    }));
    all
}

/// Sparse files of every form, and what they claim.
fn sparse() -> Vec<Case> {
    let mut all = Vec::new();
    // GNU's own: offsets and lengths in the header, and in blocks behind it.
    let gnu = |entries: &[(u64, u64)], real: u64, extended: u8, size: u64| {
        let mut bytes = header(b'S', b"proc/cmdline", b"", size);
        bytes[257..265].copy_from_slice(b"ustar  \0");
        for (place, (offset, length)) in entries.iter().enumerate().take(4) {
            let at = 386 + 24 * place;
            bytes[at..at + 12].copy_from_slice(&octal(*offset));
            bytes[at + 12..at + 24].copy_from_slice(&octal(*length));
        }
        bytes[482] = extended;
        bytes[483..495].copy_from_slice(&octal(real));
        summed(bytes).to_vec()
    };
    let max = 0o77_777_777_777;
    let mut case = |name: &str, entries: &[(u64, u64)], real: u64, extended: u8, size: u64| {
        let bytes = [gnu(entries, real, extended, size), vec![b'1'; BLOCK]].concat();
        all.push(Case::archive("sparse", format!("GNU, {name}"), move || behind(bytes.clone())));
    };
    case("one hole", &[(0, 8), (4096, 0)], 4096, 0, 8);
    case("8 GiB of hole", &[(max - 8, 8)], max, 0, 8);
    case("64 TiB of hole", &[(64 << 40, 8)], (64 << 40) + 8, 0, 8);
    case("entries that overlap", &[(0, 8), (4, 8)], 16, 0, 16);
    case("entries that go backwards", &[(4096, 4), (0, 4)], 4096, 0, 8);
    case("an entry beyond the end", &[(1 << 20, 8)], 8, 0, 8);
    case("more data than there is", &[(0, max)], max, 0, 8);
    case("a sum that overflows", &[(u64::MAX >> 1, u64::MAX >> 1)], u64::MAX >> 1, 0, 8);
    case("more entries behind it, of which there are none", &[(0, 8)], 8, 1, 8);
    case("a negative offset", &[(u64::MAX, 8)], 8, 0, 8);
    all.push(Case::archive("sparse", "GNU, 100,000 entries of nothing", move || {
        let mut bytes = gnu(&[(0, 0)], 1, 1, 0);
        let mut block = [0; BLOCK];
        for at in (0..504).step_by(24) {
            block[at..at + 12].copy_from_slice(&octal(1));
            block[at + 12..at + 24].copy_from_slice(&octal(0));
        }
        block[504] = 1;
        bytes.extend(block.repeat(5000));
        block[504] = 0;
        bytes.extend(block);
        behind(bytes)
    }));
    // pax, three versions.
    let mut pax_case = |name: &str, records: &[(&'static str, &'static str)], data: &'static [u8]| {
        let records = records.to_vec();
        all.push(Case::archive("sparse", format!("pax, {name}"), move || {
            let records: Vec<_> = records.iter().map(|(key, value)| (*key, value.as_bytes())).collect();
            behind([pax(b'x', &records), file(b"proc/cmdline", data)].concat())
        }));
    };
    const HUGE: &str = "18446744073709551615";
    pax_case(
        "0.0",
        &[
            ("GNU.sparse.size", "4096"),
            ("GNU.sparse.numblocks", "1"),
            ("GNU.sparse.offset", "0"),
            ("GNU.sparse.numbytes", "8"),
        ],
        b"iommu=pt",
    );
    pax_case(
        "0.0, huge",
        &[
            ("GNU.sparse.size", HUGE),
            ("GNU.sparse.numblocks", HUGE),
            ("GNU.sparse.offset", HUGE),
            ("GNU.sparse.numbytes", HUGE),
        ],
        b"iommu=pt",
    );
    pax_case("0.0, negative", &[("GNU.sparse.size", "-1"), ("GNU.sparse.numblocks", "-1")], b"iommu=pt");
    pax_case(
        "0.1",
        &[("GNU.sparse.size", "4096"), ("GNU.sparse.map", "0,8,4096,0"), ("GNU.sparse.numblocks", "2")],
        b"iommu=pt",
    );
    pax_case(
        "0.1, a map that ends in the middle",
        &[("GNU.sparse.size", "4096"), ("GNU.sparse.map", "0,8,4096"), ("GNU.sparse.numblocks", "2")],
        b"iommu=pt",
    );
    pax_case(
        "0.1, a map of no numbers",
        &[("GNU.sparse.size", "\x1b[2J"), ("GNU.sparse.map", "x,,-1,\x1b[2J")],
        b"iommu=pt",
    );
    pax_case(
        "1.0",
        &[
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.realsize", "4096"),
            ("GNU.sparse.name", "proc/cmdline"),
        ],
        b"1\n0\n8\n",
    );
    pax_case(
        "1.0, 64 TiB",
        &[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "70368744177664")],
        b"1\n70368744177656\n8\n",
    );
    pax_case(
        "1.0, a count of 2^64 - 1",
        &[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", HUGE)],
        b"18446744073709551615\n",
    );
    pax_case(
        "1.0, digits without end",
        &[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")],
        &[b'9'; 100_000],
    );
    pax_case(
        "1.0, a name upwards",
        &[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", "../../../tmp/HOSTILE")],
        b"0\n",
    );
    pax_case(
        "of a version that there is not",
        &[("GNU.sparse.major", "7"), ("GNU.sparse.minor", HUGE)],
        b"0\n",
    );
    all
}

/// 11 digits, or base 256 where they don't suffice.
fn octal(number: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    if number <= 0o77_777_777_777 {
        bytes[..11].copy_from_slice(format!("{number:011o}").as_bytes());
    } else {
        bytes[0] = 0x80;
        bytes[4..].copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

/// Extended headers and long names.
fn extended() -> Vec<Case> {
    let case = |name: &str, bytes: Vec<u8>| {
        let next = file(b"proc/cmdline", b"iommu=pt");
        Case::archive("extended headers", name.to_owned(), move || {
            behind([bytes.clone(), next.clone()].concat())
        })
    };
    let huge = |kind: u8| header(kind, b"././@LongLink", b"", 1 << 30).to_vec();
    let mut all = vec![
        case("no length", pax_raw(b'x', b"path=proc/cmdline\n")),
        case("a length of 0", pax_raw(b'x', b"0 path=x\n")),
        case("a length too long", pax_raw(b'x', b"99999999 path=x\n")),
        case("a length of 2^64", pax_raw(b'x', b"18446744073709551616 path=x\n")),
        case("a negative length", pax_raw(b'x', b"-10 path=x\n")),
        case("no line end", pax_raw(b'x', b"10 path=xyz")),
        case("no key", pax_raw(b'x', b"6 =xyz\n")),
        case("no UTF-8", pax_raw(b'x', b"13 path=\xff\xfe\xc0\x80\n")),
        case("a NUL in the path", pax(b'x', &[("path", b"proc/cmdline\0/etc/shadow")])),
        case("a path upwards", pax(b'x', &[("path", b"../../../tmp/HOSTILE")])),
        case("an absolute path", pax(b'x', &[("path", b"/tmp/HOSTILE")])),
        case("a path with escape sequences", pax(b'x', &[("path", b"proc/\x1b[2J\xc2\x9b")])),
        case("an empty path", pax(b'x', &[("path", b"")])),
        case("a path of 1 MiB", pax(b'x', &[("path", &[b'p'; 1 << 20])])),
        case("a link of 1 MiB", pax(b'x', &[("linkpath", &[b'p'; 1 << 20])])),
        case("a size of 2^63", pax(b'x', &[("size", b"9223372036854775808")])),
        case("a size of 2^64 - 1", pax(b'x', &[("size", b"18446744073709551615")])),
        case("a negative size", pax(b'x', &[("size", b"-8")])),
        case("a size of no digits", pax(b'x', &[("size", b"\x1b[2J")])),
        case("a path ten thousand times", pax(b'x', &vec![("path", b"proc/cmdline".as_slice()); 10_000])),
        case("100,000 keys that nobody knows", pax_raw(b'x', &b"10 key=vv\n".repeat(100_000))),
        case("of all members", pax(b'g', &[("path", b"proc/cmdline")])),
        case("of all members, with a size", pax(b'g', &[("size", b"0")])),
        case("of all members, a thousand times", pax(b'g', &[("comment", &[b'c'; 500])]).repeat(1000)),
        case(
            "of an extended header",
            [pax(b'x', &[("path", b"proc/x")]), pax(b'x', &[("size", b"1")])].concat(),
        ),
        case("ten thousand of each other", pax(b'x', &[("path", b"proc/cmdline")]).repeat(10_000)),
        case("a long name of a long name", [long(b'L', &[b'a'; 300]), long(b'L', &[b'b'; 300])].concat()),
        case("ten thousand long names", long(b'L', &[b'a'; 300]).repeat(10_000)),
        case("a long name of nothing", long(b'L', b"")),
        case("a long name without its NUL", member(b'L', b"././@LongLink", b"", b"proc/cmdline")),
        case("a long name of 1 GiB that is not there", huge(b'L')),
        case("a long link of 1 GiB that is not there", huge(b'K')),
        case("extended attributes of 1 GiB that are not there", huge(b'x')),
        case("attributes of all of 1 GiB that are not there", huge(b'g')),
        case("a long name of 16 MiB", long(b'L', &vec![b'a'; 16 << 20])),
        case("a long name upwards", long(b'L', &b"../".repeat(100))),
    ];
    all.push(Case::archive("extended headers", "the last member", || {
        behind(pax(b'x', &[("path", b"proc/x")]))
    }));
    all.push(
        Case::archive("extended headers", "a long name of 1 GiB, packed", || {
            let head = gzip(
                &[Host::plain().members(), header(b'L', b"././@LongLink", b"", 1 << 30).to_vec()].concat(),
            );
            let rest = gzip(&[file(b"proc/cmdline", b"iommu=pt"), end()].concat());
            [head, gzip(&vec![b'a'; 64 << 20]).repeat(16), rest].concat()
        })
        .heavy(),
    );
    all
}

/// A host's archive, cut off or damaged at each of its layers.
fn cut() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, keep) in [
        ("nothing", 0_usize),
        ("a byte", 1),
        ("100 bytes", 100),
        ("a header less a byte", 511),
        ("a header", 512),
        ("half a member's data", 700),
        ("ten members and a half", 10_500),
    ] {
        for (packing, pack) in PACKINGS {
            all.push(Case::archive("cut off", format!("{packing}, behind {name}"), move || {
                let archive = Host::plain().archive();
                pack(&archive[..keep.min(archive.len())])
            }));
        }
    }
    for (packing, pack) in PACKINGS {
        for (name, share) in [("a tenth", 10), ("a half", 2)] {
            all.push(Case::archive("cut off", format!("{packing} itself, behind {name}"), move || {
                let packed = pack(&Host::plain().archive());
                packed[..packed.len() / share].to_vec()
            }));
        }
        all.push(Case::archive("cut off", format!("{packing} itself, at its last byte"), move || {
            let packed = pack(&Host::plain().archive());
            packed[..packed.len() - 1].to_vec()
        }));
        all.push(Case::archive(
            "cut off",
            format!("{packing}, with a byte changed in the middle"),
            move || {
                let mut packed = pack(&Host::plain().archive());
                let middle = packed.len() / 2;
                packed[middle] ^= 0x55;
                packed
            },
        ));
    }
    all
}

type Packing = (&'static str, fn(&[u8]) -> Vec<u8>);

const PACKINGS: [Packing; 4] = [("tar", <[u8]>::to_vec), ("gzip", gzip), ("xz", xz), ("zstd", zstd)];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    liblzma::encode_all(bytes, 1).unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 1).unwrap()
}

/// Packs bytes as a compressor would.
type Pack = fn(&[u8]) -> Vec<u8>;

/// What an archive is packed in: several times, several of them, with rubbish behind, and small ones that become large.
fn packed() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, pack) in PACKINGS {
        let case = |what: &str, make: fn(Pack) -> Vec<u8>| {
            Case::archive("packed", format!("{name}, {what}"), move || make(pack))
        };
        all.extend([
            case("rubbish behind it", |pack| {
                [pack(&Host::plain().archive()), b"\x1b[2Jrubbish".repeat(1000)].concat()
            }),
            case("NUL behind it", |pack| [pack(&Host::plain().archive()), vec![0; 100_000]].concat()),
            case("an archive behind the archive", |pack| pack(&Host::plain().archive()).repeat(2)),
            case("a piece for each block", |pack| {
                Host::plain().archive().chunks(BLOCK).flat_map(pack).collect()
            }),
            case("ten thousand pieces of nothing", |pack| {
                [pack(b"").repeat(10_000), pack(&Host::plain().archive())].concat()
            }),
            case("packed twice", |pack| pack(&pack(&Host::plain().archive()))),
            case("nothing but zeros", |pack| pack(&vec![0; 1 << 20])),
            case("nothing but 255", |pack| pack(&vec![255; 1 << 20])),
            case("no archive", |pack| pack(b"\x1b[2J<hostile> this is no archive")),
        ]);
        if name == "tar" {
            continue;
        }
        // A member of 1 GiB less a byte that nobody asks for, sixteen times.
        all.push(
            Case::archive("packed", format!("{name}, 16 GiB of zeros"), move || {
                let zeros = pack(&vec![0; 64 << 20]);
                let head = |n: u32| pack(&header(b'0', format!("home/x/y/{n}").as_bytes(), b"", 1 << 30));
                let members = (0..16).flat_map(|n| [head(n), zeros.repeat(16)].concat());
                [members.collect(), pack(&Host::plain().archive())].concat()
            })
            .heavy(),
        );
        all.push(
            Case::archive("packed", format!("{name}, a kernel log of 60 MiB"), move || {
                let log = header(b'0', b"var/log/dmesg", b"", 60 << 20).to_vec();
                let host = Host::plain().archive();
                [pack(&log), pack(&vec![b'A'; 60 << 20]), pack(&host)].concat()
            })
            .heavy(),
        );
        all.push(
            Case::archive("packed", format!("{name}, 40 files of 60 MiB"), move || {
                let text = pack(&vec![b'A'; 60 << 20]);
                let head =
                    |n: u32| pack(&header(b'0', format!("sys/devices/x/{n}").as_bytes(), b"", 60 << 20));
                let members = (0..40).flat_map(|n| [head(n), text.clone()].concat());
                [members.collect(), pack(&Host::plain().archive())].concat()
            })
            .heavy(),
        );
    }
    for (name, bytes) in [
        ("gzip's magic alone", b"\x1f\x8b".as_slice()),
        ("gzip with a comment without end", &[0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0, 0, 3, b'c']),
        ("gzip of another method", &[0x1f, 0x8b, 7, 0, 0, 0, 0, 0, 0, 3]),
        ("xz's magic alone", b"\xfd7zXZ\0"),
        ("zstd's magic alone", b"\x28\xb5\x2f\xfd"),
        ("zstd with a window of 3.75 TiB", b"\x28\xb5\x2f\xfd\x00\xff\x01\x00\x00"),
        ("zstd with a dictionary that is not there", b"\x28\xb5\x2f\xfd\x03\x00\xff\xff\xff\xff\x01\x00\x00"),
        ("zstd of a skippable frame", b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"),
        ("bzip2", b"BZh91AY&SY"),
        ("zip", b"PK\x03\x04\x14\x00\x00\x00"),
        ("an ELF", b"\x7fELF\x02\x01\x01\x00"),
        ("text that steers a terminal", b"\x1b[2J\x1b]0;hostile\x07\xc2\x9b31m"),
    ] {
        let bytes = bytes.to_vec();
        all.push(Case::archive("packed", name, move || bytes.clone()));
    }
    all
}

/// More of everything than a host has.
fn many() -> Vec<Case> {
    let case = |name: &str, make: fn() -> Vec<u8>| Case::archive("many", name.to_owned(), make).heavy();
    vec![
        case("100,000 members", || {
            let member = |n: u32| file(format!("sys/devices/system/x/{n}").as_bytes(), b"1");
            gzip(&behind((0..100_000).flat_map(member).collect()))
        }),
        case("100,000 members of one name", || {
            gzip(&behind(file(b"proc/cmdline", b"iommu=pt").repeat(100_000)))
        }),
        case("1,100,000 empty members", || {
            let members = gzip(&header(b'0', b"home/x/y/z", b"", 0).repeat(11_000));
            [gzip(&Host::plain().members()), members.repeat(100), gzip(&end())].concat()
        }),
        case("100,000 links", || {
            let member = |n: u32| {
                link(
                    format!("sys/class/net/eth{n}").as_bytes(),
                    b"../../devices/pci0000:00/0000:00:01.0/0000:01:00.0",
                )
            };
            gzip(&behind((0..100_000).flat_map(member).collect()))
        }),
        case("100,000 IOMMU groups", || {
            let member = |n: u32| file(format!("sys/kernel/iommu_groups/{n}/type").as_bytes(), b"DMA\n");
            gzip(&behind((0..100_000).flat_map(member).collect()))
        }),
        case("65,536 functions of PCI", || {
            let member = |n: u32| {
                let (bus, device, function) = (n >> 8, n >> 3 & 31, n & 7);
                let path = format!("sys/bus/pci/devices/0000:{bus:02x}:{device:02x}.{function}/class");
                file(path.as_bytes(), b"0x010802\n")
            };
            gzip(&behind((0..65_536).flat_map(member).collect()))
        }),
        case("8,000 bridges below each other", || {
            let mut path = "sys/devices/pci0000:00".to_owned();
            let mut members = Vec::new();
            for n in 0_u32..250 {
                path += &format!("/0000:{:02x}:{:02x}.0", n, n & 31);
                let name = path.rsplit('/').next().unwrap_or_default();
                members.extend(file(format!("{path}/class").as_bytes(), b"0x060400\n"));
                let target = path.replacen("sys/", "../../../", 1);
                members.extend(link(format!("sys/bus/pci/devices/{name}").as_bytes(), target.as_bytes()));
            }
            gzip(&behind(members))
        }),
        case("100,000 interrupts of one adapter", || {
            let member = |n: u32| file(format!("{DEVICE}/msi_irqs/{n}").as_bytes(), b"msix\n");
            gzip(&behind((0..100_000).flat_map(member).collect()))
        }),
        case("20,000 nodes of memory", || {
            let member = |n: u32| {
                let folder = format!("sys/devices/system/node/node{n}");
                [
                    file(format!("{folder}/cpulist").as_bytes(), b"0-4095"),
                    file(format!("{folder}/distance").as_bytes(), b"10 20"),
                ]
                .concat()
            };
            gzip(&behind((0..20_000).flat_map(member).collect()))
        }),
    ]
}
