//! A host and its disk as a user's file describes them.

use super::block_error::BlockError;
use super::block_host::{BlockHost, Paths};
use super::load::{NotModelled, not_modelled};
use super::media::{Media, Service};
use super::nvme_adapter::NvmeAdapter;
use super::outcome::{Outcome, Served};
use super::{Setup, run};
use crate::fio::{FioError, JobFile};
use crate::host::{CpusAnswer, CpusFile, MappingFile};
use crate::link::Link;
use crate::part::Part;
use crate::replications::{Replications, SEEDS_MAX, default_seeds};
use crate::steady::RunsAnswer;
use crate::user_file::{self, ExperimentError, InvalidField, wrong_link};
use des::Span;
use serde::{Deserialize, Serialize};
use toll::Estimate;

/// What a file says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockExperiment {
    /// What it is about, for people.
    what: String,
    /// What runs, as a job file of fio says it.
    jobs: String,
    cpus: CpusFile,
    paths: PathsFile,
    adapter: AdapterFile,
    media: MediaFile,
    mapping: MappingFile,
    /// Of all random choices of the first run.
    #[serde(default)]
    seed: u64,
    /// Number of runs, with consecutive seeds.
    #[serde(default = "default_seeds")]
    pub(crate) seeds: u32,
    /// Time before anything is measured, at least.
    warm_up_us: f64,
    /// Time that is measured, at least.
    measured_us: f64,
    /// Whose jobs these are, for errors.
    #[serde(skip)]
    jobs_file: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathsFile {
    submit_instructions: f64,
    submit_page_instructions: f64,
    queue_instructions: f64,
    interrupt_instructions: f64,
    complete_instructions: f64,
    complete_page_instructions: f64,
    sleep_instructions: f64,
    wake_instructions: f64,
    mapping_entry_instructions: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdapterFile {
    link: Link,
    queues: u32,
    queue_entries: u32,
    transfer_bytes_max: u64,
    latency_ns: f64,
    read_ns: f64,
    posted_ns: f64,
    coalescing_ns: f64,
    coalesced_completions: u32,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct MediaFile {
    channels: u32,
    dies: u32,
    page_bytes: u64,
    service: ServiceFile,
    read_ns: f64,
    write_ns: f64,
    channel_megabytes_per_second: f64,
    buffer_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ServiceFile {
    Fixed,
    Exponential,
}

/// Why what a job file says can't run.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// It is no job file of fio, or asks for what is not modelled.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// The machine can't carry it out.
    #[error("{file}")]
    NotModelled {
        /// The job file.
        file: String,
        /// What it can't do.
        source: NotModelled,
    },
    /// The machine has no outcome.
    #[error(transparent)]
    Block(#[from] BlockError),
}

impl JobsError {
    /// What is wrong, without the file's name.
    pub(crate) fn in_jobs(&self) -> String {
        match self {
            Self::Fio(FioError { line, problem, .. }) => format!("line {line}: {problem}"),
            Self::NotModelled { source, .. } => source.to_string(),
            Self::Block(error) => error.to_string(),
        }
    }

    /// Whether the jobs are wrong, so that nothing was simulated.
    pub fn is_of_jobs(&self) -> bool {
        !matches!(self, Self::Block(_))
    }
}

/// What came out, and what limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockAnswer {
    /// What it is about.
    pub what: String,
    /// How it was measured.
    pub runs: RunsAnswer,
    /// All jobs together.
    #[serde(flatten)]
    pub all: ServedAnswer,
    /// Each of them.
    pub jobs: Vec<JobAnswer>,
    /// Reads and writes in flight, on average.
    pub depth_mean: Estimate,
    /// Interrupts in a second.
    pub interrupts_per_second: Estimate,
    /// The host's CPUs.
    pub cpus: CpusAnswer,
    /// How busy each part was, 0 to 1.
    pub parts: Vec<Part>,
    /// The part that has no more to give.
    pub limit: String,
    /// Options of the job file that say nothing of the load.
    pub set_aside: Vec<String>,
}

/// What a job came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobAnswer {
    /// The job.
    pub name: String,
    /// What its threads got.
    #[serde(flatten)]
    pub served: ServedAnswer,
}

/// Reads and writes that threads got.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServedAnswer {
    /// In a second.
    pub operations_per_second: Estimate,
    /// Their data, in 10^9 bytes in a second.
    pub gigabytes_per_second: Estimate,
    /// From a thread's first instruction for one to when it has it; nothing where none ended.
    pub latency_mean_ns: Option<Estimate>,
    /// What half of them took at most.
    pub latency_p50_ns: Option<Estimate>,
    /// What 99 of 100 did.
    pub latency_p99_ns: Option<Estimate>,
    /// What 999 of 1,000 did.
    pub latency_p99_9_ns: Option<Estimate>,
}

/// Simulated time of the largest experiment, in microseconds: ten seconds.
const TIME_MAX_US: f64 = 1e7;
/// One page of a PRP list has room for so much.
const TRANSFER_BYTES_MAX: u64 = 2 << 20;

impl BlockExperiment {
    /// Reads a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        let read: Self = user_file::read(text, file, Self::invalid_field)?;
        Ok(Self { jobs_file: Some(format!("{file}, jobs")), ..read })
    }

    /// The same with the jobs of a job file; `file` is its name, for errors.
    pub fn with_jobs(self, text: &str, file: &str) -> Self {
        let what = format!("jobs of {file}");
        Self { what, jobs: text.to_owned(), jobs_file: Some(file.to_owned()), ..self }
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`JobsError`]
    pub fn run(&self) -> Result<BlockAnswer, JobsError> {
        let (setup, jobs) = self.setup_and_jobs()?;
        let runs = Replications::run(self.seed, self.seeds, |seed| run(&Setup { seed, ..setup.clone() }))?;
        Ok(self.answer(&setup, &jobs, &runs))
    }

    /// What runs.
    ///
    /// # Errors
    /// [`JobsError`]
    pub fn setup(&self) -> Result<Setup, JobsError> {
        self.setup_and_jobs().map(|(setup, _)| setup)
    }

    /// The machine's parameters, with its jobs from the fio file or the experiment.
    fn setup_and_jobs(&self) -> Result<(Setup, JobFile), JobsError> {
        let file = self.jobs_file.as_deref().unwrap_or("jobs");
        let jobs = JobFile::read(&self.jobs, file)?;
        let host = self.host();
        if let Some(source) = not_modelled(&jobs.jobs, &host.adapter, &host.cpus) {
            return Err(JobsError::NotModelled { file: file.to_owned(), source });
        }
        let setup = Setup {
            host,
            jobs: jobs.jobs.clone(),
            warm_up: Span::from_ns_f64(self.warm_up_us * 1e3),
            measured: Span::from_ns_f64(self.measured_us * 1e3),
            seed: self.seed,
        };
        Ok((setup, jobs))
    }

    fn host(&self) -> BlockHost {
        BlockHost {
            cpus: self.cpus.cpus(),
            paths: self.paths.paths(),
            adapter: self.adapter.adapter(),
            media: self.media.media(),
            dma_path: self.mapping.dma_path(),
            mapping: self.mapping.cost(),
            entry_instructions: self.paths.mapping_entry_instructions,
        }
    }

    /// The answer to print, from the simulations' outcomes.
    fn answer(&self, setup: &Setup, jobs: &JobFile, runs: &Replications<Outcome>) -> BlockAnswer {
        let parts = runs.parts(|run| run.parts(setup));
        let job = |(place, job): (usize, &crate::fio::Job)| JobAnswer {
            name: job.name.clone(),
            served: ServedAnswer::of(runs, |run| &run.jobs[place]),
        };
        let aside = jobs.set_aside.iter().map(|option| format!("{} (line {})", option.option, option.line));
        BlockAnswer {
            what: self.what.clone(),
            runs: RunsAnswer::of(runs, self.warm_up_us, |run| run.window),
            all: ServedAnswer::of(runs, |run| &run.all),
            jobs: setup.jobs.iter().enumerate().map(job).collect(),
            depth_mean: runs.estimate(|run| run.depth_mean),
            interrupts_per_second: runs.estimate(|run| run.interrupts_per_second),
            cpus: CpusAnswer::of(runs, |run| &run.cpus),
            limit: Part::limiting(&parts).unwrap_or_else(|| "what jobs have in flight".to_owned()),
            parts,
            set_aside: aside.collect(),
        }
    }

    /// The first value that no machine has.
    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let is_time = |us: f64| (1.0..=TIME_MAX_US).contains(&us);
        let own = [
            InvalidField::unless(is_time(self.warm_up_us), "warm_up_us", self.warm_up_us, "1 to 1e7"),
            InvalidField::unless(is_time(self.measured_us), "measured_us", self.measured_us, "1 to 1e7"),
            InvalidField::unless_count("seeds", self.seeds.into(), SEEDS_MAX.into()),
        ];
        own.into_iter()
            .flatten()
            .next()
            .or_else(|| self.cpus.invalid_field())
            .or_else(|| self.paths.invalid_field())
            .or_else(|| self.adapter.invalid_field())
            .or_else(|| self.media.invalid_field())
            .or_else(|| self.mapping.invalid_field())
    }
}

impl PathsFile {
    fn paths(&self) -> Paths {
        Paths {
            submit: self.submit_instructions,
            submit_page: self.submit_page_instructions,
            queue: self.queue_instructions,
            interrupt: self.interrupt_instructions,
            complete: self.complete_instructions,
            complete_page: self.complete_page_instructions,
            sleep: self.sleep_instructions,
            wake: self.wake_instructions,
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let all = [
            ("paths.submit_instructions", self.submit_instructions),
            ("paths.submit_page_instructions", self.submit_page_instructions),
            ("paths.queue_instructions", self.queue_instructions),
            ("paths.interrupt_instructions", self.interrupt_instructions),
            ("paths.complete_instructions", self.complete_instructions),
            ("paths.complete_page_instructions", self.complete_page_instructions),
            ("paths.sleep_instructions", self.sleep_instructions),
            ("paths.wake_instructions", self.wake_instructions),
            ("paths.mapping_entry_instructions", self.mapping_entry_instructions),
        ];
        all.into_iter().find_map(|(field, value)| InvalidField::unless_instructions(field, value))
    }
}

impl AdapterFile {
    fn adapter(&self) -> NvmeAdapter {
        NvmeAdapter {
            link: self.link,
            queues: self.queues,
            queue_entries: self.queue_entries,
            transfer_bytes_max: self.transfer_bytes_max,
            latency: Span::from_ns_f64(self.latency_ns),
            read: Span::from_ns_f64(self.read_ns),
            posted: Span::from_ns_f64(self.posted_ns),
            coalescing: Span::from_ns_f64(self.coalescing_ns),
            coalesced: self.coalesced_completions,
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let transfer = self.transfer_bytes_max;
        let is_transfer = transfer.is_power_of_two() && (4096..=TRANSFER_BYTES_MAX).contains(&transfer);
        let is_entries = (2..=65_536).contains(&self.queue_entries);
        let wrong = [
            InvalidField::unless_count("adapter.queues", self.queues.into(), 65_535),
            InvalidField::unless(is_entries, "adapter.queue_entries", self.queue_entries, "2 to 65536"),
            InvalidField::unless(
                is_transfer,
                "adapter.transfer_bytes_max",
                transfer,
                "a power of two from 4096 to 2097152",
            ),
            InvalidField::unless_time("adapter.latency_ns", self.latency_ns),
            InvalidField::unless_time("adapter.read_ns", self.read_ns),
            InvalidField::unless_time("adapter.posted_ns", self.posted_ns),
            InvalidField::unless_time("adapter.coalescing_ns", self.coalescing_ns),
            InvalidField::unless_count(
                "adapter.coalesced_completions",
                self.coalesced_completions.into(),
                256,
            ),
        ];
        wrong.into_iter().flatten().next().or_else(|| wrong_link(&self.link).map(|wrong| wrong.of("adapter")))
    }
}

impl MediaFile {
    fn media(&self) -> Media {
        let service = |ns: f64| match self.service {
            ServiceFile::Fixed => Service::Fixed(Span::from_ns_f64(ns)),
            ServiceFile::Exponential => Service::Exponential(Span::from_ns_f64(ns)),
        };
        Media {
            channels: self.channels,
            dies: self.dies,
            page_bytes: self.page_bytes,
            read: service(self.read_ns),
            write: service(self.write_ns),
            channel_bytes_per_second: self.channel_megabytes_per_second * 1e6,
            buffer_bytes: self.buffer_bytes,
        }
    }

    fn invalid_field(&self) -> Option<InvalidField> {
        let (page, rate) = (self.page_bytes, self.channel_megabytes_per_second);
        let is_page = page.is_power_of_two() && (512..=1 << 20).contains(&page);
        // A command must fit, else it would wait forever.
        let is_buffer = self.buffer_bytes == 0 || (TRANSFER_BYTES_MAX..=1 << 40).contains(&self.buffer_bytes);
        let wrong = [
            InvalidField::unless_count("media.channels", self.channels.into(), 1024),
            InvalidField::unless_count("media.dies", self.dies.into(), 65_536),
            InvalidField::unless(is_page, "media.page_bytes", page, "a power of two from 512 to 1048576"),
            InvalidField::unless_time("media.read_ns", self.read_ns),
            InvalidField::unless_time("media.write_ns", self.write_ns),
            InvalidField::unless(
                (0.1..=1e6).contains(&rate),
                "media.channel_megabytes_per_second",
                rate,
                "0.1 to 1000000",
            ),
            InvalidField::unless(is_buffer, "media.buffer_bytes", self.buffer_bytes, "0, or 2097152 to 2^40"),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl ServedAnswer {
    /// Means over the runs; `of` is what was served in one.
    fn of(runs: &Replications<Outcome>, of: impl Fn(&Outcome) -> &Served) -> Self {
        let latency = |latency: fn(&Served) -> Span| {
            runs.estimate_known(|run| (of(run).per_second > 0.0).then(|| latency(of(run)).as_ns_f64()))
        };
        Self {
            operations_per_second: runs.estimate(|run| of(run).per_second),
            gigabytes_per_second: runs.estimate(|run| of(run).gigabytes_per_second),
            latency_mean_ns: latency(|served| served.latency_mean),
            latency_p50_ns: latency(|served| served.latency_p50),
            latency_p99_ns: latency(|served| served.latency_p99),
            latency_p99_9_ns: latency(|served| served.latency_p99_9),
        }
    }
}
