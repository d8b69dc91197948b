//! Messages of the log that tell of something wrong, alike ones together.

use crate::kernel::message::{IommuMessage, Logged, Message, SwiotlbMessage};
use crate::{Bdf, Citation};
use std::collections::{BTreeMap, BTreeSet};

/// Line numbers kept of each problem: a rule that judges it cites one of its first lines.
const LINES_MAX: usize = 256;
/// Problems kept. Each is of one kind and one device.
const PROBLEMS_MAX: usize = 4096;

/// Messages that tell of the same thing about the same device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogProblem {
    /// What is wrong, in a few words.
    pub what: &'static str,
    /// The function that they are about.
    pub address: Option<Bdf>,
    /// How many there are, with those that the kernel says it left out.
    pub messages: u64,
    /// The first of them.
    pub at: Citation,
    /// Their lines, the first ones.
    lines: BTreeSet<u32>,
}

impl LogProblem {
    /// Whether one of its lines is cited.
    pub fn is_cited_by<'c>(&self, citations: impl IntoIterator<Item = &'c Citation>) -> bool {
        let is_its_line = |at: &Citation| at.line.is_some_and(|line| self.lines.contains(&line));
        citations.into_iter().any(|at| at.file == self.at.file && is_its_line(at))
    }
}

/// Problems while a log is read.
#[derive(Debug, Default)]
pub(super) struct LogProblems {
    problems: BTreeMap<(&'static str, Option<Bdf>), LogProblem>,
}

impl LogProblems {
    /// Adds a message if it tells of something wrong.
    pub(super) fn add(&mut self, logged: &Logged) {
        let Some(what) = logged.message.problem() else { return };
        let messages = match &logged.message {
            Message::Iommu(IommuMessage::FaultsSuppressed(count)) => *count,
            _ => 1,
        };
        let address = logged.bdf().or(match &logged.message {
            Message::Fault(fault) => fault.device,
            Message::Swiotlb(SwiotlbMessage::Full { device, .. }) => *device,
            _ => None,
        });
        if self.problems.len() >= PROBLEMS_MAX && !self.problems.contains_key(&(what, address)) {
            return;
        }
        let problem = self.problems.entry((what, address)).or_insert_with(|| LogProblem {
            what,
            address,
            messages: 0,
            at: logged.at.clone(),
            lines: BTreeSet::new(),
        });
        problem.messages = problem.messages.saturating_add(messages);
        if problem.lines.len() < LINES_MAX {
            problem.lines.extend(logged.at.line);
        }
    }

    /// All of them, by kind and device.
    pub(super) fn into_list(self) -> Vec<LogProblem> {
        self.problems.into_values().collect()
    }
}
