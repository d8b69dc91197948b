//! Reasons not to drive an adapter from user space.

use super::{Candidate, Root};
use escape::shell::Command;
use std::path::PathBuf;

/// The kernel's NVMe driver.
const KERNEL_DRIVER: &str = "nvme";
/// The driver that gives user space access to adapters.
pub(super) const VFIO_DRIVER: &str = "vfio-pci";

/// Risks that the user has accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The adapter is unbound from the kernel's driver. Its disks are gone from `/dev` until it is rebound.
    pub unbind: bool,
    /// Without an IOMMU the adapter can reach all memory of the host: one wrong address in a command overwrites
    /// anything.
    pub no_iommu: bool,
}

/// Why an adapter can't be driven from user space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No NVMe controller has this address.
    #[error("{address} is not an NVMe controller of this host; `iotoll blk list` lists them")]
    NoController {
        /// The address given.
        address: String,
    },
    /// One of its disks is in use.
    #[error("{address} is in use: {usage}. An adapter in use is never unbound, whatever the options")]
    InUse {
        /// Its address.
        address: String,
        /// The use.
        usage: String,
    },
    /// Another controller has the same namespaces.
    #[error("{address} is in the same NVMe subsystem as {others}, through which its disks may be in use")]
    SharedSubsystem {
        /// Its address.
        address: String,
        /// The other controllers.
        others: String,
    },
    /// It has no IOMMU group.
    #[error(
        "{address} is in no IOMMU group: there is no IOMMU, or it is off (intel_iommu=on, amd_iommu=on). Without one the adapter can reach all \
         memory: one wrong address in a command overwrites anything on this host. To accept that, pass `--accept-no-iommu`"
    )]
    NoIommu {
        /// Its address.
        address: String,
    },
    /// It has no IOMMU group, which was accepted, but VFIO can't open it in no-IOMMU mode.
    #[error("{address} is in no IOMMU group, and VFIO can't open it: {why}")]
    NoNoIommuMode {
        /// Its address.
        address: String,
        /// What is missing.
        why: &'static str,
    },
    /// Its IOMMU group contains other adapters.
    #[error(
        "{address} shares IOMMU group {group} with {group_members}, so each can reach the memory of the others. Bind all of them to vfio-pci, or put \
         the adapter behind a root port with ACS"
    )]
    SharedGroup {
        /// Its address.
        address: String,
        /// The group.
        group: u32,
        /// The others, with their drivers.
        group_members: String,
    },
    /// Its driver is neither nvme nor vfio-pci.
    #[error("{address} is bound to {driver}; only an adapter bound to nvme can be unbound")]
    OtherDriver {
        /// Its address.
        address: String,
        /// The driver.
        driver: String,
    },
    /// The kernel has no `vfio-pci`.
    #[error("the driver vfio-pci is not loaded; `modprobe vfio-pci` loads it")]
    NoVfioDriver,
    /// The kernel's driver is bound, and unbinding was not accepted.
    #[error("{address} {owner}; `--unbind` unbinds it while this program runs, by: {steps}")]
    UnbindNotAccepted {
        /// Its address.
        address: String,
        /// Its driver, in words.
        owner: String,
        /// The steps, as one command.
        steps: String,
    },
    /// A file that must be written may not be.
    #[error("no permission to write {}; run it as root{hint}", file.display())]
    NoPermission {
        /// The file.
        file: PathBuf,
        /// An alternative to root, if there is one.
        hint: &'static str,
    },
}

impl Candidate {
    /// All reasons against driving it, given what was accepted. Empty if it can be tried.
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
            Some(group) => all.extend(self.check_group(group)),
            None if !accepted.no_iommu => {
                all.push(Refusal::NoIommu { address: address() });
                return all;
            }
            None => all.extend(self.no_iommu_obstacle(root)),
        }
        match self.driver.as_deref() {
            Some(VFIO_DRIVER) => {
                all.extend(self.vfio_file(root).and_then(|file| check_writable(file, GROUP_HINT)));
            }
            other => all.extend(self.unbind_refusals(root, accepted, other)),
        }
        all
    }

    /// Refuses other adapters in the group.
    fn check_group(&self, group: u32) -> Option<Refusal> {
        let strangers = self.group_members.iter().filter(|(_, driver)| {
            // An adapter without a driver is idle; one on vfio-pci was put there by the
            // administrator.
            driver.as_deref().is_some_and(|driver| driver != VFIO_DRIVER)
        });
        let group_members: Vec<String> = strangers
            .map(|(mate, driver)| format!("{mate} ({})", driver.as_deref().unwrap_or("no driver")))
            .collect();
        let address = self.address.clone();
        (!group_members.is_empty()).then(|| Refusal::SharedGroup {
            address,
            group,
            group_members: group_members.join(", "),
        })
    }

    /// Why VFIO can't open an adapter that has no IOMMU.
    fn no_iommu_obstacle(&self, root: &Root) -> Option<Refusal> {
        let module = root.path("sys/module/vfio");
        let mode = super::text(&module.join("parameters/enable_unsafe_noiommu_mode")).ok().flatten();
        let why = match mode.as_deref() {
            Some("Y") if !self.was_bound_to_vfio() || self.no_iommu_group.is_some() => return None,
            Some("Y") => "it was bound to vfio-pci before no-IOMMU mode was on; unbind it and bind it again",
            Some(_) => {
                "no-IOMMU mode is off, `echo Y > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode`"
            }
            None if !module.exists() => "VFIO is not loaded, `modprobe vfio enable_unsafe_noiommu_mode=1`",
            None => "this kernel's VFIO has no no-IOMMU mode (CONFIG_VFIO_NOIOMMU)",
        };
        Some(Refusal::NoNoIommuMode { address: self.address.clone(), why })
    }

    /// The file through which VFIO opens it: iommufd's device file if the kernel has that, else its group's.
    fn vfio_file(&self, root: &Root) -> Option<PathBuf> {
        let Some(group) = self.group else {
            return self.no_iommu_group.map(|group| root.path(&format!("dev/vfio/noiommu-{group}")));
        };
        let own = super::names(&root.device(&self.address).join("vfio-dev")).unwrap_or_default();
        Some(match own.first().filter(|_| root.path("dev/iommu").exists()) {
            Some(name) => root.path("dev/vfio/devices").join(name),
            None => root.path(&format!("dev/vfio/{group}")),
        })
    }

    /// The reasons against unbinding it from its driver.
    fn unbind_refusals(&self, root: &Root, accepted: Accepted, driver: Option<&str>) -> Vec<Refusal> {
        let mut all = Vec::new();
        if let Some(driver) = driver.filter(|driver| *driver != KERNEL_DRIVER) {
            all.push(Refusal::OtherDriver { address: self.address.clone(), driver: driver.to_owned() });
        }
        if !root.path("sys/bus/pci/drivers").join(VFIO_DRIVER).exists() {
            all.push(Refusal::NoVfioDriver);
        }
        if !accepted.unbind {
            let steps = super::Takeover::steps(root, self);
            all.push(Refusal::UnbindNotAccepted {
                address: self.address.clone(),
                owner: driver.map_or("has no driver".to_owned(), |driver| {
                    format!("is bound to the kernel's driver {driver}")
                }),
                steps: steps
                    .iter()
                    .map(super::Step::command)
                    .reduce(Command::and)
                    .map_or_else(String::new, |all| all.to_string()),
            });
        } else {
            all.extend(check_writable(root.device(&self.address).join("driver_override"), ""));
        }
        all
    }
}

const GROUP_HINT: &str = ", or have root give you that file (chown), and /dev/iommu where there is one";

/// A refusal if this process may not write the file.
fn check_writable(file: PathBuf, hint: &'static str) -> Option<Refusal> {
    use rustix::fs::{Access, access};
    match access(&file, Access::WRITE_OK) {
        Ok(()) => None,
        Err(_) => Some(Refusal::NoPermission { file, hint }),
    }
}
