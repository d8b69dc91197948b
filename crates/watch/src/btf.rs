//! The kernel's description of its own types and functions (BTF), which says how functions are called.
//!
//! The format is that of the kernel's "BPF Type Format (BTF)" (Documentation/bpf/btf.rst).

use std::collections::HashMap;
use std::str;

const MAGIC: u16 = 0xeb9f;
/// Bytes of a type without what follows it: name, kind with its number of entries, and size or another type.
const TYPE_BYTES: usize = 12;

const KIND_STRUCT: u32 = 4;
const KIND_FUNCTION: u32 = 12;
const KIND_PROTOTYPE: u32 = 13;

/// Why a description can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// It does not begin as one.
    #[error("no BTF of this machine's byte order; expected the magic number 0xeb9f")]
    Magic,
    /// It ends too early, or refers to something beyond its end.
    #[error("BTF is cut off: its {part} is beyond its end")]
    CutOff {
        /// What does not fit.
        part: &'static str,
    },
    /// A kind that came after this program.
    #[error("type {number} of BTF has the unknown kind {kind}; expected 1 to 19")]
    Kind {
        /// The type's number.
        number: u32,
        /// Its kind.
        kind: u32,
    },
}

/// A function of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelFunction {
    /// The number of its type, by which a program is attached to it.
    pub(crate) type_number: u32,
    /// The names of its parameters in their order.
    pub(crate) parameters: Vec<String>,
}

impl KernelFunction {
    /// The place of the first of these parameters that it has.
    pub(crate) fn parameter(&self, names: &[&str]) -> Option<usize> {
        self.parameters.iter().position(|parameter| names.contains(&parameter.as_str()))
    }
}

/// The functions and structures that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Btf {
    functions: HashMap<String, KernelFunction>,
    /// Offsets in bytes, by structure and member.
    members: HashMap<(String, String), u32>,
}

/// A type's place in the bytes.
#[derive(Clone, Copy)]
struct TypeAt {
    at: usize,
    kind: u32,
    entries: usize,
}

impl Btf {
    /// Reads what it says of functions and structures with these names.
    ///
    /// # Errors
    /// [`BtfError`]
    pub(crate) fn read(bytes: &[u8], functions: &[&str], structures: &[&str]) -> Result<Self, BtfError> {
        let section = Sections::read(bytes)?;
        let types = section.types()?;
        let mut btf = Self::default();
        for (index, at) in types.iter().enumerate() {
            let name = section.name(section.word(at.at)?)?;
            match at.kind {
                KIND_FUNCTION if functions.contains(&name) => {
                    let prototype = section.word(at.at + 8)?;
                    let parameters = section.parameters(&types, prototype)?;
                    let type_number = index as u32 + 1;
                    btf.functions.insert(name.to_owned(), KernelFunction { type_number, parameters });
                }
                KIND_STRUCT if structures.contains(&name) => {
                    for (member, offset) in section.members(*at)? {
                        btf.members.insert((name.to_owned(), member), offset);
                    }
                }
                _ => {}
            }
        }
        Ok(btf)
    }

    /// A function, if the kernel has it as one: it may be inlined everywhere.
    pub(crate) fn function(&self, name: &str) -> Option<&KernelFunction> {
        self.functions.get(name)
    }

    /// The offset of a structure's member in bytes.
    pub(crate) fn member(&self, structure: &str, member: &str) -> Option<u32> {
        self.members.get(&(structure.to_owned(), member.to_owned())).copied()
    }
}

/// The two parts of the description.
struct Sections<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Sections<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, BtfError> {
        let magic = bytes.get(..2).ok_or(BtfError::CutOff { part: "header" })?;
        if u16::from_ne_bytes([magic[0], magic[1]]) != MAGIC {
            return Err(BtfError::Magic);
        }
        let header = Self { types: bytes, strings: &[] };
        let word = |at| header.word(at).map(|word| word as usize);
        let header_bytes = word(4)?;
        let part = |from: usize, length: usize, part| {
            let start = header_bytes.saturating_add(from);
            bytes.get(start..start.saturating_add(length)).ok_or(BtfError::CutOff { part })
        };
        let types = part(word(8)?, word(12)?, "list of types")?;
        let strings = part(word(16)?, word(20)?, "list of names")?;
        Ok(Self { types, strings })
    }

    fn word(&self, at: usize) -> Result<u32, BtfError> {
        let bytes = self.types.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or(BtfError::CutOff { part: "last type" })
    }

    fn name(&self, offset: u32) -> Result<&'a str, BtfError> {
        let part = "name";
        let rest = self.strings.get(offset as usize..).ok_or(BtfError::CutOff { part })?;
        let end = rest.iter().position(|byte| *byte == 0).ok_or(BtfError::CutOff { part })?;
        // Rust's functions have names that are not of interest, but all are ASCII.
        Ok(str::from_utf8(&rest[..end]).unwrap_or_default())
    }

    /// All types in their order. The first has the number 1.
    fn types(&self) -> Result<Vec<TypeAt>, BtfError> {
        let mut types = Vec::new();
        let mut at = 0;
        while at < self.types.len() {
            let info = self.word(at + 4)?;
            let (kind, entries) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
            let number = types.len() as u32 + 1;
            let more = match kind {
                // Pointers, declarations, names, qualifiers, functions, floats and tags of types.
                2 | 7..=KIND_FUNCTION | 16 | 18 => 0,
                // Integers, variables and tags of declarations.
                1 | 14 | 17 => 4,
                // Arrays.
                3 => 12,
                // Structures, unions, sections and 64-bit enumerations.
                KIND_STRUCT | 5 | 15 | 19 => 12 * entries,
                // Enumerations and prototypes.
                6 | KIND_PROTOTYPE => 8 * entries,
                _ => return Err(BtfError::Kind { number, kind }),
            };
            types.push(TypeAt { at, kind, entries });
            at += TYPE_BYTES + more;
        }
        Ok(types)
    }

    fn parameters(&self, types: &[TypeAt], prototype: u32) -> Result<Vec<String>, BtfError> {
        let prototype = (prototype as usize).checked_sub(1).and_then(|index| types.get(index));
        let prototype = prototype.filter(|found| found.kind == KIND_PROTOTYPE);
        let found = prototype.ok_or(BtfError::CutOff { part: "prototype" })?;
        let name_at = |entry| found.at + TYPE_BYTES + 8 * entry;
        let names = (0..found.entries).map(|entry| self.name(self.word(name_at(entry))?));
        names.map(|name| name.map(str::to_owned)).collect()
    }

    /// Names and offsets of a structure's members that begin at whole bytes.
    fn members(&self, structure: TypeAt) -> Result<Vec<(String, u32)>, BtfError> {
        let has_bit_fields = self.word(structure.at + 4)? >> 31 == 1;
        let member = |entry: usize| {
            let at = structure.at + TYPE_BYTES + 12 * entry;
            let offset = self.word(at + 8)?;
            let bits = if has_bit_fields { offset & 0xff_ffff } else { offset };
            Ok((self.name(self.word(at)?)?.to_owned(), bits / 8))
        };
        (0..structure.entries).map(member).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    /// `int f(x)`, and `struct s { int a; int b; }`.
    fn small() -> Vec<u8> {
        let names = b"\0f\0x\0s\0a\0b\0";
        let types: Vec<u32> = [
            // 1: a prototype without a result, with a parameter.
            &[0, (KIND_PROTOTYPE << 24) | 1, 0, 3, 0][..],
            // 2: the function.
            &[1, KIND_FUNCTION << 24, 1],
            // 3: the structure.
            &[5, (KIND_STRUCT << 24) | 2, 8, 7, 0, 0, 9, 0, 32],
        ]
        .concat();
        let type_bytes: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let header = [24, 0, type_bytes.len() as u32, type_bytes.len() as u32, names.len() as u32];
        let mut bytes = [MAGIC.to_ne_bytes(), [1, 0]].concat();
        bytes.extend(header.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(type_bytes);
        bytes.extend(names);
        bytes
    }

    #[test]
    fn functions_and_members_are_found() {
        let btf = Btf::read(&small(), &["f"], &["s"]).unwrap();
        let function = btf.function("f").unwrap();
        assert_eq!((function.type_number, function.parameter(&["dev", "x"])), (2, Some(0)));
        assert_eq!(
            (btf.member("s", "a"), btf.member("s", "b"), btf.member("s", "c")),
            (Some(0), Some(4), None)
        );
        assert!(btf.function("g").is_none());
    }

    /// Each cut and each changed byte is an error or another description, and no panic.
    #[test]
    fn damaged_bytes_are_refused() {
        let whole = small();
        for length in 0..whole.len() {
            assert!(Btf::read(&whole[..length], &["f"], &["s"]).is_err(), "{length} bytes");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _: Result<Btf, BtfError> = Btf::read(&changed, &["f"], &["s"]);
            }
        }
    }
}
