//! A host on which an adapter is to be unbound from the kernel's driver.

use nvme::takeover::{Accepted, Candidate, Root, Takeover};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const ADDRESS: &str = "0000:03:00.0";

/// What an input may say, a part for each.
const FILES: [&str; 11] = [
    "proc/self/mountinfo",
    "proc/swaps",
    "sys/bus/pci/devices/0000:03:00.0/class",
    "sys/bus/pci/devices/0000:03:00.0/driver_override",
    "sys/bus/pci/devices/0000:03:00.0/nvme/nvme0/subsysnqn",
    "sys/bus/pci/devices/0000:03:00.0/nvme/nvme0/model",
    "sys/block/nvme0n1/size",
    "sys/block/nvme0n1/nsid",
    "sys/block/nvme0n1/dev",
    "sys/block/nvme0n1/nvme0n1p1/dev",
    "sys/block/loop0/loop/backing_file",
];

/// A folder that looks like `/`, made once.
static ROOT: LazyLock<io::Result<PathBuf>> = LazyLock::new(|| {
    let root = std::env::temp_dir().join(format!("iotoll-fuzz-takeover-{}", std::process::id()));
    for file in FILES {
        fs::create_dir_all(root.join(file).parent().unwrap_or(&root))?;
    }
    for folder in ["nvme0n1", "nvme0n1p1"] {
        fs::create_dir_all(root.join("sys/bus/pci/devices").join(ADDRESS).join("nvme/nvme0").join(folder))?;
    }
    fs::create_dir_all(root.join("sys/block/nvme0n1/holders"))?;
    fs::write(root.join("sys/block/nvme0n1/nvme0n1p1/partition"), "1")?;
    fs::create_dir_all(root.join("sys/bus/pci/drivers/nvme"))?;
    symlink("../../drivers/nvme", root.join("sys/bus/pci/devices").join(ADDRESS).join("driver"))?;
    Ok(root)
});

/// Input: the host's mounts, swap areas and adapter, which decide whether the adapter may be unbound. The last part has the words that tell
/// another process how to rebind it.
pub fn takeover(data: &[u8]) {
    let Ok(root) = &*ROOT else { return };
    let mut parts = data.split(|byte| *byte == 0);
    for (file, content) in FILES.iter().zip(&mut parts) {
        if fs::write(root.join(file), content).is_err() {
            return;
        }
    }
    look(root);
    let words = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let mut words = words.split(' ');
    let previous = [(); 3].map(|()| words.next().unwrap_or("-"));
    assert_eq!(Takeover::from_previous(previous).previous(), previous);
}

fn look(root: &Path) {
    let root = Root::at(root);
    let Ok(candidates) = Candidate::all(&root) else { return };
    for candidate in candidates {
        for takeover in [false, true] {
            for refusal in candidate.refusals(&root, Accepted { unbind: takeover, no_iommu: takeover }) {
                let _ = refusal.to_string();
            }
        }
        for step in Takeover::steps(&root, &candidate) {
            let _ = (step.file, step.text);
        }
        let previous = Takeover::of(&candidate).previous();
        let _ = Takeover::from_previous(previous.each_ref().map(String::as_str));
    }
}
