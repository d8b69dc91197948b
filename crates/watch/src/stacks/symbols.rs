//! The kernel's functions by their addresses, from `/proc/kallsyms`.

use super::setting::setting;
use super::stage::{self, Meaning};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Read};

/// Where the kernel lists its symbols.
pub(super) const PATH: &str = "/proc/kallsyms";
/// Bytes that are read at most. A kernel with all its modules and data has some 15 MiB, of 250,000 lines.
const BYTES_MAX: u64 = 128 << 20;
/// Functions have less; a larger distance means that nothing is known of the address.
const FUNCTION_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a name at most (`KSYM_NAME_LEN` is 512, before Linux 6.1 128).
const NAME_BYTES_MAX: usize = 512;

/// Why there are no symbols.
#[derive(Debug, thiserror::Error)]
pub(super) enum SymbolError {
    #[error("{PATH}: {0}")]
    Read(io::Error),
    #[error(
        "{PATH} shows no addresses: expected root, or CAP_SYSLOG; kernel.kptr_restrict is {0}, and 2 hides them from all"
    )]
    Hidden(String),
}

/// A function.
#[derive(Debug)]
pub(super) struct Symbol {
    address: u64,
    pub(super) name: Box<str>,
    /// Found out when it is first asked for: samples name some hundred functions of a hundred thousand.
    meaning: OnceCell<Meaning>,
}

impl Symbol {
    pub(super) fn meaning(&self) -> Meaning {
        *self.meaning.get_or_init(|| stage::meaning(&self.name))
    }
}

/// Functions in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols(Vec<Symbol>);

impl Symbols {
    /// Those of the running kernel.
    pub(super) fn of_this_kernel() -> Result<Self, SymbolError> {
        let mut text = Vec::new();
        let read = File::open(PATH).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text));
        read.map_err(SymbolError::Read)?;
        let symbols = Self::of(&text);
        if symbols.0.is_empty() {
            return Err(SymbolError::Hidden(setting("kptr_restrict")));
        }
        Ok(symbols)
    }

    /// Reads lines such as `ffffffff81000000 T name` and `ffffffffc0000000 t name [module]`. Others are passed over, as are data and
    /// hidden addresses.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut all: Vec<Symbol> = text.split(|byte| *byte == b'\n').filter_map(symbol).collect();
        all.sort_by_key(|symbol| symbol.address);
        // Of several names for an address the first whose meaning is known, else the first.
        all.dedup_by(|later, kept| {
            let is_same = later.address == kept.address;
            if is_same && kept.meaning() == Meaning::Other && later.meaning() != Meaning::Other {
                std::mem::swap(later, kept);
            }
            is_same
        });
        Self(all)
    }

    /// The place of the function that an address lies in.
    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let after = self.0.partition_point(|symbol| symbol.address <= address);
        let place = after.checked_sub(1)?;
        (address - self.0[place].address < FUNCTION_BYTES_MAX).then_some(place)
    }

    pub(super) fn get(&self, place: usize) -> Option<&Symbol> {
        self.0.get(place)
    }
}

/// A line's function; `None` for anything else.
fn symbol(line: &[u8]) -> Option<Symbol> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let address = words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)?;
    if !matches!(words.next()?, "t" | "T" | "w" | "W" | "i") {
        return None;
    }
    let name = words.next().filter(|name| name.len() <= NAME_BYTES_MAX)?;
    Some(Symbol { address, name: name.into(), meaning: OnceCell::new() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::stacks::random::Random;
    use toll::Stage;

    fn name(symbols: &Symbols, address: u64) -> Option<&str> {
        Some(&*symbols.get(symbols.find(address)?)?.name)
    }

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let text = "ffffffff81000100 t qi_submit_sync\nffffffff81000000 T _stext\nffffffff81000000 T dma_map_phys\n\
                    ffffffff81000180 D a_variable\nffffffffc0000000 t nvme_irq\t[nvme]\n";
        let symbols = Symbols::of(text.as_bytes());
        assert_eq!(name(&symbols, 0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(&symbols, 0xffff_ffff_8100_00ff), Some("dma_map_phys"), "the known name of two");
        assert_eq!(name(&symbols, 0xffff_ffff_8100_01ff), Some("qi_submit_sync"), "data has no code");
        assert_eq!(name(&symbols, 0xffff_ffff_c000_0010), Some("nvme_irq"));
        assert_eq!(name(&symbols, 0xffff_ffff_a000_0000), None, "too far from any");
        let meaning = |address| symbols.get(symbols.find(address).unwrap()).unwrap().meaning();
        assert_eq!(meaning(0xffff_ffff_8100_0100), Meaning::Stage(Stage::Invalidation));
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        let text = "0000000000000000 T _stext\n0000000000000000 T dma_map_phys\n";
        assert!(Symbols::of(text.as_bytes()).0.is_empty());
    }

    /// As many lines as large kernels have.
    #[test]
    fn two_hundred_thousand_lines_are_read() {
        let line =
            |number: u64| format!("{:016x} t function_{number}\n", 0xffff_8000_0000_0000 + number * 64);
        let text: String = (0..200_000).rev().map(line).collect();
        let symbols = Symbols::of(text.as_bytes());
        assert_eq!(symbols.0.len(), 200_000);
        for number in [0, 1, 77_777, 199_999] {
            let address = 0xffff_8000_0000_0000 + number * 64 + 63;
            assert_eq!(name(&symbols, address), Some(&*format!("function_{number}")));
        }
    }

    /// Lines of odd words, and random bytes.
    #[test]
    fn odd_lines_are_passed_over() {
        const WORDS: [&str; 14] = [
            "",
            "0",
            "ffffffff81000000",
            "FFFF",
            "g",
            "+1",
            "fffffffffffffffff",
            "t",
            "T",
            "D",
            "tT",
            "[nvme]",
            "é",
            "a.b.c",
        ];
        for seed in 0..5000 {
            let mut random = Random::of(seed);
            let mut text = random.bytes(100);
            if seed % 2 == 0 {
                let mut word = || {
                    [WORDS[random.below(14) as usize], [" ", "\t", "\n"][random.below(3) as usize]].concat()
                };
                text = (0..60).map(|_| word()).collect::<String>().into_bytes();
            }
            let symbols = Symbols::of(&text);
            let lines = text.split(|byte| *byte == b'\n').count();
            assert!(symbols.0.len() <= lines, "seed {seed}");
            assert!(symbols.0.windows(2).all(|pair| pair[0].address < pair[1].address), "seed {seed}");
            let _ = symbols.find(random.next());
        }
    }

    /// Against a search from the first to the last.
    #[test]
    fn the_nearest_function_before_an_address_is_found() {
        for seed in 0..2000 {
            let mut random = Random::of(seed);
            let begins: Vec<u64> = (0..=random.below(50)).map(|_| 1 + random.below(1 << 24)).collect();
            let address = random.below(1 << 25);
            let lines: String = begins.iter().map(|begin| format!("{begin:x} t at_{begin}\n")).collect();
            let nearest = begins.iter().filter(|begin| **begin <= address).max();
            let nearest = nearest.filter(|begin| address - **begin < FUNCTION_BYTES_MAX);
            let expected = nearest.map(|begin| format!("at_{begin}"));
            assert_eq!(name(&Symbols::of(lines.as_bytes()), address), expected.as_deref(), "seed {seed}");
        }
    }
}
