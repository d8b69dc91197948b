//! Two hosts whose drivers map for each packet, or seldom.

use crate::host::{DmaPath, Locking};
use crate::network::Outcome;
use crate::studies::StudyError;
use crate::studies::about::Told;
use crate::studies::power7::{Driver, Machine, Power7, Run, Test, mean};
use crate::{Curve, Point, Role};
use serde::Deserialize;

const WINDOW_BYTES: u64 = 2 << 30;
/// Of both machines.
const CORES: u32 = 8;
const STREAMS: u32 = 16;
const STREAM_MESSAGE_BYTES: u64 = 64 << 10;
const SESSIONS: u32 = 100;
const SESSION_MESSAGE_BYTES: u64 = 1 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    figure: Which,
    name: String,
    source: String,
    published: f64,
    role: Role,
    remark: Option<String>,
}

/// What is asked of the model.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Which {
    Pieces,
    Pages,
    Pools,
}

pub(super) fn told(figures: Vec<Figure>, power7: &Power7) -> Result<Told, StudyError> {
    let curves = figures.into_iter().map(|figure| curve(power7, figure)).collect::<Result<_, _>>()?;
    Ok(Told { parameters: power7.parameters().listed(), curves, charts: Vec::new() })
}

fn curve(power7: &Power7, figure: Figure) -> Result<Curve, StudyError> {
    let (ours, y_title) = match figure.figure {
        Which::Pieces => (received(power7, Driver::Pieces)?, "Gb/s"),
        Which::Pages => (received(power7, Driver::Pages)?, "Gb/s"),
        Which::Pools => {
            (exchanges(power7, Locking::Pools)? / exchanges(power7, Locking::Bitmap)?, "rate over rate")
        }
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

/// What a driver receives in a second, from a sender that nothing holds up.
fn received(power7: &Power7, driver: Driver) -> Result<f64, StudyError> {
    let sender = Machine { cores: CORES, driver: Driver::Pages, dma_path: DmaPath::Direct };
    let dma_path = DmaPath::Window { bytes: WINDOW_BYTES, locking: Locking::Table };
    let receiver = Machine { cores: CORES, driver, dma_path };
    let rate = |outcome: &Outcome| outcome.gigabits_per_second;
    let run = Run {
        machines: [sender, receiver],
        test: Test::TcpStream,
        message_bytes: STREAM_MESSAGE_BYTES,
        instances: STREAMS,
    };
    Ok(mean(&power7.run(&run)?, rate))
}

fn exchanges(power7: &Power7, locking: Locking) -> Result<f64, StudyError> {
    let dma_path = DmaPath::Window { bytes: WINDOW_BYTES, locking };
    let machine = Machine { cores: CORES, driver: Driver::Frames, dma_path };
    let rate = |outcome: &Outcome| outcome.operations_per_second;
    let run = Run {
        machines: [machine; 2],
        test: Test::TcpExchange,
        message_bytes: SESSION_MESSAGE_BYTES,
        instances: SESSIONS,
    };
    Ok(mean(&power7.run(&run)?, rate))
}
