//! Several studies as one document: `iotoll.reproduction/4`.

use crate::{Changes, Reproduction, SCHEMA, StudyError, reproduce_with};
use serde::Serialize;

/// What `iotoll reproduce --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reproductions<'m> {
    /// `iotoll.reproduction/4`
    pub schema: &'static str,
    /// Name and version of the program.
    pub made_by: &'m str,
    /// The studies.
    pub reproductions: Vec<Reproduction>,
}

impl<'m> Reproductions<'m> {
    /// Runs studies with changed parameters and so many seeds, each in a thread of its own. `ended` is called when one has ended.
    ///
    /// # Errors
    /// That of the first study that can't be reproduced
    pub fn run<Name: AsRef<str> + Sync>(
        names: &[Name],
        changes: &Changes,
        seeds: u32,
        made_by: &'m str,
        ended: &(dyn Fn() + Sync),
    ) -> Result<Self, StudyError> {
        let study = |name: &Name| {
            let one = reproduce_with(name.as_ref(), changes, seeds);
            ended();
            one
        };
        let reproductions: Result<_, StudyError> = std::thread::scope(|scope| {
            let running: Vec<_> = names.iter().map(|name| scope.spawn(|| study(name))).collect();
            let all = running.into_iter();
            all.map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        Ok(Self { schema: SCHEMA, made_by, reproductions: reproductions? })
    }
}
