//! An array of flash modules.

use crate::serial::Serial;
use des::{Span, Stream, Time};

/// What an array keeps data in.
pub const SECTOR_BYTES: u64 = 4096;

/// An array of flash modules behind its ports.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Modules, over which sectors are spread.
    pub modules: u32,
    /// What reads take.
    pub read: Service,
    /// What writes take.
    pub write: Service,
}

/// How an array serves one kind of request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// From port to port, where nothing else is in flight.
    pub latency: Span,
    /// Sectors in a second of all modules. With the latency it says how many are served at once.
    pub per_second: f64,
}

/// Modules at work.
#[derive(Debug)]
pub(super) struct Modules {
    setup: Array,
    modules: Vec<Serial>,
    stream: Stream,
}

/// The numbers that modules are drawn by.
const ENTITY: u64 = 1 << 40;

impl Modules {
    pub(super) fn new(setup: &Array, seed: u64) -> Self {
        let modules = vec![Serial::default(); setup.modules as usize];
        Self { setup: setup.clone(), modules, stream: Stream::new(seed, ENTITY) }
    }

    /// When some sectors of any module are read or written.
    pub(super) fn serve(&mut self, now: Time, bytes: u64, is_write: bool) -> Time {
        let Service { latency, per_second } = if is_write { self.setup.write } else { self.setup.read };
        let each = f64::from(self.setup.modules) * 1e12 / per_second;
        let sectors = bytes.div_ceil(SECTOR_BYTES) as f64;
        let module = self.stream.below(self.setup.modules.into()) as usize;
        let taken = self.modules[module].take(now, Span::from_ps_f64(each * sectors));
        // A module works on many at once: the first sector's turn is a part of its latency.
        taken + Span::from_ps(latency.as_ps().saturating_sub(Span::from_ps_f64(each).as_ps()))
    }

    /// How long modules were busy up to now, on average.
    pub(super) fn busy(&self, now: Time) -> Span {
        let busy: f64 = self.modules.iter().map(|module| module.busy(now).as_ps_f64()).sum();
        Span::from_ps_f64(busy / self.modules.len() as f64)
    }
}
