//! Parses a kernel module's section `.modinfo`.
//!
//! The section is a sequence of `key=value`, each ended by a zero byte (kernel: `include/linux/moduleparam.h`,
//! `scripts/mod/modpost.c`). Only the keys that decide the loading order are read.

use super::ModuleName;
use object::{Object, ObjectSection};

/// A module's name, dependencies and kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModInfo {
    /// Its name; builds of kernels before 4.14 don't record it.
    pub name: Option<ModuleName>,
    /// Modules whose symbols it uses, which must be loaded before it.
    pub depends: Vec<ModuleName>,
    /// Soft dependencies: modules to load before it if they exist (`softdep=pre:`).
    pub soft_before: Vec<ModuleName>,
    /// The kernel that it was built for, and that kernel's options: `6.1.0-56-amd64 SMP preempt mod_unload`.
    pub vermagic: Option<String>,
}

/// Why a module's section `.modinfo` can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModInfoError {
    /// Damaged, or of another format.
    #[error("not an object file: {0}")]
    NotObject(String),
    /// An object file that is not a module.
    #[error("it has no section .modinfo; expected a kernel module")]
    NoSection,
    /// The section's bytes are outside the file.
    #[error("its section .modinfo: {0}")]
    SectionOutside(String),
    /// The value of a key is not text.
    #[error("its section .modinfo, byte {offset:#x}: the value of `{key}` is not valid; expected UTF-8")]
    NotText {
        /// Offset of the record in the section.
        offset: usize,
        /// The key.
        key: &'static str,
    },
}

impl ModInfo {
    /// Parses the section of a decompressed module.
    ///
    /// # Errors
    /// If it is not an object file with such a section, or the value of a key that is read is not text.
    pub fn of_module(elf: &[u8]) -> Result<Self, ModInfoError> {
        let file = object::File::parse(elf).map_err(|e| ModInfoError::NotObject(e.to_string()))?;
        let section = file.section_by_name(".modinfo").ok_or(ModInfoError::NoSection)?;
        let data = section.data().map_err(|e| ModInfoError::SectionOutside(e.to_string()))?;
        Self::of_section(data)
    }

    /// Parses the section's bytes.
    ///
    /// # Errors
    /// If the value of a key that is read is not text.
    pub fn of_section(section: &[u8]) -> Result<Self, ModInfoError> {
        let mut info = Self::default();
        let mut offset = 0;
        for record in section.split(|byte| *byte == 0) {
            info.parse_record(record, offset)?;
            offset += record.len() + 1;
        }
        Ok(info)
    }

    /// The release of the kernel that it was built for.
    pub fn release(&self) -> Option<&str> {
        self.vermagic.as_deref()?.split_ascii_whitespace().next()
    }

    /// Stores the value of a `key=value` record; ignores unknown keys. `offset` is for errors.
    fn parse_record(&mut self, record: &[u8], offset: usize) -> Result<(), ModInfoError> {
        let value = |key: &'static str| {
            let value = record.strip_prefix(key.as_bytes())?.strip_prefix(b"=")?;
            Some(str::from_utf8(value).map_err(|_| ModInfoError::NotText { offset, key }))
        };
        if let Some(name) = value("name") {
            self.name = Some(name?.into());
        } else if let Some(names) = value("depends") {
            self.depends.extend(names?.split(',').filter(|name| !name.is_empty()).map(ModuleName::from));
        } else if let Some(text) = value("softdep") {
            self.soft_before.extend(soft_dependencies(text?));
        } else if let Some(text) = value("vermagic") {
            self.vermagic = Some(text?.to_owned());
        }
        Ok(())
    }
}

/// The names after `pre:` and before `post:` (kernel: `MODULE_SOFTDEP` in `include/linux/module.h`).
fn soft_dependencies(text: &str) -> impl Iterator<Item = ModuleName> {
    let mut before = false;
    text.split_ascii_whitespace().filter_map(move |word| match word {
        "pre:" | "post:" => {
            before = word == "pre:";
            None
        }
        _ => before.then(|| word.into()),
    })
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind, write};
    use proptest::prelude::*;

    /// A relocatable object, as modules are, with `section` as its `.modinfo`.
    pub(in crate::kernel) fn module(
        architecture: Architecture,
        order: Endianness,
        section: &[u8],
    ) -> Vec<u8> {
        let mut object = write::Object::new(BinaryFormat::Elf, architecture, order);
        let text = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
        object.append_section_data(text, &[0; 64], 16);
        let info = object.add_section(Vec::new(), b".modinfo".to_vec(), SectionKind::ReadOnlyData);
        object.append_section_data(info, section, 1);
        object.write().unwrap()
    }

    const NVME: &[u8] = b"version=1.0\0license=GPL\0author=Jos\xe9\0depends=nvme-core,t10-pi\0\
        name=nvme\0softdep=pre: crct10dif crc32c post: nvme-fabrics pre: sha256-generic\0\
        vermagic=6.1.0-56-amd64 SMP preempt mod_unload modversions \0";

    fn nvme() -> ModInfo {
        let names = |words: &[&str]| words.iter().map(|word| ModuleName::from(*word)).collect();
        ModInfo {
            name: Some("nvme".into()),
            depends: names(&["nvme_core", "t10_pi"]),
            soft_before: names(&["crct10dif", "crc32c", "sha256_generic"]),
            vermagic: Some("6.1.0-56-amd64 SMP preempt mod_unload modversions ".to_owned()),
        }
    }

    #[test]
    fn modules_of_every_architecture_are_parsed() {
        use Architecture::{Aarch64, Arm, PowerPc64, X86_64};
        use Endianness::{Big, Little};
        for (architecture, order) in
            [(X86_64, Little), (Aarch64, Little), (PowerPc64, Little), (PowerPc64, Big), (Arm, Little)]
        {
            let elf = module(architecture, order, NVME);
            assert_eq!(ModInfo::of_module(&elf), Ok(nvme()), "{architecture:?} {order:?}");
        }
        assert_eq!(nvme().release(), Some("6.1.0-56-amd64"));
    }

    #[test]
    fn a_module_without_dependencies_is_parsed() {
        assert_eq!(ModInfo::of_section(b"depends=\0"), Ok(ModInfo::default()));
        assert_eq!(ModInfo::of_section(b""), Ok(ModInfo::default()));
        assert_eq!(ModInfo::of_section(b"").unwrap().release(), None);
    }

    #[test]
    fn a_value_that_is_not_text_is_an_error() {
        let error = ModInfo::of_section(b"license=GPL\0depends=\xff\0");
        assert_eq!(error, Err(ModInfoError::NotText { offset: 12, key: "depends" }));
    }

    #[test]
    fn files_that_are_not_modules_are_errors() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(ModInfo::of_module(&program), Err(ModInfoError::NoSection));
        assert!(matches!(ModInfo::of_module(b"MZ"), Err(ModInfoError::NotObject(_))));
    }

    #[test]
    fn a_truncated_module_is_an_error() {
        let elf = module(Architecture::X86_64, Endianness::Little, NVME);
        for length in 0..elf.len() {
            // The section headers stand last, and name the section.
            assert!(ModInfo::of_module(&elf[..length]).is_err(), "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            drop(ModInfo::of_module(&bytes));
            drop(ModInfo::of_section(&bytes));
        }

        #[test]
        fn a_module_with_any_byte_changed_is_parsed_or_refused(
            place in any::<proptest::sample::Index>(),
            value in any::<u8>(),
        ) {
            let mut elf = module(Architecture::X86_64, Endianness::Little, NVME);
            let place = place.index(elf.len());
            elf[place] = value;
            drop(ModInfo::of_module(&elf));
        }

        #[test]
        fn a_section_is_parsed_alike_alone_and_in_a_module(section in proptest::collection::vec(any::<u8>(), 0..200)) {
            let elf = module(Architecture::Aarch64, Endianness::Little, &section);
            prop_assert_eq!(ModInfo::of_module(&elf), ModInfo::of_section(&section));
        }
    }
}
