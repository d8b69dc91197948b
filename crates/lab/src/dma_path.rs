//! Checks which DMA path an adapter has, from what its guest's sysfs says.
//!
//! On x86 and Arm the type of the IOMMU group identifies the path (kernel:
//! `Documentation/ABI/testing/sysfs-kernel-iommu_groups`). Groups on POWER have no type. There the kernel adds each DMA
//! window that it created to the device tree, beside the default window (`arch/powerpc/platforms/pseries/iommu.c`). An
//! adapter uses the large window if its DMA mask reaches it.

use crate::workload::USER_DRIVER;
use toll::DmaPath;

/// Prefix of the console's line with an adapter's address, driver, IOMMU group type, DMA mask and DMA windows.
pub(crate) const ADAPTER: &str = "lab: found";

/// Device-tree property of the large window that maps all memory once.
pub(crate) const DIRECT_WINDOW: &str = "linux,direct64-ddr-window-info";
/// Device-tree property of the large window whose entries are written per mapping.
pub(crate) const DYNAMIC_WINDOW: &str = "linux,dma64-ddr-window-info";
/// Device-tree property of the default window.
pub(crate) const DEFAULT_WINDOW: &str = "ibm,dma-window";

/// The DMA mask that reaches the large windows: they begin far above what smaller masks cover.
const MASK_BITS: &str = "64";

/// An adapter as its guest's sysfs describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdapterInfo<'l> {
    /// Its address on the PCI bus.
    pub(crate) address: &'l str,
    driver: &'l str,
    group_type: &'l str,
    mask_bits: &'l str,
    windows: Vec<&'l str>,
}

impl<'l> AdapterInfo<'l> {
    /// Parses a line of the guest's console: address, driver, IOMMU group type, DMA mask bits, DMA windows. `None` for
    /// any other line.
    pub(crate) fn parse(line: &'l str) -> Option<Self> {
        let mut words = line.strip_prefix(ADAPTER)?.split_ascii_whitespace();
        let (address, driver, group_type, mask_bits) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(Self { address, driver, group_type, mask_bits, windows: words.collect() })
    }

    /// Whether the adapter uses a DMA path. True for paths that sysfs can't tell.
    pub(crate) fn uses(&self, dma_path: DmaPath) -> bool {
        match dma_path {
            DmaPath::NoIommu | DmaPath::Bounce => self.group_type == "none",
            DmaPath::Identity => self.group_type == "identity",
            DmaPath::TranslatedLazy => self.group_type == "DMA-FQ",
            DmaPath::TranslatedStrict => self.group_type == "DMA",
            DmaPath::DirectWindow | DmaPath::DynamicWindow | DmaPath::TceWindow => {
                self.window() == Some(dma_path)
            }
            // VFIO also accepts a device without an IOMMU, in its unsafe no-IOMMU mode.
            DmaPath::User => self.driver == USER_DRIVER && self.group_type != "none",
            DmaPath::Unbound | DmaPath::Unknown => true,
        }
    }

    /// On POWER, the DMA path through the window that the adapter uses.
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

    /// Describes the property that decides whether the adapter uses `dma_path`, for an error text.
    pub(crate) fn describe(&self, dma_path: DmaPath) -> String {
        match dma_path {
            DmaPath::DirectWindow | DmaPath::DynamicWindow | DmaPath::TceWindow => {
                let windows =
                    if self.windows.is_empty() { "none".to_owned() } else { self.windows.join(" ") };
                format!("has a DMA mask of {} bits and the DMA windows: {windows}", self.mask_bits)
            }
            DmaPath::User => {
                format!("has the driver `{}` and an IOMMU group of type `{}`", self.driver, self.group_type)
            }
            _ => format!("has an IOMMU group of type `{}`", self.group_type),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn check(rest: &str, expected: &[DmaPath]) {
        let line = format!("lab: found 0000:00:04.0 nvme {rest}");
        let found = AdapterInfo::parse(&line).unwrap();
        assert_eq!(found.address, "0000:00:04.0");
        let used = DmaPath::ALL.into_iter().filter(|dma_path| {
            !matches!(dma_path, DmaPath::User | DmaPath::Unbound | DmaPath::Unknown) && found.uses(*dma_path)
        });
        assert_eq!(used.collect::<Vec<_>>(), expected, "{rest}");
    }

    #[test]
    fn the_iommu_group_s_type_identifies_the_path() {
        check("none 64", &[DmaPath::NoIommu, DmaPath::Bounce]);
        check("identity 64", &[DmaPath::Identity]);
        check("DMA 64", &[DmaPath::TranslatedStrict]);
        check("DMA-FQ 32", &[DmaPath::TranslatedLazy]);
    }

    #[test]
    fn on_power_the_windows_and_the_mask_identify_the_path() {
        let on = |windows: &str, expected: DmaPath| check(&format!("unmanaged {windows}"), &[expected]);
        on("64 ibm,dma-window", DmaPath::TceWindow);
        on("64 linux,direct64-ddr-window-info ibm,dma-window", DmaPath::DirectWindow);
        on("64 linux,direct64-ddr-window-info", DmaPath::DirectWindow);
        on("64 linux,dma64-ddr-window-info ibm,dma-window", DmaPath::DynamicWindow);
        // A window that the adapter's DMA mask does not reach is not used.
        on("32 linux,direct64-ddr-window-info ibm,dma-window", DmaPath::TceWindow);
        check("unmanaged 32 linux,direct64-ddr-window-info", &[]);
        check("unmanaged 64", &[]);
    }

    #[test]
    fn a_user_space_driver_s_adapter_is_bound_to_vfio_behind_an_iommu() {
        let is_user = |line: &str| AdapterInfo::parse(line).unwrap().uses(DmaPath::User);
        assert!(is_user("lab: found 0000:00:04.0 vfio-pci DMA 64"));
        assert!(!is_user("lab: found 0000:00:04.0 vfio-pci none 64"));
        assert!(!is_user("lab: found 0000:00:04.0 nvme DMA 64"));
        let astray =
            AdapterInfo::parse("lab: found 0000:00:04.0 nvme DMA 64").unwrap().describe(DmaPath::User);
        assert_eq!(astray, "has the driver `nvme` and an IOMMU group of type `DMA`");
    }

    #[test]
    fn an_adapter_is_described_in_the_terms_of_the_expected_path() {
        let found = AdapterInfo::parse("lab: found 0000:00:04.0 nvme none 64 ibm,dma-window").unwrap();
        assert_eq!(
            found.describe(DmaPath::DirectWindow),
            "has a DMA mask of 64 bits and the DMA windows: ibm,dma-window"
        );
        assert_eq!(found.describe(DmaPath::Identity), "has an IOMMU group of type `none`");
        assert_eq!(AdapterInfo::parse("lab: ended loop 0"), None);
    }
}
