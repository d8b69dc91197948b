//! What is compared: where lspci prints a fact, and the library's answer in lspci's words.

use pci::acs::AcsControls;
use pci::express::{Device, Device2, LinkRegisters, SlotCapability};
use pci::{Capabilities, Express, Presence};

/// A fact of a function.
pub(crate) struct Fact {
    /// The capability, by the beginning of its title.
    pub(crate) capability: &'static str,
    /// The register, by lspci's name; empty for what stands in the title.
    pub(crate) register: &'static str,
    /// What stands before the value.
    pub(crate) label: &'static str,
    /// The library's answer, as lspci would print it.
    pub(crate) ours: fn(&Capabilities) -> Option<String>,
}

/// `+` or `-`.
fn sign(flag: Option<bool>) -> Option<String> {
    flag.map(|set| if set { "+" } else { "-" }.to_owned())
}

fn decimal(number: Option<impl ToString>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn hexadecimal(number: Option<u32>, digits: usize) -> Option<String> {
    number.map(|number| format!("{number:0digits$x}"))
}

fn express(of: &Capabilities) -> Option<&Express> {
    of.express.get()
}

fn device(of: &Capabilities) -> Option<&Device> {
    express(of).map(|express| &express.device)
}

fn device2(of: &Capabilities) -> Option<&Device2> {
    express(of).map(|express| &express.device2)
}

fn link(of: &Capabilities) -> Option<&LinkRegisters> {
    express(of).map(|express| &express.link)
}

fn slot(of: &Capabilities) -> Option<&SlotCapability> {
    express(of)?.slot.as_ref()
}

fn enabled(of: &Capabilities) -> Option<&AcsControls> {
    of.acs.get().map(|acs| &acs.enabled)
}

fn supported(of: &Capabilities) -> Option<&AcsControls> {
    of.acs.get().map(|acs| &acs.supported)
}

/// A link speed as lspci prints it.
fn speed(speed: Option<pci::LinkSpeed>) -> Option<String> {
    speed.map(|speed| speed.to_string().replace(' ', ""))
}

/// The first of the ASPM states in force, as lspci prints them.
fn aspm(link: &LinkRegisters) -> Option<String> {
    let word = match link.aspm_l0s.zip(link.aspm_l1)? {
        (true, _) => "L0s",
        (false, true) => "L1",
        (false, false) => "Disabled",
    };
    Some(word.to_owned())
}

/// A time as lspci prints it.
fn time(us: u32) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..1_000_000 => format!("{}ms", us / 1_000),
        _ => format!("{}s", us / 1_000_000),
    }
}

const fn fact(
    capability: &'static str,
    register: &'static str,
    label: &'static str,
    ours: fn(&Capabilities) -> Option<String>,
) -> Fact {
    Fact { capability, register, label, ours }
}

const EXPRESS: &str = "Express";
const ACS: &str = "Access Control Services";
const ATS: &str = "Address Translation Service";
const SRIOV: &str = "Single Root I/O Virtualization";
const PRI: &str = "Page Request Interface";
const PASID: &str = "Process Address Space ID";
const AER: &str = "Advanced Error Reporting";

/// All facts that lspci prints as a word.
#[rustfmt::skip]
pub(crate) const FACTS: &[Fact] = &[
    fact(EXPRESS, "", "(v", |of| decimal(express(of)?.version)),
    fact(EXPRESS, "", "(Slot", |of| sign(express(of)?.slot_implemented)),
    fact(EXPRESS, "DevCap", "MaxPayload ", |of| decimal(device(of)?.payload_max.map(|size| size.bytes()))),
    fact(EXPRESS, "DevCap", "ExtTag", |of| sign(device(of)?.extended_tag)),
    fact(EXPRESS, "DevCap", "FLReset", |of| sign(device(of)?.function_level_reset)),
    fact(EXPRESS, "DevCtl", "MaxPayload ", |of| decimal(device(of)?.payload.map(|size| size.bytes()))),
    fact(EXPRESS, "DevCtl", "MaxReadReq ", |of| decimal(device(of)?.read_request.map(|size| size.bytes()))),
    fact(EXPRESS, "DevCtl", "RlxdOrd", |of| sign(device(of)?.relaxed_ordering_enabled)),
    fact(EXPRESS, "DevCtl", "ExtTag", |of| sign(device(of)?.extended_tag_enabled)),
    fact(EXPRESS, "DevCtl", "PhantFunc", |of| sign(device(of)?.phantom_enabled)),
    fact(EXPRESS, "DevCtl", "NoSnoop", |of| sign(device(of)?.no_snoop_enabled)),
    fact(EXPRESS, "DevCap2", "10BitTagComp", |of| sign(device2(of)?.ten_bit_tag_completer)),
    fact(EXPRESS, "DevCap2", "10BitTagReq", |of| sign(device2(of)?.ten_bit_tag_requester)),
    fact(EXPRESS, "DevCap2", "ARIFwd", |of| sign(device2(of)?.ari_forwarding)),
    fact(EXPRESS, "DevCtl2", "ARIFwd", |of| sign(device2(of)?.ari_forwarding_enabled)),
    fact(EXPRESS, "DevCtl2", "10BitTagReq", |of| sign(device2(of)?.ten_bit_tag_enabled)),
    fact(EXPRESS, "DevCtl2", "Completion Timeout: ", |of| {
        device2(of)?.completion_timeout.map(|range| time(range.us_min))
    }),
    fact(EXPRESS, "DevCtl2", "TimeoutDis", |of| sign(device2(of)?.completion_timeout_disabled)),
    fact(EXPRESS, "LnkCap", "Port #", |of| decimal(link(of)?.port_number)),
    fact(EXPRESS, "LnkCap", "Speed ", |of| speed(link(of)?.speed_max)),
    fact(EXPRESS, "LnkCap", "Width ", |of| link(of)?.width_max.map(|width| width.to_string())),
    fact(EXPRESS, "LnkCtl", "RCB ", |of| decimal(link(of)?.read_completion_boundary_bytes)),
    fact(EXPRESS, "LnkCtl", "ASPM ", |of| aspm(link(of)?)),
    fact(EXPRESS, "LnkSta", "Speed ", |of| speed(link(of)?.speed)),
    fact(EXPRESS, "LnkSta", "Width ", |of| link(of)?.width.map(|width| width.to_string())),
    fact(EXPRESS, "LnkSta", "Train", |of| sign(link(of)?.training)),
    fact(EXPRESS, "LnkSta", "SlotClk", |of| sign(link(of)?.slot_clock)),
    fact(EXPRESS, "LnkSta", "DLActive", |of| sign(link(of)?.active)),
    fact(EXPRESS, "LnkCap2", "Supported Link Speeds: ", |of| speed(link(of)?.speed_supported)),
    fact(EXPRESS, "LnkCtl2", "Target Link Speed: ", |of| speed(link(of)?.speed_target)),
    fact(EXPRESS, "SltCap", "Slot #", |of| decimal(slot(of)?.number)),
    fact(EXPRESS, "SltCap", "HotPlug", |of| sign(slot(of)?.hot_plug)),
    fact(EXPRESS, "SltCap", "Surprise", |of| sign(slot(of)?.hot_plug_surprise)),
    fact(EXPRESS, "SltSta", "PresDet", |of| sign(slot(of)?.occupied)),
    fact("Power Management", "Status", "D", |of| of.power.get()?.state.map(|state| (state as u32).to_string())),
    fact("MSI:", "", "Enable", |of| sign(of.msi.get()?.enabled)),
    fact("MSI:", "", "Count=", |of| {
        let msi = of.msi.get()?;
        msi.vectors.zip(msi.vectors_max).map(|(now, most)| format!("{now}/{most}"))
    }),
    fact("MSI-X:", "", "Enable", |of| sign(of.msi_x.get()?.enabled)),
    fact("MSI-X:", "", "Count=", |of| decimal(of.msi_x.get()?.vectors)),
    fact("MSI-X:", "", "Masked", |of| sign(of.msi_x.get()?.masked)),
    fact(ACS, "ACSCap", "SrcValid", |of| sign(supported(of)?.source_validation)),
    fact(ACS, "ACSCap", "TransBlk", |of| sign(supported(of)?.translation_blocking)),
    fact(ACS, "ACSCap", "ReqRedir", |of| sign(supported(of)?.request_redirect)),
    fact(ACS, "ACSCap", "CmpltRedir", |of| sign(supported(of)?.completion_redirect)),
    fact(ACS, "ACSCap", "UpstreamFwd", |of| sign(supported(of)?.upstream_forwarding)),
    fact(ACS, "ACSCap", "EgressCtrl", |of| sign(supported(of)?.egress_control)),
    fact(ACS, "ACSCap", "DirectTrans", |of| sign(supported(of)?.direct_translated)),
    fact(ACS, "ACSCtl", "SrcValid", |of| sign(enabled(of)?.source_validation)),
    fact(ACS, "ACSCtl", "TransBlk", |of| sign(enabled(of)?.translation_blocking)),
    fact(ACS, "ACSCtl", "ReqRedir", |of| sign(enabled(of)?.request_redirect)),
    fact(ACS, "ACSCtl", "CmpltRedir", |of| sign(enabled(of)?.completion_redirect)),
    fact(ACS, "ACSCtl", "UpstreamFwd", |of| sign(enabled(of)?.upstream_forwarding)),
    fact(ACS, "ACSCtl", "EgressCtrl", |of| sign(enabled(of)?.egress_control)),
    fact(ACS, "ACSCtl", "DirectTrans", |of| sign(enabled(of)?.direct_translated)),
    fact("Alternative Routing-ID", "ARICap", "Next Function: ", |of| decimal(of.ari.get()?.next_function)),
    fact("Alternative Routing-ID", "ARICap", "ACS", |of| sign(of.ari.get()?.acs_groups)),
    fact(ATS, "ATSCap", "Invalidate Queue Depth: ", |of| {
        // A depth of 32 is written as 0.
        hexadecimal(of.ats.get()?.invalidate_queue_depth.map(|depth| u32::from(depth % 32)), 2)
    }),
    fact(ATS, "ATSCtl", "Enable", |of| sign(of.ats.get()?.enabled)),
    fact(ATS, "ATSCtl", "Smallest Translation Unit: ", |of| {
        hexadecimal(of.ats.get()?.smallest_unit.map(u32::from), 2)
    }),
    fact(SRIOV, "IOVCtl", "Enable", |of| sign(of.sriov.get()?.enabled)),
    fact(SRIOV, "IOVCtl", "ARIHierarchy", |of| sign(of.sriov.get()?.ari_hierarchy)),
    fact(SRIOV, "Initial VFs", "", |of| decimal(of.sriov.get()?.initial)),
    fact(SRIOV, "Initial VFs", "Total VFs: ", |of| decimal(of.sriov.get()?.total)),
    fact(SRIOV, "Initial VFs", "Number of VFs: ", |of| decimal(of.sriov.get()?.number)),
    fact(SRIOV, "VF offset", "", |of| decimal(of.sriov.get()?.offset)),
    fact(SRIOV, "VF offset", "stride: ", |of| decimal(of.sriov.get()?.stride)),
    fact(SRIOV, "VF offset", "Device ID: ", |of| hexadecimal(of.sriov.get()?.device.map(u32::from), 4)),
    fact(PRI, "PRICtl", "Enable", |of| sign(of.pri.get()?.enabled)),
    fact(PRI, "Page Request Capacity", "", |of| hexadecimal(of.pri.get()?.requests_max, 8)),
    fact(PRI, "Page Request Capacity", "Page Request Allocation: ", |of| {
        hexadecimal(of.pri.get()?.requests_allocated, 8)
    }),
    fact(PASID, "PASIDCap", "Exec", |of| sign(of.pasid.get()?.execute)),
    fact(PASID, "PASIDCap", "Priv", |of| sign(of.pasid.get()?.privileged)),
    fact(PASID, "PASIDCap", "Max PASID Width: ", |of| hexadecimal(of.pasid.get()?.width_bits_max.map(u32::from), 2)),
    fact(PASID, "PASIDCtl", "Enable", |of| sign(of.pasid.get()?.enabled)),
    fact(PASID, "PASIDCtl", "Exec", |of| sign(of.pasid.get()?.execute_enabled)),
    fact(PASID, "PASIDCtl", "Priv", |of| sign(of.pasid.get()?.privileged_enabled)),
    fact(AER, "UESta", "CmpltTO", |of| uncorrectable(of, "completion-timeout")),
    fact(AER, "UESta", "UnsupReq", |of| uncorrectable(of, "unsupported-request")),
    fact(AER, "UESta", "ACSViol", |of| uncorrectable(of, "acs-violation")),
    fact(AER, "UESta", "DLP", |of| uncorrectable(of, "data-link-protocol")),
    fact(AER, "UESta", "MalfTLP", |of| uncorrectable(of, "malformed-tlp")),
    fact(AER, "CESta", "RxErr", |of| correctable(of, "receiver-error")),
    fact(AER, "CESta", "BadTLP", |of| correctable(of, "bad-tlp")),
    fact(AER, "CESta", "BadDLLP", |of| correctable(of, "bad-dllp")),
    fact(AER, "CESta", "AdvNonFatalErr", |of| correctable(of, "advisory-non-fatal")),
    fact("Physical Resizable BAR", "BAR 0", "current size: ", |of| {
        let bars = of.resizable_bars.get()?.bars.as_ref()?;
        let bytes = bars.iter().find(|bar| bar.index == Some(0))?.bytes?;
        Some(if bytes < 1 << 30 { format!("{}MB", bytes >> 20) } else { format!("{}GB", bytes >> 30) })
    }),
    fact("Downstream Port Containment", "DpcSta", "Trigger", |of| sign(of.dpc.get()?.triggered)),
];

fn uncorrectable(of: &Capabilities, name: &str) -> Option<String> {
    sign(of.aer.get()?.uncorrectable.map(|errors| errors.names().any(|known| known == name)))
}

fn correctable(of: &Capabilities, name: &str) -> Option<String> {
    sign(of.aer.get()?.correctable.map(|errors| errors.names().any(|known| known == name)))
}

/// Whether a capability is there.
type Known = fn(&Capabilities) -> Presence<()>;

/// The capabilities that the library decodes: the beginning of lspci's title, whether they are extended ones.
pub(crate) const CAPABILITIES: &[(&str, bool, Known)] = &[
    (EXPRESS, false, |of| of.express.clone().map(drop)),
    ("Power Management", false, |of| of.power.clone().map(drop)),
    ("MSI:", false, |of| of.msi.clone().map(drop)),
    ("MSI-X:", false, |of| of.msi_x.clone().map(drop)),
    (AER, true, |of| of.aer.clone().map(drop)),
    (ACS, true, |of| of.acs.clone().map(drop)),
    ("Alternative Routing-ID", true, |of| of.ari.clone().map(drop)),
    (ATS, true, |of| of.ats.clone().map(drop)),
    (PRI, true, |of| of.pri.clone().map(drop)),
    (PASID, true, |of| of.pasid.clone().map(drop)),
    (SRIOV, true, |of| of.sriov.clone().map(drop)),
    ("Downstream Port Containment", true, |of| of.dpc.clone().map(drop)),
    ("Physical Resizable BAR", true, |of| of.resizable_bars.clone().map(drop)),
];
