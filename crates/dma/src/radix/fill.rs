//! Mapping: allocates tables where needed and writes leaves.

use super::node::Node;
use super::span::{Piece, entry_bits};
use super::{Entry, Format, INDEX_BITS, Radix};
use crate::{Access, BusAddress, DmaCounters, MapError, MemoryAddress};
use std::sync::atomic::{AtomicU64, Ordering};

/// Adjacent entries of one table that are to become leaves.
struct Run<'a> {
    slots: &'a [AtomicU64],
    level: u32,
    piece: Piece,
}

/// Page sizes for entries of a level: one entry, or several consecutive ones.
fn sizes_of(level: u32) -> u64 {
    ((1 << INDEX_BITS) - 1) << entry_bits(level)
}

impl<F: Format> Radix<F> {
    /// Maps a piece completely, or not at all. Returns whether leaves replaced empty tables.
    pub(super) fn fill(
        &self,
        piece: Piece,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<bool, MapError> {
        let mut node = self.top().ok_or_else(|| self.table_outside_memory(self.root))?;
        while piece.span.is_within_an_entry(node.level) {
            node = self.table_below(node, piece.span.at, counters)?;
        }
        if let Some(run) = self.first_run(node, piece).filter(|run| run.piece.span == piece.span) {
            self.check_free(&run)?;
            return Ok(self.write(&run, access, counters));
        }
        self.visit_runs(node, piece, counters, &mut |run, _| self.check_free(&run))?;
        let mut gave_way = false;
        self.visit_runs(node, piece, counters, &mut |run, counters| {
            gave_way |= self.write(&run, access, counters);
            Ok(())
        })?;
        Ok(gave_way)
    }

    /// Visits the entries that are to become leaves, table by table from the lowest address, and creates tables on
    /// the way.
    fn visit_runs<'a>(
        &'a self,
        node: Node<'a>,
        piece: Piece,
        counters: &mut DmaCounters,
        visit: &mut impl FnMut(Run<'a>, &mut DmaCounters) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let mut rest = piece;
        while rest.span.bytes > 0 {
            let bytes = match self.first_run(node, rest) {
                Some(run) => {
                    let bytes = run.piece.span.bytes;
                    visit(run, counters)?;
                    bytes
                }
                None => {
                    let part = rest.first(rest.span.in_first_entry(node.level).bytes);
                    let below = self.table_below(node, part.span.at, counters)?;
                    self.visit_runs(below, part, counters, visit)?;
                    part.span.bytes
                }
            };
            rest = rest.after(bytes);
        }
        Ok(())
    }

    /// The entries at the beginning of a piece, if leaves belong into this table.
    fn first_run<'a>(&self, node: Node<'a>, piece: Piece) -> Option<Run<'a>> {
        let bits = entry_bits(node.level);
        let has_leaves = piece.sizes(self.page_sizes) >> bits & 1 == 1;
        let entries = if has_leaves { piece.span.whole_entries(node.level) } else { 0 };
        let slots = || node.slots(piece.span.at, entries);
        (entries > 0).then(|| Run { slots: slots(), level: node.level, piece: piece.first(entries << bits) })
    }

    /// Checks that nothing is mapped. Empty tables do not count.
    fn check_free(&self, run: &Run<'_>) -> Result<(), MapError> {
        let taken = |slot: &AtomicU64| slot.load(Ordering::Acquire) != 0;
        if !run.slots.iter().any(taken) {
            return Ok(());
        }
        for (place, slot) in run.slots.iter().enumerate() {
            let at = run.piece.span.at + ((place as u64) << entry_bits(run.level));
            if let Some(at) = self.first_mapped(slot.load(Ordering::Acquire), run.level, at) {
                return Err(MapError::Mapped { at: BusAddress(at) });
            }
        }
        Ok(())
    }

    /// First mapped address below an entry whose range begins at `at`.
    fn first_mapped(&self, entry: u64, level: u32, at: u64) -> Option<u64> {
        match F::read(entry, level) {
            Entry::Empty => None,
            Entry::Leaf { .. } => Some(at),
            Entry::Table(page) => {
                let below = level.checked_sub(1)?;
                let mut entries = self.node(page, below)?.entries().zip(0..);
                entries.find_map(|(entry, place)| {
                    self.first_mapped(entry, below, at + (place << entry_bits(below)))
                })
            }
        }
    }

    /// Writes leaves. Returns whether they replaced tables.
    fn write(&self, run: &Run<'_>, access: Access, counters: &mut DmaCounters) -> bool {
        let gave_way = run.level > 0 && self.retire_tables(run);
        counters.table_entries += run.slots.len() as u64;
        let bits = entry_bits(run.level);
        let sizes = run.piece.sizes(self.page_sizes) & sizes_of(run.level);
        if sizes == 1 << bits {
            let memory = (run.piece.memory..).step_by(1 << bits).map(MemoryAddress);
            for (slot, memory) in run.slots.iter().zip(memory) {
                slot.store(F::leaf(memory, bits, run.level, access), Ordering::Release);
            }
        } else {
            self.write_spread(run, sizes, access);
        }
        gave_way
    }

    /// Writes leaves of which some take several entries.
    fn write_spread(&self, run: &Run<'_>, sizes: u64, access: Access) {
        let bits = entry_bits(run.level);
        let (mut slots, mut piece) = (run.slots, run.piece);
        while piece.span.bytes > 0 {
            let page_bits = piece.largest_page_bits(sizes);
            let leaf = F::leaf(MemoryAddress(piece.memory), page_bits, run.level, access);
            let (now, later) = slots.split_at(1 << (page_bits - bits));
            now.iter().for_each(|slot| slot.store(leaf, Ordering::Release));
            (slots, piece) = (later, piece.after(1 << page_bits));
        }
    }

    /// Quarantines the tables that a run of leaf entries replaces. Returns whether there were any.
    fn retire_tables(&self, run: &Run<'_>) -> bool {
        let mut gave_way = false;
        for slot in run.slots {
            if let Entry::Table(page) = F::read(slot.load(Ordering::Acquire), run.level) {
                self.quarantine_tables(page, run.level - 1, run.piece.span);
                gave_way = true;
            }
        }
        gave_way
    }

    /// The table below the entry for an address; creates it if missing.
    fn table_below(&self, node: Node<'_>, at: u64, counters: &mut DmaCounters) -> Result<Node<'_>, MapError> {
        let entry = node.entry(at);
        let page = match F::read(entry, node.level) {
            Entry::Table(page) => page,
            Entry::Empty => self.install(node, at, entry, counters)?,
            Entry::Leaf { .. } => return Err(MapError::Mapped { at: BusAddress(at) }),
        };
        let below = node.level.checked_sub(1).and_then(|below| self.node(page, below));
        below.ok_or_else(|| self.table_outside_memory(page))
    }

    /// Installs a new table in an empty entry. If another thread was first, uses that one's table.
    #[cold]
    fn install(
        &self,
        node: Node<'_>,
        at: u64,
        empty: u64,
        counters: &mut DmaCounters,
    ) -> Result<MemoryAddress, MapError> {
        let frame = self.frames.allocate().map_err(|_| MapError::OutOfFrames)?;
        if Node::new_empty::<F>(&self.ram, frame, node.level).is_err() {
            self.frames.free(frame);
            return Err(self.table_outside_memory(frame));
        }
        let table = F::table(frame, node.level);
        let Err(faster) = node.slot(at).compare_exchange(empty, table, Ordering::AcqRel, Ordering::Acquire)
        else {
            counters.table_pages += 1;
            counters.table_entries += 1;
            return Ok(frame);
        };
        self.frames.free(frame);
        match F::read(faster, node.level) {
            Entry::Table(page) => Ok(page),
            Entry::Leaf { .. } | Entry::Empty => Err(MapError::Mapped { at: BusAddress(at) }),
        }
    }

    /// The error for a table page outside the memory.
    fn table_outside_memory(&self, page: MemoryAddress) -> MapError {
        MapError::Refused { what: "the table", why: format!("its page at {page} is outside the memory") }
    }
}
