//! The DMA path that an adapter took, by what its guest says of it.
//!
//! On x86 and Arm the type of its IOMMU group tells (kernel: `Documentation/ABI/testing/sysfs-kernel-iommu_groups`). POWER's
//! groups have none. There the kernel writes each window it made into the device tree, where the default window stands too
//! (`arch/powerpc/platforms/pseries/iommu.c`), and an adapter goes through the large one if its DMA mask reaches there.

use crate::guest::init::FOUND;
use crate::workload::USER_DRIVER;
use toll::DmaPath;

/// The window that maps all memory.
pub(crate) const DIRECT_WINDOW: &str = "linux,direct64-ddr-window-info";
/// The large window whose entries are written per mapping.
pub(crate) const DYNAMIC_WINDOW: &str = "linux,dma64-ddr-window-info";
/// The default window.
pub(crate) const DEFAULT_WINDOW: &str = "ibm,dma-window";

/// The windows of 64 bits begin far above what smaller masks reach.
const MASK_BITS: &str = "64";

/// What a guest says of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found<'l> {
    /// Its address on the PCI bus.
    pub(crate) address: &'l str,
    driver: &'l str,
    group_type: &'l str,
    mask_bits: &'l str,
    windows: Vec<&'l str>,
}

impl<'l> Found<'l> {
    /// Reads a line of the guest's console: address, driver, group's type, mask's bits, windows.
    pub(crate) fn read(line: &'l str) -> Option<Self> {
        let mut words = line.strip_prefix(FOUND)?.split_ascii_whitespace();
        let (address, driver, group_type, mask_bits) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(Self { address, driver, group_type, mask_bits, windows: words.collect() })
    }

    /// Whether it is on a DMA path. Of DMA paths that nothing tells, it is believed.
    pub(crate) fn is_on(&self, dma_path: DmaPath) -> bool {
        match dma_path {
            DmaPath::NoIommu | DmaPath::Bounce => self.group_type == "none",
            DmaPath::Identity => self.group_type == "identity",
            DmaPath::TranslatedLazy => self.group_type == "DMA-FQ",
            DmaPath::TranslatedStrict => self.group_type == "DMA",
            DmaPath::DirectWindow | DmaPath::DynamicWindow | DmaPath::TceWindow => {
                self.window() == Some(dma_path)
            }
            // A group without an IOMMU is VFIO's too, if it is told that this is unsafe.
            DmaPath::User => self.driver == USER_DRIVER && self.group_type != "none",
            DmaPath::Unbound | DmaPath::Unknown => true,
        }
    }

    /// The window that its DMA goes through.
    fn window(&self) -> Option<DmaPath> {
        let has = |window| self.windows.contains(&window);
        let reaches = self.mask_bits == MASK_BITS;
        if has(DIRECT_WINDOW) && reaches {
            Some(DmaPath::DirectWindow)
        } else if has(DYNAMIC_WINDOW) && reaches {
            Some(DmaPath::DynamicWindow)
        } else {
            has(DEFAULT_WINDOW).then_some(DmaPath::TceWindow)
        }
    }

    /// What it was given, in words.
    pub(crate) fn given(&self, dma_path: DmaPath) -> String {
        match dma_path {
            DmaPath::DirectWindow | DmaPath::DynamicWindow | DmaPath::TceWindow => {
                let windows =
                    if self.windows.is_empty() { "none".to_owned() } else { self.windows.join(" ") };
                format!("has a DMA mask of {} bits, and of windows: {windows}", self.mask_bits)
            }
            DmaPath::User => {
                format!(
                    "has the driver `{}` and an IOMMU group of the type `{}`",
                    self.driver, self.group_type
                )
            }
            _ => format!("has an IOMMU domain of the type `{}`", self.group_type),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn check(rest: &str, expected: &[DmaPath]) {
        let line = format!("lab: found 0000:00:04.0 nvme {rest}");
        let found = Found::read(&line).unwrap();
        assert_eq!(found.address, "0000:00:04.0");
        let told = DmaPath::ALL.into_iter().filter(|dma_path| {
            !matches!(dma_path, DmaPath::User | DmaPath::Unbound | DmaPath::Unknown) && found.is_on(*dma_path)
        });
        assert_eq!(told.collect::<Vec<_>>(), expected, "{rest}");
    }

    #[test]
    fn groups_tell() {
        check("none 64", &[DmaPath::NoIommu, DmaPath::Bounce]);
        check("identity 64", &[DmaPath::Identity]);
        check("DMA 64", &[DmaPath::TranslatedStrict]);
        check("DMA-FQ 32", &[DmaPath::TranslatedLazy]);
    }

    #[test]
    fn windows_tell_with_the_mask() {
        let on = |windows: &str, expected: DmaPath| check(&format!("unmanaged {windows}"), &[expected]);
        on("64 ibm,dma-window", DmaPath::TceWindow);
        on("64 linux,direct64-ddr-window-info ibm,dma-window", DmaPath::DirectWindow);
        on("64 linux,direct64-ddr-window-info", DmaPath::DirectWindow);
        on("64 linux,dma64-ddr-window-info ibm,dma-window", DmaPath::DynamicWindow);
        // Another adapter's window is of no use to one that can't reach it.
        on("32 linux,direct64-ddr-window-info ibm,dma-window", DmaPath::TceWindow);
        check("unmanaged 32 linux,direct64-ddr-window-info", &[]);
        check("unmanaged 64", &[]);
    }

    #[test]
    fn a_program_s_adapter_is_vfio_s_behind_an_iommu() {
        let is_user = |line: &str| Found::read(line).unwrap().is_on(DmaPath::User);
        assert!(is_user("lab: found 0000:00:04.0 vfio-pci DMA 64"));
        assert!(!is_user("lab: found 0000:00:04.0 vfio-pci none 64"));
        assert!(!is_user("lab: found 0000:00:04.0 nvme DMA 64"));
        let astray = Found::read("lab: found 0000:00:04.0 nvme DMA 64").unwrap().given(DmaPath::User);
        assert_eq!(astray, "has the driver `nvme` and an IOMMU group of the type `DMA`");
    }

    #[test]
    fn what_was_given_is_told_in_the_dma_path_s_terms() {
        let found = Found::read("lab: found 0000:00:04.0 nvme none 64 ibm,dma-window").unwrap();
        assert_eq!(
            found.given(DmaPath::DirectWindow),
            "has a DMA mask of 64 bits, and of windows: ibm,dma-window"
        );
        assert_eq!(found.given(DmaPath::Identity), "has an IOMMU domain of the type `none`");
        assert_eq!(Found::read("lab: ended loop 0"), None);
    }
}
