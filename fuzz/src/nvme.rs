//! NVMe from both sides: a host that means harm, a driver whose controller fails, and a controller that lies.
//!
//! An input is a list of steps, each a byte and what that takes; numbers have their lowest byte first. Where the input ends, so do
//! the steps.

mod completions;
mod controller;
mod driver;
mod structures;

pub use completions::nvme_completions;
pub use controller::nvme_controller;
pub use driver::nvme_driver;
pub use structures::nvme_structures;

use arbitrary::{Arbitrary, Unstructured};
use dma::{
    Domain, Frames, Iotlb, Limits, Mapper, MemoryAddress, Pool, Ram, Requester,
    SoftwareAdapter, SoftwareDomain, Unit, Vtd,
};
use iova::{GapTree, Space};
use nvme::emulated::Fault;
use nvme::spec::status::Status;
use std::sync::Arc;

const ADAPTER: Requester = Requester(0x0300);
const RAM_BYTES: u64 = 1536 << 10;
/// Of the IOMMU's tables, from address 0.
const TABLES_BYTES: u64 = 256 << 10;

/// Memory that a driver shares with a controller, which reaches no more of it than the driver maps.
struct Room {
    ram: Arc<Ram>,
    mapper: Mapper,
    adapter: SoftwareAdapter,
}

impl Room {
    fn new() -> Option<Self> {
        let (ram, unit) = memory(RAM_BYTES);
        let table = table(&unit, TABLES_BYTES)?;
        let allocator = |space: &Space| Ok(Box::new(GapTree::new(space)?) as Box<_>);
        let domain = Domain::builder(Arc::new(table)).allocator(allocator).build().ok()?;
        let pool = Pool::new(ram.clone(), MemoryAddress(TABLES_BYTES), RAM_BYTES - TABLES_BYTES).ok()?;
        let mapper = Mapper::translated(Limits::of_bits(64), domain).with_coherent(Arc::new(pool));
        Some(Self { ram, mapper, adapter: unit.adapter(ADAPTER) })
    }
}

/// Memory from address 0, and the IOMMU in front of it.
fn memory(bytes: u64) -> (Arc<Ram>, Arc<Unit>) {
    let ram = Arc::new(Ram::new(MemoryAddress(0), bytes));
    let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
    (ram, unit)
}

/// An empty table in so many bytes from address 0, by which the adapter's addresses go.
fn table(unit: &Arc<Unit>, bytes: u64) -> Option<SoftwareDomain<Vtd>> {
    let frames = Arc::new(Frames::new(MemoryAddress(0), bytes));
    let table = SoftwareDomain::new(Arc::clone(unit), frames, 4).ok()?;
    table.attach(ADAPTER);
    Some(table)
}

/// The next number of an input; nothing at its end.
fn next<'a, T: Arbitrary<'a>>(input: &mut Unstructured<'a>) -> Option<T> {
    if input.is_empty() { None } else { input.arbitrary().ok() }
}

/// What goes wrong, by two numbers of an input. A command that is not done is never said to be.
fn fault(kind: u8, status: u16) -> Fault {
    match kind % 10 {
        0 => Fault::LostCompletion,
        1 => Fault::WrongPhase,
        2 => Fault::WrongIdentifier,
        3 => Fault::Twice,
        4 => Fault::Stuck,
        5 => Fault::Fatal,
        6 => Fault::LinkReset,
        7 if kind > 200 => Fault::Gone,
        _ => Fault::Status(Status(if Status(status).is_success() { status | 6 } else { status })),
    }
}
