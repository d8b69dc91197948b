//! Counts QEMU's trace events by window.
//!
//! The plugin writes lines into QEMU's log where windows begin and end and where the running virtual CPU changes.
//! The trace events between these lines belong to the window: QEMU executes hypercalls and IOMMU commands on the
//! virtual CPU that makes the hypercall or writes the IOMMU's register.

use crate::Arch;
use std::collections::BTreeMap;
use std::io::BufRead;
use toll::Event;

/// The trace events that show the progress of NVMe requests, each with the plugin's option for it. `prompt` is a
/// command that the controller completes without the disk.
pub const REQUESTS: [(&str, &str); 9] = [
    ("rung", "pci_nvme_mmio_doorbell_sq"),
    ("prompt", "pci_nvme_admin_cmd"),
    ("started", "pci_nvme_io_cmd"),
    ("sized", "pci_nvme_read"),
    ("sent", "pci_nvme_write"),
    ("finished", "pci_nvme_enqueue_req_completion"),
    ("raised", "pci_nvme_irq_msix"),
    ("raised", "pci_nvme_irq_pin"),
    ("raised", "pci_nvme_irq_masked"),
];
/// Text in the trace event of an Asynchronous Event Request, which completes only when an event occurs (NVMe base
/// specification 2.0, 5.2).
pub const LASTING: &str = "ASYNC_EV_REQ";

/// An event in one line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TracedEvent {
    event: Event,
    name: String,
    times: u64,
}

/// The trace events of one window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowEvents {
    /// The virtual CPU that the window was on.
    pub vcpu: u32,
    /// How often each event happened, by kind and name.
    pub times: BTreeMap<(Event, String), u64>,
}

/// Why a log can't be parsed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file can't be read.
    #[error("can't read QEMU's log")]
    Io(#[from] std::io::Error),
    /// A line of a known event has an unexpected format.
    #[error("QEMU's log, line {line}: invalid event `{text}`; expected {expected}")]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// The line's beginning.
        text: String,
        /// What was expected in it.
        expected: &'static str,
    },
}

/// The trace events to enable for an architecture: those that are counted, and those of [`REQUESTS`].
pub fn events(arch: Arch) -> Vec<&'static str> {
    let own: &[&str] = match arch {
        Arch::X86 => &[
            "vtd_inv_desc_iotlb_global",
            "vtd_inv_desc_iotlb_domain",
            "vtd_inv_desc_iotlb_pages",
            "vtd_inv_desc_iotlb_pasid",
            "vtd_inv_desc_iotlb_pasid_pages",
            "amdvi_pages_inval",
            "amdvi_all_inval",
            "amdvi_iotlb_inval",
            "virtio_iommu_map",
            "virtio_iommu_unmap",
        ],
        Arch::Arm => &["smmuv3_cmdq_opcode"],
        Arch::Ppc => &[
            "spapr_iommu_pci_put",
            "spapr_iommu_pci_indirect",
            "spapr_iommu_pci_stuff",
            "spapr_iommu_pci_get",
            "spapr_iommu_ddw_query",
            "spapr_iommu_ddw_create",
            "spapr_iommu_ddw_remove",
            "spapr_iommu_ddw_reset",
        ],
    };
    own.iter().copied().chain(REQUESTS.iter().map(|(_, event)| *event)).collect()
}

/// Reads a log. The windows are in the order of their ends, as in the plugin's record.
///
/// # Errors
/// [`TraceError`], with the line if one is invalid.
pub fn read_log(mut log: impl BufRead) -> Result<Vec<WindowEvents>, TraceError> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if log.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        reader.process_line(text.trim_end()).map_err(|expected| TraceError::Line {
            line: number,
            text: text.chars().take(100).collect(),
            expected,
        })?;
    }
    Ok(reader.ended)
}

/// The state while a log is read.
#[derive(Default)]
struct Reader {
    /// The virtual CPU that is running.
    vcpu: u32,
    open: BTreeMap<u32, WindowEvents>,
    ended: Vec<WindowEvents>,
}

impl Reader {
    /// Processes a line of the plugin, or counts an event of the current window. The error is what was expected.
    fn process_line(&mut self, line: &str) -> Result<(), &'static str> {
        if let Some(mark) = line.strip_prefix("iotoll ") {
            return self.process_mark(mark).ok_or("`iotoll begin|end|on|phase` and a virtual CPU's number");
        }
        let Some(window) = self.open.get_mut(&self.vcpu) else { return Ok(()) };
        for traced in parse_events(line)? {
            let times = window.times.entry((traced.event, traced.name)).or_default();
            *times = times.checked_add(traced.times).ok_or("counts of a window below 2^64 in all")?;
        }
        Ok(())
    }

    /// Processes a line of the plugin: a word and the number of the virtual CPU that now runs.
    fn process_mark(&mut self, mark: &str) -> Option<()> {
        let (word, vcpu) = mark.split_once(' ')?;
        self.vcpu = vcpu.parse().ok()?;
        match word {
            "begin" => {
                let window = WindowEvents { vcpu: self.vcpu, ..WindowEvents::default() };
                self.open.insert(self.vcpu, window);
            }
            "end" => self.ended.extend(self.open.remove(&self.vcpu)),
            "on" | "phase" => {}
            _ => return None,
        }
        Some(())
    }
}

/// The counted events of a trace line; none if its event is not counted. The error is what was expected.
fn parse_events(line: &str) -> Result<Vec<TracedEvent>, &'static str> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let one = |event, name: &str, times| TracedEvent { event, name: name.to_owned(), times };
    let hypercall =
        |name, entries| vec![one(Event::Hypercalls, name, 1), one(Event::TableEntries, name, entries)];
    Ok(match name {
        "spapr_iommu_pci_put" => hypercall("H_PUT_TCE", 1),
        "spapr_iommu_pci_indirect" => hypercall("H_PUT_TCE_INDIRECT", indirect_entries(rest)?),
        "spapr_iommu_pci_stuff" => {
            hypercall("H_STUFF_TCE", decimal(rest, "npages=").ok_or("a number after npages=")?)
        }
        "spapr_iommu_pci_get" => vec![one(Event::Hypercalls, "H_GET_TCE", 1)],
        "virtio_iommu_map" | "virtio_iommu_unmap" => vec![one(Event::Hypercalls, name, 1)],
        "smmuv3_cmdq_opcode" => smmu_command(rest).into_iter().collect(),
        _ => match name.split_at_checked("vtd_inv_desc_".len()) {
            Some(("vtd_inv_desc_", kind)) if kind.starts_with("iotlb") => {
                vec![one(Event::Invalidations, &format!("VT-d {}", kind.replace('_', " ")), 1)]
            }
            _ => window_operation(name).or_else(|| amd_invalidation(name)).into_iter().collect(),
        },
    })
}

/// A DMA window operation of POWER, by the trace event's name.
fn window_operation(name: &str) -> Option<TracedEvent> {
    let operation = name.strip_prefix("spapr_iommu_ddw_")?;
    Some(TracedEvent { event: Event::WindowOperations, name: operation.to_owned(), times: 1 })
}

/// An invalidation of AMD-Vi, by the trace event's name.
fn amd_invalidation(name: &str) -> Option<TracedEvent> {
    let kind = name.strip_prefix("amdvi_")?.strip_suffix("_inval")?;
    Some(TracedEvent { event: Event::Invalidations, name: format!("AMD-Vi {kind}"), times: 1 })
}

/// An invalidation command of the SMMU (of its TLB, or of an adapter's ATC); `None` for its other commands.
fn smmu_command(rest: &str) -> Option<TracedEvent> {
    let command = rest.trim_start_matches(['<', '-', ' ']).strip_prefix("SMMU_CMD_")?;
    let invalidates = command.starts_with("TLBI") || command.starts_with("ATC_INV");
    invalidates.then(|| TracedEvent {
        event: Event::Invalidations,
        name: format!("SMMU {command}"),
        times: 1,
    })
}

/// Entries written by an H_PUT_TCE_INDIRECT. QEMU traces the index of the last one as `iobaN`.
fn indirect_entries(rest: &str) -> Result<u64, &'static str> {
    let last = hexadecimal(rest, " iobaN=").ok_or("a number after iobaN=")?;
    Ok(last.saturating_add(1))
}

/// The word directly behind a label.
fn word_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.split_once(label)?.1.split_ascii_whitespace().next()
}

/// The hexadecimal number directly behind a label.
fn hexadecimal(text: &str, label: &str) -> Option<u64> {
    u64::from_str_radix(word_after(text, label)?.trim_start_matches("0x"), 16).ok()
}

/// The decimal number directly behind a label.
fn decimal(text: &str, label: &str) -> Option<u64> {
    word_after(text, label)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;

    fn check(lines: &str, expected: &[(Event, &str, u64)]) {
        let log = format!("iotoll begin 0\n{lines}iotoll end 0\n");
        let windows = read_log(log.as_bytes()).unwrap();
        let expected =
            expected.iter().map(|(event, name, times)| ((*event, (*name).to_owned()), *times)).collect();
        assert_eq!(windows, [WindowEvents { vcpu: 0, times: expected }]);
    }

    #[test]
    fn hypercalls_count_with_the_table_entries_they_write() {
        check(
            "spapr_iommu_pci_put liobn=0x80000000 ioba=0x4c50000 tce=0x2d70003 ret=0\n\
             spapr_iommu_xlate liobn=0x80000000 0x30020008 -> 0x2150000 perm=3 mask=0xfff\n\
             spapr_iommu_pci_indirect liobn=0x80000000 ioba=0x4000 tcelist=0x1000 iobaN=0x1f tceN=0x3 ret=0\n\
             spapr_iommu_pci_stuff liobn=0x80000000 ioba=0x4c51000 tcevalue=0x0 npages=33 ret=0\n",
            &[
                (Event::Hypercalls, "H_PUT_TCE", 1),
                (Event::Hypercalls, "H_PUT_TCE_INDIRECT", 1),
                (Event::Hypercalls, "H_STUFF_TCE", 1),
                (Event::TableEntries, "H_PUT_TCE", 1),
                (Event::TableEntries, "H_PUT_TCE_INDIRECT", 32),
                (Event::TableEntries, "H_STUFF_TCE", 33),
            ],
        );
    }

    #[test]
    fn invalidations_of_vt_d_amd_vi_and_the_smmu_are_counted() {
        check(
            "vtd_inv_desc_iotlb_pages iotlb invalidate domain 0x1 addr 0xfffff000 mask 0x0\n\
             vtd_inv_desc_wait_sw wait invalidate status write addr 0x1 data 0x2\n\
             amdvi_pages_inval AMD-Vi pages for domain 0x1 invalidated\n\
             smmuv3_cmdq_opcode <--- SMMU_CMD_TLBI_NH_VA\n\
             smmuv3_cmdq_opcode <--- SMMU_CMD_SYNC\n",
            &[
                (Event::Invalidations, "AMD-Vi pages", 1),
                (Event::Invalidations, "SMMU TLBI_NH_VA", 1),
                (Event::Invalidations, "VT-d iotlb pages", 1),
            ],
        );
    }

    #[test]
    fn events_belong_to_the_window_of_the_running_virtual_cpu() {
        let log = "vtd_inv_desc_iotlb_global iotlb invalidate global\n\
                   iotoll begin 0\niotoll begin 1\n\
                   amdvi_all_inval Invalidation\niotoll on 0\namdvi_all_inval Invalidation\n\
                   amdvi_all_inval Invalidation\niotoll end 1\niotoll end 0\n";
        let windows = read_log(log.as_bytes()).unwrap();
        let times = |window: usize| windows[window].times.values().sum::<u64>();
        assert_eq!(windows.len(), 2);
        assert_eq!((windows[0].vcpu, times(0)), (1, 1));
        assert_eq!((windows[1].vcpu, times(1)), (0, 2));
    }

    #[test]
    fn an_invalid_line_is_an_error_with_its_number() {
        let log = "iotoll begin 0\nspapr_iommu_pci_stuff liobn=0x8 npages=many\n";
        let wrong = read_log(log.as_bytes()).unwrap_err().to_string();
        assert!(wrong.contains("line 2") && wrong.contains("npages="), "{wrong}");
        assert!(read_log(&b"iotoll ends\n"[..]).is_err());
        let twice = "spapr_iommu_pci_stuff npages=18446744073709551615\n".repeat(2);
        let wrong = read_log(format!("iotoll begin 0\n{twice}").as_bytes()).unwrap_err().to_string();
        assert!(wrong.contains("line 3") && wrong.contains("below 2^64"), "{wrong}");
    }

    proptest! {
        #[test]
        fn any_log_is_read_or_refused(lines in proptest::collection::vec("[ -~]{0,60}", 0..30)) {
            let _ = read_log(lines.join("\n").as_bytes());
        }
    }
}
