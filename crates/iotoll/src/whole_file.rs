//! An output file: there when it is whole, or not at all. Devices and pipes are written as they are.

use crate::pending_file::PendingFile;
use anyhow::{Context, bail};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An output on its way, until it is [kept](Self::keep).
pub(crate) struct WholeFile {
    /// As the user has named it.
    path: PathBuf,
    output: Output,
}

enum Output {
    /// Takes its place when it is kept.
    Pending { file: PendingFile, place: PathBuf, mode: u32 },
    /// A device or pipe, which nothing may replace.
    Stream(File),
}

/// Who may read a new file.
#[derive(Clone, Copy)]
pub(crate) enum Readers {
    /// Whoever the umask, or the file that it replaces, lets.
    AsUsual,
    /// Its owner.
    Owner,
}

impl WholeFile {
    /// Begins one.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        Self::create_for(path, Readers::AsUsual)
    }

    /// Begins one that those may read.
    pub(crate) fn create_for(path: &Path, readers: Readers) -> anyhow::Result<Self> {
        let output = output(path, readers).with_context(|| cannot_write(path))?;
        Ok(Self { path: path.to_owned(), output })
    }

    /// With all these bytes.
    pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        Self::create(path)?.finish(bytes)
    }

    /// With all these bytes, for its owner alone.
    pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        Self::create_for(path, Readers::Owner)?.finish(bytes)
    }

    /// With all these bytes at the first of `paths` where nothing is; returns that path.
    pub(crate) fn write_new(
        paths: impl IntoIterator<Item = PathBuf>,
        bytes: &[u8],
    ) -> anyhow::Result<PathBuf> {
        let mut paths = paths.into_iter().peekable();
        let first = paths.peek().cloned().unwrap_or_default();
        let mut file = PendingFile::in_folder(folder_of(&first)).with_context(|| cannot_write(&first))?;
        file.write_all(bytes).with_context(|| cannot_write(&first))?;
        for path in paths {
            match file.place_new(&path, usual_mode()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                placed => return placed.with_context(|| cannot_write(&path)).map(|()| path),
            }
        }
        bail!("{} and all names like it are taken; remove one", first.display())
    }

    fn finish(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.write_all(bytes).with_context(|| cannot_write(&self.path))?;
        self.keep()
    }

    /// It is whole.
    pub(crate) fn keep(self) -> anyhow::Result<()> {
        let kept = match self.output {
            Output::Pending { file, place, mode } => file.replace(&place, mode),
            Output::Stream(mut file) => file.flush(),
        };
        kept.with_context(|| cannot_write(&self.path))
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

fn output(path: &Path, readers: Readers) -> anyhow::Result<Output> {
    refuse_planted(path)?;
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => stream(path).map(Output::Stream),
        Ok(found) => pending(fs::canonicalize(path)?, mode(readers, Some(&found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            pending(path.to_owned(), mode(readers, None))
        }
        Err(error) => Err(error.into()),
    }
}

fn pending(place: PathBuf, mode: u32) -> anyhow::Result<Output> {
    Ok(Output::Pending { file: PendingFile::in_folder(folder_of(&place))?, place, mode })
}

/// Links and pipes of other users lead root where they want: Linux keeps them from that in folders that all may write to
/// (fs.protected_symlinks and fs.protected_fifos, Documentation/admin-guide/sysctl/fs.rst), here it is so in all.
fn refuse_planted(path: &Path) -> anyhow::Result<()> {
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

/// Opens a device or a pipe. It is looked at again once it is open: a file in its place would be overwritten.
fn stream(path: &Path) -> anyhow::Result<File> {
    let expected = |found: &Metadata| match found.file_type() {
        kind if kind.is_dir() => bail!("it is a folder"),
        kind if kind.is_block_device() => bail!("it is a disk; expected a file, a pipe or a terminal"),
        kind if kind.is_file() => bail!("it has just become a file"),
        _ => Ok(()),
    };
    expected(&fs::metadata(path)?)?;
    let file = OpenOptions::new().write(true).open(path)?;
    expected(&file.metadata()?)?;
    Ok(file)
}

/// The folder that a file is in; of a name alone, the current one.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn mode(readers: Readers, replaced: Option<&Metadata>) -> u32 {
    match readers {
        Readers::Owner => 0o600,
        // Another user's file may have been put there for all to write to.
        Readers::AsUsual => replaced
            .filter(|replaced| replaced.uid() == rustix::process::geteuid().as_raw())
            .map_or_else(usual_mode, |replaced| replaced.mode() & 0o777),
    }
}

/// What a file of this process has that is made without further ado. The umask can only be read by setting it.
pub(crate) fn usual_mode() -> u32 {
    use rustix::fs::Mode;
    use rustix::process::umask;
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
    fn what_is_not_kept_leaves_what_was_there() {
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
    fn links_devices_and_pipes_stay_what_they_are() {
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
    fn a_private_file_is_its_owners_alone_and_others_keep_their_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        WholeFile::write(&path, b"usual").unwrap();
        assert_eq!(mode(), usual_mode());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        WholeFile::write(&path, b"again").unwrap();
        assert_eq!(mode(), 0o640);
        WholeFile::write_private(&path, b"secret").unwrap();
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_new_file_takes_the_first_free_name() {
        let folder = tempfile::tempdir().unwrap();
        let paths = || ["a", "b", "c"].map(|name| folder.path().join(name));
        let [a, b, c] = paths();
        fs::write(&a, "kept").unwrap();
        // What a link leads to is no more overwritten than a file, even if it is not there.
        symlink("nowhere", &b).unwrap();
        assert_eq!(WholeFile::write_new(paths(), b"new").unwrap(), c);
        assert_eq!([fs::read(&a).unwrap(), fs::read(&c).unwrap()], [b"kept".to_vec(), b"new".to_vec()]);
        let error = WholeFile::write_new(paths(), b"new").unwrap_err();
        assert!(error.to_string().contains("are taken"), "{error}");
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
