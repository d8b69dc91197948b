//! What a kernel module says of itself, in its section `.modinfo`.
//!
//! The section is a row of `key=value`, each ended by a zero byte (kernel: `include/linux/moduleparam.h`,
//! `scripts/mod/modpost.c`). Only what loading needs is read.

use super::ModuleName;
use object::{Object, ObjectSection};

/// What loading a module needs to know of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModInfo {
    /// Its own name; kernels before 4.14 don't write it down.
    pub name: Option<ModuleName>,
    /// Modules whose symbols it uses: it does not load before them.
    pub depends: Vec<ModuleName>,
    /// Modules that it asks to have loaded before it (`softdep=pre:`), without which it still works.
    pub soft_before: Vec<ModuleName>,
    /// The kernel it was built for and that kernel's options: `6.1.0-56-amd64 SMP preempt mod_unload`.
    pub vermagic: Option<String>,
}

/// What keeps a module's description from being read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModInfoError {
    /// Damaged, or something else altogether.
    #[error("not an object file: {0}")]
    NotObject(String),
    /// An object file, but no module.
    #[error("it has no section .modinfo")]
    NoSection,
    /// The section lies outside of the file.
    #[error("its section .modinfo: {0}")]
    SectionOutside(String),
    /// A value that must be text.
    #[error("its section .modinfo, byte {offset:#x}: the value of `{key}` is not UTF-8")]
    NotText {
        /// Where in the section the record begins.
        offset: usize,
        /// The key.
        key: &'static str,
    },
}

impl ModInfo {
    /// Reads the description in a module's file, unpacked.
    ///
    /// # Errors
    /// If it is no object file with such a section, or a value that matters is not text.
    pub fn of_module(elf: &[u8]) -> Result<Self, ModInfoError> {
        let file = object::File::parse(elf).map_err(|e| ModInfoError::NotObject(e.to_string()))?;
        let section = file.section_by_name(".modinfo").ok_or(ModInfoError::NoSection)?;
        let data = section.data().map_err(|e| ModInfoError::SectionOutside(e.to_string()))?;
        Self::of_section(data)
    }

    /// Reads the section itself.
    ///
    /// # Errors
    /// If a value that matters is not text.
    pub fn of_section(section: &[u8]) -> Result<Self, ModInfoError> {
        let mut info = Self::default();
        let mut offset = 0;
        for record in section.split(|byte| *byte == 0) {
            info.take(record, offset)?;
            offset += record.len() + 1;
        }
        Ok(info)
    }

    /// The release of the kernel it was built for.
    pub fn release(&self) -> Option<&str> {
        self.vermagic.as_deref()?.split_ascii_whitespace().next()
    }

    fn take(&mut self, record: &[u8], offset: usize) -> Result<(), ModInfoError> {
        let value = |key: &'static str| {
            let value = record.strip_prefix(key.as_bytes())?.strip_prefix(b"=")?;
            Some(str::from_utf8(value).map_err(|_| ModInfoError::NotText { offset, key }))
        };
        if let Some(name) = value("name") {
            self.name = Some(name?.into());
        } else if let Some(names) = value("depends") {
            self.depends.extend(names?.split(',').filter(|name| !name.is_empty()).map(ModuleName::from));
        } else if let Some(text) = value("softdep") {
            self.soft_before.extend(before(text?));
        } else if let Some(text) = value("vermagic") {
            self.vermagic = Some(text?.to_owned());
        }
        Ok(())
    }
}

/// The names between `pre:` and `post:` (kernel: `MODULE_SOFTDEP` in `include/linux/module.h`).
fn before(text: &str) -> impl Iterator<Item = ModuleName> {
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
    fn modules_of_every_architecture() {
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
    fn a_module_that_depends_on_nothing() {
        assert_eq!(ModInfo::of_section(b"depends=\0"), Ok(ModInfo::default()));
        assert_eq!(ModInfo::of_section(b""), Ok(ModInfo::default()));
        assert_eq!(ModInfo::of_section(b"").unwrap().release(), None);
    }

    #[test]
    fn a_value_that_is_not_text() {
        let error = ModInfo::of_section(b"license=GPL\0depends=\xff\0");
        assert_eq!(error, Err(ModInfoError::NotText { offset: 12, key: "depends" }));
    }

    #[test]
    fn what_is_no_module() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(ModInfo::of_module(&program), Err(ModInfoError::NoSection));
        assert!(matches!(ModInfo::of_module(b"MZ"), Err(ModInfoError::NotObject(_))));
    }

    #[test]
    fn a_module_cut_off_anywhere() {
        let elf = module(Architecture::X86_64, Endianness::Little, NVME);
        for length in 0..elf.len() {
            // The section headers stand last, and name the section.
            assert!(ModInfo::of_module(&elf[..length]).is_err(), "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            drop(ModInfo::of_module(&bytes));
            drop(ModInfo::of_section(&bytes));
        }

        #[test]
        fn a_module_with_any_byte_changed(
            place in any::<proptest::sample::Index>(),
            value in any::<u8>(),
        ) {
            let mut elf = module(Architecture::X86_64, Endianness::Little, NVME);
            let place = place.index(elf.len());
            elf[place] = value;
            drop(ModInfo::of_module(&elf));
        }

        #[test]
        fn any_section_in_a_module(section in proptest::collection::vec(any::<u8>(), 0..200)) {
            let elf = module(Architecture::Aarch64, Endianness::Little, &section);
            prop_assert_eq!(ModInfo::of_module(&elf), ModInfo::of_section(&section));
        }
    }
}
