//! What the kernel decides when a driver asks for 64-bit DMA.
//!
//! A prediction of `enable_ddw` (arch/powerpc/platforms/pseries/iommu.c), by [`Era`], with its arithmetic
//! spelled out. The size that counts is always the *maximum* memory of the partition's profile: raising it
//! can cost a partition its direct window without a byte of memory being added.
//!
//! No era knows a limit such as 2 TiB; the limit is always entries of the largest block times page size.

use crate::{Era, PageSizes, size};
use serde::Serialize;

/// Address bits that a window must span to reach persistent memory anywhere (`MAX_PHYSMEM_BITS`).
const PHYSICAL_BITS_MAX: u32 = 51;
/// Least room for mappings above premapped memory in a window used both ways.
const HYBRID_DYNAMIC_BYTES_MIN: u128 = 2 << 30;

/// What is asked, by whom, on which partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Request {
    /// The kernel's generation.
    pub era: Era,
    /// Address bits that the driver asked for (`dma_mask_bits`).
    pub mask_bits: u32,
    /// The most memory that the partition can have, by the kernel's own rule.
    pub memory_max_bytes: u64,
    /// `disable_ddw` is on the kernel's command line.
    pub disable_ddw: bool,
    /// There is an `ibm,pmemory` node.
    pub persistent_memory: bool,
}

/// What the firmware answers to `ibm,query-pe-dma-windows`, with what `ibm,ddw-extensions` adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Query {
    /// Windows that can still be created.
    pub windows_available: u32,
    /// Entries of the largest block.
    pub block_tces: u64,
    /// Page sizes on offer.
    pub page_sizes: PageSizes,
    /// The default window can be given back once removed (`ibm,reset-pe-dma-windows`).
    pub reset: bool,
    /// Devices with a mask below 64 bits can be served.
    pub limited_addressing: bool,
}

/// How the adapter's mappings will be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "window")]
pub enum Outcome {
    /// A 64-bit window with all memory mapped once.
    #[serde(rename_all = "kebab-case")]
    Direct {
        /// Shift of its pages.
        page_shift: u32,
        /// Shift of its size.
        window_shift: u32,
    },
    /// A direct window with room above memory where persistent memory is mapped as needed.
    #[serde(rename_all = "kebab-case")]
    Hybrid {
        /// Shift of its pages.
        page_shift: u32,
        /// Shift of its size.
        window_shift: u32,
        /// Where the room starts, counted from the window's base, as a shift.
        dynamic_from_shift: u32,
    },
    /// A 64-bit window whose entries are written per mapping.
    #[serde(rename_all = "kebab-case")]
    Dynamic {
        /// Shift of its pages.
        page_shift: u32,
        /// Shift of its size.
        window_shift: u32,
    },
    /// The default window: entries written per mapping.
    #[serde(rename_all = "kebab-case")]
    Default {
        /// Why there is no 64-bit window.
        reason: DefaultReason,
    },
}

/// Why an adapter stays in its default window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefaultReason {
    /// The kernel is older than the feature.
    KernelTooOld,
    /// `disable_ddw` was given.
    Disabled,
    /// The driver asked for too few address bits.
    MaskTooNarrow,
    /// The mask is below 64 bits and the firmware cannot serve that.
    NoLimitedAddressing,
    /// No `ibm,ddw-applicable`: slot, firmware or profile offers no window.
    NotOffered,
    /// No window left, and no way to trade the default one in.
    NoWindowLeft,
    /// No page size that this kernel knows.
    NoPageSize,
    /// The largest block does not cover the partition's maximum memory.
    BlockTooSmall,
    /// The block covers maximum memory, but not the power of two that is asked for; the firmware refuses
    /// with -3 (parameter).
    CreateRefused,
}

/// A predicted decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Prediction {
    /// The decision.
    pub outcome: Outcome,
    /// The steps to it, each with its numbers.
    pub steps: Vec<String>,
}

/// Predicts the decision, and that the firmware grants what its answer promises. `query` is `None` where the bridge has no
/// `ibm,ddw-applicable`.
pub fn predict(request: &Request, query: Option<&Query>) -> Prediction {
    let mut steps = Vec::new();
    let outcome = decide(request, query, &mut steps)
        .and_then(|(block, plan)| create(&block, plan, &mut steps))
        .unwrap_or_else(|reason| Outcome::Default { reason });
    Prediction { outcome, steps }
}

/// Whether the kernel asks the firmware for a window at all.
///
/// # Errors
/// Why it does not.
pub fn attempt(request: &Request) -> Result<(), DefaultReason> {
    is_tried(request, &mut Vec::new())
}

/// The window that the kernel goes on to request, and what it wants it for: the kernel's part alone. Where the default window
/// was traded in, `query` is the answer after that, but with no window available, as it was before.
///
/// # Errors
/// Why it requests none.
pub fn plan(request: &Request, query: Option<&Query>) -> Result<Plan, DefaultReason> {
    decide(request, query, &mut Vec::new()).map(|(_, plan)| plan)
}

fn decide(
    request: &Request,
    query: Option<&Query>,
    steps: &mut Vec<String>,
) -> Result<(Block, Plan), DefaultReason> {
    is_tried(request, steps)?;
    let query = query.ok_or_else(|| {
        steps.push("no ibm,ddw-applicable above the adapter: firmware offers no 64-bit window".to_owned());
        DefaultReason::NotOffered
    })?;
    serves_mask(request, query, steps)?;
    let default_removed = find_window(request, query, steps)?;
    let page_shift = query.page_sizes.largest(request.era).ok_or_else(|| {
        steps.push(format!("no page size of mask {} is known to this kernel", query.page_sizes));
        DefaultReason::NoPageSize
    })?;
    let block = Block::new(query.block_tces, page_shift);
    steps.push(block.to_string());
    let plan = match request.era {
        Era::NoDdw | Era::Rhel6 | Era::Linux36 | Era::Rhel7To419 | Era::Linux510 => {
            plan_unrounded(request, &block, steps)
        }
        Era::Rhel8 | Era::Linux61 => plan_rounded(request, &block, default_removed, steps),
        Era::Linux612 => plan_masked(request, &block, default_removed, steps),
    }?;
    Ok((block, plan))
}

/// Whether the kernel attempts a window at all.
fn is_tried(request: &Request, steps: &mut Vec<String>) -> Result<(), DefaultReason> {
    if request.era == Era::NoDdw {
        steps.push("this kernel is older than 64-bit windows".to_owned());
        return Err(DefaultReason::KernelTooOld);
    }
    if request.disable_ddw {
        steps.push("disable_ddw is on the kernel command line".to_owned());
        return Err(DefaultReason::Disabled);
    }
    let bits = request.mask_bits;
    let (enough, rule) = match request.era {
        Era::Linux612 => (bits > 32, "more than 32"),
        _ => (bits >= 64, "64"),
    };
    if !enough {
        steps.push(format!("the driver asked for {bits} address bits; a window needs {rule}"));
        return Err(DefaultReason::MaskTooNarrow);
    }
    Ok(())
}

fn serves_mask(request: &Request, query: &Query, steps: &mut Vec<String>) -> Result<(), DefaultReason> {
    if request.mask_bits < 64 && !query.limited_addressing {
        steps.push(format!(
            "a mask of {} bits needs limited addressing, which ibm,ddw-extensions does not list",
            request.mask_bits
        ));
        return Err(DefaultReason::NoLimitedAddressing);
    }
    Ok(())
}

/// Finds a free window; `true` if the default one had to go for it.
fn find_window(request: &Request, query: &Query, steps: &mut Vec<String>) -> Result<bool, DefaultReason> {
    if query.windows_available > 0 {
        return Ok(false);
    }
    if request.era.trades_default_window() && query.reset {
        steps.push(
            "no window left: the kernel trades the default window in, unless mappings use it already, and \
             asks again; the block may be larger then than reckoned here"
                .to_owned(),
        );
        return Ok(true);
    }
    steps.push("no window left, and the default window is not traded in".to_owned());
    Err(DefaultReason::NoWindowLeft)
}

/// The largest block of entries.
struct Block {
    tces: u64,
    page_shift: u32,
}

impl Block {
    fn new(tces: u64, page_shift: u32) -> Self {
        Self { tces, page_shift }
    }

    fn bytes(&self) -> u128 {
        u128::from(self.tces) << self.page_shift
    }

    /// Size as a shift, rounded up as the kernel does, past what the block holds.
    fn shift_ceil(&self) -> u32 {
        size::log2_ceil(self.bytes())
    }

    /// Entries of a window of this size; one where the window is smaller than a page (C leaves that
    /// shift undefined).
    fn tces_for(&self, window_shift: u32) -> u128 {
        1u128.checked_shl(window_shift.saturating_sub(self.page_shift)).unwrap_or(u128::MAX)
    }

    fn holds(&self, window_shift: u32) -> bool {
        u128::from(self.tces) >= self.tces_for(window_shift)
    }
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let page = size::power_of_two(self.page_shift);
        write!(f, "largest block {:#x} TCEs x {page} = {}", self.tces, size::binary(self.bytes()))
    }
}

/// A window that the kernel requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Shift of its pages.
    pub page_shift: u32,
    /// Shift of its size.
    pub window_shift: u32,
    /// What for.
    pub usage: Usage,
}

impl Plan {
    /// What comes of it if the firmware grants it.
    pub fn outcome(self) -> Outcome {
        let Self { page_shift, window_shift, usage } = self;
        match usage {
            Usage::Direct => Outcome::Direct { page_shift, window_shift },
            Usage::Dynamic => Outcome::Dynamic { page_shift, window_shift },
            Usage::Hybrid { dynamic_from_shift } => {
                Outcome::Hybrid { page_shift, window_shift, dynamic_from_shift }
            }
        }
    }
}

/// What a window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// All memory is mapped in it once.
    Direct,
    /// Entries are written per mapping.
    Dynamic,
    /// Memory is mapped once, and above it entries are written per mapping.
    Hybrid {
        /// Where those begin, counted from the window's base, as a shift.
        dynamic_from_shift: u32,
    },
}

/// Up to 5.10 the test takes maximum memory as it is, while the request rounds it up to a power of two.
fn plan_unrounded(request: &Request, block: &Block, steps: &mut Vec<String>) -> Result<Plan, DefaultReason> {
    let max = request.memory_max_bytes;
    let needed = max.checked_shr(block.page_shift).unwrap_or(0);
    let fits = block.tces >= needed;
    steps.push(format!("maximum memory {} {}", size::binary(max.into()), verdict(fits)));
    if !fits {
        return Err(DefaultReason::BlockTooSmall);
    }
    Ok(Plan { page_shift: block.page_shift, window_shift: size::log2_ceil(max.into()), usage: Usage::Direct })
}

/// RHEL 8 and 6.1: the test, too, is made with the rounded size; 6.1 makes use of a smaller window.
fn plan_rounded(
    request: &Request,
    block: &Block,
    default_removed: bool,
    steps: &mut Vec<String>,
) -> Result<Plan, DefaultReason> {
    let memory_shift = size::log2_ceil(request.memory_max_bytes.into());
    let reaches_pmem = request.persistent_memory && block.holds(PHYSICAL_BITS_MAX);
    let window_shift = if reaches_pmem { PHYSICAL_BITS_MAX } else { memory_shift };
    let fits = block.holds(window_shift);
    steps.push(rounded_memory(request, memory_shift, fits));
    if !fits && request.era == Era::Rhel8 {
        return Err(DefaultReason::BlockTooSmall);
    }
    if !fits {
        return Ok(Plan {
            page_shift: block.page_shift,
            window_shift: block.shift_ceil(),
            usage: Usage::Dynamic,
        });
    }
    let usage = whole_use(request, default_removed, reaches_pmem, steps);
    Ok(Plan { page_shift: block.page_shift, window_shift, usage })
}

/// 6.12 and later: the block is rounded up, the device's mask bounds it, and what remains is compared.
fn plan_masked(
    request: &Request,
    block: &Block,
    default_removed: bool,
    steps: &mut Vec<String>,
) -> Result<Plan, DefaultReason> {
    let memory_shift = size::log2_ceil(request.memory_max_bytes.into());
    let reach = block.shift_ceil().min(request.mask_bits);
    if request.mask_bits < block.shift_ceil() {
        steps.push(format!("the device's mask bounds the window to {}", size::power_of_two(reach)));
    }
    let reaches_pmem = request.persistent_memory && reach >= PHYSICAL_BITS_MAX;
    let window_shift = if reaches_pmem { PHYSICAL_BITS_MAX } else { memory_shift };
    let fits = reach >= window_shift;
    steps.push(rounded_memory(request, memory_shift, fits));
    if !fits {
        return Ok(Plan { page_shift: block.page_shift, window_shift: reach, usage: Usage::Dynamic });
    }
    let usage = whole_use(request, default_removed, reaches_pmem, steps);
    if matches!(usage, Usage::Direct) {
        return Ok(Plan { page_shift: block.page_shift, window_shift, usage });
    }
    let room = 1u128.checked_shl(reach).unwrap_or(u128::MAX);
    let memory = 1u128.checked_shl(memory_shift).unwrap_or(u128::MAX);
    let usage = if room >= memory.saturating_add(HYBRID_DYNAMIC_BYTES_MIN) {
        Usage::Hybrid { dynamic_from_shift: memory_shift }
    } else {
        Usage::Dynamic
    };
    Ok(Plan { page_shift: block.page_shift, window_shift: reach, usage })
}

/// How a window that holds all memory is used: dynamically if it is the only one left and persistent memory
/// does not fit in it.
fn whole_use(request: &Request, default_removed: bool, reaches_pmem: bool, steps: &mut Vec<String>) -> Usage {
    if request.persistent_memory && !reaches_pmem {
        steps.push(format!(
            "persistent memory may lie anywhere below {}, which does not fit; it is mapped as needed",
            size::power_of_two(PHYSICAL_BITS_MAX)
        ));
        if default_removed {
            return Usage::Dynamic;
        }
    }
    Usage::Direct
}

fn rounded_memory(request: &Request, memory_shift: u32, fits: bool) -> String {
    let max = size::binary(request.memory_max_bytes.into());
    let rounded = size::power_of_two(memory_shift);
    if max == rounded {
        return format!("maximum memory {max} {}", verdict(fits));
    }
    format!("maximum memory {max}, rounded up to {rounded}, {}", verdict(fits))
}

fn verdict(fits: bool) -> &'static str {
    if fits { "fits" } else { "does not fit" }
}

/// The firmware's part: it refuses a window larger than the block.
fn create(block: &Block, plan: Plan, steps: &mut Vec<String>) -> Result<Outcome, DefaultReason> {
    let Plan { page_shift, window_shift, .. } = plan;
    let size = size::power_of_two(window_shift);
    if !block.holds(window_shift) {
        steps.push(format!(
            "the kernel asks for the next power of two, {size} = {:#x} TCEs; ibm,create-pe-dma-window \
             returns -3",
            block.tces_for(window_shift)
        ));
        return Err(DefaultReason::CreateRefused);
    }
    steps.push(format!("window of {size} created with pages of {}", size::power_of_two(page_shift)));
    Ok(plan.outcome())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;
    const TIB: u64 = 1 << 40;

    fn request(era: Era, memory_max_bytes: u64) -> Request {
        Request { era, mask_bits: 64, memory_max_bytes, disable_ddw: false, persistent_memory: false }
    }

    fn query(block_tces: u64, mask: u32) -> Query {
        Query {
            windows_available: 1,
            block_tces,
            page_sizes: PageSizes(mask),
            reset: true,
            limited_addressing: false,
        }
    }

    fn check(request: Request, query: Query, outcome: Outcome) {
        let prediction = predict(&request, Some(&query));
        assert_eq!(prediction.outcome, outcome, "{request:?} {query:?} {:#?}", prediction.steps);
    }

    fn direct(page_shift: u32, window_shift: u32) -> Outcome {
        Outcome::Direct { page_shift, window_shift }
    }

    fn dynamic(page_shift: u32, window_shift: u32) -> Outcome {
        Outcome::Dynamic { page_shift, window_shift }
    }

    fn default(reason: DefaultReason) -> Outcome {
        Outcome::Default { reason }
    }

    const OLD: [Era; 4] = [Era::Rhel6, Era::Linux36, Era::Rhel7To419, Era::Linux510];
    const NEW: [Era; 3] = [Era::Rhel8, Era::Linux61, Era::Linux612];

    #[test]
    fn qemu_guest_as_seen() {
        // Debian 6.1 on QEMU: `lb=2000000000 ps=107 wn=1`, then a window `18 1f` for 2 GiB.
        let seen = query(0x20_0000_0000, 0x107);
        for era in NEW.into_iter().chain(OLD) {
            check(request(era, 2 * GIB), seen, direct(24, 31));
        }
    }

    #[test]
    fn power10_partitions_as_seen() {
        // `lb=1000000 ps=103 wn=1` and `15 25`: 2 MiB pages, 128 GiB.
        check(request(Era::Linux61, 128 * GIB), query(0x100_0000, 0x103), direct(21, 37));
        // The same block for a kernel that passes 2 MiB over holds 1 TiB.
        check(request(Era::Linux510, TIB), query(0x100_0000, 0x103), direct(16, 40));
        check(
            request(Era::Linux510, 2 * TIB),
            query(0x100_0000, 0x103),
            default(DefaultReason::BlockTooSmall),
        );
    }

    #[test]
    fn too_small_a_block() {
        let small = query(0x100_0000, 0x3);
        for era in OLD.into_iter().chain([Era::Rhel8]) {
            check(request(era, 2 * TIB), small, default(DefaultReason::BlockTooSmall));
        }
        for era in [Era::Linux61, Era::Linux612] {
            check(request(era, 2 * TIB), small, dynamic(16, 40));
        }
    }

    #[test]
    fn arithmetic_is_spelled_out() {
        let prediction = predict(&request(Era::Rhel7To419, 2 * TIB), Some(&query(0x100_0000, 0x3)));
        assert_eq!(
            prediction.steps,
            ["largest block 0x1000000 TCEs x 64 KiB = 1 TiB", "maximum memory 2 TiB does not fit"]
        );
    }

    #[test]
    fn rounding_after_the_test_is_refused() {
        // A block of exactly 96 GiB passes the old test for 96 GiB; then 128 GiB are requested.
        let block = query((96 * GIB) >> 16, 0x3);
        for era in OLD {
            check(request(era, 96 * GIB), block, default(DefaultReason::CreateRefused));
        }
        let steps = predict(&request(Era::Rhel6, 96 * GIB), Some(&block)).steps;
        assert_eq!(
            steps,
            [
                "largest block 0x180000 TCEs x 64 KiB = 96 GiB",
                "maximum memory 96 GiB fits",
                "the kernel asks for the next power of two, 128 GiB = 0x200000 TCEs; \
                 ibm,create-pe-dma-window returns -3",
            ]
        );
        // RHEL 8 rounds before the test and knows better; 6.1 and 6.12 round the block up and don't.
        check(request(Era::Rhel8, 96 * GIB), block, default(DefaultReason::BlockTooSmall));
        check(request(Era::Linux61, 96 * GIB), block, default(DefaultReason::CreateRefused));
        check(request(Era::Linux612, 96 * GIB), block, default(DefaultReason::CreateRefused));
    }

    #[test]
    fn masks() {
        let seen = query(0x20_0000_0000, 0x107);
        let narrow = |era, mask_bits| Request { mask_bits, ..request(era, 2 * GIB) };
        check(narrow(Era::Linux61, 48), seen, default(DefaultReason::MaskTooNarrow));
        check(narrow(Era::Linux612, 32), seen, default(DefaultReason::MaskTooNarrow));
        check(narrow(Era::Linux612, 48), seen, default(DefaultReason::NoLimitedAddressing));
        let limited = Query { limited_addressing: true, ..seen };
        check(narrow(Era::Linux612, 48), limited, direct(24, 31));
        let large = Request { mask_bits: 40, ..request(Era::Linux612, 4 * TIB) };
        check(large, limited, dynamic(24, 40));
    }

    #[test]
    fn reasons_before_the_query() {
        let seen = query(0x20_0000_0000, 0x107);
        check(request(Era::NoDdw, GIB), seen, default(DefaultReason::KernelTooOld));
        let disabled = Request { disable_ddw: true, ..request(Era::Linux61, GIB) };
        check(disabled, seen, default(DefaultReason::Disabled));
        let prediction = predict(&request(Era::Linux61, GIB), None);
        assert_eq!(prediction.outcome, default(DefaultReason::NotOffered));
        check(request(Era::Linux510, GIB), query(1 << 30, 0x100), default(DefaultReason::NoPageSize));
    }

    #[test]
    fn the_last_window() {
        let none = Query { windows_available: 0, ..query(0x20_0000_0000, 0x107) };
        check(request(Era::Rhel7To419, GIB), none, default(DefaultReason::NoWindowLeft));
        check(request(Era::Linux510, GIB), none, direct(24, 30));
        check(request(Era::Linux61, GIB), none, direct(24, 30));
        let fixed = Query { reset: false, ..none };
        check(request(Era::Linux61, GIB), fixed, default(DefaultReason::NoWindowLeft));
    }

    #[test]
    fn persistent_memory() {
        let with = |era| Request { persistent_memory: true, ..request(era, 64 * GIB) };
        let small = query(0x100_0000, 0x3);
        check(with(Era::Linux61), small, direct(16, 36));
        check(with(Era::Linux61), query(1 << 35, 0x3), direct(16, 51));
        let last = Query { windows_available: 0, ..small };
        check(with(Era::Linux61), last, dynamic(16, 36));
        let hybrid = Outcome::Hybrid { page_shift: 16, window_shift: 40, dynamic_from_shift: 36 };
        check(with(Era::Linux612), last, hybrid);
        let tight = Query { block_tces: 0x10_0000, ..last };
        check(with(Era::Linux612), tight, dynamic(16, 36));
    }

    #[test]
    fn machine_readable() {
        let json = |outcome: Outcome| toml::to_string(&outcome).unwrap();
        assert_eq!(json(direct(24, 31)), "window = \"direct\"\npage-shift = 24\nwindow-shift = 31\n");
        let refused = json(default(DefaultReason::CreateRefused));
        assert_eq!(refused, "window = \"default\"\nreason = \"create-refused\"\n");
    }

    fn any_era() -> impl Strategy<Value = Era> {
        prop::sample::select(OLD.into_iter().chain(NEW).chain([Era::NoDdw]).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn no_numbers_panic(
            era in any_era(), mask_bits: u32, memory: u64, pmem: bool, windows: u32, block: u64, pages: u32,
            limited: bool,
        ) {
            let request = Request {
                era, mask_bits, memory_max_bytes: memory, disable_ddw: false, persistent_memory: pmem,
            };
            let query = Query {
                windows_available: windows, block_tces: block, page_sizes: PageSizes(pages), reset: true,
                limited_addressing: limited,
            };
            let prediction = predict(&request, Some(&query));
            match plan(&request, Some(&query)) {
                Ok(plan) => {
                    let granted = plan.outcome();
                    let refused = default(DefaultReason::CreateRefused);
                    prop_assert!([granted, refused].contains(&prediction.outcome), "{:?}", prediction.outcome);
                }
                Err(reason) => prop_assert_eq!(prediction.outcome, default(reason)),
            }
            let not_asked = attempt(&request).err().map(default);
            prop_assert!(not_asked.is_none_or(|outcome| outcome == prediction.outcome));
            // A direct window never exceeds the block, and it covers memory, if that is as much as a
            // machine can have.
            if let Outcome::Direct { page_shift, window_shift } = prediction.outcome {
                let possible = memory <= 1 << PHYSICAL_BITS_MAX;
                prop_assert!(!possible || 1u128 << window_shift >= u128::from(memory));
                let tces = 1u128 << window_shift.saturating_sub(page_shift);
                prop_assert!(tces <= u128::from(block));
            }
        }
    }
}
