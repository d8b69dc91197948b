//! The guest's initramfs: a cpio archive that the kernel unpacks into memory.
//!
//! The format is cpio's `newc` (kernel: `Documentation/driver-api/early-userspace/buffer-format.rst`),
//! without compression, because emulated guests decompress slowly. The same contents give the same bytes.
//!
//! ```text
//! /init                      the init script, for /bin/sh
//! /bin/busybox, /bin/sh      busybox, and a link to it
//! /dev/console               standard input and output of init
//! /lab/modules/00-a.ko ...   modules, in the order in which they load
//! /lib/modules/<release>/    empty; programs that look for modules expect it
//! /proc, /sys, /tmp          empty
//! ```

use crate::kernel::Module;
use cpio::newc::{Builder, ModeFileType, trailer};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    io::{self, Write},
};

/// A further file in the guest, such as a workload's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedFile<'a> {
    /// Its absolute path: `/lab/workload`. Missing folders are created.
    pub path: &'a str,
    /// Permissions, as in `0o755`.
    pub permissions: u32,
    /// Its content.
    pub bytes: &'a [u8],
}

/// The contents of a guest's initramfs.
#[derive(Debug, Clone, Copy)]
pub struct Initramfs<'a> {
    /// The kernel's release, as `uname -r` prints it.
    pub release: &'a str,
    /// A statically linked busybox.
    pub busybox: &'a [u8],
    /// Modules, in the order in which they load.
    pub modules: &'a [Module],
    /// The script that the kernel starts; its first line should be `#!/bin/sh`.
    pub init: &'a str,
    /// Further files.
    pub files: &'a [PlacedFile<'a>],
}

/// Why the archive can't be built.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    /// Not an absolute path of a file.
    #[error("`{0}` is not an absolute path of a file in a guest; expected something like /lab/workload")]
    Path(String),
    /// Two entries have the same path, or a file is where a folder is needed.
    #[error("`{0}` is in the guest twice; expected one file or folder at each path")]
    Duplicate(String),
    /// Bits beyond the permissions.
    #[error("`{path}`: invalid permissions {permissions:#o}; expected at most 0o7777")]
    Permissions {
        /// The file.
        path: String,
        /// The invalid value.
        permissions: u32,
    },
    /// The format has 32 bits for a file's size.
    #[error("`{path}` has {bytes} bytes; expected less than 2^32, the limit of the archive's format")]
    TooLarge {
        /// The file.
        path: String,
        /// Its size.
        bytes: usize,
    },
    /// The archive could not be written.
    #[error("can't write the archive")]
    Write(#[from] io::Error),
}

impl Initramfs<'_> {
    /// Builds the archive.
    ///
    /// # Errors
    /// If a path is not absolute, or two entries have the same path.
    pub fn build(&self) -> Result<Vec<u8>, InitramfsError> {
        let mut contents = Contents::default();
        for folder in ["/proc", "/sys", "/tmp", "/lab/modules"] {
            contents.insert(folder, Node::Folder)?;
        }
        contents.insert(&format!("/lib/modules/{}", self.release), Node::Folder)?;
        contents.insert("/bin/busybox", Node::File { permissions: 0o755, bytes: self.busybox })?;
        contents.insert("/bin/sh", Node::Link("busybox"))?;
        contents.insert("/dev/console", CONSOLE)?;
        for (position, module) in self.modules.iter().enumerate() {
            let node = Node::File { permissions: 0o644, bytes: &module.bytes };
            contents.insert(&module_path(position, module), node)?;
        }
        contents.insert("/init", Node::File { permissions: 0o755, bytes: self.init.as_bytes() })?;
        for PlacedFile { path, permissions, bytes } in self.files.iter().copied() {
            contents.insert(path, Node::File { permissions, bytes })?;
        }
        contents.write_archive()
    }
}

/// Path in the guest of the module that loads after `position` others: `/lab/modules/00-nvme_core.ko`.
pub fn module_path(position: usize, module: &Module) -> String {
    format!("/lab/modules/{position:02}-{}.ko", module.name)
}

/// The console that the kernel opens for init (kernel: `Documentation/admin-guide/devices.txt`).
const CONSOLE: Node<'static> = Node::Character { permissions: 0o600, major: 5, minor: 1 };

/// One entry of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node<'a> {
    Folder,
    File { permissions: u32, bytes: &'a [u8] },
    Link(&'a str),
    Character { permissions: u32, major: u32, minor: u32 },
}

/// All entries by path, without the leading slash. Sorted, so that a folder precedes its contents, as the kernel
/// requires.
#[derive(Debug, Default)]
struct Contents<'a> {
    nodes: BTreeMap<String, Node<'a>>,
}

impl<'a> Contents<'a> {
    /// Inserts an entry and the folders above it.
    fn insert(&mut self, path: &str, node: Node<'a>) -> Result<(), InitramfsError> {
        let relative = strip_root(path).ok_or_else(|| InitramfsError::Path(path.to_owned()))?;
        for (end, _) in relative.match_indices('/') {
            self.insert_one(&relative[..end], Node::Folder)?;
        }
        check_permissions(path, node)?;
        self.insert_one(relative, node)
    }

    /// Inserts an entry. The same folder may be inserted several times.
    fn insert_one(&mut self, relative: &str, node: Node<'a>) -> Result<(), InitramfsError> {
        match self.nodes.entry(relative.to_owned()) {
            Entry::Occupied(known) if *known.get() == Node::Folder && node == Node::Folder => {}
            Entry::Occupied(_) => return Err(InitramfsError::Duplicate(format!("/{relative}"))),
            Entry::Vacant(free) => drop(free.insert(node)),
        }
        Ok(())
    }

    /// Encodes all entries and the trailer.
    fn write_archive(&self) -> Result<Vec<u8>, InitramfsError> {
        let mut archive = Vec::new();
        for (number, (path, node)) in (1..).zip(&self.nodes) {
            let bytes = node.bytes();
            let too_large = |_| InitramfsError::TooLarge { path: format!("/{path}"), bytes: bytes.len() };
            let size = u32::try_from(bytes.len()).map_err(too_large)?;
            let mut entry = node.header(path, number).write(&mut archive, size);
            entry.write_all(bytes)?;
            entry.finish()?;
        }
        trailer(&mut archive)?;
        Ok(archive)
    }
}

impl<'a> Node<'a> {
    /// The entry's content; that of a link is its target.
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Folder | Self::Character { .. } => &[],
            Self::File { bytes, .. } => bytes,
            Self::Link(target) => target.as_bytes(),
        }
    }

    /// The entry's cpio header; `number` is its inode number. All times are zero and all owners root.
    fn header(self, path: &str, number: u32) -> Builder {
        let header = Builder::new(path).ino(number);
        match self {
            Self::Folder => header.mode(0o755).nlink(2).set_mode_file_type(ModeFileType::Directory),
            Self::File { permissions, .. } => {
                header.mode(permissions).set_mode_file_type(ModeFileType::Regular)
            }
            Self::Link(_) => header.mode(0o777).set_mode_file_type(ModeFileType::Symlink),
            Self::Character { permissions, major, minor } => header
                .mode(permissions)
                .set_mode_file_type(ModeFileType::Char)
                .rdev_major(major)
                .rdev_minor(minor),
        }
    }
}

/// An absolute path without its leading slash. `None` if it is relative, or a component is empty, `.` or `..`.
fn strip_root(path: &str) -> Option<&str> {
    let relative = path.strip_prefix('/')?;
    let names = relative.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    (names && !path.contains('\0')).then_some(relative)
}

fn check_permissions(path: &str, node: Node<'_>) -> Result<(), InitramfsError> {
    match node {
        Node::File { permissions, .. } if permissions > 0o7777 => {
            Err(InitramfsError::Permissions { path: path.to_owned(), permissions })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::kernel::ModuleName;
    use crate::skip::skip;
    use cpio::newc::Reader;
    use std::{
        io::Read,
        process::{Command, Stdio},
    };

    /// One entry, as a reader sees it: path, mode, device and content.
    type Seen = (String, u32, (u32, u32), Vec<u8>);

    fn read(archive: &[u8]) -> Vec<Seen> {
        let mut rest = archive;
        let mut seen = Vec::new();
        loop {
            let mut reader = Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return seen;
            }
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            let entry = reader.entry();
            assert_eq!((entry.mtime(), entry.uid(), entry.gid()), (0, 0, 0));
            assert_eq!(entry.ino() as usize, seen.len() + 1);
            let device = (entry.rdev_major(), entry.rdev_minor());
            seen.push((entry.name().to_owned(), entry.mode(), device, bytes));
            rest = reader.finish().unwrap();
        }
    }

    fn modules() -> [Module; 2] {
        let module = |name: &str, bytes: &[u8]| Module {
            name: ModuleName::from(name),
            file_name: format!("{name}.ko"),
            bytes: bytes.to_vec(),
        };
        [module("nvme-core", b"core"), module("nvme", b"drive")]
    }

    const AGENT: PlacedFile<'_> =
        PlacedFile { path: "/lab/agent", permissions: 0o755, bytes: b"\x7fELF and odd" };
    const DATA: PlacedFile<'_> = PlacedFile { path: "/data/a/b", permissions: 0o600, bytes: b"" };

    fn build(files: &[PlacedFile<'_>]) -> Result<Vec<u8>, InitramfsError> {
        let modules = modules();
        let init = "#!/bin/sh\npoweroff -f\n";
        Initramfs { release: "6.1.0-56-amd64", busybox: b"box", modules: &modules, init, files }.build()
    }

    #[test]
    fn the_archive_holds_every_file_with_its_folders() {
        let plain = |path: &str, mode, bytes: &[u8]| (path.to_owned(), mode, (0, 0), bytes.to_vec());
        let folder = |path| plain(path, 0o40755, b"");
        let expect = [
            folder("bin"),
            plain("bin/busybox", 0o100755, b"box"),
            plain("bin/sh", 0o120777, b"busybox"),
            folder("data"),
            folder("data/a"),
            plain("data/a/b", 0o100600, b""),
            folder("dev"),
            ("dev/console".to_owned(), 0o20600, (5, 1), Vec::new()),
            plain("init", 0o100755, b"#!/bin/sh\npoweroff -f\n"),
            folder("lab"),
            plain("lab/agent", 0o100755, AGENT.bytes),
            folder("lab/modules"),
            plain("lab/modules/00-nvme_core.ko", 0o100644, b"core"),
            plain("lab/modules/01-nvme.ko", 0o100644, b"drive"),
            folder("lib"),
            folder("lib/modules"),
            folder("lib/modules/6.1.0-56-amd64"),
            folder("proc"),
            folder("sys"),
            folder("tmp"),
        ];
        assert_eq!(read(&build(&[AGENT, DATA]).unwrap()), expect);
    }

    #[test]
    fn the_same_contents_give_the_same_bytes() {
        assert_eq!(build(&[AGENT, DATA]).unwrap(), build(&[DATA, AGENT]).unwrap());
        assert_ne!(build(&[AGENT, DATA]).unwrap(), build(&[AGENT]).unwrap());
    }

    #[test]
    fn cpio_reads_it_too() {
        let mut command = Command::new("cpio");
        command.arg("-t").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut cpio) = command.spawn() else {
            skip("the program cpio is not installed");
            return;
        };
        let archive = build(&[AGENT, DATA]).unwrap();
        cpio.stdin.take().unwrap().write_all(&archive).unwrap();
        let ran = cpio.wait_with_output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let names: Vec<_> = read(&archive).into_iter().map(|(path, ..)| path).collect();
        assert_eq!(String::from_utf8(ran.stdout).unwrap().lines().collect::<Vec<_>>(), names);
    }

    #[test]
    fn invalid_paths_duplicates_and_invalid_permissions_are_errors() {
        let at = |path| build(&[PlacedFile { path, ..AGENT }]);
        for path in ["", "/", "lab/agent", "/lab/../x", "/lab//x", "/lab/./x", "/x/", "/x\0y"] {
            assert!(matches!(at(path), Err(InitramfsError::Path(_))), "{path:?}");
        }
        for path in ["/init", "/lab", "/init/below", "/bin/sh", "/proc"] {
            assert!(matches!(at(path), Err(InitramfsError::Duplicate(_))), "{path:?}");
        }
        let odd = build(&[PlacedFile { permissions: 0o100755, ..AGENT }]);
        assert!(matches!(odd, Err(InitramfsError::Permissions { .. })));
        let release = Initramfs { release: "../x", busybox: b"", modules: &[], init: "", files: &[] }.build();
        assert!(matches!(release, Err(InitramfsError::Path(_))));
    }
}
