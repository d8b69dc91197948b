//! Finds the build of the QEMU plugin that fits the installed QEMU.
//!
//! Versions of QEMU's plugin interface are incompatible, so a plugin is built for one of them. Builds
//! for several versions may be in one folder: `liblab_plugin.so`, which cargo builds, and `liblab_plugin-api-N.so`, a
//! copy of the build for version N. The first build that fits the installed QEMU is used.

use crate::Arch;
use crate::companion;
use crate::qemu::{self, Release};
use object::{Object, ObjectSection, ObjectSymbol};
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The exported variable with the interface version that a plugin was built for.
const SYMBOL: &str = "qemu_plugin_version";
/// Larger than a plugin with full debugging information.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A version of QEMU's plugin interface: `QEMU_PLUGIN_VERSION` of its header `qemu-plugin.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interface(pub u32);

impl std::fmt::Display for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "interface {}", self.0)
    }
}

/// The interface versions that QEMU accepts, by the release since which it does.
///
/// Sources: the version history in QEMU's `include/qemu/qemu-plugin.h` (later `include/plugins/qemu-plugin.h`), and
/// `QEMU_PLUGIN_MIN_VERSION` in `plugins/plugin.h`. Checked by running QEMU 7.2.22 (0 to 1), 10.0.2 (2 to 4) and
/// 11.1.3 (only 7), and by reading the source of 10.2.0 (2 to 5). From 9.1 to 11.0 QEMU also accepts version 2. The
/// table excludes it, because the plugin reads instructions by a function that version 3 changed. Releases newer than
/// the last row may refuse the plugin when they load it.
const ACCEPTED: [(Release, RangeInclusive<u32>); 7] = [
    (Release(6, 0), 1..=1),
    (Release(9, 0), 2..=2),
    (Release(9, 1), 3..=3),
    (Release(9, 2), 3..=4),
    (Release(10, 1), 3..=5),
    (Release(11, 0), 3..=6),
    (Release(11, 1), 7..=7),
];

/// Why there is no plugin for a QEMU.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The file does not exist.
    #[error("no plugin at {path}; build it with: {build}")]
    Absent {
        /// The expected path.
        path: PathBuf,
        /// The command that builds the one that fits.
        build: String,
    },
    /// The file can't be read.
    #[error("can't read the plugin {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is not a plugin.
    #[error("{path} is not a QEMU plugin: {flaw}")]
    NotPlugin {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The plugin is built for another version of the interface.
    #[error("the plugin {path} is built for {built_for}, but QEMU {qemu} accepts {}; build with: {build}", format_range(.accepts))]
    Misfit {
        /// The file.
        path: PathBuf,
        /// The interface that it is built for.
        built_for: Interface,
        /// QEMU's version.
        qemu: String,
        /// Versions of the interface that QEMU accepts.
        accepts: RangeInclusive<u32>,
        /// The command that builds the newest of them.
        build: String,
    },
    /// QEMU prints no version, or one that is too old.
    #[error("{program} has version `{version}`; expected two numbers, 6.0 or newer")]
    Version {
        /// The program.
        program: &'static str,
        /// The version that it printed.
        version: String,
    },
    /// QEMU can't be started.
    #[error(transparent)]
    Qemu(#[from] qemu::QemuError),
}

/// What is wrong with a file that should be a plugin.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// Not an object file, or a damaged one.
    #[error("expected a shared library")]
    Object(#[from] object::Error),
    /// Another library.
    #[error("it does not export {SYMBOL}")]
    NoSymbol,
    /// The symbol's address is outside the library's data.
    #[error("{SYMBOL} is at {address:#x}; expected an address with 4 bytes of data")]
    NoValue {
        /// The symbol's address.
        address: u64,
    },
}

/// `3 to 5`, or `7`.
fn format_range(range: &RangeInclusive<u32>) -> String {
    match (range.start(), range.end()) {
        (start, end) if start == end => start.to_string(),
        (start, end) => format!("{start} to {end}"),
    }
}

/// The absolute path of the plugin for an architecture's QEMU: the file given, or one beside the running program or
/// where packages install it.
///
/// # Errors
/// [`PluginError`], if possible with the command that builds the right plugin.
pub fn find(arch: Arch, given: Option<&Path>) -> Result<PathBuf, PluginError> {
    let version = qemu::version(arch)?;
    let qemu = Qemu::from_version(arch.qemu(), &version)?;
    let path = match given {
        Some(path) => qemu.check(path),
        None => qemu.find_among(&companion::folders()),
    }?;
    // QEMU searches the library path for a name without a slash.
    std::path::absolute(&path).map_err(|source| PluginError::Read { path, source })
}

/// The installed QEMU's version and the plugin interfaces that it accepts.
struct Qemu {
    /// The version number, without the packager's suffix.
    version: String,
    accepts: RangeInclusive<u32>,
}

impl Qemu {
    /// Looks up the accepted interfaces by the version that `program` printed.
    fn from_version(program: &'static str, version: &str) -> Result<Self, PluginError> {
        let accepts = Release::parse(version).and_then(accepted_interfaces);
        let accepts = accepts.ok_or_else(|| PluginError::Version { program, version: version.to_owned() })?;
        let version = version.split_whitespace().next().unwrap_or(version).to_owned();
        Ok(Self { version, accepts })
    }

    /// The first plugin that this QEMU accepts, in the first folder that has plugins.
    fn find_among(&self, [beside, packaged]: &[PathBuf; 2]) -> Result<PathBuf, PluginError> {
        match self.find_plugin(beside) {
            Err(absent @ PluginError::Absent { .. }) => match self.find_plugin(packaged) {
                Err(PluginError::Absent { .. }) => Err(absent),
                found_or_unfit => found_or_unfit,
            },
            found_or_unfit => found_or_unfit,
        }
    }

    /// The first plugin in a folder that this QEMU accepts.
    fn find_plugin(&self, folder: &Path) -> Result<PathBuf, PluginError> {
        let plain = folder.join("liblab_plugin.so");
        let build_for = |version| folder.join(format!("liblab_plugin-api-{version}.so"));
        let unfit = match self.check(&plain) {
            Err(unfit @ (PluginError::Misfit { .. } | PluginError::Absent { .. })) => unfit,
            found_or_broken => return found_or_broken,
        };
        let beside = self.accepts.clone().rev().map(build_for).find(|path| path.is_file());
        beside.map_or(Err(unfit), |path| self.check(&path))
    }

    /// Checks that a file is a plugin that this QEMU accepts, and returns its path.
    fn check(&self, path: &Path) -> Result<PathBuf, PluginError> {
        let path = path.to_owned();
        if !path.is_file() {
            return Err(PluginError::Absent { path, build: self.build_command() });
        }
        let bytes = match read_file(&path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(PluginError::Read { path, source }),
        };
        match interface_of(&bytes) {
            Err(flaw) => Err(PluginError::NotPlugin { path, flaw }),
            Ok(built_for) if self.accepts.contains(&built_for.0) => Ok(path),
            Ok(built_for) => Err(PluginError::Misfit {
                path,
                built_for,
                qemu: self.version.clone(),
                accepts: self.accepts.clone(),
                build: self.build_command(),
            }),
        }
    }

    /// The command that builds the plugin for the newest interface that this QEMU accepts.
    fn build_command(&self) -> String {
        let features = match self.accepts.end() {
            1 => String::new(),
            newest => format!(" --features api-{newest}"),
        };
        format!("cargo build --release -p lab-plugin{features}")
    }
}

/// The interface versions that a release of QEMU accepts; `None` for releases before the first row of the table.
fn accepted_interfaces(release: Release) -> Option<RangeInclusive<u32>> {
    ACCEPTED.into_iter().rev().find(|(since, _)| *since <= release).map(|(_, accepts)| accepts)
}

/// Reads at most [`FILE_BYTES_MAX`] bytes of a file.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The interface that a plugin is built for: the value of the variable that it exports as [`SYMBOL`].
fn interface_of(bytes: &[u8]) -> Result<Interface, Flaw> {
    let file = object::File::parse(bytes)?;
    let is_version = |symbol: &object::Symbol<'_, '_>| symbol.name() == Ok(SYMBOL);
    let symbol = file.dynamic_symbols().find(is_version).ok_or(Flaw::NoSymbol)?;
    let address = symbol.address();
    let section = file.section_by_index(symbol.section_index().ok_or(Flaw::NoSymbol)?)?;
    let value = section.data_range(address, 4)?.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    let value = value.ok_or(Flaw::NoValue { address })?;
    Ok(Interface(if file.is_little_endian() { u32::from_le_bytes(value) } else { u32::from_be_bytes(value) }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use object::Endianness;
    use object::elf;
    use object::write::elf::{FileHeader, SectionHeader, Sym, Writer};
    use proptest::prelude::*;

    /// Address of the constants in the made-up libraries.
    const CONSTANTS_ADDRESS: u64 = 0x2000;

    /// A shared library with nothing but constants and one exported symbol, at an address.
    fn library(endian: Endianness, symbol: &str, address: u64, constants: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(endian, true, &mut bytes);
        let name = writer.add_dynamic_string(symbol.as_bytes());
        let section_name = writer.add_section_name(b".rodata");
        writer.reserve_file_header();
        let sh_offset = writer.reserve(constants.len() as u64, 8);
        writer.reserve_null_dynamic_symbol_index();
        writer.reserve_dynamic_symbol_index();
        writer.reserve_dynsym();
        writer.reserve_dynstr().unwrap();
        writer.reserve_null_section_index();
        let section = writer.reserve_section_index();
        writer.reserve_dynsym_section_index();
        writer.reserve_dynstr_section_index();
        writer.reserve_shstrtab_section_index();
        writer.reserve_shstrtab().unwrap();
        writer.reserve_section_headers();

        let header = FileHeader {
            os_abi: elf::OsAbi(0),
            abi_version: 0,
            e_type: elf::ET_DYN,
            e_machine: elf::EM_X86_64,
            e_entry: 0,
            e_flags: elf::FileFlags(0),
        };
        writer.write_file_header(&header).unwrap();
        writer.write_align(8);
        writer.write(constants);
        writer.write_null_dynamic_symbol();
        let st_name = writer.dynamic_string_offset(Some(name));
        writer.write_dynamic_symbol(&Sym {
            st_name,
            section: Some(section.0),
            st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_OBJECT),
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SymbolSection(0),
            st_value: address,
            st_size: 4,
        });
        writer.write_dynstr();
        writer.write_shstrtab();
        writer.write_null_section_header();
        let sh_name = writer.section_name_offset(Some(section_name));
        writer.write_section_header(&SectionHeader {
            sh_name,
            sh_type: elf::SHT_PROGBITS,
            sh_flags: elf::SHF_ALLOC,
            sh_addr: CONSTANTS_ADDRESS,
            sh_offset,
            sh_size: constants.len() as u64,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 8,
            sh_entsize: 0,
        });
        writer.write_dynsym_section_header(0, 1);
        writer.write_dynstr_section_header(0);
        writer.write_shstrtab_section_header();
        bytes
    }

    fn built_for(version: u32) -> Vec<u8> {
        library(
            Endianness::Little,
            SYMBOL,
            CONSTANTS_ADDRESS + 4,
            &[[9, 9, 9, 9], version.to_le_bytes()].concat(),
        )
    }

    fn qemu(version: &str) -> Qemu {
        Qemu::from_version("qemu-system-x86_64", version).unwrap()
    }

    #[test]
    fn a_plugin_s_interface_is_read_from_its_exported_variable() {
        assert_eq!(interface_of(&built_for(4)).unwrap(), Interface(4));
        let big = library(Endianness::Big, SYMBOL, CONSTANTS_ADDRESS, &[0, 0, 0, 6]);
        assert_eq!(interface_of(&big).unwrap(), Interface(6));
    }

    #[test]
    fn files_that_are_not_plugins_are_refused() {
        let flaw = |bytes: &[u8]| interface_of(bytes).unwrap_err();
        for bytes in [&b""[..], b"#!/bin/sh\n", &built_for(4)[..100]] {
            assert!(matches!(flaw(bytes), Flaw::Object(_)), "{bytes:?}");
        }
        let other = library(Endianness::Little, "qemu_plugin_install", CONSTANTS_ADDRESS, &[4, 0, 0, 0]);
        assert!(matches!(flaw(&other), Flaw::NoSymbol));
        for address in [0, CONSTANTS_ADDRESS - 1, CONSTANTS_ADDRESS + 1, u64::MAX] {
            let astray = library(Endianness::Little, SYMBOL, address, &[4, 0, 0, 0]);
            assert!(matches!(flaw(&astray), Flaw::NoValue { address: at } if at == address), "{address:#x}");
        }
    }

    #[test]
    fn a_truncated_plugin_is_refused_wherever_it_ends() {
        let whole = built_for(4);
        for length in 0..whole.len() {
            assert!(interface_of(&whole[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn every_release_accepts_its_versions_of_the_interface() {
        let check = |version: &str, expected: RangeInclusive<u32>| {
            assert_eq!(qemu(version).accepts, expected, "{version}");
        };
        check("6.0.0", 1..=1);
        check("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", 1..=1);
        check("8.2.10", 1..=1);
        check("9.0.4", 2..=2);
        check("9.1.0-rc2", 3..=3);
        check("10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)", 3..=4);
        check("10.1.50 (v10.1.0-1234-gabcdef)", 3..=5);
        check("11.0.0", 3..=6);
        check("11.1.3", 7..=7);
        check("12.3.0", 7..=7);
        for version in ["", "devel", "10", "5.2.0", "99999999999.0"] {
            let refused = Qemu::from_version("qemu-system-x86_64", version);
            assert!(matches!(refused, Err(PluginError::Version { .. })), "{version}");
        }
    }

    #[test]
    fn a_misfit_says_how_to_build_one_that_fits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("liblab_plugin.so");
        std::fs::write(&path, built_for(1)).unwrap();
        assert_eq!(qemu("7.2.22").find_plugin(folder.path()).unwrap(), path);
        let check = |version: &str, words: &str| {
            let wrong = qemu(version).find_plugin(folder.path()).unwrap_err().to_string();
            assert_eq!(wrong, format!("the plugin {} is built for interface 1, but {words}", path.display()));
        };
        let build = "cargo build --release -p lab-plugin --features";
        check("10.0.2 (Debian)", &format!("QEMU 10.0.2 accepts 3 to 4; build with: {build} api-4"));
        check("11.1.3", &format!("QEMU 11.1.3 accepts 7; build with: {build} api-7"));
    }

    #[test]
    fn the_build_that_fits_is_found_among_several() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, version| std::fs::write(folder.path().join(name), built_for(version)).unwrap();
        let found = |version: &str| qemu(version).find_plugin(folder.path());
        let name = |version: &str| found(version).unwrap().file_name().unwrap().to_owned();
        put("liblab_plugin-api-3.so", 3);
        assert_eq!(name("10.0.2"), "liblab_plugin-api-3.so");
        assert!(matches!(found("7.2.22"), Err(PluginError::Absent { .. })));
        put("liblab_plugin.so", 1);
        put("liblab_plugin-api-4.so", 4);
        assert_eq!(name("7.2.22"), "liblab_plugin.so");
        assert_eq!(name("9.1.0"), "liblab_plugin-api-3.so");
        assert_eq!(name("10.0.2"), "liblab_plugin-api-4.so");
        assert!(matches!(found("11.1.3"), Err(PluginError::Misfit { built_for: Interface(1), .. })));
        // The exported variable decides, not the file's name.
        put("liblab_plugin-api-7.so", 6);
        assert!(matches!(found("11.1.3"), Err(PluginError::Misfit { built_for: Interface(6), .. })));
        // A damaged file is an error, not skipped.
        std::fs::write(folder.path().join("liblab_plugin.so"), "").unwrap();
        assert!(matches!(found("10.0.2"), Err(PluginError::NotPlugin { .. })));
    }

    #[test]
    fn a_folder_without_plugins_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let [beside, packaged] = ["bin", "lib"].map(|name| folder.path().join(name));
        for folder in [&beside, &packaged] {
            std::fs::create_dir(folder).unwrap();
        }
        let folders = [beside.clone(), packaged.clone()];
        let found = || qemu("7.2.22").find_among(&folders);
        // Where there is none, the folder of the program is named.
        assert!(matches!(found(), Err(PluginError::Absent { path, .. }) if path.starts_with(&beside)));
        std::fs::write(packaged.join("liblab_plugin.so"), built_for(1)).unwrap();
        assert_eq!(found().unwrap(), packaged.join("liblab_plugin.so"));
        // What somebody has built is not passed over, even if it is unfit.
        std::fs::write(beside.join("liblab_plugin.so"), built_for(3)).unwrap();
        assert!(matches!(found(), Err(PluginError::Misfit { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(place in 0_usize..4096, byte: u8, bytes: Vec<u8>) {
            let _ = interface_of(&bytes);
            let mut changed = built_for(4);
            let length = changed.len();
            changed[place % length] = byte;
            let _ = interface_of(&changed);
        }

        #[test]
        fn any_version_is_read_or_refused(text in "[ -~]{0,20}") {
            let _ = Release::parse(&text).and_then(accepted_interfaces);
        }
    }
}
