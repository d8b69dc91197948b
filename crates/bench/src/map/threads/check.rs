//! Checks that threads can map at once, before they are measured: nobody gets addresses that another has, and the IOMMU finds
//! the memory that a thread mapped.

use super::contestant::Ready;
use crate::threads::{ThreadError, together};
use dma::{BusAddress, Direction, DmaCounters, DmaError, FRAME_BYTES, MemoryAddress};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Threads of the check.
const THREADS: usize = 8;
/// Mappings of each, and how many of them it has at a time.
const MAPPINGS: usize = 128;
const LIVE_MAX: usize = 4;

/// A fault of a contestant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapCheckError {
    /// Two mappings have an address in common.
    #[error("{at} was returned for {bytes:#x} bytes while another thread had mapped {other}")]
    Overlap {
        /// The later one.
        at: BusAddress,
        /// Its size.
        bytes: u64,
        /// The earlier one.
        other: BusAddress,
    },
    /// The table leads elsewhere.
    #[error("{memory} is mapped at {at}, but the table there leads to {}", found.map_or("nothing".to_owned(), |found| found.to_string()))]
    Elsewhere {
        /// The bus address.
        at: BusAddress,
        /// The memory that was mapped.
        memory: MemoryAddress,
        /// The memory that the table leads to.
        found: Option<MemoryAddress>,
    },
    /// The table leads to memory that nobody maps.
    #[error("{at} is unmapped, but the table there still leads to {found}")]
    Left {
        /// The bus address.
        at: BusAddress,
        /// The memory.
        found: MemoryAddress,
    },
    /// A call failed.
    #[error("mapping or unmapping failed")]
    Call(#[from] DmaError),
}

/// Live mappings of all threads: the last address by the first.
#[derive(Default)]
struct Owners(Mutex<BTreeMap<u64, u64>>);

impl Owners {
    /// Records a mapping, which must overlap no other.
    fn add(&self, at: BusAddress, bytes: u64) -> Result<(), MapCheckError> {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = at.0 + (bytes - 1);
        if let Some((other, _)) = owners.range(..=last).next_back().filter(|(_, end)| **end >= at.0) {
            return Err(MapCheckError::Overlap { at, bytes, other: BusAddress(*other) });
        }
        owners.insert(at.0, last);
        Ok(())
    }

    /// Removes a mapping, before it is unmapped.
    fn remove(&self, at: BusAddress) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&at.0);
    }
}

/// Maps and unmaps in several threads at once.
pub(super) fn check(ready: &Ready, bytes: u64) -> Result<Result<(), MapCheckError>, ThreadError> {
    let owners = Owners::default();
    let mut tasks = [(); THREADS];
    let done = together(&mut tasks, &[], |thread, ()| check_thread(ready, &owners, thread, bytes))?;
    Ok(done.results.into_iter().collect())
}

/// A thread's part. Each of its live mappings is of another memory.
fn check_thread(ready: &Ready, owners: &Owners, thread: usize, bytes: u64) -> Result<(), MapCheckError> {
    let mut counters = DmaCounters::default();
    let mut live: Vec<(BusAddress, MemoryAddress)> = Vec::new();
    for number in 0..MAPPINGS {
        if live.len() == LIVE_MAX {
            let (at, memory) = live.remove(number % LIVE_MAX);
            unmap(ready, owners, at, memory, bytes, &mut counters)?;
        }
        let memory = Ready::memory(thread * MAPPINGS + number, bytes);
        let at = ready.mapper.map(memory, bytes, Direction::Bidirectional, &mut counters)?;
        owners.add(at, bytes)?;
        live.push((at, memory));
        check_translation(ready, at, memory, bytes)?;
    }
    live.into_iter().try_for_each(|(at, memory)| unmap(ready, owners, at, memory, bytes, &mut counters))
}

/// Checks that a mapping is still as it was made, and removes it.
fn unmap(
    ready: &Ready,
    owners: &Owners,
    at: BusAddress,
    memory: MemoryAddress,
    bytes: u64,
    counters: &mut DmaCounters,
) -> Result<(), MapCheckError> {
    check_translation(ready, at, memory, bytes)?;
    owners.remove(at);
    Ok(ready.mapper.unmap(at, bytes, Direction::Bidirectional, counters)?)
}

/// Checks each page of a mapping from the IOMMU's side.
fn check_translation(
    ready: &Ready,
    at: BusAddress,
    memory: MemoryAddress,
    bytes: u64,
) -> Result<(), MapCheckError> {
    let pages = (0..bytes).step_by(FRAME_BYTES as usize);
    let mut pages = pages.map(|from| (BusAddress(at.0 + from), MemoryAddress(memory.0 + from)));
    let wrong = ready.has_table().then(|| pages.find(|(at, memory)| ready.walk(*at) != Some(*memory)));
    match wrong.flatten() {
        Some((at, memory)) => Err(MapCheckError::Elsewhere { at, memory, found: ready.walk(at) }),
        None => Ok(()),
    }
}

/// Checks that nothing is mapped at the addresses of a mapping that is gone, once no thread maps any more.
pub(super) fn check_unmapped(ready: &Ready, at: BusAddress) -> Result<(), MapCheckError> {
    ready.walk(at).map_or(Ok(()), |found| Err(MapCheckError::Left { at, found }))
}
