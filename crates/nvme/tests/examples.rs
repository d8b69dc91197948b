//! The examples for newcomers run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "../examples/copy.rs"]
mod copy;

#[test]
fn copy() {
    copy::main().unwrap();
}
