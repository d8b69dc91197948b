//! Unmapping: clears leaves, and removes tables that become empty.

use super::node::Node;
use super::span::{Span, entry_bits};
use super::{Entry, Format, Radix};
use crate::{BusAddress, DmaCounters, UnmapError};
use std::sync::atomic::{AtomicU64, Ordering};

impl<F: Format> Radix<F> {
    /// Unmaps a range completely, or not at all.
    pub(super) fn clear(&self, span: Span, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        let not_mapped = UnmapError::NotMapped { at: BusAddress(span.at) };
        let mut node = self.top().ok_or_else(|| not_mapped.clone())?;
        while span.is_within_an_entry(node.level) {
            match F::read(node.entry(span.at), node.level) {
                Entry::Table(page) => {
                    let below = node.level.checked_sub(1).and_then(|below| self.node(page, below));
                    node = below.ok_or_else(|| not_mapped.clone())?;
                }
                Entry::Leaf { bits, .. } => return Err(cuts_page(span.at, bits)),
                Entry::Empty => return Err(not_mapped),
            }
        }
        self.check_mapped(node, span)?;
        self.clear_checked(node, span, counters);
        Ok(())
    }

    /// The error for a range beyond the table's addresses.
    pub(super) fn unmap_error(&self, span: Span) -> UnmapError {
        let last = self.last().0;
        let not_mapped = |at: u64| UnmapError::NotMapped { at: BusAddress(at) };
        let (Some(node), true) = (self.top(), span.at <= last) else { return not_mapped(span.at) };
        let within = Span { bytes: (last - span.at + 1).min(span.bytes), ..span };
        self.check_mapped(node, within).err().unwrap_or(not_mapped(last.saturating_add(1)))
    }

    /// Checks that the range is mapped by pages that lie within it.
    fn check_mapped(&self, node: Node<'_>, span: Span) -> Result<(), UnmapError> {
        let mut rest = span;
        while rest.bytes > 0 {
            let pages = self.pages_of_one_entry(node, rest);
            let bytes = match pages {
                0 => self.check_first_mapped(node, rest)?,
                pages => pages << entry_bits(node.level),
            };
            rest = rest.after(bytes);
        }
        Ok(())
    }

    /// Number of single-entry pages at the beginning of a range, the most frequent case.
    fn pages_of_one_entry(&self, node: Node<'_>, span: Span) -> u64 {
        let slots = node.slots(span.at, span.whole_entries(node.level));
        let is_page = |slot: &&AtomicU64| match F::read(slot.load(Ordering::Acquire), node.level) {
            Entry::Leaf { bits, .. } => bits == entry_bits(node.level),
            Entry::Empty | Entry::Table(_) => false,
        };
        slots.iter().take_while(is_page).count() as u64
    }

    /// Checks the beginning of a range. Returns the size of the page, or of the part in a lower table.
    fn check_first_mapped(&self, node: Node<'_>, span: Span) -> Result<u64, UnmapError> {
        let not_mapped = UnmapError::NotMapped { at: BusAddress(span.at) };
        match F::read(node.entry(span.at), node.level) {
            Entry::Empty => Err(not_mapped),
            Entry::Leaf { bits, .. } => {
                let page_bytes = 1 << bits;
                let is_cut = span.at % page_bytes != 0 || span.bytes < page_bytes;
                if is_cut { Err(cuts_page(span.at, bits)) } else { Ok(page_bytes) }
            }
            Entry::Table(page) => {
                let part = span.in_first_entry(node.level);
                let below = node.level.checked_sub(1).and_then(|below| self.node(page, below));
                self.check_mapped(below.ok_or(not_mapped)?, part)?;
                Ok(part.bytes)
            }
        }
    }

    /// Clears a range that was checked.
    fn clear_checked(&self, node: Node<'_>, span: Span, counters: &mut DmaCounters) {
        let Some(below) = node.level.checked_sub(1) else { return self.clear_leaves(node, span, counters) };
        let mut rest = span;
        while rest.bytes > 0 {
            let part = rest.in_first_entry(node.level);
            let is_whole = part.bytes == 1 << entry_bits(node.level);
            match F::read(node.entry(part.at), node.level) {
                Entry::Table(page) if !is_whole => {
                    if let Some(node) = self.node(page, below) {
                        self.clear_checked(node, part, counters);
                    }
                }
                entry => {
                    node.slot(part.at).store(0, Ordering::Release);
                    counters.table_entries += 1;
                    if let Entry::Table(page) = entry {
                        self.quarantine_tables(page, below, part);
                    }
                }
            }
            rest = rest.after(part.bytes);
        }
    }

    /// Clears the entries of a lowest-level table.
    fn clear_leaves(&self, node: Node<'_>, span: Span, counters: &mut DmaCounters) {
        let slots = node.slots(span.at, span.bytes >> entry_bits(0));
        slots.iter().for_each(|slot| slot.store(0, Ordering::Release));
        counters.table_entries += slots.len() as u64;
    }
}

/// The error for an unmap that would cut the page of 2^`bits` bytes at an address.
fn cuts_page(at: u64, bits: u32) -> UnmapError {
    let page_bytes = 1 << bits;
    UnmapError::CutsPage { at: BusAddress(at & !(page_bytes - 1)), page_bytes }
}
