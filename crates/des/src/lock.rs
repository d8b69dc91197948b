//! A lock that several CPUs take in turn.

use crate::{Answer, Misuse, Resource, Span, Time, Usage};

/// Where somebody runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// Its number in the machine.
    pub number: u32,
    /// The memory node that it belongs to.
    pub node: u32,
}

/// How long it takes until the lock's cache line is where its next owner runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferCost {
    /// It is there already.
    pub same_cpu: Span,
    /// From another CPU of the node.
    pub same_node: Span,
    /// From another node.
    pub other_node: Span,
}

/// How often the lock's cache line came from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfers {
    /// It stayed, or was nowhere yet.
    pub same_cpu: u64,
    /// From another CPU of the node.
    pub same_node: u64,
    /// From another node.
    pub other_node: u64,
    /// How long all of that took.
    pub total: Span,
}

/// A fair lock: those who want it get it in the order in which they asked, as with a ticket. An owner's critical section
/// begins when the cache line has come, and the model adds that time. What the waiting themselves do to the line is not part
/// of it.
#[derive(Debug, Clone)]
pub struct Lock<W> {
    line: Resource<(Cpu, W)>,
    cost: TransferCost,
    last: Option<Cpu>,
    transfers: Transfers,
}

/// Somebody has the lock now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant<W> {
    /// Who waited for it longest.
    pub who: W,
    /// How long its cache line is on the way.
    pub transfer: Span,
}

impl<W> Lock<W> {
    /// Nobody has it nor ever had.
    pub fn new(cost: TransferCost) -> Result<Self, Misuse> {
        Ok(Self { line: Resource::fifo(1)?, cost, last: None, transfers: Transfers::default() })
    }

    /// Somebody on this CPU wants it: has it at once, after the transfer told here, or waits.
    pub fn acquire(&mut self, now: Time, cpu: Cpu, who: W) -> Result<Option<Span>, Misuse> {
        let answer = self.line.request(now, (cpu, who))?;
        Ok((answer == Answer::Goes).then(|| self.transfer(cpu)))
    }

    /// Its owner gives it back, which hands it on.
    pub fn release(&mut self, now: Time) -> Result<Option<Grant<W>>, Misuse> {
        let next = self.line.release(now)?;
        Ok(next.map(|(cpu, who)| Grant { who, transfer: self.transfer(cpu) }))
    }

    fn transfer(&mut self, to: Cpu) -> Span {
        let from = self.last.replace(to).unwrap_or(to);
        let (count, cost) = match from {
            from if from == to => (&mut self.transfers.same_cpu, self.cost.same_cpu),
            from if from.node == to.node => (&mut self.transfers.same_node, self.cost.same_node),
            _ => (&mut self.transfers.other_node, self.cost.other_node),
        };
        *count += 1;
        self.transfers.total += cost;
        cost
    }

    /// How many wait for it.
    pub fn waiting(&self) -> u64 {
        self.line.waiting()
    }

    /// How it was used up to now. Transfers are time in which it is held.
    pub fn usage(&self, now: Time) -> Result<Usage, Misuse> {
        self.line.usage(now)
    }

    /// How its cache line moved.
    pub fn transfers(&self) -> Transfers {
        self.transfers
    }
}
