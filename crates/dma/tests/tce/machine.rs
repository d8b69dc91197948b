//! A machine with one partition and one endpoint.

use dma::tce::{
    Endpoint, EndpointAddress, Hypervisor, MemoryRange, Offer, Partition, PciSlot, RtasCall, RtasStatus,
    TceWalk,
};
use dma::{BusAddress, Frames, MemoryAddress, Ram};
use std::sync::Arc;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) const ADDRESS: EndpointAddress = EndpointAddress { config: 0x1_0000, buid: 0x8000_0002_0000_0010 };
pub(crate) const DEFAULT: u32 = 0x7000_0010;
pub(crate) const CELLS: [u32; 3] = [0x1_0000, 0x8000_0002, 0x10];

/// As POWER8 and later have it.
pub(crate) const HIGH: BusAddress = BusAddress(1 << 59);
/// Pages for lists: the last of the partition's memory, and the only ones of it that are really there.
const LISTS_BYTES: u64 = 64 * KIB;

/// What a machine is made of.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The partition's memory, from address 0.
    pub(crate) memory_bytes: u64,
    /// What it does not have of that.
    pub(crate) memory: Vec<MemoryRange>,
    pub(crate) default_bytes: u64,
    /// Entries that there is room for beside the default window.
    pub(crate) block_tces: u64,
    pub(crate) offer: Option<Offer>,
    pub(crate) command_line: &'static str,
}

impl Setup {
    pub(crate) fn new(memory_bytes: u64, block_tces: u64, page_sizes: u32) -> Self {
        let offer = Offer {
            windows_max: 2,
            first: HIGH,
            page_sizes: ddw::PageSizes(page_sizes),
            reset: true,
            query_in_six: true,
        };
        Self {
            memory_bytes,
            memory: vec![MemoryRange { start: MemoryAddress(0), bytes: memory_bytes }],
            default_bytes: 2 * GIB,
            block_tces,
            offer: Some(offer),
            command_line: "",
        }
    }

    pub(crate) fn offering(self, change: impl FnOnce(&mut Offer)) -> Self {
        let mut offer = self.offer.unwrap();
        change(&mut offer);
        Self { offer: Some(offer), ..self }
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        8 * (self.default_bytes / 4096 + self.block_tces)
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: ADDRESS,
            liobn: DEFAULT,
            default_bytes: self.default_bytes,
            tables: MemoryRange { start: MemoryAddress(self.memory_bytes), bytes: self.table_bytes() },
            offer: self.offer,
        }
    }

    pub(crate) fn machine(&self) -> Machine {
        self.machine_with(|hypervisor| hypervisor)
    }

    pub(crate) fn machine_with(&self, change: impl FnOnce(Hypervisor) -> Hypervisor) -> Machine {
        let lists = MemoryAddress(self.memory_bytes - LISTS_BYTES);
        let ram = Arc::new(Ram::new(lists, LISTS_BYTES + self.table_bytes()));
        let all = MemoryRange { start: MemoryAddress(0), bytes: self.memory_bytes };
        let hypervisor = Arc::new(change(Hypervisor::new(ram.clone(), [all])));
        hypervisor.add(self.endpoint()).unwrap();
        let pages = Frames::new(lists, LISTS_BYTES);
        let partition = self.partition(&hypervisor, &ram, pages);
        Machine { ram, lists, hypervisor, partition }
    }

    pub(crate) fn partition(
        &self,
        hypervisor: &Arc<Hypervisor>,
        ram: &Arc<Ram>,
        lists: Frames,
    ) -> Arc<Partition> {
        let memory = self.memory.clone();
        let partition =
            Partition::new(hypervisor.clone(), ram.clone(), lists, memory, self.command_line, || 0);
        Arc::new(partition)
    }
}

pub(crate) struct Machine {
    pub(crate) ram: Arc<Ram>,
    /// A page for lists.
    pub(crate) lists: MemoryAddress,
    pub(crate) hypervisor: Arc<Hypervisor>,
    pub(crate) partition: Arc<Partition>,
}

impl Machine {
    pub(crate) fn slot(&self) -> PciSlot {
        PciSlot::new(self.partition.clone(), ADDRESS).unwrap().unwrap()
    }

    pub(crate) fn walk(&self, liobn: u32) -> TceWalk {
        TceWalk::new(self.hypervisor.table(liobn).unwrap())
    }

    /// What the query says: windows, entries, page sizes.
    pub(crate) fn query(&self) -> (u32, u64, u32) {
        let mut outputs = [0; 4];
        assert_eq!(self.hypervisor.rtas(RtasCall::Query, &CELLS, &mut outputs), RtasStatus::Success);
        let [windows, entries, sizes, _] = outputs;
        (windows, entries.into(), sizes)
    }

    /// A window: its LIOBN and where it begins.
    pub(crate) fn create(&self, page_shift: u32, window_shift: u32) -> Result<(u32, BusAddress), RtasStatus> {
        let [config, high, low] = CELLS;
        let mut outputs = [0; 3];
        let inputs = [config, high, low, page_shift, window_shift];
        match self.hypervisor.rtas(RtasCall::Create, &inputs, &mut outputs) {
            RtasStatus::Success => {
                let [liobn, high, low] = outputs;
                Ok((liobn, BusAddress(u64::from(high) << 32 | u64::from(low))))
            }
            status => Err(status),
        }
    }

    pub(crate) fn remove(&self, liobn: u32) -> RtasStatus {
        self.hypervisor.rtas(RtasCall::Remove, &[liobn], &mut [])
    }

    pub(crate) fn reset(&self) -> RtasStatus {
        self.hypervisor.rtas(RtasCall::Reset, &CELLS, &mut [])
    }
}
