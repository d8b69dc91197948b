//! Two networked hosts whose drivers map each packet, or map pages that they reuse.

use crate::host::{DmaPath, Locking};
use crate::network::Outcome;
use crate::studies::StudyError;
use crate::studies::about::StudyResults;
use crate::studies::power7::{Driver, Power7, Power7Host, Run, Test, mean};
use crate::{Curve, Point, Role};
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
    published: f64,
    role: Role,
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

/// Runs the models of all figures of the two hosts.
pub(super) fn reproduce(figures: Vec<Figure>, power7: &Power7) -> Result<StudyResults, StudyError> {
    let curves = figures.into_iter().map(|figure| build_curve(power7, figure)).collect::<Result<_, _>>()?;
    Ok(StudyResults { parameters: power7.parameters().parameter_list(), curves, charts: Vec::new() })
}

/// Runs the model of one figure.
fn build_curve(power7: &Power7, figure: Figure) -> Result<Curve, StudyError> {
    let (ours, y_title) = match figure.figure {
        HostsFigure::Pieces => (received_gigabits_per_second(power7, Driver::Pieces)?, "Gb/s"),
        HostsFigure::Pages => (received_gigabits_per_second(power7, Driver::Pages)?, "Gb/s"),
        HostsFigure::Pools => (
            exchanges_per_second(power7, Locking::Pools)? / exchanges_per_second(power7, Locking::Bitmap)?,
            "rate over rate",
        ),
    };
    Ok(Curve {
        name: figure.name,
        x_title: "figure".to_owned(),
        y_title: y_title.to_owned(),
        source: figure.source,
        within: None,
        remark: figure.remark,
        points: vec![Point { x: 1.0, published: figure.published, ours, role: figure.role }],
    })
}

/// Gb/s that a driver receives over TCP streams from a sender with direct DMA.
fn received_gigabits_per_second(power7: &Power7, driver: Driver) -> Result<f64, StudyError> {
    let sender = Power7Host { cores: CORES, driver: Driver::Pages, dma_path: DmaPath::Direct };
    let dma_path = DmaPath::Window { bytes: WINDOW_BYTES, locking: Locking::Table };
    let receiver = Power7Host { cores: CORES, driver, dma_path };
    let rate = |outcome: &Outcome| outcome.gigabits_per_second;
    let run = Run {
        machines: [sender, receiver],
        test: Test::TcpStream,
        message_bytes: STREAM_MESSAGE_BYTES,
        instances: STREAMS,
    };
    Ok(mean(&power7.run(&run)?, rate))
}

/// TCP request-response exchanges per second where both hosts map with this locking.
fn exchanges_per_second(power7: &Power7, locking: Locking) -> Result<f64, StudyError> {
    let dma_path = DmaPath::Window { bytes: WINDOW_BYTES, locking };
    let machine = Power7Host { cores: CORES, driver: Driver::Frames, dma_path };
    let rate = |outcome: &Outcome| outcome.operations_per_second;
    let run = Run {
        machines: [machine; 2],
        test: Test::TcpExchange,
        message_bytes: SESSION_MESSAGE_BYTES,
        instances: SESSIONS,
    };
    Ok(mean(&power7.run(&run)?, rate))
}
