//! Two networked hosts whose drivers map each packet, or map pages that they reuse.

use crate::host::{DmaPath, Locking};
use crate::network::Outcome;
use crate::part::Part;
use crate::studies::StudyError;
use crate::studies::about::PointFile;
use crate::studies::model_value::ModelValue;
use crate::studies::power7::{Driver, Power7, Power7Host, Run, Test};
use crate::{Curve, Reference};
use serde::Deserialize;

const WINDOW_BYTES: u64 = 2 << 30;
/// Cores of each machine.
const CORES: u32 = 8;
const STREAMS: u32 = 16;
const STREAM_MESSAGE_BYTES: u64 = 64 << 10;
const SESSIONS: u32 = 100;
const SESSION_MESSAGE_BYTES: u64 = 1 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    figure: HostsFigure,
    name: String,
    source: String,
    points: Vec<PointFile>,
    remark: Option<String>,
}

/// Which figure of the publication a curve reproduces.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HostsFigure {
    Pieces,
    Pages,
    Pools,
}

/// The two hosts, and the seed of their random choices.
pub(super) struct Hosts {
    pub(super) power7: Power7,
    pub(super) seed: u64,
}

/// Runs the models of all figures of the two hosts.
pub(super) fn build_curves(figures: Vec<Figure>, hosts: &Hosts) -> Result<Vec<Curve>, StudyError> {
    figures.into_iter().map(|figure| build_curve(hosts, figure)).collect()
}

/// Runs the model of one figure.
fn build_curve(hosts: &Hosts, figure: Figure) -> Result<Curve, StudyError> {
    let (ours, y_title) = match figure.figure {
        HostsFigure::Pieces => (received_gigabits_per_second(hosts, Driver::Pieces)?, "Gb/s"),
        HostsFigure::Pages => (received_gigabits_per_second(hosts, Driver::Pages)?, "Gb/s"),
        HostsFigure::Pools => {
            let [pools, one] =
                [Locking::Pools, Locking::Bitmap].map(|locking| exchanges_per_second(hosts, locking));
            ((pools? / one?).into(), "rate over rate")
        }
    };
    Ok(Curve {
        name: figure.name,
        x_title: "figure".to_owned(),
        y_title: y_title.to_owned(),
        reference: Reference::Published,
        source: figure.source,
        within: None,
        remark: figure.remark,
        points: figure.points.iter().map(|point| point.with_model_value(ours.clone())).collect(),
    })
}

/// Gb/s that a driver receives over TCP streams from a sender with direct DMA.
fn received_gigabits_per_second(hosts: &Hosts, driver: Driver) -> Result<ModelValue, StudyError> {
    let sender = Power7Host { cores: CORES, driver: Driver::Pages, dma_path: DmaPath::Direct };
    let dma_path = DmaPath::Window { bytes: WINDOW_BYTES, locking: Locking::Table };
    let receiver = Power7Host { cores: CORES, driver, dma_path };
    let run = Run {
        machines: [sender, receiver],
        test: Test::TcpStream,
        message_bytes: STREAM_MESSAGE_BYTES,
        instances: STREAMS,
        seed: hosts.seed,
    };
    let outcome = hosts.power7.run(&run)?;
    Ok(ModelValue::of_run(outcome.gigabits_per_second, wires(&outcome)))
}

/// The wires of a run, both directions.
fn wires(outcome: &Outcome) -> Vec<Part> {
    let [client, server] = outcome.hosts.each_ref().map(|host| host.wire_busy_share);
    vec![Part::new("wire from the client", client), Part::new("wire from the server", server)]
}

/// TCP request-response exchanges per second where both hosts map with this locking.
fn exchanges_per_second(hosts: &Hosts, locking: Locking) -> Result<f64, StudyError> {
    let dma_path = DmaPath::Window { bytes: WINDOW_BYTES, locking };
    let machine = Power7Host { cores: CORES, driver: Driver::Frames, dma_path };
    let run = Run {
        machines: [machine; 2],
        test: Test::TcpExchange,
        message_bytes: SESSION_MESSAGE_BYTES,
        instances: SESSIONS,
        seed: hosts.seed,
    };
    Ok(hosts.power7.run(&run)?.operations_per_second)
}
