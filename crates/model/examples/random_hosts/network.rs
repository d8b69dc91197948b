//! Random pairs of hosts on a network.

use crate::draw::Draw;
use crate::{Length, Run};
use des::Span;
use model::host::Memory;
use model::network::{
    NetworkAdapter, NetworkError, NetworkHost, Paths, Pattern, Protocol, ReceiveBuffers, Setup, Wire, Work,
    run_window,
};
use model::{Hardware, Unsteady, host, network};

pub(crate) fn setup(draw: &mut Draw) -> Setup {
    let protocol = draw.one_of(&[Protocol::Udp, Protocol::Tcp { segment_bytes_max: 64 << 10 }]);
    let is_stream = draw.is() && protocol != Protocol::Udp;
    let window_bytes = draw.number(64 << 10, 1 << 20);
    let pattern = if is_stream { Pattern::Stream { window_bytes } } else { Pattern::Exchange };
    let message_bytes = draw.number(1, 64 << 10).min(65_507);
    let hosts = [host(draw), host(draw)];
    let wire = Wire {
        bits_per_second: draw.one_of(&[1e9, 10e9, 25e9, 100e9]),
        mtu_bytes: draw.one_of(&[1500, 9000]),
        latency: draw.ns(200, 5_000),
    };
    Setup {
        hosts,
        wire,
        work: Work { pattern, protocol, message_bytes, is_nodelay: draw.is() },
        instances: draw.number(1, 64) as u32,
        warm_up: Span::from_us(draw.number(200, 5_000)),
        measured: Span::from_us(draw.number(500, 8_000)),
        seed: 0,
    }
}

fn host(draw: &mut Draw) -> NetworkHost {
    let has_iommu = draw.is();
    NetworkHost {
        cpus: draw.cpus(),
        paths: Paths {
            write: draw.within(500.0, 5_000.0),
            send: draw.within(500.0, 5_000.0),
            receive: draw.within(1_000.0, 7_000.0),
            read: draw.within(500.0, 6_000.0),
            interrupt: draw.within(300.0, 2_000.0),
        },
        adapter: adapter(draw),
        dma_path: draw.dma_path(),
        mapping: draw.mapping(),
        iommu: has_iommu.then(|| iommu(draw)),
        memory: draw.is().then(|| Memory {
            adapter_node: 0,
            remote_dma: draw.ns(1, 300),
            line_bytes: 64,
            remote_line: draw.ns(1, 50),
            copy_ps_per_byte: draw.within(0.0, 200.0),
        }),
    }
}

/// Rings down to the shortest that hold a segment.
fn adapter(draw: &mut Draw) -> NetworkAdapter {
    let fragment_bytes = draw.one_of(&[None, Some(32 << 10), Some(4096)]);
    let longest = 1 + (64_u64 << 10).div_ceil(fragment_bytes.unwrap_or(64 << 10));
    let pieces_bytes = draw.one_of(&[&[512, 1024][..], &[4096, 4096, 4096], &[2048]]).to_vec();
    let buffers = match draw.is() {
        true => ReceiveBuffers::EachFrame { pieces_bytes },
        false => ReceiveBuffers::Blocks { block_bytes: 64 << 10, pieces_bytes },
    };
    NetworkAdapter {
        link: draw.link(),
        receive_rings: draw.number(1, 16) as u32,
        receive_entries: draw.number(4, 1024) as u32,
        send_rings: draw.number(1, 16) as u32,
        send_entries: draw.number(longest, 1024) as u32,
        latency: draw.ns(200, 2_000),
        inline_bytes: draw.one_of(&[0, 104, 256]),
        fragment_bytes,
        copied_bytes: draw.one_of(&[0, 256]),
        buffers,
        keeps_buffers: draw.is(),
        receive_delay: draw.one_of(&[Span::ZERO, Span::from_us(10), Span::from_us(50)]),
        receive_frames: draw.number(1, 64) as u32,
        send_delay: draw.one_of(&[Span::ZERO, Span::from_us(16), Span::from_us(50)]),
        send_frames: draw.number(1, 64) as u32,
    }
}

fn iommu(draw: &mut Draw) -> host::IommuSetup {
    let entries = draw.number(16, 1024) as usize;
    let (walk, walk_gap) = (draw.ns(50, 500), draw.ns(1, 100));
    let (slots, flush) = (draw.number(2, 512) as u32, draw.ns(100, 2_000));
    let poll = draw.one_of(&[Span::ZERO, Span::from_us(1)]);
    let queue = host::InvalidationQueue { slots, flush, poll, waits_with_lock: draw.is() };
    host::IommuSetup {
        hardware: Hardware { entries, ways: entries, walk, walk_gap },
        invalidates_domain: draw.is(),
        queue: draw.is().then_some(queue),
    }
}

pub(crate) fn run(setup: &Setup, length: Length) -> Result<Run, Unsteady> {
    let mut setup = Setup { seed: length.seed, ..setup.clone() };
    let ran = match length.window {
        None => network::run(&setup),
        Some(window) => {
            (setup.warm_up, setup.measured) = (window.warm_up, window.measured);
            run_window(&setup)
        }
    };
    match ran {
        Ok(outcome) => {
            let latency = outcome.latency_mean;
            Ok(Run { rate: outcome.gigabits_per_second, latency, window: outcome.window })
        }
        Err(NetworkError::Unsteady(unsteady)) => Err(unsteady),
        Err(error) => panic!("{error}: {setup:?}"),
    }
}
