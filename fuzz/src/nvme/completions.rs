//! Our driver, and a controller that lies.

use super::{Room, next};
use arbitrary::Unstructured;
use dma::{BusAddress, SoftwareAdapter};
use nvme::chunk::{Chunk, ChunkError, Drive, Request, RetryPolicy, Wait, Waiting};
use nvme::prp::Piece;
use nvme::spec::command::{COMMAND_BYTES, Command, admin};
use nvme::spec::completion::{COMPLETION_BYTES, Completion};
use nvme::spec::identify::{self, STRUCTURE_BYTES, Structure};
use nvme::spec::registers::{self as register, Capabilities, Configuration};
use nvme::spec::status::Status;
use nvme::spec::zone::{self, ZoneAction, ZonedNamespace};
use nvme::{BlockError, Buffer, CommandId, Controller, QueuePair, Registers};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const STEPS_MAX: usize = 64;
/// That an admin command has.
const LIMIT: Duration = Duration::from_millis(2);
/// The adapter is gone after so many looks at its status: nobody waits for it longer.
const LOOKS_MAX: u32 = 300;
/// And after so many commands.
const COMMANDS_MAX: u32 = 600;

/// A controller whose completions, structures and registers are what the input says. The driver refuses it or goes on, comes to an end,
/// and tells each request's result once at most.
///
/// The first byte says how many of the next, sixteen times over, are the controller's; the rest is what its driver is asked for.
pub fn nvme_completions(data: &[u8]) {
    let Some((length, rest)) = data.split_first() else { return };
    let (lies, steps) = rest.split_at((usize::from(*length) * 16).min(rest.len()));
    let Some(room) = Room::new() else { return };
    let liar = Arc::new(Liar::new(room.adapter, lies));
    let Ok(mut controller) = Controller::open(liar, room.mapper, room.ram) else { return };
    controller.set_admin_timeout(LIMIT);
    let mut input = Unstructured::new(steps);
    let mut driver = Driver {
        controller: Arc::new(Mutex::new(controller)),
        pair: None,
        chunk: None,
        buffer: None,
        in_flight: BTreeSet::new(),
        requests: Vec::new(),
    };
    for _ in 0..STEPS_MAX {
        if driver.step(&mut input).is_none() {
            break;
        }
    }
    driver.end();
}

/// What the driver is used for.
struct Driver {
    controller: Arc<Mutex<Controller>>,
    pair: Option<QueuePair>,
    chunk: Option<Chunk>,
    buffer: Option<Buffer>,
    /// Commands of the queue pair whose end was not told.
    in_flight: BTreeSet<u16>,
    /// The same of the chunk's requests.
    requests: Vec<Request>,
}

impl Driver {
    fn controller(&self) -> MutexGuard<'_, Controller> {
        self.controller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Option<()> {
        match next::<u8>(input)? % 10 {
            0 => self.make_pair(next(input)?),
            1 => self.submit(next(input)?, next(input)?),
            2 => {
                if let Some(pair) = &mut self.pair {
                    pair.ring_doorbell();
                }
            }
            3 => self.poll(usize::from(next::<u8>(input)?)),
            4 => {
                let Some(pair) = &mut self.pair else { return Some(()) };
                pair.tick();
                if let Some(id) = pair.overdue(1).next() {
                    let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
                    let _ = controller.abort(pair, id, LIMIT);
                }
            }
            5 => {
                let reset = self.controller().reset();
                if let (Ok(()), Some(pair)) = (reset, &mut self.pair) {
                    let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
                    let _ = controller.renew(pair);
                    for id in pair.take_cut_off() {
                        assert!(self.in_flight.remove(&id.0), "{id:?} was cut off, and was not in flight");
                    }
                }
            }
            6 => {
                if let Some(pair) = self.pair.take() {
                    let _ = self.controller().delete(pair);
                    self.in_flight.clear();
                }
            }
            7 => self.request(next(input)?, next(input)?),
            8 => {
                let (place, wait): (u8, bool) = (next(input)?, next(input)?);
                self.fetch(place.into(), if wait { Wait::Yes } else { Wait::No });
            }
            _ => {
                let log = self.controller().error_log();
                let _ = log.map(|log| format!("{log:?}"));
            }
        }
        Some(())
    }

    fn make_pair(&mut self, entries: u16) {
        if self.pair.is_none() {
            let pair = self.controller().queue_pair(entries % 70);
            self.pair = pair.ok();
            self.in_flight.clear();
        }
    }

    fn submit(&mut self, what: u8, first: u16) {
        let namespace = self.controller().namespaces().first().copied();
        if self.buffer.is_none() {
            let buffer = self.controller().allocate(16 << 10);
            self.buffer = buffer.ok();
        }
        let (Some(pair), Some(of), Some(buffer)) = (&mut self.pair, namespace, &self.buffer) else { return };
        let first = u64::from(first) % of.format.blocks;
        let piece = |from, bytes| buffer.piece(from, bytes).ok();
        // One, two and many pages; and pieces that want a scatter-gather list.
        let pieces: Option<Vec<Piece>> = match what / 8 % 4 {
            0 => vec![piece(0, 4096)],
            1 => vec![piece(512, 7680)],
            2 => vec![piece(0, 16 << 10)],
            _ => vec![piece(4, 100), piece(4096, 3996)],
        }
        .into_iter()
        .collect();
        let Some(pieces) = pieces else { return };
        let id: Result<CommandId, BlockError> = match what % 12 {
            0 => pair.read(&of, first, &pieces),
            1 => pair.write(&of, first, &pieces),
            2 => pair.write_zeroes(&of, first, 1),
            3 => pair.deallocate(&of, std::slice::from_ref(&(first..first + 1))),
            4 => pair.verify(&of, first, 1),
            5 => pair.copy(&of, first / 2, &[first..first + 3, first + 4..first + 5]),
            6 => pair.write_fua(&of, first, &pieces),
            7 => pair.compare(&of, first, &pieces),
            8 => pair.append(&of, first / 32 * 32, &pieces),
            9 => pair.manage_zone(&of, first / 32 * 32, ZoneAction::Reset),
            10 => pair.report_zones(&of, first, None, &pieces),
            _ => pair.flush(&of).map_err(BlockError::from),
        };
        if let Ok(id) = id {
            assert!(self.in_flight.insert(id.0), "{id:?} is another command's");
        }
    }

    fn poll(&mut self, most: usize) {
        let Some(pair) = &mut self.pair else { return };
        let (in_flight, mut told) = (&mut self.in_flight, 0);
        let polled = pair.poll(most, |done| {
            told += 1;
            assert!(in_flight.remove(&done.id.0), "{:?} is done, and was not in flight", done.id);
        });
        assert!(told <= most && polled.is_ok_and(|taken| taken == told) || polled.is_err());
        assert_eq!(pair.in_flight(), self.in_flight.len());
        assert!(pair.pending_completions() <= 70, "there is an end to a ring");
    }

    fn request(&mut self, what: u8, first: u16) {
        if self.chunk.is_none() {
            self.chunk = self.open(what);
        }
        let Some(chunk) = &mut self.chunk else { return };
        let (first, bytes) = (u64::from(first) % chunk.blocks(), chunk.block_bytes());
        let begun = match what % 5 {
            0 => chunk.aread(first, 1),
            1 => chunk.awrite(first, &vec![1; bytes]),
            2 => return drop(chunk.flush()),
            3 => return drop(chunk.write_zeroes(first, 1)),
            _ => return drop(chunk.deallocate(first, 1)),
        };
        if let Ok(request) = begun {
            assert!(!self.requests.contains(&request), "{request:?} is another's");
            self.requests.push(request);
        }
    }

    fn open(&mut self, requests: u8) -> Option<Chunk> {
        let namespace = *self.controller().namespaces().last()?;
        let mut retry_policy = RetryPolicy::default();
        (retry_policy.timeout, retry_policy.retries, retry_policy.resets) = (Duration::from_millis(1), 1, 1);
        let controller = Arc::clone(&self.controller);
        let drive = Drive::open(controller, namespace, requests.into(), 8192, Waiting::Polling, retry_policy);
        Some(drive.ok()?.into())
    }

    fn fetch(&mut self, place: usize, wait: Wait) {
        let Some(chunk) = self.chunk.as_mut().filter(|_| !self.requests.is_empty()) else { return };
        let place = place % self.requests.len();
        let mut into = vec![0; chunk.block_bytes()];
        match chunk.aresult(self.requests[place], &mut into, wait) {
            Ok(None) => assert_eq!(wait, Wait::No, "who waits for a result has it"),
            Err(ChunkError::NoRequest) => panic!("its result was not told"),
            Ok(Some(_)) | Err(_) => {
                let request = self.requests.swap_remove(place);
                let again = chunk.aresult(request, &mut into, Wait::Yes);
                assert!(matches!(again, Err(ChunkError::NoRequest)), "a result is told once");
            }
        }
    }

    fn end(mut self) {
        self.poll(usize::MAX);
        while !self.requests.is_empty() {
            self.fetch(0, Wait::Yes);
        }
        if let Some(chunk) = self.chunk.take() {
            let _ = chunk.close();
        }
        if let Some(pair) = self.pair.take() {
            let _ = self.controller().delete(pair);
        }
        if let Some(controller) = Arc::into_inner(self.controller) {
            let _ = controller.into_inner().unwrap_or_else(PoisonError::into_inner).shut_down();
        }
    }
}

/// A controller that does as the specification has it where its script doesn't say otherwise.
struct Liar {
    adapter: SoftwareAdapter,
    state: Mutex<State>,
}

impl std::fmt::Debug for Liar {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Liar").finish_non_exhaustive()
    }
}

struct State {
    /// What is still to come.
    script: Vec<u8>,
    capabilities: Capabilities,
    configuration: Configuration,
    /// What its status is said to be besides.
    status: u32,
    looks: u32,
    commands: u32,
    admin_entries: u32,
    admin_at: [u64; 2],
    submissions: BTreeMap<u16, Ring>,
    completions: BTreeMap<u16, Ring>,
}

#[derive(Clone, Copy)]
struct Ring {
    at: u64,
    entries: u16,
    /// Of a submission queue how far it is read, of a completion queue how far it is written.
    place: u16,
    phase: bool,
    /// Of a submission queue.
    completions: u16,
}

impl Ring {
    fn new(at: u64, entries: u16, completions: u16) -> Self {
        Self { at, entries: entries.max(1), place: 0, phase: true, completions }
    }

    /// Goes on by one.
    fn process_next_command(&mut self) {
        self.place += 1;
        if self.place == self.entries {
            (self.place, self.phase) = (0, !self.phase);
        }
    }
}

impl Liar {
    fn new(adapter: SoftwareAdapter, script: &[u8]) -> Self {
        let mut state = State {
            script: script.iter().rev().copied().collect(),
            // 64 entries, contiguous queues, half a second, the NVM command set. With every other input also zones.
            capabilities: Capabilities(63 | 1 << 16 | 1 << 24 | 1 << 37 | (script.len() as u64 % 2) << 43),
            configuration: Configuration::default(),
            status: 0,
            looks: 0,
            commands: 0,
            admin_entries: 0,
            admin_at: [0; 2],
            submissions: BTreeMap::new(),
            completions: BTreeMap::new(),
        };
        // Some bits of the capabilities the other way round.
        if state.byte() & 1 == 1 {
            state.capabilities.0 ^= state.number::<8>();
        }
        Self { adapter, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registers for Liar {
    fn read_u32(&self, at: u64) -> u32 {
        let mut state = self.state();
        state.looks += u32::from(at == register::STATUS);
        match at {
            _ if state.is_gone() => u32::MAX,
            register::STATUS => {
                let shut_down = u32::from(state.configuration.is_shutting_down()) << 3;
                (u32::from(state.configuration.is_enabled()) | shut_down) ^ state.status
            }
            register::CONFIGURATION => state.configuration.0,
            _ => 0,
        }
    }

    fn read_u64(&self, at: u64) -> u64 {
        let state = self.state();
        match at {
            _ if state.is_gone() => u64::MAX,
            register::CAPABILITIES => state.capabilities.0,
            _ => 0,
        }
    }

    fn write_u32(&self, at: u64, value: u32) {
        let mut state = self.state();
        match at {
            register::CONFIGURATION => state.configure(Configuration(value)),
            register::ADMIN_QUEUES => state.admin_entries = value,
            _ if at >= register::DOORBELLS => state.rung(&self.adapter, at, value as u16),
            _ => {}
        }
    }

    fn write_u64(&self, at: u64, value: u64) {
        let mut state = self.state();
        match at {
            register::ADMIN_SUBMISSION_QUEUE => state.admin_at[0] = value,
            register::ADMIN_COMPLETION_QUEUE => state.admin_at[1] = value,
            _ => {}
        }
    }
}

impl State {
    /// The script's next byte; at its end nothing is out of order any more.
    fn byte(&mut self) -> u8 {
        self.script.pop().unwrap_or_default()
    }

    fn number<const BYTES: usize>(&mut self) -> u64 {
        (0..BYTES).fold(0, |number, place| number | u64::from(self.byte()) << (8 * place))
    }

    fn is_gone(&self) -> bool {
        self.looks > LOOKS_MAX || self.commands > COMMANDS_MAX
    }

    fn configure(&mut self, configuration: Configuration) {
        let was_enabled = self.configuration.is_enabled();
        self.configuration = configuration;
        self.status = 0;
        if configuration.is_enabled() && !was_enabled {
            let entries = [0, 16].map(|bit| (self.admin_entries >> bit & 0xfff) as u16 + 1);
            self.submissions = BTreeMap::from([(0, Ring::new(self.admin_at[0], entries[0], 0))]);
            self.completions = BTreeMap::from([(0, Ring::new(self.admin_at[1], entries[1], 0))]);
        }
    }

    fn rung(&mut self, adapter: &SoftwareAdapter, at: u64, tail: u16) {
        let number = (at - register::DOORBELLS) / self.capabilities.doorbell_stride();
        let queue = (number / 2) as u16;
        let Some(mut ring) = self.submissions.get(&queue).copied().filter(|_| number.is_multiple_of(2))
        else {
            return;
        };
        while ring.place != tail % ring.entries && !self.is_gone() {
            self.commands += 1;
            let mut bytes = [0; COMMAND_BYTES];
            let at = ring.at.wrapping_add(u64::from(ring.place) * COMMAND_BYTES as u64);
            let _ = adapter.read(BusAddress(at), &mut bytes);
            let words = bytes.as_chunks().0;
            let command = Command(std::array::from_fn(|word| u64::from_le_bytes(words[word])));
            ring.process_next_command();
            self.submissions.insert(queue, ring);
            self.carry_out(adapter, queue, ring.completions, &command);
        }
    }

    fn carry_out(&mut self, adapter: &SoftwareAdapter, queue: u16, completions: u16, command: &Command) {
        let what = self.byte() % 16;
        let result = if queue == 0 { self.administer(adapter, command, what == 8) } else { 0 };
        let identifier = command.identifier();
        let completion = |identifier, status, result: u32, phase| {
            Completion::new(identifier, status, result.into(), queue, 0, phase)
        };
        let well = Status::SUCCESS;
        match what {
            9 => {
                let raw = [self.number::<8>(), self.number::<8>()];
                self.write(adapter, completions, |_| Completion(raw));
            }
            10 => {}
            11 => {
                for _ in 0..2 {
                    self.write(adapter, completions, |phase| completion(identifier, well, result, phase));
                }
            }
            12 => {
                let wrong = identifier ^ self.number::<2>() as u16;
                self.write(adapter, completions, |phase| completion(wrong, well, result, phase));
            }
            13 => {
                let status = Status(self.number::<2>() as u16);
                self.write(adapter, completions, |phase| completion(identifier, status, result, phase));
            }
            14 => {
                // Others' places, in this ring or in another one.
                let (into, number) = (self.byte(), self.byte() % 16);
                for _ in 0..number {
                    let (place, wrong) = (self.number::<2>() as u16, self.number::<2>() as u16);
                    self.write_at(adapter, into.into(), place, |phase| completion(wrong, well, 0, phase));
                }
                self.write(adapter, completions, |phase| completion(identifier, well, result, phase));
            }
            15 => {
                self.status = u32::from(self.byte() & 0x0f);
                self.write(adapter, completions, |phase| completion(identifier, well, result, phase));
            }
            _ => {
                let result = if what == 7 { self.number::<4>() as u32 } else { result };
                self.write(adapter, completions, |phase| completion(identifier, well, result, phase));
            }
        }
    }

    /// Puts a completion where the next has to be.
    fn write(&mut self, adapter: &SoftwareAdapter, queue: u16, completion: impl FnOnce(bool) -> Completion) {
        let Some(ring) = self.completions.get_mut(&queue) else { return };
        let (place, phase) = (ring.place, ring.phase);
        ring.process_next_command();
        self.write_at(adapter, queue, place, |_| completion(phase));
    }

    /// Puts a completion anywhere in a ring.
    fn write_at(
        &mut self,
        adapter: &SoftwareAdapter,
        queue: u16,
        place: u16,
        completion: impl FnOnce(bool) -> Completion,
    ) {
        let Some(ring) = self.completions.get(&queue) else { return };
        let at = ring.at.wrapping_add(u64::from(place % ring.entries) * COMPLETION_BYTES as u64);
        let completion = completion(ring.phase);
        for (word, at) in completion.0.iter().zip([at, at.wrapping_add(8)]) {
            let _ = adapter.write(BusAddress(at), &word.to_le_bytes());
        }
    }

    /// What is said besides.
    fn administer(&mut self, adapter: &SoftwareAdapter, command: &Command, is_lie: bool) -> u32 {
        let [low, high] = [command.word(10) as u16, (command.word(10) >> 16) as u16];
        let [at, _] = command.data();
        match command.opcode() {
            admin::IDENTIFY => {
                let mut structure = structure(low as u8);
                if is_lie {
                    self.lie(&mut structure, low == 2);
                }
                let _ = adapter.write(BusAddress(at), &structure);
                0
            }
            admin::GET_LOG_PAGE => {
                let bytes = [self.byte(); STRUCTURE_BYTES];
                let _ = adapter.write(BusAddress(at), &bytes[..(usize::from(high) * 4 + 4).min(bytes.len())]);
                0
            }
            admin::CREATE_COMPLETION_QUEUE => {
                self.completions.insert(low, Ring::new(at, high.saturating_add(1), 0));
                0
            }
            admin::CREATE_SUBMISSION_QUEUE => {
                let completions = (command.word(11) >> 16) as u16;
                self.submissions.insert(low, Ring::new(at, high.saturating_add(1), completions));
                0
            }
            // It goes on with queues that were deleted.
            admin::SET_FEATURES => 3 | 3 << 16,
            _ => 0,
        }
    }

    fn lie(&mut self, structure: &mut Structure, is_list: bool) {
        if is_list {
            let numbers = self.number::<2>() as u32 % 1025;
            for (into, number) in structure.chunks_exact_mut(4).zip(1..=numbers) {
                into.copy_from_slice(&number.to_le_bytes());
            }
        }
        for _ in 0..self.byte() % 16 {
            let (at, byte) = (self.number::<2>() as usize, self.byte());
            structure[at % STRUCTURE_BYTES] = byte;
        }
    }
}

/// What is told of the controller, its namespace, and the list of that one.
fn structure(what: u8) -> Structure {
    match what {
        0 => identify::Namespace {
            blocks: 256,
            block_shift: 9,
            metadata_bytes: 0,
            is_shared: false,
            names: identify::NamespaceNames::default(),
            copy_limits: identify::CopyLimits { range_blocks_max: 16, blocks_max: 32, ranges_max: 4 },
        }
        .write(),
        1 => identify::Controller {
            vendor: 0x1b36,
            serial: "liar".to_owned(),
            model: "liar".to_owned(),
            firmware: "1".to_owned(),
            transfer_pages_shift: 5,
            namespaces_max: 1,
            allocated_max: 0,
            controller: 0,
            can_manage_namespaces: true,
            capacity_bytes: 1 << 20,
            unallocated_bytes: 1 << 19,
            can_compare: true,
            can_deallocate: true,
            can_write_zeroes: true,
            can_verify: true,
            can_copy: true,
            copy_formats: 1,
            has_write_cache: true,
            has_sgl: true,
            aborts_max: 4,
            error_log_entries: 8,
            can_update_firmware: true,
            can_self_test: true,
            firmware_updates: identify::FirmwareUpdates { slots: 2, ..identify::FirmwareUpdates::default() },
            warning_temperature_k: 343,
            critical_temperature_k: 353,
            extended_test_minutes: 1,
            subsystem: "nqn.fuzz".to_owned(),
        }
        .write(),
        // The namespace is of the zoned command set; its zones; and no limit of appends besides that of transfers.
        3 => {
            let mut descriptors = [0; STRUCTURE_BYTES];
            (descriptors[0], descriptors[1], descriptors[4]) = (4, 1, zone::COMMAND_SET);
            descriptors
        }
        5 => {
            ZonedNamespace { zone_blocks: 32, active_max: Some(4), open_max: None, reads_across_zones: false }
                .write()
        }
        6 => [0; STRUCTURE_BYTES],
        _ => {
            let mut list = [0; STRUCTURE_BYTES];
            list[0] = 1;
            list
        }
    }
}
