//! A frame on the wire or in an adapter.

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) flow: u32,
    /// Payload bytes of the application; of an acknowledgement, the bytes that it acknowledges.
    pub(super) bytes: u32,
    /// Bytes of the IP packet.
    pub(super) ip_bytes: u32,
    pub(super) what: FrameContent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum FrameContent {
    /// Data of a message.
    #[default]
    Data,
    /// An acknowledgement.
    Acknowledgement,
}

const ETHERNET_HEADER_BYTES: u64 = 14;

impl Frame {
    /// Bytes with the Ethernet header, without the checksum.
    pub(super) fn ethernet_bytes(&self) -> u64 {
        u64::from(self.ip_bytes) + ETHERNET_HEADER_BYTES
    }
}
