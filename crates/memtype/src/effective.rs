//! The type that a mapping of a range of physical addresses ends up with.
//!
//! Sources: arch/x86_64/mm/ioremap.c and drivers/char/mem.c of Linux 2.6.18; arch/x86/mm/ioremap.c and
//! pat.c of 2.6.32; arch/x86/mm/ioremap.c, arch/x86/mm/pat/memtype.c and kernel/iomem.c of 6.1. What
//! kernels between do is taken from these; where a rule changed in a release that was not looked at,
//! the constants below name the release it is thought to be.

use super::{
    iomem::{Iomem, Resource},
    memmap::MemmapArea,
    memory_type::MemoryType,
    mtrr::{
        DefaultType, FIXED_RANGES_END, KernelVersion, LinuxLookup, MtrrEffect, Register, combine,
        linux_lookup,
    },
    pat::Memtype,
    range::{PhysRange, split_at},
};
use crate::{Citation, Cited};
use serde::{Deserialize, Serialize};

/// `ioremap` asks for UC- instead of WB from here on, and mappings are tracked.
const UNCACHED_BY_DEFAULT: KernelVersion = (2, 6, 25);
/// `ioremap_wc` came.
const HAS_IOREMAP_WC: KernelVersion = (2, 6, 26);
/// `memremap` came.
const HAS_MEMREMAP: KernelVersion = (4, 3, 0);
/// `ioremap_nocache` went; `ioremap` is the same.
const LACKS_IOREMAP_NOCACHE: KernelVersion = (5, 6, 0);

/// What is known of the host.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Variable MTRRs in use.
    pub registers: &'a [Cited<Register>],
    /// Type outside of them.
    pub default: &'a DefaultType,
    /// Owners of addresses.
    pub iomem: &'a Iomem,
    /// Areas of the command line.
    pub memmap: &'a [MemmapArea],
    /// Mappings that Linux tracks.
    pub memtypes: &'a [Cited<Memtype>],
    /// Whether PAT is off (`nopat`, or a processor without): WC then becomes UC-.
    pub without_pat: bool,
    /// Kernel version.
    pub kernel: KernelVersion,
}

/// A statement with the place it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// The statement.
    pub what: String,
    /// The place, where there is one.
    pub at: Option<Citation>,
}

impl Reason {
    /// A reason that follows from the kernel's rules, without a citation.
    fn rule(what: &str) -> Self {
        Self { what: what.to_owned(), at: None }
    }

    /// A reason that follows from something the host says.
    fn cited(what: impl Into<String>, at: &Citation) -> Self {
        Self { what: what.into(), at: Some(at.clone()) }
    }
}

/// A part of the range over which MTRRs and owners are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Part {
    /// The addresses.
    pub range: PhysRange,
    /// Their type by the MTRRs.
    pub mtrr: MtrrEffect,
    /// The registers, owners and areas behind it.
    pub reasons: Vec<Reason>,
}

/// A way to map physical addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// `ioremap`.
    Ioremap,
    /// `ioremap_nocache`.
    IoremapNocache,
    /// `ioremap_cache`.
    IoremapCache,
    /// `ioremap_wc`.
    IoremapWc,
    /// `memremap(…, MEMREMAP_WB)`.
    MemremapWb,
    /// `mmap` of `/dev/mem`.
    DevMem,
    /// `mmap` of `/dev/mem` opened with `O_SYNC`.
    DevMemSync,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Ioremap,
        Self::IoremapNocache,
        Self::IoremapCache,
        Self::IoremapWc,
        Self::MemremapWb,
        Self::DevMem,
        Self::DevMemSync,
    ];

    /// The call as a driver or program writes it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ioremap => "ioremap()",
            Self::IoremapNocache => "ioremap_nocache()",
            Self::IoremapCache => "ioremap_cache()",
            Self::IoremapWc => "ioremap_wc()",
            Self::MemremapWb => "memremap(MEMREMAP_WB)",
            Self::DevMem => "mmap of /dev/mem",
            Self::DevMemSync => "mmap of /dev/mem opened with O_SYNC",
        }
    }

    /// Whether the kernel has it.
    pub fn exists(self, kernel: KernelVersion) -> bool {
        match self {
            Self::IoremapNocache => kernel < LACKS_IOREMAP_NOCACHE,
            Self::IoremapCache => kernel >= UNCACHED_BY_DEFAULT,
            Self::IoremapWc => kernel >= HAS_IOREMAP_WC,
            Self::MemremapWb => kernel >= HAS_MEMREMAP,
            Self::Ioremap | Self::DevMem | Self::DevMemSync => true,
        }
    }

    /// The type it asks the page table for.
    fn request(self, kernel: KernelVersion) -> MemoryType {
        let old = kernel < UNCACHED_BY_DEFAULT;
        match self {
            Self::Ioremap if old => MemoryType::WriteBack,
            Self::DevMemSync if old => MemoryType::Uncacheable,
            Self::Ioremap | Self::IoremapNocache | Self::DevMemSync => MemoryType::UncachedMinus,
            Self::IoremapCache | Self::MemremapWb | Self::DevMem => MemoryType::WriteBack,
            Self::IoremapWc => MemoryType::WriteCombining,
        }
    }
}

/// The kernel's answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Answer {
    /// This kernel has no such call.
    Absent,
    /// The call fails.
    Refused,
    /// The page table gets this type.
    Granted {
        /// The type.
        page: MemoryType,
    },
}

/// Part of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MappedPart {
    /// The addresses.
    pub range: PhysRange,
    /// What the CPU does with them.
    #[serde(rename = "type")]
    pub kind: MemoryType,
}

/// A call with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Mapping {
    /// The call.
    pub call: Call,
    /// Its answer.
    pub answer: Answer,
    /// What the mapping's parts are, none without a mapping.
    pub parts: Vec<MappedPart>,
    /// Why.
    pub reasons: Vec<Reason>,
}

/// What a range is, and what mappings of it would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Effective {
    /// The addresses.
    pub range: PhysRange,
    /// By MTRRs and owners.
    pub parts: Vec<Part>,
    /// By call.
    pub mappings: Vec<Mapping>,
    /// What could not be seen or is not certain.
    pub doubts: Vec<String>,
}

impl Effective {
    /// The mapping that a call gives, if it gives one.
    pub fn mapped_by(&self, call: Call) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| mapping.call == call).filter(|mapping| !mapping.parts.is_empty())
    }
}

/// Works out the types of `range` and of every kind of mapping of the whole of it.
pub fn effective(facts: &Facts<'_>, range: PhysRange) -> Effective {
    let parts = mtrr_parts(facts, range);
    let mappings = Call::ALL.into_iter().map(|call| mapping(facts, range, &parts, call)).collect();
    Effective { range, parts, mappings, doubts: doubts(facts, range) }
}

/// The MTRR effect on `range`, split wherever a register, an owner or a `memmap=` area begins or ends.
fn mtrr_parts(facts: &Facts<'_>, range: PhysRange) -> Vec<Part> {
    let registers = facts.registers.iter().map(|r| r.value.range);
    let owners = facts.iomem.overlapping(range).filter(|r| affects_mappings(&r.value)).map(|r| r.value.range);
    let areas = facts.memmap.iter().filter_map(|area| area.request.range());
    let all = registers.chain(owners).chain(areas);
    let cuts = all.flat_map(|range| [u128::from(range.base()), range.end()]).chain(facts.default.cuts());
    split_at(range, cuts).into_iter().map(|range| mtrr_part(facts, range)).collect()
}

/// Whether the resource can affect which mappings are granted: a top-level owner, or an area reserved by `memmap=`.
fn affects_mappings(resource: &Resource) -> bool {
    resource.depth == 0 || resource.is_reserved()
}

/// The MTRR effect on a range that no register or owner splits, with the reasons.
fn mtrr_part(facts: &Facts<'_>, range: PhysRange) -> Part {
    let registers: Vec<_> = facts.registers.iter().filter(|r| r.value.range.contains(range)).collect();
    let mut reasons: Vec<_> =
        registers.iter().map(|r| Reason::cited(format!("MTRR {}", r.value.kind), &r.at)).collect();
    if registers.is_empty() {
        let known = facts.default.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        reasons.push(Reason {
            what: format!("in no MTRR: default type {} ({known})", facts.default.at(range.base())),
            at: None,
        });
    }
    if range.base() < FIXED_RANGES_END {
        reasons.push(Reason::rule("the first MiB is ruled by fixed MTRRs, which /proc/mtrr does not show"));
    }
    let owners = facts.iomem.overlapping(range).filter(|r| affects_mappings(&r.value));
    reasons.extend(owners.map(|r| Reason::cited(r.value.name.clone(), &r.at)));
    let asked = |area: &&MemmapArea| area.request.range().is_some_and(|r| r.overlaps(range));
    reasons.extend(
        facts.memmap.iter().filter(asked).map(|area| Reason::cited(area.effect.to_string(), &area.at)),
    );
    let kinds = registers.iter().map(|r| r.value.kind).collect();
    Part { range, mtrr: combine(kinds, facts.default.at(range.base())), reasons }
}

/// Facts that are missing, so that the answer may be wrong.
fn doubts(facts: &Facts<'_>, range: PhysRange) -> Vec<String> {
    let mut doubts = Vec::new();
    if facts.iomem.hidden || facts.iomem.resources.is_empty() {
        doubts.push("who owns these addresses is not known: /proc/iomem shows them to root only".to_owned());
    }
    if facts.memtypes.is_empty() && facts.kernel >= UNCACHED_BY_DEFAULT {
        doubts.push(
            "mappings that exist are not known: root can read /sys/kernel/debug/x86/pat_memtype_list"
                .to_owned(),
        );
    }
    if range.base() < FIXED_RANGES_END {
        doubts.push("the first MiB is ruled by fixed MTRRs, which /proc/mtrr does not show".to_owned());
    }
    doubts
}

/// The answer to one kind of mapping of `range`, and the memory types it results in.
fn mapping(facts: &Facts<'_>, range: PhysRange, parts: &[Part], call: Call) -> Mapping {
    let mut reasons = Vec::new();
    let answer = answer(facts, range, call, &mut reasons);
    let mapped = match answer {
        Answer::Granted { page } => {
            let kind = |part: &Part| MemoryType::effective(part.mtrr.as_linux_sees_it(), page);
            parts.iter().map(|part| MappedPart { range: part.range, kind: kind(part) }).collect()
        }
        Answer::Absent | Answer::Refused => Vec::new(),
    };
    Mapping { call, answer, parts: merge(mapped), reasons }
}

/// Merges adjacent parts of the same type.
fn merge(parts: Vec<MappedPart>) -> Vec<MappedPart> {
    let mut joined: Vec<MappedPart> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if last.kind == part.kind => {
                last.range =
                    PhysRange::from_first_to_last(last.range.base(), part.range.last()).unwrap_or(last.range);
            }
            _ => joined.push(part),
        }
    }
    joined
}

/// Whether Linux grants a mapping of `range` by this call, and with which page attribute.
fn answer(facts: &Facts<'_>, range: PhysRange, call: Call, reasons: &mut Vec<Reason>) -> Answer {
    if !call.exists(facts.kernel) {
        return Answer::Absent;
    }
    if let Some(answer) = answer_over_ram(facts, range, call, reasons) {
        return answer;
    }
    let request = call.request(facts.kernel);
    if facts.kernel < UNCACHED_BY_DEFAULT {
        return Answer::Granted { page: request };
    }
    match request {
        MemoryType::WriteBack => answer_by_mtrrs(facts, range, reasons),
        MemoryType::WriteCombining if facts.without_pat => {
            reasons
                .push(Reason::rule("without PAT there is no WC in the page table, Linux takes UC- instead"));
            answer_by_existing_mappings(facts, range, MemoryType::UncachedMinus, reasons)
        }
        page => answer_by_existing_mappings(facts, range, page, reasons),
    }
}

/// The answer if the range overlaps RAM; then MTRRs and existing mappings don't matter.
fn answer_over_ram(
    facts: &Facts<'_>,
    range: PhysRange,
    call: Call,
    reasons: &mut Vec<Reason>,
) -> Option<Answer> {
    let ram = facts.iomem.overlapping(range).find(|r| r.value.is_ram())?;
    match call {
        Call::DevMem | Call::DevMemSync if facts.kernel < UNCACHED_BY_DEFAULT => None,
        Call::DevMem | Call::DevMemSync => {
            reasons.push(Reason::cited(
                "RAM: refused unless the kernel was built without CONFIG_STRICT_DEVMEM",
                &ram.at,
            ));
            Some(Answer::Refused)
        }
        Call::MemremapWb if ram.value.range.contains(range) => {
            reasons.push(Reason::cited("RAM: the kernel's own mapping of it is used", &ram.at));
            Some(Answer::Granted { page: MemoryType::WriteBack })
        }
        _ => {
            reasons.push(Reason::cited("RAM in the kernel's use is not mapped again", &ram.at));
            Some(Answer::Refused)
        }
    }
}

/// The answer to a request for WB, which is granted only if the MTRRs say WB for the whole range.
fn answer_by_mtrrs(facts: &Facts<'_>, range: PhysRange, reasons: &mut Vec<Reason>) -> Answer {
    let registers: Vec<Register> = facts.registers.iter().map(|r| r.value).collect();
    let page = match linux_lookup(&registers, facts.default, range, facts.kernel) {
        LinuxLookup::Type(MemoryType::WriteBack) => MemoryType::WriteBack,
        LinuxLookup::Type(_) => {
            reasons.push(Reason::rule(
                "WB is granted only where the MTRRs say WB for the whole range; UC- otherwise",
            ));
            MemoryType::UncachedMinus
        }
        LinuxLookup::Straddles => {
            reasons.push(Reason::rule("the range crosses the edge of an MTRR, for which this kernel knows no single type: UC- for all of it"));
            MemoryType::UncachedMinus
        }
    };
    answer_by_existing_mappings(facts, range, page, reasons)
}

/// The answer given the tracked mappings: an existing one imposes its type, if the request allows that
/// (`is_new_memtype_allowed`).
fn answer_by_existing_mappings(
    facts: &Facts<'_>,
    range: PhysRange,
    page: MemoryType,
    reasons: &mut Vec<Reason>,
) -> Answer {
    use MemoryType::{UncachedMinus, WriteBack, WriteCombining, WriteThrough};
    let other = |m: &&Cited<Memtype>| m.value.range.overlaps(range) && m.value.kind != page;
    let Some(found) = facts.memtypes.iter().find(other) else {
        return Answer::Granted { page };
    };
    let kind = found.value.kind;
    reasons.push(Reason::cited(format!("already mapped as {kind}"), &found.at));
    match (page, kind) {
        (UncachedMinus | WriteCombining | WriteThrough, WriteBack) | (WriteThrough, WriteCombining) => {
            Answer::Refused
        }
        _ => Answer::Granted { page: kind },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Text, memmap::parse_cmdline, mtrr::parse_mtrr, parse_iomem, parse_memtype_list};

    const RHEL_5: KernelVersion = (2, 6, 18);
    const RHEL_6: KernelVersion = (2, 6, 32);
    const DEBIAN_12: KernelVersion = (6, 1, 192);

    struct Host {
        mtrr: &'static str,
        iomem: &'static str,
        memtypes: &'static str,
        kernel: KernelVersion,
    }

    impl Host {
        fn at(&self, range: &str) -> Effective {
            let (table, _) = parse_mtrr(&Text::new("proc/mtrr", self.mtrr));
            let (iomem, _) = parse_iomem(&Text::new("proc/iomem", self.iomem));
            let (memtypes, _) = parse_memtype_list(&Text::new("pat_memtype_list", self.memtypes));
            let memmap = parse_cmdline(&Text::new("proc/cmdline", "memmap=80M$256M"), self.kernel);
            let facts = Facts {
                registers: &table.registers,
                default: &DefaultType::given(MemoryType::Uncacheable),
                iomem: &iomem,
                memmap: &memmap,
                memtypes: &memtypes,
                without_pat: false,
                kernel: self.kernel,
            };
            effective(&facts, range.parse().unwrap())
        }

        /// The effective types of each call, `-` where it does not exist and `!` where it is refused.
        fn types(&self, range: &str) -> String {
            let show = |mapping: &Mapping| match mapping.answer {
                Answer::Absent => "-".to_owned(),
                Answer::Refused => "!".to_owned(),
                Answer::Granted { .. } => {
                    mapping.parts.iter().map(|p| p.kind.to_string()).collect::<Vec<_>>().join("+")
                }
            };
            self.at(range).mappings.iter().map(show).collect::<Vec<_>>().join(" ")
        }
    }

    const AREA: &str = "10000000-14ffffff";
    const WB_4G: &str = "reg00: base=0x00000000 (   0MB), size=4096MB: write-back, count=1\n";
    const RESERVED: &str =
        "00100000-0fffffff : System RAM\n10000000-14ffffff : reserved\n15000000-7fffffff : System RAM\n";
    const HOST: Host = Host { mtrr: WB_4G, iomem: RESERVED, memtypes: "", kernel: RHEL_5 };

    /// The order is that of [`Call::ALL`].
    #[test]
    fn a_reserved_area_was_cached_and_no_longer_is() {
        assert_eq!(HOST.types(AREA), "WB UC - - - WB UC");
        assert_eq!(Host { kernel: RHEL_6, ..HOST }.types(AREA), "UC UC WB WC - WB UC");
        assert_eq!(Host { kernel: DEBIAN_12, ..HOST }.types(AREA), "UC - WB WC WB WB UC");
    }

    #[test]
    fn an_uncachable_mtrr_makes_all_of_them_uncached() {
        let mtrr = "reg00: base=0x00000000 (   0MB), size=4096MB: write-back, count=1\n\
                    reg01: base=0x10000000 ( 256MB), size=  64MB: uncachable, count=1\n\
                    reg02: base=0x14000000 ( 320MB), size=  16MB: uncachable, count=1\n";
        assert_eq!(Host { mtrr, ..HOST }.types(AREA), "UC UC - - - UC UC");
        // WC in the page table wins over UC in the MTRR.
        assert_eq!(Host { mtrr, kernel: DEBIAN_12, ..HOST }.types(AREA), "UC - UC WC UC UC UC");
    }

    #[test]
    fn a_range_over_two_registers() {
        let mtrr = "reg00: base=0x10000000 ( 256MB), size=  64MB: write-back, count=1\n\
                    reg01: base=0x14000000 ( 320MB), size=  16MB: write-back, count=1\n";
        assert_eq!(Host { mtrr, kernel: RHEL_6, ..HOST }.types(AREA), "UC UC UC WC - UC UC");
        assert_eq!(Host { mtrr, kernel: DEBIAN_12, ..HOST }.types(AREA), "UC - WB WC WB WB UC");
        let half = "reg00: base=0x10000000 ( 256MB), size=  64MB: write-back, count=1\n";
        assert_eq!(Host { mtrr: half, ..HOST }.types(AREA), "WB+UC UC - - - WB+UC UC");
    }

    #[test]
    fn ram_is_not_mapped_again() {
        let iomem = "00100000-7fffffff : System RAM\n";
        assert_eq!(Host { iomem, ..HOST }.types(AREA), "! ! - - - WB UC");
        assert_eq!(Host { iomem, kernel: DEBIAN_12, ..HOST }.types(AREA), "! - ! ! WB ! !");
    }

    #[test]
    fn a_mapping_that_exists() {
        let memtypes = "write-back @ 0x10000000-0x10001000\n";
        let host = Host { memtypes, kernel: RHEL_6, ..HOST };
        assert_eq!(host.types(AREA), "! ! WB ! - WB !");
        let memtypes = "PAT: [mem 0x10000000-0x10001000] write-combining\n";
        assert_eq!(Host { memtypes, kernel: DEBIAN_12, ..HOST }.types(AREA), "WC - WC WC WC WC WC");
    }

    #[test]
    fn parts_and_their_reasons() {
        let report = HOST.at("0ff00000-100fffff");
        let reasons: Vec<Vec<_>> =
            report.parts.iter().map(|p| p.reasons.iter().map(|r| r.what.as_str()).collect()).collect();
        assert_eq!(reasons[0], ["MTRR WB", "System RAM"]);
        assert_eq!(reasons[1][..2], ["MTRR WB", "reserved"]);
        assert!(reasons[1][2].contains("stays in use"));
        let hidden = Host { iomem: "00000000-00000000 : System RAM\n", ..HOST }.at(AREA);
        assert!(hidden.doubts[0].contains("root"));
    }
}
