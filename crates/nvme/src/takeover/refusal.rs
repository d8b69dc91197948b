//! What speaks against driving an adapter from a process.

use super::{Candidate, Root};
use escape::shell::Command;
use std::path::PathBuf;

/// The kernel's driver of NVMe controllers.
const KERNEL_DRIVER: &str = "nvme";
/// The driver that lends adapters to processes.
pub(super) const LENDER: &str = "vfio-pci";

/// What somebody has said yes to, knowing what may come of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The adapter is taken from the kernel's driver, and its disks go from `/dev` until it is given back.
    pub takeover: bool,
    /// If there is no IOMMU, the adapter reaches all memory of the host, and one wrong address in a command writes over anything.
    pub no_iommu: bool,
}

/// Why an adapter is not driven.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no NVMe controller.
    #[error("{address} is no NVMe controller of this host; `iotoll blk list` names them")]
    NoController {
        /// What was asked for.
        address: String,
    },
    /// A disk of it is in use.
    #[error("{address} is in use: {usage}; it is not taken away from that, whoever asks")]
    InUse {
        /// Its address.
        address: String,
        /// By whom.
        usage: String,
    },
    /// Its disks are another controller's too.
    #[error("{address} leads to the same subsystem as {others}: its disks may be in use through that")]
    SharedSubsystem {
        /// Its address.
        address: String,
        /// The other controllers.
        others: String,
    },
    /// It is in no IOMMU group.
    #[error(
        "{address} is in no IOMMU group: there is no IOMMU, or it is off (intel_iommu=on, amd_iommu=on). Without one an adapter reaches all \
         memory, and one wrong address in a command writes over anything of this host; `--accept-no-iommu` says that this is understood"
    )]
    NoIommu {
        /// Its address.
        address: String,
    },
    /// It is in none, which was accepted, but the kernel does not lend such adapters.
    #[error("{address} is in no IOMMU group, and this kernel lends no such adapter: {why}")]
    NotLent {
        /// Its address.
        address: String,
        /// What it would take.
        why: &'static str,
    },
    /// Other adapters are in its group.
    #[error(
        "{address} shares IOMMU group {group} with {mates}: whoever drives one can reach what the others do. Bind all of them to vfio-pci, or put \
         the adapter where the root port has ACS"
    )]
    SharedGroup {
        /// Its address.
        address: String,
        /// The group.
        group: u32,
        /// The others, and who has them.
        mates: String,
    },
    /// Another driver than the kernel's for NVMe has it.
    #[error("{address} has the driver {driver}; it is taken from nvme alone")]
    OtherDriver {
        /// Its address.
        address: String,
        /// The driver.
        driver: String,
    },
    /// The kernel has no `vfio-pci`.
    #[error("this kernel has no driver vfio-pci; `modprobe vfio-pci` loads it")]
    NoLender,
    /// The kernel's driver has it, and nobody has said that it may be taken.
    #[error("{address} {owner}; `--take` lets it be taken for as long as this runs, as this does: {steps}")]
    NotAsked {
        /// Its address.
        address: String,
        /// Who has it, in words.
        owner: String,
        /// What would be done, as one command.
        steps: String,
    },
    /// A file that has to be written may not be.
    #[error("no permission to write {}; run it as root{hint}", file.display())]
    NoPermission {
        /// The file.
        file: PathBuf,
        /// Another way, where there is one.
        hint: &'static str,
    },
}

impl Candidate {
    /// Everything that speaks against driving it, with what was accepted; nothing if it can be tried.
    pub fn refusals(&self, root: &Root, accepted: Accepted) -> Vec<Refusal> {
        let address = || self.address.clone();
        let mut all: Vec<Refusal> = self
            .usages()
            .map(|(_, usage)| Refusal::InUse { address: address(), usage: usage.to_string() })
            .collect();
        if !self.siblings.is_empty() {
            all.push(Refusal::SharedSubsystem { address: address(), others: self.siblings.join(", ") });
        }
        match self.group {
            Some(group) => all.extend(self.shared(group)),
            None if !accepted.no_iommu => {
                all.push(Refusal::NoIommu { address: address() });
                return all;
            }
            None => all.extend(self.against_lending(root)),
        }
        match self.driver.as_deref() {
            Some(LENDER) => {
                all.extend(self.lender_file(root).and_then(|file| missing_right(file, GROUP_HINT)));
            }
            other => all.extend(self.against_takeover(root, accepted, other)),
        }
        all
    }

    /// Whether others are in its group.
    fn shared(&self, group: u32) -> Option<Refusal> {
        let strangers = self.mates.iter().filter(|(_, driver)| {
            // Those that no driver has can't be reached, and those that were lent are this host's owner's doing.
            driver.as_deref().is_some_and(|driver| driver != LENDER)
        });
        let mates: Vec<String> = strangers
            .map(|(mate, driver)| format!("{mate} ({})", driver.as_deref().unwrap_or("no driver")))
            .collect();
        let address = self.address.clone();
        (!mates.is_empty()).then(|| Refusal::SharedGroup { address, group, mates: mates.join(", ") })
    }

    /// Why VFIO does not lend an adapter without an IOMMU.
    fn against_lending(&self, root: &Root) -> Option<Refusal> {
        let module = root.path("sys/module/vfio");
        let mode = super::text(&module.join("parameters/enable_unsafe_noiommu_mode")).ok().flatten();
        let why = match mode.as_deref() {
            Some("Y") if !self.is_lent() || self.made_up_group.is_some() => return None,
            Some("Y") => "vfio-pci has had it since before no-IOMMU mode was on; unbind it and bind it again",
            Some(_) => {
                "no-IOMMU mode is off, `echo Y > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode`"
            }
            None if !module.exists() => "there is no VFIO, `modprobe vfio enable_unsafe_noiommu_mode=1`",
            None => "its VFIO has no no-IOMMU mode (CONFIG_VFIO_NOIOMMU)",
        };
        Some(Refusal::NotLent { address: self.address.clone(), why })
    }

    /// What opens it: iommufd's file of it where the kernel has that, or its group's.
    fn lender_file(&self, root: &Root) -> Option<PathBuf> {
        let Some(group) = self.group else {
            return self.made_up_group.map(|group| root.path(&format!("dev/vfio/noiommu-{group}")));
        };
        let own = super::names(&root.device(&self.address).join("vfio-dev")).unwrap_or_default();
        Some(match own.first().filter(|_| root.path("dev/iommu").exists()) {
            Some(name) => root.path("dev/vfio/devices").join(name),
            None => root.path(&format!("dev/vfio/{group}")),
        })
    }

    fn against_takeover(&self, root: &Root, accepted: Accepted, driver: Option<&str>) -> Vec<Refusal> {
        let mut all = Vec::new();
        if let Some(driver) = driver.filter(|driver| *driver != KERNEL_DRIVER) {
            all.push(Refusal::OtherDriver { address: self.address.clone(), driver: driver.to_owned() });
        }
        if !root.path("sys/bus/pci/drivers").join(LENDER).exists() {
            all.push(Refusal::NoLender);
        }
        if !accepted.takeover {
            let steps = super::Takeover::steps(root, self);
            all.push(Refusal::NotAsked {
                address: self.address.clone(),
                owner: driver.map_or("has no driver".to_owned(), |driver| {
                    format!("belongs to the kernel's driver ({driver})")
                }),
                steps: steps
                    .iter()
                    .map(super::Step::command)
                    .reduce(Command::and)
                    .map_or_else(String::new, |all| all.to_string()),
            });
        } else {
            all.extend(missing_right(root.device(&self.address).join("driver_override"), ""));
        }
        all
    }
}

const GROUP_HINT: &str = ", or have root give you that file (chown), and /dev/iommu where there is one";

fn missing_right(file: PathBuf, hint: &'static str) -> Option<Refusal> {
    use rustix::fs::{Access, access};
    match access(&file, Access::WRITE_OK) {
        Ok(()) => None,
        Err(_) => Some(Refusal::NoPermission { file, hint }),
    }
}
