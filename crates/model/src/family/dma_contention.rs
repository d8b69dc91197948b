//! What DMA mappings cost where many ask for them at once: Cascardo's talk of 2013, and what others published since.

mod threads;

use super::FamilyError;
use crate::{Chart, Curve, Parameter, Reproduction};
use serde::Deserialize;

pub(super) const NAME: &str = "dma-contention";
const FILE: &str = "dma-contention.toml";
const TEXT: &str = include_str!("../../../../experiments/dma-contention.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    question: String,
    method: String,
    bound: f64,
    threads: threads::Threads,
}

/// What a model says, of all those that the family has.
#[derive(Debug, Default)]
struct Told {
    parameters: Vec<Parameter>,
    curves: Vec<Curve>,
    charts: Vec<Chart>,
}

pub(super) fn reproduce() -> Result<Reproduction, FamilyError> {
    let file: File = toml::from_str(TEXT).map_err(|source| FamilyError::File { file: FILE, source })?;
    let Told { parameters, curves, charts } = file.threads.told()?;
    Ok(Reproduction {
        family: NAME.to_owned(),
        question: file.question,
        method: file.method,
        parameters,
        bound: file.bound,
        curves,
        charts,
    })
}
