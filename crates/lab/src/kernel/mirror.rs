//! The Debian mirror that packages are downloaded from.

/// The addresses of the two archives that packages come from: the release, and its security updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    archive: String,
    security: String,
}

/// An address that apt would not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid address of a mirror `{0}`; expected http://, https:// or file:/ and no blanks, \
     like http://deb.debian.org/debian"
)]
pub struct MirrorError(String);

impl Mirror {
    /// Debian's own addresses.
    pub fn debian_org() -> Self {
        Self {
            archive: "http://deb.debian.org/debian".to_owned(),
            security: "http://deb.debian.org/debian-security".to_owned(),
        }
    }

    /// Replaces the address of the release's archive.
    ///
    /// # Errors
    /// If it is not a valid address.
    pub fn with_archive(self, archive: &str) -> Result<Self, MirrorError> {
        Ok(Self { archive: check_address(archive)?, ..self })
    }

    /// Replaces the address of the archive of security updates.
    ///
    /// # Errors
    /// If it is not a valid address.
    pub fn with_security(self, security: &str) -> Result<Self, MirrorError> {
        Ok(Self { security: check_address(security)?, ..self })
    }

    /// The address of the release's archive.
    pub fn archive(&self) -> &str {
        &self.archive
    }

    /// The address of the archive of security updates.
    pub fn security(&self) -> &str {
        &self.security
    }
}

/// An address without its final slash. It must be one word, because it becomes a word of a line in sources.list(5).
fn check_address(text: &str) -> Result<String, MirrorError> {
    let known = ["http://", "https://", "file:/"].iter().any(|scheme| text.starts_with(scheme));
    let one_word = text.chars().all(|c| c.is_ascii_graphic() && !"[]#\"\\".contains(c));
    match known && one_word {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err(MirrorError(text.chars().take(80).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_sources_list_can_not_hold_are_refused() {
        let mirror = Mirror::debian_org().with_archive("https://mirror.example/debian/");
        assert_eq!(mirror.map(|m| m.archive), Ok("https://mirror.example/debian".to_owned()));
        for bad in ["", "mirror.example/debian", "http://a b", "http://a\ndeb http://b", "cdrom:[x]/"] {
            assert!(Mirror::debian_org().with_security(bad).is_err(), "{bad}");
        }
    }
}
