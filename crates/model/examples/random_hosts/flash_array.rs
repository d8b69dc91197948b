//! Random hosts with an array of flash, whose cables stay plugged in.

use crate::draw::Draw;
use crate::{Length, Run};
use des::Span;
use model::flash_array::{
    Array, ArrayAdapter, FlashArrayError, IoInterface, Job, Library, Module, Multipath, Policy, SECTOR_BYTES,
    Service, Setup, Stack, Translation, run_window,
};
use model::{Unsteady, flash_array};

pub(crate) fn setup(draw: &mut Draw) -> Setup {
    let jobs = (0..draw.number(1, 3)).map(|_| job(draw)).collect();
    let has_windows = draw.is();
    Setup {
        cpus: draw.cpus(),
        stack: stack(draw),
        library: Library {
            submit: draw.within(300.0, 1_500.0),
            complete: draw.within(300.0, 1_500.0),
            poll: draw.within(50.0, 300.0),
        },
        translation: has_windows.then(|| Translation { dma_path: draw.dma_path(), cost: draw.mapping() }),
        adapters: draw.number(1, 4) as u32,
        adapter: adapter(draw),
        multipath: Multipath {
            policy: draw.one_of(&[Policy::FailOver, Policy::RoundRobin, Policy::ShortestQueue]),
            health_check: Span::from_ms(1_000),
        },
        array: Array { modules: draw.number(1, 24) as u32, read: service(draw), write: service(draw) },
        disks: draw.number(1, 64) as u32,
        jobs,
        faults: Vec::new(),
        warm_up: Span::from_us(draw.number(200, 5_000)),
        measured: Span::from_us(draw.number(500, 20_000)),
        seed: 0,
    }
}

fn job(draw: &mut Draw) -> Job {
    Job {
        way: draw.one_of(&[IoInterface::Kernel, IoInterface::User]),
        threads: draw.number(1, 16) as u32,
        depth: draw.number(1, 16) as u32,
        read_share: draw.within(0.0, 1.0),
        io_bytes: SECTOR_BYTES * draw.number(1, 16),
    }
}

fn stack(draw: &mut Draw) -> Stack {
    let has_protocol = draw.is();
    Stack {
        system_call: draw.within(500.0, 3_000.0),
        file_system: draw.within(0.0, 3_000.0),
        disk: module(draw),
        protocol: has_protocol.then(|| module(draw)),
        adapter: module(draw),
        interrupt: draw.within(300.0, 2_000.0),
        sleep: draw.within(500.0, 3_000.0),
        wake: draw.within(500.0, 3_000.0),
    }
}

fn module(draw: &mut Draw) -> Module {
    Module {
        submit: draw.within(300.0, 3_000.0),
        complete: draw.within(300.0, 3_000.0),
        locked_share: draw.within(0.0, 0.9),
        lines: draw.within(0.0, 6.0),
    }
}

fn adapter(draw: &mut Draw) -> ArrayAdapter {
    ArrayAdapter {
        ports: draw.number(1, 4) as u32,
        kernel_queues: draw.number(1, 16) as u32,
        queues_max: 256,
        latency: draw.ns(200, 3_000),
        memory: draw.ns(200, 1_000),
        posted: draw.ns(100, 500),
        bus_bytes_per_second: draw.within(2e9, 8e9),
        port_bytes_per_second: draw.within(4e8, 3e9),
        wire: draw.ns(50, 1_000),
        detection: Span::from_ms(1_000),
    }
}

fn service(draw: &mut Draw) -> Service {
    Service { latency: draw.ns(20_000, 300_000), per_second: draw.within(5e4, 2e6) }
}

pub(crate) fn run(setup: &Setup, length: Length) -> Result<Run, Unsteady> {
    let mut setup = Setup { seed: length.seed, ..setup.clone() };
    let ran = match length.window {
        None => flash_array::run(&setup),
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
        Err(FlashArrayError::Unsteady(unsteady)) => Err(unsteady),
        Err(error) => panic!("{error}: {setup:?}"),
    }
}
