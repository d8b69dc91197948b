//! This host today beside after the fixes: what an I/O of an adapter takes of a CPU by either DMA path.

use super::finding::Id;
use super::mapping_counts::MappingCounts;
use crate::Bdf;
use toll::{DmaPath, Event};

/// What an I/O of an adapter takes of a CPU today and, by the DMA path that the remedies lead to, after them.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// The adapter.
    pub address: Bdf,
    /// The finding whose fix leads there.
    pub finding: Id,
    /// The I/O, in a few words.
    pub io: &'static str,
    /// Which of these I/Os, where not all change.
    pub only: Option<&'static str>,
    /// By the DMA path of today.
    pub today: PathCost,
    /// By the DMA path after the fixes.
    pub after: PathCost,
    /// Half of the interval that chance between boots leaves for the difference; 0 with a single boot.
    pub half_width_ns: f64,
    /// Of one CPU's time, at [`crate::diagnose::LOAD_PER_SECOND`] of these I/Os: what is saved, or negative.
    pub cpu_saved: f64,
    /// The machine that the prices are of.
    pub platform: String,
    /// Events that differ and have no price: what they take is in neither time.
    pub unpriced: Vec<Event>,
}

/// A DMA path and what it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathCost {
    /// The DMA path.
    pub dma_path: DmaPath,
    /// What an I/O takes of a CPU.
    pub ns: f64,
    /// What mapping takes of that, as it was counted.
    pub mapping: MappingCounts,
}
