//! The kernel series that the lab can download, by architecture.

use super::Package;
use crate::Arch;
use std::{fmt, str::FromStr};

/// A stable kernel series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Series {
    /// Linux 6.1, Debian 12's default.
    V6_1,
    /// Linux 6.12, which Debian 12 also has.
    V6_12,
}

impl Series {
    /// Both, older first.
    pub const ALL: [Self; 2] = [Self::V6_1, Self::V6_12];

    /// Its name: `6.1`.
    pub fn word(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        }
    }

    /// Whether a release such as `6.1.0-56-amd64` belongs to it.
    pub fn contains(self, release: &str) -> bool {
        release.strip_prefix(self.word()).is_some_and(|rest| rest.starts_with('.'))
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The name of an unknown series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kernel series `{0}`; expected 6.1 or 6.12")]
pub struct SeriesError(String);

impl FromStr for Series {
    type Err = SeriesError;

    fn from_str(word: &str) -> Result<Self, SeriesError> {
        let known = Self::ALL.into_iter().find(|series| series.word() == word);
        known.ok_or_else(|| SeriesError(word.chars().take(40).collect()))
    }
}

/// A kernel that can be downloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelChoice {
    /// The guest's architecture.
    pub arch: Arch,
    /// The series it belongs to.
    pub series: Series,
}

impl KernelChoice {
    /// The kernels that the built-in presets boot: 6.1 everywhere, and 6.12 on x86, the only architecture for which
    /// Debian 12 publishes it.
    pub const ALL: [Self; 4] = [
        Self { arch: Arch::X86, series: Series::V6_1 },
        Self { arch: Arch::X86, series: Series::V6_12 },
        Self { arch: Arch::Arm, series: Series::V6_1 },
        Self { arch: Arch::Ppc, series: Series::V6_1 },
    ];

    /// Debian 12's metapackage, which depends on the newest kernel of the series.
    pub(super) fn meta_package(self) -> String {
        let flavour = self.arch.kernel_flavour();
        match self.series {
            Series::V6_1 => format!("linux-image-{flavour}"),
            Series::V6_12 => format!("linux-image-6.12-{flavour}"),
        }
    }

    /// The kernel release in `package`. `None` if it is no kernel of this series, or a variant of one (cloud,
    /// real time, unsigned, debugging symbols).
    pub(super) fn release_in(self, package: &Package) -> Option<&str> {
        let release = package.name.strip_prefix("linux-image-")?;
        let version = release.strip_suffix(self.arch.kernel_flavour())?.strip_suffix('-')?;
        let plain = !version.ends_with("-cloud") && !version.ends_with("-rt");
        (plain && self.series.contains(release)).then_some(release)
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.series, self.arch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arch: Arch, series: Series, name: &str, expect: Option<&str>) {
        let package = Package { name: name.to_owned(), version: "1".to_owned() };
        assert_eq!(KernelChoice { arch, series }.release_in(&package), expect, "{name}");
    }

    #[test]
    fn only_packages_of_plain_kernels_have_a_release() {
        use Series::{V6_1, V6_12};
        check(Arch::X86, V6_1, "linux-image-6.1.0-56-amd64", Some("6.1.0-56-amd64"));
        check(Arch::X86, V6_12, "linux-image-6.12.117+deb12-amd64", Some("6.12.117+deb12-amd64"));
        check(Arch::Ppc, V6_1, "linux-image-6.1.0-50-powerpc64le", Some("6.1.0-50-powerpc64le"));
        check(Arch::X86, V6_1, "linux-image-6.12.117+deb12-amd64", None);
        check(Arch::X86, V6_12, "linux-image-6.1.0-56-amd64", None);
        check(Arch::Arm, V6_1, "linux-image-6.1.0-56-cloud-arm64", None);
        check(Arch::Arm, V6_1, "linux-image-6.1.0-56-rt-arm64", None);
        check(Arch::Arm, V6_1, "linux-image-6.1.0-56-arm64-dbg", None);
        check(Arch::X86, V6_1, "linux-image-amd64", None);
        check(Arch::X86, V6_1, "busybox-static", None);
    }

    #[test]
    fn every_series_is_parsed_from_its_name() {
        for series in Series::ALL {
            assert_eq!(series.word().parse(), Ok(series));
        }
        assert!("6".parse::<Series>().is_err());
    }
}
