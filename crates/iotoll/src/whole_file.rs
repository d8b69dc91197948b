//! A file that is there when it is whole, or not at all.

use anyhow::{Context, bail};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file on its way. It is written beside its place, and takes it when it is [kept](Self::keep). A device or a pipe is written as it is:
/// nothing may take its place.
pub(crate) struct WholeFile {
    /// As the user has named it.
    path: PathBuf,
    file: File,
    beside: Option<Beside>,
}

/// Gone when this is dropped.
struct Beside {
    neighbour: PathBuf,
    place: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Best effort; what was kept has gone by this name.
        let _ = fs::remove_file(&self.neighbour);
    }
}

impl WholeFile {
    /// Begins one.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let found = fs::metadata(path);
        if found.as_ref().is_ok_and(fs::Metadata::is_dir) {
            bail!("can't write {}: it is a folder", path.display());
        }
        let begun = match found.is_ok_and(|found| !found.is_file()) {
            true => OpenOptions::new().write(true).open(path).map(|file| (file, None)),
            false => beside(path).map(|(file, beside)| (file, Some(beside))),
        };
        let (file, beside) = begun.with_context(|| format!("can't write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, beside })
    }

    /// With all these bytes.
    pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let mut file = Self::create(path)?;
        file.write_all(bytes).with_context(|| format!("can't write {}", path.display()))?;
        file.keep()
    }

    /// It is whole.
    pub(crate) fn keep(self) -> anyhow::Result<()> {
        let Self { path, file, beside } = self;
        drop(file);
        let kept = beside.as_ref().map_or(Ok(()), |beside| fs::rename(&beside.neighbour, &beside.place));
        kept.with_context(|| format!("can't write {}", path.display()))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file in the same folder as what it is to replace, which is where links lead.
fn beside(path: &Path) -> io::Result<(File, Beside)> {
    let place = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        place => place?,
    };
    let mut name = place.as_os_str().to_owned();
    name.push(format!(".part{}", std::process::id()));
    let neighbour = PathBuf::from(name);
    Ok((File::create(&neighbour)?, Beside { neighbour, place }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

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
        assert!(error.to_string().contains("it is a folder"), "{error}");
    }
}
