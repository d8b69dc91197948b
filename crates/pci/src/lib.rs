//! PCI functions: configuration space, capabilities, links and names.
//!
//! ```text
//!   bytes of configuration space --ConfigSpace--> Header, Capabilities --LinkEnd, Hop--> what limits a link
//!   text that lspci printed ------lspci::parse--> Record: the same, with the line of each register
//!   /proc/bus/pci/devices ---proc_bus_pci::parse> DeviceLine: IDs, regions, driver
//!   vendor and device IDs --------Names::lookup-> names, from the table built in or a newer one
//! ```
//!
//! Everything here is a pure function of bytes or text that somebody else read, and takes hostile
//! input: it neither panics nor loops. What could not be read is unknown, never absent.
//!
//! Registers are named as in the PCI Express Base Specification; offsets and masks are those of
//! Linux's `include/uapi/linux/pci_regs.h`.
//!
//! ```
//! use pci::{Capabilities, ConfigSpace, Reach};
//!
//! // A reader without privilege gets the header only; bit 4 of Status says that capabilities exist.
//! let mut header = [0u8; 64];
//! header[6] = 0x10;
//! header[0x34] = 0x80;
//! let config = ConfigSpace::new(&header);
//! assert_eq!(config.reach(), Reach::Header);
//! assert!(Capabilities::decode(config).express.is_unknown());
//! ```
//!
//! Pitfalls:
//! - An end of a link knows only its own limits. An x16 adapter in an x8 slot is not degraded: compare both ends with [`Hop`].
//! - A virtual function has no link registers. Its link is that of its physical function.
//! - Reading all 4 KiB of configuration space takes milliseconds; [`fetch::fetch`] reads only what is decoded.
#![forbid(unsafe_code)]

pub mod acs;
pub mod bdf;
pub mod capability;
mod capability_id;
pub mod class;
pub mod config;
pub mod error;
pub mod express;
pub mod fetch;
pub mod header;
#[cfg(test)]
mod image;
pub mod interrupt;
pub mod link;
pub mod link_speed;
pub mod lspci;
pub mod names;
pub mod packet;
pub mod power;
pub mod presence;
pub mod proc_bus_pci;
pub mod rebar;
#[cfg(feature = "schema")]
mod schema;
pub mod sriov;
pub mod translation;
pub mod tree;

pub use bdf::Bdf;
pub use capability::Capabilities;
pub use cited::{Citation, Cited, Text};
pub use class::{ClassCode, Kind};
pub use config::{ConfigSpace, Reach};
pub use express::{Express, PortType};
pub use header::{BridgeBuses, Header};
pub use link::{Hop, Link, LinkEnd};
pub use link_speed::{LinkSpeed, LinkWidth};
pub use packet::PacketHeader;
pub use presence::Presence;
pub use tree::BusTree;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
