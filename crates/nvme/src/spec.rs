//! Encoding and decoding of registers, commands, completions and Identify data. No I/O.
//!
//! Sources: NVM Express Base Specification 2.0c, 2022 ("Base"), NVM Command Set Specification 1.0c, 2022 ("NVM"), Zoned Namespace Command Set
//! Specification 1.1c, 2022 ("ZNS"), and NVMe over PCIe Transport Specification 1.0c, 2022 ("PCIe").

pub mod command;
pub mod completion;
pub mod error_log;
mod field;
pub mod firmware;
pub mod health;
pub mod identify;
pub mod log_page;
pub mod namespace;
pub mod registers;
pub mod self_test;
pub mod status;
pub mod zone;
