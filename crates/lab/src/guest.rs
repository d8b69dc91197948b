//! What the guest boots into.

pub mod agent;
