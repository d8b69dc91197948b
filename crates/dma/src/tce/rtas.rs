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

use super::windows::Windows;
use super::{EndpointAddress, Hypervisor, hypervisor::State};
use std::fmt;
use std::time::Duration;

/// An RTAS call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub(super) fn cells(self) -> [u32; 3] {
        [self.config, (self.buid >> 32) as u32, self.buid as u32]
    }

    fn of_cells(config: u32, high: u32, low: u32) -> Self {
        Self { config, buid: join(high, low) }
    }
}

impl Hypervisor {
    /// Executes an RTAS call. `outputs` does not include the status and is changed only on success.
    pub fn rtas(&self, call: RtasCall, inputs: &[u32], outputs: &mut [u32]) -> RtasStatus {
        let State { windows, answers, .. } = &mut *self.state();
        let planned = answers.iter().position(|(planned, _)| *planned == call);
        if let Some((_, answer)) = planned.and_then(|place| answers.remove(place)) {
            return answer;
        }
        let done = match (call, inputs, outputs) {
            (RtasCall::Query, [config, high, low], outputs) => {
                query(windows, EndpointAddress::of_cells(*config, *high, *low), outputs)
            }
            (RtasCall::Create, [config, high, low, page, window], [liobn, bus_high, bus_low]) => {
                let address = EndpointAddress::of_cells(*config, *high, *low);
                windows.create(self.ram(), address, *page, *window).map(|(number, first)| {
                    [*liobn, *bus_high, *bus_low] = [number, (first.0 >> 32) as u32, first.0 as u32];
                })
            }
            (RtasCall::Remove, [liobn], []) => windows.remove(self.ram(), *liobn),
            (RtasCall::Reset, [config, high, low], []) => {
                windows.reset(self.ram(), EndpointAddress::of_cells(*config, *high, *low))
            }
            _ => None,
        };
        done.map_or(RtasStatus::Parameter, |()| RtasStatus::Success)
    }
}

fn query(windows: &Windows, address: EndpointAddress, outputs: &mut [u32]) -> Option<()> {
    let offer = windows.offer(address)?;
    let (windows_available, block) = (windows.available(address), windows.largest_block(address));
    let sizes = offer.page_sizes.0;
    // No page size is available for migration.
    let migration = 0;
    match outputs {
        [windows, entries, page_sizes, page_sizes_for_migration] => {
            let entries_at_most = u32::try_from(block).unwrap_or(u32::MAX);
            [*windows, *entries, *page_sizes, *page_sizes_for_migration] =
                [windows_available, entries_at_most, sizes, migration];
        }
        [windows, high, low, page_sizes, page_sizes_for_migration] if offer.query_in_six => {
            [*windows, *high, *low, *page_sizes, *page_sizes_for_migration] =
                [windows_available, (block >> 32) as u32, block as u32, sizes, migration];
        }
        _ => return None,
    }
    Some(())
}

/// A 64-bit number from two cells.
pub(super) fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
