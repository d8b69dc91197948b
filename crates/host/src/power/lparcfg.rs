//! `/proc/powerpc/lparcfg` (`/proc/ppc64/lparcfg` on old kernels): what the partition says of itself.
//!
//! `key=value` lines after a version line. The keys differ by kernel and hypervisor, some being passed on
//! verbatim from firmware, so every pair is kept and nothing is an error.

use crate::{Citation, Cited, Text};

/// One pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key as written.
    pub key: String,
    /// The value, without surrounding space.
    pub value: String,
    /// Where it stands.
    pub at: Citation,
}

/// All pairs, in file order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lparcfg {
    /// Version of the format: `1.9`.
    pub version: Option<String>,
    /// The pairs.
    pub entries: Vec<Entry>,
}

/// Reads the file.
pub fn lparcfg(text: &Text) -> Lparcfg {
    let mut found = Lparcfg::default();
    for (number, line) in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            found.entries.push(Entry { key, value, at: text.cite(number, line) });
        } else if let Some(version) = line.strip_prefix("lparcfg ") {
            found.version = Some(version.trim().to_owned());
        }
    }
    found
}

impl Lparcfg {
    /// The first value of a key.
    pub fn get(&self, key: &str) -> Option<Cited<&str>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Cited::new(entry.value.as_str(), entry.at.clone()))
    }

    /// A value that is a number, perhaps with its unit behind: `backing_memory=1073741824 bytes`.
    pub fn number(&self, key: &str) -> Option<Cited<u64>> {
        let Cited { value, at } = self.get(key)?;
        let number = value.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Cited::new(number, at))
    }

    /// Most memory that the partition can have, in bytes (`MaxMem`; RHEL 8, Linux 6.1).
    pub fn memory_max_bytes(&self) -> Option<Cited<u64>> {
        self.number("MaxMem")
    }

    /// Name of the partition (Linux 6.1).
    pub fn partition_name(&self) -> Option<Cited<&str>> {
        self.get("partition_name")
    }

    /// Machine type and model: `IBM,8231-E2C`.
    pub fn system_type(&self) -> Option<Cited<&str>> {
        self.get("system_type")
    }

    /// Machine serial number.
    pub fn serial_number(&self) -> Option<Cited<&str>> {
        self.get("serial_number")
    }

    /// Whether active memory sharing counts DMA mappings against an entitlement.
    pub fn memory_is_shared(&self) -> Option<Cited<bool>> {
        self.number("cmo_enabled").map(|Cited { value, at }| Cited::new(value != 0, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "lparcfg 1.9\n\
        serial_number=IBM,021234567\n\
        system_type=IBM,8231-E2C\n\
        partition_id=2\n\
        MaxMem=137438953472\n\
        cmo_enabled=1\n\
        backing_memory=1073741824 bytes\n\
        partition_name=web = first\n\
        nonsense\n\
        =\n";

    #[test]
    fn pairs() {
        let found = lparcfg(&Text::new("proc/powerpc/lparcfg", FILE));
        assert_eq!(found.version.as_deref(), Some("1.9"));
        assert_eq!(found.memory_max_bytes().unwrap().value, 128 << 30);
        assert_eq!(found.system_type().unwrap().value, "IBM,8231-E2C");
        assert_eq!(found.serial_number().unwrap().at.line, Some(2));
        assert_eq!(found.partition_name().unwrap().value, "web = first");
        assert_eq!(found.number("backing_memory").unwrap().value, 1 << 30);
        assert!(found.memory_is_shared().unwrap().value);
        assert_eq!(found.get("DisWheRotPer"), None);
        assert_eq!(found.number("system_type"), None);
        let at = found.memory_max_bytes().unwrap().at.to_string();
        assert_eq!(at, "proc/powerpc/lparcfg:5: MaxMem=137438953472");
    }

    proptest! {
        #[test]
        fn no_text_panics(body: String) {
            let _ = lparcfg(&Text::new("proc/powerpc/lparcfg", body)).memory_max_bytes();
        }
    }
}
