//! Drivers that map for each packet, and locks that hold up CPUs.

use super::FamilyError;
use super::power7::{Driver, Machine, Power7, Test};
use crate::network::{Locking, Road};
use crate::{Curve, Point, Reproduction, Role};
use serde::Deserialize;

pub(super) const NAME: &str = "dma-contention";
const FILE: &str = "dma-contention.toml";
const TEXT: &str = include_str!("../../../../experiments/dma-contention.toml");
const WINDOW_BYTES: u64 = 2 << 30;
/// Of both machines.
const CORES: u32 = 8;
const STREAMS: u32 = 16;
const STREAM_MESSAGE_BYTES: u64 = 64 << 10;
const SESSIONS: u32 = 100;
const SESSION_MESSAGE_BYTES: u64 = 1 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    question: String,
    method: String,
    bound: f64,
    curves: Vec<CurveFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveFile {
    figure: Figure,
    name: String,
    source: String,
    published: f64,
    role: Role,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    Pieces,
    Pages,
    Pools,
}

pub(super) fn reproduce() -> Result<Reproduction, FamilyError> {
    let file: File = toml::from_str(TEXT).map_err(|source| FamilyError::File { file: FILE, source })?;
    let power7 = Power7::read()?;
    let curves = file.curves.into_iter().map(|curve| self::curve(&power7, curve));
    Ok(Reproduction {
        family: NAME.to_owned(),
        question: file.question,
        method: file.method,
        parameters: power7.parameters().listed(),
        bound: file.bound,
        curves: curves.collect::<Result<_, _>>()?,
    })
}

fn curve(power7: &Power7, curve: CurveFile) -> Result<Curve, FamilyError> {
    let (ours, y_title) = match curve.figure {
        Figure::Pieces => (received(power7, Driver::Pieces)?, "Gb/s"),
        Figure::Pages => (received(power7, Driver::Pages)?, "Gb/s"),
        Figure::Pools => {
            (exchanges(power7, Locking::Pools)? / exchanges(power7, Locking::Bitmap)?, "rate over rate")
        }
    };
    Ok(Curve {
        name: curve.name,
        x_title: "figure".to_owned(),
        y_title: y_title.to_owned(),
        source: curve.source,
        within: None,
        remark: None,
        points: vec![Point { x: 1.0, published: Some(curve.published), ours, role: curve.role }],
    })
}

/// What a driver receives in a second, from a sender that nothing holds up.
fn received(power7: &Power7, driver: Driver) -> Result<f64, FamilyError> {
    let sender = Machine { cores: CORES, driver: Driver::Pages, road: Road::Direct };
    let road = Road::Window { bytes: WINDOW_BYTES, locking: Locking::Table };
    let receiver = Machine { cores: CORES, driver, road };
    Ok(power7.run([sender, receiver], Test::TcpStream, STREAM_MESSAGE_BYTES, STREAMS)?.gigabits_per_second)
}

fn exchanges(power7: &Power7, locking: Locking) -> Result<f64, FamilyError> {
    let road = Road::Window { bytes: WINDOW_BYTES, locking };
    let machine = Machine { cores: CORES, driver: Driver::Frames, road };
    let outcome = power7.run([machine; 2], Test::TcpExchange, SESSION_MESSAGE_BYTES, SESSIONS)?;
    Ok(outcome.operations_per_second)
}
