//! PCI Express links: drivers/pci/{pci,probe,quirks}.c, drivers/pci/pcie/{aer,aspm}.c.

use super::scan;
use crate::Bdf;
use crate::pci::PacketHeader;

/// A link: the speed of a lane as the kernel writes it and the number of lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Speed of a lane, in units of 0.1 GT/s: 80 for 8 GT/s.
    pub speed_gts_tenths: u32,
    /// Lanes.
    pub lanes: u32,
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, tenths) = (self.speed_gts_tenths / 10, self.speed_gts_tenths % 10);
        match tenths {
            0 => write!(f, "x{} at {whole} GT/s", self.lanes),
            tenths => write!(f, "x{} at {whole}.{tenths} GT/s", self.lanes),
        }
    }
}

/// A message about links and their errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PcieMessage {
    /// The bandwidth from the root to a device.
    Bandwidth {
        /// Mb/s that the path carries.
        available_mbps: u64,
        /// The slowest link.
        link: Link,
        /// The port above that link, if it holds the device back.
        limited_at: Option<Bdf>,
        /// Mb/s that the device could do.
        capable_mbps: Option<u64>,
        /// The link that the device could do.
        capable: Option<Link>,
    },
    /// A driver says that its card's link is too slow for the card.
    TooSlow,
    /// Payload sizes were set.
    PayloadSize {
        /// Bytes in a packet now.
        payload_bytes: u32,
        /// Bytes that the device could take.
        payload_bytes_max: u32,
        /// Bytes in a read request.
        read_request_bytes: Option<u32>,
    },
    /// A bridge's payload size could not be given to the device below it: packets may be refused.
    PayloadRefused {
        /// Bytes in a packet of the bridge.
        payload_bytes: u32,
    },
    /// A bus error was reported.
    BusError {
        /// `Corrected`, `Uncorrected (Fatal)` ...; since Linux 6.8 `Correctable`, `Uncorrectable (Fatal)` ...
        severity: String,
        /// The layer.
        layer: String,
    },
    /// One of the errors that a bus error was reported for, by the kernel's short name of its bit.
    ErrorBit(String),
    /// The header of the first packet with an error.
    Packet(PacketHeader),
    /// A device does not answer, to its driver, at a reset, or when its power state was to be changed: it is gone or asleep.
    Inaccessible {
        /// It was to wake up from D3cold, without power until then.
        from_d3cold: bool,
    },
    /// The kernel waits for a device after a reset.
    SlowReset {
        /// Whether it is back.
        is_back: bool,
    },
    /// A function answers: it was found on the bus, or a driver enabled it.
    Answers,
    /// What a hot-plug port says of its slot.
    Slot {
        /// Whether a card is in it and on.
        is_occupied: bool,
    },
    /// A port cut the link below it off because of an error (Downstream Port Containment).
    Contained,
    /// Whether the driver came back after an error.
    Recovered(bool),
    /// Isolation is pretended: the out-of-tree patch is there and in use.
    AcsOverride,
    /// Peers talk without the IOMMU between them.
    AcsRedirectDisabled,
    /// Link power states are off, or cannot be changed.
    Aspm(String),
    /// A word of `pci=` that the kernel does not know.
    UnknownOption(String),
}

/// Reads a message about links.
pub(super) fn read(body: &str) -> Option<PcieMessage> {
    match body.as_bytes().first()? {
        b'0'..=b'9' => bandwidth(body),
        b'M' => payload(body),
        b'P' => parse_bus_error(body)
            .or_else(|| parse_aspm(body))
            .or_else(|| parse_unknown_option(body))
            .or_else(|| parse_inaccessible(body)),
        b'(' => parse_ixgbe(body),
        b'A' => {
            let rest = body.strip_prefix("AER: ")?;
            parse_bus_error(rest)
                .or_else(|| parse_recovery(rest))
                .or_else(|| parse_error_bit(rest))
                .or_else(|| parse_packet(rest))
        }
        b' ' | b'[' => parse_error_bit(body).or_else(|| parse_answer(body)).or_else(|| parse_packet(body)),
        b'e' => parse_answer(body),
        b'D' => body.starts_with("DPC: containment event").then_some(PcieMessage::Contained),
        b'T' => body
            .starts_with("This is not sufficient for optimal performance of this card")
            .then_some(PcieMessage::TooSlow)
            .or_else(|| parse_packet(body)),
        b'W' | b'S' => parse_acs(body),
        b'U' => parse_inaccessible(body),
        b'p' => parse_aspm(body).or_else(|| payload(body)).or_else(|| parse_slot(body)),
        b'c' => parse_payload_refused(body).or_else(|| parse_aspm(body)).or_else(|| parse_inaccessible(body)),
        b'n' | b'r' => parse_inaccessible(body).or_else(|| parse_slow_reset(body)),
        b'd' => parse_aspm(body),
        _ => None,
    }
}

/// `31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4 link at 0000:40:03.3 (capable of
/// 63.012 Gb/s with 16.0 GT/s PCIe x4 link)` or, unhindered, `... bandwidth (8 GT/s x8 link)`.
fn bandwidth(body: &str) -> Option<PcieMessage> {
    let (available, rest) = body.split_once(" Gb/s available PCIe bandwidth")?;
    let available_mbps = megabits(available)?;
    let Some(limited) = rest.strip_prefix(", limited by ") else {
        let link = link(rest.strip_prefix(" (")?)?;
        return Some(PcieMessage::Bandwidth {
            available_mbps,
            link,
            limited_at: None,
            capable_mbps: None,
            capable: None,
        });
    };
    let capable = scan::after(limited, "(capable of ").and_then(|text| text.split_once(" Gb/s with "));
    Some(PcieMessage::Bandwidth {
        available_mbps,
        link: link(limited)?,
        limited_at: scan::after(limited, " link at ").and_then(scan::bdf),
        capable_mbps: capable.and_then(|(number, _)| megabits(number)),
        capable: capable.and_then(|(_, text)| link(text)),
    })
}

/// What Intel's 10 GbE driver prints itself, before 4.17: `(Speed:5.0GT/s, Width: x4, Encoding Loss:20%)`.
fn parse_ixgbe(body: &str) -> Option<PcieMessage> {
    let (speed, rest) = body.strip_prefix("(Speed:")?.split_once("GT/s, Width: x")?;
    let (whole, tenths) = speed.split_once('.').unwrap_or((speed, "0"));
    let speed_gts_tenths = scan::small(whole)?.checked_mul(10)?.checked_add(scan::small(tenths)?)?;
    let link = Link { speed_gts_tenths, lanes: scan::small(rest)? };
    let loss_percent = scan::decimal_after(rest, "Encoding Loss:")?.min(100);
    let raw_mbps = u64::from(speed_gts_tenths) * 100 * u64::from(link.lanes);
    let available_mbps = raw_mbps * (100 - loss_percent) / 100;
    Some(PcieMessage::Bandwidth { available_mbps, link, limited_at: None, capable_mbps: None, capable: None })
}

/// `31.504` Gb/s in Mb/s: always three decimals.
fn megabits(text: &str) -> Option<u64> {
    let (whole, thousandths) = text.split_once('.')?;
    scan::decimal(whole)?.checked_mul(1000)?.checked_add(scan::decimal(thousandths)?)
}

/// `8.0 GT/s PCIe x4 link`, `8 GT/s x8 link`; `Unknown` speeds are no link.
fn link(text: &str) -> Option<Link> {
    let (speed, rest) = text.split_once(" GT/s")?;
    let (whole, tenths) = speed.split_once('.').unwrap_or((speed, "0"));
    let speed_gts_tenths = scan::small(whole)?.checked_mul(10)?.checked_add(scan::small(tenths)?)?;
    Some(Link { speed_gts_tenths, lanes: scan::after(rest, " x").and_then(scan::small)? })
}

/// `Max Payload Size set to  256/ 512 (was  128), Max Read Rq  512`.
fn payload(body: &str) -> Option<PcieMessage> {
    let (now, rest) = scan::after(body, "Max Payload Size set to ")?.split_once('/')?;
    Some(PcieMessage::PayloadSize {
        payload_bytes: scan::small(now.trim())?,
        payload_bytes_max: scan::small(rest.trim_start())?,
        read_request_bytes: scan::after(rest, "Max Read Rq ").and_then(|text| scan::small(text.trim_start())),
    })
}

/// `can't set Max Payload Size to 256; if necessary, use "pci=pcie_bus_safe" and report a bug`.
fn parse_payload_refused(body: &str) -> Option<PcieMessage> {
    let bytes = body.strip_prefix("can't set Max Payload Size to ")?;
    Some(PcieMessage::PayloadRefused { payload_bytes: scan::small(bytes)? })
}

/// `PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)`.
fn parse_bus_error(body: &str) -> Option<PcieMessage> {
    let rest = body.strip_prefix("PCIe Bus Error: severity=")?;
    let (severity, rest) = rest.split_once(", type=")?;
    let layer = rest.split([',', '(']).next().unwrap_or(rest);
    Some(PcieMessage::BusError { severity: severity.to_owned(), layer: scan::words(layer) })
}

/// `   [21] ACSViol                (First)`; before 4.17 in words: `[12] Replay Timer Timeout`.
fn parse_error_bit(body: &str) -> Option<PcieMessage> {
    let (bit, rest) = body.trim_start().strip_prefix('[')?.split_once(']')?;
    let name = rest.strip_prefix(' ')?.trim().trim_end_matches("(First)").trim_end();
    let is_bit = bit.trim().parse::<u32>().is_ok_and(|bit| bit < 32);
    let is_name = (1..=32).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ' || byte == b'_');
    (is_bit && is_name).then(|| PcieMessage::ErrorBit(name.to_owned()))
}

/// `  TLP Header: 04000001 00200a03 05010000 00050100`.
fn parse_packet(body: &str) -> Option<PcieMessage> {
    let mut words = body.trim_start().strip_prefix("TLP Header: ")?.split_whitespace();
    let mut dword = || {
        let digits = words.next()?;
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        (digits.len() == 8).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    };
    Some(PcieMessage::Packet(PacketHeader([dword()?, dword()?, dword()?, dword()?])))
}

/// `device recovery successful`, `device recovery failed`.
fn parse_recovery(rest: &str) -> Option<PcieMessage> {
    let how = rest.strip_prefix("device recovery ").or_else(|| rest.strip_prefix("Device recovery "))?;
    Some(PcieMessage::Recovered(how.starts_with("successful")))
}

/// Parses messages about options that change ACS.
fn parse_acs(body: &str) -> Option<PcieMessage> {
    if body.starts_with("Warning: PCIe ACS overrides enabled") {
        return Some(PcieMessage::AcsOverride);
    }
    body.starts_with("Specified ACS redirect disable").then_some(PcieMessage::AcsRedirectDisabled)
}

/// Parses messages about link power management.
fn parse_aspm(body: &str) -> Option<PcieMessage> {
    let ours = body.starts_with("PCIe ASPM is ")
        || body.starts_with("can't disable ASPM")
        || body.starts_with("disabling ASPM");
    ours.then(|| PcieMessage::Aspm(scan::words(body)))
}

/// Parses ``PCI: Unknown option `x'``.
fn parse_unknown_option(body: &str) -> Option<PcieMessage> {
    let option = body.strip_prefix("PCI: Unknown option `")?;
    Some(PcieMessage::UnknownOption(option.trim_end_matches(['\'', '`']).to_owned()))
}

/// That a device does not answer: drivers/pci/pci.c (`pci_power_up`, `pci_dev_wait`), drivers/net/ethernet/intel/{igb,igc} (`rd32`),
/// drivers/nvme/host/pci.c (`nvme_warn_reset`).
fn parse_inaccessible(body: &str) -> Option<PcieMessage> {
    let body = scan::of_drive(body).unwrap_or(body);
    let says = |start: &str, part: &str| body.starts_with(start) && body.contains(part);
    let is_gone = says("Unable to change power state", "device inaccessible")
        || says("can't change power state", "config space inaccessible")
        || says("not ready ", "; giving up")
        || says("PCIe link lost, device now detached", "")
        || says("controller is down; will reset: ", "CSTS=0xffffffff");
    is_gone.then(|| PcieMessage::Inaccessible { from_d3cold: body.contains("from D3cold ") })
}

/// `not ready 1023ms after FLR; waiting`, `ready 2047ms after FLR` (drivers/pci/pci.c, `pci_dev_wait`).
fn parse_slow_reset(body: &str) -> Option<PcieMessage> {
    let is_back = body.starts_with("ready ");
    let rest = body.strip_prefix("not ").unwrap_or(body).strip_prefix("ready ")?;
    let (milliseconds, after) = rest.split_once("ms after ")?;
    // It also waits after a resume, or after DPC.
    let is_reset =
        ["FLR", "bus reset", "slot reset", "PM D3hot->D0"].iter().any(|words| after.starts_with(words));
    scan::decimal(milliseconds).filter(|_| is_reset).map(|_| PcieMessage::SlowReset { is_back })
}

/// `[8086:1521] type 00 class 0x020000` (drivers/pci/probe.c) and `enabling device (0000 -> 0002)` (drivers/pci/setup-res.c).
fn parse_answer(body: &str) -> Option<PcieMessage> {
    let is_found = body.starts_with('[') && body.get(10..).is_some_and(|rest| rest.starts_with("] type "));
    (is_found || body.starts_with("enabling device (")).then_some(PcieMessage::Answers)
}

/// `pciehp: Slot(4): Card not present` (drivers/pci/hotplug/pciehp_ctrl.c).
fn parse_slot(body: &str) -> Option<PcieMessage> {
    let (_, event) = body.strip_prefix("pciehp: Slot(")?.split_once("): ")?;
    let is_occupied = match event.trim_end() {
        "Card not present" | "Powering off due to button press" => false,
        "Card present" | "Link Up" => true,
        _ => return None,
    };
    Some(PcieMessage::Slot { is_occupied })
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Pcie", expect);
    }

    #[test]
    fn messages() {
        check(
            "vfio-pci 0000:3f:00.0: Unable to change power state from D0 to D3hot, device inaccessible",
            "Inaccessible { from_d3cold: false }",
        );
        check(
            "nvidia 0000:01:00.0: can't change power state from D3cold to D0 (config space inaccessible)",
            "Inaccessible { from_d3cold: true }",
        );
        check(
            "igc 0000:0a:00.0 eno1: PCIe link lost, device now detached",
            "Inaccessible { from_d3cold: false }",
        );
        check(
            "vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up",
            "Inaccessible { from_d3cold: false }",
        );
        check("vfio-pci 0000:01:00.0: not ready 1023ms after FLR; waiting", "SlowReset { is_back: false }");
        check("vfio-pci 0000:01:00.0: ready 2047ms after bus reset", "SlowReset { is_back: true }");
        check("pci 0000:05:00.0: [144d:a808] type 00 class 0x010802", "Answers");
        check("nvme 0000:05:00.0: enabling device (0000 -> 0002)", "Answers");
        check("pcieport 0000:00:1c.0: pciehp: Slot(4): Card not present", "Slot { is_occupied: false }");
        check("pcieport 0000:00:1c.0: pciehp: Slot(4): Link Up", "Slot { is_occupied: true }");
        check(
            "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
            "Inaccessible { from_d3cold: false }",
        );
        check(
            "pci 0000:44:00.0: 31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4 link at 0000:40:03.3 (capable of 63.012 Gb/s with 16.0 GT/s PCIe x4 link)",
            "Bandwidth { available_mbps: 31504, link: Link { speed_gts_tenths: 80, lanes: 4 }, limited_at: Some(0000:40:03.3), capable_mbps: Some(63012), capable: Some(Link { speed_gts_tenths: 160, lanes: 4 }) }",
        );
        check(
            "bnxt_en 0000:18:00.0: 63.008 Gb/s available PCIe bandwidth (8 GT/s x8 link)",
            "Bandwidth { available_mbps: 63008, link: Link { speed_gts_tenths: 80, lanes: 8 }, limited_at: None, capable_mbps: None, capable: None }",
        );
        check(
            "pci 0000:01:00.0: 2.000 Gb/s available PCIe bandwidth, limited by 2.5 GT/s x1 link at <unknown> (capable of 4.000 Gb/s with 5 GT/s x1 link)",
            "Bandwidth { available_mbps: 2000, link: Link { speed_gts_tenths: 25, lanes: 1 }, limited_at: None, capable_mbps: Some(4000), capable: Some(Link { speed_gts_tenths: 50, lanes: 1 }) }",
        );
        check(
            "pcieport 0000:00:1c.0: Max Payload Size set to  256/ 512 (was  128), Max Read Rq  512",
            "PayloadSize { payload_bytes: 256, payload_bytes_max: 512, read_request_bytes: Some(512) }",
        );
        check(
            "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
            r#"BusError { severity: "Corrected", layer: "Data Link Layer" }"#,
        );
        check(
            "Warning: PCIe ACS overrides enabled; This may allow non-IOMMU protected peer-to-peer DMA",
            "AcsOverride",
        );
        check(
            r#"pci 0000:02:00.0: can't set Max Payload Size to 256; if necessary, use "pci=pcie_bus_safe" and report a bug"#,
            "PayloadRefused { payload_bytes: 256 }",
        );
        check("PCIe ASPM is disabled", r#"Aspm("PCIe ASPM is disabled")"#);
        check("PCI: Unknown option `pcie_bus_pref'", r#"UnknownOption("pcie_bus_pref")"#);
        check("pcieport 0000:00:1d.0:    [21] ACSViol                (First)", r#"ErrorBit("ACSViol")"#);
        check(
            "pcieport 0000:00:03.0:   TLP Header: 04000001 00200a03 05010000 00050100",
            "Packet(PacketHeader([67108865, 2099715, 83951616, 327936]))",
        );
        check("pcieport 0000:00:1d.0: DPC: containment event, status:0x1f11 source:0x0000", "Contained");
        check("pcieport 0000:00:1d.0: AER: device recovery failed", "Recovered(false)");
        check("pcieport 0000:00:02.0:    [12] Replay Timer Timeout  ", r#"ErrorBit("Replay Timer Timeout")"#);
        check(
            "ixgbe 0000:82:00.0: (Speed:5.0GT/s, Width: x4, Encoding Loss:20%)",
            "Bandwidth { available_mbps: 16000, link: Link { speed_gts_tenths: 50, lanes: 4 }, limited_at: None, capable_mbps: None, capable: None }",
        );
    }
}
