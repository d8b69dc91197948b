//! The guest's first and only file system: an archive that the kernel unpacks into memory.
//!
//! The format is cpio's `newc` (kernel: `Documentation/driver-api/early-userspace/buffer-format.rst`),
//! without compression, so that every guest spends the same few instructions on it. The same contents
//! give the same bytes.
//!
//! ```text
//! /init                      the first program: a script for /bin/sh
//! /bin/busybox, /bin/sh      busybox, and a link to it
//! /dev/console               init's input and output
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

/// A file that a workload needs in its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedFile<'a> {
    /// Where, from the root: `/lab/workload`. Missing folders are made.
    pub path: &'a str,
    /// Permissions, as in `0o755`.
    pub permissions: u32,
    /// What is in it.
    pub bytes: &'a [u8],
}

/// What goes into a guest.
#[derive(Debug, Clone, Copy)]
pub struct Initramfs<'a> {
    /// The release of its kernel.
    pub release: &'a str,
    /// A busybox without shared libraries.
    pub busybox: &'a [u8],
    /// Modules, in the order in which they load.
    pub modules: &'a [Module],
    /// The script that the kernel starts; its first line should be `#!/bin/sh`.
    pub init: &'a str,
    /// Everything else.
    pub files: &'a [PlacedFile<'a>],
}

/// What can't be put into a guest.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    /// No path from the root to a file.
    #[error("`{0}` is no path of a file in a guest; expected something like /lab/workload")]
    Path(String),
    /// Two things in one place, or a file where a folder is needed.
    #[error("`{0}` is to be in the guest twice, as different things")]
    Twice(String),
    /// Something else than permissions.
    #[error("`{path}`: the permissions {permissions:#o} are more than permissions; expected at most 0o7777")]
    Permissions {
        /// The file.
        path: String,
        /// What was given.
        permissions: u32,
    },
    /// The format counts bytes in 32 bits.
    #[error("`{path}` has {bytes} bytes; the archive's format holds less than 2^32 of one file")]
    TooLarge {
        /// The file.
        path: String,
        /// Its size.
        bytes: usize,
    },
    /// The archive could not be written.
    #[error("writing the archive")]
    Write(#[from] io::Error),
}

impl Initramfs<'_> {
    /// The archive.
    ///
    /// # Errors
    /// If a path is none, or two things have the same.
    pub fn build(&self) -> Result<Vec<u8>, InitramfsError> {
        let mut contents = Contents::default();
        for folder in ["/proc", "/sys", "/tmp", "/lab/modules"] {
            contents.put(folder, Node::Folder)?;
        }
        contents.put(&format!("/lib/modules/{}", self.release), Node::Folder)?;
        contents.put("/bin/busybox", Node::File { permissions: 0o755, bytes: self.busybox })?;
        contents.put("/bin/sh", Node::Link("busybox"))?;
        contents.put("/dev/console", CONSOLE)?;
        for (position, module) in self.modules.iter().enumerate() {
            let node = Node::File { permissions: 0o644, bytes: &module.bytes };
            contents.put(&module_path(position, module), node)?;
        }
        contents.put("/init", Node::File { permissions: 0o755, bytes: self.init.as_bytes() })?;
        for PlacedFile { path, permissions, bytes } in self.files.iter().copied() {
            contents.put(path, Node::File { permissions, bytes })?;
        }
        contents.archive()
    }
}

/// Where a guest finds the module that loads after `position` others: `/lab/modules/00-nvme_core.ko`.
pub fn module_path(position: usize, module: &Module) -> String {
    format!("/lab/modules/{position:02}-{}.ko", module.name)
}

/// The console that the kernel opens for init (kernel: `Documentation/admin-guide/devices.txt`).
const CONSOLE: Node<'static> = Node::Character { permissions: 0o600, major: 5, minor: 1 };

/// Something that has a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node<'a> {
    Folder,
    File { permissions: u32, bytes: &'a [u8] },
    Link(&'a str),
    Character { permissions: u32, major: u32, minor: u32 },
}

/// Everything in the guest by its path, without the leading slash. Sorted, so that a folder comes before
/// what is in it, as the kernel needs it.
#[derive(Debug, Default)]
struct Contents<'a> {
    nodes: BTreeMap<String, Node<'a>>,
}

impl<'a> Contents<'a> {
    /// Puts a node into its place, and the folders above it.
    fn put(&mut self, path: &str, node: Node<'a>) -> Result<(), InitramfsError> {
        let inside = inside(path).ok_or_else(|| InitramfsError::Path(path.to_owned()))?;
        for (end, _) in inside.match_indices('/') {
            self.put_one(&inside[..end], Node::Folder)?;
        }
        check_permissions(path, node)?;
        self.put_one(inside, node)
    }

    fn put_one(&mut self, inside: &str, node: Node<'a>) -> Result<(), InitramfsError> {
        match self.nodes.entry(inside.to_owned()) {
            Entry::Occupied(known) if *known.get() == Node::Folder && node == Node::Folder => {}
            Entry::Occupied(_) => return Err(InitramfsError::Twice(format!("/{inside}"))),
            Entry::Vacant(free) => drop(free.insert(node)),
        }
        Ok(())
    }

    fn archive(&self) -> Result<Vec<u8>, InitramfsError> {
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
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Folder | Self::Character { .. } => &[],
            Self::File { bytes, .. } => bytes,
            Self::Link(target) => target.as_bytes(),
        }
    }

    /// Its header. All times are zero and all owners root.
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

/// The path without its leading slash, if every part of it names something.
fn inside(path: &str) -> Option<&str> {
    let inside = path.strip_prefix('/')?;
    let names = inside.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    (names && !path.contains('\0')).then_some(inside)
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
    fn everything_is_there() {
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
            skip("no program cpio here to list the archive with");
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
    fn what_can_not_be_placed() {
        let at = |path| build(&[PlacedFile { path, ..AGENT }]);
        for path in ["", "/", "lab/agent", "/lab/../x", "/lab//x", "/lab/./x", "/x/", "/x\0y"] {
            assert!(matches!(at(path), Err(InitramfsError::Path(_))), "{path:?}");
        }
        for path in ["/init", "/lab", "/init/below", "/bin/sh", "/proc"] {
            assert!(matches!(at(path), Err(InitramfsError::Twice(_))), "{path:?}");
        }
        let odd = build(&[PlacedFile { permissions: 0o100755, ..AGENT }]);
        assert!(matches!(odd, Err(InitramfsError::Permissions { .. })));
        let release = Initramfs { release: "../x", busybox: b"", modules: &[], init: "", files: &[] }.build();
        assert!(matches!(release, Err(InitramfsError::Path(_))));
    }
}
