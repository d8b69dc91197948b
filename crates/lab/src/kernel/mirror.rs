//! Where packages are fetched from.

/// The two archives that packages come from: the release's own, and its security updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    archive: String,
    security: String,
}

/// An address that apt would not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no mirror's address; expected http://, https:// or file:/ and no blanks, \
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

    /// Takes the release from `archive` instead.
    ///
    /// # Errors
    /// If it is no address.
    pub fn with_archive(self, archive: &str) -> Result<Self, MirrorError> {
        Ok(Self { archive: address(archive)?, ..self })
    }

    /// Takes security updates from `security` instead.
    ///
    /// # Errors
    /// If it is no address.
    pub fn with_security(self, security: &str) -> Result<Self, MirrorError> {
        Ok(Self { security: address(security)?, ..self })
    }

    /// The release's archive.
    pub fn archive(&self) -> &str {
        &self.archive
    }

    /// The archive of security updates.
    pub fn security(&self) -> &str {
        &self.security
    }
}

/// The address becomes a word of a line in apt's list of sources, so it must be one.
fn address(text: &str) -> Result<String, MirrorError> {
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
    fn addresses() {
        let mirror = Mirror::debian_org().with_archive("https://mirror.example/debian/");
        assert_eq!(mirror.map(|m| m.archive), Ok("https://mirror.example/debian".to_owned()));
        for bad in ["", "mirror.example/debian", "http://a b", "http://a\ndeb http://b", "cdrom:[x]/"] {
            assert!(Mirror::debian_org().with_security(bad).is_err(), "{bad}");
        }
    }
}
