//! A second, naive model of Linux's MTRR driver, to check the planner against.
//!
//! It takes the text that is written to `/proc/mtrr` and prints the text that is read from it, shares
//! no code with the planner, and looks types up address by address. The test
//! `mtrr_on_a_kernel` holds it against the real thing.
#![allow(dead_code, reason = "each of the tests that share it uses a part")]

/// The words of `/proc/mtrr`, at the places of their numbers in the hardware.
pub(crate) const KEYWORDS: [&str; 5] =
    ["uncachable", "write-combining", "write-through", "write-protect", "write-back"];

const UC: usize = 0;
const WT: usize = 2;
const WB: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reg {
    pub(crate) base: u64,
    pub(crate) size: u64,
    /// Index into [`KEYWORDS`].
    pub(crate) kind: usize,
    pub(crate) count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Mtrrs {
    pub(crate) regs: Vec<Option<Reg>>,
    pub(crate) address_bits: u32,
    /// Kernel 2.6.18 rather than 2.6.32 or later.
    pub(crate) old: bool,
}

/// What a successful write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Did {
    Disabled(usize),
    Added(usize),
    Counted(usize),
    Replaced(usize),
}

impl Mtrrs {
    pub(crate) fn new(count: usize, address_bits: u32, old: bool) -> Self {
        Self { regs: vec![None; count], address_bits, old }
    }

    /// Writes a line to `/proc/mtrr`; `None` is an error number.
    pub(crate) fn write(&mut self, line: &str) -> Option<Did> {
        if let Some(number) = line.strip_prefix("disable=") {
            return self.disable(number.parse().ok()?);
        }
        let mut words = line.split(' ');
        let mut word = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        let base = u64::from_str_radix(word("base")?.strip_prefix("0x")?, 16).ok()?;
        let size = u64::from_str_radix(word("size")?.strip_prefix("0x")?, 16).ok()?;
        let kind = word("type")?;
        let kind = KEYWORDS.iter().position(|k| *k == kind)?;
        self.add(base, size, kind)
    }

    fn disable(&mut self, number: usize) -> Option<Did> {
        let reg = self.regs.get_mut(number)?.as_mut()?;
        if reg.count == 0 {
            return None;
        }
        reg.count -= 1;
        if reg.count == 0 {
            self.regs[number] = None;
        }
        Some(Did::Disabled(number))
    }

    fn add(&mut self, base: u64, size: u64, kind: usize) -> Option<Did> {
        let top = 1 << self.address_bits;
        let aligned = size.is_power_of_two() && size >= 4096 && base & (size - 1) == 0;
        if !aligned || base >= top || size >= top || (self.old && base + size < 0x10_0000) {
            return None;
        }
        let last = base + size - 1;
        let mut same_inside = Vec::new();
        for (number, slot) in self.regs.iter_mut().enumerate() {
            let Some(reg) = slot else { continue };
            let reg_last = reg.base + reg.size - 1;
            if base > reg_last || last < reg.base {
                continue;
            }
            if base >= reg.base && last <= reg_last {
                if reg.kind == kind {
                    reg.count += 1;
                    return Some(Did::Counted(number));
                }
                if self.old && kind != UC || !self.old && !friends(kind, reg.kind) {
                    return None;
                }
            } else if self.old || !(base <= reg.base && last >= reg_last) {
                return None;
            } else if reg.kind == kind {
                same_inside.push(number);
            } else if !friends(kind, reg.kind) {
                return None;
            }
        }
        if let [number] = same_inside[..] {
            let count = self.regs[number].map_or(0, |reg| reg.count) + 1;
            self.regs[number] = Some(Reg { base, size, kind, count });
            return Some(Did::Replaced(number));
        }
        let number = self.regs.iter().position(Option::is_none)?;
        self.regs[number] = Some(Reg { base, size, kind, count: 1 });
        Some(Did::Added(number))
    }

    /// Reads `/proc/mtrr`.
    pub(crate) fn read(&self) -> String {
        let mut text = String::new();
        for (number, reg) in self.regs.iter().enumerate() {
            let Some(Reg { base, size, kind, count }) = *reg else { continue };
            let (amount, unit) = if size < 1 << 20 { (size >> 10, "KB") } else { (size >> 20, "MB") };
            let (mib, kind) = (base >> 20, KEYWORDS[kind]);
            text += &if self.old {
                format!(
                    "reg{number:02}: base=0x{base:08x} ({mib:>4}MB), size={amount:>4}{unit}: {kind}, count={count}\n"
                )
            } else {
                format!(
                    "reg{number:02}: base=0x{base:09x} ({mib:>5}MB), size={amount:>5}{unit}, count={count}: {kind}\n"
                )
            };
        }
        text
    }

    /// The type at `address`: a set of bits where the manual leaves the mixture undefined.
    pub(crate) fn type_at(&self, address: u64, default: usize) -> u32 {
        let mut kinds = 0_u32;
        for reg in self.regs.iter().flatten() {
            if address >= reg.base && address - reg.base < reg.size {
                kinds |= 1 << reg.kind;
            }
        }
        match kinds {
            0 => 1 << default,
            _ if kinds & 1 << UC != 0 => 1 << UC,
            _ if kinds == 1 << WB | 1 << WT => 1 << WT,
            _ => kinds,
        }
    }
}

fn friends(a: usize, b: usize) -> bool {
    a == UC || b == UC || (a, b) == (WT, WB) || (a, b) == (WB, WT)
}
