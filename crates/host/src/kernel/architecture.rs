//! The processor architecture and the maker of the processor.

use crate::{Cited, Text};

/// A processor architecture, as far as Linux's DMA code differs by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86.
    X86,
    /// 64-bit Arm.
    Aarch64,
    /// 32-bit Arm.
    Arm,
    /// Little-endian 64-bit POWER.
    Ppc64le,
    /// Big-endian 64-bit POWER.
    Ppc64,
    /// 64-bit RISC-V.
    Riscv64,
    /// IBM Z.
    S390x,
    /// Another one, by its own name.
    Other(String),
}

impl Architecture {
    /// The architecture that a word of `uname`, of a package name or of a compiler's target names.
    ///
    /// Knows the kernel's names (`x86_64`), Debian's (`amd64`, `powerpc64le`) and GNU's (`x86-64`).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "x86_64" | "amd64" | "x86-64" | "x64" => Self::X86_64,
            "i386" | "i486" | "i586" | "i686" | "x86" | "686" | "pae" => Self::X86,
            "aarch64" | "arm64" => Self::Aarch64,
            "armv6l" | "armv7l" | "armv7hl" | "armv8l" | "armmp" | "armhf" | "armel" => Self::Arm,
            "ppc64le" | "powerpc64le" | "ppc64el" => Self::Ppc64le,
            "ppc64" | "powerpc64" => Self::Ppc64,
            "riscv64" => Self::Riscv64,
            "s390x" => Self::S390x,
            "ia64" | "loongarch64" | "mips64" | "mips" | "sparc64" | "alpha" | "parisc64" | "ppc"
            | "s390" => Self::Other(name.to_owned()),
            _ => return None,
        })
    }

    /// The architecture that a kernel release ends with: `6.1.0-53-amd64`, `3.10.0-1160.el7.x86_64`.
    ///
    /// Releases of Ubuntu, SUSE and kernel.org do not name one.
    pub fn from_release(release: &str) -> Option<Self> {
        // A debug or real-time build may add a word of its own after the architecture.
        release.rsplit(['.', '-', '+']).take(3).find_map(Self::from_name)
    }

    /// The architecture that /proc/version or `uname -a` shows: in the release, in the machine words at
    /// the end, or in the compiler's name.
    pub fn from_version_text(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let release = match text.find("Linux version ") {
            Some(at) => text.get(at + 14..).and_then(|rest| rest.split_whitespace().next()),
            None if text.starts_with("Linux ") => words.nth(2),
            None => words.next(),
        };
        release
            .and_then(Self::from_release)
            .or_else(|| text.split_whitespace().rev().take(6).find_map(Self::from_name))
            .or_else(|| text.split_whitespace().find_map(from_compiler))
    }

    /// The architecture that /proc/cpuinfo's layout betrays.
    ///
    /// The fields are printed by each architecture's `show_cpuinfo`. Endianness of POWER and the width of
    /// x86 are told only where a field says so.
    pub fn from_cpuinfo(text: &Text) -> Option<Cited<Self>> {
        for (line, words) in text.lines() {
            let Some((key, value)) = words.split_once(':') else { continue };
            let found = match (key.trim(), value.trim()) {
                ("flags", flags) if flags.split_whitespace().any(|f| f == "lm") => Self::X86_64,
                ("flags", _) => Self::X86,
                // 32-bit Arm prints a model name for its cores and "Hardware"; 64-bit prints neither flag.
                ("CPU architecture", "8" | "AArch64") => Self::Aarch64,
                ("CPU architecture", _) => Self::Arm,
                ("isa", isa) if isa.starts_with("rv64") => Self::Riscv64,
                ("vendor_id", "IBM/S390") => Self::S390x,
                ("cpu", model) => match power_endianness(model) {
                    Some(arch) => arch,
                    None => continue,
                },
                _ => continue,
            };
            return Some(Cited::new(found, text.cite(line, words)));
        }
        None
    }

    /// Whether this is x86 of either width.
    pub fn is_x86(&self) -> bool {
        matches!(self, Self::X86_64 | Self::X86)
    }

    /// Whether this is 64-bit POWER of either endianness.
    pub fn is_power(&self) -> bool {
        matches!(self, Self::Ppc64le | Self::Ppc64)
    }

    /// Whether this is Arm of either width.
    pub fn is_arm(&self) -> bool {
        matches!(self, Self::Aarch64 | Self::Arm)
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::X86 => "x86",
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
            Self::Ppc64le => "ppc64le",
            Self::Ppc64 => "ppc64",
            Self::Riscv64 => "riscv64",
            Self::S390x => "s390x",
            Self::Other(name) => name,
        })
    }
}

/// `x86_64-linux-gnu-gcc-12` → x86_64: the compiler of a natively built kernel names its target.
fn from_compiler(word: &str) -> Option<Architecture> {
    let word = word.trim_start_matches('(');
    let (target, _) = word.split_once("-linux-gnu")?;
    Architecture::from_name(target)
}

/// POWER7 and older ran big-endian kernels only, POWER9 and later little-endian ones; POWER8 ran both.
fn power_endianness(model: &str) -> Option<Architecture> {
    let generation = model.strip_prefix("POWER")?;
    let digits = generation.bytes().take_while(u8::is_ascii_digit).count();
    match generation.get(..digits)?.parse::<u8>().ok()? {
        0..=7 => Some(Architecture::Ppc64),
        8 => None,
        _ => Some(Architecture::Ppc64le),
    }
}

/// Who made the processor; x86's IOMMU options are per vendor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CpuVendor {
    /// `GenuineIntel`: VT-d.
    Intel,
    /// `AuthenticAMD`: AMD-Vi.
    Amd,
    /// `HygonGenuine`: AMD-Vi.
    Hygon,
    /// An implementer of Arm cores, by the number in cpuinfo (0x41 is Arm itself).
    ArmImplementer(u8),
    /// IBM POWER or Z.
    Ibm,
    /// Another one, by its own name.
    Other(String),
}

impl CpuVendor {
    /// The vendor that /proc/cpuinfo names.
    pub fn from_cpuinfo(text: &Text) -> Option<Cited<Self>> {
        text.lines().find_map(|(line, words)| {
            let (key, value) = words.split_once(':')?;
            let vendor = vendor_of_field(key.trim(), value.trim())?;
            Some(Cited::new(vendor, text.cite(line, words)))
        })
    }

    /// Whether the processor's IOMMU is AMD-Vi.
    pub fn has_amd_vi(&self) -> bool {
        matches!(self, Self::Amd | Self::Hygon)
    }

    /// Whether the processor's IOMMU is VT-d. Zhaoxin's and Centaur's are VT-d too.
    pub fn has_vt_d(&self) -> bool {
        match self {
            Self::Intel => true,
            Self::Other(name) => matches!(name.as_str(), "CentaurHauls" | "Shanghai"),
            _ => false,
        }
    }
}

/// The processor's vendor, from a field of `/proc/cpuinfo`.
fn vendor_of_field(key: &str, value: &str) -> Option<CpuVendor> {
    match (key, value) {
        ("vendor_id", "GenuineIntel") => Some(CpuVendor::Intel),
        ("vendor_id", "AuthenticAMD") => Some(CpuVendor::Amd),
        ("vendor_id", "HygonGenuine") => Some(CpuVendor::Hygon),
        ("vendor_id", "IBM/S390") => Some(CpuVendor::Ibm),
        ("vendor_id", other) if !other.is_empty() => Some(CpuVendor::Other(other.to_owned())),
        ("CPU implementer", number) => {
            let digits = number.strip_prefix("0x")?;
            u8::from_str_radix(digits, 16).ok().map(CpuVendor::ArmImplementer)
        }
        ("platform", "pSeries" | "PowerNV") => Some(CpuVendor::Ibm),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_releases_and_version_texts() {
        let check = |text: &str, expect: Option<Architecture>| {
            assert_eq!(Architecture::from_version_text(text), expect, "{text}");
        };
        check("3.10.0-1160.el7.x86_64", Some(Architecture::X86_64));
        check("2.6.32-642.6.2.el6.ppc64", Some(Architecture::Ppc64));
        check("6.1.0-50-powerpc64le", Some(Architecture::Ppc64le));
        check("6.1.0-50-arm64", Some(Architecture::Aarch64));
        check("5.14.0-427.13.1.el9_4.x86_64+rt", Some(Architecture::X86_64));
        check("5.3.18-150300.59.93-default", None);
        check(
            "Linux db7 5.3.18-59-default #1 SMP Tue Jun 1 2021 (abc) ppc64le ppc64le ppc64le GNU/Linux",
            Some(Architecture::Ppc64le),
        );
        check(
            "Linux version 6.8.0-31-generic (buildd@lcy02) (aarch64-linux-gnu-gcc-13 (Ubuntu) 13.2.0) #31-Ubuntu",
            Some(Architecture::Aarch64),
        );
        check("", None);
    }

    #[test]
    fn cpuinfo_of_each_architecture() {
        let check = |body: &str, arch: Option<Architecture>, vendor: Option<CpuVendor>| {
            let text = Text::new("proc/cpuinfo", body);
            assert_eq!(Architecture::from_cpuinfo(&text).map(|c| c.value), arch, "{body}");
            assert_eq!(CpuVendor::from_cpuinfo(&text).map(|c| c.value), vendor, "{body}");
        };
        check(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu lm svm\n",
            Some(Architecture::X86_64),
            Some(CpuVendor::Amd),
        );
        check("vendor_id : GenuineIntel\nflags : fpu pae\n", Some(Architecture::X86), Some(CpuVendor::Intel));
        check("vendor_id : HygonGenuine\n", None, Some(CpuVendor::Hygon));
        check(
            "CPU implementer\t: 0x41\nCPU architecture: 8\n",
            Some(Architecture::Aarch64),
            Some(CpuVendor::ArmImplementer(0x41)),
        );
        check(
            "cpu\t\t: POWER10 (architected), altivec supported\nplatform\t: pSeries\n",
            Some(Architecture::Ppc64le),
            Some(CpuVendor::Ibm),
        );
        check(
            "cpu : POWER7 (raw), altivec supported\nplatform : pSeries\n",
            Some(Architecture::Ppc64),
            Some(CpuVendor::Ibm),
        );
        check("vendor_id       : IBM/S390\n", Some(Architecture::S390x), Some(CpuVendor::Ibm));
        check("nonsense", None, None);
    }
}
