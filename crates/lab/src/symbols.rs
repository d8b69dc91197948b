//! Finds the function that an instruction's address is in, in the kernel or in one program.

use crate::guest::program::ProgramFunction;
use std::collections::HashMap;
use std::ops::Range;

/// The lowest kernel address, on all architectures of the lab.
pub const KERNEL_START: u64 = 1 << 63;
/// End of 64-bit POWER's interrupt vectors, which run with translation off (Power ISA, book III, 7.4.2).
const VECTORS_END: u64 = 0x8000;
/// Symbols at the end of code: an address behind one of these is in no function until the next symbol.
const ENDS: [&str; 3] = ["_etext", "_einittext", "__end_interrupts"];

/// A function of the kernel or of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its kernel module; `None` in the kernel's image and in the program.
    pub module: Option<String>,
}

/// A function's number in its [`Symbols`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub usize);

/// The code that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// User-mode code without symbols.
    User,
    /// A function of the program with symbols, in user mode.
    Program(FunctionId),
    /// A function of the kernel.
    Kernel(FunctionId),
    /// Kernel code outside all known functions.
    Unknown,
}

impl Code {
    /// Whether it runs in user mode.
    pub fn is_user(self) -> bool {
        matches!(self, Self::User | Self::Program(_))
    }
}

/// Functions of the kernel and of one program, by address.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    starts: Vec<(u64, FunctionId)>,
    program: Vec<(Range<u64>, FunctionId)>,
    functions: Vec<Function>,
}

/// Why a list of symbols can't be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SymbolsError {
    /// An invalid line.
    #[error(
        "symbols, line {line}: invalid symbol `{text}`; expected an address, a name and optionally a module"
    )]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// The line's beginning.
        text: String,
    },
    /// There are no symbols of code.
    #[error("the list has no symbols; expected those of the guest's kernel")]
    Empty,
    /// All addresses are zero.
    #[error("all symbols have the address 0; expected /proc/kallsyms as root reads it")]
    Hidden,
}

impl Symbols {
    /// Parses lines of `ADDRESS NAME [MODULE]`, or of `/proc/kallsyms` and `System.map`, which have a symbol type
    /// between address and name. Symbols of data are skipped. Of several names for an address, the first in the
    /// alphabet is used, except names that the compiler or linker added.
    ///
    /// # Errors
    /// [`SymbolsError`], with the line if one is invalid.
    pub fn parse(text: &str) -> Result<Self, SymbolsError> {
        let mut named = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let invalid = || SymbolsError::Line { line: number + 1, text: line.chars().take(80).collect() };
            named.extend(parse_line(line).ok_or_else(invalid)?);
        }
        match named.iter().map(|(address, _)| *address).max() {
            None => return Err(SymbolsError::Empty),
            Some(0) => return Err(SymbolsError::Hidden),
            Some(_) => {}
        }
        named.sort_by(|(a, f), (b, g)| a.cmp(b).then_with(|| rank(&f.name).cmp(&rank(&g.name))));
        named.dedup_by_key(|(address, _)| *address);
        Ok(Self::from_sorted(named))
    }

    /// Numbers the functions of a list that is sorted by address. Parts of a function share its number.
    fn from_sorted(named: Vec<(u64, Function)>) -> Self {
        let mut symbols = Self::default();
        let mut known: HashMap<(String, Option<String>), FunctionId> = HashMap::new();
        for (address, function) in named {
            let key = (function.name.clone(), function.module.clone());
            let id = *known.entry(key).or_insert_with(|| {
                symbols.functions.push(function);
                FunctionId(symbols.functions.len() - 1)
            });
            symbols.starts.push((address, id));
        }
        symbols
    }

    /// Adds the functions of a program, which must be sorted by address.
    #[must_use]
    pub fn with_program(mut self, functions: Vec<ProgramFunction>) -> Self {
        for ProgramFunction { name, addresses } in functions {
            self.program.push((addresses, FunctionId(self.functions.len())));
            self.functions.push(Function { name, module: None });
        }
        self
    }

    /// The code that an address belongs to.
    pub fn code(&self, address: u64) -> Code {
        match address {
            0..VECTORS_END => Code::Unknown,
            VECTORS_END..KERNEL_START => self.program_code(address).map_or(Code::User, Code::Program),
            KERNEL_START.. => self.kernel_code(address),
        }
    }

    /// The function of the program that an address is in.
    fn program_code(&self, address: u64) -> Option<FunctionId> {
        let after = self.program.partition_point(|(addresses, _)| addresses.start <= address);
        let (addresses, id) = self.program.get(after.checked_sub(1)?)?;
        addresses.contains(&address).then_some(*id)
    }

    /// The kernel function that an address is in.
    fn kernel_code(&self, address: u64) -> Code {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let Some((_, id)) = after.checked_sub(1).and_then(|index| self.starts.get(index)) else {
            return Code::Unknown;
        };
        if ENDS.contains(&self.function(*id).name.as_str()) { Code::Unknown } else { Code::Kernel(*id) }
    }

    /// The function that begins at an address.
    pub fn entry(&self, address: u64) -> Option<FunctionId> {
        if address < KERNEL_START {
            let index = self.program.binary_search_by_key(&address, |(addresses, _)| addresses.start).ok()?;
            return Some(self.program[index].1);
        }
        let index = self.starts.binary_search_by_key(&address, |(start, _)| *start).ok()?;
        Some(self.starts[index].1)
    }

    /// A function by its number.
    ///
    /// # Panics
    /// If the number comes from other symbols.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0]
    }

    /// A function's name, or `(user)` or `(unknown)`.
    pub fn name(&self, code: Code) -> &str {
        match code {
            Code::User => "(user)",
            Code::Unknown => "(unknown)",
            Code::Program(id) | Code::Kernel(id) => &self.function(id).name,
        }
    }

    /// The number of functions; their numbers are below it.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there are no functions.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

/// Sorting key that puts names of the source code before aliases that the compiler adds, and before symbols that
/// mark a section's begin (`__sched_text_start` may have the address of `__switch_to`).
fn rank(name: &str) -> (bool, &str) {
    let of_compiler = ["__pfx_", "__cfi_", "."].iter().any(|front| name.starts_with(front));
    let of_section = name.starts_with("__") && (name.ends_with("_start") || name.ends_with("_end"));
    (of_compiler || of_section, name)
}

/// Parses a line into an address and a function. `None` for an invalid line, `Some(None)` for a symbol of data.
fn parse_line(line: &str) -> Option<Option<(u64, Function)>> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let second = words.next()?;
    let name = match second.len() {
        1 => words.next()?,
        _ => second,
    };
    if second.len() == 1 && !matches!(second, "t" | "T" | "w" | "W" | "i") {
        return Some(None);
    }
    let module = words.next().map(|word| word.trim_matches(['[', ']']).to_owned());
    Some(Some((address, Function { name: name.to_owned(), module })))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
ffffffff81000000 T _text
ffffffff81000100 t __pfx_vfs_read
ffffffff81000100 T vfs_read
ffffffff81000200 D some_data
ffffffff81000300 T _etext
ffffffffc0001000 t nvme_irq\t[nvme]
";

    fn name(symbols: &Symbols, address: u64) -> Option<&str> {
        match symbols.code(address) {
            Code::Kernel(id) => Some(&symbols.function(id).name),
            Code::User | Code::Program(_) | Code::Unknown => None,
        }
    }

    #[test]
    fn addresses_in_a_program_s_functions_are_found() {
        let function =
            |name: &str, addresses: Range<u64>| ProgramFunction { name: name.to_owned(), addresses };
        let symbols = Symbols::parse(TEXT).unwrap().with_program(vec![
            function("main", 0x40_1000..0x40_1010),
            function("poll", 0x40_1020..0x40_1040),
        ]);
        let at = |address| symbols.name(symbols.code(address));
        assert_eq!(
            [at(0x40_0fff), at(0x40_1000), at(0x40_100f), at(0x40_1010)],
            ["(user)", "main", "main", "(user)"]
        );
        assert_eq!(
            [at(0x40_103f), at(0x7000_0000), at(0xffff_ffff_8100_0100)],
            ["poll", "(user)", "vfs_read"]
        );
        assert!(symbols.code(0x40_1020).is_user() && symbols.entry(0x40_1020).is_some());
        assert_eq!(symbols.entry(0x40_1021), None);
    }

    #[test]
    fn an_address_belongs_to_the_nearest_function_below_it() {
        let symbols = Symbols::parse(TEXT).unwrap();
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0000), Some("_text"));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_01ff), Some("vfs_read"));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0250), Some("vfs_read"));
        assert_eq!(symbols.code(0xffff_ffff_8100_0400), Code::Unknown);
        assert_eq!(symbols.code(0xffff_ffff_8000_0000), Code::Unknown);
        assert_eq!(symbols.code(0x7000_0000), Code::User);
        assert_eq!(symbols.code(0x900), Code::Unknown);
        let entry = symbols.entry(0xffff_ffff_c000_1000).unwrap();
        assert_eq!(symbols.function(entry).module.as_deref(), Some("nvme"));
        assert_eq!(symbols.entry(0xffff_ffff_c000_1004), None);
    }

    #[test]
    fn symbols_of_section_begins_are_not_function_names() {
        let text = "ffffffff81000000 __sched_text_start\nffffffff81000000 __switch_to\n\
                    ffffffff81000100 __indirect_thunk_start\nffffffff81000100 __x86_indirect_thunk_rax\n";
        let symbols = Symbols::parse(text).unwrap();
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0010), Some("__switch_to"));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0110), Some("__x86_indirect_thunk_rax"));
    }

    #[test]
    fn a_list_without_symbol_types_is_parsed_alike() {
        let symbols =
            Symbols::parse("ffffffff81000100 vfs_read\nffffffffc0001000 nvme_irq [nvme]\n").unwrap();
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0110), Some("vfs_read"));
        assert_eq!(symbols.len(), 2);
    }

    #[test]
    fn an_invalid_line_and_an_empty_or_hidden_list_are_errors() {
        let wrong = Symbols::parse("ffffffff81000000 T _text\nhello there\n").unwrap_err();
        assert_eq!(wrong, SymbolsError::Line { line: 2, text: "hello there".to_owned() });
        assert_eq!(Symbols::parse("").unwrap_err(), SymbolsError::Empty);
        assert_eq!(Symbols::parse("0000000000000000 T _text\n").unwrap_err(), SymbolsError::Hidden);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(?s).{0,400}", address: u64) {
            if let Ok(symbols) = Symbols::parse(&text) {
                symbols.code(address);
            }
        }
    }
}
