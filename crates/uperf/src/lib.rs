//! Profiles of uperf, in its own form: what its threads do, transfer by transfer.
//!
//! A [`Profile`] says what uperf would do of the file, and refuses what uperf refuses: an option or a flowop that uperf doesn't
//! have, a variable that is not set, a number that it can't hold. As in uperf, upper and lower case are the same, names of
//! variables are looked up in lower case, and a value is either a variable or has none in it.
//!
//! ```text
//!   XML, variables
//!     |  Profile::read     groups, transactions, flowops; or an error with its line and column
//!     v
//!   Profile
//!     |  shape             one group that does the same over and over; or what it is besides, with the line
//!     v
//!   one load, for a program that runs or models it
//! ```

mod error;
mod flowop;
mod options;
mod profile;
mod quantity;
mod reader;
pub mod shape;
mod variables;

pub use error::{Problem, ProfileError};
pub use flowop::{Flowop, Operation, Protocol, Setting, Size};
pub use profile::{Group, Profile, Repeat, Strands, Transaction};
pub use variables::Variables;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
