//! Commands of zoned namespaces: append, open, close, finish and reset zones, and reports of them.

use crate::blocks::BlockError;
use crate::controller::Namespace;
use crate::prp::Piece;
use crate::queue_pair::{CommandId, QueuePair};
use crate::spec::command::{Command, Transfer, zoned};
use crate::spec::zone::{ZoneAction, ZoneState};

/// The zones of a namespace, with the controller's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zones {
    /// Blocks from one zone to the next. What can be written of a zone may be less: its [capacity](crate::spec::zone::Zone::capacity).
    pub zone_blocks: u64,
    /// Most zones that are active at once; `None` for no limit.
    pub active_max: Option<u32>,
    /// Most zones that are open at once; `None` for no limit.
    pub open_max: Option<u32>,
    /// A read may cross zones.
    pub reads_across_zones: bool,
    /// Most bytes of one append (ZASL).
    pub append_bytes_max: u64,
}

impl QueuePair {
    /// Submits an append to the zone that begins at `zone`. The controller writes the data at the zone's write pointer, so that
    /// several appends can be in flight; [`Done::result`](crate::Done::result) is the first block that they are at.
    ///
    /// An append that is executed twice writes its data twice. So it is not resubmitted after a reset:
    /// [`take_cut_off`](QueuePair::take_cut_off) tells of it.
    ///
    /// # Errors
    /// [`BlockError::NotZoned`], [`BlockError::ZoneStart`], or as for [`read`](Self::read).
    pub fn append(
        &mut self,
        namespace: &Namespace,
        zone: u64,
        from: &[Piece],
    ) -> Result<CommandId, BlockError> {
        let zones = check_zone(namespace, zone)?;
        let limited = Namespace {
            transfer_bytes_max: namespace.transfer_bytes_max.min(zones.append_bytes_max),
            ..*namespace
        };
        self.transfer(Transfer::of(zoned::APPEND), &limited, zone, from)
    }

    /// Submits an action on the zone that begins at `zone`.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn manage_zone(
        &mut self,
        namespace: &Namespace,
        zone: u64,
        action: ZoneAction,
    ) -> Result<CommandId, BlockError> {
        check_zone(namespace, zone)?;
        Ok(self.submit(Command::manage_zones(namespace.number, Some(zone), action))?)
    }

    /// Submits an action on all zones whose state allows it: closed ones are opened, open ones closed, open and closed ones finished, and these
    /// and full ones reset.
    ///
    /// # Errors
    /// [`BlockError::NotZoned`] or [`BlockError::Queue`]
    pub fn manage_all_zones(
        &mut self,
        namespace: &Namespace,
        action: ZoneAction,
    ) -> Result<CommandId, BlockError> {
        namespace.zones.ok_or(BlockError::NotZoned)?;
        Ok(self.submit(Command::manage_zones(namespace.number, None, action))?)
    }

    /// Submits a report of the zones from the one that holds `block`: all, or those in a state. The controller writes as many as fit
    /// into `into`; [`report`](crate::spec::zone::report) reads them.
    ///
    /// # Errors
    /// [`BlockError::NotZoned`], [`BlockError::OutOfRange`], or as for [`read`](Self::read). The pieces have a multiple of 4 bytes.
    pub fn report_zones(
        &mut self,
        namespace: &Namespace,
        block: u64,
        state: Option<ZoneState>,
        into: &[Piece],
    ) -> Result<CommandId, BlockError> {
        namespace.zones.ok_or(BlockError::NotZoned)?;
        let blocks = namespace.format.blocks;
        if block >= blocks {
            return Err(BlockError::OutOfRange { first: block, count: 1, blocks });
        }
        let bytes = into.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.bytes));
        if bytes == 0 || bytes % 4 != 0 {
            return Err(BlockError::PartialBlock { bytes, block_bytes: 4 });
        }
        if bytes > namespace.transfer_bytes_max {
            return Err(BlockError::TooLong { bytes, bytes_max: namespace.transfer_bytes_max });
        }
        self.submit_with_data(namespace, into, |data| {
            Command::report_zones(namespace.number, block, state, bytes as u32, data)
        })
    }
}

/// Checks that a zone begins at a block of the namespace.
fn check_zone(namespace: &Namespace, zone: u64) -> Result<Zones, BlockError> {
    let zones = namespace.zones.ok_or(BlockError::NotZoned)?;
    let blocks = namespace.format.blocks;
    match zone {
        _ if zone >= blocks => Err(BlockError::OutOfRange { first: zone, count: 1, blocks }),
        _ if zone % zones.zone_blocks != 0 => {
            Err(BlockError::ZoneStart { block: zone, zone_blocks: zones.zone_blocks })
        }
        _ => Ok(zones),
    }
}
