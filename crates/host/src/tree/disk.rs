//! Files on a disk below a root: the live machine or an unpacked capture.

use super::source::{NAMES_MAX, Node, Refusal, Source};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::{
    cell::RefCell,
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Most that is read of one file: kernel logs of big machines are a few MiB.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

pub(super) struct Disk {
    root: PathBuf,
    /// The file of which a part was read last: of configuration space many are.
    last_opened: RefCell<Option<(String, File)>>,
}

impl Disk {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), last_opened: RefCell::default() }
    }

    /// The path on the disk.
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Opens a regular file. Not blocking, and checked after opening: a pipe put into a capture must not
    /// hold us up.
    fn open(&self, path: &str) -> Result<File, Refusal> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(self.path(path), flags, Mode::empty()).map_err(io::Error::from)?;
        let stat = rustix::fs::fstat(&fd).map_err(io::Error::from)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(File::from(fd)),
            _ => Err(Refusal::NotAFile),
        }
    }
}

impl Source for Disk {
    fn node(&self, path: &str) -> Result<Node, Refusal> {
        let path = self.path(path);
        let stat =
            rustix::fs::statat(rustix::fs::CWD, &path, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Node::File,
            FileType::Directory => Node::Folder,
            FileType::Symlink => Node::Link(std::fs::read_link(&path)?.to_string_lossy().into_owned()),
            _ => Node::Special,
        })
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::new();
        self.open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(Refusal::TooLarge { bytes_max: FILE_BYTES_MAX }),
            false => Ok(bytes),
        }
    }

    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Refusal> {
        let last = self.last_opened.take().filter(|(opened, _)| opened == path);
        let file = last.map_or_else(|| self.open(path), |(_, file)| Ok(file))?;
        let mut bytes = vec![0; length];
        let read = file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        self.last_opened.replace(Some((path.to_owned(), file)));
        Ok(bytes)
    }

    fn names(&self, path: &str) -> Result<Vec<String>, Refusal> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(path))? {
            // A name that is not UTF-8 is none of the kernel's: nothing we ask for has one.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
            if names.len() > NAMES_MAX {
                return Err(Refusal::TooMany { what: "names of one folder", max: NAMES_MAX });
            }
        }
        Ok(names)
    }
}
