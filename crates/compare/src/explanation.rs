//! What the counts say of the reason: not which setting changed, but what the kernel does now that it did not do before.

use serde::Serialize;

/// At least this many invalidations per unmap: each unmap invalidates (strict mode), even if some are of lists.
const EACH_UNMAP_MIN: f64 = 0.5;
/// At most this many invalidations per unmap: they are batched (lazy mode).
const BATCHED_MAX: f64 = 0.1;

/// What the kernel does otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Unmaps no longer invalidate the IOTLB one by one, but in batches.
    InvalidationsBatched,
    /// Each unmap invalidates the IOTLB, which was done in batches before.
    InvalidationsEach,
    /// Data is no longer copied through bounce buffers.
    BouncingEnded,
    /// Data is copied through bounce buffers, which it was not before.
    BouncingBegan,
    /// No entry of an I/O page table is written any more.
    TranslationEnded,
    /// Entries of an I/O page table are written, which they were not before.
    TranslationBegan,
}

/// What the counts say, with the figures that say it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// What the kernel does otherwise.
    pub cause: Cause,
    /// The figure before: invalidations per unmap, bounced bytes per map, or table writes per map.
    pub before: f64,
    /// The same figure after.
    pub after: f64,
}

/// Counts that explain costs; `None` for what was not counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counts {
    pub(crate) maps: Option<f64>,
    pub(crate) unmaps: Option<f64>,
    pub(crate) table_writes: Option<f64>,
    pub(crate) invalidations: Option<f64>,
    pub(crate) bounced_bytes: Option<f64>,
}

impl Counts {
    /// Whether anything was counted.
    pub(crate) fn is_known(&self) -> bool {
        [self.maps, self.unmaps, self.table_writes, self.invalidations, self.bounced_bytes]
            .iter()
            .any(Option::is_some)
    }

    /// What several documents counted in all; `None` of none.
    fn sum(all: &[Self]) -> Option<Self> {
        let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        all.iter().copied().reduce(|one, other| Self {
            maps: sum(one.maps, other.maps),
            unmaps: sum(one.unmaps, other.unmaps),
            table_writes: sum(one.table_writes, other.table_writes),
            invalidations: sum(one.invalidations, other.invalidations),
            bounced_bytes: sum(one.bounced_bytes, other.bounced_bytes),
        })
    }

    /// Invalidations per unmap.
    fn invalidations_each(&self) -> Option<f64> {
        each(self.invalidations, self.unmaps)
    }

    fn table_writes_each(&self) -> Option<f64> {
        each(self.table_writes, self.maps)
    }

    fn bounced_each(&self) -> Option<f64> {
        each(self.bounced_bytes, self.maps)
    }
}

/// The quotient, if both were counted and something is divided by.
fn each(amount: Option<f64>, by: Option<f64>) -> Option<f64> {
    let by = by.filter(|by| *by > 0.0)?;
    Some(amount? / by)
}

/// What the counts of several documents of each side say, in all: only what each document of one side says beside each of the other. Where
/// documents of a side are on different DMA paths, their sum is on neither.
pub(crate) fn explain_all(before: &[Counts], after: &[Counts]) -> Vec<Explanation> {
    let (Some(of_before), Some(of_after)) = (Counts::sum(before), Counts::sum(after)) else {
        return Vec::new();
    };
    let says =
        |cause, before: &Counts, after: &Counts| explain(before, after).iter().any(|one| one.cause == cause);
    let all_say = |cause| before.iter().all(|before| after.iter().all(|after| says(cause, before, after)));
    explain(&of_before, &of_after).into_iter().filter(|one| all_say(one.cause)).collect()
}

/// What the counts say.
fn explain(before: &Counts, after: &Counts) -> Vec<Explanation> {
    let pair = |figure: fn(&Counts) -> Option<f64>| figure(before).zip(figure(after));
    let explained =
        |cause: Option<Cause>, (before, after)| Some(Explanation { cause: cause?, before, after });
    let turned = |ended, began, least: f64| {
        move |(before, after): (f64, f64)| match (before, after) {
            (before, 0.0) if before > least => Some(ended),
            (0.0, after) if after > least => Some(began),
            _ => None,
        }
    };
    let translation = turned(Cause::TranslationEnded, Cause::TranslationBegan, EACH_UNMAP_MIN);
    let bouncing = turned(Cause::BouncingEnded, Cause::BouncingBegan, 0.0);
    let tables = pair(Counts::table_writes_each).and_then(|pair| explained(translation(pair), pair));
    // Without translation nothing is invalidated either, which needs no second sentence.
    let invalidations = pair(Counts::invalidations_each)
        .filter(|_| tables.is_none())
        .and_then(|pair| explained(batching(pair), pair));
    let bounced = pair(Counts::bounced_each).and_then(|pair| explained(bouncing(pair), pair));
    [tables, invalidations, bounced].into_iter().flatten().collect()
}

/// Whether invalidations went from each unmap to batches, or the other way.
fn batching((before, after): (f64, f64)) -> Option<Cause> {
    if before >= EACH_UNMAP_MIN && after <= BATCHED_MAX {
        Some(Cause::InvalidationsBatched)
    } else if before <= BATCHED_MAX && after >= EACH_UNMAP_MIN {
        Some(Cause::InvalidationsEach)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Counts = Counts {
        maps: Some(1000.0),
        unmaps: Some(1000.0),
        table_writes: Some(1000.0),
        invalidations: Some(1000.0),
        bounced_bytes: Some(0.0),
    };
    const LAZY: Counts = Counts { invalidations: Some(10.0), ..STRICT };
    const UNTRANSLATED: Counts = Counts { invalidations: Some(0.0), table_writes: Some(0.0), ..STRICT };
    const BOUNCED: Counts = Counts { bounced_bytes: Some(4_096_000.0), ..UNTRANSLATED };

    fn causes(before: Counts, after: Counts) -> Vec<Cause> {
        explain(&before, &after).iter().map(|one| one.cause).collect()
    }

    #[test]
    fn each_change_of_a_dma_path_is_told_once() {
        assert_eq!(causes(STRICT, LAZY), [Cause::InvalidationsBatched]);
        assert_eq!(causes(LAZY, STRICT), [Cause::InvalidationsEach]);
        assert_eq!(causes(STRICT, UNTRANSLATED), [Cause::TranslationEnded]);
        assert_eq!(causes(UNTRANSLATED, LAZY), [Cause::TranslationBegan]);
        assert_eq!(causes(BOUNCED, UNTRANSLATED), [Cause::BouncingEnded]);
        assert_eq!(causes(BOUNCED, STRICT), [Cause::TranslationBegan, Cause::BouncingEnded]);
        assert_eq!(causes(UNTRANSLATED, BOUNCED), [Cause::BouncingBegan]);
        assert_eq!(explain(&STRICT, &LAZY)[0].after, 0.01);
    }

    #[test]
    fn several_documents_must_agree() {
        let causes = |before: &[Counts], after: &[Counts]| -> Vec<Cause> {
            explain_all(before, after).iter().map(|one| one.cause).collect()
        };
        assert_eq!(causes(&[STRICT, STRICT], &[LAZY, LAZY, LAZY]), [Cause::InvalidationsBatched]);
        assert_eq!(causes(&[STRICT, LAZY], &[LAZY, LAZY]), []);
        assert_eq!(
            causes(&[LAZY, LAZY], &[STRICT, STRICT, LAZY]),
            [],
            "two in three, more than half of the unmaps"
        );
        assert_eq!(explain_all(&[STRICT, STRICT], &[LAZY; 4])[0].after, 0.01);
        assert_eq!(causes(&[], &[LAZY]), []);
    }

    #[test]
    fn nothing_is_told_of_what_did_not_change_or_was_not_counted() {
        assert_eq!(causes(STRICT, STRICT), []);
        assert_eq!(causes(STRICT, Counts { invalidations: None, ..STRICT }), []);
        assert_eq!(causes(STRICT, Counts { unmaps: Some(0.0), invalidations: Some(0.0), ..STRICT }), []);
        assert_eq!(causes(STRICT, Counts { invalidations: Some(300.0), ..STRICT }), []);
    }
}
