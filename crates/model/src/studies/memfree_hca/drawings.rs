//! Lines without published figures, and the map of where memory of its own is worth something to an adapter.

use super::testbed::{Slot, Testbed, measured};
use super::{CONNECTIONS, SMALL_BYTES, StudyError, latency_us, latency_with};
use crate::infiniband::icm::{Chunks, Profile, doorbell_bytes};
use crate::infiniband::nas::{Kernel, PROCESSES};
use crate::infiniband::{
    self, Adapter, Bus, CacheShape, Host, Load, MemoryKind, Pattern, Replacement, Setup, Wire,
};
use crate::link::Link;
use crate::{Bounds, Line};
use des::Span;
use serde::Deserialize;

/// What is drawn.
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

    pub(super) fn lines(self, testbed: &Testbed, bounds: &[Bounds]) -> Result<Vec<Line>, StudyError> {
        let mut lines = match self {
            Self::Access => access(testbed)?,
            Self::AccessRatio => access_ratio(testbed)?,
            Self::PingPong => ping_pong(testbed)?,
            Self::Scatter => vec![scatter(testbed)?],
            Self::Growth => vec![growth(testbed)?],
            Self::Shapes => shapes(testbed)?,
            Self::ContextBytes => context_bytes(testbed)?,
            Self::Nas => {
                Kernel::ALL.into_iter().map(|kernel| nas(testbed, kernel)).collect::<Result<_, _>>()?
            }
            Self::Memory => vec![memory(testbed.profile()?)],
            Self::MapSmall => map(testbed, testbed.given.get("today_message_bytes")? as u64)?,
            Self::MapLarge => map(testbed, LARGE_BYTES)?,
            Self::Connections => connections(testbed)?,
        };
        for (line, bounds) in lines.iter_mut().zip(bounds) {
            line.bounds = Some(*bounds);
        }
        Ok(lines)
    }
}

fn line(name: String, points: Vec<(f64, f64)>) -> Line {
    Line { name, bounds: None, points }
}

const SLOTS: [(Slot, &str); 2] = [(Slot::Pcie, "PCI Express"), (Slot::PciX, "PCI-X")];
const PLACES: [MemoryKind; 2] = [MemoryKind::Host, MemoryKind::Adapter];

fn access(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |(slot, bus): (Slot, &str), place: MemoryKind| {
        let whose = if place == MemoryKind::Host { "host" } else { "adapter" };
        let point = |bytes: &u64| Ok((*bytes as f64, testbed.access_us(slot, place, *bytes)?));
        let points = ACCESS_BYTES.iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(line(format!("{whose}, {bus}"), points))
    };
    SLOTS.into_iter().flat_map(|slot| PLACES.map(|place| of(slot, place))).collect()
}

/// From host to host memory over from adapter to adapter memory, of a small message.
fn access_ratio(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |(slot, bus): (Slot, &str)| {
        let ratio = testbed.access_us(slot, MemoryKind::Host, SMALL_BYTES)?
            / testbed.access_us(slot, MemoryKind::Adapter, SMALL_BYTES)?;
        Ok(line(bus.to_owned(), vec![(SMALL_BYTES as f64, ratio)]))
    };
    SLOTS.into_iter().map(of).collect()
}

fn ping_pong(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |(slot, bus): (Slot, &str), place: MemoryKind| {
        let point = |turns: &u32| Ok((f64::from(*turns), latency_us(testbed, slot, place, *turns)?));
        let points = TURNS.iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(line(format!("{}, {bus}", name(place)), points))
    };
    SLOTS.into_iter().flat_map(|slot| PLACES.map(|place| of(slot, place))).collect()
}

fn name(place: MemoryKind) -> &'static str {
    match place {
        MemoryKind::Host => "without memory",
        MemoryKind::Adapter => "with memory",
    }
}

fn scatter(testbed: &Testbed) -> Result<Line, StudyError> {
    let point = |bytes: &u64| {
        let load = testbed.load(Pattern::Scatter, *bytes, CONNECTIONS);
        let took = |place| Ok(testbed.run(Slot::Pcie, place, &load)?.latency_mean.as_ps_f64());
        let ratio: Result<f64, StudyError> =
            took(MemoryKind::Host).and_then(|host| Ok(host / took(MemoryKind::Adapter)?));
        ratio.map(|ratio| (*bytes as f64, ratio))
    };
    let points = SCATTER_BYTES.iter().map(point).collect::<Result<_, _>>()?;
    Ok(line("without over with memory".to_owned(), points))
}

fn growth(testbed: &Testbed) -> Result<Line, StudyError> {
    let point = (f64::from(CONNECTIONS), growth_with(testbed, |_| {})?);
    Ok(line("without over with memory".to_owned(), vec![point]))
}

/// What a message takes more on many connections in turn than on one, without memory over with memory, of another adapter.
fn growth_with(testbed: &Testbed, change: impl Fn(&mut Adapter)) -> Result<f64, StudyError> {
    let of = |place| -> Result<f64, StudyError> {
        let took = |connections| latency_with(testbed, Slot::Pcie, place, connections, &change);
        Ok(took(CONNECTIONS)? - took(1)?)
    };
    Ok(of(MemoryKind::Host)? / of(MemoryKind::Adapter)?)
}

const WAYS: [u32; 5] = [2, 4, 8, 16, 32];
const SHAPES: [(u64, Replacement); 4] =
    [(32, Replacement::Lru), (64, Replacement::Lru), (128, Replacement::Lru), (64, Replacement::Random)];

/// The same growth with caches that are made otherwise, as large as the given one.
fn shapes(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |(line_bytes, replacement): (u64, Replacement)| {
        let point = |ways: &u32| {
            let shaped = |adapter: &mut Adapter| {
                adapter.cache = CacheShape { line_bytes, ways: *ways, replacement, ..adapter.cache };
            };
            Ok((f64::from(*ways), growth_with(testbed, shaped)?))
        };
        let points = WAYS.iter().map(point).collect::<Result<_, StudyError>>()?;
        let random = if replacement == Replacement::Random { ", random" } else { "" };
        Ok(line(format!("lines of {line_bytes}{random}"), points))
    };
    SHAPES.into_iter().map(of).collect()
}

/// By how long the context of a queue pair is.
fn context_bytes(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let of = |qp_bytes: u64, place: MemoryKind| {
        let longer = |adapter: &mut Adapter| adapter.profile.qp_bytes = qp_bytes;
        let point =
            |turns: &u32| Ok((f64::from(*turns), latency_with(testbed, Slot::Pcie, place, *turns, &longer)?));
        let points = TURNS.iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(line(format!("{}, {qp_bytes} bytes", name(place)), points))
    };
    [256, 512].into_iter().flat_map(|qp_bytes| PLACES.map(|place| of(qp_bytes, place))).collect()
}

fn nas(testbed: &Testbed, kernel: Kernel) -> Result<Line, StudyError> {
    let points = vec![(f64::from(PROCESSES), testbed.slowdown(kernel)?)];
    Ok(line(kernel.name().to_owned(), points))
}

/// Bytes of host memory by connections, one after the other.
fn grown(profile: Profile) -> impl Iterator<Item = (u64, u64)> {
    let mut chunks = Chunks::new(profile);
    (1..=profile.qps).map(move |connections| {
        chunks.connect(connections - 1);
        (connections, chunks.bytes())
    })
}

fn memory(profile: Profile) -> Line {
    let wanted = grown(profile).filter(|(connections, _)| GROWN.contains(connections));
    let mib = |(connections, bytes): (u64, u64)| {
        (connections as f64, (bytes + doorbell_bytes(connections)) as f64 / f64::from(1 << 20))
    };
    line("host memory".to_owned(), wanted.map(mib).collect())
}

/// The smallest step by which tables grow.
pub(super) fn step_bytes(profile: Profile) -> u64 {
    let all: Vec<u64> = grown(profile).map(|(_, bytes)| bytes).collect();
    all.windows(2).map(|two| two[1] - two[0]).filter(|step| *step > 0).min().unwrap_or_default()
}

/// A generation with the lanes of its adapters.
struct Slotted {
    generation: u8,
    lanes: u32,
}

const GENERATIONS: [Slotted; 4] = [
    Slotted { generation: 1, lanes: 8 },
    Slotted { generation: 3, lanes: 8 },
    Slotted { generation: 3, lanes: 16 },
    Slotted { generation: 5, lanes: 16 },
];
/// Of what the contexts of all connections take, so much is in the cache.
const SHARES: [f64; 6] = [0.25, 0.5, 0.75, 0.9, 1.0, 1.25];
const MAP_CONNECTIONS: u32 = 1024;
const COST_MAX: f64 = 0.01;
/// Where the map ends, and how finely it was looked.
const NEAREST_NS: f64 = 50.0;
/// Stands for: not even at the nearest.
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
/// Contexts of a connection at the side that sends: its own, and its queue's region and translations.
const CONTEXT_BYTES: u64 = 256 + 64 + 64;

fn link(slot: &Slotted) -> Option<Link> {
    Some(Link {
        generation: slot.generation.try_into().ok()?,
        lanes: slot.lanes,
        payload_bytes_max: 256,
        read_request_bytes_max: 512,
        completion_boundary_bytes: 64,
        overhead_share: 0.055,
    })
}

/// A cache of about so many bytes: its ways make up for its sets, of which there is a power of two.
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

fn today(
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
        // A message has a CPU of its own.
        host: Host { bus: Bus::Pcie(link), read: host_read, post: Span::ZERO, poll: Span::ZERO },
        adapter: Adapter {
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

fn messages_per_second(
    testbed: &Testbed,
    setup: &Setup,
    bytes: u64,
    connections: u32,
) -> Result<f64, StudyError> {
    let window = testbed.given.get("today_window")? as u32;
    let load = testbed.load(Pattern::Random { window }, bytes, connections);
    let load = Load { messages: TODAY_MESSAGES, ..load };
    measured(infiniband::run(setup, &load)).map(|measured| measured.messages_per_second)
}

/// For each share the farthest host memory that costs no more than it may.
fn map(testbed: &Testbed, bytes: u64) -> Result<Vec<Line>, StudyError> {
    let of = |slot: &Slotted| {
        let point = |share: f64| Ok((share, farthest_ns(testbed, slot, bytes, share)?));
        let points = SHARES.into_iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(line(format!("PCIe {}.0 x{}", slot.generation, slot.lanes), points))
    };
    GENERATIONS.iter().map(of).collect()
}

fn farthest_ns(testbed: &Testbed, slot: &Slotted, bytes: u64, share: f64) -> Result<f64, StudyError> {
    let Some(link) = link(slot) else { return Ok(NOWHERE_NS) };
    let cache_bytes = (share * (CONTEXT_BYTES * u64::from(MAP_CONNECTIONS)) as f64) as u64;
    let is_cheap = |ns: f64| -> Result<bool, StudyError> {
        let rate = |contexts| {
            let setup = today(testbed, link, cache_bytes, Span::from_ps_f64(ns * 1e3), contexts)?;
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

fn connections(testbed: &Testbed) -> Result<Vec<Line>, StudyError> {
    let Some(link) = link(&Slotted { generation: 5, lanes: 16 }) else { return Ok(Vec::new()) };
    let bytes = testbed.given.get("today_message_bytes")? as u64;
    let of = |kib: u64, contexts: MemoryKind| {
        let setup = today(testbed, link, kib << 10, testbed.given.ns("today_host_read_ns")?, contexts)?;
        let point = |connections: &u32| {
            let rate = messages_per_second(testbed, &setup, bytes, *connections)?;
            Ok((f64::from(*connections), rate / 1e6))
        };
        let points = MANY.iter().map(point).collect::<Result<_, StudyError>>()?;
        Ok(line(format!("{kib} KiB, {}", name(contexts)), points))
    };
    CACHES_KIB.into_iter().flat_map(|kib| PLACES.map(|place| of(kib, place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_about_as_large_as_asked() {
        for bytes in [1 << 10, 100_000, 393_216, 491_520, 1 << 23] {
            let shape = cache(bytes);
            assert!(shape.bytes <= bytes && shape.bytes as f64 > 0.9 * bytes as f64, "{bytes} {shape:?}");
        }
    }
}
