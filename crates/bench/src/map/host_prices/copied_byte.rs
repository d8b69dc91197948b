//! The time that the CPU takes for a byte that it copies out of memory into memory, as for a bounce buffer.
//!
//! Linux takes the slots of its bounce buffers in turn (swiotlb's `area->index`), so a slot has left the caches before it is used
//! again, and a device has written to it meanwhile. Blocks are copied here in random order, out of an area that is larger than the caches
//! and into another.

use super::{MeasuredPrice, rounded};
use crate::Summary;
use crate::bytes::Bytes;
use crate::memtype::instruction;
use crate::threads::thread_cpu_ns;
use std::fs;
use std::hint::black_box;

/// Sizes of the blocks: those of most mappings.
const BLOCKS: [Bytes; 3] = [Bytes(4 << 10), Bytes(16 << 10), Bytes(64 << 10)];
/// What the caches are taken for where sysfs does not tell.
const CACHE_BYTES_UNKNOWN: u64 = 64 << 20;
/// An area has at least and at most so many bytes.
const AREA_BYTES_MIN: u64 = 16 << 20;
const AREA_BYTES_MAX: u64 = 512 << 20;
/// Of the memory that is available, both areas take at most one part of so many.
const MEMORY_PARTS: u64 = 4;

/// Measures the price, or says why this host has none.
pub(super) fn measure(rounds: usize) -> Result<MeasuredPrice, String> {
    let way = CopyingWay::of_this_cpu()?;
    let cache = cache_bytes();
    let area = area_bytes(cache.unwrap_or(CACHE_BYTES_UNKNOWN), available_bytes())?;
    // Written before, because memory that was never written is one page of zeroes for all.
    let (from, mut to) = (filled(area, 1)?, filled(area, 2)?);
    let mut walk = |block: Bytes| walk(way, &from, &mut to, block);
    BLOCKS.iter().for_each(|block| _ = walk(*block));
    let rounds: Vec<[u64; BLOCKS.len()]> = (0..rounds).map(|_| BLOCKS.map(&mut walk)).collect();
    price(way, area, cache, &rounds).ok_or_else(|| "no rounds".to_owned())
}

/// How the kernel copies on this CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CopyingWay {
    /// By a string instruction, a byte a repetition.
    StringInstruction,
    /// By loads and stores, as on CPUs without fast string instructions.
    LoadsAndStores,
}

#[cfg(target_arch = "x86_64")]
impl CopyingWay {
    fn of_this_cpu() -> Result<Self, String> {
        Ok(match instruction::without_fast_strings() {
            None => Self::StringInstruction,
            Some(_) => Self::LoadsAndStores,
        })
    }

    /// Copies a block.
    fn copy(self, from: &[u8], to: &mut [u8]) {
        match self {
            Self::StringInstruction => instruction::copy_string(from, to),
            Self::LoadsAndStores => to.copy_from_slice(from),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl CopyingWay {
    fn of_this_cpu() -> Result<Self, String> {
        Err("this architecture copies by ordinary instructions, which toll sheets count".to_owned())
    }

    fn copy(self, from: &[u8], to: &mut [u8]) {
        to.copy_from_slice(from);
    }
}

impl CopyingWay {
    fn words(self) -> &'static str {
        match self {
            Self::StringInstruction => "rep movsb",
            Self::LoadsAndStores => "loads and stores (this CPU has no fast string instructions)",
        }
    }
}

/// Copies each block of an area once, in random order, and returns the thread's CPU time.
fn walk(way: CopyingWay, from: &[u8], to: &mut [u8], block: Bytes) -> u64 {
    let bytes = block.0 as usize;
    let blocks = from.len().min(to.len()) / bytes;
    let start = thread_cpu_ns();
    let mut place = 0;
    for _ in 0..blocks {
        place = next_block(place, blocks);
        let at = place * bytes..(place + 1) * bytes;
        if let (Some(from), Some(to)) = (from.get(at.clone()), to.get_mut(at)) {
            way.copy(black_box(from), to);
        }
    }
    black_box(&to[0]);
    thread_cpu_ns() - start
}

/// The block after this one, of a number of blocks that is a power of two. It is a random number generator of full period: `blocks`
/// steps lead to each block once.
fn next_block(place: usize, blocks: usize) -> usize {
    place.wrapping_mul(0x9E37_79B5).wrapping_add(0x7F4A_7C15) & (blocks - 1)
}

/// The price by the times of walks, those of a round for each size of blocks. `None` without rounds.
fn price(
    way: CopyingWay,
    area: u64,
    cache: Option<u64>,
    rounds: &[[u64; BLOCKS.len()]],
) -> Option<MeasuredPrice> {
    let each = Summary::of(
        rounds.iter().map(|walks| walks.iter().sum::<u64>() as f64 / (area as f64 * BLOCKS.len() as f64)),
    )?;
    let of_block = |place: usize| {
        let ns = Summary::of(rounds.iter().map(|walks| walks[place] as f64 / area as f64))?;
        Some(format!("{:.3} ns in blocks of {}", ns.median, BLOCKS[place]))
    };
    let blocks: Vec<String> = (0..BLOCKS.len()).filter_map(of_block).collect();
    let caches = cache.map_or("of unknown size".to_owned(), |bytes| format!("of {}", Bytes(bytes)));
    let how = format!(
        "iotoll bench map: a byte copied by {} out of {area} into as much in random order, with caches {caches}: {}; CPU time of the \
         thread; the median of {} rounds, quartiles {:.3} and {:.3} ns",
        way.words(),
        blocks.join(", "),
        rounds.len(),
        each.lower_quartile,
        each.upper_quartile,
        area = Bytes(area),
    );
    Some(MeasuredPrice { ns: rounded(each.median), how })
}

/// Bytes of each of the two areas: a power of two, twice the caches or more.
fn area_bytes(cache: u64, available: Option<u64>) -> Result<u64, String> {
    let area = cache.saturating_mul(2).max(AREA_BYTES_MIN).checked_next_power_of_two().unwrap_or(u64::MAX);
    if area > AREA_BYTES_MAX {
        return Err(format!("the caches have {}, too much to copy past them", Bytes(cache)));
    }
    match available {
        Some(available) if available / MEMORY_PARTS < 2 * area => {
            Err(format!("{} of memory are available, too few to copy past the caches", Bytes(available)))
        }
        _ => Ok(area),
    }
}

/// Memory that was written.
fn filled(bytes: u64, value: u8) -> Result<Vec<u8>, String> {
    let bytes = usize::try_from(bytes).map_err(|_| "no memory to copy".to_owned())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).map_err(|error| error.to_string())?;
    memory.resize(bytes, value);
    Ok(memory)
}

/// Bytes of the largest cache of CPU 0.
fn cache_bytes() -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?.filter_map(Result::ok);
    let sizes = caches.filter_map(|cache| fs::read_to_string(cache.path().join("size")).ok());
    sizes.filter_map(|size| kib_or_mib(&size)).max()
}

/// Bytes by sysfs's words, `32768K`.
fn kib_or_mib(size: &str) -> Option<u64> {
    let size = size.trim();
    let unit = |end, shift: u32| size.strip_suffix(end)?.parse::<u64>().ok()?.checked_mul(1 << shift);
    unit('K', 10).or_else(|| unit('M', 20))
}

/// Memory that is available, by `/proc/meminfo`.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_copies_every_byte() {
        let Ok(way) = CopyingWay::of_this_cpu() else { return };
        for way in [way, CopyingWay::LoadsAndStores] {
            for block in BLOCKS {
                let from: Vec<u8> = (0..1_u32 << 20).map(|place| (place % 251) as u8).collect();
                let mut to = vec![255; from.len()];
                walk(way, &from, &mut to, block);
                assert!(from == to, "{way:?}, {block}");
            }
        }
    }

    #[test]
    fn the_price_is_the_median_of_the_mean_over_sizes() {
        let area = 64 << 20;
        let round = |ns: [u64; 3]| ns.map(|ns| ns * area / 1000);
        let rounds = [round([120, 90, 60]), round([140, 110, 80]), round([900, 900, 900])];
        let measured = price(CopyingWay::StringInstruction, area, Some(32 << 20), &rounds).unwrap();
        assert_eq!(measured.ns, 0.11);
        assert_eq!(
            measured.how,
            "iotoll bench map: a byte copied by rep movsb out of 64 MiB into as much in random order, with caches of 32 MiB: 0.140 ns in \
             blocks of 4 KiB, 0.110 ns in blocks of 16 KiB, 0.080 ns in blocks of 64 KiB; CPU time of the thread; the median of 3 rounds, \
             quartiles 0.100 and 0.505 ns"
        );
        assert_eq!(price(CopyingWay::StringInstruction, area, None, &[]), None);
    }

    #[test]
    fn areas_are_larger_than_the_caches_and_leave_memory_for_others() {
        assert_eq!(area_bytes(32 << 20, None), Ok(64 << 20));
        assert_eq!(area_bytes(33 << 20, Some(4 << 30)), Ok(128 << 20));
        assert_eq!(area_bytes(1 << 20, None), Ok(AREA_BYTES_MIN));
        assert!(area_bytes(300 << 20, None).unwrap_err().contains("the caches have 300 MiB"));
        assert!(area_bytes(u64::MAX, None).is_err());
        assert!(area_bytes(32 << 20, Some(256 << 20)).unwrap_err().contains("256 MiB of memory"));
        assert_eq!(
            [kib_or_mib("32768K\n"), kib_or_mib("2M"), kib_or_mib("x")],
            [Some(32 << 20), Some(2 << 20), None]
        );
    }
}
