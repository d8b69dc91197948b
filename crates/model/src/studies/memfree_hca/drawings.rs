//! Charts without published values, and the map of when an adapter gains from memory of its own.

use super::testbed::{BusKind, Testbed, with_study_error};
use super::{CONNECTIONS, SMALL_BYTES, StudyError, latency_us, latency_with};
use crate::infiniband::icm::{Chunks, Profile, doorbell_bytes};
use crate::infiniband::nas::{Kernel, PROCESSES};
use crate::infiniband::{
    self, Bus, CacheShape, Hca, HcaHost, Load, MemoryKind, Pattern, Replacement, Setup, Wire,
};
use crate::link::Link;
use crate::{Bounds, Line};
use des::Span;
use serde::Deserialize;

/// The charts of this study.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Drawing {
    Access,
    AccessRatio,
    PingPong,
    Scatter,
    Growth,
    Shapes,
    ContextBytes,
    Nas,
    Memory,
    MapSmall,
    MapLarge,
    Connections,
}

const ACCESS_BYTES: [u64; 6] = [4, 64, 256, 1024, 2048, 4096];
const TURNS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const SCATTER_BYTES: [u64; 8] = [1, 64, 512, 1024, 2048, 4096, 8192, 16384];
const GROWN: [u64; 9] = [1, 16, 128, 512, 1024, 2048, 4096, 16_384, 65_536];

impl Drawing {
    /// The titles of the x and the y axis.
    pub(super) fn titles(self) -> [&'static str; 2] {
        match self {
            Self::Access => ["message, bytes", "us"],
            Self::PingPong => ["connections", "us"],
            Self::Scatter => ["message, bytes", "time over time"],
            Self::Growth => ["connections", "growth over growth"],
            Self::Shapes => ["ways", "growth over growth"],
            Self::ContextBytes => ["connections", "us"],
            Self::Nas => ["processes", "time over time"],
            Self::Memory => ["connections", "MiB"],
            Self::AccessRatio => ["message, bytes", "time over time"],
            Self::MapSmall | Self::MapLarge => {
                ["share of contexts in the cache", "ns to host memory and back"]
            }
            Self::Connections => ["connections", "10^6 messages/s"],
        }
    }

    /// Simulates every line of the chart and attaches its published bounds.
    pub(super) fn lines(self, testbed: &Testbed, bounds: &[Bounds]) -> Result<Vec<Line>, StudyError> {
        let mut lines = match self {
            Self::Access => access_times(testbed)?,
            Self::AccessRatio => access_ratio(testbed)?,
            Self::PingPong => ping_pong_latencies(testbed)?,
            Self::Scatter => vec![scatter_ratios(testbed)?],
            Self::Growth => vec![latency_growth(testbed)?],
            Self::Shapes => growth_per_cache_shape(testbed)?,
            Self::ContextBytes => latency_per_context_size(testbed)?,
            Self::Nas => Kernel::ALL
                .into_iter()
                .map(|kernel| nas_slowdown(testbed, kernel))
                .collect::<Result<_, _>>()?,
            Self::Memory => vec![host_memory(testbed.profile()?)],
            Self::MapSmall => farthest_memory_map(testbed, testbed.given.get("today_message_bytes")? as u64)?,
            Self::MapLarge => farthest_memory_map(testbed, LARGE_BYTES)?,
            Self::Connections => rate_per_connection_count(testbed)?,
        };
        for (line, bounds) in lines.iter_mut().zip(bounds) {
            line.bounds = Some(*bounds);
        }
        Ok(lines)
    }
}

/// A line without published bounds.
fn unbounded_line(name: String, points: Vec<(f64, f64)>) -> Line {
    Line { name, bounds: None, points }
}

const SLOTS: [(BusKind, &str); 2] = [(BusKind::Pcie, "PCI Express"), (BusKind::PciX, "PCI-X")];
const PLACES: [MemoryKind; 2] = [MemoryKind::Host, MemoryKind::Adapter];

/// Time of a message within host or adapter memory, per bus and message size.
fn access_times(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |(slot, bus): (BusKind, &str), place: MemoryKind| {
        let whose = if place == MemoryKind::Host { "host" } else { "adapter" };
        let point = |bytes: &u64| Ok((*bytes as f64, testbed.access_us(slot, place, *bytes)?));
        let points = ACCESS_BYTES.iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(unbounded_line(format!("{whose}, {bus}"), points))
    };
    SLOTS.into_iter().flat_map(|slot| PLACES.map(|place| of(slot, place))).collect()
}

/// Time of a small message within host memory, divided by its time within adapter memory.
fn access_ratio(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |(slot, bus): (BusKind, &str)| {
        let ratio = testbed.access_us(slot, MemoryKind::Host, SMALL_BYTES)?
            / testbed.access_us(slot, MemoryKind::Adapter, SMALL_BYTES)?;
        Ok(unbounded_line(bus.to_owned(), vec![(SMALL_BYTES as f64, ratio)]))
    };
    SLOTS.into_iter().map(of).collect()
}

/// Latency of a small message against connections, per bus and place of the contexts.
fn ping_pong_latencies(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |(slot, bus): (BusKind, &str), place: MemoryKind| {
        let point = |turns: &u32| Ok((f64::from(*turns), latency_us(testbed, slot, place, *turns)?));
        let points = TURNS.iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(unbounded_line(format!("{}, {bus}", adapter_name(place)), points))
    };
    SLOTS.into_iter().flat_map(|slot| PLACES.map(|place| of(slot, place))).collect()
}

/// The name of an adapter, by where it keeps its contexts.
fn adapter_name(place: MemoryKind) -> &'static str {
    match place {
        MemoryKind::Host => "without memory",
        MemoryKind::Adapter => "with memory",
    }
}

/// Time of messages scattered over [`CONNECTIONS`] connections: contexts in host memory over adapter memory.
fn scatter_ratios(testbed: &Testbed) -> Result<Line, StudyError> {
    let point = |bytes: &u64| {
        let load = testbed.load(Pattern::Scatter, *bytes, CONNECTIONS);
        let took = |place| Ok(testbed.run(BusKind::Pcie, place, &load)?.latency_mean.as_ps_f64());
        let ratio: Result<f64, StudyError> =
            took(MemoryKind::Host).and_then(|host| Ok(host / took(MemoryKind::Adapter)?));
        ratio.map(|ratio| (*bytes as f64, ratio))
    };
    let points = SCATTER_BYTES.iter().map(point).collect::<Result<_, _>>()?;
    Ok(unbounded_line("without over with memory".to_owned(), points))
}

/// The growth of latency with connections, for the study's adapter.
fn latency_growth(testbed: &Testbed) -> Result<Line, StudyError> {
    let point = (f64::from(CONNECTIONS), latency_growth_with(testbed, |_| {})?);
    Ok(unbounded_line("without over with memory".to_owned(), vec![point]))
}

/// Extra latency of [`CONNECTIONS`] connections over one: the ratio of contexts in host memory to contexts in adapter memory.
/// `change` modifies the adapter first.
fn latency_growth_with(testbed: &Testbed, change: impl Fn(&mut Hca)) -> Result<f64, StudyError> {
    let of = |place| -> Result<f64, StudyError> {
        let took = |connections| latency_with(testbed, BusKind::Pcie, place, connections, &change);
        Ok(took(CONNECTIONS)? - took(1)?)
    };
    Ok(of(MemoryKind::Host)? / of(MemoryKind::Adapter)?)
}

const WAYS: [u32; 5] = [2, 4, 8, 16, 32];
const SHAPES: [(u64, Replacement); 4] =
    [(32, Replacement::Lru), (64, Replacement::Lru), (128, Replacement::Lru), (64, Replacement::Random)];

/// The same growth for caches of equal size with other ways, line sizes and replacement.
fn growth_per_cache_shape(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |(line_bytes, replacement): (u64, Replacement)| {
        let point = |ways: &u32| {
            let shaped = |adapter: &mut Hca| {
                adapter.cache = CacheShape { line_bytes, ways: *ways, replacement, ..adapter.cache };
            };
            Ok((f64::from(*ways), latency_growth_with(testbed, shaped)?))
        };
        let points = WAYS.iter().map(point).collect::<Result<_, StudyError>>()?;
        let random = if replacement == Replacement::Random { ", random" } else { "" };
        Ok(unbounded_line(format!("lines of {line_bytes}{random}"), points))
    };
    SHAPES.into_iter().map(of).collect()
}

/// Latency against connections, for two sizes of a queue pair context.
fn latency_per_context_size(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |qp_bytes: u64, place: MemoryKind| {
        let longer = |adapter: &mut Hca| adapter.profile.qp_bytes = qp_bytes;
        let point = |turns: &u32| {
            Ok((f64::from(*turns), latency_with(testbed, BusKind::Pcie, place, *turns, &longer)?))
        };
        let points = TURNS.iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(unbounded_line(format!("{}, {qp_bytes} bytes", adapter_name(place)), points))
    };
    [256, 512].into_iter().flat_map(|qp_bytes| PLACES.map(|place| of(qp_bytes, place))).collect()
}

/// The slowdown of a NAS benchmark with contexts in host memory.
fn nas_slowdown(testbed: &Testbed, kernel: Kernel) -> Result<Line, StudyError> {
    let points = vec![(f64::from(PROCESSES), testbed.slowdown(kernel)?)];
    Ok(unbounded_line(kernel.name().to_owned(), points))
}

/// Opens connections one by one; yields their number and the bytes of host memory in use.
fn host_memory_growth(profile: Profile) -> impl Iterator<Item = (u64, u64)> {
    let mut chunks = Chunks::new(profile);
    (1..=profile.qps).map(move |connections| {
        chunks.connect(connections - 1);
        (connections, chunks.bytes())
    })
}

/// MiB of host memory, with doorbell records, against the number of connections.
fn host_memory(profile: Profile) -> Line {
    let wanted = host_memory_growth(profile).filter(|(connections, _)| GROWN.contains(connections));
    let mib = |(connections, bytes): (u64, u64)| {
        (connections as f64, (bytes + doorbell_bytes(connections)) as f64 / f64::from(1 << 20))
    };
    unbounded_line("host memory".to_owned(), wanted.map(mib).collect())
}

/// The smallest step by which the tables in host memory grow, in bytes.
pub(super) fn step_bytes(profile: Profile) -> u64 {
    let all: Vec<u64> = host_memory_growth(profile).map(|(_, bytes)| bytes).collect();
    all.windows(2).map(|two| two[1] - two[0]).filter(|step| *step > 0).min().unwrap_or_default()
}

/// A PCIe generation and the lanes of an adapter.
struct PcieSlot {
    generation: u8,
    lanes: u32,
}

const GENERATIONS: [PcieSlot; 4] = [
    PcieSlot { generation: 1, lanes: 8 },
    PcieSlot { generation: 3, lanes: 8 },
    PcieSlot { generation: 3, lanes: 16 },
    PcieSlot { generation: 5, lanes: 16 },
];
/// Share of all connections' contexts that the cache holds.
const SHARES: [f64; 6] = [0.25, 0.5, 0.75, 0.9, 1.0, 1.25];
const MAP_CONNECTIONS: u32 = 1024;
const COST_MAX: f64 = 0.01;
/// Bounds of the map's search for a memory latency, and its bisection steps.
const NEAREST_NS: f64 = 50.0;
/// Drawn where even the nearest memory costs too much.
const NOWHERE_NS: f64 = 25.0;
const FARTHEST_NS: f64 = 10_000.0;
const HALVINGS: u32 = 6;
const TODAY_BITS_PER_SECOND: f64 = 200e9;
const TODAY_MTU_BYTES: u64 = 4096;
const TODAY_PACKETS: u32 = 256;
const TODAY_CACHE_WAYS: u32 = 16;
const TODAY_MESSAGES: u64 = 6_000;
/// A message that fills a packet.
const LARGE_BYTES: u64 = 4096;
/// Context bytes of a connection on the sending side: queue pair, memory region and translations.
const CONTEXT_BYTES: u64 = 256 + 64 + 64;

/// The link of an adapter; `None` if the PCIe generation is unknown.
fn link(slot: &PcieSlot) -> Option<Link> {
    Some(Link {
        generation: slot.generation.try_into().ok()?,
        lanes: slot.lanes,
        payload_bytes_max: 256,
        read_request_bytes_max: 512,
        completion_boundary_bytes: 64,
        overhead_share: 0.055,
    })
}

/// A cache of about this size. The number of sets is a power of two, and the ways are chosen to fit.
fn cache(bytes: u64) -> CacheShape {
    let line_bytes = 64;
    let lines = (bytes / line_bytes).max(1);
    let sets = 1 << (lines / u64::from(TODAY_CACHE_WAYS)).max(1).ilog2();
    let ways = (lines / sets).max(1);
    CacheShape {
        bytes: ways * sets * line_bytes,
        line_bytes,
        ways: ways as u32,
        replacement: infiniband::Replacement::Lru,
    }
}

/// Two nodes with adapters and links of the present, which share the study's context tables.
fn current_machine(
    testbed: &Testbed,
    link: Link,
    cache_bytes: u64,
    host_read: Span,
    contexts: MemoryKind,
) -> Result<Setup, StudyError> {
    let engine = testbed.given.ns("today_engine_ns")?;
    let gap = testbed.given.ns("today_engine_gap_ns")?;
    let profile = Profile { qps: 1 << 18, regions: 1 << 19, ..testbed.profile()? };
    Ok(Setup {
        // Each message has its own CPU.
        host: HcaHost { bus: Bus::Pcie(link), read: host_read, post: Span::ZERO, poll: Span::ZERO },
        adapter: Hca {
            send: engine,
            send_gap: gap,
            receive: engine,
            receive_gap: gap,
            works_max: testbed.given.get("today_works_max")? as u32,
            packets_max: TODAY_PACKETS,
            fetches_max: testbed.given.get("today_fetches_max")? as u32,
            cache: cache(cache_bytes),
            profile,
            memory: testbed.given.ns("today_adapter_memory_ns")?,
            memory_bytes_per_second: 100e9,
        },
        contexts,
        wire: Wire {
            bits_per_second: TODAY_BITS_PER_SECOND,
            overhead_share: 0.0,
            mtu_bytes: TODAY_MTU_BYTES,
            latency: Span::from_ns(200),
        },
        seed: 1,
    })
}

/// Messages per second on randomly chosen connections.
fn messages_per_second(
    testbed: &Testbed,
    setup: &Setup,
    bytes: u64,
    connections: u32,
) -> Result<f64, StudyError> {
    let window = testbed.given.get("today_window")? as u32;
    let load = testbed.load(Pattern::Random { window }, bytes, connections);
    let load = Load { messages: TODAY_MESSAGES, ..load };
    with_study_error(infiniband::run(setup, &load)).map(|measured| measured.messages_per_second)
}

/// For each cache share, the slowest host memory that costs at most [`COST_MAX`] of the message rate.
fn farthest_memory_map(testbed: &Testbed, bytes: u64) -> Result<Vec<Line>, StudyError> {
    let of = |slot: &PcieSlot| {
        let point = |share: f64| Ok((share, farthest_ns(testbed, slot, bytes, share)?));
        let points = SHARES.into_iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(unbounded_line(format!("PCIe {}.0 x{}", slot.generation, slot.lanes), points))
    };
    GENERATIONS.iter().map(of).collect()
}

/// The slowest host memory, in ns, with which the message rate drops by at most [`COST_MAX`]; found by bisection.
fn farthest_ns(testbed: &Testbed, slot: &PcieSlot, bytes: u64, share: f64) -> Result<f64, StudyError> {
    let Some(link) = link(slot) else { return Ok(NOWHERE_NS) };
    let cache_bytes = (share * (CONTEXT_BYTES * u64::from(MAP_CONNECTIONS)) as f64) as u64;
    let is_cheap = |ns: f64| -> Result<bool, StudyError> {
        let rate = |contexts| {
            let setup = current_machine(testbed, link, cache_bytes, Span::from_ps_f64(ns * 1e3), contexts)?;
            messages_per_second(testbed, &setup, bytes, MAP_CONNECTIONS)
        };
        Ok(rate(MemoryKind::Host)? >= (1.0 - COST_MAX) * rate(MemoryKind::Adapter)?)
    };
    if !is_cheap(NEAREST_NS)? {
        return Ok(NOWHERE_NS);
    }
    if is_cheap(FARTHEST_NS)? {
        return Ok(FARTHEST_NS);
    }
    let (mut cheap, mut dear) = (NEAREST_NS, FARTHEST_NS);
    for _ in 0..HALVINGS {
        let middle = (cheap * dear).sqrt();
        if is_cheap(middle)? { cheap = middle } else { dear = middle }
    }
    Ok(cheap)
}

const MANY: [u32; 6] = [64, 256, 1024, 4096, 16_384, 100_000];
const CACHES_KIB: [u64; 3] = [128, 1024, 8192];

/// Million messages per second against connections, per cache size and place of the contexts.
fn rate_per_connection_count(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let Some(link) = link(&PcieSlot { generation: 5, lanes: 16 }) else { return Ok(Vec::new()) };
    let bytes = testbed.given.get("today_message_bytes")? as u64;
    let of = |kib: u64, contexts: MemoryKind| {
        let setup =
            current_machine(testbed, link, kib << 10, testbed.given.ns("today_host_read_ns")?, contexts)?;
        let point = |connections: &u32| {
            let rate = messages_per_second(testbed, &setup, bytes, *connections)?;
            Ok((f64::from(*connections), rate / 1e6))
        };
        let points = MANY.iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(unbounded_line(format!("{kib} KiB, {}", adapter_name(contexts)), points))
    };
    CACHES_KIB.into_iter().flat_map(|kib| PLACES.map(|place| of(kib, place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_have_about_the_requested_size() {
        for bytes in [1 << 10, 100_000, 393_216, 491_520, 1 << 23] {
            let shape = cache(bytes);
            assert!(shape.bytes <= bytes && shape.bytes as f64 > 0.9 * bytes as f64, "{bytes} {shape:?}");
        }
    }
}
