//! Mappings in call traces: which DMA path the kernel's code took, and the driver that asked for it.
//!
//! ```text
//!  iommu_dma_map_page+0xcc/0x170           the DMA path
//!  dma_map_page_attrs+0x5a/0xe0            the DMA API, which every path begins with
//!  nvme_queue_rq+0x1b1/0x6a0 [nvme]        the driver, if it is a module
//! ```
//!
//! A trace names a driver and no device. Its device is known where no other has that driver, or where the warning above the
//! trace begins with the device (`dev_WARN`).

use super::call_trace::Frame;
use super::function::module_name;
use crate::kernel::message::split_device;
use crate::{Bdf, Citation};
use std::collections::BTreeSet;

/// Lines of registers and code between the place of a warning and its callers.
const LINES_BETWEEN_MAX: u32 = 32;
/// More mappings of one log tell nothing new.
const MAPPINGS_MAX: usize = 64;

/// A DMA path that only one part of the kernel's code runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TracedPath {
    /// An IOMMU translates (drivers/iommu/dma-iommu.c).
    Translated,
    /// Nothing translates (kernel/dma/direct.c).
    Direct,
    /// Nothing translates, and the buffer is bounced (kernel/dma/swiotlb.c).
    Bounced,
}

/// A mapping that a call trace shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedMapping {
    /// The DMA path.
    pub path: TracedPath,
    /// The device that the warning above the trace begins with.
    pub device: Option<Bdf>,
    /// Modules that called, from the innermost on, with no other code between them.
    pub modules: BTreeSet<String>,
    /// The line with the code of the DMA path.
    pub at: Citation,
}

/// Code of one DMA path, by the start of its name.
const PATHS: [(&str, TracedPath); 16] = [
    ("iommu_dma_alloc", TracedPath::Translated),
    ("iommu_dma_free", TracedPath::Translated),
    ("iommu_dma_map", TracedPath::Translated),
    ("iommu_dma_unmap", TracedPath::Translated),
    ("__iommu_dma_map", TracedPath::Translated),
    ("__iommu_dma_unmap", TracedPath::Translated),
    ("swiotlb_tbl_map_single", TracedPath::Bounced),
    ("swiotlb_map", TracedPath::Bounced),
    ("dma_direct_alloc", TracedPath::Direct),
    ("__dma_direct_alloc", TracedPath::Direct),
    ("dma_direct_map", TracedPath::Direct),
    ("dma_direct_unmap", TracedPath::Direct),
    ("dma_direct_free", TracedPath::Direct),
    ("dma_generic_alloc_coherent", TracedPath::Direct),
    ("x86_swiotlb_alloc_coherent", TracedPath::Direct),
    ("swiotlb_alloc_coherent", TracedPath::Direct),
];

/// Code between a driver and a DMA path, by the start of its name.
const API: [&str; 7] =
    ["dma_", "__dma_", "dmam_", "pci_alloc_consistent", "pci_map_", "page_pool_dma_map", "__page_pool_"];

/// Follows a log through its call traces.
#[derive(Debug, Default)]
pub(super) struct TraceFollower {
    /// A line that begins a warning was the last one.
    is_cut_line: bool,
    /// The device of the warning.
    device: Option<Bdf>,
    /// The mapping whose callers are to come.
    open: Option<TracedMapping>,
    lines_left: u32,
    found: Vec<TracedMapping>,
}

impl TraceFollower {
    /// Takes a message, and the frame of a call trace if it is one.
    pub(super) fn take(&mut self, message: &str, frame: Option<&Frame<'_>>, cite: impl Fn() -> Citation) {
        let begins_warning = message.contains("[ cut here ]");
        if begins_warning || message.starts_with("---[ end trace") {
            self.close();
            self.device = None;
        }
        if self.is_cut_line && !begins_warning {
            self.device = split_device(message).0.and_then(|device| device.bdf);
        }
        self.is_cut_line = begins_warning;
        match frame {
            Some(frame) if frame.is_certain => self.take_frame(frame, cite),
            Some(_) => {}
            None => {
                self.lines_left = self.lines_left.saturating_sub(1);
                if self.lines_left == 0 {
                    self.close();
                }
            }
        }
    }

    /// Takes a frame of a call trace.
    fn take_frame(&mut self, frame: &Frame<'_>, cite: impl Fn() -> Citation) {
        self.lines_left = LINES_BETWEEN_MAX;
        let path = PATHS.iter().find(|(start, _)| frame.function.starts_with(start)).map(|(_, path)| *path);
        let is_within = self.open.as_ref().is_some_and(|open| !open.modules.is_empty());
        match (path, &mut self.open, frame.module) {
            // Buffers of a translated device are bounced below the code of its IOMMU.
            (Some(path), Some(open), _) if !is_within => {
                if path == TracedPath::Translated {
                    (open.path, open.at) = (path, cite());
                }
            }
            (Some(path), _, _) => {
                self.close();
                let device = self.device;
                self.open = Some(TracedMapping { path, device, modules: BTreeSet::new(), at: cite() });
            }
            (None, Some(open), Some(module)) => {
                open.modules.insert(module_name(module));
            }
            (None, Some(_), None) => {
                let is_api = API.iter().any(|start| frame.function.starts_with(start));
                if !is_api || is_within {
                    self.close();
                }
            }
            (None, None, _) => {}
        }
    }

    /// Keeps the mapping whose callers are known.
    fn close(&mut self) {
        let open = self.open.take().filter(|open| open.device.is_some() || !open.modules.is_empty());
        if self.found.len() < MAPPINGS_MAX {
            self.found.extend(open);
        }
    }

    /// The mappings.
    pub(super) fn into_list(mut self) -> Vec<TracedMapping> {
        self.close();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::super::call_trace;
    use super::*;

    fn mappings(log: &str) -> Vec<(TracedPath, Option<String>, String)> {
        let mut follower = TraceFollower::default();
        for line in log.lines() {
            follower.take(line, call_trace::frame(line).as_ref(), || Citation::of_file("dmesg", line));
        }
        let shown = |mapping: TracedMapping| {
            let modules: Vec<String> = mapping.modules.into_iter().collect();
            (mapping.path, mapping.device.map(|device| device.to_string()), modules.join(" "))
        };
        follower.into_list().into_iter().map(shown).collect()
    }

    #[test]
    fn the_driver_that_calls() {
        let log = "Call Trace:\n <TASK>\n ? show_regs+0x1/0x2\n iommu_dma_alloc_iova+0xa2/0x190\n iommu_dma_map_sg+0x447/0x4e0\n \
                   __dma_map_sg_attrs+0x139/0x1b0\n dma_map_sgtable+0x21/0x50\n nvme_map_data+0x6c/0x820 [nvme]\n nvme_queue_rq+0x1/0x2 [nvme]\n \
                   blk_mq_dispatch_rq_list+0x1/0x2\n megasas_complete_cmd+0x1/0x2 [megaraid_sas]";
        assert_eq!(mappings(log), [(TracedPath::Translated, None, "nvme".to_owned())]);
        let log = "swiotlb_alloc_coherent+0x67/0x130\n [<ffffffff81046119>] x86_swiotlb_alloc_coherent+0x59/0x60\n \
                   [<ffffffffa0104e3a>] alloc_dma_memory+0x8a/0xe0 [fbcapture]";
        assert_eq!(mappings(log), [(TracedPath::Direct, None, "fbcapture".to_owned())]);
        let log = "RIP: 0010:swiotlb_tbl_map_single+0x2c4/0x300\nCode: 00 00\nRSP: 0018:0\nCall Trace:\n swiotlb_map+0x2c0/0x2f0\n \
                   dma_map_page_attrs+0x242/0x280\n page_pool_dma_map+0x30/0x70\n mt76_dma_rx_fill.isra.0+0x132/0x390 [mt76]\n \
                   mt7921_pci_probe+0x387/0x430 [mt7921e]\n local_pci_probe+0x1/0x2";
        assert_eq!(mappings(log), [(TracedPath::Bounced, None, "mt76 mt7921e".to_owned())]);
    }

    #[test]
    fn buffers_of_a_translated_device_may_be_bounced() {
        let log = " swiotlb_tbl_map_single+0x1/0x2\n iommu_dma_map_page+0x1/0x2\n dma_map_page_attrs+0x1/0x2\n igc_xmit+0x1/0x2 [igc]";
        assert_eq!(mappings(log), [(TracedPath::Translated, None, "igc".to_owned())]);
    }

    #[test]
    fn the_device_that_a_warning_begins_with() {
        let log = "------------[ cut here ]------------\nnvme 0000:01:00.0: Alloc alignment may prevent fulfilling requests with max mapping_size\n\
                   WARNING: CPU: 3 PID: 812 at kernel/dma/swiotlb.c:1378 swiotlb_tbl_map_single+0x2c4/0x300\nModules linked in: nvme\n\
                   Call Trace:\n dma_map_page_attrs+0x1/0x2\n nvme_queue_rq+0x1/0x2\n---[ end trace 0000000000000000 ]---";
        assert_eq!(mappings(log), [(TracedPath::Bounced, Some("0000:01:00.0".to_owned()), String::new())]);
    }

    #[test]
    fn traces_that_show_no_driver() {
        for log in [
            // A driver that is built in: what is below it is somebody else's.
            " iommu_dma_unmap_page+0x38/0xe0\n dma_unmap_page_attrs+0x38/0x1d0\n enetc_unmap_tx_buff.isra.0+0x6c/0x80\n x+0x1/0x2 [igc]",
            // VT-d's own operations allocate directly and map then.
            " dma_direct_alloc+0x1/0x2\n intel_alloc_coherent+0x1/0x2\n dma_alloc_attrs+0x1/0x2\n nvme_probe+0x1/0x2 [nvme]",
            " ? iommu_dma_map_page+0x1/0x2\n nvme_queue_rq+0x1/0x2 [nvme]",
            " dma_map_page_attrs+0x1/0x2\n nvme_queue_rq+0x1/0x2 [nvme]",
        ] {
            assert_eq!(mappings(log), [], "{log}");
        }
    }
}
