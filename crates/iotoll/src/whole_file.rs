//! An output file that appears at its path only when it is complete. Devices and pipes are written directly.

use crate::output;
use crate::pending_file::PendingFile;
use anyhow::{Context, bail};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An output file that is being written. It replaces the file at its path when [`save`](Self::save) is called; dropping it changes
/// nothing.
pub(crate) struct WholeFile {
    /// The path that the user gave, for errors.
    path: PathBuf,
    output: Output,
}

enum Output {
    /// A temporary file, which is moved to `path` with `mode` when it is saved.
    Pending { file: PendingFile, path: PathBuf, mode: u32 },
    /// A device or pipe, which is written directly.
    Stream(File),
}

/// Who may read the file.
#[derive(Clone, Copy)]
pub(crate) enum Readers {
    /// As the replaced file's mode says, or the umask for a new file.
    AsUsual,
    /// Its owner alone.
    Owner,
}

impl WholeFile {
    /// Starts an output file at `path`.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        Self::create_for(path, Readers::AsUsual)
    }

    /// Fails if one of these files, which are wanted later, can't be written: now and not after minutes.
    pub(crate) fn check<'p>(paths: impl IntoIterator<Item = &'p Path>) -> anyhow::Result<()> {
        paths.into_iter().try_for_each(|path| Self::create(path).map(drop))
    }

    /// Starts an output file with these readers.
    fn create_for(path: &Path, readers: Readers) -> anyhow::Result<Self> {
        let output = open_output(path, readers).with_context(|| cannot_write(path))?;
        Ok(Self { path: path.to_owned(), output })
    }

    /// Writes a complete file, and says so.
    pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        Self::create(path)?.write_and_save(bytes)?;
        output::print_written(path);
        Ok(())
    }

    /// Writes a complete file to a regular file's path. Only the system's error tells what failed.
    #[cfg(any(feature = "fleet", feature = "sweep"))]
    pub(crate) fn write_part(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = PendingFile::in_folder(folder_of(path))?;
        file.write_all(bytes)?;
        file.replace(path, mode_by_umask())
    }

    /// Writes a complete file that its owner alone may read.
    pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        Self::create_for(path, Readers::Owner)?.write_and_save(bytes)
    }

    /// Writes a complete file at the first of `paths` that does not exist, and returns that path. All must be in one folder.
    pub(crate) fn write_new(
        paths: impl IntoIterator<Item = PathBuf>,
        bytes: &[u8],
    ) -> anyhow::Result<PathBuf> {
        let mut paths = paths.into_iter().peekable();
        let first = paths.peek().cloned().unwrap_or_default();
        let mut file = PendingFile::in_folder(folder_of(&first)).with_context(|| cannot_write(&first))?;
        file.write_all(bytes).with_context(|| cannot_write(&first))?;
        for path in paths {
            match file.move_to_new(&path, mode_by_umask()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                moved => return moved.with_context(|| cannot_write(&path)).map(|()| path),
            }
        }
        bail!("{} and all other names tried exist; remove one", first.display())
    }

    /// Writes all of it and saves it.
    fn write_and_save(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.write_all(bytes).with_context(|| cannot_write(&self.path))?;
        self.save()
    }

    /// Puts the complete file at its path.
    pub(crate) fn save(self) -> anyhow::Result<()> {
        let saved = match self.output {
            Output::Pending { file, path, mode } => file.replace(&path, mode),
            Output::Stream(mut file) => file.flush(),
        };
        saved.with_context(|| cannot_write(&self.path))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.output {
            Output::Pending { file, .. } => file.write(bytes),
            Output::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Pending { file, .. } => file.flush(),
            Output::Stream(file) => file.flush(),
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("can't write {}", path.display())
}

/// Opens a device or pipe directly, and a temporary file for anything else.
fn open_output(path: &Path, readers: Readers) -> anyhow::Result<Output> {
    expect_own_link_or_pipe(path)?;
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => open_stream(path).map(Output::Stream),
        Ok(found) => pending_output(fs::canonicalize(path)?, file_mode(readers, Some(&found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            pending_output(path.to_owned(), file_mode(readers, None))
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates the temporary file of an output.
fn pending_output(path: PathBuf, mode: u32) -> anyhow::Result<Output> {
    Ok(Output::Pending { file: PendingFile::in_folder(folder_of(&path))?, path, mode })
}

/// Fails if a link or pipe at `path` belongs to another user, who could redirect what root writes. Linux refuses that in sticky
/// world-writable folders (fs.protected_symlinks and fs.protected_fifos, Documentation/admin-guide/sysctl/fs.rst); this does in all.
fn expect_own_link_or_pipe(path: &Path) -> anyhow::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let what = match found.file_type() {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_fifo() => "a pipe",
        _ => return Ok(()),
    };
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 {
        bail!("it is {what} of user {}; expected a file, or {what} of user {own} or of root", found.uid());
    }
    Ok(())
}

/// Opens a device or pipe. Its type is checked again after opening, because a regular file put there meanwhile would be overwritten.
fn open_stream(path: &Path) -> anyhow::Result<File> {
    let check_type = |found: &Metadata| match found.file_type() {
        kind if kind.is_dir() => bail!("it is a folder"),
        kind if kind.is_block_device() => bail!("it is a disk; expected a file, a pipe or a terminal"),
        kind if kind.is_file() => bail!("it was replaced by a file while it was opened"),
        _ => Ok(()),
    };
    check_type(&fs::metadata(path)?)?;
    let file = OpenOptions::new().write(true).open(path)?;
    check_type(&file.metadata()?)?;
    Ok(file)
}

/// Whether two paths lead to the same existing file.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|path| real(other) == Some(path))
}

/// The folder of a file; the current one for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The permissions of the complete file. `replaced` is the file that it replaces.
fn file_mode(readers: Readers, replaced: Option<&Metadata>) -> u32 {
    match readers {
        Readers::Owner => 0o600,
        // The mode of another user's file is not kept: that user may have planted it, writable for all.
        Readers::AsUsual => replaced
            .filter(|replaced| replaced.uid() == rustix::process::geteuid().as_raw())
            .map_or_else(mode_by_umask, |replaced| replaced.mode() & 0o777),
    }
}

/// The mode of a new file by the umask, which can only be read by setting it: by one thread at a time, so that none takes another's for it.
pub(crate) fn mode_by_umask() -> u32 {
    use rustix::fs::Mode;
    use rustix::process::umask;
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mask = umask(Mode::RWXG | Mode::RWXO);
    umask(mask);
    0o666 & !mask.as_raw_mode()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::skip::skip;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn an_unsaved_file_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        WholeFile::write(&path, b"old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_devices_and_pipes_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        WholeFile::write(&path, b"old").unwrap();
        symlink("file", &link).unwrap();
        WholeFile::write(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        WholeFile::write(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        WholeFile::write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let error = WholeFile::create(folder.path()).err().unwrap();
        assert!(format!("{error:#}").contains("it is a folder"), "{error:#}");
    }

    #[test]
    fn a_private_file_has_mode_0600_and_other_files_keep_their_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        WholeFile::write(&path, b"usual").unwrap();
        assert_eq!(mode(), mode_by_umask());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        WholeFile::write(&path, b"again").unwrap();
        assert_eq!(mode(), 0o640);
        WholeFile::write_private(&path, b"secret").unwrap();
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_new_file_gets_the_first_free_name() {
        let folder = tempfile::tempdir().unwrap();
        let paths = || ["a", "b", "c"].map(|name| folder.path().join(name));
        let [a, b, c] = paths();
        fs::write(&a, "kept").unwrap();
        // A link counts as existing, even if its target does not exist.
        symlink("nowhere", &b).unwrap();
        assert_eq!(WholeFile::write_new(paths(), b"new").unwrap(), c);
        assert_eq!([fs::read(&a).unwrap(), fs::read(&c).unwrap()], [b"kept".to_vec(), b"new".to_vec()]);
        let error = WholeFile::write_new(paths(), b"new").unwrap_err();
        assert!(error.to_string().contains("other names tried exist"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn links_and_pipes_of_other_users_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, link, pipe] = ["victim", "link", "pipe"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        if [&link, &pipe].iter().any(|path| std::os::unix::fs::lchown(path, Some(65534), None).is_err()) {
            return skip("only root can make links of other users");
        }
        for path in [&link, &pipe] {
            let error = WholeFile::write(path, b"planted").unwrap_err();
            assert!(format!("{error:#}").contains("of user 65534; expected a file"), "{error:#}");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }
}
