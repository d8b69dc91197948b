//! A file on its way to its place, which nobody else can open, plant or find half written.
//!
//! It has no name (`O_TMPFILE`), so nothing of it is left whatever ends the program. Filesystems without such files (NFS, FAT,
//! older overlayfs) give it a random name that did not exist before (`O_EXCL`), which a signal removes.

use crate::interrupt::{self, Removal};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Its owner's alone until it is placed.
pub(crate) struct PendingFile {
    file: File,
    folder: PathBuf,
    name: Option<Name>,
}

/// Where it has one.
struct Name {
    path: TempPath,
    _removal: Removal,
}

impl PendingFile {
    /// Begins one in the folder in which it is to be placed.
    pub(crate) fn in_folder(folder: &Path) -> io::Result<Self> {
        let unnamed = without_name(folder).map(|file| Self { file, folder: folder.to_owned(), name: None });
        unnamed.or_else(|_| Self::with_name(folder))
    }

    fn with_name(folder: &Path) -> io::Result<Self> {
        // Before the name is there: a signal between the two would leave it.
        interrupt::listen()?;
        let (file, path) = temporary().tempfile_in(folder)?.into_parts();
        let name = Name { _removal: Removal::of(&path), path };
        Ok(Self { file, folder: folder.to_owned(), name: Some(name) })
    }

    /// Puts it at `place`, in its folder, instead of whatever file is there.
    pub(crate) fn replace(self, place: &Path, mode: u32) -> io::Result<()> {
        self.finish(mode)?;
        let Some(name) = self.name else {
            return match link(&self.file, place) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // A link replaces nothing, and only names can be renamed.
                    let linked = temporary().make_in(&self.folder, |path| link(&self.file, path))?;
                    Ok(linked.into_temp_path().persist(place)?)
                }
                linked => linked,
            };
        };
        Ok(name.path.persist(place)?)
    }

    /// Puts it at `place`, in its folder, if nothing is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if something is.
    pub(crate) fn place_new(&self, place: &Path, mode: u32) -> io::Result<()> {
        self.finish(mode)?;
        match &self.name {
            None => link(&self.file, place),
            // The temporary name goes when this is dropped.
            Some(name) => std::fs::hard_link(&name.path, place),
        }
    }

    /// All of it on the disk before its name is: after a power loss it is whole or not there.
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

fn without_name(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, Mode::RUSR | Mode::WUSR)?);
    // Without /proc it could never get a name.
    std::fs::symlink_metadata(by_number(&file)).map(|_| file)
}

fn by_number(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives a file without a name one (open(2), `O_TMPFILE`).
fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(CWD, by_number(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

fn temporary() -> tempfile::Builder<'static, 'static> {
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

    /// On filesystems of either kind.
    fn of_both_kinds(check: impl Fn(Begin, &Path)) {
        for begin in [PendingFile::in_folder as Begin, PendingFile::with_name] {
            check(begin, tempfile::tempdir().unwrap().path());
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn it_takes_a_free_place_and_replaces_a_file() {
        of_both_kinds(|begin, folder| {
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
    fn a_place_that_is_taken_stays_as_it_is() {
        of_both_kinds(|begin, folder| {
            let place = folder.join("place");
            fs::write(&place, "old").unwrap();
            let mut pending = begin(folder).unwrap();
            pending.write_all(b"new").unwrap();
            assert_eq!(pending.place_new(&place, 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            pending.place_new(&folder.join("other"), 0o600).unwrap();
            drop(pending);
            assert_eq!(fs::read_to_string(&place).unwrap(), "old");
            assert_eq!(fs::read_to_string(folder.join("other")).unwrap(), "new");
            assert_eq!(names(folder).len(), 2);
        });
    }

    #[test]
    fn nothing_is_left_of_one_that_is_dropped() {
        of_both_kinds(|begin, folder| {
            let mut pending = begin(folder).unwrap();
            pending.write_all(b"half").unwrap();
            drop(pending);
            assert!(names(folder).is_empty());
        });
    }

    #[test]
    fn until_it_is_placed_it_is_its_owners_alone() {
        of_both_kinds(|begin, folder| {
            let pending = begin(folder).unwrap();
            assert_eq!(pending.file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        });
    }

    /// Set for the program that is to be ended by a signal: where it begins its file.
    const FOLDER: &str = "IOTOLL_TEST_PENDING_FOLDER";

    #[test]
    fn a_signal_removes_a_named_one() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            let _pending = PendingFile::with_name(Path::new(&folder)).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(60));
            panic!("no signal came");
        }
        let folder = tempfile::tempdir().unwrap();
        let mut this = std::process::Command::new(std::env::current_exe().unwrap());
        this.args(["--exact", "pending_file::tests::a_signal_removes_a_named_one"]);
        let mut child = this.env(FOLDER, folder.path()).stdout(std::process::Stdio::null()).spawn().unwrap();
        while names(folder.path()).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it ended without a file");
            std::thread::yield_now();
        }
        // The name is there a moment before the signal's thread knows it.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let kill = std::process::Command::new("kill").arg(child.id().to_string()).status();
        assert!(kill.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), None, "it was ended by the signal");
        assert!(names(folder.path()).is_empty());
    }
}
