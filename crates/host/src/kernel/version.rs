//! The kernel's version, who built it, and what is known to differ between versions.

use super::Architecture;
use crate::{Cited, Text};

/// Who built a kernel: it decides whether the version number tells how new its IOMMU code is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Family {
    /// Red Hat Enterprise Linux and its rebuilds, by major release. They keep an old number and take the
    /// code of much newer kernels.
    Rhel(u16),
    /// Debian.
    Debian,
    /// Ubuntu.
    Ubuntu,
    /// SUSE, which also takes newer code under an old number, though less of it.
    Suse,
    /// kernel.org or a builder that this program does not know.
    Other,
}

/// A kernel release: `5.14.0-427.13.1.el9_4.x86_64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelVersion {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number; 0 where the release has none, and in Debian's and Ubuntu's releases.
    pub patch: u16,
    /// The whole release, as `uname -r` prints it.
    pub release: String,
    /// Who built it.
    pub family: Family,
    /// The architecture it was built for, where the text shows one.
    pub architecture: Option<Architecture>,
}

impl KernelVersion {
    /// Reads /proc/version, the output of `uname -a`, or a bare release.
    pub fn from_text(text: &Text) -> Option<Cited<Self>> {
        text.lines().find_map(|(line, words)| Some(Cited::new(Self::parse(words)?, text.cite(line, words))))
    }

    /// Reads one line: that of /proc/version, of `uname -a`, or a bare release.
    pub fn parse(words: &str) -> Option<Self> {
        let words = words.trim();
        let release = release_word(words)?;
        let (major, minor, patch) = numbers(release)?;
        Some(Self {
            major,
            minor,
            patch,
            release: release.to_owned(),
            family: family(release, words, (major, minor, patch)),
            architecture: Architecture::from_version_text(words),
        })
    }

    /// The three numbers.
    pub fn numbers(&self) -> (u32, u32, u32) {
        (self.major.into(), self.minor.into(), self.patch.into())
    }

    /// Whether the version number is at least this one. Says nothing of backports: see [`Self::knows`].
    pub fn at_least(&self, major: u16, minor: u16) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// Whether this kernel has what vanilla kernels up to `absent` lack and those from `present` on have;
    /// `None` between the two, and where the builder takes newer code without changing the number.
    pub fn knows(&self, absent: (u16, u16), present: (u16, u16)) -> Option<bool> {
        if self.at_least(present.0, present.1) {
            return Some(true);
        }
        let backports = matches!(self.family, Family::Rhel(_) | Family::Suse);
        (!backports && !self.at_least(absent.0, absent.1 + 1)).then_some(false)
    }

    /// The release of RHEL that this kernel belongs to.
    pub fn rhel(&self) -> Option<u16> {
        match self.family {
            Family::Rhel(major) => Some(major),
            _ => None,
        }
    }

    /// Whether /sys/kernel/iommu_groups/N/type tells lazy (`DMA-FQ`) from strict (`DMA`): in 6.1, not in 5.10 or RHEL 8.
    pub fn tells_lazy_groups(&self) -> Option<bool> {
        match self.rhel() {
            Some(..=8) => Some(false),
            _ => self.knows((5, 10), (6, 1)),
        }
    }
}

impl std::fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.release)
    }
}

/// The release in a line such as `Linux version 6.1.0-18-amd64 (...)`.
fn release_word(words: &str) -> Option<&str> {
    if let Some(at) = words.find("Linux version ") {
        return words.get(at + 14..)?.split_whitespace().next();
    }
    let mut split = words.split_whitespace();
    let first = split.next()?;
    if first == "Linux" { split.nth(1) } else { Some(first) }
}

/// The leading numbers of a release; at least two are needed to call it one.
fn numbers(release: &str) -> Option<(u16, u16, u16)> {
    let mut rest = release.split('.');
    let major = leading_number(rest.next()?)?;
    let minor = leading_number(rest.next()?)?;
    let patch = rest.next().and_then(leading_number).unwrap_or(0);
    Some((major, minor, patch))
}

/// The number that a word begins with.
fn leading_number(word: &str) -> Option<u16> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    word.get(..digits)?.parse().ok()
}

/// Who built the kernel, by its release and the rest of the line.
fn family(release: &str, words: &str, numbers: (u16, u16, u16)) -> Family {
    if let Some(major) = rhel_release(release, numbers) {
        return Family::Rhel(major);
    }
    let lower = words.to_ascii_lowercase();
    if lower.contains("ubuntu") {
        return Family::Ubuntu;
    }
    if lower.contains("debian") {
        return Family::Debian;
    }
    if lower.contains("suse") {
        return Family::Suse;
    }
    family_by_flavour(release)
}

/// The RHEL release of `.elN`, if the version is the one that RHEL N is built on.
///
/// ELRepo, Oracle's UEK and the el7a kernels carry the tag on kernels of their own.
fn rhel_release(release: &str, (major, minor, patch): (u16, u16, u16)) -> Option<u16> {
    let (_, tag) = release.split_once(".el")?;
    let rhel = leading_number(tag)?;
    let base = match rhel {
        5 => (2, 6, 18),
        6 => (2, 6, 32),
        7 => (3, 10, 0),
        8 => (4, 18, 0),
        9 => (5, 14, 0),
        10 => (6, 12, 0),
        _ => return None,
    };
    (base == (major, minor, patch) && !tag.contains("uek")).then_some(rhel)
}

/// The distribution that builds kernels of this flavour, such as `generic` or `amd64`, by the end of the release alone.
fn family_by_flavour(release: &str) -> Family {
    let Some((_, flavour)) = release.rsplit_once('-') else { return Family::Other };
    let flavours_of_ubuntu = [
        "generic",
        "lowlatency",
        "aws",
        "azure",
        "gcp",
        "gke",
        "oracle",
        "oem",
        "kvm",
        "raspi",
        "nvidia",
        "ibm",
    ];
    let flavours_of_debian =
        ["amd64", "arm64", "686", "pae", "powerpc64le", "armmp", "riscv64", "s390x", "ppc64el"];
    if flavours_of_ubuntu.contains(&flavour) {
        Family::Ubuntu
    } else if matches!(flavour, "default" | "desktop") {
        Family::Suse
    } else if flavours_of_debian.contains(&flavour) {
        Family::Debian
    } else {
        Family::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<(u16, u16, u16, Family, Option<Architecture>)>) {
        let got = KernelVersion::parse(text).map(|v| (v.major, v.minor, v.patch, v.family, v.architecture));
        assert_eq!(got, expect, "{text}");
    }

    #[test]
    fn releases() {
        let x86 = || Some(Architecture::X86_64);
        check("3.10.0-1160.el7.x86_64", Some((3, 10, 0, Family::Rhel(7), x86())));
        check("2.6.32-642.6.2.el6.ppc64", Some((2, 6, 32, Family::Rhel(6), Some(Architecture::Ppc64))));
        check("2.6.18-398.el5", Some((2, 6, 18, Family::Rhel(5), None)));
        check("4.18.0-394.el8", Some((4, 18, 0, Family::Rhel(8), None)));
        check("5.14.0-427.13.1.el9_4.x86_64", Some((5, 14, 0, Family::Rhel(9), x86())));
        check("6.1.0-53-amd64", Some((6, 1, 0, Family::Debian, x86())));
        check("6.12.41+deb13-amd64", Some((6, 12, 41, Family::Debian, x86())));
        check("5.15.0-1034-raspi", Some((5, 15, 0, Family::Ubuntu, None)));
        check("5.3.18-150300.59.93-default", Some((5, 3, 18, Family::Suse, None)));
        check("3.11.10-7-desktop", Some((3, 11, 10, Family::Suse, None)));
        check("6.8.0-rc3", Some((6, 8, 0, Family::Other, None)));
        check("6.9", Some((6, 9, 0, Family::Other, None)));
        check("", None);
        check("Linux", None);
        check("99999999.1", None);
    }

    #[test]
    fn a_tag_on_another_base_is_not_rhel() {
        check("5.4.270-1.el7.elrepo.x86_64", Some((5, 4, 270, Family::Other, Some(Architecture::X86_64))));
        check("5.4.17-2136.330.el8uek.x86_64", Some((5, 4, 17, Family::Other, Some(Architecture::X86_64))));
        check("4.14.0-115.el7a.ppc64le", Some((4, 14, 0, Family::Other, Some(Architecture::Ppc64le))));
    }

    #[test]
    fn whole_lines() {
        check(
            "Linux version 6.1.0-53-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0) #1 SMP PREEMPT_DYNAMIC Debian 6.1.187-1 (2026-09-07)",
            Some((6, 1, 0, Family::Debian, Some(Architecture::X86_64))),
        );
        check(
            "Linux node7 4.18.0-394.el8.ppc64le #1 SMP Tue May 31 2022 ppc64le ppc64le ppc64le GNU/Linux",
            Some((4, 18, 0, Family::Rhel(8), Some(Architecture::Ppc64le))),
        );
        check(
            "Linux version 5.15.0-100-generic (buildd@lcy02) (gcc (Ubuntu 11.4.0) 11.4.0) #110-Ubuntu SMP",
            Some((5, 15, 0, Family::Ubuntu, None)),
        );
    }

    #[test]
    fn dates() {
        let of = |text: &str| KernelVersion::parse(text).unwrap();
        assert_eq!(of("4.18.0-394.el8").tells_lazy_groups(), Some(false));
        assert_eq!(of("5.10.0-30-amd64").tells_lazy_groups(), Some(false));
        assert_eq!(of("5.15.0-100-generic").tells_lazy_groups(), None);
        assert_eq!(of("6.1.0-53-amd64").tells_lazy_groups(), Some(true));
        assert!(of("6.1.0").at_least(5, 19) && !of("6.1.0").at_least(6, 2));
    }
}
