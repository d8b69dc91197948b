//! The NVMe disk that guests read, and the numbers that they print.

use std::collections::BTreeMap;
use std::str::FromStr;
use toll::Stage;

/// PCI address of the disk's controller.
pub(crate) const ADAPTER: &str = "0000:00:05.0";
/// QEMU's arguments for it. Reads of the disk take no time.
pub(crate) const DISK: &str = "-drive driver=null-co,size=1G,read-zeroes=on,if=none,id=disk \
                               -device nvme,serial=iotoll,drive=disk,addr=5";
/// Shell commands that wait for the disk, which appears some time after its driver.
pub(crate) const DISK_APPEARS: &str =
    "for second in $(busybox seq 60); do [ -e /dev/nvme0n1 ] || busybox sleep 1; done\n";
/// The stages of a translated read in strict mode.
pub(crate) const STAGES: [Stage; 5] =
    [Stage::DmaMap, Stage::Iova, Stage::TableWrite, Stage::Invalidation, Stage::DmaUnmap];

/// The numbers of a console by their names: each is the last word of its line.
pub(crate) fn numbers<T: FromStr>(console: &str) -> BTreeMap<String, T> {
    let line = |line: &str| {
        let (name, number) = line.trim().rsplit_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    console.lines().filter_map(line).collect()
}
