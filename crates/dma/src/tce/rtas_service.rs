//! How the hypervisor answers the RTAS calls for DMA windows.

use super::hypervisor::State;
use super::rtas::{RtasCall, RtasStatus};
use super::windows::Windows;
use super::{EndpointAddress, Hypervisor};

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
                query(windows, EndpointAddress::from_cells(*config, *high, *low), outputs)
            }
            (RtasCall::Create, [config, high, low, page, window], [liobn, bus_high, bus_low]) => {
                let address = EndpointAddress::from_cells(*config, *high, *low);
                windows.create(self.ram(), address, *page, *window).map(|(number, first)| {
                    [*liobn, *bus_high, *bus_low] = [number, (first.0 >> 32) as u32, first.0 as u32];
                })
            }
            (RtasCall::Remove, [liobn], []) => windows.remove(self.ram(), *liobn),
            (RtasCall::Reset, [config, high, low], []) => {
                windows.reset(self.ram(), EndpointAddress::from_cells(*config, *high, *low))
            }
            _ => None,
        };
        done.map_or(RtasStatus::Parameter, |()| RtasStatus::Success)
    }
}

/// Answers `ibm,query-pe-dma-windows`; `None` for an unknown address or a wrong number of outputs.
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
