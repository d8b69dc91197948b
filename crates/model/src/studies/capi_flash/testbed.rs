//! The published machines, by their parameters.

use super::Loads;
use crate::Parameter;
use crate::flash_array::{
    self, Adapter, Array, IoInterface, Job, Library, Module, Multipath, Outcome, Policy, SECTOR_BYTES,
    Service, Setup, Stack, Translation,
};
use crate::host::{Cpus, DmaPath as MappingPath, LineTransfer, Locking, MappingCost};
use crate::studies::StudyError;
use crate::studies::parameters::Parameters;
use crate::studies::power7::Power7;
use des::Span;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Of what other studies have of POWER, what this one takes.
const SHARED: [&str; 7] = [
    "hypercall_us",
    "instruction_ns",
    "line_same_chip_ns",
    "line_other_chip_times",
    "wake_us",
    "window_locked_instructions",
    "window_map_instructions",
];
/// No cable is pulled in these figures.
const HEALTH_CHECK: Span = Span::from_ms(1_000);
const DETECTION: Span = Span::from_ms(1_000);
/// Time before loads are measured, and that they are measured in.
const SPANS: [Span; 2] = [Span::from_ms(3), Span::from_ms(8)];
/// The same of one thread, which does the same over and over.
const ALONE: [Span; 2] = [Span::from_ms(1), Span::from_ms(400)];
/// The same of a process that looks for answers all the time.
const PROCESS: [Span; 2] = [Span::from_ms(1), Span::from_ms(60)];
/// Of what any number of threads gets.
const ENOUGH: f64 = 0.99;
const SEED: u64 = 1;

/// How disks are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StoragePath {
    FibreChannel,
    Capi,
    /// CAPI, from a process.
    User,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mix {
    Reads,
    Writes,
    Both,
}

/// Both machines.
#[derive(Debug)]
pub(super) struct Testbed {
    power7: Power7,
    pub(super) given: Parameters,
    pub(super) loads: Loads,
    /// What several figures are of.
    known: RefCell<HashMap<(StoragePath, Mix), Rc<Outcome>>>,
}

impl Mix {
    pub(super) const ALL: [Self; 3] = [Self::Reads, Self::Writes, Self::Both];

    fn read_share(self) -> f64 {
        match self {
            Self::Reads => 1.0,
            Self::Writes => 0.0,
            Self::Both => 0.7,
        }
    }
}

impl Testbed {
    pub(super) fn new(power7: Power7, given: Parameters, loads: Loads) -> Self {
        Self { power7, given, loads, known: RefCell::default() }
    }

    /// Its parameters, with those that it shares.
    pub(super) fn listed(&self) -> Vec<Parameter> {
        let shared = self.power7.parameters().listed().into_iter();
        let shared = shared.filter(|parameter| SHARED.contains(&parameter.name.as_str()));
        self.given.listed().into_iter().chain(shared).collect()
    }

    /// The load of the fewest threads that get about as much as any number of them.
    pub(super) fn most(&self, storage_path: StoragePath, mix: Mix) -> Result<Rc<Outcome>, StudyError> {
        if let Some(known) = self.known.borrow().get(&(storage_path, mix)) {
            return Ok(Rc::clone(known));
        }
        let threads =
            if storage_path == StoragePath::User { &self.loads.user_threads } else { &self.loads.threads };
        let tried = threads
            .iter()
            .map(|&threads| self.load(storage_path, mix, threads))
            .collect::<Result<Vec<_>, _>>()?;
        let most = tried.iter().map(|outcome| outcome.all.per_second).fold(0.0, f64::max);
        let fewest = tried.into_iter().find(|outcome| outcome.all.per_second >= ENOUGH * most);
        let none = || StudyError::Missing { file: super::FILE, name: "threads" };
        let fewest = Rc::new(fewest.ok_or_else(none)?);
        self.known.borrow_mut().insert((storage_path, mix), Rc::clone(&fewest));
        Ok(fewest)
    }

    /// So many threads.
    pub(super) fn load(
        &self,
        storage_path: StoragePath,
        mix: Mix,
        threads: u32,
    ) -> Result<Outcome, StudyError> {
        let depth = if storage_path == StoragePath::User { self.given.count("user_depth")? } else { 1 };
        let [warm_up, measured] = SPANS;
        run(&Setup {
            jobs: vec![job(storage_path, mix, threads, depth)],
            warm_up,
            measured,
            ..self.setup(storage_path)?
        })
    }

    /// One thread with one read in flight.
    pub(super) fn alone(&self, storage_path: StoragePath) -> Result<Outcome, StudyError> {
        let [warm_up, measured] = ALONE;
        run(&Setup {
            jobs: vec![job(storage_path, Mix::Reads, 1, 1)],
            warm_up,
            measured,
            ..self.setup(storage_path)?
        })
    }

    /// One thread with so many reads in flight.
    pub(super) fn deep(&self, storage_path: StoragePath, depth: u32) -> Result<Outcome, StudyError> {
        let [warm_up, measured] = SPANS;
        run(&Setup {
            jobs: vec![job(storage_path, Mix::Reads, 1, depth)],
            warm_up,
            measured,
            ..self.setup(storage_path)?
        })
    }

    /// Reads by so many threads of a machine that is changed.
    pub(super) fn changed(
        &self,
        storage_path: StoragePath,
        threads: u32,
        change: impl FnOnce(&mut Setup),
    ) -> Result<Outcome, StudyError> {
        let [warm_up, measured] = SPANS;
        let jobs = vec![job(storage_path, Mix::Reads, threads, 1)];
        let mut setup = Setup { jobs, warm_up, measured, ..self.setup(storage_path)? };
        change(&mut setup);
        run(&setup)
    }

    /// What a process gets of one adapter with so many ports.
    pub(super) fn blockio_per_second(&self, ports: u32, job: Job) -> Result<f64, StudyError> {
        let mut setup = self.process(job)?;
        setup.adapter.ports = ports;
        Ok(run(&setup)?.all.per_second)
    }

    /// Of another adapter, which has its flash on it.
    pub(super) fn flashgt_per_second(&self, job: Job) -> Result<f64, StudyError> {
        let mut setup = self.process(job)?;
        let per_second = self.given.get("flashgt_thousand_per_second")? * 1e3;
        let service = |latency| Service { latency, per_second };
        setup.array = Array {
            modules: 1,
            read: service(self.given.us("flashgt_read_us")?),
            write: service(self.given.us("flashgt_write_us")?),
        };
        setup.adapter.ports = 1;
        setup.adapter.port_bytes_per_second = setup.adapter.bus_bytes_per_second;
        setup.adapter.wire = Span::ZERO;
        Ok(run(&setup)?.all.per_second)
    }

    /// A process with one adapter.
    fn process(&self, job: Job) -> Result<Setup, StudyError> {
        let [warm_up, measured] = PROCESS;
        Ok(Setup { jobs: vec![job], adapters: 1, warm_up, measured, ..self.setup(StoragePath::User)? })
    }

    fn setup(&self, storage_path: StoragePath) -> Result<Setup, StudyError> {
        let given = &self.given;
        Ok(Setup {
            cpus: self.cpus()?,
            stack: self.stack(storage_path)?,
            library: Library {
                submit: given.get("user_submit_instructions")?,
                complete: given.get("user_complete_instructions")?,
                poll: given.get("user_poll_instructions")?,
            },
            translation: if storage_path == StoragePath::FibreChannel {
                Some(self.translation()?)
            } else {
                None
            },
            adapters: given.count("adapters")?,
            adapter: self.adapter(storage_path)?,
            multipath: Multipath { policy: Policy::ShortestQueue, health_check: HEALTH_CHECK },
            array: self.array()?,
            disks: given.count("disks")?,
            jobs: Vec::new(),
            faults: Vec::new(),
            warm_up: Span::ZERO,
            measured: Span::ZERO,
            seed: SEED,
        })
    }

    fn cpus(&self) -> Result<Cpus, StudyError> {
        let (given, shared) = (&self.given, self.power7.parameters());
        let capacity =
            ["power8_capacity_2_threads", "power8_capacity_3_threads", "power8_capacity_4_threads"];
        let more = capacity.into_iter().map(|name| given.get(name)).collect::<Result<Vec<_>, _>>()?;
        let same_node = shared.ns("line_same_chip_ns")?;
        let other_node = Span::from_ps_f64(same_node.as_ps_f64() * shared.get("line_other_chip_times")?);
        Ok(Cpus {
            cores: given.count("cores")?,
            cores_per_node: given.count("power8_cores_per_chip")?,
            core_capacity: [1.0].into_iter().chain(more).collect(),
            instruction_ns: shared.get("instruction_ns")?,
            wake: shared.us("wake_us")?,
            line: LineTransfer { same_node, other_node },
        })
    }

    /// Without what translation takes.
    fn stack(&self, storage_path: StoragePath) -> Result<Stack, StudyError> {
        let given = &self.given;
        let fc = given.get("fc_module_instructions")?;
        let protocol_share = given.get("fc_protocol_share")?;
        let (protocol, adapter) = match storage_path {
            StoragePath::FibreChannel => {
                (Some(self.module(fc * protocol_share)?), fc * (1.0 - protocol_share))
            }
            StoragePath::Capi | StoragePath::User => (None, given.get("capi_module_instructions")?),
        };
        Ok(Stack {
            system_call: given.get("system_call_instructions")?,
            file_system: 0.0,
            disk: self.module(given.get("disk_instructions")?)?,
            protocol,
            adapter: self.module(adapter)?,
            interrupt: given.get("disk_interrupt_instructions")?,
            sleep: given.get("sleep_instructions")?,
            wake: given.get("wake_instructions")?,
        })
    }

    fn module(&self, instructions: f64) -> Result<Module, StudyError> {
        let complete = instructions * self.given.get("complete_share")?;
        Ok(Module {
            submit: instructions - complete,
            complete,
            locked_share: self.given.get("locked_share")?,
            lines: self.given.get("lock_lines")?,
        })
    }

    fn translation(&self) -> Result<Translation, StudyError> {
        let shared = self.power7.parameters();
        Ok(Translation {
            dma_path: MappingPath::Window {
                bytes: u64::from(self.given.count::<u32>("fc_window_gib")?) << 30,
                locking: Locking::Bitmap,
            },
            cost: MappingCost {
                window_instructions: shared.get("window_map_instructions")?,
                locked_instructions: shared.get("window_locked_instructions")?,
                hypercall: shared.us("hypercall_us")?,
                // Single pages are mapped, and no other path is taken.
                entry: Span::ZERO,
                direct_instructions: 0.0,
                translated_instructions: 0.0,
                submit_instructions: 0.0,
                invalidation: Span::ZERO,
            },
        })
    }

    fn adapter(&self, storage_path: StoragePath) -> Result<Adapter, StudyError> {
        let given = &self.given;
        let (memory, kernel_queues, queues_max) = match storage_path {
            StoragePath::FibreChannel => (given.us("fc_memory_us")?, 1, 1),
            StoragePath::Capi | StoragePath::User => (
                given.us("capi_memory_us")?,
                given.count("capi_kernel_contexts")?,
                given.count("capi_contexts")?,
            ),
        };
        Ok(Adapter {
            ports: given.count("ports")?,
            kernel_queues,
            queues_max,
            latency: given.us("command_us")?,
            memory,
            posted: given.us("posted_us")?,
            bus_bytes_per_second: given.get("bus_mb_per_second")? * 1e6,
            port_bytes_per_second: given.get("port_mb_per_second")? * 1e6,
            wire: given.ns("wire_ns")?,
            detection: DETECTION,
        })
    }

    fn array(&self) -> Result<Array, StudyError> {
        let given = &self.given;
        let read = Service {
            latency: given.us("array_read_us")?,
            per_second: given.get("array_reads_thousand_per_second")? * 1e3,
        };
        let write = Service {
            latency: given.us("array_write_us")?,
            per_second: given.get("array_writes_thousand_per_second")? * 1e3,
        };
        Ok(Array { modules: given.count("array_modules")?, read, write })
    }
}

fn job(storage_path: StoragePath, mix: Mix, threads: u32, depth: u32) -> Job {
    let way = if storage_path == StoragePath::User { IoInterface::User } else { IoInterface::Kernel };
    Job { way, threads, depth, read_share: mix.read_share(), io_bytes: SECTOR_BYTES }
}

fn run(setup: &Setup) -> Result<Outcome, StudyError> {
    Ok(flash_array::run(setup)?)
}
