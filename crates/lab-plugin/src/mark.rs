//! Marks: messages of the workload program in the guest, sent by executing an instruction at a known address.

/// Address of the table of marks, far from where the guest's other programs are linked.
pub(crate) const TABLE_ADDRESS: u64 = 0x7000_0000;
/// Bytes from a mark to the next.
const STRIDE_BYTES: u64 = 16;

/// The message of a mark. The agent's `mark.h` in crate `lab` defines the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Start recording.
    Arm,
    /// A window begins on this virtual CPU.
    Begin,
    /// The window ends.
    End,
    /// A 0 bit of a value.
    Zero,
    /// A 1 bit of a value.
    One,
    /// A workload begins; the value is its number.
    Phase,
    /// The value is the address of the kernel's function that yields the CPU.
    IdleFunction,
    /// Stop recording.
    Disarm,
    /// The value is the number of I/Os in a window.
    IosPerWindow,
    /// The window pauses: this virtual CPU waits for completions, which arrive now.
    Pause,
    /// The window resumes.
    Resume,
    /// The program polls once for completions.
    Polled,
    /// The value is the address of the kernel's function that polls a device.
    PollFunction,
}

impl Mark {
    const TABLE: [Self; 13] = [
        Self::Arm,
        Self::Begin,
        Self::End,
        Self::Zero,
        Self::One,
        Self::Phase,
        Self::IdleFunction,
        Self::Disarm,
        Self::IosPerWindow,
        Self::Pause,
        Self::Resume,
        Self::Polled,
        Self::PollFunction,
    ];

    /// The mark whose first instruction is at an address.
    pub(crate) fn at(address: u64) -> Option<Self> {
        let offset = address.checked_sub(TABLE_ADDRESS)?;
        let index = usize::try_from(offset / STRIDE_BYTES).ok()?;
        Self::TABLE.get(index).copied().filter(|_| offset.is_multiple_of(STRIDE_BYTES))
    }

    /// The mark with this index in the table.
    pub(crate) fn from_index(index: usize) -> Option<Self> {
        Self::TABLE.get(index).copied()
    }
}
