//! The examples for newcomers run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "../examples/threads.rs"]
mod threads;

#[test]
fn threads() {
    threads::main().unwrap();
}
