//! The examples that need no adapter run; tests in guests run those that do.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "../examples/bounce.rs"]
mod bounce;
#[path = "../examples/lazy.rs"]
mod lazy;
#[path = "../examples/software_iommu.rs"]
mod software_iommu;

#[test]
fn the_software_iommu() {
    software_iommu::main().unwrap();
}

#[test]
fn lazy_invalidation() {
    lazy::main().unwrap();
}

#[test]
fn bounce_buffers() {
    bounce::main().unwrap();
}
