//! Status codes of completions (Base, 3.3.3.2.1; NVM, 3.1.3.3).

use std::fmt;

/// A completion's status field, without the phase tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(pub u16);

/// Status code type, status code, and their meaning in the specification.
const MEANINGS: &[(u8, u8, &str)] = &[
    (0, 0x00, "successful completion"),
    (0, 0x01, "invalid command opcode"),
    (0, 0x02, "invalid field in command"),
    (0, 0x03, "command ID conflict"),
    (0, 0x04, "data transfer error"),
    (0, 0x05, "aborted due to power loss notification"),
    (0, 0x06, "internal error"),
    (0, 0x07, "abort requested"),
    (0, 0x08, "aborted due to submission queue deletion"),
    (0, 0x0b, "invalid namespace or format"),
    (0, 0x0c, "command sequence error"),
    (0, 0x0d, "invalid SGL segment descriptor"),
    (0, 0x0e, "invalid number of SGL descriptors"),
    (0, 0x0f, "data SGL length invalid"),
    (0, 0x11, "SGL descriptor type invalid"),
    (0, 0x13, "PRP offset invalid"),
    (0, 0x1c, "sanitize failed"),
    (0, 0x1d, "sanitize in progress"),
    (0, 0x20, "namespace is write protected"),
    (0, 0x21, "command interrupted"),
    (0, 0x22, "transient transport error"),
    (0, 0x80, "LBA out of range"),
    (0, 0x81, "capacity exceeded"),
    (0, 0x82, "namespace not ready"),
    (0, 0x83, "reservation conflict"),
    (0, 0x84, "format in progress"),
    (1, 0x00, "completion queue invalid"),
    (1, 0x01, "invalid queue identifier"),
    (1, 0x02, "invalid queue size"),
    (1, 0x03, "abort command limit exceeded"),
    (1, 0x06, "invalid firmware slot"),
    (1, 0x07, "invalid firmware image"),
    (1, 0x08, "invalid interrupt vector"),
    (1, 0x0a, "invalid format"),
    (1, 0x0b, "firmware activation requires conventional reset"),
    (1, 0x0c, "invalid queue deletion"),
    (1, 0x10, "firmware activation requires NVM subsystem reset"),
    (1, 0x11, "firmware activation requires controller level reset"),
    (1, 0x12, "firmware activation requires maximum time violation"),
    (1, 0x13, "firmware activation prohibited"),
    (1, 0x14, "overlapping range"),
    (1, 0x15, "namespace insufficient capacity"),
    (1, 0x16, "namespace identifier unavailable"),
    (1, 0x18, "namespace already attached"),
    (1, 0x19, "namespace is private"),
    (1, 0x1a, "namespace not attached"),
    (1, 0x1b, "thin provisioning not supported"),
    (1, 0x1c, "controller list invalid"),
    (1, 0x1d, "device self-test in progress"),
    (1, 0x1f, "invalid controller identifier"),
    (1, 0x24, "ANA group identifier invalid"),
    (1, 0x25, "ANA attach failed"),
    (1, 0x26, "insufficient capacity"),
    (1, 0x27, "namespace attachment limit exceeded"),
    (1, 0x29, "I/O command set not supported"),
    (1, 0x2a, "I/O command set not enabled"),
    (1, 0x2b, "I/O command set combination rejected"),
    (1, 0x2c, "invalid I/O command set"),
    (1, 0x2d, "identifier unavailable"),
    (1, 0x80, "conflicting attributes"),
    (1, 0x82, "attempted write to read only range"),
    (1, 0x83, "command size limit exceeded"),
    (1, 0xb8, "zone boundary error"),
    (1, 0xb9, "zone is full"),
    (1, 0xba, "zone is read only"),
    (1, 0xbb, "zone is offline"),
    (1, 0xbc, "zone invalid write"),
    (1, 0xbd, "too many active zones"),
    (1, 0xbe, "too many open zones"),
    (1, 0xbf, "invalid zone state transition"),
    (2, 0x80, "write fault"),
    (2, 0x81, "unrecovered read error"),
    (2, 0x82, "end-to-end guard check error"),
    (2, 0x83, "end-to-end application tag check error"),
    (2, 0x84, "end-to-end reference tag check error"),
    (2, 0x85, "compare failure"),
    (2, 0x86, "access denied"),
    (2, 0x87, "deallocated or unwritten logical block"),
    (3, 0x00, "internal path error"),
    (3, 0x02, "asymmetric access inaccessible"),
    (3, 0x70, "host pathing error"),
    (3, 0x71, "command aborted by host"),
];

impl Status {
    /// Successful completion.
    pub const SUCCESS: Self = Self(0);
    /// A field of the command has an invalid value.
    pub const INVALID_FIELD: Self = Self::of(0, 0x02);
    /// The opcode is not supported.
    pub const INVALID_OPCODE: Self = Self::of(0, 0x01);
    /// Data could not be transferred to or from the command's addresses.
    pub const DATA_TRANSFER: Self = Self::of(0, 0x04);
    /// Aborted by an Abort command.
    pub const ABORTED: Self = Self::of(0, 0x07);
    /// The namespace does not exist.
    pub const INVALID_NAMESPACE: Self = Self::of(0, 0x0b);
    /// A PRP entry after the first does not begin a page.
    pub const INVALID_PRP_OFFSET: Self = Self::of(0, 0x13);
    /// The blocks reach beyond the end of the namespace.
    pub const LBA_OUT_OF_RANGE: Self = Self::of(0, 0x80);
    /// The queue identifier is in use, or does not exist.
    pub const INVALID_QUEUE: Self = Self::of(1, 0x01);
    /// The firmware slot does not exist, or can't be written.
    pub const INVALID_FIRMWARE_SLOT: Self = Self::of(1, 0x06);
    /// The controller does not accept the firmware image.
    pub const INVALID_FIRMWARE_IMAGE: Self = Self::of(1, 0x07);
    /// The image is committed; a conventional reset of the adapter activates it.
    pub const NEEDS_CONVENTIONAL_RESET: Self = Self::of(1, 0x0b);
    /// The image is committed; a reset of the NVM subsystem activates it.
    pub const NEEDS_SUBSYSTEM_RESET: Self = Self::of(1, 0x10);
    /// The image is committed; a reset of the controller activates it.
    pub const NEEDS_CONTROLLER_RESET: Self = Self::of(1, 0x11);
    /// Parts of the firmware image overlap.
    pub const OVERLAPPING_RANGE: Self = Self::of(1, 0x14);
    /// No LBA format has this number, or it does not go with the protection.
    pub const INVALID_FORMAT: Self = Self::of(1, 0x0a);
    /// Less is unallocated than the namespace needs.
    pub const NAMESPACE_CAPACITY: Self = Self::of(1, 0x15);
    /// As many namespaces are allocated as the controller allows.
    pub const NAMESPACE_UNAVAILABLE: Self = Self::of(1, 0x16);
    /// The namespace is attached to the controller already.
    pub const NAMESPACE_ATTACHED: Self = Self::of(1, 0x18);
    /// The namespace is attached to another controller, and may not be shared.
    pub const NAMESPACE_PRIVATE: Self = Self::of(1, 0x19);
    /// The namespace is not attached to the controller.
    pub const NAMESPACE_NOT_ATTACHED: Self = Self::of(1, 0x1a);
    /// A namespace can't have less capacity than size.
    pub const NO_THIN_PROVISIONING: Self = Self::of(1, 0x1b);
    /// The list of controllers is empty or has one that does not exist.
    pub const INVALID_CONTROLLER_LIST: Self = Self::of(1, 0x1c);
    /// A self-test is running.
    pub const SELF_TEST_IN_PROGRESS: Self = Self::of(1, 0x1d);
    /// A namespace of this command set can't be created.
    pub const COMMAND_SET_NOT_SUPPORTED: Self = Self::of(1, 0x29);
    /// A Copy exceeds a limit of the namespace.
    pub const SIZE_LIMIT: Self = Self::of(1, 0x83);
    /// The blocks reach beyond a zone, or beyond what can be written of it.
    pub const ZONE_BOUNDARY: Self = Self::of(1, 0xb8);
    /// The zone is full.
    pub const ZONE_FULL: Self = Self::of(1, 0xb9);
    /// The zone can't be written any more.
    pub const ZONE_READ_ONLY: Self = Self::of(1, 0xba);
    /// The zone can neither be read nor written.
    pub const ZONE_OFFLINE: Self = Self::of(1, 0xbb);
    /// The write does not begin at the zone's write pointer.
    pub const ZONE_INVALID_WRITE: Self = Self::of(1, 0xbc);
    /// As many zones are active as the controller allows.
    pub const TOO_MANY_ACTIVE_ZONES: Self = Self::of(1, 0xbd);
    /// As many zones are open as the controller allows.
    pub const TOO_MANY_OPEN_ZONES: Self = Self::of(1, 0xbe);
    /// The zone's state does not allow the action.
    pub const INVALID_ZONE_TRANSITION: Self = Self::of(1, 0xbf);
    /// The data can't be read from the media.
    pub const UNRECOVERED_READ: Self = Self::of(2, 0x81);
    /// The data can't be written to the media.
    pub const WRITE_FAULT: Self = Self::of(2, 0x80);
    /// The data in memory differs from that on the media.
    pub const COMPARE_FAILURE: Self = Self::of(2, 0x85);

    /// The status code type of failures of a path, where another controller may succeed (Base, "Path Related Status").
    pub const PATH_RELATED: u8 = 3;

    /// A status by its type and code.
    pub const fn of(kind: u8, code: u8) -> Self {
        Self((kind as u16 & 7) << 8 | code as u16)
    }

    /// Sets Do Not Retry (DNR).
    #[must_use]
    pub fn with_do_not_retry(self) -> Self {
        Self(self.0 | 1 << 14)
    }

    /// Status code type: 0 generic, 1 command specific, 2 media, 3 path related, 7 vendor specific.
    pub fn kind(self) -> u8 {
        (self.0 >> 8 & 7) as u8
    }

    /// Status code.
    pub fn code(self) -> u8 {
        self.0 as u8
    }

    /// Whether the command succeeded.
    #[inline]
    pub fn is_success(self) -> bool {
        self.0 & 0x7ff == 0
    }

    /// Whether the command compared data that differed.
    pub fn is_compare_failure(self) -> bool {
        self.has_code_of(Self::COMPARE_FAILURE)
    }

    /// Whether type and code are those of another status. Ignores Do Not Retry and the other flags.
    pub fn has_code_of(self, other: Self) -> bool {
        (self.kind(), self.code()) == (other.kind(), other.code())
    }

    /// Whether a retry may succeed: DNR is clear.
    pub fn may_retry(self) -> bool {
        self.0 >> 14 & 1 == 0
    }

    /// The specification's name of the status.
    pub fn meaning(self) -> Option<&'static str> {
        let is_it = |row: &&(u8, u8, &str)| (row.0, row.1) == (self.kind(), self.code());
        MEANINGS.iter().find(is_it).map(|row| row.2)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = self.meaning().unwrap_or("unknown status");
        write!(formatter, "{meaning} (type {:#x}, code {:#04x})", self.kind(), self.code())?;
        if !self.is_success() && !self.may_retry() {
            formatter.write_str(", do not retry")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_are_sorted_and_printed_once() {
        let keys: Vec<(u8, u8)> = MEANINGS.iter().map(|row| (row.0, row.1)).collect();
        assert!(keys.windows(2).all(|two| two[0] < two[1]));
    }

    #[test]
    fn statuses_of_namespace_management_are_those_of_the_specification() {
        for (status, code, meaning) in [
            (Status::INVALID_FORMAT, 0x0a, "invalid format"),
            (Status::NAMESPACE_CAPACITY, 0x15, "namespace insufficient capacity"),
            (Status::NAMESPACE_UNAVAILABLE, 0x16, "namespace identifier unavailable"),
            (Status::NAMESPACE_ATTACHED, 0x18, "namespace already attached"),
            (Status::NAMESPACE_PRIVATE, 0x19, "namespace is private"),
            (Status::NAMESPACE_NOT_ATTACHED, 0x1a, "namespace not attached"),
            (Status::NO_THIN_PROVISIONING, 0x1b, "thin provisioning not supported"),
            (Status::INVALID_CONTROLLER_LIST, 0x1c, "controller list invalid"),
            (Status::COMMAND_SET_NOT_SUPPORTED, 0x29, "I/O command set not supported"),
        ] {
            assert_eq!((status.kind(), status.code(), status.meaning()), (1, code, Some(meaning)));
        }
    }

    #[test]
    fn statuses_are_printed_in_words() {
        let check = |status: Status, expected: &str| assert_eq!(status.to_string(), expected);
        check(Status::SUCCESS, "successful completion (type 0x0, code 0x00)");
        check(Status::UNRECOVERED_READ, "unrecovered read error (type 0x2, code 0x81)");
        let out = Status::LBA_OUT_OF_RANGE.with_do_not_retry();
        check(out, "LBA out of range (type 0x0, code 0x80), do not retry");
        check(Status::of(7, 3), "unknown status (type 0x7, code 0x03)");
        assert!(!out.may_retry() && !out.is_success() && Status(1 << 13).is_success());
        assert!(
            Status::COMPARE_FAILURE.with_do_not_retry().is_compare_failure() && !out.is_compare_failure()
        );
    }
}
