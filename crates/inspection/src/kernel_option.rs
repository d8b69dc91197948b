//! The options on the kernel's command line, and their effects.

use host::Citation;
use host::kernel::Effect;
use host::kernel::verdict::{Fault, TokenVerdict, Verdict};
use serde::Serialize;

/// One part of an argument: `iommu=pt,off` has two.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelOption {
    /// The argument's name.
    pub name: String,
    /// The argument's value; null for a bare word.
    pub value: Option<String>,
    /// The part that this row is about.
    pub part: String,
    /// Whether it is an argument of init instead of the kernel.
    pub for_init: bool,
    /// How this kernel treats it.
    pub verdict: OptionVerdict,
    /// Its meaning, if the kernel understands it.
    pub meaning: Option<String>,
    /// Its effects.
    pub effects: Vec<OptionEffect>,
    /// A remark about it.
    pub caveat: Option<String>,
    /// What is wrong with it, if it is invalid.
    pub fault: Option<Fault>,
    /// Why it is invalid or has no effect.
    pub reason: Option<String>,
    /// The option that was probably meant.
    pub suggestion: Option<String>,
    /// The line that it was read from.
    pub evidence: Citation,
}

/// How a kernel treats an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OptionVerdict {
    /// It has the effects that are listed.
    Understood,
    /// It has nothing to do with DMA.
    NotDma,
    /// It is valid, and has no effect on this host.
    Ineffective,
    /// The kernel does not understand it.
    Invalid,
}

/// An effect of an option: a setting and its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionEffect {
    /// The setting: `passthrough`, `strict`, `swiotlb-slots`.
    pub name: String,
    /// The value: `true`, `false`, a number or a text; null if the setting has none.
    pub value: Option<String>,
}

impl KernelOption {
    /// Converts an option and the kernel's treatment of it.
    pub(crate) fn new(option: &TokenVerdict) -> Self {
        let TokenVerdict { token, part, verdict, .. } = option;
        let row = Self {
            name: token.name.clone(),
            value: token.value.clone(),
            part: part.clone(),
            for_init: token.for_init,
            verdict: OptionVerdict::NotDma,
            meaning: None,
            effects: Vec::new(),
            caveat: None,
            fault: None,
            reason: None,
            suggestion: None,
            evidence: token.at.clone(),
        };
        match verdict.clone() {
            Verdict::NotDma => row,
            Verdict::Understood { meaning, effects, caveat } => Self {
                verdict: OptionVerdict::Understood,
                meaning: Some(meaning),
                effects: effects.iter().map(OptionEffect::new).collect(),
                caveat,
                ..row
            },
            Verdict::Ineffective { reason, suggestion } => {
                Self { verdict: OptionVerdict::Ineffective, reason: Some(reason), suggestion, ..row }
            }
            Verdict::Invalid { fault, reason, suggestion } => Self {
                verdict: OptionVerdict::Invalid,
                fault: Some(fault),
                reason: Some(reason),
                suggestion,
                ..row
            },
        }
    }
}

impl OptionEffect {
    /// Converts an effect of an option.
    fn new(effect: &Effect) -> Self {
        let (name, value) = match effect {
            Effect::Passthrough(on) => ("passthrough", Some(on.to_string())),
            Effect::Strict(on) => ("strict", Some(on.to_string())),
            Effect::Iommu(on) => ("iommu", Some(on.to_string())),
            Effect::ForceDac(on) => ("force-dac", Some(on.to_string())),
            Effect::SwiotlbSlots(slots) => ("swiotlb-slots", Some(slots.to_string())),
            Effect::SwiotlbAreas(areas) => ("swiotlb-areas", Some(areas.to_string())),
            Effect::SwiotlbForce(on) => ("swiotlb-force", Some(on.to_string())),
            Effect::SwiotlbActive => ("swiotlb-active", None),
            Effect::DirectWindow(on) => ("direct-window", Some(on.to_string())),
            Effect::MultiTce(on) => ("multi-tce", Some(on.to_string())),
            Effect::Eeh(on) => ("eeh", Some(on.to_string())),
            Effect::Memmap(area) => ("memmap", Some(area.clone())),
            Effect::MemoryLimit(bytes) => ("memory-limit-bytes", Some(bytes.to_string())),
            Effect::NoAts => ("no-ats", None),
            Effect::Aspm(policy) => ("aspm", Some(policy.clone())),
            Effect::BusTuning(policy) => ("bus-tuning", Some(policy.clone())),
            Effect::AcsOverride(functions) => ("acs-override", Some(functions.clone())),
            Effect::AcsRedirectOff(ports) => ("acs-redirect-off", Some(ports.clone())),
            Effect::UnsafeNoIommu(on) => ("unsafe-no-iommu", Some(on.to_string())),
            Effect::UnsafeInterrupts(on) => ("unsafe-interrupts", Some(on.to_string())),
            Effect::UserOwned(id) => ("user-owned", Some(id.clone())),
            Effect::NoPat => ("no-pat", None),
        };
        Self { name: name.to_owned(), value }
    }
}
