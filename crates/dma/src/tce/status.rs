//! What a hypercall answers.

use std::fmt;

/// The status of a TCE hypercall, with its number (`asm/hvcall.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub enum Status {
    /// Done.
    Success = 0,
    /// The entry's page is not the partition's: its number is veiled.
    Partial = 5,
    /// The firmware has no such call.
    Function = -2,
    /// An argument is wrong; nothing was done.
    Parameter = -4,
    /// The partition may have no more memory mapped for adapters; nothing was done.
    NotEnoughResources = -44,
    /// The table, or the page, was the partition's but was taken back.
    Rescinded = -46,
    /// The fourth argument is wrong; nothing was done.
    P4 = -57,
}

impl Status {
    /// Its number.
    pub fn code(self) -> i64 {
        self as i64
    }

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
