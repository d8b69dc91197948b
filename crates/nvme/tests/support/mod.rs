//! An emulated controller behind an IOMMU in software, and the memory that it shares with a driver.

#![allow(dead_code, reason = "each test uses what it needs")]

use dma::{
    Domain, Frames, Iotlb, Limits, Mapper, MemoryAddress, Pool, Ram, Requester, SoftwareDomain, Unit, Vtd,
};
use nvme::emulated::Emulated;
use nvme::{Buffer, Controller, Namespace};
use std::sync::Arc;

pub(crate) const BLOCKS: u64 = 512;
pub(crate) const BLOCK_BYTES: u64 = 512;
const RAM_BYTES: u64 = 16 << 20;
const TABLES_BYTES: u64 = 2 << 20;
/// The last page is in no pool: memory of the caller's own.
pub(crate) const OWN: MemoryAddress = MemoryAddress(RAM_BYTES - 4096);
const ADAPTER: Requester = Requester(0x0300);

pub(crate) struct Bench {
    pub(crate) ram: Arc<Ram>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) emulated: Arc<Emulated>,
    pub(crate) controller: Controller,
}

/// Memory of 16 MiB, tables in its first part, coherent memory in the rest, and a controller that reaches nothing but what is mapped.
pub(crate) fn bench() -> Bench {
    bench_with(BLOCKS, 9)
}

/// The same with so many blocks of `1 << block_shift` bytes.
pub(crate) fn bench_with(blocks: u64, block_shift: u8) -> Bench {
    bench_prepared(blocks, block_shift, |_| {})
}

/// The same, with a controller that is changed before it is opened.
pub(crate) fn bench_prepared(blocks: u64, block_shift: u8, prepare: impl FnOnce(&Emulated)) -> Bench {
    let ram = Arc::new(Ram::new(MemoryAddress(0), RAM_BYTES));
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
    let table: SoftwareDomain<Vtd> = SoftwareDomain::new(Arc::clone(&unit), frames, 4).unwrap();
    table.attach(ADAPTER);
    let domain = Domain::builder(Arc::new(table)).build().unwrap();
    let pool = Pool::new(ram.clone(), MemoryAddress(TABLES_BYTES), OWN.0 - TABLES_BYTES).unwrap();
    let mapper = Mapper::translated(Limits::of_bits(64), Arc::clone(&domain)).with_coherent(Arc::new(pool));
    let emulated = Arc::new(Emulated::new(unit.adapter(ADAPTER), blocks, block_shift));
    prepare(&emulated);
    let controller = Controller::open(emulated.clone(), mapper, Arc::clone(&ram)).unwrap();
    Bench { ram, domain, emulated, controller }
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
