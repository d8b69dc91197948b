//! Unpacks a tar archive into memory, keeping what an inspection may ask for.
//!
//! Nothing is written to disk, so a hostile name can't overwrite anything; still, `..` in a name is
//! refused because no honest capture holds one. Sizes and counts are bounded, so that a small file
//! which unpacks to terabytes ends in an error and not in a full machine.

use super::{disk::FILE_BYTES_MAX, memory::Memory, source::Refusal};
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
};
use tar::{Archive, Entry, EntryType, PaxExtensions};

/// Members an archive may hold; sosreports of large hosts hold about a hundred thousand.
const MEMBERS_MAX: u64 = 1_000_000;
/// Largest member that is passed over rather than refused.
const MEMBER_BYTES_MAX: u64 = 1 << 30;
/// Bytes an archive may unpack to.
const UNPACKED_BYTES_MAX: u64 = 8 << 30;
/// Bytes held in memory.
const KEPT_BYTES_MAX: u64 = 1 << 30;
/// Longest name, as long as Linux's paths (`PATH_MAX`).
const NAME_BYTES_MAX: usize = 4096;

/// Bytes of extended attributes read for one member.
const PAX_BYTES_MAX: u64 = 64 << 10;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Neither tar nor one of the compressions known here.
    #[error("not an archive that can be read here ({found}); expected .tar, .tar.gz, .tar.xz or .tar.zst")]
    UnknownFormat {
        /// What its first bytes look like.
        found: &'static str,
    },
    /// Cut off, or damaged.
    #[error("damaged after {members} members")]
    Damaged {
        /// Members read before.
        members: u64,
        /// What the decoder said.
        source: io::Error,
    },
    /// A name that leaves the archive.
    #[error("member {number} is named `{name}`, which leads out of the archive")]
    NameLeadsOut {
        /// Counted from 1.
        number: u64,
        /// The name, shortened.
        name: String,
    },
    /// A member larger than any file of a host that matters here.
    #[error("member `{name}` has {bytes} bytes; at most {MEMBER_BYTES_MAX} are accepted")]
    MemberTooLarge {
        /// The name, shortened.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// More members than a host has files.
    #[error("more than {MEMBERS_MAX} members; unpack it and point --from at the folder")]
    TooManyMembers,
    /// Unpacks to more than is sensible, or holds more than is kept in memory.
    #[error("unpacks to more than {bytes_max} bytes; unpack it and point --from at the folder")]
    TooLarge {
        /// The limit that was hit.
        bytes_max: u64,
    },
}

/// Unpacks an archive of a host.
///
/// # Errors
/// If it is no archive, is damaged, or exceeds the limits above.
pub(super) fn unpack(mut file: File) -> Result<Memory, ArchiveError> {
    let mut magic = [0; 512];
    let start = read_start(&mut file, &mut magic).map_err(damaged(0))?;
    let file = BufReader::with_capacity(1 << 16, file);
    match Format::of(start)? {
        Format::Tar => unpack_tar(file),
        Format::Gzip => unpack_tar(flate2::bufread::MultiGzDecoder::new(file)),
        Format::Xz => unpack_tar(liblzma::bufread::XzDecoder::new_multi_decoder(file)),
        Format::Zstd => unpack_tar(zstd::stream::read::Decoder::with_buffer(file).map_err(damaged(0))?),
    }
}

fn read_start<'a>(file: &mut File, magic: &'a mut [u8; 512]) -> io::Result<&'a [u8]> {
    let mut length = 0;
    while length < magic.len() {
        match file.read(&mut magic[length..])? {
            0 => break,
            more => length += more,
        }
    }
    file.rewind()?;
    Ok(&magic[..length])
}

enum Format {
    Tar,
    Gzip,
    Xz,
    Zstd,
}

impl Format {
    fn of(start: &[u8]) -> Result<Self, ArchiveError> {
        match start {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Ok(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Self::Zstd),
            [b'B', b'Z', b'h', ..] => Err(ArchiveError::UnknownFormat { found: "it is bzip2" }),
            [b'P', b'K', 3, 4, ..] => Err(ArchiveError::UnknownFormat { found: "it is zip" }),
            [] => Err(ArchiveError::UnknownFormat { found: "it is empty" }),
            start if start.get(257..262) == Some(b"ustar") => Ok(Self::Tar),
            _ => Err(ArchiveError::UnknownFormat { found: "its first bytes are of no archive" }),
        }
    }
}

fn damaged(members: u64) -> impl Fn(io::Error) -> ArchiveError {
    move |source| match source.get_ref().and_then(|inner| inner.downcast_ref::<UnpackedTooMuch>()) {
        Some(_) => ArchiveError::TooLarge { bytes_max: UNPACKED_BYTES_MAX },
        None => ArchiveError::Damaged { members, source },
    }
}

fn unpack_tar(reader: impl Read) -> Result<Memory, ArchiveError> {
    let mut archive = Archive::new(Bounded { reader, bytes_left: UNPACKED_BYTES_MAX });
    let mut shelf = Shelf::default();
    let mut members = 0;
    // Raw, because the library would collect a long name of any length in memory.
    for entry in archive.entries().map_err(damaged(0))?.raw(true) {
        let entry = entry.map_err(damaged(members))?;
        members += 1;
        if members > MEMBERS_MAX {
            return Err(ArchiveError::TooManyMembers);
        }
        shelf.put(entry, members)?;
    }
    Ok(shelf.memory)
}

/// What has been kept so far.
#[derive(Default)]
struct Shelf {
    memory: Memory,
    bytes: u64,
    /// From a header before the member it is for.
    long: LongNames,
}

/// Names too long for a member's own header, which come in a member before it.
#[derive(Default)]
struct LongNames {
    name: Option<String>,
    target: Option<String>,
}

impl LongNames {
    /// Reads a name that stands as a member's content (GNU).
    fn gnu(mut entry: impl Read, number: u64) -> Result<Option<String>, ArchiveError> {
        let mut bytes = Vec::new();
        entry.by_ref().take(NAME_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(damaged(number))?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Ok(Some(String::from_utf8_lossy(&bytes[..end]).into_owned()))
    }

    /// Reads names from extended attributes (POSIX.1-2001 pax).
    fn pax(&mut self, mut entry: impl Read, number: u64) -> Result<(), ArchiveError> {
        let mut bytes = Vec::new();
        entry.by_ref().take(PAX_BYTES_MAX).read_to_end(&mut bytes).map_err(damaged(number))?;
        for extension in PaxExtensions::new(&bytes).flatten() {
            let value = || Some(String::from_utf8_lossy(extension.value_bytes()).into_owned());
            match extension.key_bytes() {
                b"path" => self.name = value(),
                b"linkpath" => self.target = value(),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Shelf {
    fn put(&mut self, entry: Entry<'_, impl Read>, number: u64) -> Result<(), ArchiveError> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.long.name = LongNames::gnu(entry, number)?,
            EntryType::GNULongLink => self.long.target = LongNames::gnu(entry, number)?,
            EntryType::XHeader => self.long.pax(entry, number)?,
            _ => self.put_member(entry, number)?,
        }
        Ok(())
    }

    fn put_member(&mut self, entry: Entry<'_, impl Read>, number: u64) -> Result<(), ArchiveError> {
        let LongNames { name, target } = std::mem::take(&mut self.long);
        let name = name.unwrap_or_else(|| String::from_utf8_lossy(&entry.path_bytes()).into_owned());
        let target = target.unwrap_or_else(|| own_target(&entry));
        if name.split('/').any(|part| part == "..") || name.len() > NAME_BYTES_MAX {
            return Err(ArchiveError::NameLeadsOut { number, name: shorten(&name) });
        }
        if entry.size() > MEMBER_BYTES_MAX {
            return Err(ArchiveError::MemberTooLarge { name: shorten(&name), bytes: entry.size() });
        }
        let path = plain(&name);
        if !is_wanted(&path) {
            return Ok(());
        }
        self.has_room()?;
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => self.put_file(entry, &path, number)?,
            EntryType::Directory => self.memory.folder(&path),
            EntryType::Symlink => self.memory.link(&path, &target),
            // A hard link names another member from the archive's top.
            EntryType::Link => self.put_hard_link(&path, &target),
            EntryType::Char | EntryType::Block | EntryType::Fifo => self.memory.special(&path),
            _ => {}
        }
        Ok(())
    }

    fn put_file(&mut self, entry: Entry<'_, impl Read>, path: &str, number: u64) -> Result<(), ArchiveError> {
        if entry.size() > FILE_BYTES_MAX {
            self.memory.refused(path, Refusal::TooLarge { bytes_max: FILE_BYTES_MAX });
            return Ok(());
        }
        self.bytes += entry.size();
        self.has_room()?;
        let mut bytes = Vec::new();
        entry.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(damaged(number))?;
        self.memory.file(path, bytes);
        Ok(())
    }

    fn has_room(&self) -> Result<(), ArchiveError> {
        match self.bytes + self.memory.words_bytes() {
            ..=KEPT_BYTES_MAX => Ok(()),
            _ => Err(ArchiveError::TooLarge { bytes_max: KEPT_BYTES_MAX }),
        }
    }

    fn put_hard_link(&mut self, path: &str, target: &str) {
        let up = "../".repeat(path.matches('/').count());
        self.memory.link(path, &format!("{up}{}", plain(target)));
    }
}

fn own_target(entry: &Entry<'_, impl Read>) -> String {
    entry.link_name_bytes().map(|name| String::from_utf8_lossy(&name).into_owned()).unwrap_or_default()
}

fn plain(name: &str) -> String {
    name.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}

fn shorten(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Whether an inspection may ask for it. Archives of hosts are mostly logs and package lists, which
/// would only fill the memory.
fn is_wanted(path: &str) -> bool {
    let in_host = |path: &str| {
        let mut parts = path.split('/');
        match parts.next() {
            Some("proc") => !parts.next().is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit())),
            Some("sys" | "sos_commands" | "usr" | "dev") => true,
            Some("etc") => path.ends_with("release") || path.matches('/').count() == 0,
            Some("var") => path.len() <= "var/log".len() || path.starts_with("var/log/"),
            _ => false,
        }
    };
    let below = path.split_once('/').map_or("", |(_, rest)| rest);
    in_host(path) || in_host(below) || path.matches('/').count() <= 1
}

/// A reader that stops with an error when too much comes out of it.
struct Bounded<R> {
    reader: R,
    bytes_left: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("unpacks to more than {UNPACKED_BYTES_MAX} bytes")]
struct UnpackedTooMuch;

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.bytes_left =
            self.bytes_left.checked_sub(length as u64).ok_or_else(|| io::Error::other(UnpackedTooMuch))?;
        Ok(length)
    }
}
