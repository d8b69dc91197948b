//! A temporary file that is moved to its final path when it is complete. No other user can open it or prepare its name.
//!
//! It has no name (`O_TMPFILE`), so nothing of it remains if the program is killed. On filesystems without such files (NFS, FAT,
//! older overlayfs) it has a random new name (`O_EXCL`), which is removed when a signal ends the program.

use crate::interrupt::{self, RemoveOnSignal};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// A temporary file with mode 0600 until it is moved to its final path.
pub(crate) struct PendingFile {
    file: File,
    folder: PathBuf,
    /// `None` with `O_TMPFILE`.
    name: Option<TempName>,
}

/// The temporary name, on filesystems without `O_TMPFILE`.
struct TempName {
    path: TempPath,
    _removal: RemoveOnSignal,
}

impl PendingFile {
    /// Creates a temporary file in the folder of its final path.
    pub(crate) fn in_folder(folder: &Path) -> io::Result<Self> {
        let unnamed = open_unnamed(folder).map(|file| Self { file, folder: folder.to_owned(), name: None });
        unnamed.or_else(|unnamed| {
            let named = Self::create_named(folder);
            // The error of a temporary name has that name.
            named.map_err(|named| if named.kind() == unnamed.kind() { unnamed } else { named })
        })
    }

    /// Creates a temporary file with a random name.
    fn create_named(folder: &Path) -> io::Result<Self> {
        // First of all, because a signal before that would leave the file behind.
        interrupt::start_signal_thread()?;
        let (file, path) = temporary_names().tempfile_in(folder)?.into_parts();
        let name = TempName { _removal: RemoveOnSignal::new(&path), path };
        Ok(Self { file, folder: folder.to_owned(), name: Some(name) })
    }

    /// Moves it to `path` in the same folder, with this mode. A file there is replaced.
    pub(crate) fn replace(self, path: &Path, mode: u32) -> io::Result<()> {
        self.finish(mode)?;
        let Some(name) = self.name else {
            return match link(&self.file, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // linkat(2) replaces no file; so the file gets a temporary name, which rename(2) can move.
                    let linked =
                        temporary_names().make_in(&self.folder, |temporary| link(&self.file, temporary))?;
                    Ok(linked.into_temp_path().persist(path)?)
                }
                linked => linked,
            };
        };
        Ok(name.path.persist(path)?)
    }

    /// Moves it to `path` in the same folder, with this mode, if no file is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if one is.
    pub(crate) fn move_to_new(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.finish(mode)?;
        match &self.name {
            None => link(&self.file, path),
            // Dropping this removes the temporary name.
            Some(name) => std::fs::hard_link(&name.path, path),
        }
    }

    /// Sets the mode and flushes the file. It gets its name only afterwards, so a power loss never leaves a partial file.
    fn finish(&self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(mode))?;
        self.file.sync_all()
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens a file without a name (`O_TMPFILE`). Fails where the filesystem has none, or `/proc` to name it later is missing.
fn open_unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, Mode::RUSR | Mode::WUSR)?);
    std::fs::symlink_metadata(proc_path(&file)).map(|_| file)
}

/// The path of an open file in `/proc`.
fn proc_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives an unnamed file a name (open(2), `O_TMPFILE`).
fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(CWD, proc_path(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Names of temporary files: `.iotoll-RANDOM.part`.
fn temporary_names() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".iotoll-").suffix(".part");
    builder
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::fs;

    type Begin = fn(&Path) -> io::Result<PendingFile>;

    /// Runs a check on an unnamed and on a named temporary file.
    fn with_and_without_a_name(check: impl Fn(Begin, &Path)) {
        for begin in [PendingFile::in_folder as Begin, PendingFile::create_named] {
            check(begin, tempfile::tempdir().unwrap().path());
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn replace_creates_a_file_or_replaces_one() {
        with_and_without_a_name(|begin, folder| {
            let place = folder.join("place");
            for (text, mode) in [("first", 0o600), ("second", 0o644)] {
                let mut pending = begin(folder).unwrap();
                pending.write_all(text.as_bytes()).unwrap();
                pending.replace(&place, mode).unwrap();
                assert_eq!(fs::read_to_string(&place).unwrap(), text);
                assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, mode);
                assert_eq!(names(folder), ["place"]);
            }
        });
    }

    #[test]
    fn move_to_new_keeps_an_existing_file() {
        with_and_without_a_name(|begin, folder| {
            let place = folder.join("place");
            fs::write(&place, "old").unwrap();
            let mut pending = begin(folder).unwrap();
            pending.write_all(b"new").unwrap();
            assert_eq!(pending.move_to_new(&place, 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            pending.move_to_new(&folder.join("other"), 0o600).unwrap();
            drop(pending);
            assert_eq!(fs::read_to_string(&place).unwrap(), "old");
            assert_eq!(fs::read_to_string(folder.join("other")).unwrap(), "new");
            assert_eq!(names(folder).len(), 2);
        });
    }

    #[test]
    fn a_dropped_file_leaves_nothing() {
        with_and_without_a_name(|begin, folder| {
            let mut pending = begin(folder).unwrap();
            pending.write_all(b"half").unwrap();
            drop(pending);
            assert!(names(folder).is_empty());
        });
    }

    #[test]
    fn a_temporary_file_is_readable_by_its_owner_alone() {
        with_and_without_a_name(|begin, folder| {
            let pending = begin(folder).unwrap();
            assert_eq!(pending.file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        });
    }

    /// Environment variable for the child process that a signal ends: the folder of its temporary file.
    const FOLDER: &str = "IOTOLL_TEST_PENDING_FOLDER";

    #[test]
    fn a_signal_removes_a_named_file() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            let _pending = PendingFile::create_named(Path::new(&folder)).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(60));
            panic!("no signal came");
        }
        let folder = tempfile::tempdir().unwrap();
        let mut this = std::process::Command::new(std::env::current_exe().unwrap());
        this.args(["--exact", "pending_file::tests::a_signal_removes_a_named_file"]);
        let mut child = this.env(FOLDER, folder.path()).stdout(std::process::Stdio::null()).spawn().unwrap();
        while names(folder.path()).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it ended without a file");
            std::thread::yield_now();
        }
        // The file exists a moment before it is registered for removal.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let kill = std::process::Command::new("kill").arg(child.id().to_string()).status();
        assert!(kill.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), None, "it was ended by the signal");
        assert!(names(folder.path()).is_empty());
    }
}
