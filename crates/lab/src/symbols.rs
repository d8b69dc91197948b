//! Which function an address of the kernel is in.

use crate::guest::program::ProgramFunction;
use std::collections::HashMap;
use std::ops::Range;

/// The lowest address of the kernel's half, on all architectures of the lab.
pub const KERNEL_START: u64 = 1 << 63;
/// Below this 64-bit POWER runs its interrupt vectors with translation off (Power ISA, book III, 7.4.2).
const VECTORS_END: u64 = 0x8000;
/// Ends of code: an address behind one of these is in no function until the next symbol.
const ENDS: [&str; 3] = ["_etext", "_einittext", "__end_interrupts"];

/// A function of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The module it is in, unless it is in the kernel's image.
    pub module: Option<String>,
}

/// A function's number in its [`Symbols`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub usize);

/// Whose code an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// A program's.
    User,
    /// A function of the program whose symbols are known.
    Program(FunctionId),
    /// A function of the kernel.
    Kernel(FunctionId),
    /// The kernel's, in no known function.
    Unknown,
}

impl Code {
    /// Whether it runs in user mode.
    pub fn is_user(self) -> bool {
        matches!(self, Self::User | Self::Program(_))
    }
}

/// Symbols of code, by address: the kernel's, and those of one program.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    starts: Vec<(u64, FunctionId)>,
    program: Vec<(Range<u64>, FunctionId)>,
    functions: Vec<Function>,
}

/// What is wrong with a list of symbols.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SymbolsError {
    /// A line that is none.
    #[error("symbols, line {line}: `{text}`: expected an address, a name and maybe a module")]
    Line {
        /// From 1.
        line: usize,
        /// What is there, shortened.
        text: String,
    },
    /// Nothing.
    #[error("no symbols at all")]
    Empty,
    /// All addresses are zero.
    #[error("all symbols have the address 0: /proc/kallsyms was read without privilege")]
    Hidden,
}

impl Symbols {
    /// Reads lines of `ADDRESS NAME [MODULE]`, or of `/proc/kallsyms` and `System.map`, which have a type
    /// between. Symbols of data are left out; of several names of an address the first in the alphabet counts.
    ///
    /// # Errors
    /// [`SymbolsError`] naming the line.
    pub fn read(text: &str) -> Result<Self, SymbolsError> {
        let mut named = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = || SymbolsError::Line { line: number + 1, text: line.chars().take(80).collect() };
            named.extend(symbol(line).ok_or_else(wrong)?);
        }
        match named.iter().map(|(address, _)| *address).max() {
            None => return Err(SymbolsError::Empty),
            Some(0) => return Err(SymbolsError::Hidden),
            Some(_) => {}
        }
        named.sort_by(|(a, f), (b, g)| a.cmp(b).then_with(|| rank(&f.name).cmp(&rank(&g.name))));
        named.dedup_by_key(|(address, _)| *address);
        Ok(Self::of(named))
    }

    fn of(named: Vec<(u64, Function)>) -> Self {
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

    /// The same with the functions of a program, in the order of their addresses.
    #[must_use]
    pub fn with_program(mut self, functions: Vec<ProgramFunction>) -> Self {
        for ProgramFunction { name, addresses } in functions {
            self.program.push((addresses, FunctionId(self.functions.len())));
            self.functions.push(Function { name, module: None });
        }
        self
    }

    /// Whose code is at an address.
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
    /// If the number is of other symbols.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0]
    }

    /// What code is called.
    pub fn name(&self, code: Code) -> &str {
        match code {
            Code::User => "(user)",
            Code::Unknown => "(unknown)",
            Code::Program(id) | Code::Kernel(id) => &self.function(id).name,
        }
    }

    /// How many functions there are: numbers are below.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

/// Prefers a name people know over the aliases that the compiler and the linker add, and over marks of where a
/// section begins (`__sched_text_start` is where `__switch_to` may be).
fn rank(name: &str) -> (bool, &str) {
    let of_compiler = ["__pfx_", "__cfi_", "."].iter().any(|front| name.starts_with(front));
    let of_section = name.starts_with("__") && (name.ends_with("_start") || name.ends_with("_end"));
    (of_compiler || of_section, name)
}

/// A line's symbol. `Some(None)` is a symbol that is no code.
fn symbol(line: &str) -> Option<Option<(u64, Function)>> {
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
    fn a_program_s_functions_are_where_they_say() {
        let function =
            |name: &str, addresses: Range<u64>| ProgramFunction { name: name.to_owned(), addresses };
        let symbols = Symbols::read(TEXT).unwrap().with_program(vec![
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
    fn an_address_is_in_the_function_before_it() {
        let symbols = Symbols::read(TEXT).unwrap();
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
    fn a_section_s_begin_is_no_function_s_name() {
        let text = "ffffffff81000000 __sched_text_start\nffffffff81000000 __switch_to\n\
                    ffffffff81000100 __indirect_thunk_start\nffffffff81000100 __x86_indirect_thunk_rax\n";
        let symbols = Symbols::read(text).unwrap();
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0010), Some("__switch_to"));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0110), Some("__x86_indirect_thunk_rax"));
    }

    #[test]
    fn a_list_without_types_reads_the_same() {
        let symbols = Symbols::read("ffffffff81000100 vfs_read\nffffffffc0001000 nvme_irq [nvme]\n").unwrap();
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0110), Some("vfs_read"));
        assert_eq!(symbols.len(), 2);
    }

    #[test]
    fn what_is_no_list_says_where() {
        let wrong = Symbols::read("ffffffff81000000 T _text\nhello there\n").unwrap_err();
        assert_eq!(wrong, SymbolsError::Line { line: 2, text: "hello there".to_owned() });
        assert_eq!(Symbols::read("").unwrap_err(), SymbolsError::Empty);
        assert_eq!(Symbols::read("0000000000000000 T _text\n").unwrap_err(), SymbolsError::Hidden);
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(text in "(?s).{0,400}", address: u64) {
            if let Ok(symbols) = Symbols::read(&text) {
                symbols.code(address);
            }
        }
    }
}
