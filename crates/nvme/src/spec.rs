//! What controllers and hosts tell each other: registers, commands, completions, and data structures, as bytes.
//!
//! Sources: NVM Express Base Specification 2.0c, 2022 ("Base"), NVM Command Set Specification 1.0c, 2022 ("NVM"), and NVMe over PCIe
//! Transport Specification 1.0c, 2022 ("PCIe").

pub mod command;
pub mod completion;
pub mod error_log;
pub mod identify;
pub mod registers;
pub mod status;
