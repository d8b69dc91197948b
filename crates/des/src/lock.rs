//! A fair lock, with the transfer of its cache line between CPUs.

use crate::{Answer, Misuse, Resource, Span, Time, Usage};

/// A CPU, as far as lock transfers are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// Its number.
    pub number: u32,
    /// Its NUMA node.
    pub node: u32,
}

/// Transfer times of the lock's cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferCost {
    /// The line is on this CPU already.
    pub same_cpu: Span,
    /// From another CPU of the same node.
    pub same_node: Span,
    /// From another node.
    pub other_node: Span,
}

/// Counts of transfers, by distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Transfers {
    /// No transfer, or the first acquisition.
    pub same_cpu: u64,
    /// From another CPU of the same node.
    pub same_node: u64,
    /// From another node.
    pub other_node: u64,
    /// Total transfer time.
    pub total: Span,
}

/// A fair (ticket) lock: CPUs get it in the order in which they requested it. A critical section begins after the
/// transfer of the cache line; the model adds that time. Slowdown by spinning waiters is not included.
#[derive(Debug, Clone)]
pub struct Lock<W> {
    line: Resource<(Cpu, W)>,
    cost: TransferCost,
    last: Option<Cpu>,
    transfers: Transfers,
}

/// A lock granted to a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant<W> {
    /// The waiter.
    pub who: W,
    /// Transfer time of the cache line.
    pub transfer: Span,
}

impl<W> Lock<W> {
    /// A free lock.
    ///
    /// # Errors
    /// Never: it has the errors of a [`Resource`], but one server and one level are not too few.
    pub fn new(cost: TransferCost) -> Result<Self, Misuse> {
        Ok(Self { line: Resource::fifo(1)?, cost, last: None, transfers: Transfers::default() })
    }

    /// Requests the lock. If it is free, returns the transfer time; otherwise `None`, and `who` waits.
    ///
    /// # Errors
    /// [`Misuse::TimeWentBack`]
    pub fn acquire(&mut self, now: Time, cpu: Cpu, who: W) -> Result<Option<Span>, Misuse> {
        let answer = self.line.request(now, (cpu, who))?;
        Ok((answer == Answer::Goes).then(|| self.transfer(cpu)))
    }

    /// Releases the lock, and grants it to the next waiter.
    ///
    /// # Errors
    /// [`Misuse::NobodyServed`] if it is free, [`Misuse::TimeWentBack`]
    pub fn release(&mut self, now: Time) -> Result<Option<Grant<W>>, Misuse> {
        let next = self.line.release(now)?;
        Ok(next.map(|(cpu, who)| Grant { who, transfer: self.transfer(cpu) }))
    }

    /// Moves the lock to a CPU: counts the transfer and returns its time.
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

    /// Number of waiters.
    pub fn waiting(&self) -> u64 {
        self.line.waiting()
    }

    /// Use so far. Transfers count as time held.
    ///
    /// # Errors
    /// [`Misuse::TimeWentBack`]
    pub fn usage(&self, now: Time) -> Result<Usage, Misuse> {
        self.line.usage(now)
    }

    /// Transfers so far.
    pub fn transfers(&self) -> Transfers {
        self.transfers
    }
}
