//! The PCI Express capability: what kind of port a function is, its payload sizes, its link, its slot.

use super::config::{Structure, field, field8, field16, flag};
use super::link_speed::{LinkSpeed, LinkWidth};
use serde::Serialize;

/// PCI Express capability structure (`PCI_CAP_ID_EXP`; Base Specification 7.5.3).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Express {
    /// Capability version; registers of [`Device2`] and Link 2 exist from 2 on.
    pub version: Option<u8>,
    /// Device/Port Type.
    pub port: Option<PortType>,
    /// Slot Implemented: the port connects to a slot, not to a soldered device. Root and downstream ports only.
    pub slot_implemented: Option<bool>,
    /// Device Capabilities and Control.
    pub device: Device,
    /// Device Capabilities 2 and Control 2.
    pub device2: Device2,
    /// Link registers; all `None` for port types without a link.
    pub link: LinkRegisters,
    /// Slot registers, where a slot is implemented.
    pub slot: Option<SlotCapability>,
}

/// Device/Port Type (`PCI_EXP_FLAGS_TYPE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortType {
    /// PCI Express endpoint.
    Endpoint,
    /// Endpoint that may use I/O space and locked requests.
    LegacyEndpoint,
    /// Root port of a root complex.
    RootPort,
    /// A switch's port towards the root.
    UpstreamPort,
    /// A switch's port away from the root.
    DownstreamPort,
    /// PCI Express to PCI or PCI-X bridge.
    ExpressToPciBridge,
    /// PCI or PCI-X to PCI Express bridge.
    PciToExpressBridge,
    /// Endpoint inside the root complex: no link.
    RootComplexIntegratedEndpoint,
    /// Root complex event collector: no link.
    RootComplexEventCollector,
    /// A value that the specification reserves.
    Reserved(u8),
}

impl PortType {
    /// The word used for it in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::LegacyEndpoint => "legacy-endpoint",
            Self::RootPort => "root-port",
            Self::UpstreamPort => "upstream-port",
            Self::DownstreamPort => "downstream-port",
            Self::ExpressToPciBridge => "express-to-pci-bridge",
            Self::PciToExpressBridge => "pci-to-express-bridge",
            Self::RootComplexIntegratedEndpoint => "root-complex-integrated-endpoint",
            Self::RootComplexEventCollector => "root-complex-event-collector",
            Self::Reserved(_) => "reserved",
        }
    }

    fn decode(value: u8) -> Self {
        match value {
            0x0 => Self::Endpoint,
            0x1 => Self::LegacyEndpoint,
            0x4 => Self::RootPort,
            0x5 => Self::UpstreamPort,
            0x6 => Self::DownstreamPort,
            0x7 => Self::ExpressToPciBridge,
            0x8 => Self::PciToExpressBridge,
            0x9 => Self::RootComplexIntegratedEndpoint,
            0xa => Self::RootComplexEventCollector,
            reserved => Self::Reserved(reserved),
        }
    }

    /// Whether the port has a link, and so the link registers mean something.
    pub fn has_link(self) -> bool {
        !matches!(self, Self::RootComplexIntegratedEndpoint | Self::RootComplexEventCollector)
    }

    /// Whether its link leads away from the root: it is the upper end.
    pub fn leads_down(self) -> bool {
        matches!(self, Self::RootPort | Self::DownstreamPort | Self::PciToExpressBridge)
    }

    /// Whether it routes other functions' packets: a root or switch port.
    pub fn is_switching(self) -> bool {
        matches!(self, Self::RootPort | Self::UpstreamPort | Self::DownstreamPort)
    }

    /// Whether it is an endpoint of any kind.
    pub fn is_endpoint(self) -> bool {
        matches!(self, Self::Endpoint | Self::LegacyEndpoint | Self::RootComplexIntegratedEndpoint)
    }

    /// Whether ARI Forwarding is defined for this port type.
    fn can_forward_ari(self) -> bool {
        matches!(self, Self::RootPort | Self::DownstreamPort)
    }

    /// Whether Read Completion Boundary is defined for this port type; for switch ports it is not.
    fn has_read_completion_boundary(self) -> bool {
        matches!(self, Self::RootPort | Self::Endpoint | Self::LegacyEndpoint | Self::ExpressToPciBridge)
    }
}

/// A value of Max_Payload_Size or Max_Read_Request_Size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PayloadSize {
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes.
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes.
    B4096,
}

impl PayloadSize {
    const ALL: [Self; 6] = [Self::B128, Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];

    /// The size with this register code, where 0 is 128 bytes.
    fn decode(code: u32) -> Option<Self> {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code)).copied()
    }

    /// The size with this many bytes; `None` if the registers can't encode it.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.bytes() == bytes)
    }

    /// The size in bytes.
    pub fn bytes(self) -> u32 {
        128 << self as u32
    }
}

impl Serialize for PortType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Serialize for PayloadSize {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.bytes())
    }
}

/// Device Capabilities and Device Control.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Device {
    /// Max_Payload_Size Supported, in bytes.
    #[serde(rename = "payload_max_bytes")]
    pub payload_max: Option<PayloadSize>,
    /// Function number bits that may be used as tags when phantom functions are enabled.
    pub phantom_bits: Option<u8>,
    /// The function supports 8-bit tags as a requester.
    pub extended_tag: Option<bool>,
    /// Function Level Reset. Endpoints only.
    pub function_level_reset: Option<bool>,
    /// Max_Payload_Size in force, in bytes.
    #[serde(rename = "payload_bytes")]
    pub payload: Option<PayloadSize>,
    /// Max_Read_Request_Size in force, in bytes.
    #[serde(rename = "read_request_bytes")]
    pub read_request: Option<PayloadSize>,
    /// Enable Relaxed Ordering: the function may set the attribute in its requests.
    pub relaxed_ordering_enabled: Option<bool>,
    /// Enable No Snoop: the function may set the attribute in its requests.
    pub no_snoop_enabled: Option<bool>,
    /// 8-bit tags are in use.
    pub extended_tag_enabled: Option<bool>,
    /// Phantom functions are in use.
    pub phantom_enabled: Option<bool>,
}

/// Device Capabilities 2 and Device Control 2; only in version 2 of the structure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Device2 {
    /// The function supports 10-bit tags as a completer.
    pub ten_bit_tag_completer: Option<bool>,
    /// The function supports 10-bit tags as a requester.
    pub ten_bit_tag_requester: Option<bool>,
    /// 10-bit tags are in use.
    pub ten_bit_tag_enabled: Option<bool>,
    /// The port can forward alternative routing IDs. Root and downstream ports only.
    pub ari_forwarding: Option<bool>,
    /// ARI Forwarding is enabled.
    pub ari_forwarding_enabled: Option<bool>,
    /// The port can route atomic operations. Root and switch ports only.
    pub atomic_routing: Option<bool>,
    /// The function may send atomic operations. Endpoints and root ports only.
    pub atomic_requests_enabled: Option<bool>,
    /// The port blocks atomic operations that would leave it. Root and switch ports only.
    pub atomic_egress_blocked: Option<bool>,
    /// How long the function waits for a completion.
    pub completion_timeout: Option<CompletionTimeout>,
    /// Completion Timeout Disable: the function waits without limit.
    pub completion_timeout_disabled: Option<bool>,
}

/// The range of times, in microseconds, that the Completion Timeout Value of Device Control 2 stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CompletionTimeout {
    /// The shortest, in microseconds.
    pub us_min: u32,
    /// The longest, in microseconds.
    pub us_max: u32,
}

impl CompletionTimeout {
    /// The range with this register code.
    fn decode(code: u32) -> Option<Self> {
        let (us_min, us_max) = match code {
            0x0 => (50, 50_000),
            0x1 => (50, 100),
            0x2 => (1_000, 10_000),
            0x5 => (16_000, 55_000),
            0x6 => (65_000, 210_000),
            0x9 => (260_000, 900_000),
            0xa => (1_000_000, 3_500_000),
            0xd => (4_000_000, 13_000_000),
            0xe => (17_000_000, 64_000_000),
            _ => return None,
        };
        Some(Self { us_min, us_max })
    }
}

/// Link Capabilities, Control and Status, and their second set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LinkRegisters {
    /// Max Link Speed.
    #[serde(rename = "speed_max_gt_per_s")]
    pub speed_max: Option<LinkSpeed>,
    /// Maximum Link Width.
    #[serde(rename = "lanes_max")]
    pub width_max: Option<LinkWidth>,
    /// Port Number.
    pub port_number: Option<u8>,
    /// Current Link Speed.
    #[serde(rename = "speed_gt_per_s")]
    pub speed: Option<LinkSpeed>,
    /// Negotiated Link Width.
    #[serde(rename = "lanes")]
    pub width: Option<LinkWidth>,
    /// Link Training: the link is being trained. Root and downstream ports only; others read 0.
    pub training: Option<bool>,
    /// Both ends use the slot's reference clock.
    pub slot_clock: Option<bool>,
    /// Data Link Layer Link Active.
    pub active: Option<bool>,
    /// Active State Power Management may enter L0s.
    pub aspm_l0s: Option<bool>,
    /// Active State Power Management may enter L1.
    pub aspm_l1: Option<bool>,
    /// Read Completion Boundary, in bytes: a completer may split completions at its multiples.
    pub read_completion_boundary_bytes: Option<u16>,
    /// The highest of Supported Link Speeds Vector (Link Capabilities 2).
    #[serde(rename = "speed_supported_gt_per_s")]
    pub speed_supported: Option<LinkSpeed>,
    /// Target Link Speed (Link Control 2): a limit set by software or firmware.
    #[serde(rename = "speed_target_gt_per_s")]
    pub speed_target: Option<LinkSpeed>,
}

impl LinkRegisters {
    /// The highest speed that this end can do.
    ///
    /// Link Capabilities 2 takes precedence, as in Linux: some devices lower Max Link Speed to the target speed.
    pub fn speed_possible(&self) -> Option<LinkSpeed> {
        self.speed_supported.or(self.speed_max)
    }
}

/// Slot Capabilities and Status.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SlotCapability {
    /// Physical Slot Number; 0 if the platform assigned none.
    pub number: Option<u16>,
    /// Hot-Plug Capable: a device can be added here while the host runs.
    pub hot_plug: Option<bool>,
    /// Hot-Plug Surprise: a device can be removed without notice, as with a cable.
    pub hot_plug_surprise: Option<bool>,
    /// Presence Detect State.
    pub occupied: Option<bool>,
}

impl Express {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        let flags = at.word(0x02);
        let version = field8(flags, 0x000f);
        let port = field8(flags, 0x00f0).map(PortType::decode);
        let leads_down = port.is_some_and(PortType::leads_down);
        let slot_implemented = flag(flags, 0x0100).filter(|_| leads_down);
        let second = version.is_some_and(|version| version >= 2);
        let link = port.is_some_and(PortType::has_link);
        Self {
            version,
            port,
            slot_implemented,
            device: Device::decode(at, port),
            device2: if second { Device2::decode(at, port) } else { Device2::default() },
            link: if link { LinkRegisters::decode(at, port, second) } else { LinkRegisters::default() },
            slot: (slot_implemented == Some(true)).then(|| SlotCapability::decode(at)),
        }
    }
}

/// `value` if the specification defines the field for this port type, else `None`.
pub(super) fn if_defined<T>(
    port: Option<PortType>,
    defined: impl FnOnce(PortType) -> bool,
    value: Option<T>,
) -> Option<T> {
    value.filter(|_| port.is_some_and(defined))
}

impl Device {
    fn decode(at: Structure<'_>, port: Option<PortType>) -> Self {
        let (capabilities, control) = (at.dword(0x04), at.word(0x08));
        Self {
            payload_max: field(capabilities, 0x7).and_then(PayloadSize::decode),
            phantom_bits: field8(capabilities, 0x18),
            extended_tag: flag(capabilities, 0x20),
            function_level_reset: if_defined(port, PortType::is_endpoint, flag(capabilities, 0x1000_0000)),
            payload: field(control, 0x00e0).and_then(PayloadSize::decode),
            read_request: field(control, 0x7000).and_then(PayloadSize::decode),
            relaxed_ordering_enabled: flag(control, 0x0010),
            no_snoop_enabled: flag(control, 0x0800),
            extended_tag_enabled: flag(control, 0x0100),
            phantom_enabled: flag(control, 0x0200),
        }
    }
}

impl Device2 {
    fn decode(at: Structure<'_>, port: Option<PortType>) -> Self {
        let (capabilities, control) = (at.dword(0x24), at.word(0x28));
        let forwards = PortType::can_forward_ari;
        let switching = PortType::is_switching;
        let requests = |port: PortType| port.is_endpoint() || port == PortType::RootPort;
        Self {
            ten_bit_tag_completer: flag(capabilities, 0x1_0000),
            ten_bit_tag_requester: flag(capabilities, 0x2_0000),
            ten_bit_tag_enabled: flag(control, 0x1000),
            ari_forwarding: if_defined(port, forwards, flag(capabilities, 0x20)),
            ari_forwarding_enabled: if_defined(port, forwards, flag(control, 0x20)),
            atomic_routing: if_defined(port, switching, flag(capabilities, 0x40)),
            atomic_requests_enabled: if_defined(port, requests, flag(control, 0x40)),
            atomic_egress_blocked: if_defined(port, switching, flag(control, 0x80)),
            completion_timeout: field(control, 0x000f).and_then(CompletionTimeout::decode),
            completion_timeout_disabled: flag(control, 0x10),
        }
    }
}

impl LinkRegisters {
    /// Decodes the link's registers; those of version 2 of the capability only if it has `second`.
    fn decode(at: Structure<'_>, port: Option<PortType>, second: bool) -> Self {
        let (capabilities, control, status) = (at.dword(0x0c), at.word(0x10), at.word(0x12));
        let capabilities2 = at.dword(0x2c).filter(|_| second);
        let control2 = at.word(0x30).filter(|_| second);
        let boundary = flag(control, 0x8).map(|large| if large { 128 } else { 64 });
        Self {
            speed_max: field(capabilities, 0xf).and_then(LinkSpeed::from_code),
            width_max: field8(capabilities, 0x3f0).and_then(LinkWidth::new),
            port_number: field8(capabilities, 0xff00_0000),
            speed: field(status, 0xf).and_then(LinkSpeed::from_code),
            width: field8(status, 0x3f0).and_then(LinkWidth::new),
            training: flag(status, 0x0800),
            slot_clock: flag(status, 0x1000),
            active: flag(status, 0x2000),
            aspm_l0s: flag(control, 0x1),
            aspm_l1: flag(control, 0x2),
            read_completion_boundary_bytes: if_defined(
                port,
                PortType::has_read_completion_boundary,
                boundary,
            ),
            speed_supported: field(capabilities2, 0x7e).and_then(LinkSpeed::highest_of),
            // A device of 2.5 GT/s only may hardwire the field to 0.
            speed_target: field(control2, 0xf).and_then(|code| LinkSpeed::from_code(code.max(1))),
        }
    }
}

impl SlotCapability {
    fn decode(at: Structure<'_>) -> Self {
        let (capabilities, status) = (at.dword(0x14), at.word(0x1a));
        Self {
            number: field16(capabilities, 0xfff8_0000),
            hot_plug: flag(capabilities, 0x40),
            hot_plug_surprise: flag(capabilities, 0x20),
            occupied: flag(status, 0x40),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Body, Image};
    use crate::{Capabilities, ConfigSpace};

    fn decode(body: &Body) -> Express {
        let bytes = Image::endpoint(1, 2, 0).capability(0x10, body.bytes()).bytes();
        Capabilities::decode(ConfigSpace::new(&bytes)).express.get().unwrap().clone()
    }

    #[test]
    fn root_port_with_a_slot() {
        let express = decode(
            &Body::conventional(60)
                .word(0x02, 0x0142)
                .dword(0x04, 0x8021)
                .word(0x08, 0x2810)
                .dword(0x0c, 0x0540_0104 | 0xc00)
                .word(0x10, 0x000a)
                .word(0x12, 0x3083)
                .dword(0x14, (7 << 19) | 0x60)
                .word(0x1a, 0x40)
                .dword(0x24, 0x60)
                .word(0x28, 0x0026)
                .dword(0x2c, 0x1e)
                .word(0x30, 0x3),
        );
        assert_eq!(express.port, Some(PortType::RootPort));
        assert_eq!(express.device.payload_max.map(PayloadSize::bytes), Some(256));
        assert_eq!(express.device.payload.map(PayloadSize::bytes), Some(128));
        assert_eq!(express.device.read_request.map(PayloadSize::bytes), Some(512));
        assert_eq!(express.device.relaxed_ordering_enabled, Some(true));
        assert_eq!(express.device.no_snoop_enabled, Some(true));
        assert_eq!(express.device.function_level_reset, None);
        let link = &express.link;
        assert_eq!((link.speed_max, link.speed), (Some(LinkSpeed::Gt16), Some(LinkSpeed::Gt8)));
        assert_eq!((link.width_max, link.width), (LinkWidth::new(16), LinkWidth::new(8)));
        assert_eq!((link.slot_clock, link.active, link.training), (Some(true), Some(true), Some(false)));
        assert_eq!((link.aspm_l0s, link.aspm_l1), (Some(false), Some(true)));
        assert_eq!(link.read_completion_boundary_bytes, Some(128));
        assert_eq!((link.speed_supported, link.speed_target), (Some(LinkSpeed::Gt16), Some(LinkSpeed::Gt8)));
        assert_eq!(link.port_number, Some(5));
        let slot = express.slot.unwrap();
        assert_eq!((slot.number, slot.hot_plug, slot.hot_plug_surprise), (Some(7), Some(true), Some(true)));
        assert_eq!(express.device2.ari_forwarding_enabled, Some(true));
        assert_eq!(
            express.device2.completion_timeout,
            Some(CompletionTimeout { us_min: 65_000, us_max: 210_000 })
        );
    }

    #[test]
    fn reserved_values_are_not_guessed() {
        let express = decode(
            &Body::conventional(60)
                .word(0x02, 0x00f2)
                .dword(0x04, 0x7)
                .word(0x08, 0x7000)
                .dword(0x0c, 0xf)
                .word(0x28, 0xf),
        );
        assert_eq!(express.port, Some(PortType::Reserved(0xf)));
        assert_eq!(express.device.payload_max, None);
        assert_eq!(express.device.read_request, None);
        assert_eq!((express.link.speed_max, express.link.width_max), (None, None));
        assert_eq!(express.device2.completion_timeout, None);
    }

    #[test]
    fn version_1_has_no_second_set() {
        let express =
            decode(&Body::conventional(60).word(0x02, 0x0001).dword(0x24, u32::MAX).dword(0x2c, u32::MAX));
        assert_eq!(express.device2, Device2::default());
        assert_eq!((express.link.speed_supported, express.link.speed_target), (None, None));
        assert_eq!(express.slot_implemented, None);
    }

    #[test]
    fn sizes() {
        for size in PayloadSize::ALL {
            assert_eq!(PayloadSize::from_bytes(size.bytes()), Some(size));
        }
        assert_eq!(PayloadSize::from_bytes(8192), None);
        assert_eq!(PayloadSize::from_bytes(0), None);
    }
}
