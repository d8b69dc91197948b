//! Zones of a namespace, and their reports (ZNS).

use super::field::{number, write_number};
use super::identify::{STRUCTURE_BYTES, Structure};

/// Command set identifier of zoned namespaces (CSI).
pub const COMMAND_SET: u8 = 2;
/// Bytes of a zone in a report.
pub const ZONE_BYTES: usize = 64;
/// Bytes before the first zone of a report.
pub const REPORT_HEADER_BYTES: usize = 64;

/// The state of a zone (ZNS, 2.1.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ZoneState {
    /// Nothing is written.
    Empty,
    /// A write or append opened it. The controller may close it to open another.
    ImplicitlyOpen,
    /// The host opened it.
    ExplicitlyOpen,
    /// Written in part, and not open.
    Closed,
    /// The controller can't write to it any more.
    ReadOnly,
    /// Written up to its capacity, or finished.
    Full,
    /// It can neither be read nor written.
    Offline,
}

/// States, their values in a zone descriptor (ZS), and in a report's filter (ZRASF).
const STATES: [(ZoneState, u8, u8); 7] = [
    (ZoneState::Empty, 0x1, 1),
    (ZoneState::ImplicitlyOpen, 0x2, 2),
    (ZoneState::ExplicitlyOpen, 0x3, 3),
    (ZoneState::Closed, 0x4, 4),
    (ZoneState::ReadOnly, 0xd, 6),
    (ZoneState::Full, 0xe, 5),
    (ZoneState::Offline, 0xf, 7),
];

impl ZoneState {
    /// Whether it takes one of the open zones that the controller allows.
    pub fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpen | Self::ExplicitlyOpen)
    }

    /// Whether it takes one of the active zones that the controller allows.
    pub fn is_active(self) -> bool {
        self.is_open() || self == Self::Closed
    }

    /// Its value in a descriptor (ZS).
    fn code(self) -> u8 {
        STATES.iter().find(|row| row.0 == self).map_or(0, |row| row.1)
    }

    /// Its value in a report's filter (ZRASF).
    pub(super) fn filter(self) -> u8 {
        STATES.iter().find(|row| row.0 == self).map_or(0, |row| row.2)
    }

    /// The state with a value in a report's filter.
    pub(crate) fn of_filter(filter: u8) -> Option<Self> {
        STATES.iter().find(|row| row.2 == filter).map(|row| row.0)
    }
}

/// What a Zone Management Send does (ZSA).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZoneAction {
    /// Closes an open zone.
    Close,
    /// Fills a zone: nothing more can be written to it.
    Finish,
    /// Opens a zone explicitly.
    Open,
    /// Empties a zone. Its data are lost.
    Reset,
    /// Takes a read-only zone offline.
    Offline,
}

impl ZoneAction {
    /// Its value in the command.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Close => 1,
            Self::Finish => 2,
            Self::Open => 3,
            Self::Reset => 4,
            Self::Offline => 5,
        }
    }

    /// The action with a value.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        [Self::Close, Self::Finish, Self::Open, Self::Reset, Self::Offline]
            .into_iter()
            .find(|action| action.code() == code)
    }
}

/// A zone, as a report describes it. Zones must be written sequentially.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Its state.
    pub state: ZoneState,
    /// Its first block (ZSLBA).
    pub first: u64,
    /// Blocks that can be written, from the first (ZCAP).
    pub capacity: u64,
    /// The block that is written next (WP); `None` if nothing can be written.
    pub write_pointer: Option<u64>,
}

/// Zone type: sequential write required.
const SEQUENTIAL: u8 = 2;

impl Zone {
    /// Decodes a zone descriptor; `None` if its type or state is unknown.
    pub fn read(bytes: &[u8; ZONE_BYTES]) -> Option<Self> {
        let code = bytes[1] >> 4;
        let state = STATES.iter().find(|row| row.1 == code)?.0;
        if bytes[0] & 0xf != SEQUENTIAL {
            return None;
        }
        let word = |at: usize| number::<8>(bytes, at) as u64;
        let has_pointer = state == ZoneState::Empty || state.is_active();
        Some(Self { state, first: word(16), capacity: word(8), write_pointer: has_pointer.then(|| word(24)) })
    }

    /// Encodes the descriptor, for emulated controllers.
    pub fn write(&self) -> [u8; ZONE_BYTES] {
        let mut bytes = [0; ZONE_BYTES];
        (bytes[0], bytes[1]) = (SEQUENTIAL, self.state.code() << 4);
        let pointer = self.write_pointer.unwrap_or(u64::MAX);
        for (at, value) in [(8, self.capacity), (16, self.first), (24, pointer)] {
            write_number(&mut bytes, at, 8, value.into());
        }
        bytes
    }
}

/// The zones of a report, at most as many as it says that it has. Zones of unknown type or state are left out.
pub fn report(bytes: &[u8]) -> impl Iterator<Item = Zone> {
    let count = number::<8>(bytes, 0).min(usize::MAX as u128) as usize;
    let zones = bytes.get(REPORT_HEADER_BYTES..).unwrap_or_default();
    zones.chunks_exact(ZONE_BYTES).take(count).filter_map(|zone| Zone::read(zone.try_into().ok()?))
}

/// Encodes a report with room for `bytes`, for emulated controllers. `count` is the number of zones that it says it has.
pub(crate) fn write_report(zones: impl Iterator<Item = Zone>, count: u64, bytes: usize) -> Vec<u8> {
    let mut report = count.to_le_bytes().to_vec();
    report.resize(REPORT_HEADER_BYTES, 0);
    report.extend(zones.flat_map(|zone| zone.write()));
    report.resize(bytes, 0);
    report
}

/// Identify data of a zoned namespace, the fields used here (ZNS, 4.1.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZonedNamespace {
    /// Blocks from one zone to the next (ZSZE).
    pub zone_blocks: u64,
    /// Most zones that are active at once (MAR); `None` for no limit.
    pub active_max: Option<u32>,
    /// Most zones that are open at once (MOR); `None` for no limit.
    pub open_max: Option<u32>,
    /// A read may cross zones (OZCS bit 0).
    pub reads_across_zones: bool,
}

/// Place of the LBA formats' extensions (LBAFE), 16 bytes each.
const FORMATS: usize = 2816;

impl ZonedNamespace {
    /// Decodes the structure. `format` is the namespace's LBA format. `None` if zones have no size.
    pub fn read(bytes: &Structure, format: u8) -> Option<Self> {
        let at = FORMATS + 16 * usize::from(format);
        // Zero-based, and all ones for no limit: one more than that wraps to 0.
        let limit = |at| match (number::<4>(bytes, at) as u32).wrapping_add(1) {
            0 => None,
            limit => Some(limit),
        };
        let zone_blocks = number::<8>(bytes, at) as u64;
        (zone_blocks > 0).then_some(Self {
            zone_blocks,
            active_max: limit(4),
            open_max: limit(8),
            reads_across_zones: bytes[2] & 1 == 1,
        })
    }

    /// Encodes the structure with LBA format 0, for emulated controllers.
    pub fn write(&self) -> Structure {
        let mut bytes = [0; STRUCTURE_BYTES];
        bytes[2] = self.reads_across_zones.into();
        for (at, limit) in [(4, self.active_max), (8, self.open_max)] {
            let less_one = limit.map_or(u32::MAX, |limit| limit.saturating_sub(1));
            write_number(&mut bytes, at, 4, less_one.into());
        }
        write_number(&mut bytes, FORMATS, 8, self.zone_blocks.into());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn states() -> impl Strategy<Value = ZoneState> {
        prop::sample::select(STATES.map(|row| row.0).to_vec())
    }

    proptest! {
        #[test]
        fn zones_are_read_back(state in states(), first: u64, capacity: u64, pointer: u64) {
            let has_pointer = !matches!(state, ZoneState::ReadOnly | ZoneState::Full | ZoneState::Offline);
            let zone = Zone { state, first, capacity, write_pointer: has_pointer.then_some(pointer) };
            prop_assert_eq!(Zone::read(&zone.write()), Some(zone));
        }

        #[test]
        fn zoned_namespaces_are_read_back(
            zone_blocks in 1_u64.., active: Option<u32>, open: Option<u32>, reads_across_zones: bool,
        ) {
            let [active_max, open_max] = [active, open].map(|limit| limit.map(|limit| limit.max(1)));
            let zoned = ZonedNamespace { zone_blocks, active_max, open_max, reads_across_zones };
            prop_assert_eq!(ZonedNamespace::read(&zoned.write(), 0), Some(zoned));
        }

        /// Whatever a controller reports, it is read, and no more zones than it has room for.
        #[test]
        fn any_report_is_read(bytes in prop::collection::vec(any::<u8>(), 0..400), count in 0_u64..8) {
            prop_assert!(report(&bytes).count() <= bytes.len() / ZONE_BYTES);
            let mut bytes = bytes;
            if bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&count.to_le_bytes());
                prop_assert!(report(&bytes).count() <= count as usize);
            }
        }

        #[test]
        fn any_zoned_namespace_is_read(byte: u8, at in 0..STRUCTURE_BYTES, other: u8, format: u8) {
            let mut bytes = [byte; STRUCTURE_BYTES];
            bytes[at] = other;
            if let Some(zoned) = ZonedNamespace::read(&bytes, format) {
                prop_assert!(zoned.zone_blocks > 0 && zoned.active_max != Some(0));
            }
        }
    }

    #[test]
    fn fields_are_where_the_specification_has_them() {
        // A closed zone with 3 of 5 blocks written, of 8 from block 16.
        let mut bytes = [0; ZONE_BYTES];
        (bytes[0], bytes[1], bytes[8], bytes[16], bytes[24]) = (2, 0x40, 5, 16, 19);
        let zone = Zone { state: ZoneState::Closed, first: 16, capacity: 5, write_pointer: Some(19) };
        assert_eq!((Zone::read(&bytes), zone.write()), (Some(zone), bytes));
        // Reserved bits say nothing.
        (bytes[0], bytes[1]) = (0xf2, 0x4f);
        assert_eq!(Zone::read(&bytes), Some(zone));
        (bytes[0], bytes[1]) = (2, 0xe0);
        assert_eq!(Zone::read(&bytes).map(|zone| zone.write_pointer), Some(None));
        bytes[0] = 1;
        assert_eq!(Zone::read(&bytes), None, "an unknown type");
        (bytes[0], bytes[1]) = (2, 0x50);
        assert_eq!(Zone::read(&bytes), None, "an unknown state");
        let mut bytes = [0; STRUCTURE_BYTES];
        // OZCS, MAR, MOR, and the size of zones of LBA format 3.
        (bytes[2], bytes[4], bytes[2816 + 3 * 16 + 1]) = (1, 6, 1);
        bytes[8..12].fill(0xff);
        let zoned = ZonedNamespace {
            zone_blocks: 256,
            active_max: Some(7),
            open_max: None,
            reads_across_zones: true,
        };
        assert_eq!(ZonedNamespace::read(&bytes, 3), Some(zoned));
        assert_eq!(ZonedNamespace::read(&bytes, 0), None);
    }

    #[test]
    fn a_report_has_as_many_zones_as_it_says() {
        let zone = Zone { state: ZoneState::Full, first: 16, capacity: 5, write_pointer: None };
        let bytes = write_report([zone; 3].into_iter(), 2, 512);
        assert_eq!((bytes.len(), report(&bytes).count()), (512, 2));
        assert_eq!(report(&bytes[..191]).count(), 1);
        assert_eq!(report(&[]).count(), 0);
    }

    #[test]
    fn codes_belong_to_one_state_and_action_each() {
        for (state, _, filter) in STATES {
            assert_eq!(ZoneState::of_filter(filter), Some(state));
            assert_eq!(state.filter(), filter);
        }
        assert_eq!(ZoneState::of_filter(0), None);
        for code in 1..=5 {
            assert_eq!(ZoneAction::of_code(code).map(ZoneAction::code), Some(code));
        }
        assert_eq!(ZoneAction::of_code(0), None);
    }
}
