//! A distribution and its release, as far as support tables speak of them.

use std::fmt;

/// A distribution release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// `ID` of os-release: `rhel`, `sles`.
    pub id: String,
    /// Major release.
    pub major: u32,
    /// Minor release or service pack.
    pub minor: u32,
}

impl Distribution {
    /// From `ID` and `VERSION_ID` of os-release: `6.4`, `11.2`, `15-SP3`; a lone number is the first
    /// release. `None` if the version is no number (rolling releases).
    pub fn new(id: &str, version_id: &str) -> Option<Self> {
        let version = version_id.trim().trim_matches('"');
        let (major, minor) = version.split_once(['.', '-']).unwrap_or((version, "0"));
        let minor = minor.strip_prefix("SP").unwrap_or(minor);
        let minor = minor.split('.').next().unwrap_or_default();
        let id = id.trim().trim_matches('"').to_ascii_lowercase();
        Some(Self { id, major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.id, self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(id: &str, version: &str, expect: Option<&str>) {
        assert_eq!(Distribution::new(id, version).map(|d| d.to_string()).as_deref(), expect, "{version}");
    }

    #[test]
    fn releases() {
        check("rhel", "6.4", Some("rhel 6.4"));
        check("\"sles\"", "\"11.2\"", Some("sles 11.2"));
        check("sles", "15-SP3", Some("sles 15.3"));
        check("rhel", "8.6.1", Some("rhel 8.6"));
        check("sles", "11", Some("sles 11.0"));
        check("arch", "rolling", None);
        check("debian", "", None);
    }

    proptest! {
        #[test]
        fn no_text_panics(id: String, version: String) {
            let _ = Distribution::new(&id, &version);
        }
    }
}
