//! What the kernel says of itself: its version, the options it was started with and the messages it
//! wrote.
//!
//! Everything here is a pure function of text. Message and option formats were read from the kernel
//! sources named at each table; where two trees differ, all their forms are recognised.

pub mod architecture;
pub mod command_line;
mod effect;
pub(crate) mod grub;
pub mod log;
pub mod message;
pub mod options;
pub mod requests;
pub mod verdict;
pub mod version;

pub use architecture::{Architecture, CpuVendor};
pub use command_line::{CommandLine, Token};
pub use effect::Effect;
pub use log::{Log, Record};
pub use message::{Logged, Message, classify};
pub use requests::Requests;
pub use verdict::{BootedKernel, TokenVerdict, Verdict, check_command_line};
pub use version::{Family, KernelVersion};
