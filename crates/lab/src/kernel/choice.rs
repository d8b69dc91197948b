//! Which kernel is wanted.

use super::Package;
use crate::Arch;
use std::{fmt, str::FromStr};

/// A line of stable kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Series {
    /// Linux 6.1, the kernel that Debian 12 came with.
    V6_1,
    /// Linux 6.12, which Debian 12 offers beside it.
    V6_12,
}

impl Series {
    /// Both, older first.
    pub const ALL: [Self; 2] = [Self::V6_1, Self::V6_12];

    /// The word for it: `6.1`.
    pub fn word(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        }
    }

    /// Whether a release such as `6.1.0-56-amd64` belongs to it.
    pub fn holds(self, release: &str) -> bool {
        release.strip_prefix(self.word()).is_some_and(|rest| rest.starts_with('.'))
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word that names no series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no series of kernels that is fetched; expected 6.1 or 6.12")]
pub struct SeriesError(String);

impl FromStr for Series {
    type Err = SeriesError;

    fn from_str(word: &str) -> Result<Self, SeriesError> {
        let known = Self::ALL.into_iter().find(|series| series.word() == word);
        known.ok_or_else(|| SeriesError(word.chars().take(40).collect()))
    }
}

/// A kernel that can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelChoice {
    /// The guest's architecture.
    pub arch: Arch,
    /// The line it belongs to.
    pub series: Series,
}

impl KernelChoice {
    /// What the lab's own presets boot: 6.1 everywhere, and 6.12 on x86 alone, because that is where
    /// Debian 12 offers it for all to have.
    pub const ALL: [Self; 4] = [
        Self { arch: Arch::X86, series: Series::V6_1 },
        Self { arch: Arch::X86, series: Series::V6_12 },
        Self { arch: Arch::Arm, series: Series::V6_1 },
        Self { arch: Arch::Ppc, series: Series::V6_1 },
    ];

    /// Debian 12's package that always depends on the newest of them.
    pub(super) fn meta_package(self) -> String {
        let flavour = self.arch.kernel_flavour();
        match self.series {
            Series::V6_1 => format!("linux-image-{flavour}"),
            Series::V6_12 => format!("linux-image-6.12-{flavour}"),
        }
    }

    /// The release in `package`, if that is a kernel of this choice and not a variant of one (cloud,
    /// real time, without signature, debugging symbols).
    pub(super) fn release_in(self, package: &Package) -> Option<&str> {
        let release = package.name.strip_prefix("linux-image-")?;
        let version = release.strip_suffix(self.arch.kernel_flavour())?.strip_suffix('-')?;
        let plain = !version.ends_with("-cloud") && !version.ends_with("-rt");
        (plain && self.series.holds(release)).then_some(release)
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
    fn releases_in_packages() {
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
    fn words_of_series() {
        for series in Series::ALL {
            assert_eq!(series.word().parse(), Ok(series));
        }
        assert!("6".parse::<Series>().is_err());
    }
}
