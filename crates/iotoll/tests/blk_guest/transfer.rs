//! `iotoll bench transfer` with an area of `memmap=`: what is refused, what the kernel says of the mappings, and what is in memory
//! afterwards.

use super::support::Guest;
use super::{A, Disk, SharedGuest, case, disk_file, expect, kernel, shared, shell_functions, stripped};
use std::fs;
use std::sync::OnceLock;

/// 16 MiB at 256 MiB are the area.
const COMMAND_LINE: &str = "intel_iommu=on no_timer_check memmap=16M$0x10000000";
/// Bytes of each buffer.
const BYTES: usize = 256 << 10;

/// The results of the guest.
pub(super) struct Transferred {
    console: String,
    is_disk_untouched: bool,
}

static GUEST: SharedGuest<Transferred> = OnceLock::new();

pub(super) fn guest() -> Option<&'static Transferred> {
    shared(&GUEST, boot)
}

/// Boots a guest with a disk of random bytes, and runs all commands of this module's tests in it.
fn boot() -> Option<Transferred> {
    let (cache, kernel) = kernel()?;
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let disk = Disk { slot: 5, file: disk_file(folder.path(), "disk"), options: "" };
    let mut word = 1_u64;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.to_be_bytes()
    })
    .take(super::DISK_BYTES / 8)
    .flatten()
    .collect();
    fs::write(&disk.file, &content).unwrap();
    let script = format!(
        r#"transfer() {{ iotoll bench transfer {A} --size 256K --rounds 2 --round-ms 20 "$@"; }}
holds() {{ dd if=/dev/mem bs=4096 skip=$1 count={pages} 2>/dev/null | cmp - /tmp/expected && echo "memory at page $1 holds the disk's blocks"; }}
sleep 2
mount -t debugfs none /sys/kernel/debug
dd if=$(disk {A}) of=/tmp/expected bs=4096 count={pages} 2>/dev/null
about "no consent"
transfer
driver {A}
about "DMA API"
transfer --unbind
back {A}
about "not reserved"
transfer --unbind --area 0x20000000+1M
driver {A}
about "too small"
transfer --unbind --area 0x10000000+256K
driver {A}
about "no command"
transfer --unbind --command-size 512
driver {A}
about beyond
transfer --unbind --first 32700
driver {A}
about overlap
transfer --unbind --area 0x10000000+1M --area 0x10080000+1M
driver {A}
about area
(iotoll bench transfer {A} --size 256K --rounds 20 --round-ms 200 --unbind --area 0x10000000+16M) &
running=$!
wait_for_vfio {A}
sleep 2
grep 0x0000000010 /sys/kernel/debug/x86/pat_memtype_list
wait $running
back {A}
holds 65536
holds 67584
about combining
echo 'base=0x10000000 size=0x1000000 type=write-combining' > /proc/mtrr
cat /proc/mtrr
transfer --unbind --area 0x10000000+16M --json
back {A}
holds 65536
holds 67584
about end
"#,
        pages = BYTES / 4096,
    );
    let guest = Guest {
        modules: &["vfio_pci", "vfio_iommu_type1", "nvme"],
        programs: &[&program],
        before: String::new(),
        modes: &[],
        after: &format!("{}{script}", shell_functions(&program)),
        devices: &format!("-device intel-iommu,intremap=on {}", disk.device()),
        command_line: COMMAND_LINE,
    };
    let console = guest.run(&cache, &kernel)?.replace('\r', "");
    Some(Transferred { console, is_disk_untouched: fs::read(&disk.file).unwrap() == content })
}

#[test]
fn transfers_need_consent_and_areas_that_may_be_overwritten() {
    let Some(Transferred { console, .. }) = guest() else { return };
    expect(console, "no consent", &["`--unbind` unbinds it", "status 2\nnvme\n"]);
    let reserved = "not within an area that memmap=SIZE$BASE reserves";
    expect(
        console,
        "not reserved",
        &["0x20000000-0x200fffff is not overwritten", reserved, "status 2\nnvme\n"],
    );
    expect(console, "too small", &["smaller than two buffers of 262144 bytes", "status 2\nnvme\n"]);
    expect(
        console,
        "no command",
        &["commands of 512 bytes; expected a multiple of 4096", "status 2\nnvme\n"],
    );
    expect(console, "beyond", &["is beyond the end: the disk has 32768 blocks of 512", "status 2\nnvme\n"]);
    expect(console, "overlap", &["overlaps --area 0x10000000-0x100fffff", "status 2\nnvme\n"]);
}

#[test]
fn memory_of_the_dma_api_s_kind_is_transferred_and_the_disk_is_not_written() {
    let Some(Transferred { console, is_disk_untouched }) = guest() else { return };
    let words = [
        "To measure it too, and lose what it holds: --area 0x10000000-0x10ffffff.",
        "no byte differed",
        "QEMU emulates this controller",
        "what the kernel's driver read before it was unbound",
        "DMA API, WB",
        "status 0",
        "back with nvme",
    ];
    expect(console, "DMA API", &words);
    assert!(is_disk_untouched);
}

/// The kernel's own list has the types that were asked for, and its own read of physical memory finds the disk's blocks there.
#[test]
fn an_area_of_memmap_is_transferred_write_back_and_uncached() {
    let Some(Transferred { console, .. }) = guest() else { return };
    let words = [
        "PAT: [mem 0x0000000010000000-0x0000000010040000] write-back",
        "PAT: [mem 0x0000000010800000-0x0000000010840000] uncached-minus",
        "memmap= at 0x10000000, WB",
        "memmap= at 0x10800000, UC",
        "no byte differed",
        "status 0",
        "memory at page 65536 holds the disk's blocks",
        "memory at page 67584 holds the disk's blocks",
    ];
    expect(console, "area", &words);
}

#[test]
fn an_mtrr_makes_an_area_write_combining() {
    let Some(Transferred { console, .. }) = guest() else { return };
    let output = case(console, "combining");
    let (_, rest) = output.split_once("\n{\n").unwrap();
    let (document, rest) = rest.split_once("\n}\n").unwrap();
    let document: serde_json::Value = serde_json::from_str(&format!("{{{document}}}")).unwrap();
    let of = |field: &str| -> Vec<String> {
        let memories = document["memories"].as_array().unwrap();
        memories.iter().map(|memory| memory[field].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of("name"), ["DMA API", "memmap= at 0x10000000", "memmap= at 0x10800000"]);
    assert_eq!(of("memory_type"), ["WB", "WC", "WC"]);
    // QEMU's VT-d has no snoop control.
    assert_eq!((&document["forces_snooping"], &document["expected_from"]), (&false.into(), &"kernel".into()));
    for words in ["status 0", "memory at page 65536 holds", "memory at page 67584 holds"] {
        assert!(rest.contains(words), "{words}: {output}");
    }
}
