//! Makes untrusted text safe for terminals, JSON, HTML and shell commands.
//!
//! A device name, a log line, a kernel argument, a file name or a key of a user's file may contain anything. Three
//! outputs can be attacked through it, and each has one filter here that all of iotoll uses:
//!
//! ```text
//! untrusted text ────┬─ terminal::plain ── one line of a report or an error ─┐
//!                    │                                                       ├─ terminal::screen ── standard output
//!                    │      our colours ─────────────────────────────────────┘
//!                    ├─ terminal::lines ── standard error, HTML pages, drawings
//!                    ├─ json::ascii_controls ── JSON documents
//!                    └─ shell::Command ── a command that a user may paste
//! ```
//!
//! A command is built from words, not from a string, so that no caller can forget to quote:
//!
//! ```
//! use escape::shell::Command;
//! let driver = "nvme;reboot";
//! let unbind = Command::write("0000:3b:00.0", format!("/sys/bus/pci/drivers/{driver}/unbind"));
//! assert_eq!(unbind.to_string(), "echo 0000:3b:00.0 > '/sys/bus/pci/drivers/nvme;reboot/unbind'");
//! ```
//!
//! The attacks: escape sequences that a terminal executes (CVE-2021-25743 of kubectl, CVE-2003-0063 of xterm),
//! and characters that are invisible or change the direction of writing ("Trojan Source: Invisible Vulnerabilities",
//! N. Boucher and R. Anderson, 2021; CVE-2021-42574).

pub mod json;
pub mod shell;
pub mod terminal;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
