//! The part of an inspection's document that has columns in the tables.

use serde::Deserialize;

/// Severities, worst first.
pub(crate) const SEVERITIES: [&str; 3] = ["critical", "warning", "note"];
/// Letters of the longest word that is taken from a document.
const WORD_LENGTH_MAX: usize = 64;

/// `iotoll.inspect/2`, as far as tables hold it.
#[derive(Debug, Deserialize)]
pub(crate) struct Inspected {
    pub(crate) made_by: String,
    pub(crate) complete: bool,
    pub(crate) doubts: Vec<String>,
    pub(crate) host: Host,
    pub(crate) adapters: Vec<Adapter>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) unseen: Vec<Unseen>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Host {
    pub(crate) architecture: Option<String>,
    pub(crate) cpu_vendor: Option<String>,
    pub(crate) hypervisor: Option<String>,
    pub(crate) machine: Option<String>,
    pub(crate) distribution: Option<String>,
    pub(crate) kernel_release: Option<String>,
    pub(crate) command_line: Option<String>,
    pub(crate) memory_bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Adapter {
    pub(crate) address: String,
    pub(crate) dma_path: String,
    pub(crate) condition: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) vendor_id: Option<String>,
    pub(crate) device_id: Option<String>,
    pub(crate) subsystem_vendor_id: Option<String>,
    pub(crate) subsystem_device_id: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) vendor_name: Option<String>,
    pub(crate) device_name: Option<String>,
    pub(crate) driver: Option<String>,
    pub(crate) iommu_group: Option<u32>,
    pub(crate) numa_node: Option<u32>,
    pub(crate) dma_mask_bits: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Finding {
    pub(crate) id: String,
    pub(crate) severity: String,
    pub(crate) address: Option<String>,
    pub(crate) what: String,
    pub(crate) fix: String,
    pub(crate) commands: Vec<String>,
    pub(crate) risk: String,
}

impl Inspected {
    /// Which field is no word where every version of the program has one, and what was expected. Whoever wrote a document may have put a text
    /// there, which is not shown.
    pub(crate) fn wrong_word(&self) -> Option<String> {
        const WORD: &str = "a word of small letters, digits and hyphens";
        let (adapters, findings) = (&self.adapters, &self.findings);
        let is_known = |severity: &str| SEVERITIES.contains(&severity);
        if let Some(at) = adapters.iter().position(|adapter| !is_word(&adapter.dma_path)) {
            return Some(format!("adapters[{at}].dma_path is another text; expected {WORD}"));
        }
        if let Some(at) = findings.iter().position(|finding| !is_word(&finding.id)) {
            return Some(format!("findings[{at}].id is another text; expected {WORD}"));
        }
        let at = findings.iter().position(|finding| !is_known(&finding.severity))?;
        Some(format!("findings[{at}].severity is another text; expected {}", SEVERITIES.join(", ")))
    }
}

/// Whether a text is as short as a word, and of small letters.
fn is_word(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=WORD_LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_letter)
}

#[derive(Debug, Deserialize)]
pub(crate) struct Unseen {
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) remedy: String,
    pub(crate) decisive: bool,
    pub(crate) file: Option<String>,
}
