//! The key that pseudonyms depend on: a file with mode 0600 on this host, which no capture contains.

use anyhow::{Context, bail};
use host::redact::Key;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "capture.key";
/// Root's folder. It does not depend on the environment, so all captures by root have the same pseudonyms.
const FOLDER_OF_ROOT: &str = "/var/lib/iotoll";

/// A key, and whether later captures will find it.
pub(super) struct FoundKey {
    pub(super) key: Key,
    /// The file of the key; `None` if it is in none.
    pub(super) file: Option<PathBuf>,
    /// Why the key could not be saved; `None` if it is in a file.
    pub(super) unsaved_because: Option<String>,
}

/// Reads the key from a file that the user names, and creates the file if it is missing. A file that others may read, or that is not a
/// key, is an error.
pub(super) fn read_or_create(path: &Path) -> anyhow::Result<FoundKey> {
    Ok(FoundKey { key: load_or_create(path)?, file: Some(path.to_owned()), unsaved_because: None })
}

/// The key in the user's state folder, created if missing. A random key for this run alone if it can't be saved.
pub(super) fn of_this_user() -> anyhow::Result<FoundKey> {
    let Some(folder) = state_folder() else {
        return Ok(FoundKey {
            key: random_key()?,
            file: None,
            unsaved_because: Some("neither XDG_STATE_HOME nor HOME is set".to_owned()),
        });
    };
    let file = folder.join(NAME);
    match create_folder(&folder).and_then(|()| load_or_create(&file)) {
        Ok(key) => Ok(FoundKey { key, file: Some(file), unsaved_because: None }),
        Err(error) => {
            Ok(FoundKey { key: random_key()?, file: None, unsaved_because: Some(format!("{error:#}")) })
        }
    }
}

/// `/var/lib/iotoll` for root, else `$XDG_STATE_HOME/iotoll` or `~/.local/state/iotoll`. Relative paths in these variables are ignored
/// (XDG Base Directory Specification).
fn state_folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(FOLDER_OF_ROOT));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("iotoll"))
}

/// Creates a folder and its parents with mode 0700.
fn create_folder(folder: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("can't create {}", folder.display()))
}

/// The key in a file, or a new one that is written to it.
fn load_or_create(path: &Path) -> anyhow::Result<Key> {
    match read_key(path) {
        Ok(Some(key)) => Ok(key),
        Ok(None) => create_key(path),
        Err(error) => Err(error),
    }
}

/// Reads a key. `None` if the file does not exist.
fn read_key(path: &Path) -> anyhow::Result<Option<Key>> {
    let shown = path.display();
    // Does not follow a link that another user may have planted, and does not block on a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from) {
        Ok(fd) => File::from(fd),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("can't read the key {shown}")),
    };
    let found = file.metadata().with_context(|| format!("can't read the key {shown}"))?;
    if !found.is_file() {
        bail!("{shown}: not a regular file; expected a key of {} bytes", Key::BYTES);
    }
    if found.uid() != rustix::process::geteuid().as_raw() || found.permissions().mode() & 0o077 != 0 {
        bail!("{shown}: another user owns it or may read it; expected a file of your own with mode 0600");
    }
    let mut bytes = Vec::new();
    let limit = Key::BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).with_context(|| format!("can't read the key {shown}"))?;
    match <[u8; Key::BYTES]>::try_from(bytes) {
        Ok(bytes) => Ok(Some(Key::new(bytes))),
        Err(bytes) => bail!("{shown}: {} bytes; expected a key of {}", bytes.len(), Key::BYTES),
    }
}

/// Writes a random key to a new file, complete or not at all. If another process created the file meanwhile, returns its key.
fn create_key(path: &Path) -> anyhow::Result<Key> {
    let failed = || format!("can't write the key {}", path.display());
    let bytes = random_bytes()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Created with O_EXCL and mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).with_context(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(Key::new(bytes)),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            read_key(path)?.with_context(|| format!("{}: removed while it was read", path.display()))
        }
        Err(error) => Err(error.error).with_context(failed),
    }
}

/// A key for this run alone.
fn random_key() -> anyhow::Result<Key> {
    Ok(Key::new(random_bytes()?))
}

fn random_bytes() -> anyhow::Result<[u8; Key::BYTES]> {
    let mut bytes = [0; Key::BYTES];
    let mut source = fs::File::open("/dev/urandom").context("can't create a key from /dev/urandom")?;
    source.read_exact(&mut bytes).context("can't create a key from /dev/urandom")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use host::redact::Redactor;
    use std::os::unix::fs::symlink;

    fn pseudonym(kept: &FoundKey) -> Vec<u8> {
        Redactor::new(kept.key.clone()).file("proc/cmdline", b"ip=10.0.0.1".to_vec())
    }

    #[test]
    fn a_key_is_made_once_and_read_after() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["key", "other"].map(|name| folder.path().join(name));
        let first = read_or_create(&path).unwrap();
        assert!(first.unsaved_because.is_none());
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.len(), found.permissions().mode() & 0o777), (32, 0o600));
        assert_eq!(pseudonym(&read_or_create(&path).unwrap()), pseudonym(&first));
        assert_ne!(pseudonym(&read_or_create(&other).unwrap()), pseudonym(&first));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn invalid_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| format!("{:#}", read_or_create(path).err().unwrap());
        let path = folder.path().join("key");
        read_or_create(&path).unwrap();
        symlink("key", folder.path().join("link")).unwrap();
        assert!(refused(&folder.path().join("link")).contains("can't read the key "));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refused(&path).contains("expected a file of your own with mode 0600"));
        fs::write(&path, "short").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(refused(&path).contains("5 bytes; expected a key of 32"));
        assert!(refused(folder.path()).contains("not a regular file"));
        assert!(refused(&folder.path().join("none/key")).contains("can't write the key "));
    }
}
