//! Samples all CPUs until it is told to end.

use super::chain::Chain;
use super::cpu_ring::{CpuRing, Sampling, online_cpus, rate};
use super::cycle::cycle_ns;
use super::event::{Event, SamplerError};
use super::interrupt::{self, Source};
use super::sample::{Record, Records, Sample};
use super::setting::setting;
use super::symbols::Symbols;
use super::{Sampled, SampledPath};
use crate::perf_event::Reading;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use toll::Stage;

/// How often rings are read.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Different stacks that are told apart, so that memory is bounded. Of further ones only the stage counts.
const PATHS_MAX: usize = 16 << 10;

/// A thread that samples until [`Self::finish`], or until this is dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Sampled>>,
}

impl Sampler {
    /// Begins, or says why not.
    pub(crate) fn start(event: Event) -> Result<Self, String> {
        Self::try_start(event).map_err(|error| error.to_string())
    }

    fn try_start(event: Event) -> Result<Self, SamplerError> {
        let source = match event {
            Event::Cycles => {
                let known = interrupt::source(std::env::consts::ARCH, Path::new("/"));
                Some(known.map_err(SamplerError::Source)?)
            }
            Event::Timer => None,
        };
        let cycle_ns = cycle_ns(event)?;
        let symbols = Symbols::of_this_kernel()?;
        let cpus = online_cpus()?;
        let allowed = setting("perf_event_max_sample_rate").parse().unwrap_or(u64::MAX);
        let rate = rate(cpus.len(), allowed);
        let period = (1e9 / cycle_ns / rate as f64) as u64 | 1;
        let registers = source.map_or(0, |source| source.registers);
        let sampling = Sampling { event, registers, rate, period };
        let rings = cpus.iter().map(|cpu| CpuRing::open(*cpu, &sampling));
        // A CPU that went offline meanwhile has none.
        let rings: Vec<CpuRing> = rings.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let sampled = Sampled {
            cpus: rings.len(),
            cycles_per_sample: period,
            cycle_ns: [cycle_ns; 2],
            ..Sampled::default()
        };
        let reader =
            Reader { event, source, symbols, rings, sampled, stacks: HashMap::new(), records: Vec::new() };
        let thread = thread::Builder::new().name("stacks".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || reader.run(&stop)
        });
        Ok(Self { stop, thread: Some(thread.map_err(SamplerError::Thread)?) })
    }

    /// Ends, and returns what was sampled.
    pub(crate) fn finish(mut self) -> Sampled {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        let joined = thread.map(|thread| {
            thread.thread().unpark();
            thread.join()
        });
        let panicked =
            || Sampled { evidence: Some(Err("reading samples failed".to_owned())), ..Sampled::default() };
        joined.and_then(Result::ok).unwrap_or_else(panicked)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Reads the rings.
struct Reader {
    event: Event,
    source: Option<Source>,
    symbols: Symbols,
    rings: Vec<CpuRing>,
    sampled: Sampled,
    /// Samples by the functions of their chains.
    stacks: HashMap<(Stage, Vec<usize>), u64>,
    /// Records that were just taken.
    records: Vec<u8>,
}

impl Reader {
    fn run(mut self, stop: &AtomicBool) -> Sampled {
        while !stop.load(Ordering::Relaxed) {
            thread::park_timeout(READ_EVERY);
            self.read();
        }
        self.end()
    }

    /// Takes all records that there are.
    fn read(&mut self) {
        for index in 0..self.rings.len() {
            let CpuRing { ring, has_register, .. } = &mut self.rings[index];
            self.records.clear();
            ring.take(&mut self.records);
            let bytes = std::mem::take(&mut self.records);
            let mut records = Records::of(&bytes, *has_register);
            for record in records.by_ref() {
                self.count(record);
            }
            self.sampled.malformed_bytes += records.malformed_bytes as u64;
            self.records = bytes;
        }
    }

    fn count(&mut self, record: Record) {
        match record {
            Record::Sample(sample) => self.count_sample(&sample),
            Record::Lost(number) => self.sampled.lost = self.sampled.lost.saturating_add(number),
            Record::Throttled => self.sampled.throttled += 1,
            Record::Other => {}
        }
    }

    fn count_sample(&mut self, sample: &Sample) {
        self.sampled.samples += 1;
        if sample.kernel.is_empty() {
            return;
        }
        self.sampled.kernel += 1;
        let chain = Chain::of(sample, &self.symbols);
        let says_off = |source: Source| sample.register.is_some_and(source.is_off);
        if chain.is_handler || self.source.is_some_and(says_off) {
            self.sampled.interrupts_off += 1;
        }
        let Some(stage) = chain.stage else { return };
        if chain.is_program {
            self.sampled.programs += 1;
            return;
        }
        *self.sampled.stages.entry(stage).or_default() += 1;
        let number = self.stacks.len();
        match self.stacks.get_mut(&(stage, chain.path.clone())) {
            Some(samples) => *samples += 1,
            None if number < PATHS_MAX => _ = self.stacks.insert((stage, chain.path), 1),
            None => {}
        }
    }

    /// What was sampled. The counters end with this.
    fn end(mut self) -> Sampled {
        // Before the last samples, which are then those of these counts.
        let readings = self.rings.iter_mut().map(|ring| Reading::of(&mut ring.counter));
        let readings: Vec<Reading> =
            readings.filter_map(Result::ok).filter(|one| one.running_ns > 0).collect();
        self.read();
        let sampled = &mut self.sampled;
        sampled.cycles = readings.iter().map(|one| one.scaled()).sum();
        sampled.cycles_per_ns = readings.iter().map(|one| one.count as f64 / one.running_ns as f64).sum();
        sampled.ns =
            readings.iter().map(|one| one.enabled_ns as f64).sum::<f64>() / readings.len().max(1) as f64;
        if let Ok(ns) = cycle_ns(self.event) {
            sampled.cycle_ns[1] = ns;
        }
        let evidence = self.source.map(|source| source.evidence(sampled.kernel, sampled.interrupts_off));
        sampled.evidence = match readings.is_empty() {
            true => Some(Err(SamplerError::Idle.to_string())),
            false => evidence,
        };
        let name =
            |place: &usize| self.symbols.get(*place).map_or_else(String::new, |one| one.name.to_string());
        let path = |((stage, path), samples): (&(Stage, Vec<usize>), &u64)| SampledPath {
            functions: path.iter().map(name).collect(),
            stage: *stage,
            samples: *samples,
        };
        self.sampled.paths = self.stacks.iter().map(path).collect();
        self.sampled
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::fs;
    use std::hint::black_box;
    use std::time::Instant;

    /// The timer works on every kernel: it needs the same rings, records and symbols.
    #[test]
    fn the_timer_samples_this_kernel() {
        let sampler = match Sampler::start(Event::Timer) {
            Ok(sampler) => sampler,
            Err(why) => return println!("SKIPPED the_timer_samples_this_kernel: {why}"),
        };
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(400) {
            black_box(fs::metadata("/proc/self/status").unwrap());
        }
        let sampled = sampler.finish();
        // One CPU was busy, in the kernel too. Idle ones have samples of this event as well.
        assert!(sampled.samples > 100 && sampled.kernel > 10, "{sampled:?}");
        assert!(sampled.malformed_bytes == 0 && sampled.interrupts_off == 0, "{sampled:?}");
    }

    /// A machine without counters says so, and none is sampled by its timer instead.
    #[test]
    fn cycles_are_sampled_or_it_is_said_why_not() {
        match Sampler::start(Event::Cycles) {
            Ok(sampler) => {
                thread::sleep(Duration::from_millis(200));
                let sampled = sampler.finish();
                assert!(sampled.evidence.is_some() && sampled.cycles > 0.0, "{sampled:?}");
            }
            Err(why) => {
                println!("not sampled: {why}");
                assert!(
                    ["counters", "expected root", "non-maskable"].iter().any(|word| why.contains(word)),
                    "{why}"
                );
            }
        }
    }
}
