//! What was counted and timed of a device's calls.

use crate::programs::{BUCKETS, TALLY_WORDS, tally};
use serde::{Serialize, Serializer};

/// Calls of a function for a device, through the same callers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tally {
    /// How many ended.
    pub calls: u64,
    /// Bytes that they were called for, without those of calls that do not say it ([`Self::bytes_if_known`]).
    pub bytes: u64,
    /// Parts that they were called for: elements of scatter lists, commands to the IOMMU; else 1 for each call.
    pub parts: u64,
    /// Nanoseconds from entry to end, with interrupts in between.
    pub ns: u64,
    /// The same without watched functions that were called.
    pub own_ns: u64,
    /// Calls by duration: entry `n` has those from 2^n to below 2^(n+1) ns, the last all longer ones.
    pub by_ns: Histogram,
    /// Calls by bytes in the same way, without those of 0 bytes.
    pub by_bytes: Histogram,
}

/// Numbers of calls by powers of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram([u64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Histogram {
    /// All calls.
    fn calls(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The value that this share of the calls did not exceed, by the end of its bucket; `None` without calls.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let calls = self.calls();
        let rank = ((calls as f64 * share).ceil() as u64).clamp(1, calls.max(1));
        let mut below = 0;
        let mut buckets = self.0.iter().map(|calls| {
            below += calls;
            below
        });
        let bucket = buckets.position(|below| below >= rank)?;
        Some(2 << bucket)
    }
}

/// The buckets without empty ones at the end.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = self.0.iter().rposition(|calls| *calls > 0).map_or(0, |last| last + 1);
        self.0[..used].serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Histogram {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Histogram".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <Vec<u64>>::json_schema(generator)
    }
}

impl Tally {
    /// The sum of all CPUs' words.
    pub(crate) fn of_cpus(words: &[u64]) -> Self {
        let mut sum = Self::default();
        for cpu in words.chunks_exact(TALLY_WORDS) {
            sum.combine(&Self::of_words(cpu), u64::wrapping_add);
        }
        sum
    }

    fn of_words(words: &[u64]) -> Self {
        let buckets = |at: usize| Histogram(std::array::from_fn(|bucket| words[at + bucket]));
        Self {
            calls: words[tally::CALLS],
            bytes: words[tally::BYTES],
            parts: words[tally::PARTS],
            ns: words[tally::NS],
            own_ns: words[tally::OWN_NS],
            by_ns: buckets(tally::NS_BUCKETS),
            by_bytes: buckets(tally::BYTES_BUCKETS),
        }
    }

    fn combine(&mut self, other: &Self, with: impl Fn(u64, u64) -> u64) {
        let to = |mine: &mut u64, others: u64| *mine = with(*mine, others);
        to(&mut self.calls, other.calls);
        to(&mut self.bytes, other.bytes);
        to(&mut self.parts, other.parts);
        to(&mut self.ns, other.ns);
        to(&mut self.own_ns, other.own_ns);
        self.by_ns.0.iter_mut().zip(other.by_ns.0).for_each(|(mine, others)| to(mine, others));
        self.by_bytes.0.iter_mut().zip(other.by_bytes.0).for_each(|(mine, others)| to(mine, others));
    }

    /// Bytes, if each call said how many.
    pub fn bytes_if_known(&self) -> Option<u64> {
        (self.by_bytes.calls() == self.calls).then_some(self.bytes)
    }

    /// As many times as much, rounded.
    #[must_use]
    pub(crate) fn scaled(&self, times: f64) -> Self {
        let mut scaled = Self::default();
        scaled.combine(self, |_, number| (number as f64 * times).round() as u64);
        scaled
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
    }

    /// What came since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        difference.combine(earlier, u64::saturating_sub);
        difference
    }
}
