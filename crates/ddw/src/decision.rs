//! Predicts the kernel's decision when a driver requests 64-bit DMA: `enable_ddw` (arch/powerpc/platforms/pseries/iommu.c), by [`Era`].
//! The prediction lists its steps with their numbers.
//!
//! All eras compare with the *maximum* memory of the partition's profile. Raising it can cost a partition its direct window, even if no
//! memory is added. No era has a fixed limit such as 2 TiB: the limit is the number of entries of the largest block times the page size.

use crate::{Era, PageSizes, size};
use serde::Serialize;

/// Address bits that a window must span to reach persistent memory anywhere (`MAX_PHYSMEM_BITS`).
const PHYSICAL_BITS_MAX: u32 = 51;
/// Minimum size of the dynamic part of a hybrid window, above the premapped memory.
const HYBRID_DYNAMIC_BYTES_MIN: u128 = 2 << 30;

/// A request for 64-bit DMA: the kernel, the driver's mask, and the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Request {
    /// The kernel's generation.
    pub era: Era,
    /// Bits of the driver's DMA mask.
    pub mask_bits: u32,
    /// The partition's maximum memory, as the kernel determines it.
    pub memory_max_bytes: u64,
    /// `disable_ddw` is on the kernel's command line.
    pub disable_ddw: bool,
    /// There is an `ibm,pmemory` node.
    pub persistent_memory: bool,
}

/// The firmware's answer to `ibm,query-pe-dma-windows`, and its `ibm,ddw-extensions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Query {
    /// Windows that can still be created.
    pub windows_available: u32,
    /// Number of entries (TCEs) of the largest block.
    pub block_tces: u64,
    /// Page sizes on offer.
    pub page_sizes: PageSizes,
    /// A removed default window can be restored (`ibm,reset-pe-dma-windows`).
    pub reset: bool,
    /// Windows below 2^64 are possible, for devices with a narrower mask.
    pub limited_addressing: bool,
}

/// The window that the adapter's mappings will use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "window")]
pub enum Outcome {
    /// A 64-bit window with all memory mapped once.
    #[serde(rename_all = "kebab-case")]
    Direct {
        /// Page shift.
        page_shift: u32,
        /// Log2 of the window's size in bytes.
        window_shift: u32,
    },
    /// A direct window with a dynamic part above all memory, in which persistent memory is mapped as needed.
    #[serde(rename_all = "kebab-case")]
    Hybrid {
        /// Page shift.
        page_shift: u32,
        /// Log2 of the window's size in bytes.
        window_shift: u32,
        /// Log2 of the dynamic part's offset from the window's base.
        dynamic_from_shift: u32,
    },
    /// A 64-bit window whose entries are written per mapping.
    #[serde(rename_all = "kebab-case")]
    Dynamic {
        /// Page shift.
        page_shift: u32,
        /// Log2 of the window's size in bytes.
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
#[non_exhaustive]
pub enum DefaultReason {
    /// The kernel is older than 64-bit windows.
    KernelTooOld,
    /// `disable_ddw` is on the command line.
    Disabled,
    /// The driver's DMA mask has too few bits.
    MaskTooNarrow,
    /// The mask is below 64 bits, and the firmware does not support that.
    NoLimitedAddressing,
    /// No `ibm,ddw-applicable`: slot, firmware or profile offers no window.
    NotOffered,
    /// No window is left, and the default window can't be replaced.
    NoWindowLeft,
    /// This kernel knows none of the page sizes offered.
    NoPageSize,
    /// The largest block does not cover the partition's maximum memory.
    BlockTooSmall,
    /// The block covers maximum memory, but not the next power of two, which the kernel requests. The firmware answers -3 (parameter).
    CreateRefused,
}

/// A predicted decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Prediction {
    /// The decision.
    pub outcome: Outcome,
    /// The steps of the decision, each with its numbers.
    pub steps: Vec<String>,
}

/// Predicts the window of an adapter, assuming that the firmware creates every window that fits its answer. `query` is `None` if the
/// bridge has no `ibm,ddw-applicable`.
pub fn predict(request: &Request, query: Option<&Query>) -> Prediction {
    let mut steps = Vec::new();
    let outcome = plan_with_steps(request, query, &mut steps)
        .and_then(|(block, plan)| predict_creation(&block, plan, &mut steps))
        .unwrap_or_else(|reason| Outcome::Default { reason });
    Prediction { outcome, steps }
}

/// Checks that the kernel queries the firmware at all.
///
/// # Errors
/// Why it does not.
pub fn check_request(request: &Request) -> Result<(), DefaultReason> {
    check_request_with_steps(request, &mut Vec::new())
}

/// The window that the kernel requests from the firmware, and its use. If the kernel replaces the default window, `query` is the answer
/// after its removal, but with `windows_available` from before, which is 0.
///
/// # Errors
/// Why it requests none.
pub fn planned_window(request: &Request, query: Option<&Query>) -> Result<Plan, DefaultReason> {
    plan_with_steps(request, query, &mut Vec::new()).map(|(_, plan)| plan)
}

/// The kernel's decision: the largest block, and the window that it requests. Appends its steps.
fn plan_with_steps(
    request: &Request,
    query: Option<&Query>,
    steps: &mut Vec<String>,
) -> Result<(Block, Plan), DefaultReason> {
    check_request_with_steps(request, steps)?;
    let query = query.ok_or_else(|| {
        steps.push("no ibm,ddw-applicable above the adapter: firmware offers no 64-bit window".to_owned());
        DefaultReason::NotOffered
    })?;
    check_mask(request, query, steps)?;
    let default_removed = check_available(request, query, steps)?;
    let page_shift = query.page_sizes.chosen_shift(request.era).ok_or_else(|| {
        steps.push(format!("no page size of mask {} is known to this kernel", query.page_sizes));
        DefaultReason::NoPageSize
    })?;
    let block = Block::new(query.block_tces, page_shift);
    steps.push(block.to_string());
    let plan = match request.era {
        Era::NoDdw | Era::Rhel6 | Era::Linux36 | Era::Rhel7To419 | Era::Linux510 => {
            plan_before_61(request, &block, steps)
        }
        Era::Rhel8 | Era::Linux61 => plan_61(request, &block, default_removed, steps),
        Era::Linux612 => plan_612(request, &block, default_removed, steps),
    }?;
    Ok((block, plan))
}

/// Checks that the kernel and the driver's mask allow a 64-bit window. Appends a step if they do not.
fn check_request_with_steps(request: &Request, steps: &mut Vec<String>) -> Result<(), DefaultReason> {
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
        steps.push(format!("the driver's DMA mask has {bits} bits; a 64-bit window needs {rule}"));
        return Err(DefaultReason::MaskTooNarrow);
    }
    Ok(())
}

/// Checks that the firmware supports the driver's mask. Appends a step if it does not.
fn check_mask(request: &Request, query: &Query, steps: &mut Vec<String>) -> Result<(), DefaultReason> {
    if request.mask_bits < 64 && !query.limited_addressing {
        steps.push(format!(
            "a mask of {} bits needs limited addressing, which ibm,ddw-extensions does not list",
            request.mask_bits
        ));
        return Err(DefaultReason::NoLimitedAddressing);
    }
    Ok(())
}

/// Checks that a window is available. Returns whether the kernel removes the default window for it.
fn check_available(request: &Request, query: &Query, steps: &mut Vec<String>) -> Result<bool, DefaultReason> {
    if query.windows_available > 0 {
        return Ok(false);
    }
    if request.era.replaces_default_window() && query.reset {
        steps.push(
            "no window left: the kernel removes the default window, unless it has mappings, and queries \
             again; the largest block may then be larger than assumed here"
                .to_owned(),
        );
        return Ok(true);
    }
    steps.push("no window left, and the default window is not replaced".to_owned());
    Err(DefaultReason::NoWindowLeft)
}

/// The largest contiguous block of TCEs that the firmware offers.
struct Block {
    tces: u64,
    page_shift: u32,
}

impl Block {
    /// A block of `tces` entries for pages of `page_shift`.
    fn new(tces: u64, page_shift: u32) -> Self {
        Self { tces, page_shift }
    }

    /// The memory that the block can map, in bytes.
    fn bytes(&self) -> u128 {
        u128::from(self.tces) << self.page_shift
    }

    /// Log2 of the size, rounded up as the kernel does. The result may exceed the block.
    fn shift_ceil(&self) -> u32 {
        size::log2_ceil(self.bytes())
    }

    /// Number of entries of a window of this size; one if the window is smaller than a page, for which the kernel's shift is undefined in C.
    fn tces_for(&self, window_shift: u32) -> u128 {
        1u128.checked_shl(window_shift.saturating_sub(self.page_shift)).unwrap_or(u128::MAX)
    }

    /// Whether the block has enough entries for a window of this size.
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
    /// Page shift.
    pub page_shift: u32,
    /// Log2 of its size in bytes.
    pub window_shift: u32,
    /// Its use.
    pub usage: Usage,
}

impl Plan {
    /// The outcome if the firmware creates this window.
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

/// The use of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// All memory is mapped in it once.
    Direct,
    /// Entries are written per mapping.
    Dynamic,
    /// All memory is mapped once; above it, entries are written per mapping.
    Hybrid {
        /// Log2 of the dynamic part's offset from the window's base.
        dynamic_from_shift: u32,
    },
}

/// The window up to Linux 5.10. The kernel compares maximum memory with the block before it rounds it up to a power of two.
fn plan_before_61(request: &Request, block: &Block, steps: &mut Vec<String>) -> Result<Plan, DefaultReason> {
    let max = request.memory_max_bytes;
    let needed = max.checked_shr(block.page_shift).unwrap_or(0);
    let fits = block.tces >= needed;
    steps.push(format!("maximum memory {} {}", size::binary(max.into()), fits_word(fits)));
    if !fits {
        return Err(DefaultReason::BlockTooSmall);
    }
    Ok(Plan { page_shift: block.page_shift, window_shift: size::log2_ceil(max.into()), usage: Usage::Direct })
}

/// The window of RHEL 8 and Linux 6.1. The kernel compares the rounded size with the block. If it does not fit, 6.1 uses a smaller window
/// dynamically.
fn plan_61(
    request: &Request,
    block: &Block,
    default_removed: bool,
    steps: &mut Vec<String>,
) -> Result<Plan, DefaultReason> {
    let memory_shift = size::log2_ceil(request.memory_max_bytes.into());
    let reaches_pmem = request.persistent_memory && block.holds(PHYSICAL_BITS_MAX);
    let window_shift = if reaches_pmem { PHYSICAL_BITS_MAX } else { memory_shift };
    let fits = block.holds(window_shift);
    steps.push(memory_step(request, memory_shift, fits));
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
    let usage = usage_if_memory_fits(request, default_removed, reaches_pmem, steps);
    Ok(Plan { page_shift: block.page_shift, window_shift, usage })
}

/// The window from Linux 6.12 on. The kernel rounds the block up, limits it by the device's mask, and compares the rounded memory with it.
fn plan_612(
    request: &Request,
    block: &Block,
    default_removed: bool,
    steps: &mut Vec<String>,
) -> Result<Plan, DefaultReason> {
    let memory_shift = size::log2_ceil(request.memory_max_bytes.into());
    let reach = block.shift_ceil().min(request.mask_bits);
    if request.mask_bits < block.shift_ceil() {
        steps.push(format!("the device's mask limits the window to {}", size::power_of_two(reach)));
    }
    let reaches_pmem = request.persistent_memory && reach >= PHYSICAL_BITS_MAX;
    let window_shift = if reaches_pmem { PHYSICAL_BITS_MAX } else { memory_shift };
    let fits = reach >= window_shift;
    steps.push(memory_step(request, memory_shift, fits));
    if !fits {
        return Ok(Plan { page_shift: block.page_shift, window_shift: reach, usage: Usage::Dynamic });
    }
    let usage = usage_if_memory_fits(request, default_removed, reaches_pmem, steps);
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

/// The use of a window that holds all memory: dynamic if it is the adapter's only window and persistent memory does not fit, else direct.
fn usage_if_memory_fits(
    request: &Request,
    default_removed: bool,
    reaches_pmem: bool,
    steps: &mut Vec<String>,
) -> Usage {
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

/// The step that compares maximum memory with the block, in words.
fn memory_step(request: &Request, memory_shift: u32, fits: bool) -> String {
    let max = size::binary(request.memory_max_bytes.into());
    let rounded = size::power_of_two(memory_shift);
    if max == rounded {
        return format!("maximum memory {max} {}", fits_word(fits));
    }
    format!("maximum memory {max}, rounded up to {rounded}, {}", fits_word(fits))
}

/// `fits` or `does not fit`, for a step.
fn fits_word(fits: bool) -> &'static str {
    if fits { "fits" } else { "does not fit" }
}

/// The firmware's answer to the request: it refuses a window larger than the block.
fn predict_creation(block: &Block, plan: Plan, steps: &mut Vec<String>) -> Result<Outcome, DefaultReason> {
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
            match planned_window(&request, Some(&query)) {
                Ok(plan) => {
                    let granted = plan.outcome();
                    let refused = default(DefaultReason::CreateRefused);
                    prop_assert!([granted, refused].contains(&prediction.outcome), "{:?}", prediction.outcome);
                }
                Err(reason) => prop_assert_eq!(prediction.outcome, default(reason)),
            }
            let not_asked = check_request(&request).err().map(default);
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
