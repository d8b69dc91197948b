//! Which of several logs of one host is read. Joined, they would tell everything twice, or mix two boots.

use super::{Part, earlier_boot};
use crate::Text;
use crate::kernel::Log;

/// A log of the host's kernel.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The text that it is of.
    pub(super) text: String,
    /// The text, and what of it holds the log: what is said if another log is read.
    pub(super) shown: String,
    pub(super) part: Part,
}

/// How well a log tells of the boot that everything else is of; the greatest is read. A log of an earlier boot, by its name,
/// comes last. One that reaches from the banner to user space tells by its silence, too.
fn rank(candidate: &Candidate) -> (bool, bool, bool, usize) {
    let text = Text::new(&candidate.text, candidate.part.body.clone());
    let log = Log::parse(&text);
    let is_newest = !earlier_boot::is_named_by(&candidate.text);
    (is_newest, log.covers_boot(), log.complete_from_boot(), log.records().count())
}

/// The log that is read, and the others. Of two that tell as much the first is read.
pub(super) fn choose(mut candidates: Vec<Candidate>) -> (Option<Candidate>, Vec<Candidate>) {
    if candidates.len() < 2 {
        return (candidates.pop(), Vec::new());
    }
    let ranks: Vec<_> = candidates.iter().map(rank).collect();
    let best = (0..ranks.len()).rev().max_by_key(|place| ranks.get(*place));
    let chosen = best.map(|best| candidates.remove(best));
    (chosen, candidates)
}
