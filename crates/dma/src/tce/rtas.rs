//! The RTAS calls for DMA windows, with arguments in 32-bit cells.
//!
//! | call | inputs | outputs behind the status |
//! |---|---|---|
//! | `ibm,query-pe-dma-windows` | endpoint | windows available, entries of the largest block, page sizes, page sizes for migration; with six outputs the block is two cells, high and low |
//! | `ibm,create-pe-dma-window` | endpoint, page shift, window shift | LIOBN, lowest bus address high and low |
//! | `ibm,remove-pe-dma-window` | LIOBN | |
//! | `ibm,reset-pe-dma-windows` | endpoint | |
//!
//! An endpoint takes three cells: configuration address, high and low half of the bridge's unit ID (LoPAR, DMA window
//! calls).

use super::EndpointAddress;
use std::fmt;
use std::time::Duration;

/// An RTAS call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RtasCall {
    /// `ibm,query-pe-dma-windows`
    Query,
    /// `ibm,create-pe-dma-window`
    Create,
    /// `ibm,remove-pe-dma-window`
    Remove,
    /// `ibm,reset-pe-dma-windows`
    Reset,
}

/// Status of an RTAS call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtasStatus {
    /// 0: success.
    Success,
    /// -1: hardware error.
    Hardware,
    /// -2: busy, call again.
    Busy,
    /// -3: parameter error, or not available.
    Parameter,
    /// 9900 to 9905: call again after 10^n milliseconds, n from 0 to 5.
    ExtendedDelay(u8),
}

impl RtasStatus {
    /// Its code.
    pub fn code(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Hardware => -1,
            Self::Busy => -2,
            Self::Parameter => -3,
            Self::ExtendedDelay(power) => 9900 + i32::from(power.min(5)),
        }
    }

    /// Time to wait before the next call; `None` if the call is finished (`rtas_busy_delay_time`).
    pub fn delay(self) -> Option<Duration> {
        match self {
            Self::Busy => Some(Duration::from_millis(1)),
            Self::ExtendedDelay(power) => Some(Duration::from_millis(10_u64.pow(power.min(5).into()))),
            Self::Success | Self::Hardware | Self::Parameter => None,
        }
    }
}

impl fmt::Display for RtasStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "status {}", self.code())
    }
}

impl EndpointAddress {
    /// The address as the three cells that RTAS calls take.
    pub(super) fn cells(self) -> [u32; 3] {
        [self.config, (self.buid >> 32) as u32, self.buid as u32]
    }

    /// The address in three cells of an RTAS call.
    pub(super) fn from_cells(config: u32, high: u32, low: u32) -> Self {
        Self { config, buid: join(high, low) }
    }
}

/// A 64-bit number from two cells.
pub(super) fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
