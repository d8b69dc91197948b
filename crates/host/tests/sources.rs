//! Sources as they come: sparse and unknown members, texts in place of archives, archives out of pipes, and what
//! is said of a source that is there and could not be read.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod evidence;

use evidence::{folder, host_of};
use host::diagnose::DmaPath;
use host::facts::unseen::ReadState;
use host::redact::READS;
use host::tree::{Memory, OpenError, Refusal, Watcher};
use host::{Host, Inspection, Tree};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

fn nobody() -> Watcher {
    Rc::new(|_| {})
}

fn from_bytes(bytes: &[u8]) -> Result<Tree, OpenError> {
    Tree::from_reader(bytes, "here", nobody())
}

/// An error's own words, and those of its causes.
fn refusal(bytes: &[u8]) -> String {
    let Err(error) = from_bytes(bytes) else { panic!("accepted") };
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A header as some program wrote it: the library sets the checksum of what it understands only.
fn header(name: &str, kind: u8, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

fn member(archive: &mut Vec<u8>, name: &str, kind: u8, body: &[u8]) {
    archive.extend(header(name, kind, body.len() as u64).as_bytes());
    archive.extend(body);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

/// Forms in which GNU tar stores a file with holes.
const SPARSE_FORMS: [&[&str]; 4] = [
    &["--format=gnu"],
    &["--format=pax", "--sparse-version=0.0"],
    &["--format=pax", "--sparse-version=0.1"],
    &["--format=pax", "--sparse-version=1.0"],
];

/// Files with holes: of few segments and of more than fit into a header, with a hole at the end, of nothing else.
fn files_with_holes() -> Vec<(&'static str, Vec<u8>)> {
    let mut few = vec![0; 1 << 20];
    few[300_000..300_010].copy_from_slice(b"in between");
    few.extend(b"the end");
    let mut many = vec![0; 8 << 20];
    for at in 0..100 {
        many[at * 80_000..at * 80_000 + 9].copy_from_slice(format!("part {at:04}").as_bytes());
    }
    let mut begin = b"[    0.000000] Linux version 6.1.0\n".to_vec();
    begin.resize(1 << 20, 0);
    vec![("few", few), ("many", many), ("begin", begin), ("hole", vec![0; 1 << 20])]
}

/// Writes a file so that what is zero takes no blocks of the disk: GNU tar looks for holes in such files only.
fn write_with_holes(path: &Path, bytes: &[u8]) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (at, page) in bytes.chunks(4096).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, at as u64 * 4096).unwrap();
        }
    }
}

#[test]
fn sparse_members_of_gnu_tar_unpack_to_the_original_files() {
    for form in SPARSE_FORMS {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc");
        std::fs::create_dir(&proc).unwrap();
        for (name, bytes) in files_with_holes() {
            write_with_holes(&proc.join(name), &bytes);
        }
        std::fs::write(proc.join("version"), "Linux version 6.1.0\n").unwrap();
        let archive = dir.path().join("a.tar");
        let output = Command::new("tar")
            .args(form)
            .args(["-S", "--hole-detection=raw", "--sort=name", "-cf"])
            .arg(&archive)
            .arg("-C")
            .arg(dir.path())
            .arg("proc")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(std::fs::metadata(&archive).unwrap().len() < 2 << 20, "{form:?}: holes were stored");
        let tree = Tree::open(&archive).unwrap();
        for (name, bytes) in files_with_holes() {
            let read = tree.bytes(&format!("proc/{name}"));
            assert!(
                read.as_deref() == Some(&bytes[..]),
                "{form:?}: {name} of {:?}",
                read.map(|read| read.len())
            );
        }
        // Its place in the archive is kept behind them.
        assert_eq!(tree.value("proc/version").unwrap().value, "Linux version 6.1.0", "{form:?}");
        assert!(tree.unread().is_empty());
    }
}

#[test]
fn a_sparse_member_that_claims_a_tebibyte_is_refused_as_too_large() {
    let mut sparse = header("proc/cmdline", b'S', 512);
    let gnu = sparse.as_gnu_mut().unwrap();
    gnu.set_real_size(1 << 40);
    gnu.sparse[0].set_offset(0);
    gnu.sparse[0].set_length(512);
    sparse.set_cksum();
    let mut archive = sparse.as_bytes().to_vec();
    archive.extend([b'x'; 512]);
    member(&mut archive, "proc/version", b'0', b"Linux version 6.1.0 (a@b) x86_64\n");
    let tree = from_bytes(&archive).unwrap();
    let host = Host::read(&tree);
    assert_eq!(host.unread.get("proc/cmdline"), Some(&Refusal::TooLarge { bytes_max: 64 << 20 }));
    assert!(host.platform.kernel.is_some(), "what follows is read");
    let told = host.unseen.iter().find(|unseen| unseen.what.contains("options")).unwrap();
    assert!(told.decisive && told.state == ReadState::Refused, "{told:?}");
}

#[test]
fn inconsistent_sparse_maps_are_refused() {
    for (offset, length, stored) in [(0, 1024, 512), (900, 512, 512), (0, 256, 512)] {
        let mut sparse = header("proc/cmdline", b'S', stored);
        let gnu = sparse.as_gnu_mut().unwrap();
        gnu.set_real_size(1000);
        gnu.sparse[0].set_offset(offset);
        gnu.sparse[0].set_length(length);
        sparse.set_cksum();
        let mut archive = sparse.as_bytes().to_vec();
        archive.extend([b'x'; 512]);
        member(&mut archive, "proc/version", b'0', b"Linux version 6.1.0\n");
        let tree = from_bytes(&archive).unwrap();
        assert!(tree.text("proc/cmdline").is_none());
        assert!(
            matches!(tree.unread().get("proc/cmdline"), Some(Refusal::Other { message }) if message.contains("sparse map"))
        );
        assert!(tree.text("proc/version").is_some());
    }
}

#[test]
fn members_of_unknown_types_are_listed_as_unread() {
    let mut archive = Vec::new();
    member(&mut archive, "proc/cmdline", b'Z', b"quiet");
    member(&mut archive, "proc/iomem", b'M', b"continued");
    member(&mut archive, "proc/version", b'0', b"Linux version 6.1.0\n");
    let tree = from_bytes(&archive).unwrap();
    assert!(tree.text("proc/cmdline").is_none() && tree.text("proc/iomem").is_none());
    assert_eq!(tree.unread().get("proc/cmdline"), Some(&Refusal::UnknownMember { flag: "Z".to_owned() }));
    assert_eq!(tree.unread().len(), 2);
}

/// An x86 host behind VT-d, with one adapter.
fn host() -> Memory {
    let mut memory = Memory::default();
    let device = "sys/devices/pci0000:00/0000:00:03.0";
    memory.file("proc/cmdline", "quiet intel_iommu=on\n");
    memory.file("proc/version", "Linux version 6.1.0 (a@b) #1 SMP x86_64\n");
    memory.file("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\n");
    memory.file("proc/iomem", "00100000-0fffffff : System RAM\n");
    memory.file("proc/mtrr", "reg00: base=0x0 (   0MB), size=  256MB: write-back, count=1\n");
    memory.file("var/log/dmesg", "[    0.000000] Linux version 6.1.0 (a@b) #1 SMP x86_64\n");
    memory.link("sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0");
    memory.file(&format!("{device}/class"), "0x010802\n");
    memory.file(&format!("{device}/vendor"), "0x1b36\n");
    memory.file(&format!("{device}/dma_mask_bits"), "64\n");
    memory.link(&format!("{device}/driver"), "../../../bus/pci/drivers/nvme");
    memory.link(&format!("{device}/iommu_group"), "../../../kernel/iommu_groups/1");
    memory.file("sys/kernel/iommu_groups/1/type", "DMA-FQ\n");
    memory.link(
        "sys/kernel/iommu_groups/1/devices/0000:00:03.0",
        "../../../../devices/pci0000:00/0000:00:03.0",
    );
    memory.link("sys/class/iommu/dmar0", "../../devices/virtual/iommu/dmar0");
    memory
}

fn inspected(memory: Memory) -> Inspection {
    Inspection::of(Host::read(&Tree::of_memory(memory)))
}

#[test]
fn a_host_whose_files_are_all_readable_leaves_no_doubt() {
    let inspection = inspected(host());
    assert_eq!(inspection.dma_paths[0].dma_path, DmaPath::TranslatedLazy);
    assert_eq!(inspection.host.doubts().collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn an_unread_decisive_source_is_a_doubt() {
    for (path, fact) in [
        ("proc/cmdline", "options"),
        ("proc/version", "version"),
        ("proc/cpuinfo", "architecture"),
        ("proc/iomem", "reserved areas"),
        ("proc/mtrr", "MTRRs"),
        ("var/log/dmesg", "what the kernel said"),
        ("sys/kernel/iommu_groups", "IOMMU groups"),
        ("sys/class/iommu", "which IOMMUs"),
        ("sys/bus/pci/devices", "PCI functions"),
        ("sys/bus/pci/devices/0000:00:03.0/driver", "driver"),
        ("sys/bus/pci/devices/0000:00:03.0/dma_mask_bits", "masks"),
        ("sys/bus/pci/devices/0000:00:03.0/iommu_group", "groups"),
        ("sys/kernel/iommu_groups/1/type", "groups"),
    ] {
        for why in [Refusal::NoPermission, Refusal::NotAFile, Refusal::TooLarge { bytes_max: 1 }] {
            let mut memory = host();
            let stored = path.replace("sys/bus/pci/devices/0", "sys/devices/pci0000:00/0");
            memory.refused(&stored, why.clone());
            let inspection = inspected(memory);
            let doubts: Vec<String> = inspection.host.doubts().collect();
            let expected = format!("{path} could not be read ({why})");
            assert!(doubts.contains(&expected), "{path}: {doubts:?}");
            let told = inspection.host.unseen.iter().find(|one| one.why == format!("{path}: {why}")).unwrap();
            assert!(told.what.contains(fact), "{path}: {}", told.what);
            assert_eq!(told.state == ReadState::Unreadable, why == Refusal::NoPermission);
        }
    }
}

#[test]
fn an_unreadable_file_is_not_taken_for_absent() {
    let with = |path: &str| {
        let mut memory = host();
        memory.refused(path, Refusal::NoPermission);
        inspected(memory)
    };
    // An adapter whose driver could not be read has not "no driver".
    let inspection = with("sys/devices/pci0000:00/0000:00:03.0/driver");
    assert_eq!(inspection.dma_paths[0].dma_path, DmaPath::Unknown, "{:?}", inspection.dma_paths);
    assert!(inspection.dma_paths[0].reason.as_ref().unwrap().contains("could not be read"));
    // Nor is one without an IOMMU whose group could not be read.
    let inspection = with("sys/devices/pci0000:00/0000:00:03.0/iommu_group");
    assert_eq!(inspection.dma_paths[0].dma_path, DmaPath::Unknown, "{:?}", inspection.dma_paths);
    for folder in ["sys/kernel/iommu_groups", "sys/class/iommu"] {
        assert!(!with(folder).host.iommus.visible, "{folder}");
    }
}

#[test]
fn unread_names_are_no_doubt() {
    let mut memory = host();
    for path in ["sys/class/net", "usr/share/misc/pci.ids", "etc/os-release", "sys/class/dmi/id/product_name"]
    {
        memory.refused(path, Refusal::NoPermission);
    }
    let host = inspected(memory).host;
    assert_eq!(host.doubts().count(), 0);
    assert_eq!(host.unseen.iter().filter(|unseen| unseen.unread.is_some()).count(), 3, "two are alike");
}

#[test]
fn a_thousand_similar_unread_files_are_one_entry() {
    let mut memory = host();
    for device in 0..1000 {
        let address = format!("0000:{:02x}:{:02x}.0", 1 + device / 32, device % 32);
        memory.refused(&format!("sys/bus/pci/devices/{address}/config"), Refusal::NoPermission);
    }
    let host = inspected(memory).host;
    let told: Vec<_> = host.unseen.iter().filter(|unseen| unseen.unread.is_some()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].unread.as_ref().unwrap().files, 1000);
    assert!(told[0].why.contains("and 999 more files"), "{}", told[0].why);
}

#[test]
fn every_file_that_an_inspection_reads_has_a_fact_and_is_unpacked_from_archives() {
    for name in ["arm-smmu-strict", "ppc-ddw", "ppc-noddw", "x86-no-iommu", "x86-vtd-lazy"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/captures/{name}.tar.gz"));
        let first = Tree::open(&path).unwrap();
        Host::read(&first);
        let asked: Vec<String> = first.read_log().files().map(str::to_owned).collect();
        let mut memory = Memory::default();
        for file in &asked {
            memory.refused(file, Refusal::NoPermission);
        }
        let host = Host::read(&Tree::of_memory(memory));
        let generic = |what: &str| what.starts_with("what ") && what.ends_with(" tells");
        let nameless: Vec<_> = host.unseen.iter().filter(|one| generic(&one.what)).collect();
        assert!(nameless.is_empty(), "{name}: {nameless:?}");
        // An archive one folder down, as sosreports are, gives back each of them.
        let real = |file: &String| first.real_path(file).unwrap();
        let stored = asked.iter().filter_map(|file| Some((real(file), first.bytes(file)?)));
        let again = one_folder_down(&stored.collect::<Vec<_>>());
        for file in &asked {
            assert_eq!(first.bytes(file), again.bytes(&real(file)), "{name}: {file}");
        }
    }
}

/// An archive whose files are in one folder.
fn one_folder_down(files: &[(String, Vec<u8>)]) -> Tree {
    let mut builder = tar::Builder::new(Vec::new());
    for (file, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, format!("sos/{file}"), &bytes[..]).unwrap();
    }
    from_bytes(&builder.into_inner().unwrap()).unwrap()
}

/// Files that no committed capture has, too.
#[test]
fn every_file_that_the_manual_lists_is_unpacked_from_archives() {
    let sign = ("proc/version".to_owned(), b"Linux version 6.1.0\n".to_vec());
    for pattern in READS.iter().map(|row| row.pattern) {
        // Of the logs in these folders, an archive gives those that are the kernel's.
        let file = match pattern {
            "var/log/*" => "var/log/dmesg".to_owned(),
            "sos_commands/logs/*" => "sos_commands/logs/journalctl_--no-pager_--dmesg".to_owned(),
            // These are no files of a host's.
            "dev/kmsg" | "named-options" | "rdma_resource" => continue,
            others => others.replace("**", "a").replace('*', "a"),
        };
        let archive = one_folder_down(&[sign.clone(), (file.clone(), b"1\n".to_vec())]);
        assert!(archive.bytes(&file).is_some(), "{file}");
    }
}

const LOG: &str = "[    0.000000] Linux version 6.1.0 (a@b) #1 SMP x86_64\n\
                   [    0.000000] Command line: intel_iommu=on\n\
                   [    0.500000] iommu: Default domain type: Translated\n";

const LISTING: &str =
    "01:00.0 Ethernet controller [0200]: Intel Corporation I350 [8086:1521]\n\tKernel driver in use: igb\n";

#[test]
fn files_of_a_folder_are_known_by_their_content() {
    let folder = folder(&[
        ("readme.md", "this is what my machine prints\n"),
        ("deep/er/output1", LISTING),
        ("boot", LOG),
        ("photo.jpg", "\u{0}\u{1}"),
        ("sosreport.tar.xz", "what it holds is not looked at"),
    ]);
    let host = host_of(&[folder.path()], None).unwrap();
    assert_eq!(host.adapters[0].function.driver.as_ref().unwrap().value, "igb");
    assert!(host.log.file.ends_with("/boot"), "{}", host.log.file);
    assert!(host.adapters[0].function.source.ends_with("/deep/er/output1"));
    let mut unread = host.unread.iter();
    assert!(
        unread
            .any(|(file, why)| file.ends_with("/sosreport.tar.xz")
                && why.to_string().contains("give it alone"))
    );
}

#[test]
fn texts_beside_a_capture_count_more_than_its_own_files() {
    let capture = folder(&[("proc/version", "Linux version 6.1.0 (a@b)\n"), ("proc/cmdline", "iommu=off\n")]);
    let texts = folder(&[("listing", LISTING)]);
    let listing = texts.path().join("listing");
    let host = host_of(&[capture.path(), &listing], Some("quiet iommu=pt")).unwrap();
    assert_eq!(host.adapters.len(), 1);
    assert_eq!(host.command_line.unwrap().at.to_string(), "--cmdline:1: quiet iommu=pt");
    assert!(host.requests.passthrough.unwrap().value && host.requests.iommu_enabled.is_none());
    assert_eq!(host.platform.kernel.unwrap().value.release, "6.1.0");
    let twice = host_of(&[capture.path(), capture.path()], None).unwrap_err().to_string();
    assert!(twice.contains("expected one capture, and texts beside it"), "{twice}");
}

#[test]
fn a_command_line_alone_is_judged() {
    let host = host_of(&[], Some("iommu=pt intel_iommu=on,sm_off")).unwrap();
    assert!(host.requests.passthrough.unwrap().value);
}

#[test]
fn what_tells_of_no_host_or_of_several_is_refused() {
    let texts = folder(&[
        ("prose", "dear all\n"),
        ("two", "Nov 21 01:22:03 alpha kernel: a\nNov 21 01:22:03 beta kernel: b\n"),
    ]);
    let refused = |name: &str| host_of(&[&texts.path().join(name)], None).unwrap_err();
    let whole = |name: &str| anyhow_chain(&refused(name));
    assert!(
        whole("prose").contains("no line of it was understood as a message of the kernel"),
        "{}",
        whole("prose")
    );
    assert!(whole("two").ends_with("give its lines 1 to 1 and the rest by themselves"), "{}", whole("two"));
}

#[test]
fn a_text_with_the_host_s_name_names_the_host_of_those_beside_it() {
    let log = "Nov 21 01:22:03 web01 kernel: Linux version 6.1.0-13-amd64 (x)\n";
    let name = |texts: &[(&str, &str)]| {
        let texts = folder(texts);
        let host = host_of(&[texts.path()], None).map_err(|error| anyhow_chain(&error))?;
        Ok::<_, String>(host.platform.host_name.map(|name| name.value))
    };
    assert_eq!(
        name(&[("hostname.txt", "web01.corp\n"), ("dmesg.txt", log)]),
        Ok(Some("web01.corp".to_owned()))
    );
    assert_eq!(name(&[("dmesg.txt", log)]), Ok(None));
    let other = name(&[("hostname.txt", "web02\n"), ("dmesg.txt", log)]).unwrap_err();
    assert!(other.contains("the log is of `web01`, and the host's name is `web02`"), "{other}");
    let two =
        name(&[("a/hostname", "web02\n"), ("hostname.txt", "web01\n"), ("dmesg.txt", log)]).unwrap_err();
    assert!(two.contains("the host's name is `web0"), "{two}");
}

/// They have no host's name, and no address with two devices.
#[test]
fn logs_of_two_architectures_are_of_two_hosts() {
    let log = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name)).unwrap()
    };
    let (power, x86) = (log("ppc-noddw.txt"), log("x86-vtd-lazy.txt"));
    let refused = |path: &Path| anyhow_chain(&host_of(&[path], None).unwrap_err());
    let texts = folder(&[("both", &format!("{power}{x86}"))]);
    let both = refused(&texts.path().join("both"));
    let lines = power.lines().count();
    assert!(both.contains("are of kernels of POWER and x86"), "{both}");
    assert!(both.ends_with(&format!("give its lines 1 to {lines} and the rest by themselves")), "{both}");
    let texts = folder(&[("one", &power), ("other", &x86)]);
    let apart = refused(texts.path());
    assert!(apart.contains("the kernel of one is of POWER, and that of the other of x86"), "{apart}");
}

/// An error and its causes.
fn anyhow_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn a_kernel_log_alone_can_be_inspected() {
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    for bytes in [LOG.as_bytes().to_vec(), gzip(LOG.as_bytes())] {
        let host = Host::read(&from_bytes(&bytes).unwrap());
        assert_eq!(host.log.file, "here", "citations name what was given");
        assert_eq!(host.platform.kernel.as_ref().unwrap().at.to_string().split(':').nth(1), Some("1"));
        let unseen: Vec<&str> = host.unseen.iter().map(|unseen| unseen.what.as_str()).collect();
        assert!(unseen.iter().any(|what| what.contains("PCI functions")), "{unseen:?}");
        assert!(unseen.iter().any(|what| what.contains("IOMMUs are in use")), "{unseen:?}");
        assert_eq!(host.doubts().count(), 0, "what is absent is not what could not be read");
    }
    for log in [
        "Nov 21 01:22:03 host kernel: usb 1-1: new device\n",
        "[Sat Nov 21 01:22:03 2026] usb 1-1: new device\n",
        "<6>[    1.000000] usb 1-1: new device\n",
        "6,339,5140900,-;usb 1-1: new device\n",
        "DMAR: IOMMU batching disallowed due to virtualization\n",
        "mlx4_core 0004:01:00.0: Using 64-bit direct DMA at offset 800000000000000\n",
    ] {
        assert!(from_bytes(log.as_bytes()).unwrap().kernel_log().is_some(), "{log}");
    }
}

#[test]
fn the_output_of_lspci_alone_can_be_inspected() {
    let text = "00:1f.2 SATA controller [0106]: Intel Corporation 82801IR [8086:2922] (rev 02)\n\
                \tKernel driver in use: ahci\n";
    let host = Host::read(&from_bytes(text.as_bytes()).unwrap());
    assert_eq!(host.adapters.len(), 1);
    assert_eq!(host.adapters[0].function.driver.as_ref().unwrap().value, "ahci");
}

#[test]
fn other_texts_are_refused() {
    for text in ["hello\n", "{\"a\": 1}\n", "12:30.5 lunch\n", "\n\n"] {
        assert!(
            refusal(text.as_bytes()).contains("no line of it was understood as a message of the kernel"),
            "{text}"
        );
    }
    assert!(refusal(&vec![b'x'; (64 << 20) + 1]).contains("a text of more than 67108864 bytes"));
}

#[test]
fn unpacking_a_decompression_bomb_stops_early() {
    // Frames of zeros, one after the other: 1 GiB from 60 KB.
    let mut archive = header("proc/cmdline", b'0', 6 << 30).as_bytes().to_vec();
    archive = zstd::encode_all(&archive[..], 1).unwrap();
    let frame = zstd::encode_all(&vec![0; 1 << 20][..], 1).unwrap();
    for _ in 0..1024 {
        archive.extend(&frame);
    }
    let words = refusal(&archive);
    assert!(words.contains("more than those of any host"), "{words}");
}

#[test]
fn a_fifo_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let Err(error) = Tree::open(&fifo) else { panic!("opened") };
    assert!(error.to_string().contains("a named pipe; expected a directory"), "{error}");
}

#[test]
fn hostile_folders_are_read_up_to_a_limit() {
    // Links that lead through 4000 folders each.
    let mut memory = host();
    let deep = vec!["a"; 2000].join("/");
    memory.file(&format!("{deep}/vendor"), "0x1b36\n");
    for device in 0..300 {
        let address = format!("0000:{:02x}:{:02x}.0", 1 + device / 32, device % 32);
        memory.link(&format!("sys/bus/pci/devices/{address}"), &format!("/{deep}"));
    }
    let host = inspected(memory).host;
    assert!(host.unread.values().all(|why| *why == Refusal::LinkLoop) && !host.unread.is_empty());
}

#[test]
fn more_functions_or_lines_than_the_limit_are_refused_and_listed() {
    let told = |text: String, what: &str| {
        let host = Host::read(&from_bytes(text.as_bytes()).unwrap());
        let doubts: Vec<String> = host.doubts().collect();
        assert!(host.adapters.is_empty() && doubts.iter().any(|doubt| doubt.contains(what)), "{doubts:?}");
    };
    let function = |n: u32| {
        let (domain, bus, device, function) = (n >> 16, n >> 8 & 255, n >> 3 & 31, n & 7);
        format!("{domain:04x}:{bus:02x}:{device:02x}.{function} Class 0108: 8086:0953\n")
    };
    told((0..65_537).map(function).collect(), "here could not be read (more than the 65536 PCI functions");
    told(
        format!("{LOG}{}", "\n".repeat(4_000_000)),
        "var/log/dmesg could not be read (more than the 4000000 lines",
    );

    let mut memory = host();
    for n in 1 << 16..(2 << 16) + 1 {
        memory.folder(&format!("sys/bus/pci/devices/{}", function(n).split(' ').next().unwrap()));
    }
    let host = Host::read(&Tree::of_memory(memory));
    assert!(host.adapters.is_empty());
    assert!(host.doubts().any(|doubt| doubt.starts_with("sys/bus/pci/devices could not be read (more than")));
}

#[test]
fn a_command_line_longer_than_any_kernel_allows_is_refused() {
    let check = |bytes: usize, is_read: bool| {
        let mut memory = Memory::default();
        memory.file("proc/cmdline", vec![b'x'; bytes]);
        let tree = Tree::of_memory(memory);
        assert_eq!(tree.text("proc/cmdline").is_some(), is_read, "{bytes}");
        assert_eq!(tree.is_unread("proc/cmdline"), !is_read, "{bytes}");
    };
    check(64 << 10, true);
    check((64 << 10) + 1, false);
}
