//! Marks: what the workload program in the guest says by executing the instruction at an address.

/// Where the table of marks is in the program. Far from where other programs of the guest are linked.
pub(crate) const TABLE_ADDRESS: u64 = 0x7000_0000;
/// Bytes from a mark to the next.
const STRIDE_BYTES: u64 = 16;

/// A mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// From here on watch everything.
    Arm,
    /// A window begins on this virtual CPU.
    Begin,
    /// It ends.
    End,
    /// A 0 bit of a value.
    Zero,
    /// A 1 bit of a value.
    One,
    /// A workload begins, numbered by the value.
    Phase,
    /// The value is the address of the function that gives the CPU up.
    Idle,
    /// From here on watch only marks again.
    Disarm,
    /// The value is the number of I/Os in a window.
    Units,
    /// A window pauses: this virtual CPU waits for devices, whose answers come now.
    Pause,
    /// It goes on.
    GoOn,
    /// One look at whether devices have answered.
    Look,
    /// The value is the address of the kernel's function that polls a device.
    Poll,
}

impl Mark {
    const TABLE: [Self; 13] = [
        Self::Arm,
        Self::Begin,
        Self::End,
        Self::Zero,
        Self::One,
        Self::Phase,
        Self::Idle,
        Self::Disarm,
        Self::Units,
        Self::Pause,
        Self::GoOn,
        Self::Look,
        Self::Poll,
    ];

    /// The mark whose first instruction is at an address.
    pub(crate) fn at(address: u64) -> Option<Self> {
        let offset = address.checked_sub(TABLE_ADDRESS)?;
        let index = usize::try_from(offset / STRIDE_BYTES).ok()?;
        Self::TABLE.get(index).copied().filter(|_| offset.is_multiple_of(STRIDE_BYTES))
    }

    /// The mark with an index of the table.
    pub(crate) fn of_index(index: usize) -> Option<Self> {
        Self::TABLE.get(index).copied()
    }
}
