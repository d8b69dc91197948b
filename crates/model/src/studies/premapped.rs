//! A disk whose buffers stay mapped: the gain from omitting the DMA mapping calls on a host without translation.

use super::about::{About, PointFile, StudyResults};
use super::replication::Replication;
use super::{Changes, StudyError};
use crate::block::{self, BlockHost, Media, NvmeAdapter, Paths, Service, Setup};
use crate::fio::{Access, Engine, Job};
use crate::host::{Cpus, DmaPath, LineTransfer, MappingCost};
use crate::link::{Generation, Link};
use crate::{Curve, Given, Parameter, Reference, Reproduction};
use des::Span;
use serde::Deserialize;

pub(super) const NAME: &str = "premapped";
const FILE: &str = "premapped.toml";
const TEXT: &str = include_str!("../../experiments/premapped.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    parameters: Parameters,
    figures: Vec<FigureFile>,
}

/// Parameters of the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The system call, including its handling of buffers.
    system_call_instructions: Given,
    /// The block layer.
    block_instructions: Given,
    /// The driver, without mappings.
    driver_instructions: Given,
    /// One DMA map and one unmap together.
    map_and_unmap_instructions: Given,
    /// Mean time of an instruction.
    instruction_ns: Given,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureFile {
    name: String,
    source: String,
    remark: String,
    /// At a read's size in KiB.
    points: Vec<PointFile>,
}

pub(super) fn run(of: &Replication<'_>) -> Result<Reproduction, StudyError> {
    let file = read(of.changes)?;
    let parameters = file.parameters.parameter_list();
    let curves = file
        .figures
        .into_iter()
        .map(|figure| file.parameters.build_curve(figure, of.seed))
        .collect::<Result<_, _>>()?;
    Ok(file.about.into_reproduction(NAME, StudyResults { parameters, curves, charts: Vec::new() }))
}

/// The study's parameters.
pub(super) fn parameters(changes: &Changes) -> Result<Vec<Parameter>, StudyError> {
    Ok(read(changes)?.parameters.parameter_list())
}

/// Parses the study file with the changes applied.
fn read(changes: &Changes) -> Result<File, StudyError> {
    changes.read(FILE, TEXT, &["parameters"])
}

impl Parameters {
    /// The gain in reads per second without mapping calls, in percent.
    fn build_curve(&self, figure: FigureFile, seed: u64) -> Result<Curve, StudyError> {
        let FigureFile { name, source, remark, points } = figure;
        let mapped = self.reads_per_second(self.map_and_unmap_instructions.value, seed)?;
        let gain = self.reads_per_second(0.0, seed)? / mapped - 1.0;
        Ok(Curve {
            name,
            x_title: "read, KiB".to_owned(),
            y_title: "percent more I/Os a second".to_owned(),
            reference: Reference::Published,
            source,
            within: None,
            remark: Some(remark),
            points: points.iter().map(|point| point.with_model_value(gain * 100.0)).collect(),
        })
    }

    /// Simulated reads per second with this many instructions for each map and unmap pair.
    fn reads_per_second(&self, mapping_instructions: f64, seed: u64) -> Result<f64, StudyError> {
        let setup = self.setup(mapping_instructions, seed);
        Ok(block::run(&setup)?.all.per_second)
    }

    /// One CPU and a disk fast enough that only the CPU limits.
    fn setup(&self, mapping_instructions: f64, seed: u64) -> Setup {
        let path = [&self.system_call_instructions, &self.block_instructions, &self.driver_instructions];
        let submit = path.iter().map(|given| given.value).sum();
        let paths = Paths {
            submit,
            submit_page: 0.0,
            queue: 0.0,
            interrupt: 0.0,
            complete: 0.0,
            complete_page: 0.0,
            sleep: 0.0,
            wake: 0.0,
        };
        let host = BlockHost {
            cpus: self.cpu(),
            paths,
            adapter: unlimited_adapter(),
            media: unlimited_media(),
            dma_path: DmaPath::Direct,
            mapping: direct_mapping_cost(mapping_instructions / 2.0),
            entry_instructions: 0.0,
        };
        let job = Job {
            name: "reads".to_owned(),
            access: Access::Read,
            is_random: true,
            block_bytes: 4096,
            depth: 128,
            threads: 1,
            engine: Engine::Asynchronous,
        };
        let (warm_up, measured) = (Span::from_ms(1), Span::from_ms(40));
        Setup { host, jobs: vec![job], warm_up, measured, seed }
    }

    /// One core with one hardware thread.
    fn cpu(&self) -> Cpus {
        let line = LineTransfer { same_node: Span::ZERO, other_node: Span::ZERO };
        Cpus {
            cores: 1,
            cores_per_node: 1,
            core_capacity: vec![1.0],
            instruction_ns: self.instruction_ns.value,
            wake: Span::ZERO,
            line,
        }
    }

    fn parameter_list(&self) -> Vec<Parameter> {
        let all = [
            ("system_call_instructions", &self.system_call_instructions),
            ("block_instructions", &self.block_instructions),
            ("driver_instructions", &self.driver_instructions),
            ("map_and_unmap_instructions", &self.map_and_unmap_instructions),
            ("instruction_ns", &self.instruction_ns),
        ];
        let parameter = |(name, given): (&str, &Given)| Parameter {
            name: name.to_owned(),
            value: given.value,
            evidence: given.evidence.clone(),
        };
        all.into_iter().map(parameter).collect()
    }
}

/// An adapter whose link never limits.
fn unlimited_adapter() -> NvmeAdapter {
    NvmeAdapter {
        link: Link {
            generation: Generation::Gen5,
            lanes: 16,
            payload_bytes_max: 256,
            read_request_bytes_max: 512,
            completion_boundary_bytes: 64,
            overhead_share: 0.0,
        },
        queues: 1,
        queue_entries: 1024,
        transfer_bytes_max: 4096,
        latency: Span::from_us(5),
        read: Span::ZERO,
        posted: Span::ZERO,
        coalescing: Span::ZERO,
        coalesced: 1,
    }
}

/// Flash whose channels and dies never limit.
fn unlimited_media() -> Media {
    Media {
        channels: 64,
        dies: 64,
        page_bytes: 4096,
        read: Service::Fixed(Span::from_us(3)),
        write: Service::Fixed(Span::ZERO),
        channel_bytes_per_second: 1e10,
        buffer_bytes: 0,
    }
}

/// Costs of direct DMA: `direct_instructions` to map, and as many to unmap.
fn direct_mapping_cost(direct_instructions: f64) -> MappingCost {
    MappingCost {
        direct_instructions,
        window_instructions: 0.0,
        locked_instructions: 0.0,
        hypercall: Span::ZERO,
        entry: Span::ZERO,
        translated_instructions: 0.0,
        submit_instructions: 0.0,
        invalidation: Span::ZERO,
        lock_lines: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_equals_the_omitted_instructions() {
        let one = run(&Replication::first(&Changes::default())).unwrap();
        let file = read(&Changes::default()).unwrap();
        let path: f64 =
            file.parameters.parameter_list().iter().take(3).map(|parameter| parameter.value).sum();
        let expected = 100.0 * file.parameters.map_and_unmap_instructions.value / path;
        let ours = one.curves[0].points[0].ours;
        // Reads that are half done when measuring begins or ends.
        assert!((ours / expected - 1.0).abs() < 0.01, "{ours} {expected}");
    }

    #[test]
    fn only_the_cpu_limits() {
        let file = read(&Changes::default()).unwrap();
        let outcome = block::run(&file.parameters.setup(112.0, Replication::FIRST_SEED)).unwrap();
        assert!(outcome.busiest_cpu_share > 0.9999, "{outcome:?}");
        assert!(outcome.link_up_busy_share < 0.2 && outcome.channel_busy_share < 0.2, "{outcome:?}");
    }
}
