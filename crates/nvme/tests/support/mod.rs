//! An emulated controller behind an IOMMU in software, and the memory that it shares with a driver.

#![allow(dead_code, reason = "each test uses what it needs")]

use dma::MemoryAddress;
use nvme::emulated::Emulated;
pub(crate) use nvme::emulated::Machine as Bench;
use nvme::{Buffer, Namespace};

pub(crate) const BLOCKS: u64 = 512;
pub(crate) const BLOCK_BYTES: u64 = 512;
const RAM_BYTES: u64 = 16 << 20;
/// The last page is in no pool: memory of the caller's own.
pub(crate) const OWN: MemoryAddress = MemoryAddress(RAM_BYTES - 4096);

/// A controller that reaches nothing but what is mapped.
pub(crate) fn bench() -> Bench {
    bench_with(BLOCKS, 9)
}

/// The same with so many blocks of `1 << block_shift` bytes.
pub(crate) fn bench_with(blocks: u64, block_shift: u8) -> Bench {
    bench_prepared(blocks, block_shift, |_| {})
}

/// The same, with a controller that is changed before it is opened.
pub(crate) fn bench_prepared(blocks: u64, block_shift: u8, prepare: impl FnOnce(&Emulated)) -> Bench {
    let builder = Bench::builder(blocks, block_shift).memory_bytes(RAM_BYTES).own_bytes(4096);
    builder.open_prepared(prepare).unwrap()
}

pub(crate) fn fill(bench: &Bench, buffer: &Buffer, byte: u8) {
    bench.ram.write(buffer.memory(), &vec![byte; buffer.bytes() as usize]).unwrap();
}

pub(crate) fn bytes(bench: &Bench, buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    bench.ram.read(buffer.memory(), &mut bytes).unwrap();
    bytes
}

pub(crate) fn disk(bench: &Bench) -> Namespace {
    bench.controller.namespaces()[0]
}
