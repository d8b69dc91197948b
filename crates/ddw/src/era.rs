//! Generations of the kernel's code for 64-bit windows.
//!
//! `enable_ddw` (arch/powerpc/platforms/pseries/iommu.c) changed its decision several times. Each era was read in one or more source
//! trees. A version between two of them is assigned by the release that most likely made the change, with a doubt.

use serde::Serialize;

/// A kernel version: 6.1.176 is `(6, 1, 176)`.
pub type KernelVersion = (u32, u32, u32);

/// First vanilla kernel with 64-bit windows. Vendors backported the code to older ones.
const FIRST_WITH_DDW: KernelVersion = (2, 6, 39);

/// A generation of the window code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Era {
    /// Before the feature: vanilla kernels up to 2.6.38.
    NoDdw,
    /// RHEL 6.1 and later (2.6.32 with the feature).
    Rhel6,
    /// Vanilla 2.6.39 to 3.9, read at 3.6; removes the default window first if firmware can restore it.
    Linux36,
    /// RHEL 7 (3.10) and vanilla up to 4.19, read at 4.4, 4.9, 4.14 and 4.19.
    Rhel7To419,
    /// Vanilla 5.0 to 5.12, read at 5.10.
    Linux510,
    /// RHEL 8 (4.18 with later code), read at 4.18.0-394.
    Rhel8,
    /// Vanilla 5.13 to 6.8, read at 6.1: a window too small for all memory is used dynamically.
    Linux61,
    /// Vanilla from 6.9, read at 6.12: narrower device masks are served, too.
    Linux612,
}

/// An era, and whether it was inferred across a gap between the trees that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct EraOf {
    /// The era.
    pub era: Era,
    /// Why it may be another one.
    pub doubt: Option<&'static str>,
}

impl Era {
    /// All eras, the oldest code first.
    pub const ALL: [Self; 8] = [
        Self::NoDdw,
        Self::Rhel6,
        Self::Linux36,
        Self::Rhel7To419,
        Self::Linux510,
        Self::Rhel8,
        Self::Linux61,
        Self::Linux612,
    ];

    /// The era of a kernel. `rhel_major` is the major release of Red Hat's distribution or of a rebuild,
    /// whose kernels carry later code under an old version number.
    pub fn of(kernel: KernelVersion, rhel_major: Option<u32>) -> EraOf {
        match rhel_major {
            Some(6) => doubtful(Self::Rhel6, "6.0 (2.6.32-71) still lacks 64-bit windows"),
            Some(7) => sure(Self::Rhel7To419),
            Some(8) => sure(Self::Rhel8),
            Some(9) => doubtful(Self::Linux61, "RHEL 9 (5.14 with later code) was not read"),
            _ if kernel < FIRST_WITH_DDW => {
                doubtful(Self::NoDdw, "vendors brought 64-bit windows to older kernels")
            }
            _ => vanilla((kernel.0, kernel.1)),
        }
    }

    /// Whether it knows nine page sizes instead of only the first three (4 KiB, 64 KiB, 16 MiB).
    pub fn knows_all_page_sizes(self) -> bool {
        matches!(self, Self::Rhel8 | Self::Linux61 | Self::Linux612)
    }

    /// Whether it removes the default window before it queries, if firmware can restore it.
    pub fn removes_default_window_first(self) -> bool {
        self == Self::Linux36
    }

    /// Whether it removes the default window if no other window is available, and queries again.
    pub fn replaces_default_window(self) -> bool {
        // Linux 3.6 has removed it before the query.
        matches!(self, Self::Linux510 | Self::Rhel8 | Self::Linux61 | Self::Linux612)
    }

    /// The source trees in which this era was read.
    pub fn source_trees(self) -> &'static str {
        match self {
            Self::NoDdw => "Linux 2.6.18 and 2.6.32",
            Self::Rhel6 => "RHEL 6 2.6.32-642.6.2",
            Self::Linux36 => "Linux 3.6",
            Self::Rhel7To419 => "RHEL 7 3.10.0-1160, Linux 4.4, 4.9, 4.14, 4.19",
            Self::Linux510 => "Linux 5.10",
            Self::Rhel8 => "RHEL 8 4.18.0-394",
            Self::Linux61 => "Linux 6.1",
            Self::Linux612 => "Linux 6.12 and 7.2",
        }
    }
}

/// An era without doubt.
fn sure(era: Era) -> EraOf {
    EraOf { era, doubt: None }
}

/// An era with the reason for doubt.
fn doubtful(era: Era, doubt: &'static str) -> EraOf {
    EraOf { era, doubt: Some(doubt) }
}

/// The era of a kernel without vendor changes, by major and minor version.
fn vanilla(version: (u32, u32)) -> EraOf {
    const GAP_36: &str = "changed somewhere between 3.6 and 4.4";
    const GAP_510: &str = "changed somewhere between 4.19 and 5.10";
    const GAP_61: &str =
        "changed somewhere between 5.10 and 6.1, page sizes and dynamic use perhaps in different releases";
    const GAP_612: &str = "changed somewhere between 6.1 and 6.12";
    match version {
        (0..=2, _) => doubtful(Era::Linux36, "changed somewhere between 2.6.39 and 3.6"),
        (3, 0..=6) => sure(Era::Linux36),
        (3, 7..=9) => doubtful(Era::Linux36, GAP_36),
        (3, _) | (4, 0..=3) => doubtful(Era::Rhel7To419, GAP_36),
        (4, _) => sure(Era::Rhel7To419),
        (5, 0..=9) => doubtful(Era::Linux510, GAP_510),
        (5, 10) => sure(Era::Linux510),
        (5, 11..=12) => doubtful(Era::Linux510, GAP_61),
        (5, _) | (6, 0) => doubtful(Era::Linux61, GAP_61),
        (6, 1) => sure(Era::Linux61),
        (6, 2..=8) => doubtful(Era::Linux61, GAP_612),
        (6, 9..=11) => doubtful(Era::Linux612, GAP_612),
        _ => sure(Era::Linux612),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kernel: KernelVersion, rhel_major: Option<u32>, era: Era, doubted: bool) {
        let found = Era::of(kernel, rhel_major);
        assert_eq!((found.era, found.doubt.is_some()), (era, doubted), "{kernel:?} {rhel_major:?}");
    }

    #[test]
    fn eras() {
        check((2, 6, 32), None, Era::NoDdw, true);
        check((2, 6, 32), Some(6), Era::Rhel6, true);
        check((2, 6, 18), Some(5), Era::NoDdw, true);
        check((2, 6, 39), None, Era::Linux36, true);
        check((3, 0, 13), None, Era::Linux36, false);
        check((3, 10, 0), Some(7), Era::Rhel7To419, false);
        check((4, 4, 70), None, Era::Rhel7To419, false);
        check((4, 18, 0), Some(8), Era::Rhel8, false);
        check((4, 19, 0), None, Era::Rhel7To419, false);
        check((5, 10, 262), None, Era::Linux510, false);
        check((5, 14, 0), Some(9), Era::Linux61, true);
        check((6, 1, 176), None, Era::Linux61, false);
        check((6, 6, 0), None, Era::Linux61, true);
        check((6, 12, 0), Some(10), Era::Linux612, false);
        check((7, 2, 0), None, Era::Linux612, false);
    }
}
