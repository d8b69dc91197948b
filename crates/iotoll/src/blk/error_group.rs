//! What a controller's error log says: entries by queue, status and range of blocks, what each status means, and what to do.

use nvme::spec::error_log::ErrorEntry;
use nvme::spec::status::Status;
use std::ops::RangeInclusive;

/// Errors whose blocks are at most this far apart are one group: a command often reads or writes some hundred blocks.
const NEAR_BLOCKS: u64 = 256;
/// Queue of errors that are of no command.
const NO_QUEUE: u16 = 0xffff;
/// NSID that stands for all namespaces.
const ALL_NAMESPACES: u32 = u32::MAX;

/// Entries with the same queue and status, whose blocks are near each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorGroup {
    pub(super) count: usize,
    pub(super) queue: u16,
    pub(super) status: Status,
    /// The namespace, if the errors are of one.
    pub(super) namespace: Option<u32>,
    /// First and last block of the entries, if the errors are of blocks.
    pub(super) blocks: Option<RangeInclusive<u64>>,
}

/// Groups the entries of a log, the largest group first.
pub(super) fn groups(entries: &[ErrorEntry]) -> Vec<ErrorGroup> {
    let mut singles: Vec<ErrorGroup> = entries.iter().map(ErrorGroup::of_entry).collect();
    let first = |group: &ErrorGroup| group.blocks.as_ref().map(|blocks| *blocks.start());
    singles.sort_by_key(|group| (group.key(), first(group)));
    let mut groups: Vec<ErrorGroup> = Vec::new();
    for single in singles {
        match groups.last_mut().filter(|last| last.takes(&single)) {
            Some(last) => last.add(single),
            None => groups.push(single),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

impl ErrorGroup {
    /// A group of one entry.
    fn of_entry(entry: &ErrorEntry) -> Self {
        let ErrorEntry { queue, status, namespace, block, .. } = *entry;
        // Do Not Retry and the other flags are no other error.
        let status = Status::of(status.kind(), status.code());
        let namespace = (namespace != 0 && namespace != ALL_NAMESPACES).then_some(namespace);
        // Admin commands have other fields where I/O commands have their LBA.
        let is_of_blocks = queue != 0 && queue != NO_QUEUE && namespace.is_some();
        Self { count: 1, queue, status, namespace, blocks: is_of_blocks.then_some(block..=block) }
    }

    /// What entries of one group have in common.
    fn key(&self) -> (u16, u16, Option<u32>, bool) {
        (self.queue, self.status.0, self.namespace, self.blocks.is_some())
    }

    /// Whether a later group of one entry belongs to this one.
    fn takes(&self, single: &Self) -> bool {
        let is_near = match (&self.blocks, &single.blocks) {
            (Some(these), Some(those)) => those.start().saturating_sub(*these.end()) <= NEAR_BLOCKS,
            _ => true,
        };
        self.key() == single.key() && is_near
    }

    /// Adds a group that [belongs](Self::takes) to this one.
    fn add(&mut self, single: Self) {
        self.count += single.count;
        if let (Some(these), Some(those)) = (&self.blocks, single.blocks) {
            self.blocks = Some(*these.start()..=*those.end());
        }
    }

    /// What happened, how often, and where.
    pub(super) fn sentence(&self) -> String {
        let count = self.count;
        let plural = if count == 1 { "" } else { "s" };
        let what = match (self.status.kind(), self.status.code(), self.status.meaning()) {
            (2, 0x80 | 0x81, Some(meaning)) => format!("{count} {meaning}{plural}"),
            (_, _, Some(meaning)) => format!("{count} command{plural} failed with \"{meaning}\""),
            (kind, code, None) => {
                format!("{count} command{plural} failed with unknown status {code:#04x} of type {kind}")
            }
        };
        let blocks = match &self.blocks {
            Some(blocks) if blocks.start() == blocks.end() => format!(" at block {}", blocks.start()),
            Some(blocks) => format!(" in blocks {} to {}", blocks.start(), blocks.end()),
            None => String::new(),
        };
        let namespace = self.namespace.map(|number| format!(" of namespace {number}")).unwrap_or_default();
        let queue = match self.queue {
            0 => "the admin queue".to_owned(),
            NO_QUEUE => "no queue".to_owned(),
            number => format!("queue {number}"),
        };
        format!("{what}{blocks}{namespace} ({queue})")
    }

    /// What the status means, and what to do. Says no more than the specification does.
    pub(super) fn advice(&self) -> &'static str {
        match (self.status.kind(), self.status.code()) {
            (0, 0x01) => {
                "The controller does not know the command. No data is affected: a program or the driver tried what this disk does not have"
            }
            (0, 0x02) => {
                "The controller does not take a value in the command. No data is affected: a program or the driver asked for what this disk does not have"
            }
            (0, 0x04) => {
                "Data did not get to or from memory. Look for IOMMU faults and PCIe errors: iotoll inspect"
            }
            (0, 0x05) => "The controller was told that power would be lost. Check the power supply",
            (0, 0x06) => {
                "The controller failed inside; the status does not say why. Ask the vendor if it comes again"
            }
            (0, 0x07 | 0x08) => {
                "The host aborted the command or deleted its queue; the status does not say why. The kernel's log has its timeouts"
            }
            (0, 0x20) => "The namespace is write protected: it stays as it is until that is changed",
            (0, 0x80) => {
                "A command reached beyond the end of the namespace. Compare the partition table with the namespace's size"
            }
            (0, 0x81) => "The disk has no space for the write: its blocks exceed what it can store",
            (0, 0x82) => {
                "The namespace was not ready. If it stays so, the status does not say why: ask the vendor"
            }
            (0, 0x83) => "Another host holds a reservation of the namespace",
            (1, 0x82) => "The blocks written are read-only",
            (2, 0x80) => {
                "The disk could not store what was written there. Copy what it holds, see iotoll blk health, and replace it"
            }
            (2, 0x81) => {
                "The disk could not read what it has there; without a copy elsewhere that data is lost. Restore it, see iotoll blk health, and replace the disk if the errors go on"
            }
            (2, 0x82..=0x84) => {
                "Data and its protection information do not match. The status does not say which of the two is wrong, nor where it was changed"
            }
            (2, 0x85) => {
                "A Compare command found other data than in memory. That is its answer, and no fault of the disk"
            }
            (2, 0x86) => "Access to the blocks is denied, for example because they are locked",
            (2, 0x87) => "The blocks were never written, or were deallocated",
            (3, _) => {
                "The path to the disk failed, not the disk. Check the adapter and its link: iotoll inspect"
            }
            (7, _) => "The status is the vendor's own. Only the vendor can say what it means",
            _ => "The status does not say more",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(queue: u16, status: Status, namespace: u32, block: u64) -> ErrorEntry {
        ErrorEntry { count: 1, queue, identifier: 7, status, block, namespace }
    }

    fn sentences(entries: &[ErrorEntry]) -> Vec<String> {
        groups(entries).iter().map(ErrorGroup::sentence).collect()
    }

    #[test]
    fn errors_close_to_each_other_are_one_group() {
        let read = |block| entry(1, Status::UNRECOVERED_READ, 1, block);
        let again = entry(1, Status::UNRECOVERED_READ.with_do_not_retry(), 1, 2007);
        assert_eq!(
            sentences(&[again, read(9000), read(2000), read(2003)]),
            [
                "3 unrecovered read errors in blocks 2000 to 2007 of namespace 1 (queue 1)",
                "1 unrecovered read error at block 9000 of namespace 1 (queue 1)"
            ]
        );
        assert_eq!(sentences(&[read(0), read(NEAR_BLOCKS)]).len(), 1);
        assert_eq!(sentences(&[read(0), read(NEAR_BLOCKS + 1)]).len(), 2);
    }

    #[test]
    fn queue_status_and_namespace_separate_groups() {
        let entries = [
            entry(1, Status::WRITE_FAULT, 1, 5),
            entry(2, Status::WRITE_FAULT, 1, 5),
            entry(1, Status::WRITE_FAULT, 2, 5),
            entry(1, Status::LBA_OUT_OF_RANGE, 1, 5),
        ];
        assert_eq!(groups(&entries).len(), 4);
    }

    /// The field of an admin command's LBA means nothing.
    #[test]
    fn admin_commands_have_no_blocks() {
        let of_namespace = [entry(0, Status::INVALID_FIELD, 1, 77)];
        assert_eq!(
            sentences(&of_namespace),
            ["1 command failed with \"invalid field in command\" of namespace 1 (the admin queue)"]
        );
        let entries = [entry(0, Status::INVALID_FIELD, 0, 77), entry(0, Status::INVALID_FIELD, 0, 7_000_000)];
        assert_eq!(
            sentences(&entries),
            ["2 commands failed with \"invalid field in command\" (the admin queue)"]
        );
        let of_none = [entry(NO_QUEUE, Status::of(0, 6), u32::MAX, 3)];
        assert_eq!(sentences(&of_none), ["1 command failed with \"internal error\" (no queue)"]);
    }

    #[test]
    fn an_unknown_status_is_not_guessed_at() {
        let [group] = &groups(&[entry(1, Status::of(7, 0x42), 1, 3)])[..] else { panic!() };
        assert!(
            group.sentence().starts_with("1 command failed with unknown status 0x42 of type 7 at block 3")
        );
        assert_eq!(group.advice(), "The status is the vendor's own. Only the vendor can say what it means");
        let [group] = &groups(&[entry(1, Status::of(1, 0x7f), 1, 3)])[..] else { panic!() };
        assert_eq!(group.advice(), "The status does not say more");
    }

    /// Each entry is in one group, whatever a controller reports.
    #[test]
    fn every_entry_is_counted() {
        let statuses = (0..1 << 15).step_by(37).map(Status);
        let entries: Vec<ErrorEntry> = statuses
            .zip(0_u64..)
            .map(|(status, place)| {
                let block = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                entry((place % 3) as u16, status, (place % 4) as u32, block)
            })
            .collect();
        let groups = groups(&entries);
        assert_eq!(groups.iter().map(|group| group.count).sum::<usize>(), entries.len());
        assert!(groups.iter().all(|group| !group.sentence().is_empty() && !group.advice().is_empty()));
    }
}
