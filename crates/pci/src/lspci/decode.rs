//! From lspci's words back to registers.

use super::listing::{Block, Listing};
use super::title::{EXPRESS, MSI, MSI_SPELLED_OUT, MSI_X, POWER, extended_id};
use crate::acs::{Acs, AcsControls};
use crate::capability::Capabilities;
use crate::capability_id::extended;
use crate::error::{Aer, Bit, CorrectableErrors, Dpc, UncorrectableErrors};
use crate::express::{
    CompletionTimeout, Device, Device2, Express, LinkRegisters, PayloadSize, PortType, SlotCapability,
    if_defined,
};
use crate::interrupt::{Msi, MsiX};
use crate::link_speed::{LinkSpeed, LinkWidth};
use crate::power::{PowerManagement, PowerState};
use crate::presence::Presence;
use crate::rebar::{ResizableBar, ResizableBars};
use crate::sriov::{Ari, Sriov};
use crate::translation::{Ats, Pasid, Pri};

/// Decodes the capabilities that lspci lists for a function.
pub(super) fn capabilities(listing: &Listing<'_>) -> Capabilities {
    let conventional = |title| find(listing, listing.is_whole(), |block| block.title.starts_with(title));
    let extended = |id| {
        find(listing, listing.is_extended_whole(), move |block| {
            block.is_extended() && extended_id(block.title) == Some(id)
        })
    };
    Capabilities {
        express: conventional(EXPRESS).map(express),
        power: conventional(POWER).map(power),
        msi: find(listing, listing.is_whole(), is_msi).map(msi),
        msi_x: conventional(MSI_X).map(msi_x),
        aer: extended(extended::AER).map(aer),
        acs: extended(extended::ACS).map(acs),
        ari: extended(extended::ARI).map(ari),
        ats: extended(extended::ATS).map(ats),
        pri: extended(extended::PRI).map(pri),
        pasid: extended(extended::PASID).map(pasid),
        sriov: extended(extended::SRIOV).map(sriov),
        dpc: extended(extended::DPC).map(dpc),
        resizable_bars: extended(extended::REBAR).map(resizable_bars),
    }
}

/// The first capability that `is_it` accepts. It is absent only if the list is `whole`.
fn find<'l, 'a>(
    listing: &'l Listing<'a>,
    whole: bool,
    is_it: impl Fn(&Block<'a>) -> bool,
) -> Presence<&'l Block<'a>> {
    match listing.blocks().iter().find(|block| is_it(block)) {
        Some(block) => Presence::Present(block),
        None if whole => Presence::Absent,
        None => Presence::Unknown,
    }
}

/// Whether a block is the MSI capability.
fn is_msi(block: &Block<'_>) -> bool {
    block.title.starts_with(MSI) || block.title.starts_with(MSI_SPELLED_OUT)
}

/// The value of a flag that lspci prints as `Name+` or `Name-`.
pub(super) fn flag(text: &str, name: &str) -> Option<bool> {
    let words = text.split([' ', '\t']).map(|word| word.trim_end_matches([',', ';', ')']));
    words.into_iter().find_map(|word| match word.strip_prefix(name)? {
        "+" => Some(true),
        "-" => Some(false),
        _ => None,
    })
}

/// The first word after `label`.
fn word_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(label)?;
    rest.trim_start().split([' ', ',', ';']).next().filter(|word| !word.is_empty())
}

/// The decimal number after `label`.
fn decimal<T: std::str::FromStr>(text: &str, label: &str) -> Option<T> {
    word_after(text, label)?.parse().ok()
}

/// The hexadecimal number after `label`.
fn hexadecimal(text: &str, label: &str) -> Option<u32> {
    u32::from_str_radix(word_after(text, label)?, 16).ok()
}

/// The hexadecimal number after `label`, if it fits in a byte.
fn hexadecimal8(text: &str, label: &str) -> Option<u8> {
    hexadecimal(text, label)?.try_into().ok()
}

/// The PCI Express capability.
fn express(block: &Block<'_>) -> Express {
    let title = block.title.strip_prefix(EXPRESS).unwrap_or_default().trim_start();
    let (version, port) = match title.strip_prefix("(v").and_then(|rest| rest.split_once(") ")) {
        Some((version, port)) => (version.parse().ok(), port),
        None => (None, title),
    };
    let slot_implemented = flag(port, "(Slot");
    let port = port_type(port);
    Express {
        version,
        port,
        slot_implemented,
        device: device(block, port),
        device2: device2(block),
        // Before pciutils 3.6 link registers are printed also where there is no link. Of a port without a title they tell that it has one.
        link: if port.is_none_or(PortType::has_link) { link(block) } else { LinkRegisters::default() },
        slot: (slot_implemented == Some(true)).then(|| slot(block)),
    }
}

/// The port type, by the words that follow `Express (v2)`.
fn port_type(text: &str) -> Option<PortType> {
    let known = [
        ("Endpoint", PortType::Endpoint),
        ("Legacy Endpoint", PortType::LegacyEndpoint),
        ("Root Port", PortType::RootPort),
        ("Upstream Port", PortType::UpstreamPort),
        ("Downstream Port", PortType::DownstreamPort),
        ("PCI-Express to PCI/PCI-X Bridge", PortType::ExpressToPciBridge),
        // Before pciutils 3.2.
        ("PCI/PCI-X Bridge", PortType::ExpressToPciBridge),
        ("PCI/PCI-X to PCI-Express Bridge", PortType::PciToExpressBridge),
        ("Root Complex Integrated Endpoint", PortType::RootComplexIntegratedEndpoint),
        ("Root Complex Event Collector", PortType::RootComplexEventCollector),
    ];
    let found = known.iter().find(|(name, _)| text.starts_with(name)).map(|(_, port)| *port);
    found.or_else(|| decimal(text, "Unknown type ").map(PortType::Reserved))
}

/// Device Capabilities and Control, from the registers `DevCap` and `DevCtl`.
fn device(block: &Block<'_>, port: Option<PortType>) -> Device {
    let (capabilities, control) = (block.register("DevCap"), block.register("DevCtl"));
    let size = |text, label| decimal(text, label).and_then(PayloadSize::from_bytes);
    // lspci prints how many functions the bits make, less the function itself.
    let phantom_functions = decimal::<u32>(capabilities, "PhantFunc ");
    Device {
        payload_max: size(capabilities, "MaxPayload "),
        phantom_bits: phantom_functions.and_then(|count| u8::try_from(count.count_ones()).ok()),
        extended_tag: flag(capabilities, "ExtTag"),
        // Before pciutils 3.3 the bit is printed for ports too, where it is reserved.
        function_level_reset: if_defined(port, PortType::is_endpoint, flag(capabilities, "FLReset")),
        payload: size(control, "MaxPayload "),
        read_request: size(control, "MaxReadReq "),
        relaxed_ordering_enabled: flag(control, "RlxdOrd"),
        no_snoop_enabled: flag(control, "NoSnoop"),
        extended_tag_enabled: flag(control, "ExtTag"),
        phantom_enabled: flag(control, "PhantFunc"),
    }
}

/// Device Capabilities 2 and Control 2, from the registers `DevCap2` and `DevCtl2`.
fn device2(block: &Block<'_>) -> Device2 {
    let (capabilities, control) = (block.register("DevCap2"), block.register("DevCtl2"));
    Device2 {
        ten_bit_tag_completer: flag(capabilities, "10BitTagComp"),
        ten_bit_tag_requester: flag(capabilities, "10BitTagReq"),
        ten_bit_tag_enabled: flag(control, "10BitTagReq"),
        ari_forwarding: flag(capabilities, "ARIFwd"),
        ari_forwarding_enabled: flag(control, "ARIFwd"),
        atomic_routing: flag(capabilities, "Routing"),
        atomic_requests_enabled: flag(control, "ReqEn"),
        atomic_egress_blocked: flag(control, "EgressBlck"),
        completion_timeout: completion_timeout(control),
        completion_timeout_disabled: flag(control, "TimeoutDis"),
    }
}

/// The range in `Completion Timeout: 50us to 50ms`.
fn completion_timeout(control: &str) -> Option<CompletionTimeout> {
    let (_, range) = control.split_once("Completion Timeout: ")?;
    let (shortest, rest) = range.split_once(" to ")?;
    let longest = rest.split(',').next()?;
    Some(CompletionTimeout { us_min: microseconds(shortest)?, us_max: microseconds(longest)? })
}

/// Parses a time such as `50us` or `3.5s`.
fn microseconds(text: &str) -> Option<u32> {
    let text = text.trim();
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return None,
    };
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let tenths = whole.parse::<u32>().ok()?.checked_mul(10)?.checked_add(tenths.parse().ok()?)?;
    Some(tenths.checked_mul(unit)? / 10)
}

/// The link registers of the PCI Express capability.
fn link(block: &Block<'_>) -> LinkRegisters {
    let (capabilities, control) = (block.register("LnkCap"), block.register("LnkCtl"));
    let status = block.register("LnkSta");
    let speed = |text, label| word_after(text, label).and_then(LinkSpeed::parse);
    let width = |text| word_after(text, "Width ").and_then(LinkWidth::parse);
    // Speeds come as a range, `2.5-16GT/s`.
    let supported = block.register("LnkCap2").split_once("Supported Link Speeds: ").map(|(_, rest)| rest);
    let highest = supported.and_then(|rest| rest.split(',').next()?.rsplit('-').next());
    // Target Link Speed is `2.5GT/s` with and `2.5 GT/s` without the newer spelling.
    let target = block.register("LnkCtl2").split_once("Target Link Speed: ").map(|(_, rest)| rest);
    LinkRegisters {
        speed_max: speed(capabilities, "Speed "),
        width_max: width(capabilities),
        port_number: decimal(capabilities, "Port #"),
        speed: speed(status, "Speed "),
        width: width(status),
        training: flag(status, "Train"),
        slot_clock: flag(status, "SlotClk"),
        active: flag(status, "DLActive"),
        aspm_l0s: aspm(control, "L0s"),
        aspm_l1: aspm(control, "L1"),
        read_completion_boundary_bytes: decimal(control, "RCB "),
        speed_supported: highest.and_then(LinkSpeed::parse),
        speed_target: target.and_then(|rest| rest.split(',').next()).and_then(LinkSpeed::parse),
    }
}

/// Whether an ASPM state is enabled, from `ASPM L0s L1 Enabled;` or `ASPM Disabled;`.
fn aspm(control: &str, state: &str) -> Option<bool> {
    let (states, _) = control.strip_prefix("ASPM ")?.split_once(';')?;
    match states.strip_suffix(" Enabled") {
        Some(enabled) => Some(enabled.split([' ', '+']).any(|enabled| enabled == state)),
        None => (states == "Disabled").then_some(false),
    }
}

/// The slot registers of the PCI Express capability.
fn slot(block: &Block<'_>) -> SlotCapability {
    let capabilities = block.register("SltCap");
    SlotCapability {
        number: slot_number(capabilities),
        hot_plug: flag(capabilities, "HotPlug"),
        hot_plug_surprise: flag(capabilities, "Surprise"),
        // The first `PresDet` is the state; the second, behind `Changed:`, is whether it changed.
        occupied: flag(block.register("SltSta"), "PresDet"),
    }
}

/// The number in `Slot #64, PowerLimit 25W`. Before pciutils 3.1.7 it is hexadecimal, and the limit has no unit:
/// `Slot # 40, PowerLimit 25.000000`.
fn slot_number(capabilities: &str) -> Option<u16> {
    let number = word_after(capabilities, "Slot #")?;
    let is_old = word_after(capabilities, "PowerLimit ").is_some_and(|limit| !limit.ends_with('W'));
    u16::from_str_radix(number, if is_old { 16 } else { 10 }).ok()
}

/// The Power Management capability.
fn power(block: &Block<'_>) -> PowerManagement {
    let state = block.register("Status").strip_prefix('D').and_then(|rest| rest.chars().next()?.to_digit(4));
    PowerManagement { state: state.and_then(PowerState::decode) }
}

/// The MSI capability: `MSI: Enable+ Count=1/32 Maskable+ 64bit+`; before pciutils 3.1 `Mask- 64bit+ Queue=0/5 Enable+`, whose
/// counts are logarithms and are not decoded.
fn msi(block: &Block<'_>) -> Msi {
    let counts =
        block.title.split_once("Count=").and_then(|(_, rest)| rest.split(' ').next()?.split_once('/'));
    Msi {
        enabled: flag(block.title, "Enable"),
        vectors: counts.and_then(|(vectors, _)| vectors.parse().ok()),
        vectors_max: counts.and_then(|(_, most)| most.parse().ok()),
    }
}

/// The MSI-X capability: `MSI-X: Enable+ Count=65 Masked-`; before pciutils 3.1 `MSI-X: Enable+ Mask- TabSize=65`.
fn msi_x(block: &Block<'_>) -> MsiX {
    MsiX {
        enabled: flag(block.title, "Enable"),
        masked: flag(block.title, "Masked").or_else(|| flag(block.title, "Mask")),
        vectors: decimal(block.title, "Count=").or_else(|| decimal(block.title, "TabSize=")),
    }
}

/// The Advanced Error Reporting capability.
fn aer(block: &Block<'_>) -> Aer {
    Aer {
        uncorrectable: error_bits(block.register("UESta"), UncorrectableErrors::bits())
            .map(UncorrectableErrors),
        correctable: error_bits(block.register("CESta"), CorrectableErrors::bits()).map(CorrectableErrors),
    }
}

/// The error bits that are set; `None` if lspci prints none of `bits`.
fn error_bits(status: &str, bits: &[Bit]) -> Option<u32> {
    let shown = bits.iter().filter_map(|bit| {
        let set = bit.lspci.iter().find_map(|name| flag(status, name))?;
        Some(if set { bit.mask } else { 0 })
    });
    shown.reduce(|status, bit| status | bit)
}

/// The Access Control Services capability.
fn acs(block: &Block<'_>) -> Acs {
    Acs { supported: acs_controls(block.register("ACSCap")), enabled: acs_controls(block.register("ACSCtl")) }
}

/// The controls in an ACS register.
fn acs_controls(register: &str) -> AcsControls {
    AcsControls {
        source_validation: flag(register, "SrcValid"),
        translation_blocking: flag(register, "TransBlk"),
        request_redirect: flag(register, "ReqRedir"),
        completion_redirect: flag(register, "CmpltRedir"),
        upstream_forwarding: flag(register, "UpstreamFwd"),
        egress_control: flag(register, "EgressCtrl"),
        direct_translated: flag(register, "DirectTrans"),
    }
}

/// The ARI capability.
fn ari(block: &Block<'_>) -> Ari {
    let capability = block.register("ARICap");
    Ari { next_function: decimal(capability, "Next Function: "), acs_groups: flag(capability, "ACS") }
}

/// The Address Translation Services capability.
fn ats(block: &Block<'_>) -> Ats {
    let control = block.register("ATSCtl");
    Ats {
        enabled: flag(control, "Enable"),
        invalidate_queue_depth: hexadecimal8(block.register("ATSCap"), "Invalidate Queue Depth: ")
            .map(Ats::queue_depth),
        smallest_unit: hexadecimal8(control, "Smallest Translation Unit: "),
    }
}

/// The Page Request Interface capability.
fn pri(block: &Block<'_>) -> Pri {
    let capacity = block.register("Page Request Capacity");
    Pri {
        enabled: flag(block.register("PRICtl"), "Enable"),
        requests_max: hexadecimal(capacity, ""),
        requests_allocated: hexadecimal(capacity, "Page Request Allocation: "),
    }
}

/// The PASID capability.
fn pasid(block: &Block<'_>) -> Pasid {
    let (capability, control) = (block.register("PASIDCap"), block.register("PASIDCtl"));
    Pasid {
        enabled: flag(control, "Enable"),
        execute: flag(capability, "Exec"),
        execute_enabled: flag(control, "Exec"),
        privileged: flag(capability, "Priv"),
        privileged_enabled: flag(control, "Priv"),
        width_bits_max: hexadecimal8(capability, "Max PASID Width: "),
    }
}

/// The SR-IOV capability.
fn sriov(block: &Block<'_>) -> Sriov {
    let control = block.register("IOVCtl");
    // lspci prints several registers on one line, which starts with the name of the first.
    let (counts, routing) = (block.register("Initial VFs"), block.register("VF offset"));
    Sriov {
        enabled: flag(control, "Enable"),
        ari_hierarchy: flag(control, "ARIHierarchy"),
        initial: decimal(counts, ""),
        total: decimal(counts, "Total VFs: "),
        number: decimal(counts, "Number of VFs: "),
        offset: decimal(routing, ""),
        stride: decimal(routing, "stride: "),
        device: hexadecimal(routing, "Device ID: ").and_then(|id| id.try_into().ok()),
    }
}

/// The Downstream Port Containment capability.
fn dpc(block: &Block<'_>) -> Dpc {
    Dpc { triggered: flag(block.register("DpcSta"), "Trigger") }
}

/// `BAR 0: current size: 256MB, supported: 256MB 512MB 1GB`.
/// The Resizable BAR capability.
fn resizable_bars(block: &Block<'_>) -> ResizableBars {
    let bars = block.registers("BAR ").filter_map(|(name, text)| {
        let (_, sizes) = text.split_once("current size:")?;
        let (now, supported) = sizes.split_once(", supported:").unwrap_or((sizes, ""));
        Some(ResizableBar {
            index: name.strip_prefix("BAR ")?.parse().ok(),
            bytes: parse_bytes(now.trim()),
            bytes_max: supported.split_whitespace().filter_map(parse_bytes).max(),
        })
    });
    let bars: Vec<ResizableBar> = bars.collect();
    ResizableBars { bars: (!bars.is_empty()).then_some(bars) }
}

/// Parses a size such as `256MB` or `1GB`, in bytes.
fn parse_bytes(text: &str) -> Option<u64> {
    let units = [("MB", 20), ("GB", 30), ("TB", 40), ("PB", 50)];
    let (number, shift) = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))?;
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        let text = "Enable+, 10BitTagReq- TimeoutDis+, PME(D0-,D3hot+) ACS- ACSViol+";
        assert_eq!(flag(text, "Enable"), Some(true));
        assert_eq!(flag(text, "10BitTagReq"), Some(false));
        assert_eq!(flag(text, "TimeoutDis"), Some(true));
        assert_eq!(flag(text, "ACS"), Some(false));
        assert_eq!(flag(text, "Mask"), None);
    }

    fn check_time(text: &str, expect: Option<u32>) {
        assert_eq!(microseconds(text), expect, "{text}");
    }

    #[test]
    fn times() {
        check_time("50us", Some(50));
        check_time("210ms", Some(210_000));
        check_time("3.5s", Some(3_500_000));
        check_time("64s", Some(64_000_000));
        check_time("Unknown", None);
        check_time("99999999999s", None);
        check_time("", None);
    }

    #[test]
    fn aspm_states() {
        assert_eq!(aspm("ASPM L0s L1 Enabled; RCB 64 bytes", "L1"), Some(true));
        assert_eq!(aspm("ASPM L1 Enabled; RCB 64 bytes", "L0s"), Some(false));
        assert_eq!(aspm("ASPM Disabled; RCB 64 bytes", "L1"), Some(false));
        assert_eq!(aspm("", "L1"), None);
    }

    #[test]
    fn slot_numbers() {
        for text in [
            "HotPlug+ Slot # 1a, PowerLimit 25.000000; Interlock-",
            "HotPlug+ Slot #26, PowerLimit 25.000W; Interlock-",
            "HotPlug+ Slot #26, PowerLimit 25W; Interlock-",
            "HotPlug+ Slot #26",
        ] {
            assert_eq!(slot_number(text), Some(26), "{text}");
        }
        assert_eq!(slot_number("HotPlug+ Surprise-"), None);
    }

    fn listed(body: &str) -> Capabilities {
        let lines: Vec<(u32, &str)> = (1..).zip(body.lines()).collect();
        capabilities(&Listing::new(&lines))
    }

    #[test]
    fn an_old_version_prints_ids() {
        let found = listed(
            "\tFlags: fast devsel\n\tCapabilities: [80] Express Endpoint, MSI 00\n\tCapabilities: [140] #1b\n",
        );
        assert_eq!(found.pasid, Presence::Present(Pasid::default()));
        let older = listed(
            "\tFlags: fast devsel\n\
             \tCapabilities: [48] Message Signalled Interrupts: Mask- 64bit+ Queue=0/4 Enable+\n",
        );
        assert_eq!(older.msi, Presence::Present(Msi { enabled: Some(true), ..Msi::default() }));
        assert_eq!(found.express.get().unwrap().port, Some(PortType::Endpoint));
        assert_eq!(found.express.get().unwrap().version, None);
        assert!(found.ats.is_absent());
    }

    #[test]
    fn an_express_function_without_extended_capabilities_was_perhaps_not_read() {
        let found = listed("\tFlags: fast devsel\n\tCapabilities: [80] Express Endpoint, MSI 00\n");
        assert!(found.ats.is_unknown() && found.msi.is_absent());
        let looped = listed("\tFlags: fast devsel\n\tCapabilities: [80] <chain broken>\n");
        assert!(looped.msi.is_unknown() && looped.ats.is_unknown());
    }

    #[test]
    fn ports_without_slots_in_output_of_old_versions() {
        let integrated = listed(
            "\tControl: BusMaster+\n\
             \tCapabilities: [80] Express (v2) Root Complex Integrated Endpoint, MSI 00\n\
             \t\tLnkSta:\tSpeed 2.5GT/s, Width x1, TrErr- Train- SlotClk- DLActive-\n",
        );
        assert_eq!(integrated.express.get().unwrap().link, LinkRegisters::default());
        let port = listed(
            "\tControl: BusMaster+\n\tCapabilities: [80] Express (v2) Root Port (Slot-), MSI 00\n\
             \t\tDevCap:\tMaxPayload 128 bytes, PhantFunc 0\n\t\t\tExtTag- RBE+ FLReset-\n\
             \tCapabilities: [200 v1] Resizable BAR <?>\n",
        );
        assert_eq!(port.express.get().unwrap().device.function_level_reset, None);
        assert_eq!(port.resizable_bars, Presence::Present(ResizableBars { bars: None }));
    }

    #[test]
    fn old_link_lines() {
        let found = listed(
            "\tControl: BusMaster+\n\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n\
             \t\tDevCtl:\tReport errors: Correctable- Non-Fatal- Fatal- Unsupported-\n\
             \t\t\tRlxdOrd- ExtTag- PhantFunc- AuxPwr- NoSnoop+ FLReset-\n\
             \t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes\n\
             \t\tLnkSta:\tSpeed 8GT/s, Width x8, TrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-\n\
             \t\tDevCtl2: Completion Timeout: 50us to 50ms, TimeoutDis-, LTR-, OBFF Disabled\n",
        );
        let express = found.express.get().unwrap();
        assert_eq!(express.device.read_request, Some(PayloadSize::B4096));
        assert_eq!(express.device.no_snoop_enabled, Some(true));
        assert_eq!((express.link.speed, express.link.width), (Some(LinkSpeed::Gt8), LinkWidth::new(8)));
        assert_eq!(express.link.slot_clock, Some(true));
        assert_eq!(express.link.speed_max, None);
        assert_eq!(express.device2.completion_timeout_disabled, Some(false));
    }
}
