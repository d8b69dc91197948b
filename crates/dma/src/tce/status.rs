//! Status codes of TCE hypercalls.

use std::fmt;

/// A hypercall's status, numbered as in `asm/hvcall.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub enum Status {
    /// Done.
    Success = 0,
    /// The entry's page is not the partition's, so its number is hidden.
    Partial = 5,
    /// The hypercall does not exist.
    Function = -2,
    /// An argument is invalid; nothing was done.
    Parameter = -4,
    /// The partition's entitlement is used up; nothing was done.
    NotEnoughResources = -44,
    /// The window or the page was taken back.
    Rescinded = -46,
    /// The fourth argument is invalid; nothing was done.
    P4 = -57,
}

impl Status {
    /// Its code.
    pub fn code(self) -> i64 {
        self as i64
    }

    /// The name in PAPR.
    fn name(self) -> &'static str {
        match self {
            Self::Success => "H_SUCCESS",
            Self::Partial => "H_PARTIAL",
            Self::Function => "H_FUNCTION",
            Self::Parameter => "H_PARAMETER",
            Self::NotEnoughResources => "H_NOT_ENOUGH_RESOURCES",
            Self::Rescinded => "H_RESCINDED",
            Self::P4 => "H_P4",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name(), self.code())
    }
}
