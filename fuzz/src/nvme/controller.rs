//! The emulated controller, and a host that means it harm.

use super::{ADAPTER, fault, memory, next, table};
use arbitrary::Unstructured;
use dma::{Access, BusAddress, DmaCounters, MemoryAddress, Ram, SoftwareDomain, Translation, Vtd};
use nvme::Registers;
use nvme::emulated::{Emulated, ZoneOptions};
use nvme::spec::command::{COMMAND_BYTES, Command, Identify, nvm, zoned};
use nvme::spec::completion::{COMPLETION_BYTES, Completion};
use nvme::spec::registers as register;
use nvme::spec::status::Status;
use std::sync::Arc;

const PAGE: usize = 4096;
/// Of the IOMMU's tables.
const TABLE_PAGES: usize = 16;
/// Of the host's memory behind them.
const PAGES: usize = 16;
/// The page that is mapped at the last address of all.
const LAST_PAGE: usize = 9;
/// What the host does at most.
const STEPS_MAX: usize = 96;
/// Entries of the rings that the host makes when it makes them as it should.
const ENTRIES: u16 = 64;

/// Opcodes beyond the first: Verify, Copy, Zone Management Send and Receive, and Zone Append.
const LATER: [u8; 5] =
    [nvm::VERIFY, nvm::COPY, zoned::MANAGEMENT_SEND, zoned::MANAGEMENT_RECEIVE, zoned::APPEND];

/// What the controller may do with a page of the host's.
fn access(page: usize) -> Option<Access> {
    match page {
        0..10 => Some(Access::ReadWrite),
        10 | 11 => Some(Access::Read),
        12 | 13 => Some(Access::Write),
        _ => None,
    }
}

/// A host writes registers, doorbells and memory as it likes, commands whose data is anywhere, and has them fail. The controller does
/// not panic, comes to an end, changes no memory but what is mapped for it to write, and works again after a reset. With every other input
/// its disk has zones.
pub fn nvme_controller(data: &[u8]) {
    let Some(mut host) = Host::new(data.len() % 2 == 1) else { return };
    let mut input = Unstructured::new(data);
    for _ in 0..STEPS_MAX {
        if host.step(&mut input).is_none() {
            break;
        }
    }
    host.check_memory();
    host.check_reset();
}

struct Host {
    ram: Arc<Ram>,
    /// Nothing is mapped any more when it goes.
    _table: SoftwareDomain<Vtd>,
    emulated: Emulated,
    /// What only the host may have changed, as it has.
    own: Vec<u8>,
    /// Tails of the submission queues that it writes commands into.
    tails: [u16; 4],
}

impl Host {
    fn new(is_zoned: bool) -> Option<Self> {
        let (ram, unit) = memory(((TABLE_PAGES + PAGES) * PAGE) as u64);
        let table = table(&unit, (TABLE_PAGES * PAGE) as u64)?;
        for (page, access) in (0..PAGES).filter_map(|page| Some((page, access(page)?))) {
            let memory = MemoryAddress(((TABLE_PAGES + page) * PAGE) as u64);
            table.map(bus_page(page), memory, PAGE as u64, access, &mut DmaCounters::default()).ok()?;
        }
        for page in (0..PAGES).filter(|page| access(*page).is_none()) {
            ram.write(MemoryAddress(((TABLE_PAGES + page) * PAGE) as u64), &[0xa5; PAGE]).ok()?;
        }
        let mut own = vec![0; (TABLE_PAGES + PAGES) * PAGE];
        ram.read(MemoryAddress(0), &mut own).ok()?;
        let adapter = unit.adapter(ADAPTER);
        let emulated = if is_zoned {
            let mut zones = ZoneOptions::whole(16);
            (zones.capacity, zones.active_max, zones.open_max) = (10, Some(3), Some(2));
            // The last zone is half a zone.
            Emulated::with_zones(adapter, 72, 9, zones)
        } else {
            Emulated::new(adapter, 64, 9)
        };
        Some(Self { ram, _table: table, emulated, own, tails: [0; 4] })
    }

    /// Writes eight bytes of the host's memory.
    fn write(&mut self, offset: usize, value: u64) {
        let at = TABLE_PAGES * PAGE + offset % (PAGES * PAGE) / 8 * 8;
        self.own[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let _ = self.ram.write(MemoryAddress(at as u64), &value.to_le_bytes());
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Option<()> {
        let emulated = &self.emulated;
        match next::<u8>(input)? % 13 {
            0 => emulated.write_u32(next::<u16>(input)?.into(), next(input)?),
            1 => emulated.write_u64(next::<u8>(input)?.into(), next(input)?),
            2 => {
                let at = next::<u16>(input)?.into();
                let _ = (emulated.read_u32(at), emulated.read_u64(at), format!("{emulated:?}"));
            }
            3 => emulated.write_u32(doorbell(next(input)?), next::<u16>(input)?.into()),
            4 => {
                let (at, value) = (next::<u16>(input)?, address(input)?);
                self.write(at.into(), value);
            }
            // A list of pages, or of descriptors: every second word is counted on from the one two before.
            5 => {
                let (at, words): (u16, u8) = (next(input)?, next(input)?);
                let mut values = [address(input)?, next(input)?];
                let steps: [u16; 2] = [next(input)?, next(input)?];
                for word in 0..usize::from(words) {
                    self.write(usize::from(at) + 8 * word, values[word % 2]);
                    values[word % 2] = values[word % 2].wrapping_add(steps[word % 2].into());
                }
            }
            6 => self.submit(input)?,
            7 => self.create(next::<u8>(input)?.into(), next(input)?, next(input)?),
            8 => {
                let queue = next::<u8>(input)?.into();
                self.put(0, Command::delete_submission_queue(queue));
                self.put(0, Command::delete_completion_queue(queue));
            }
            9 => {
                let (after, kind) = (next::<u8>(input)?, next(input)?);
                emulated.inject(emulated.commands() + u64::from(after % 16), fault(kind, next(input)?));
            }
            10 => self.bring_up(),
            11 => emulated.write_u32(register::CONFIGURATION, next::<u8>(input)?.into()),
            _ => emulated.write_u32(next(input)?, next(input)?),
        }
        Some(())
    }

    /// As a driver does it, with the rings in the first pages: two for each queue.
    fn bring_up(&mut self) {
        let emulated = &self.emulated;
        emulated.write_u32(register::CONFIGURATION, 0);
        emulated.write_u32(register::ADMIN_QUEUES, register::admin_queues(ENTRIES, ENTRIES));
        emulated.write_u64(register::ADMIN_SUBMISSION_QUEUE, bus_page(0).0);
        emulated.write_u64(register::ADMIN_COMPLETION_QUEUE, bus_page(1).0);
        emulated.write_u32(register::CONFIGURATION, register::Configuration::enabled(4096).0);
        self.tails = [0; 4];
    }

    fn create(&mut self, queue: u16, entries: u16, vector: u8) {
        let place = usize::from(queue) % self.tails.len();
        let vector = vector.is_multiple_of(2).then_some(vector.into());
        let [submissions, completions] = [2 * place, 2 * place + 1].map(|page| bus_page(page).0);
        self.put(0, Command::create_completion_queue(queue, entries, completions, vector));
        self.put(0, Command::create_submission_queue(queue, entries, submissions, queue));
        self.tails[place] = if place == 0 { self.tails[0] } else { 0 };
    }

    /// A command out of the input, in one of the first queues.
    fn submit(&mut self, input: &mut Unstructured<'_>) -> Option<()> {
        let (queue, opcode, flags, namespace): (u8, u8, u8, u8) =
            (next(input)?, next(input)?, next(input)?, next(input)?);
        let data = [address(input)?, address(input)?];
        let words: [u32; 3] = [next(input)?, next(input)?, next(input)?];
        let mut command = Command([0; COMMAND_BYTES / 8]);
        // Mostly those that there are, mostly by pages, mostly of the namespace that there is.
        let of_opcodes = match opcode {
            0..0xb0 => opcode % 12,
            0xb0..0xf0 => LATER[usize::from(opcode) % LATER.len()],
            _ => opcode,
        };
        command.0[0] = u64::from(of_opcodes) | u64::from(flags & 0xc0) << 8 | u64::from(namespace % 3) << 32;
        [command.0[3], command.0[4]] = data;
        command.0[5] = u64::from(words[0]) | u64::from(words[1]) << 32;
        // Actions on a zone or on all, and a report's filter.
        command.0[6] = u64::from(words[2]) | u64::from(flags & 0xf) << 32 | u64::from(flags & 0x30) << 36;
        if LATER.contains(&of_opcodes) && words[1] % 2 == 0 {
            // Mostly of the disk, and not too long.
            (command.0[5], command.0[6]) = (command.0[5] % 72, command.0[6] & !0xffe0);
        }
        self.put(queue, command.with_identifier(namespace.into()));
        Some(())
    }

    /// Puts a command where the ring would be if it was made as it should, and tells the controller.
    fn put(&mut self, queue: u8, command: Command) {
        let queue = queue % self.tails.len() as u8;
        let tail = self.tails[usize::from(queue)];
        for (place, word) in command.0.iter().enumerate() {
            let at = 2 * usize::from(queue) * PAGE + usize::from(tail) * COMMAND_BYTES;
            self.write(at + 8 * place, *word);
        }
        let tail = (tail + 1) % ENTRIES;
        self.tails[usize::from(queue)] = tail;
        self.emulated.write_u32(doorbell(2 * queue), tail.into());
        // What has come of it is taken at once, as far as nothing came twice or not at all.
        self.emulated.write_u32(doorbell(2 * queue + 1), tail.into());
    }

    fn check_memory(&self) {
        let mut now = vec![0; self.own.len()];
        let read = self.ram.read(MemoryAddress(0), &mut now);
        assert!(read.is_ok(), "the memory is there");
        for (page, (now, own)) in now.chunks(PAGE).zip(self.own.chunks(PAGE)).enumerate() {
            let access = page.checked_sub(TABLE_PAGES).and_then(access);
            let may_change = access.is_some_and(|access| access.allows(Access::Write));
            assert!(may_change || now == own, "page {page} is not the controller's to write");
        }
    }

    fn check_reset(&mut self) {
        if self.emulated.read_u32(register::STATUS) == register::Status::GONE.0 {
            return;
        }
        self.bring_up();
        (0..PAGE / 8).for_each(|word| self.write(PAGE + 8 * word, 0));
        self.put(0, Command::identify(Identify::Controller, [bus_page(2).0, 0]).with_identifier(7));
        let mut entry = [0; COMPLETION_BYTES];
        let read = self.ram.read(MemoryAddress(((TABLE_PAGES + 1) * PAGE) as u64), &mut entry);
        assert!(read.is_ok(), "the memory is there");
        let words = entry.as_chunks().0;
        let told = Completion([words[0], words[1]].map(u64::from_le_bytes));
        assert_eq!((told.phase(), told.identifier(), told.status()), (true, 7, Status::SUCCESS));
    }
}

/// Where the controller finds a page.
fn bus_page(page: usize) -> BusAddress {
    let number = if page == LAST_PAGE { (1 << 36) - 1 } else { page as u64 + 1 };
    BusAddress(number * PAGE as u64)
}

/// The submission queues' at even numbers, the completion queues' at odd ones.
fn doorbell(number: u8) -> u64 {
    register::DOORBELLS + 4 * u64::from(number)
}

/// An address: mostly one that something may be mapped at, and sometimes any.
fn address(input: &mut Unstructured<'_>) -> Option<u64> {
    let page: u8 = next(input)?;
    if page >= 0xc0 {
        return next(input);
    }
    let offset: u16 = next(input)?;
    // Most are told by whole pages.
    let offset = if page < 0x60 { 0 } else { offset & 0xfff };
    Some(bus_page(usize::from(page) % (PAGES + 2)).0 + u64::from(offset))
}
