//! The JSON document of an inspection. The facts serialise themselves; this is how they are put
//! together, and the version of that.

use host::diagnose::{DmaPath, Finding, Inspection, Outlook, Verdict};
use host::facts::{Adapter, Function, Unseen, bounce, iommu, log, memory, platform, power};
use host::kernel::verdict::TokenVerdict;
use host::{Bdf, Citation, Cited};
use serde::Serialize;

/// The version of the document's layout. It grows when a field changes its meaning or goes; new fields
/// leave it as it is.
const SCHEMA: &str = "iotoll.inspect/2";

/// What `iotoll inspect --json` prints.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    schema: &'static str,
    made_by: &'static str,
    source: Source<'a>,
    host: HostFacts<'a>,
    adapters: Vec<AdapterView<'a>>,
    bridges: Vec<&'a Function>,
    findings: Vec<&'a Finding>,
    outlooks: Vec<&'a Outlook>,
    /// Whether everything was read that is there and that verdicts and findings rest on.
    complete: bool,
    /// Why verdicts and findings may be wrong, where not.
    doubts: Vec<String>,
    unseen: &'a [Unseen],
}

#[derive(Serialize)]
struct Source<'a> {
    reach: host::tree::Reach,
    path: &'a str,
}

#[derive(Serialize)]
struct HostFacts<'a> {
    #[serde(flatten)]
    platform: &'a platform::Platform,
    command_line: Option<&'a Cited<String>>,
    options: &'a [TokenVerdict],
    iommus: &'a [iommu::Instance],
    groups: Vec<&'a iommu::Group>,
    bounce: &'a bounce::Bounce,
    memory_types: Option<&'a memory::MemoryTypes>,
    power: Option<&'a power::Partition>,
    log: &'a log::LogFacts,
}

#[derive(Serialize)]
struct AdapterView<'a> {
    dma_path: DmaPath,
    reason: Option<&'a str>,
    evidence: &'a [Citation],
    #[serde(flatten)]
    facts: &'a Adapter,
}

impl<'a> AdapterView<'a> {
    fn new((facts, verdict): (&'a Adapter, &'a Verdict)) -> Self {
        Self {
            dma_path: verdict.dma_path,
            reason: verdict.reason.as_deref(),
            evidence: &verdict.evidence,
            facts,
        }
    }
}

impl<'a> Document<'a> {
    /// The document of a whole inspection, or of one adapter in it.
    pub(crate) fn new(inspection: &'a Inspection, path: &'a str, only: Option<Bdf>) -> Self {
        let host = &inspection.host;
        let wanted = |address: Bdf| only.is_none_or(|only| only == address);
        Self {
            schema: SCHEMA,
            made_by: concat!("iotoll ", env!("CARGO_PKG_VERSION")),
            source: Source { reach: host.reach, path },
            host: HostFacts {
                platform: &host.platform,
                command_line: host.command_line.as_ref(),
                options: &host.options,
                iommus: &host.iommus.instances,
                groups: host.iommus.groups.values().collect(),
                bounce: &host.bounce,
                memory_types: host.memory.as_ref(),
                power: host.power.as_ref(),
                log: &host.log,
            },
            adapters: inspection
                .adapters()
                .filter(|(adapter, _)| wanted(adapter.function.address))
                .map(AdapterView::new)
                .collect(),
            bridges: host.bridges.values().collect(),
            findings: inspection
                .findings
                .iter()
                .filter(|finding| finding.address.is_none_or(wanted))
                .collect(),
            outlooks: inspection.outlooks.iter().filter(|outlook| wanted(outlook.address)).collect(),
            complete: host.doubts().next().is_none(),
            doubts: host.doubts().collect(),
            unseen: &host.unseen,
        }
    }
}
