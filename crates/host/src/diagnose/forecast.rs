//! What transfers with an area of `memmap=` are expected to do. Rules don't know: whoever asks for an inspection has it from a
//! model, and gives it along.

use crate::memory::PhysRange;
use toll::Evidence;

/// What transfers between a driver and a card are expected to do with an area that `memmap=` sets aside and `ioremap` maps.
#[derive(Debug, Clone, PartialEq)]
pub struct AreaForecast {
    /// The area.
    pub area: PhysRange,
    /// All of it in words.
    pub what: String,
    /// What it was calculated with, in words.
    pub basis: String,
    /// Payload in a second that the CPU stores and the card reads.
    pub to_card_bytes_per_second: f64,
    /// The same with memory of the DMA API.
    pub dma_api_bytes_per_second: f64,
    /// Of the words that are sent and come back, those that are wrong, with a card whose accesses snoop the CPU's cache.
    pub miscompare_share_snooped: f64,
    /// The same with one whose accesses do not.
    pub miscompare_share_unsnooped: f64,
    /// What each value of the model rests on.
    pub rests_on: Vec<Rest>,
}

/// A value that a forecast rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    /// Its name, the unit last.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Where that comes from.
    pub evidence: Evidence,
}
