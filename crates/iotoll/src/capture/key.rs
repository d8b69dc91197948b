//! The key of pseudonyms: a file on the host, which only its owner reads, and which no capture holds.

use anyhow::{Context, bail};
use host::redact::Key;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "capture.key";
/// For root, whose captures should match whatever its environment is.
const FOLDER_OF_ROOT: &str = "/var/lib/iotoll";

/// A key, and whether the next capture will have it.
pub(super) struct Kept {
    pub(super) key: Key,
    /// Why the key ends with this run; `None` if it is kept.
    pub(super) why_not: Option<String>,
}

/// The key in a file that the user names. It is made if it is not there; a file that others may read, or that is no key, is an error.
pub(super) fn in_file(path: &Path) -> anyhow::Result<Kept> {
    Ok(Kept { key: read_or_make(path)?, why_not: None })
}

/// The key in the usual place, or one for this run alone.
pub(super) fn of_this_host() -> anyhow::Result<Kept> {
    let Some(folder) = folder() else {
        return Ok(Kept {
            key: random()?,
            why_not: Some("neither XDG_STATE_HOME nor HOME is set".to_owned()),
        });
    };
    let made = make_folder(&folder).and_then(|()| read_or_make(&folder.join(NAME)));
    match made {
        Ok(key) => Ok(Kept { key, why_not: None }),
        Err(error) => Ok(Kept { key: random()?, why_not: Some(format!("{error:#}")) }),
    }
}

/// `/var/lib/iotoll` for root, else `$XDG_STATE_HOME/iotoll` or `~/.local/state/iotoll` (XDG Base Directory Specification:
/// relative paths are to be ignored).
fn folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(FOLDER_OF_ROOT));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("iotoll"))
}

fn make_folder(folder: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("can't make {}", folder.display()))
}

fn read_or_make(path: &Path) -> anyhow::Result<Key> {
    match read(path) {
        Ok(Some(key)) => Ok(key),
        Ok(None) => make(path),
        Err(error) => Err(error),
    }
}

/// `None` if there is no such file.
fn read(path: &Path) -> anyhow::Result<Option<Key>> {
    let shown = path.display();
    // Not through a link, and not for ever at a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from) {
        Ok(fd) => File::from(fd),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("can't read the key {shown}")),
    };
    let found = file.metadata().with_context(|| format!("can't read the key {shown}"))?;
    if !found.is_file() {
        bail!("{shown}: no regular file; expected a key of {} bytes", Key::BYTES);
    }
    if found.uid() != rustix::process::geteuid().as_raw() || found.permissions().mode() & 0o077 != 0 {
        bail!("{shown}: others own it or may read it; expected a file of your own with mode 0600");
    }
    let mut bytes = Vec::new();
    let limit = Key::BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).with_context(|| format!("can't read the key {shown}"))?;
    match <[u8; Key::BYTES]>::try_from(bytes) {
        Ok(bytes) => Ok(Some(Key::new(bytes))),
        Err(bytes) => bail!("{shown}: {} bytes; expected a key of {}", bytes.len(), Key::BYTES),
    }
}

/// Makes a key. The file appears whole or not at all; where another process was faster, its key counts.
fn make(path: &Path) -> anyhow::Result<Key> {
    let failed = || format!("can't write the key {}", path.display());
    let bytes = random_bytes()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Created with O_EXCL and mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).with_context(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(Key::new(bytes)),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            read(path)?.with_context(|| format!("{}: gone while it was read", path.display()))
        }
        Err(error) => Err(error.error).with_context(failed),
    }
}

fn random() -> anyhow::Result<Key> {
    Ok(Key::new(random_bytes()?))
}

fn random_bytes() -> anyhow::Result<[u8; Key::BYTES]> {
    let mut bytes = [0; Key::BYTES];
    let mut source = fs::File::open("/dev/urandom").context("can't make a key: /dev/urandom")?;
    source.read_exact(&mut bytes).context("can't make a key: /dev/urandom")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use host::redact::Redactor;
    use std::os::unix::fs::symlink;

    fn pseudonym(kept: &Kept) -> Vec<u8> {
        Redactor::new(kept.key.clone()).file("proc/cmdline", b"ip=10.0.0.1".to_vec())
    }

    #[test]
    fn a_key_is_made_once_and_read_after() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["key", "other"].map(|name| folder.path().join(name));
        let first = in_file(&path).unwrap();
        assert!(first.why_not.is_none());
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.len(), found.permissions().mode() & 0o777), (32, 0o600));
        assert_eq!(pseudonym(&in_file(&path).unwrap()), pseudonym(&first));
        assert_ne!(pseudonym(&in_file(&other).unwrap()), pseudonym(&first));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| format!("{:#}", in_file(path).err().unwrap());
        let path = folder.path().join("key");
        in_file(&path).unwrap();
        symlink("key", folder.path().join("link")).unwrap();
        assert!(refused(&folder.path().join("link")).contains("can't read the key "));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refused(&path).contains("expected a file of your own with mode 0600"));
        fs::write(&path, "short").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(refused(&path).contains("5 bytes; expected a key of 32"));
        assert!(refused(folder.path()).contains("no regular file"));
        assert!(refused(&folder.path().join("none/key")).contains("can't write the key "));
    }
}
