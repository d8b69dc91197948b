//! The zones of an emulated controller's disk: their states, write pointers and limits.

use crate::spec::status::Status;
use crate::spec::zone::{Zone, ZoneAction, ZoneState, ZonedNamespace};
use std::ops::Range;

/// What the zones of an emulated disk are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneOptions {
    /// Blocks from one zone to the next. The last zone may be shorter.
    pub zone_blocks: u64,
    /// Blocks of each zone that can be written.
    pub capacity: u64,
    /// Most zones that are active at once; `None` for no limit.
    pub active_max: Option<u32>,
    /// Most zones that are open at once; `None` for no limit.
    pub open_max: Option<u32>,
    /// A read may cross zones.
    pub reads_across_zones: bool,
}

impl ZoneOptions {
    /// Zones that can be written whole, with no limit.
    pub fn whole(zone_blocks: u64) -> Self {
        Self {
            zone_blocks,
            capacity: zone_blocks,
            active_max: None,
            open_max: None,
            reads_across_zones: false,
        }
    }
}

/// All zones of a disk.
#[derive(Debug)]
pub(super) struct Zones {
    options: ZoneOptions,
    /// Each has a write pointer, also where none is reported.
    zones: Vec<Written>,
    /// Zones opened so far.
    opened: u64,
}

/// A zone, and how far it is written.
#[derive(Debug, Clone, Copy)]
struct Written {
    state: ZoneState,
    first: u64,
    capacity: u64,
    next: u64,
    /// Which one it was of the zones opened so far.
    opened: u64,
}

impl Written {
    /// The zone as a report has it.
    fn zone(&self) -> Zone {
        let Self { state, first, capacity, next, .. } = *self;
        let has_pointer = state == ZoneState::Empty || state.is_active();
        Zone { state, first, capacity, write_pointer: has_pointer.then_some(next) }
    }

    /// An open zone stops being open.
    fn close(&mut self) {
        self.state = if self.next == self.first { ZoneState::Empty } else { ZoneState::Closed };
    }
}

impl Zones {
    /// Empty zones of a disk with so many blocks.
    pub(super) fn new(options: ZoneOptions, blocks: u64) -> Self {
        let zone_blocks = options.zone_blocks.max(1);
        let zone = |first: u64| Written {
            state: ZoneState::Empty,
            first,
            capacity: options.capacity.min(zone_blocks).min(blocks - first),
            next: first,
            opened: 0,
        };
        let zones = (0..blocks.div_ceil(zone_blocks)).map(|number| zone(number * zone_blocks)).collect();
        Self { options: ZoneOptions { zone_blocks, ..options }, zones, opened: 0 }
    }

    /// The Identify data.
    pub(super) fn identity(&self) -> ZonedNamespace {
        let ZoneOptions { zone_blocks, active_max, open_max, reads_across_zones, .. } = self.options;
        ZonedNamespace { zone_blocks, active_max, open_max, reads_across_zones }
    }

    /// The zone that holds a block of the disk.
    fn place(&self, block: u64) -> usize {
        (block / self.options.zone_blocks) as usize
    }

    /// The zones from the one that holds a block, those in a state or all.
    pub(super) fn report(&self, block: u64, state: Option<ZoneState>) -> impl Iterator<Item = Zone> {
        let zones = self.zones.iter().skip(self.place(block));
        zones.map(Written::zone).filter(move |zone| state.is_none_or(|state| zone.state == state))
    }

    /// Checks a read of blocks of the disk.
    pub(super) fn check_read(&self, blocks: &Range<u64>) -> Status {
        let [first, last] = [blocks.start, blocks.end - 1].map(|block| self.place(block));
        if first != last && !self.options.reads_across_zones {
            return Status::ZONE_BOUNDARY.with_do_not_retry();
        }
        let is_offline = self.zones[first..=last].iter().any(|zone| zone.state == ZoneState::Offline);
        if is_offline { Status::ZONE_OFFLINE.with_do_not_retry() } else { Status::SUCCESS }
    }

    /// Where an append to the zone that begins at a block would write.
    pub(super) fn append_at(&self, first: u64) -> Result<u64, Status> {
        let zone = &self.zones[self.place(first)];
        if zone.first == first { Ok(zone.next) } else { Err(Status::INVALID_FIELD.with_do_not_retry()) }
    }

    /// Opens a zone for a write of blocks of the disk, if they are the next ones. Nothing is written yet.
    pub(super) fn begin_write(&mut self, blocks: &Range<u64>) -> Status {
        let place = self.place(blocks.start);
        let zone = self.zones[place];
        let status = match zone.state {
            ZoneState::Full => Status::ZONE_FULL,
            ZoneState::ReadOnly => Status::ZONE_READ_ONLY,
            ZoneState::Offline => Status::ZONE_OFFLINE,
            _ if blocks.start != zone.next => Status::ZONE_INVALID_WRITE,
            _ if blocks.end > zone.first + zone.capacity => Status::ZONE_BOUNDARY,
            _ => return self.open(place, ZoneState::ImplicitlyOpen),
        };
        status.with_do_not_retry()
    }

    /// Moves the write pointer behind what was written.
    pub(super) fn end_write(&mut self, blocks: &Range<u64>) {
        let place = self.place(blocks.start);
        let zone = &mut self.zones[place];
        zone.next = blocks.end;
        if zone.next == zone.first + zone.capacity {
            zone.state = ZoneState::Full;
        }
    }

    /// Opens a zone, if the limits allow it. Where that helps, the implicitly open one is closed that is open for longest.
    fn open(&mut self, place: usize, to: ZoneState) -> Status {
        let from = self.zones[place].state;
        if from.is_open() {
            if to == ZoneState::ExplicitlyOpen {
                self.zones[place].state = to;
            }
            return Status::SUCCESS;
        }
        let reached = |zones: &[Written], counts: fn(ZoneState) -> bool, limit: Option<u32>| {
            let count = zones.iter().filter(|zone| counts(zone.state)).count();
            limit.is_some_and(|limit| count >= limit as usize)
        };
        if !from.is_active() && reached(&self.zones, ZoneState::is_active, self.options.active_max) {
            return Status::TOO_MANY_ACTIVE_ZONES.with_do_not_retry();
        }
        if reached(&self.zones, ZoneState::is_open, self.options.open_max) {
            let implicit = self.zones.iter_mut().filter(|zone| zone.state == ZoneState::ImplicitlyOpen);
            let Some(other) = implicit.min_by_key(|zone| zone.opened) else {
                return Status::TOO_MANY_OPEN_ZONES.with_do_not_retry();
            };
            other.close();
        }
        self.opened += 1;
        (self.zones[place].state, self.zones[place].opened) = (to, self.opened);
        Status::SUCCESS
    }

    /// Executes an action on the zone that begins at a block. Returns the blocks that lose their data.
    pub(super) fn manage(&mut self, first: u64, action: ZoneAction) -> Result<Range<u64>, Status> {
        let place = self.place(first);
        if self.zones[place].first != first {
            return Err(Status::INVALID_FIELD.with_do_not_retry());
        }
        self.act(place, action)
    }

    /// Executes an action on all zones whose state it is for. Returns the blocks that lose their data.
    pub(super) fn manage_all(&mut self, action: ZoneAction) -> Result<Vec<Range<u64>>, Status> {
        let is_meant = |state: ZoneState| match action {
            ZoneAction::Open => state == ZoneState::Closed,
            ZoneAction::Close => state.is_open(),
            ZoneAction::Finish => state.is_active(),
            ZoneAction::Reset => state.is_active() || state == ZoneState::Full,
            ZoneAction::Offline => state == ZoneState::ReadOnly,
        };
        let places: Vec<usize> =
            (0..self.zones.len()).filter(|place| is_meant(self.zones[*place].state)).collect();
        places.into_iter().map(|place| self.act(place, action)).collect()
    }

    /// Executes an action on a zone (ZNS, 2.1.1.2, the transitions of the zone state machine).
    fn act(&mut self, place: usize, action: ZoneAction) -> Result<Range<u64>, Status> {
        let invalid = Status::INVALID_ZONE_TRANSITION.with_do_not_retry();
        let zone = self.zones[place];
        let nothing = zone.first..zone.first;
        let is_writable = zone.state == ZoneState::Empty || zone.state.is_active();
        match action {
            ZoneAction::Open if is_writable => match self.open(place, ZoneState::ExplicitlyOpen) {
                Status::SUCCESS => {}
                status => return Err(status),
            },
            ZoneAction::Close if zone.state.is_open() => {
                self.zones[place].state = ZoneState::Closed;
            }
            ZoneAction::Close if zone.state == ZoneState::Closed => {}
            ZoneAction::Finish if is_writable || zone.state == ZoneState::Full => {
                self.zones[place].state = ZoneState::Full;
            }
            ZoneAction::Reset if is_writable || zone.state == ZoneState::Full => {
                let zone = &mut self.zones[place];
                (zone.state, zone.next) = (ZoneState::Empty, zone.first);
                return Ok(zone.first..zone.first + zone.capacity);
            }
            ZoneAction::Offline if matches!(zone.state, ZoneState::ReadOnly | ZoneState::Offline) => {
                self.zones[place].state = ZoneState::Offline;
            }
            _ => return Err(invalid),
        }
        Ok(nothing)
    }

    /// A reset of the controller: open zones are closed.
    pub(super) fn close_all(&mut self) {
        self.zones.iter_mut().filter(|zone| zone.state.is_open()).for_each(Written::close);
    }

    /// Sets the state of the zone that holds a block, as wear of the media may.
    pub(super) fn set_state(&mut self, block: u64, state: ZoneState) {
        let place = self.place(block);
        if let Some(zone) = self.zones.get_mut(place) {
            zone.state = state;
        }
    }
}
