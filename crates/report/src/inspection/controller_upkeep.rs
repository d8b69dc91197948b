//! A controller's health and firmware, in sections.

use crate::page::fact::Fact;
use crate::page::{Lead, Page};

/// Columns for the names of facts.
const NAMES: usize = 25;

/// A controller, and what is to be said of it.
#[derive(Debug, Clone, Default)]
pub struct ControllerUpkeep {
    /// Its model.
    pub model: String,
    /// Its serial number.
    pub serial: String,
    /// The revision of its firmware.
    pub firmware: String,
    /// The most important first.
    pub sections: Vec<UpkeepSection>,
}

/// A heading with sentences and facts.
#[derive(Debug, Clone, Default)]
pub struct UpkeepSection {
    /// The heading.
    pub heading: String,
    /// Entries of a list.
    pub sentences: Vec<String>,
    /// Names and values.
    pub facts: Vec<(String, String)>,
}

/// A controller and its sections.
pub fn controller_upkeep(upkeep: &ControllerUpkeep) -> Page {
    let ControllerUpkeep { model, serial, firmware, sections } = upkeep;
    let mut page = Page::titled(format!("{model}, serial number {serial}, firmware {firmware}"));
    for section in sections {
        page.heading(section.heading.clone());
        for sentence in &section.sentences {
            page.item(Lead::Mark("- ".to_owned()), sentence);
        }
        page.facts(section.facts.iter().map(|(name, value)| Fact::known(name, value)), NAMES);
    }
    page
}
