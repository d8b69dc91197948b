//! The flash array.

use crate::serial_server::SerialServer;
use des::{Span, Stream, Time};

/// The array's sector size.
pub const SECTOR_BYTES: u64 = 4096;

/// Parameters of a flash array.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Modules, over which sectors are spread at random.
    pub modules: u32,
    /// Performance of reads.
    pub read: Service,
    /// Performance of writes.
    pub write: Service,
}

/// Performance of reads or of writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Latency from port to port with nothing else in flight.
    pub latency: Span,
    /// Sectors per second of all modules. Together with the latency this implies how many are processed at once.
    pub per_second: f64,
}

/// The modules' state.
#[derive(Debug)]
pub(super) struct Modules {
    setup: Array,
    modules: Vec<SerialServer>,
    stream: Stream,
}

/// Entity number of the modules' random stream.
const ENTITY: u64 = 1 << 40;

impl Modules {
    pub(super) fn new(setup: &Array, seed: u64) -> Self {
        let modules = vec![SerialServer::default(); setup.modules as usize];
        Self { setup: setup.clone(), modules, stream: Stream::new(seed, ENTITY) }
    }

    /// Reads or writes consecutive sectors, beginning at a random module. Returns when that is done.
    pub(super) fn serve(&mut self, now: Time, bytes: u64, is_write: bool) -> Time {
        let Service { latency, per_second } = if is_write { self.setup.write } else { self.setup.read };
        let each = f64::from(self.setup.modules) * 1e12 / per_second;
        let sectors = bytes.div_ceil(SECTOR_BYTES) as f64;
        let module = self.stream.below(self.setup.modules.into()) as usize;
        let taken = self.modules[module].occupy(now, Span::from_ps_f64(each * sectors));
        // A module processes many requests at once: its throughput slot is part of the first sector's latency.
        taken + Span::from_ps(latency.as_ps().saturating_sub(Span::from_ps_f64(each).as_ps()))
    }

    /// Average busy time of the modules up to now.
    pub(super) fn busy(&self, now: Time) -> Span {
        let busy: f64 = self.modules.iter().map(|module| module.busy(now).as_ps_f64()).sum();
        Span::from_ps_f64(busy / self.modules.len() as f64)
    }
}
