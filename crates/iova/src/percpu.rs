//! An allocator whose CPUs keep out of each other's way.
//!
//! Pages are handed out from *blocks*: up to 32 items of one size, a bit for each. A CPU allocates from its active block by
//! taking a bit out of a word of its own, and frees into blocks that it has by putting one in: in steps on its CPU
//! ([`Cpus`]), without lock or atomic instruction. All else is rarer by the number of items:
//!
//! ```text
//!                    no free item left                 an item is freed: the CPU
//!                 +--------------------> full --------------------------+  that frees it
//!                 |                                                     v  takes the block
//!   central -> active (one per CPU and class) <---------------------- listed -> central
//!    tree              the active block has none left: the next          all items free
//! ```
//!
//! An item freed on another CPU than the owner's goes into the owner word with one atomic exchange, and the owner takes it up
//! when its active block runs out. When the central tree can't satisfy a request, blocks with free items are dissolved
//! into it, those of other CPUs too: no free page is out of reach.
//!
//! What is not noticed: a range freed twice, where the second call begins before the first has ended, or while the owner takes
//! up what others freed of the same block. Then an item may be handed out twice, as in any allocator that trusts its
//! callers. One call after the other is always noticed.
//!
//! Blocks of fixed-size items are Bonwick's slabs ("The Slab Allocator", 1994); a block's two sets of free items, one
//! without atomics, are Leijen, Zorn and de Moura's ("Mimalloc: Free List Sharding in Action", 2019); per-CPU data
//! changed by restartable sequences come from Turner and Hunter (2013) and Desnoyers (Linux 4.18, 2018).

mod central;
mod cpus;
#[cfg(all(feature = "std", not(loom)))]
mod host;
#[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(loom)))]
mod rseq;
mod shape;
mod sharded;
mod slot;
mod table;
mod unit;

pub use cpus::{Cpus, Exchange, NOT_DONE};
#[cfg(all(feature = "std", not(loom)))]
pub use host::Host;
#[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(loom)))]
pub use rseq::Rseq;
pub use sharded::Sharded;

use crate::lock::Lock;
use crate::sync::{AtomicU64, Ordering};
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::boxed::Box;
use alloc::vec::Vec;
use central::Central;
use shape::{CLASSES, Shape, UNIT_PAGES, class_of};
use slot::{List, NO_PAGE, Slot};
use table::Table;
use unit::{Kind, NO_UNIT, Owner, Unit};

/// Steps that fail in a row before a thread goes to the central tree: one that the kernel never registered for
/// restartable sequences, say, would fail for ever.
const ATTEMPTS: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub struct Percpu<C> {
    cpus: C,
    shape: Shape,
    /// By CPU, zone and class.
    slots: Box<[Slot]>,
    /// Pages from here up are those of the second zone.
    boundary: u64,
    zones: [Zone; 2],
    pages: u64,
    /// Held by the thread that takes blocks from others.
    reclaiming: Lock<()>,
}

/// A part of the space with its own blocks, so that requests for low addresses find some however many others there are.
#[derive(Debug)]
struct Zone {
    /// The first unit of the table stands for these pages and those after them.
    origin: u64,
    table: Table,
    central: Lock<Central>,
}

/// A block as a step sees it.
#[derive(Clone, Copy)]
struct Item {
    zone: usize,
    class: usize,
    /// The block's first page.
    base: u64,
    bit: u64,
}

impl<C: Cpus> Percpu<C> {
    /// An allocator of the space. No range crosses `boundary`, and requests whose limit is above it get pages below only
    /// when there are none above: the page at 4 GiB where adapters with 32-bit masks share the space, else 0.
    ///
    /// # Errors
    /// If the space has no page, or some that no bus has.
    pub fn new(space: &Space, boundary: u64, cpus: C) -> Result<Self, SpaceError> {
        let mut centrals = [Central::default(), Central::default()];
        let boundary = if space.last < boundary { 0 } else { boundary };
        let mut pages = 0;
        for range in space.free_ranges()? {
            pages += range.pages;
            for part in parts(range, boundary) {
                centrals[usize::from(part.first >= boundary)].gaps.add(part);
            }
        }
        let zone = |central: Central, first: u64| Zone {
            origin: first / UNIT_PAGES * UNIT_PAGES,
            table: Table::new(),
            central: Lock::new(central),
        };
        let [low, high] = centrals;
        let zones = [zone(low, space.first), zone(high, space.first.max(boundary))];
        let shape = Shape::new(pages.max(1), cpus.count());
        let slots = (0..cpus.count().min(Owner::CPUS_MAX) * slot::PER_CPU).map(|_| Slot::default()).collect();
        Ok(Self { cpus, shape, slots, boundary, zones, pages, reclaiming: Lock::new(()) })
    }

    /// How many CPUs have slots.
    fn cpus(&self) -> usize {
        self.slots.len() / slot::PER_CPU
    }

    /// Nothing for a CPU that is not supposed to exist.
    #[inline(always)]
    fn slot(&self, cpu: usize, zone: usize, class: usize) -> Option<&Slot> {
        self.slots.get(slot::place(cpu, zone, class))
    }

    fn unit(&self, item: &Item) -> Option<&Unit> {
        self.zones[item.zone].unit(item.base)
    }

    /// The slow part of an allocation.
    #[cold]
    fn allocate_slowly(&self, request: &Request) -> Result<Range, AllocateError> {
        if !request.is_sensible() {
            return Err(AllocateError::senseless(request));
        }
        let class = class_of(request.pages);
        let blocks = class < CLASSES
            && self.shape.span_mask(class) != 0
            && request.alignment_pages <= 1 << class
            && request.limit >= self.shape.span_mask(class);
        let from_block = |zone| self.allocate_from_block(request, class, zone);
        let range = if blocks { self.zones_below(request.limit).find_map(from_block) } else { None };
        range.map_or_else(|| self.allocate_loose(request), Ok)
    }

    /// The zones that have pages below a limit, in the order in which they are searched.
    fn zones_below(&self, limit: u64) -> impl Iterator<Item = usize> {
        (limit >= self.boundary).then_some(1).into_iter().chain([0])
    }

    /// From the CPU's active block, after as many refills as it takes; nothing if no block ends below the limit.
    fn allocate_from_block(&self, request: &Request, class: usize, zone: usize) -> Option<Range> {
        for _ in 0..ATTEMPTS {
            let cpu = self.cpus.current();
            let slot = self.slot(cpu, zone, class)?;
            let base = slot.active.load(Ordering::Acquire);
            if base == NO_PAGE || slot.free.load(Ordering::Relaxed) == 0 {
                if !self.refill(cpu, zone, class) {
                    return None;
                }
                continue;
            }
            if base + self.shape.span_mask(class) > request.limit {
                return None;
            }
            let free = self.cpus.take(cpu, &slot.active, base, &slot.free);
            if free != 0 {
                return Some(item_range(base, class, free, request.pages));
            }
        }
        None
    }

    /// Gives a CPU an active block with free items. False if there is none.
    fn refill(&self, cpu: usize, zone: usize, class: usize) -> bool {
        let Some(slot) = self.slot(cpu, zone, class) else { return false };
        let mut list = slot.list.lock();
        let base = slot.active.load(Ordering::Relaxed);
        if base != NO_PAGE {
            if slot.free.load(Ordering::Relaxed) != 0 {
                return true;
            }
            if self.take_up(cpu, slot, &Item { zone, class, base, bit: 0 }) {
                return true;
            }
        }
        let block = self.unlist(cpu, &mut list, zone, class).or_else(|| self.carve(cpu, zone, class));
        let Some((base, free)) = block else { return false };
        slot.free.store(free, Ordering::Relaxed);
        // With the acquiring load of those who guard a step with it.
        slot.active.store(base, Ordering::Release);
        true
    }

    /// Takes what others freed into the active block; or, if that is nothing, lets go of the block. The list is locked.
    fn take_up(&self, cpu: usize, slot: &Slot, item: &Item) -> bool {
        let Some(unit) = self.unit(item) else { return false };
        self.revoke(cpu, &slot.active, |active| (active == item.base).then_some(NO_PAGE));
        // No step on `free` is under way any more.
        let free = slot.free.load(Ordering::Relaxed);
        // Before the items are taken up: who returns one later sets it again.
        slot.returned.store(0, Ordering::SeqCst);
        slot.free.store(0, Ordering::Relaxed);
        loop {
            let owner = Owner(unit.owner.load(Ordering::Relaxed));
            let free = free | owner.returned();
            let next = match free {
                0 => Owner::full(item.class),
                _ => Owner::active(item.class, cpu),
            };
            if unit.owner.compare_exchange(owner.0, next.0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                if free == 0 {
                    return false;
                }
                slot.free.store(free, Ordering::Relaxed);
                slot.active.store(item.base, Ordering::Release);
                return true;
            }
        }
    }

    /// Takes a block out of the CPU's list.
    fn unlist(&self, cpu: usize, list: &mut List, zone: usize, class: usize) -> Option<(u64, u64)> {
        let zone = &self.zones[zone];
        let number = list.head;
        let unit = zone.neighbour(number)?;
        let owner = self.revoke(cpu, &unit.owner, |_| Some(Owner::active(class, cpu).0));
        zone.unlink(list, number);
        let free = unit.free.load(Ordering::Relaxed) | Owner(owner).returned();
        unit.free.store(0, Ordering::Relaxed);
        Some((zone.page(number), free))
    }

    /// Makes a block.
    fn carve(&self, cpu: usize, zone: usize, class: usize) -> Option<(u64, u64)> {
        let span = self.shape.span_pages(class);
        let zone = &self.zones[zone];
        let mut central = zone.central.lock();
        let block = central.gaps.take(span, span, u64::MAX)?;
        let unit = zone.number(block.first).and_then(|number| zone.table.reach(u64::from(number)));
        let Some(unit) = unit else {
            central.gaps.add(block);
            return None;
        };
        unit.free.store(0, Ordering::Relaxed);
        // The lock of `central` orders it before those who get its items.
        unit.owner.store(Owner::active(class, cpu).0, Ordering::SeqCst);
        Some((block.first, self.shape.items(class)))
    }

    /// Changes a word that guards steps on a CPU, to what `next` makes of it, and returns what it was. When it is done, no
    /// step that saw the old guard is under way.
    fn revoke(&self, cpu: usize, guard: &AtomicU64, next: impl Fn(u64) -> Option<u64>) -> u64 {
        loop {
            let old = guard.load(Ordering::Relaxed);
            let Some(new) = next(old) else { return old };
            match self.cpus.exchange(cpu, guard, old, new) {
                Exchange::Done => return old,
                Exchange::Changed => {}
                Exchange::Elsewhere => {
                    if guard.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                        self.cpus.fence(cpu);
                        return old;
                    }
                }
            }
        }
    }

    /// From the central tree; if need be with what CPUs have in their blocks.
    fn allocate_loose(&self, request: &Request) -> Result<Range, AllocateError> {
        self.allocate_central(request).or_else(|_| {
            // One at a time: what another is just collecting isn't gone, only on its way.
            let _alone = self.reclaiming.lock();
            loop {
                let found = self.allocate_central(request);
                if found.is_ok() || self.reclaim(request.limit) == 0 {
                    return found.or_else(|_| self.allocate_central(request));
                }
            }
        })
    }

    fn allocate_central(&self, request: &Request) -> Result<Range, AllocateError> {
        let full = Err(AllocateError::full(request));
        self.zones_below(request.limit)
            .fold(full, |found, zone| found.or_else(|_| self.zones[zone].central.lock().allocate(request)))
    }

    /// Dissolves all blocks with free items, and says how many pages became free.
    fn reclaim(&self, limit: u64) -> u64 {
        let from_zone = |zone| (0..self.cpus()).map(|cpu| self.reclaim_from(cpu, zone)).sum::<u64>();
        self.zones_below(limit).map(from_zone).sum()
    }

    fn reclaim_from(&self, cpu: usize, number: usize) -> u64 {
        let zone = &self.zones[number];
        let slots = (0..CLASSES).filter_map(|class| self.slot(cpu, number, class));
        let mut lists: Vec<_> = slots.map(|slot| (slot, slot.list.lock())).collect();
        if lists
            .iter()
            .all(|(slot, list)| slot.active.load(Ordering::Relaxed) == NO_PAGE && list.head == NO_UNIT)
        {
            return 0;
        }
        // Those who free an item of a block that is just being dissolved wait for this lock.
        let mut central = zone.central.lock();
        // Blocks, each with the items that others gave back.
        let mut taken: Vec<(usize, u64, &Unit, u64)> = Vec::new();
        for (class, (slot, list)) in lists.iter_mut().enumerate() {
            let active = slot.active.swap(NO_PAGE, Ordering::SeqCst);
            if active != NO_PAGE
                && let Some(unit) = zone.unit(active)
            {
                let owner = Owner(unit.owner.swap(Owner::NONE.0, Ordering::SeqCst));
                taken.push((class, active, unit, owner.returned()));
            }
            while let Some(unit) = zone.neighbour(list.head) {
                let owner = Owner(unit.owner.swap(Owner::NONE.0, Ordering::SeqCst));
                taken.push((class, zone.page(list.head), unit, owner.returned()));
                let head = list.head;
                zone.unlink(list, head);
            }
        }
        self.cpus.fence(cpu);
        for (class, (slot, _)) in lists.iter().enumerate() {
            // The active block's free items go where those of listed blocks are.
            let free = slot.free.swap(0, Ordering::Relaxed);
            if let Some((.., unit, _)) = taken.iter().find(|block| block.0 == class).filter(|_| free != 0) {
                unit.free.fetch_or(free, Ordering::Relaxed);
            }
        }
        let mut pages = 0;
        for (class, base, unit, returned) in taken {
            let free = unit.free.swap(0, Ordering::Relaxed) | returned;
            if free == 0 {
                unit.owner.store(Owner::full(class).0, Ordering::SeqCst);
            } else {
                central.dissolve(base, class, free, self.shape.items(class));
                pages += u64::from(free.count_ones()) << class;
            }
        }
        pages
    }

    /// Frees an item of a block in this CPU's list, if that is what it is and nobody else freed some of it: the common case of
    /// [`Self::free_elsewhere`].
    #[inline(always)]
    fn free_listed(
        &self,
        first: u64,
        zone: usize,
        class: usize,
        cpu: usize,
    ) -> Option<Result<(), FreeError>> {
        let at = first & self.shape.span_mask(class);
        let unit = self.zones[zone].unit(first - at)?;
        let owner = Owner::listed(class, cpu);
        if unit.owner.load(Ordering::Acquire) != owner.0 || at & ((1 << class) - 1) != 0 {
            return None;
        }
        self.free_here(unit, owner, &Item { zone, class, base: first - at, bit: 1 << (at >> class) })
    }

    /// Frees what is not in the CPU's active block.
    #[cold]
    fn free_elsewhere(&self, range: Range, class: usize) -> Result<(), FreeError> {
        let zone = usize::from(range.first >= self.boundary);
        let span_mask = if class < CLASSES { self.shape.span_mask(class) } else { 0 };
        let at = range.first & span_mask;
        let is_item = span_mask != 0 && at.trailing_zeros() >= class as u32;
        let item =
            Item { zone, class, base: range.first - at, bit: if is_item { 1 << (at >> class) } else { 0 } };
        let Some(unit) = self.unit(&item).filter(|_| is_item) else {
            return self.zones[zone].central.lock().free(range);
        };
        loop {
            let owner = Owner(unit.owner.load(Ordering::Acquire));
            let freed = match owner.kind() {
                _ if !owner.is_of(class) => match self.zones[zone].central.lock().free(range) {
                    // A block that was being dissolved may have turned out to be full.
                    Err(_) if unit.owner.load(Ordering::Acquire) != owner.0 => None,
                    freed => Some(freed),
                },
                Kind::Full => self.adopt(unit, owner, &item).then_some(Ok(())),
                Kind::Listed if owner.cpu() == self.cpus.current() => self.free_here(unit, owner, &item),
                _ => self.free_there(unit, owner, &item),
            };
            if let Some(freed) = freed {
                return freed;
            }
        }
    }

    /// Takes a full block for this CPU, with the item that is being freed. False if someone else was faster.
    fn adopt(&self, unit: &Unit, owner: Owner, item: &Item) -> bool {
        let cpu = self.cpus.current().min(self.cpus() - 1);
        let Some(slot) = self.slot(cpu, item.zone, item.class) else { return false };
        let mut list = slot.list.lock();
        let listed = Owner::listed(item.class, cpu).with_returned(item.bit);
        let taken =
            unit.owner.compare_exchange(owner.0, listed.0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if taken && let Some(number) = self.zones[item.zone].number(item.base) {
            self.zones[item.zone].link(&mut list, number);
        }
        taken
    }

    /// Into a block in this CPU's list. Nothing if the step was interrupted.
    #[inline(always)]
    fn free_here(&self, unit: &Unit, owner: Owner, item: &Item) -> Option<Result<(), FreeError>> {
        if owner.returned() & item.bit != 0 {
            return Some(Err(not_allocated(item)));
        }
        let free = self.cpus.put(owner.cpu(), &unit.owner, owner.0, &unit.free, item.bit);
        if free == NOT_DONE {
            return None;
        }
        if free & item.bit != 0 {
            return Some(Err(not_allocated(item)));
        }
        if free | item.bit | owner.returned() == self.shape.items(item.class) {
            self.give_up(unit, item);
        }
        Some(Ok(()))
    }

    /// Into a block that another CPU has. Nothing if its owner changed meanwhile.
    fn free_there(&self, unit: &Unit, owner: Owner, item: &Item) -> Option<Result<(), FreeError>> {
        let slot = self.slot(owner.cpu(), item.zone, item.class)?;
        let free = match owner.kind() {
            Kind::Active if slot.active.load(Ordering::Acquire) == item.base => {
                slot.free.load(Ordering::Relaxed)
            }
            _ => unit.free.load(Ordering::Relaxed),
        };
        if (free | owner.returned()) & item.bit != 0 {
            // The owner may just have moved them: only if it is still the owner is it true.
            let is_same = unit.owner.load(Ordering::SeqCst) == owner.0;
            return is_same.then(|| Err(not_allocated(item)));
        }
        let next = owner.with_returned(item.bit);
        unit.owner.compare_exchange(owner.0, next.0, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        if owner.kind() == Kind::Active && slot.returned.load(Ordering::Relaxed) == 0 {
            slot.returned.store(1, Ordering::SeqCst);
        }
        let free = unit.free.load(Ordering::Relaxed);
        if owner.kind() == Kind::Listed && free | next.returned() == self.shape.items(item.class) {
            self.give_up(unit, item);
        }
        Some(Ok(()))
    }

    /// Gives a listed block whose items are all free back to the central tree, if it still is.
    #[cold]
    fn give_up(&self, unit: &Unit, item: &Item) {
        let owner = Owner(unit.owner.load(Ordering::Acquire));
        if owner.kind() != Kind::Listed || !owner.is_of(item.class) {
            return;
        }
        let zone = &self.zones[item.zone];
        let Some(slot) = self.slot(owner.cpu(), item.zone, item.class) else { return };
        let mut list = slot.list.lock();
        let is_whole = |now: u64| {
            let free = unit.free.load(Ordering::Relaxed) | Owner(now).returned();
            let same = Owner(now).without_returned() == Owner::listed(item.class, owner.cpu());
            same && free == self.shape.items(item.class)
        };
        let last = self.revoke(owner.cpu(), &unit.owner, |now| is_whole(now).then_some(Owner::NONE.0));
        if !is_whole(last) {
            return;
        }
        if let Some(number) = zone.number(item.base) {
            zone.unlink(&mut list, number);
        }
        unit.free.store(0, Ordering::Relaxed);
        drop(list);
        let pages = self.shape.span_pages(item.class);
        zone.central.lock().gaps.add(Range { first: item.base, pages });
    }
}

fn not_allocated(item: &Item) -> FreeError {
    FreeError::NotAllocated { first: item.base + (u64::from(item.bit.trailing_zeros()) << item.class) }
}

/// The range on both sides of a boundary.
fn parts(range: Range, boundary: u64) -> impl Iterator<Item = Range> {
    let low = range.first < boundary;
    let high = range.last() >= boundary;
    let below = Range::between(range.first, range.last().min(boundary.wrapping_sub(1)));
    let above = Range::between(range.first.max(boundary), range.last());
    [low.then_some(below), high.then_some(above)].into_iter().flatten()
}

/// The lowest free item of a block.
#[inline(always)]
fn item_range(base: u64, class: usize, free: u64, pages: u64) -> Range {
    Range { first: base + (u64::from(free.trailing_zeros()) << class), pages }
}

impl Zone {
    fn number(&self, page: u64) -> Option<u32> {
        u32::try_from(page.checked_sub(self.origin)? / UNIT_PAGES).ok().filter(|number| *number != NO_UNIT)
    }

    fn page(&self, number: u32) -> u64 {
        self.origin + u64::from(number) * UNIT_PAGES
    }

    #[inline(always)]
    fn unit(&self, page: u64) -> Option<&Unit> {
        self.table.get(page.checked_sub(self.origin)? / UNIT_PAGES)
    }

    /// The unit that a link names, if it names one.
    fn neighbour(&self, number: u32) -> Option<&Unit> {
        self.table.get(u64::from(number)).filter(|_| number != NO_UNIT)
    }

    fn link(&self, list: &mut List, number: u32) {
        let Some(unit) = self.neighbour(number) else { return };
        unit.previous.store(NO_UNIT, Ordering::Relaxed);
        unit.next.store(list.head, Ordering::Relaxed);
        if let Some(next) = self.neighbour(list.head) {
            next.previous.store(number, Ordering::Relaxed);
        }
        list.head = number;
    }

    fn unlink(&self, list: &mut List, number: u32) {
        let Some(unit) = self.neighbour(number) else { return };
        let (previous, next) = (unit.previous.load(Ordering::Relaxed), unit.next.load(Ordering::Relaxed));
        match self.neighbour(previous) {
            Some(before) => before.next.store(next, Ordering::Relaxed),
            None => list.head = next,
        }
        if let Some(after) = self.neighbour(next) {
            after.previous.store(previous, Ordering::Relaxed);
        }
    }

    /// Free items of a CPU's blocks.
    fn cached(&self, slot: &Slot) -> u64 {
        let list = slot.list.lock();
        let returned = |unit: &Unit| Owner(unit.owner.load(Ordering::Relaxed)).returned();
        let active = self.unit(slot.active.load(Ordering::Relaxed)).map_or(0, returned);
        let mut items = (slot.free.load(Ordering::Relaxed) | active).count_ones();
        let mut next = list.head;
        while let Some(unit) = self.neighbour(next) {
            items += (unit.free.load(Ordering::Relaxed) | returned(unit)).count_ones();
            next = unit.next.load(Ordering::Relaxed);
        }
        u64::from(items)
    }
}

impl<C: Cpus> Allocator for Percpu<C> {
    #[inline]
    fn allocate(&self, request: &Request) -> Result<Range, AllocateError> {
        let class = class_of(request.pages);
        let alignment_mask = request.alignment_pages.wrapping_sub(1);
        if class < CLASSES && alignment_mask < 1 << class && request.alignment_pages & alignment_mask == 0 {
            let zone = usize::from(request.limit >= self.boundary);
            let cpu = self.cpus.current();
            if let Some(slot) = self.slot(cpu, zone, class) {
                let base = slot.active.load(Ordering::Acquire);
                if base <= request.limit.saturating_sub(self.shape.span_mask(class)) {
                    let free = self.cpus.take(cpu, &slot.active, base, &slot.free);
                    if free != 0 {
                        return Ok(item_range(base, class, free, request.pages));
                    }
                }
            }
        }
        self.allocate_slowly(request)
    }

    #[inline]
    fn free(&self, range: Range) -> Result<(), FreeError> {
        let class = class_of(range.pages);
        if class < CLASSES {
            let zone = usize::from(range.first >= self.boundary);
            let cpu = self.cpus.current();
            if let Some(slot) = self.slot(cpu, zone, class) {
                let base = slot.active.load(Ordering::Acquire);
                let at = range.first.wrapping_sub(base);
                let is_item = at <= self.shape.span_mask(class) && at & ((1 << class) - 1) == 0;
                if is_item && slot.returned.load(Ordering::Relaxed) == 0 && base != NO_PAGE {
                    let bit = 1 << (at >> class);
                    let free = self.cpus.put(cpu, &slot.active, base, &slot.free, bit);
                    if free != NOT_DONE {
                        return match free & bit {
                            0 => Ok(()),
                            _ => Err(FreeError::NotAllocated { first: range.first }),
                        };
                    }
                } else if let Some(freed) = self.free_listed(range.first, zone, class, cpu) {
                    return freed;
                }
            }
        }
        self.free_elsewhere(range, class)
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage { memory_bytes: size_of_val(&*self.slots) as u64, ..Usage::default() };
        for (number, zone) in self.zones.iter().enumerate() {
            for (cpu, class) in (0..self.cpus()).flat_map(|cpu| (0..CLASSES).map(move |class| (cpu, class))) {
                usage.cached_pages +=
                    self.slot(cpu, number, class).map_or(0, |slot| zone.cached(slot)) << class;
            }
            let central = zone.central.lock();
            usage.free_pages += central.gaps.pages();
            usage.free_ranges += central.gaps.len();
            usage.largest_free_pages = usage.largest_free_pages.max(central.gaps.largest_pages());
            usage.memory_bytes += central.memory_bytes() + zone.table.memory_bytes();
        }
        usage.free_pages += usage.cached_pages;
        usage.allocated_pages = self.pages.saturating_sub(usage.free_pages);
        usage
    }
}
