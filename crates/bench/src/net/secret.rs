//! The secret that both hosts share, and what is derived from it by HMAC-SHA-256.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The shortest secret. 16 random bytes can't be guessed.
const BYTES_MIN: usize = 16;
/// The longest.
const BYTES_MAX: usize = 4096;
/// Bytes of an authentication code.
pub(super) const MAC_BYTES: usize = 32;
/// Permissions that nobody but the owner may have.
const OTHERS: u32 = 0o077;

/// An authentication code.
pub(super) type Code = [u8; MAC_BYTES];

/// A secret, or a key that was derived from one.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

/// Why a file holds no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It can't be read.
    #[error("{}: can't read the secret", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is no regular file.
    #[error("{}: not a regular file; expected a file with the secret", file.display())]
    Kind {
        /// The file.
        file: PathBuf,
    },
    /// Others may read it.
    #[error("{}: mode {mode:o} lets other users read the secret; expected 600 (chmod 600)", file.display())]
    Mode {
        /// The file.
        file: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is too short or too long.
    #[error("{}: {bytes} bytes without line ends; expected a secret of {BYTES_MIN} to {BYTES_MAX}: head -c 32 /dev/urandom | base64 > FILE", file.display())]
    Length {
        /// The file.
        file: PathBuf,
        /// What it has.
        bytes: usize,
    },
}

impl Secret {
    /// Reads a secret from a file that its owner alone may read. Line ends after it don't count.
    ///
    /// # Errors
    /// [`SecretError`]
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let file = || path.to_owned();
        let fail = |source| SecretError::Read { file: file(), source };
        // The open file is judged, so nobody can exchange it in between. A named pipe would wait for its writer.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK;
        let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty());
        let opened = File::from(opened.map_err(|error| fail(error.into()))?);
        let about = opened.metadata().map_err(fail)?;
        if !about.is_file() {
            return Err(SecretError::Kind { file: file() });
        }
        if about.mode() & OTHERS != 0 {
            return Err(SecretError::Mode { file: file(), mode: about.mode() & 0o7777 });
        }
        let mut bytes = Vec::new();
        opened.take(BYTES_MAX as u64 + 2).read_to_end(&mut bytes).map_err(fail)?;
        while matches!(bytes.last(), Some(b'\n' | b'\r')) {
            bytes.pop();
        }
        match bytes.len() {
            BYTES_MIN..=BYTES_MAX => Ok(Self(bytes)),
            length => Err(SecretError::Length { file: file(), bytes: length }),
        }
    }

    /// The authentication code of several parts. The first says what for, so that no code is good for two purposes.
    pub(super) fn code(&self, parts: &[&[u8]]) -> Code {
        self.mac(parts).map_or([0; MAC_BYTES], |mac| mac.finalize().into_bytes().into())
    }

    /// Whether this is the code of the parts, compared in constant time.
    pub(super) fn verifies(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        self.mac(parts).is_some_and(|mac| mac.verify_slice(code).is_ok())
    }

    /// A key for one purpose.
    pub(super) fn key(&self, parts: &[&[u8]]) -> Self {
        Self(self.code(parts).to_vec())
    }

    /// HMAC takes keys of any length, so this is never `None`; a code of zeros could otherwise be forged, so it must not be used.
    fn mac(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in parts {
            // With their lengths: no two lists of parts are the same bytes.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        Some(mac)
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// Random bytes from the kernel.
pub(super) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_is_long_enough_and_its_owner_s_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Secret::read(&path)
        };
        assert_eq!(read("0123456789abcdef\n", 0o600).unwrap().0, b"0123456789abcdef");
        assert!(matches!(read("0123456789abcde\n\n", 0o600), Err(SecretError::Length { bytes: 15, .. })));
        assert!(matches!(read("", 0o600), Err(SecretError::Length { bytes: 0, .. })));
        assert!(matches!(read(&"x".repeat(5000), 0o600), Err(SecretError::Length { .. })));
        for mode in [0o640, 0o604, 0o660, 0o601] {
            let refused = read("0123456789abcdef", mode);
            assert!(matches!(refused, Err(SecretError::Mode { .. })), "{mode:o}");
        }
        assert!(matches!(Secret::read(folder.path()), Err(SecretError::Kind { .. })));
        assert!(matches!(Secret::read(&folder.path().join("none")), Err(SecretError::Read { .. })));
    }

    /// RFC 4231, test case 2, has one part without a length before it; ours differs from it, and depends on each part.
    #[test]
    fn codes_depend_on_key_and_parts() {
        let key = Secret(b"Jefe".to_vec());
        let code = key.code(&[b"what do ya want ", b"for nothing?"]);
        assert!(key.verifies(&[b"what do ya want ", b"for nothing?"], &code));
        assert!(!key.verifies(&[b"what do ya want for nothing?"], &code));
        assert!(!key.verifies(&[b"what do ya want ", b"for nothing?"], &code[..31]));
        assert!(!Secret(b"jefe".to_vec()).verifies(&[b"what do ya want ", b"for nothing?"], &code));
        assert_eq!(format!("{key:?}"), "Secret");
    }

    #[test]
    fn random_bytes_are_fresh() {
        assert_ne!(random_bytes::<32>().unwrap(), random_bytes::<32>().unwrap());
    }
}
