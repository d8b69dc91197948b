//! The guest architectures that the lab emulates, with their names in Debian, in the GNU tools and in QEMU.

use serde::{Deserialize, Serialize};

/// A guest's CPU architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// 64-bit x86.
    X86,
    /// 64-bit Arm.
    Arm,
    /// 64-bit POWER, little endian.
    Ppc,
}

impl Arch {
    /// Every architecture.
    pub const ALL: [Self; 3] = [Self::X86, Self::Arm, Self::Ppc];

    /// Its name in presets and file names.
    pub fn word(self) -> &'static str {
        match self {
            Self::X86 => "x86",
            Self::Arm => "arm",
            Self::Ppc => "ppc",
        }
    }

    /// Debian's name for it.
    pub fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
            Self::Ppc => "ppc64el",
        }
    }

    /// The suffix of Debian's kernel packages and releases for it.
    pub fn kernel_flavour(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
            Self::Ppc => "powerpc64le",
        }
    }

    /// The prefix of the GNU cross tools for it, as in `aarch64-linux-gnu-gcc`.
    pub fn gnu(self) -> &'static str {
        match self {
            Self::X86 => "x86_64-linux-gnu",
            Self::Arm => "aarch64-linux-gnu",
            Self::Ppc => "powerpc64le-linux-gnu",
        }
    }

    /// Whether the host that runs this program has this architecture.
    pub fn is_host(self) -> bool {
        match self {
            Self::X86 => cfg!(target_arch = "x86_64"),
            Self::Arm => cfg!(all(target_arch = "aarch64", target_endian = "little")),
            Self::Ppc => cfg!(all(target_arch = "powerpc64", target_endian = "little")),
        }
    }

    /// The name of the QEMU program that emulates it.
    pub fn qemu(self) -> &'static str {
        match self {
            Self::X86 => "qemu-system-x86_64",
            Self::Arm => "qemu-system-aarch64",
            Self::Ppc => "qemu-system-ppc64",
        }
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
