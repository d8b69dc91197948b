//! Random hosts with a disk.

use crate::draw::Draw;
use crate::{Length, Run};
use des::Span;
use model::block::{BlockError, BlockHost, Media, NvmeAdapter, Paths, Service, Setup, run_window};
use model::fio::{Access, Engine, Job};
use model::{Unsteady, block};

pub(crate) fn setup(draw: &mut Draw) -> Setup {
    let jobs = (0..draw.number(1, 3)).map(|number| job(draw, number)).collect();
    Setup {
        host: host(draw),
        jobs,
        warm_up: Span::from_us(draw.number(200, 5_000)),
        measured: Span::from_us(draw.number(500, 20_000)),
        seed: 0,
    }
}

fn job(draw: &mut Draw, number: u64) -> Job {
    let read_percent = draw.number(1, 99) as u32;
    let depth = draw.number(1, 32) as u32;
    Job {
        name: format!("job {number}"),
        access: draw.one_of(&[Access::Read, Access::Write, Access::Mixed { read_percent }]),
        is_random: draw.is(),
        block_bytes: 512 * draw.number(1, 256),
        depth,
        threads: draw.number(1, 16) as u32,
        engine: if depth == 1 { Engine::Sync } else { Engine::Asynchronous },
    }
}

fn host(draw: &mut Draw) -> BlockHost {
    BlockHost {
        cpus: draw.cpus(),
        paths: Paths {
            submit: draw.within(1_000.0, 6_000.0),
            submit_page: draw.within(0.0, 600.0),
            queue: draw.within(50.0, 200.0),
            interrupt: draw.within(300.0, 1_500.0),
            complete: draw.within(500.0, 2_000.0),
            complete_page: draw.within(0.0, 200.0),
            sleep: draw.within(500.0, 3_000.0),
            wake: draw.within(500.0, 4_000.0),
        },
        adapter: NvmeAdapter {
            link: draw.link(),
            queues: draw.number(1, 16) as u32,
            queue_entries: 4096,
            transfer_bytes_max: 128 << 10,
            latency: draw.ns(500, 5_000),
            read: draw.ns(200, 1_000),
            posted: draw.ns(100, 500),
            coalescing: draw.one_of(&[Span::ZERO, Span::from_us(20)]),
            coalesced: draw.number(1, 16) as u32,
        },
        media: media(draw),
        dma_path: draw.dma_path(),
        mapping: draw.mapping(),
        entry_instructions: draw.within(0.0, 300.0),
    }
}

/// Flash with and without a write buffer, which may take long to fill.
fn media(draw: &mut Draw) -> Media {
    let (read, write) = (draw.ns(3_000, 100_000), draw.ns(20_000, 1_000_000));
    let service = match draw.is() {
        true => Service::Fixed,
        false => Service::Exponential,
    };
    Media {
        channels: draw.number(1, 32) as u32,
        dies: draw.number(1, 256) as u32,
        page_bytes: draw.one_of(&[4096, 16_384]),
        read: service(read),
        write: service(write),
        channel_bytes_per_second: draw.within(2e8, 2e9),
        buffer_bytes: draw.one_of(&[0, 2 << 20, 16 << 20, 256 << 20]),
    }
}

pub(crate) fn run(setup: &Setup, length: Length) -> Result<Run, Unsteady> {
    let mut setup = Setup { seed: length.seed, ..setup.clone() };
    let ran = match length.window {
        None => block::run(&setup),
        Some(window) => {
            (setup.warm_up, setup.measured) = (window.warm_up, window.measured);
            run_window(&setup)
        }
    };
    match ran {
        Ok(outcome) => {
            let latency = Some(outcome.all.latency_mean);
            Ok(Run { rate: outcome.all.per_second, latency, window: outcome.window })
        }
        Err(BlockError::Unsteady(unsteady)) => Err(unsteady),
        Err(error) => panic!("{error}: {setup:?}"),
    }
}
