//! Builds simulations of the published machines from the study's parameters.

use super::Loads;
use crate::Parameter;
use crate::flash_array::{
    self, Array, ArrayAdapter, IoInterface, Job, Library, Module, Multipath, Outcome, Policy, SECTOR_BYTES,
    Service, Setup, Stack, Translation,
};
use crate::host::{Cpus, DmaPath as MappingPath, Locking, MappingCost};
use crate::studies::StudyError;
use crate::studies::parameters::Parameters;
use crate::studies::power7::Power7;
use des::Span;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use toll::Evidence;

/// Names of the parameters of power7.toml that this study takes for POWER8.
const SHARED: [&str; 8] = [
    "hypercall_us",
    "instruction_ns",
    "line_same_chip_ns",
    "line_other_chip_times",
    "wake_us",
    "window_lock_lines",
    "window_locked_instructions",
    "window_map_instructions",
];
/// Unused defaults: no cable is pulled in these figures.
const HEALTH_CHECK: Span = Span::from_ms(1_000);
const DETECTION: Span = Span::from_ms(1_000);
/// Warm-up and measured time of a multi-threaded load.
const SPANS: [Span; 2] = [Span::from_ms(3), Span::from_ms(8)];
/// Warm-up and measured time of one thread with one read in flight.
const SINGLE_READ_SPANS: [Span; 2] = [Span::from_ms(1), Span::from_ms(400)];
/// Warm-up and measured time of a user-mode process that polls for completions.
const PROCESS_SPANS: [Span; 2] = [Span::from_ms(1), Span::from_ms(60)];
/// A load counts as saturated at this share of the highest rate.
const ENOUGH: f64 = 0.99;

/// The adapter and software that commands pass on their way to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StoragePath {
    FibreChannel,
    Capi,
    /// CAPI, driven by a user-mode process instead of the kernel.
    User,
}

/// The mix of reads and writes in a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mix {
    Reads,
    Writes,
    Both,
}

/// The Fibre Channel and the CAPI machine, with a cache of results.
#[derive(Debug)]
pub(super) struct Testbed {
    power7: Power7,
    pub(super) given: Parameters,
    pub(super) loads: Loads,
    /// Of all random choices.
    seed: u64,
    /// Saturated loads that were already simulated; several figures use the same.
    saturated: RefCell<HashMap<(StoragePath, Mix), Rc<Outcome>>>,
}

impl Mix {
    pub(super) const ALL: [Self; 3] = [Self::Reads, Self::Writes, Self::Both];

    /// The share of reads.
    fn read_share(self) -> f64 {
        match self {
            Self::Reads => 1.0,
            Self::Writes => 0.0,
            Self::Both => 0.7,
        }
    }
}

impl Testbed {
    pub(super) fn new(power7: Power7, given: Parameters, loads: Loads, seed: u64) -> Self {
        Self { power7, given, loads, seed, saturated: RefCell::default() }
    }

    /// Lists the study's own parameters, then those of POWER7 that it takes for POWER8.
    pub(super) fn parameter_list(&self) -> Vec<Parameter> {
        let power7 = self.power7.parameters().parameter_list().into_iter();
        let taken = power7.filter(|parameter| SHARED.contains(&parameter.name.as_str()));
        self.given.parameter_list().into_iter().chain(taken.map(taken_for_power8)).collect()
    }

    /// Runs each thread count of the study and returns the smallest one that reaches [`ENOUGH`] of the highest rate.
    pub(super) fn saturated(&self, storage_path: StoragePath, mix: Mix) -> Result<Rc<Outcome>, StudyError> {
        if let Some(known) = self.saturated.borrow().get(&(storage_path, mix)) {
            return Ok(Rc::clone(known));
        }
        let threads =
            if storage_path == StoragePath::User { &self.loads.user_threads } else { &self.loads.threads };
        let tried = threads
            .iter()
            .map(|&threads| self.run_threads(storage_path, mix, threads))
            .collect::<Result<Vec<_>, _>>()?;
        let most = tried.iter().map(|outcome| outcome.all.per_second).fold(0.0, f64::max);
        let fewest = tried.into_iter().find(|outcome| outcome.all.per_second >= ENOUGH * most);
        let none = || StudyError::Missing { file: super::FILE, name: "threads" };
        let fewest = Rc::new(fewest.ok_or_else(none)?);
        self.saturated.borrow_mut().insert((storage_path, mix), Rc::clone(&fewest));
        Ok(fewest)
    }

    /// Simulates `threads` threads on one path.
    pub(super) fn run_threads(
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

    /// Simulates one thread with one read in flight.
    pub(super) fn single_read(&self, storage_path: StoragePath) -> Result<Outcome, StudyError> {
        let [warm_up, measured] = SINGLE_READ_SPANS;
        run(&Setup {
            jobs: vec![job(storage_path, Mix::Reads, 1, 1)],
            warm_up,
            measured,
            ..self.setup(storage_path)?
        })
    }

    /// Simulates one thread with `depth` reads in flight.
    pub(super) fn run_depth(&self, storage_path: StoragePath, depth: u32) -> Result<Outcome, StudyError> {
        let [warm_up, measured] = SPANS;
        run(&Setup {
            jobs: vec![job(storage_path, Mix::Reads, 1, depth)],
            warm_up,
            measured,
            ..self.setup(storage_path)?
        })
    }

    /// Simulates reads by `threads` threads after `change` has modified the setup.
    pub(super) fn run_changed(
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

    /// Simulates a user-mode process on one adapter with this number of ports.
    pub(super) fn blockio(&self, ports: u32, job: Job) -> Result<Outcome, StudyError> {
        let mut setup = self.process_setup(job)?;
        setup.adapter.ports = ports;
        run(&setup)
    }

    /// Simulates a user-mode process on the FlashGT adapter, which carries its own flash.
    pub(super) fn flashgt(&self, job: Job) -> Result<Outcome, StudyError> {
        let mut setup = self.process_setup(job)?;
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
        run(&setup)
    }

    /// A setup with one user-mode process and one adapter.
    fn process_setup(&self, job: Job) -> Result<Setup, StudyError> {
        let [warm_up, measured] = PROCESS_SPANS;
        Ok(Setup { jobs: vec![job], adapters: 1, warm_up, measured, ..self.setup(StoragePath::User)? })
    }

    /// The machine of a storage path, without jobs and with zero time spans.
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
            seed: self.seed,
        })
    }

    fn cpus(&self) -> Result<Cpus, StudyError> {
        let (given, shared) = (&self.given, self.power7.parameters());
        let capacity =
            ["power8_capacity_2_threads", "power8_capacity_3_threads", "power8_capacity_4_threads"];
        let more = capacity.into_iter().map(|name| given.get(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(Cpus {
            cores: given.count("cores")?,
            cores_per_node: given.count("power8_cores_per_chip")?,
            core_capacity: [1.0].into_iter().chain(more).collect(),
            instruction_ns: shared.get("instruction_ns")?,
            wake: shared.us("wake_us")?,
            line: self.power7.line()?,
        })
    }

    /// Instructions of the kernel's I/O stack, without those of DMA mapping.
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

    /// Splits a driver module's instructions into submission and completion.
    fn module(&self, instructions: f64) -> Result<Module, StudyError> {
        let complete = instructions * self.given.get("complete_share")?;
        Ok(Module {
            submit: instructions - complete,
            complete,
            locked_share: self.given.get("locked_share")?,
            lines: self.given.get("lock_lines")?,
        })
    }

    /// The DMA window of a Fibre Channel adapter and the cost of mapping in it.
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
                // Single pages are mapped, and the other DMA paths are unused.
                entry: Span::ZERO,
                direct_instructions: 0.0,
                translated_instructions: 0.0,
                submit_instructions: 0.0,
                invalidation: Span::ZERO,
                lock_lines: shared.get("window_lock_lines")?,
            },
        })
    }

    fn adapter(&self, storage_path: StoragePath) -> Result<ArrayAdapter, StudyError> {
        let given = &self.given;
        let (memory, kernel_queues, queues_max) = match storage_path {
            StoragePath::FibreChannel => (given.us("fc_memory_us")?, 1, 1),
            StoragePath::Capi | StoragePath::User => (
                given.us("capi_memory_us")?,
                given.count("capi_kernel_contexts")?,
                given.count("capi_contexts")?,
            ),
        };
        Ok(ArrayAdapter {
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

/// A parameter of POWER7 with what it rests on for POWER8: nothing but the assumption that both are alike.
fn taken_for_power8(parameter: Parameter) -> Parameter {
    let why = format!("POWER7's value taken for POWER8; of POWER7: {}", parameter.evidence);
    Parameter { evidence: Evidence::Assumed { why }, ..parameter }
}

/// A job of single-sector I/Os on a storage path.
fn job(storage_path: StoragePath, mix: Mix, threads: u32, depth: u32) -> Job {
    let way = if storage_path == StoragePath::User { IoInterface::User } else { IoInterface::Kernel };
    Job { way, threads, depth, read_share: mix.read_share(), io_bytes: SECTOR_BYTES }
}

fn run(setup: &Setup) -> Result<Outcome, StudyError> {
    Ok(flash_array::run(setup)?)
}
