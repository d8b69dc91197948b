//! What goes over a line.

use super::parameters::{Line, Parameters};
use des::Span;
use serde::{Deserialize, Serialize};

/// Where a message goes: each way is a line of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Over the link, from the host to the adapter.
    Down,
    /// Over the link, from the adapter to the host.
    Up,
    /// Over the wire, to the peer.
    Out,
    /// Over the wire, from the peer.
    In,
}

impl Way {
    /// The bandwidth and latency of the line that goes this way.
    pub(crate) fn line(self, parameters: &Parameters) -> &Line {
        match self {
            Self::Down | Self::Up => &parameters.link,
            Self::Out | Self::In => &parameters.wire,
        }
    }
}

/// What goes over a line, for a flow; an interrupt, for a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    Doorbell,
    DescriptorRequest,
    Descriptor,
    PayloadRequest,
    Payload,
    Frame,
    Echo,
    /// The echo, written into memory, and that it is there.
    Delivery,
    Interrupt,
}

impl Message {
    pub(crate) const ALL: [Self; 9] = [
        Self::Doorbell,
        Self::DescriptorRequest,
        Self::Descriptor,
        Self::PayloadRequest,
        Self::Payload,
        Self::Frame,
        Self::Echo,
        Self::Delivery,
        Self::Interrupt,
    ];

    pub(crate) fn way(self) -> Way {
        match self {
            Self::Doorbell | Self::Descriptor | Self::Payload => Way::Down,
            Self::DescriptorRequest | Self::PayloadRequest | Self::Delivery | Self::Interrupt => Way::Up,
            Self::Frame => Way::Out,
            Self::Echo => Way::In,
        }
    }

    /// For how long the line is busy with it.
    pub(crate) fn span(self, parameters: &Parameters) -> Span {
        let bytes = &parameters.bytes;
        let length = match self {
            Self::Doorbell => bytes.doorbell,
            Self::DescriptorRequest | Self::PayloadRequest => bytes.request,
            Self::Descriptor => bytes.descriptor,
            Self::Payload => bytes.payload,
            Self::Frame | Self::Echo => bytes.frame,
            Self::Delivery => bytes.delivery,
            Self::Interrupt => bytes.interrupt,
        };
        Span::from_ps(u64::from(length) * self.way().line(parameters).ps_per_byte)
    }
}
