//! POWER's tables and windows: the hypervisor's calls, Linux's side of them, and what comes of `enable_ddw`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod decision;
mod firmware;
mod hypercalls;
mod machine;
mod windows;
