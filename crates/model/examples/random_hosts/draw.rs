//! Random choices of a machine's parameters.

use des::{Span, Stream};
use model::host::{Cpus, DmaPath, InvalidationMode, LineTransfer, Locking, MappingCost};
use model::{Generation, Link};

/// A stream of random choices.
pub(crate) struct Draw(Stream);

impl Draw {
    pub(crate) fn new(host: u64) -> Self {
        Self(Stream::new(host, 0))
    }

    pub(crate) fn one_of<Value: Copy>(&mut self, values: &[Value]) -> Value {
        values[self.0.below(values.len() as u64) as usize]
    }

    pub(crate) fn is(&mut self) -> bool {
        self.one_of(&[false, true])
    }

    pub(crate) fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    /// A whole number from `low` to `high`, whose logarithm is uniform: small and large ones alike.
    pub(crate) fn number(&mut self, low: u64, high: u64) -> u64 {
        let exponent = self.within((low as f64).log2(), (high as f64).log2());
        (exponent.exp2().round() as u64).clamp(low, high)
    }

    pub(crate) fn ns(&mut self, low: u64, high: u64) -> Span {
        Span::from_ns(self.number(low, high))
    }

    pub(crate) fn cpus(&mut self) -> Cpus {
        let cores = self.number(1, 16) as u32;
        let capacity = [1.0, 1.4, 1.6, 1.8];
        let (same_node, other_node) = (self.ns(20, 130), self.ns(50, 260));
        Cpus {
            cores,
            cores_per_node: self.one_of(&[cores, cores.div_ceil(2)]),
            core_capacity: capacity[..self.one_of(&[1, 2, 4])].to_vec(),
            instruction_ns: self.within(0.2, 0.6),
            wake: self.ns(100, 2_000),
            line: LineTransfer { same_node, other_node },
        }
    }

    pub(crate) fn dma_path(&mut self) -> DmaPath {
        let window = |locking| DmaPath::Window { bytes: 1 << 30, locking };
        let translated = |mode| DmaPath::Translated { mode };
        self.one_of(&[
            DmaPath::Direct,
            window(Locking::Table),
            window(Locking::Bitmap),
            window(Locking::Pools),
            translated(InvalidationMode::Strict),
            translated(InvalidationMode::Lazy),
        ])
    }

    pub(crate) fn mapping(&mut self) -> MappingCost {
        MappingCost {
            direct_instructions: self.within(50.0, 150.0),
            window_instructions: self.within(100.0, 300.0),
            locked_instructions: self.within(100.0, 400.0),
            translated_instructions: self.within(200.0, 600.0),
            submit_instructions: self.within(100.0, 400.0),
            invalidation: self.ns(100, 5_000),
            hypercall: self.ns(200, 1_000),
            entry: self.ns(5, 50),
            lock_lines: self.within(1.0, 5.0),
        }
    }

    pub(crate) fn link(&mut self) -> Link {
        Link {
            generation: self.one_of(&[Generation::Gen2, Generation::Gen3, Generation::Gen4]),
            lanes: self.one_of(&[4, 8, 16]),
            payload_bytes_max: 256,
            read_request_bytes_max: 512,
            completion_boundary_bytes: 64,
            overhead_share: 0.055,
        }
    }
}
