//! Where the parameters of a model come from, as counts.

use crate::Parameter;
use serde::Serialize;
use toll::Evidence;

/// Numbers of parameters by their evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EvidenceShare {
    /// Read in a publication.
    pub published: u32,
    /// Measured or counted.
    pub measured: u32,
    /// Chosen so that the model meets a figure.
    pub calibrated: u32,
    /// Assumed.
    pub assumed: u32,
    /// Given by the user for this run, without evidence.
    pub given: u32,
}

impl EvidenceShare {
    /// The share of a study's parameters.
    pub(crate) fn of_parameters(parameters: &[Parameter]) -> Self {
        let mut share = Self::default();
        parameters.iter().for_each(|parameter| share.add(Some(&parameter.evidence)));
        share
    }

    /// Adds a parameter: its evidence, or `None` if the user gave it.
    pub(crate) fn add(&mut self, evidence: Option<&Evidence>) {
        let count = match evidence {
            Some(Evidence::Published { .. }) => &mut self.published,
            Some(Evidence::Measured { .. }) => &mut self.measured,
            Some(Evidence::Calibrated { .. }) => &mut self.calibrated,
            Some(Evidence::Assumed { .. }) => &mut self.assumed,
            None => &mut self.given,
        };
        *count += 1;
    }

    /// Number of parameters.
    pub fn all(self) -> u32 {
        let Self { published, measured, calibrated, assumed, given } = self;
        published + measured + calibrated + assumed + given
    }
}
