//! The words that iotoll's parts share.
//!
//! A number without its origin is worth nothing to the people who read ours, so the first word is
//! [`Evidence`]: every figure carries one, from where it was obtained to every output it appears in.

mod evidence;
mod gain;

pub use evidence::Evidence;
pub use gain::Gain;
