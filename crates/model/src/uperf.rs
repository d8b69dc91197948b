//! Profiles of uperf, in its own form: what its threads do, transfer by transfer.
//!
//! A [`Profile`] says what uperf would do of the file, and refuses what uperf refuses: an option or a flowop that uperf doesn't
//! have, a variable that is not set, a number that it can't hold. As in uperf, upper and lower case are the same, names of
//! variables are looked up in lower case, and a value is either a variable or has none in it.

mod error;
mod flowop;
mod options;
mod profile;
mod quantity;
mod reader;
mod variables;

pub use error::{Problem, ProfileError};
pub use flowop::{Flowop, Operation, Protocol, Setting, Size};
pub use profile::{Group, Profile, Repeat, Strands, Transaction};
pub use variables::Variables;
