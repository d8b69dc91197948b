//! An NVMe controller of this host, with the block devices that the kernel has on it.

use super::refusal::VFIO_DRIVER;
use super::usage::{self, Usage};
use super::{Root, Unreadable, link_name, names, text};
use dma::vfio::NO_IOMMU_GROUP;

/// Class, subclass and interface of an NVMe controller (PCI Code and ID Assignment Specification, 1.2.2).
const NVME_CLASS: &str = "0x010802";
/// Class of PCI-to-PCI bridges, which may share a group with the devices behind them.
const BRIDGE_CLASS: &str = "0x0604";
/// The unit of `size` in sysfs, whatever the block size.
const SECTOR_BYTES: u64 = 512;

/// A block device of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelDisk {
    /// Name in `/dev`.
    pub name: String,
    /// NSID.
    pub namespace: Option<u32>,
    /// Size in bytes.
    pub bytes: u64,
    /// It has zones, in which blocks can be written in one order only.
    pub is_zoned: bool,
    /// What uses it.
    pub usages: Vec<Usage>,
}

/// An NVMe controller of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// PCI address such as `0000:3b:00.0`.
    pub address: String,
    /// Model, if the kernel's driver is bound.
    pub model: Option<String>,
    /// Serial number, if the kernel's driver is bound.
    pub serial: Option<String>,
    /// The bound driver.
    pub driver: Option<String>,
    /// Its `driver_override`.
    pub driver_override: Option<String>,
    /// IOMMU group.
    pub group: Option<u32>,
    /// The group that VFIO created for it in no-IOMMU mode.
    pub no_iommu_group: Option<u32>,
    /// Other functions in its IOMMU group except bridges, with their drivers.
    pub group_members: Vec<(String, Option<String>)>,
    /// Other controllers of the same NVMe subsystem. They may have the same namespaces.
    pub siblings: Vec<String>,
    /// Block devices of its namespaces.
    pub disks: Vec<KernelDisk>,
}

impl Candidate {
    /// All NVMe controllers of a host, by address.
    ///
    /// # Errors
    /// [`Unreadable`]
    pub fn all(root: &Root) -> Result<Vec<Self>, Unreadable> {
        let usages = usage::of_host(root)?;
        let mut all = Vec::new();
        for address in names(&root.path("sys/bus/pci/devices"))? {
            if text(&root.device(&address).join("class"))?.as_deref() == Some(NVME_CLASS) {
                all.push(Self::read(root, &address, &usages)?);
            }
        }
        Ok(all)
    }

    /// The controller at an address.
    ///
    /// # Errors
    /// [`Unreadable`]
    pub fn at(root: &Root, address: &str) -> Result<Option<Self>, Unreadable> {
        let class = text(&root.device(address).join("class"))?;
        if class.as_deref() != Some(NVME_CLASS) {
            return Ok(None);
        }
        Self::read(root, address, &usage::of_host(root)?).map(Some)
    }

    /// Reads the controller at an address from sysfs.
    fn read(root: &Root, address: &str, usages: &usage::Found) -> Result<Self, Unreadable> {
        let folder = root.device(address);
        let number = link_name(&folder.join("iommu_group")).and_then(|name| name.parse().ok());
        let is_made_up = text(&folder.join("iommu_group/name"))?.as_deref() == Some(NO_IOMMU_GROUP);
        let (group, no_iommu_group) = if is_made_up { (None, number) } else { (number, None) };
        let driver_override = preferred(root, address)?;
        let mut candidate = Self {
            address: address.to_owned(),
            model: None,
            serial: None,
            driver: link_name(&folder.join("driver")),
            driver_override,
            group,
            no_iommu_group,
            group_members: Vec::new(),
            siblings: Vec::new(),
            disks: Vec::new(),
        };
        for mate in names(&folder.join("iommu_group/devices"))? {
            let class = text(&root.device(&mate).join("class"))?.unwrap_or_default();
            if mate != address && !class.starts_with(BRIDGE_CLASS) {
                let driver = link_name(&root.device(&mate).join("driver"));
                candidate.group_members.push((mate, driver));
            }
        }
        for controller in names(&folder.join("nvme"))? {
            let folder = folder.join("nvme").join(&controller);
            candidate.model = text(&folder.join("model"))?.or(candidate.model);
            candidate.serial = text(&folder.join("serial"))?.or(candidate.serial);
            let subsystem = text(&folder.join("subsysnqn"))?.filter(|name| !name.is_empty());
            candidate.siblings.extend(siblings(root, &controller, subsystem.as_deref())?);
            for name in names(&folder)?.iter().filter_map(|name| disk_name(name)) {
                candidate.disks.push(read_disk(root, name, usages)?);
            }
        }
        Ok(candidate)
    }

    /// Whether it was bound to `vfio-pci` before iotoll did anything.
    pub fn was_bound_to_vfio(&self) -> bool {
        self.driver.as_deref() == Some(VFIO_DRIVER)
    }

    /// All uses of its disks, with the disk's name.
    pub fn usages(&self) -> impl Iterator<Item = (&str, &Usage)> {
        self.disks.iter().flat_map(|disk| disk.usages.iter().map(|usage| (disk.name.as_str(), usage)))
    }
}

/// The adapter's `driver_override`.
fn preferred(root: &Root, address: &str) -> Result<Option<String>, Unreadable> {
    Ok(text(&root.device(address).join("driver_override"))?.filter(|text| is_driver(text)))
}

/// Whether a `driver_override` names a driver.
pub(super) fn is_driver(text: &str) -> bool {
    !text.is_empty() && text != "(null)"
}

/// Names of the other controllers of the same subsystem.
fn siblings(root: &Root, controller: &str, subsystem: Option<&str>) -> Result<Vec<String>, Unreadable> {
    let all = root.path("sys/class/nvme");
    let mut siblings = names(&all)?;
    siblings.retain(|name| name != controller);
    let mut same = Vec::new();
    for name in siblings {
        let other = text(&all.join(&name).join("subsysnqn"))?;
        if subsystem.is_some() && other.as_deref() == subsystem {
            same.push(name);
        }
    }
    Ok(same)
}

/// The disk's name: `nvme0n1`, also for the multipath name `nvme0c1n1`.
pub(super) fn disk_name(name: &str) -> Option<String> {
    let (controller, namespace) = name.strip_prefix("nvme")?.rsplit_once('n')?;
    let head = controller.split_once('c').map_or(controller, |(head, _)| head);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(head) && is_number(namespace)).then(|| format!("nvme{head}n{namespace}"))
}

/// A block device and its uses.
fn read_disk(root: &Root, name: String, usages: &usage::Found) -> Result<KernelDisk, Unreadable> {
    let folder = root.path("sys/block").join(&name);
    let sectors: u64 = text(&folder.join("size"))?.and_then(|text| text.parse().ok()).unwrap_or_default();
    let usages = usages.of_disk(root, &name)?;
    let namespace = text(&folder.join("nsid"))?.and_then(|text| text.parse().ok());
    // "none", or how the zones are managed (Documentation/ABI/stable/sysfs-block).
    let is_zoned = text(&folder.join("queue/zoned"))?.is_some_and(|zoned| zoned != "none");
    Ok(KernelDisk { name, namespace, bytes: sectors.saturating_mul(SECTOR_BYTES), is_zoned, usages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_distinguished_from_partitions_and_other_entries() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(disk_name(name).as_deref(), expected);
        check("nvme0n1", Some("nvme0n1"));
        check("nvme12c3n4", Some("nvme12n4"));
        for name in ["power", "nvme0", "ng0n1", "nvme0n1p1", "nvmen1", "nvmeXn1", "nvme0nn", "hwmon0"] {
            check(name, None);
        }
    }
}
