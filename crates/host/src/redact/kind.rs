//! What is redacted, by kind, and how often.

use std::collections::BTreeMap;

/// A kind of what is redacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Passwords, keys, tokens, user names beside them.
    Secret,
    /// MAC addresses, alone or in names and identifiers made of them.
    MacAddress,
    /// Serial numbers, WWNs, GUIDs and the like: one per device.
    SerialNumber,
    /// UUIDs, machine IDs.
    Uuid,
    /// Names of hosts and users.
    Name,
    /// IP addresses.
    IpAddress,
    /// Where the host boots from: servers, volumes, paths.
    BootSource,
}

impl Kind {
    /// In words, by number.
    fn words(self, count: usize) -> String {
        let (one, many) = match self {
            Self::Secret => ("secret", "secrets"),
            Self::MacAddress => ("MAC address", "MAC addresses"),
            Self::SerialNumber => ("serial number", "serial numbers"),
            Self::Uuid => ("UUID", "UUIDs"),
            Self::Name => ("name of a host or user", "names of hosts and users"),
            Self::IpAddress => ("IP address", "IP addresses"),
            Self::BootSource => ("boot source", "boot sources"),
        };
        format!("{count} {}", if count == 1 { one } else { many })
    }
}

/// How many places were redacted, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Kind, usize>);

impl Counts {
    /// Counts an identifier of this kind.
    pub(super) fn add(&mut self, kind: Kind) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// Of one kind.
    pub fn of(&self, kind: Kind) -> usize {
        self.0.get(&kind).copied().unwrap_or_default()
    }
}

/// `1 secret, 3 MAC addresses`; `nothing`.
impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(kind, count)| kind.words(*count)).collect();
        f.write_str(if words.is_empty() { "nothing" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}
