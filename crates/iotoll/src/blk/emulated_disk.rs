//! An emulated controller for tests of commands.

use dma::{
    Domain, Frames, Iotlb, Limits, Mapper, MemoryAddress, Pool, Ram, Requester, SoftwareDomain, Unit, Vtd,
};
use nvme::Controller;
use nvme::emulated::Emulated;
use nvme::spec::identify;
use std::sync::Arc;

const RAM_BYTES: u64 = 16 << 20;
const TABLES_BYTES: u64 = 2 << 20;
const ADAPTER: Requester = Requester(0x0300);

/// An emulated controller, opened.
pub(super) struct EmulatedDisk {
    pub(super) emulated: Arc<Emulated>,
    pub(super) controller: Controller,
}

impl EmulatedDisk {
    /// Opens a controller that reports a changed identity.
    pub(super) fn new(change: impl FnOnce(&mut identify::Controller)) -> Self {
        let ram = Arc::new(Ram::new(MemoryAddress(0), RAM_BYTES));
        let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
        let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
        let table: SoftwareDomain<Vtd> = SoftwareDomain::new(Arc::clone(&unit), frames, 4).unwrap();
        table.attach(ADAPTER);
        let domain = Domain::builder(Arc::new(table)).build().unwrap();
        let pool = Pool::new(ram.clone(), MemoryAddress(TABLES_BYTES), RAM_BYTES - TABLES_BYTES).unwrap();
        let mapper = Mapper::translated(Limits::of_bits(64), domain).with_coherent(Arc::new(pool));
        let emulated = Arc::new(Emulated::new(unit.adapter(ADAPTER), 512, 9));
        emulated.change_controller(change);
        let controller = Controller::open(emulated.clone(), mapper, ram).unwrap();
        Self { emulated, controller }
    }
}
