//! Unpacks a tar archive into memory, keeping what an inspection may ask for.
//!
//! Nothing is written to disk, so a hostile name can't overwrite anything; still, `..` in a name is
//! refused because no honest capture holds one. Sizes and counts are bounded (docs/reference/limits.md), so that a
//! small file which unpacks to terabytes ends in an error and not in a full machine. A file that is in the
//! archive and is not kept is remembered with the reason: it is no absent file.

mod bounded;
mod members;
mod sparse;

use super::{
    disk::FILE_BYTES_MAX, layout::is_wanted, memory::Memory, pasted, progress::Watcher, source::Refusal,
};
use bounded::{Bounded, CountingReader, LimitExceeded, Meter, UNPACKED_BYTES_MAX, peek};
use members::{Kind, Member, Members};
use sparse::{MapError, SparseMap};
use std::io::{self, Read};

/// Members an archive may hold; sosreports of large hosts hold about a hundred thousand.
const MEMBERS_MAX: u64 = 1_000_000;
/// Bytes held in memory: contents, names and what keeping them takes.
const KEPT_BYTES_MAX: u64 = 512 << 20;
/// Longest name, as long as Linux's paths (`PATH_MAX`).
const NAME_BYTES_MAX: usize = 4096;
/// Memory for a decompressor of xz; `xz -9` needs 65 MiB.
const XZ_BYTES_MAX: u64 = 256 << 20;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Neither tar nor one of the compressions known here, nor text.
    #[error(
        "not an archive that can be read here ({found}); expected .tar, .tar.gz, .tar.xz or .tar.zst, or the text \
         of a kernel log or of lspci"
    )]
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
    /// A name longer than Linux's paths.
    #[error("member {number} has a name of {bytes} bytes; expected at most {NAME_BYTES_MAX}")]
    NameTooLong {
        /// Counted from 1.
        number: u64,
        /// Its length.
        bytes: usize,
    },
    /// A long name, or pax records, larger than any that are of use.
    #[error("member {number} is a header of {bytes} bytes; expected at most {bytes_max}")]
    HeaderTooLarge {
        /// Counted from 1.
        number: u64,
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// More members than a host has files.
    #[error("more than {MEMBERS_MAX} members; unpack it and give the folder")]
    TooManyMembers,
    /// Unpacks to more than is sensible, or holds more than is kept in memory.
    #[error("unpacks to more than {bytes_max} bytes; unpack it and give the folder")]
    TooLarge {
        /// The limit that was hit.
        bytes_max: u64,
    },
    /// It unpacks to far more bytes than an archive of a host: probably a decompression bomb.
    #[error(
        "the first {bytes_in} bytes unpack to {bytes_unpacked}, more than those of any host; if you trust it, \
         unpack it and give the folder"
    )]
    RatioTooHigh {
        /// Compressed bytes taken.
        bytes_in: u64,
        /// Bytes that came out.
        bytes_unpacked: u64,
    },
    /// A text larger than the limit for one file.
    #[error("a text of more than {bytes_max} bytes; expected a kernel log or the output of lspci of less")]
    TextTooLarge {
        /// The limit.
        bytes_max: u64,
    },
}

/// The content of a file or pipe.
pub(super) enum Unpacked {
    /// An archive.
    Archive(Memory),
    /// What a text tells of a host.
    Text(pasted::Cut),
}

/// What is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// An archive or a text.
    Any,
    /// A text, which may be compressed. Archives among the files of a folder are not unpacked.
    Text,
}

/// Unpacks an archive of a host, or reads a single text such as a kernel log. `path` is where it was found.
///
/// # Errors
/// If it is neither, is not `wanted`, is damaged, or exceeds the limits above.
pub(super) fn unpack(
    reader: impl Read,
    path: &str,
    watcher: &Watcher,
    wanted: Wanted,
) -> Result<Unpacked, ArchiveError> {
    let meter = Meter::new(watcher.clone());
    let (start, reader) =
        peek(CountingReader { reader, meter: meter.clone() }).map_err(|error| damaged(0, error))?;
    match Format::of(&start) {
        Format::Gzip => {
            unpack_decompressed(flate2::bufread::MultiGzDecoder::new(reader), path, meter, wanted)
        }
        Format::Xz => {
            let decoder =
                liblzma::stream::Stream::new_stream_decoder(XZ_BYTES_MAX, liblzma::stream::CONCATENATED)
                    .map_err(|error| damaged(0, error.into()))?;
            unpack_decompressed(liblzma::bufread::XzDecoder::new_stream(reader, decoder), path, meter, wanted)
        }
        Format::Zstd => {
            let decoder =
                zstd::stream::read::Decoder::with_buffer(reader).map_err(|error| damaged(0, error))?;
            unpack_decompressed(decoder, path, meter, wanted)
        }
        Format::Bzip2 => Err(ArchiveError::UnknownFormat { found: "it is bzip2" }),
        Format::Zip => Err(ArchiveError::UnknownFormat { found: "it is zip" }),
        Format::Empty => Err(ArchiveError::UnknownFormat { found: "it is empty" }),
        Format::Tar | Format::Other => {
            unpack_plain(&start, Bounded { reader, meter: meter.clone() }, path, &meter, wanted)
        }
    }
}

/// Unpacks decompressed bytes.
fn unpack_decompressed(
    decoder: impl Read,
    path: &str,
    meter: Meter,
    wanted: Wanted,
) -> Result<Unpacked, ArchiveError> {
    let bounded = Bounded { reader: decoder, meter: meter.clone() };
    let (start, reader) = peek(bounded).map_err(|error| damaged(0, error))?;
    unpack_plain(&start, reader, path, &meter, wanted)
}

/// Unpacks uncompressed bytes that begin with `start`: a tar archive or a text.
fn unpack_plain(
    start: &[u8],
    reader: impl Read,
    path: &str,
    meter: &Meter,
    wanted: Wanted,
) -> Result<Unpacked, ArchiveError> {
    match Format::of(start) {
        Format::Tar if wanted == Wanted::Text => Err(ArchiveError::UnknownFormat { found: "it is tar" }),
        Format::Tar => unpack_tar(reader, meter).map(Unpacked::Archive),
        _ => read_text(reader, path).map(Unpacked::Text),
    }
}

/// Reads what a text tells of a host.
fn read_text(reader: impl Read, path: &str) -> Result<pasted::Cut, ArchiveError> {
    let mut bytes = Vec::new();
    reader.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| damaged(0, error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ArchiveError::TextTooLarge { bytes_max: FILE_BYTES_MAX });
    }
    pasted::read(path, &bytes).ok_or(ArchiveError::UnknownFormat {
        found: "it is no tar, and no line of it was understood as a message of the kernel or as the first line of a function in lspci's \
                output; `dmesg` and `lspci -vvvnn` print both",
    })
}

enum Format {
    Tar,
    Gzip,
    Xz,
    Zstd,
    Bzip2,
    Zip,
    Empty,
    Other,
}

impl Format {
    /// The format, by the first bytes of the file.
    fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [b'B', b'Z', b'h', ..] => Self::Bzip2,
            [b'P', b'K', 3, 4, ..] => Self::Zip,
            [] => Self::Empty,
            start if members::is_header(start) || start.iter().all(|byte| *byte == 0) => Self::Tar,
            _ => Self::Other,
        }
    }
}

/// The error for a failed read, after so many members: a limit that was exceeded, or damage.
fn damaged(members: u64, source: io::Error) -> ArchiveError {
    match source.get_ref().and_then(|inner| inner.downcast_ref::<LimitExceeded>()) {
        Some(LimitExceeded::Amount) => ArchiveError::TooLarge { bytes_max: UNPACKED_BYTES_MAX },
        Some(&LimitExceeded::Ratio { bytes_in, bytes_unpacked }) => {
            ArchiveError::RatioTooHigh { bytes_in, bytes_unpacked }
        }
        None => ArchiveError::Damaged { members, source },
    }
}

/// Unpacks a tar archive into memory.
fn unpack_tar(reader: impl Read, meter: &Meter) -> Result<Memory, ArchiveError> {
    let mut members = Members::new(reader);
    let mut unpacked = UnpackedFiles::default();
    while let Some(member) = members.next()? {
        if member.number > MEMBERS_MAX {
            return Err(ArchiveError::TooManyMembers);
        }
        meter.add(|amounts| amounts.members = member.number);
        unpacked.put(&member, &mut members)?;
    }
    Ok(unpacked.memory)
}

/// The files unpacked so far.
#[derive(Default)]
struct UnpackedFiles {
    memory: Memory,
    bytes: u64,
}

impl UnpackedFiles {
    /// Adds a member, unless it is outside the folders that are read.
    fn put(&mut self, member: &Member, members: &mut Members<impl Read>) -> Result<(), ArchiveError> {
        let Member { name, target, kind, number } = member;
        if name.len() > NAME_BYTES_MAX {
            return Err(ArchiveError::NameTooLong { number: *number, bytes: name.len() });
        }
        if name.split('/').any(|part| part == "..") {
            return Err(ArchiveError::NameLeadsOut { number: *number, name: shorten(name) });
        }
        let path = normalize(name);
        if !is_wanted(&path) {
            return Ok(());
        }
        self.check_memory()?;
        match kind {
            Kind::File => self.put_file(&path, members)?,
            Kind::Sparse(map) => self.put_sparse(&path, map, members)?,
            Kind::Folder => self.memory.folder(&path),
            Kind::Link => self.put_link(&path, target),
            Kind::HardLink => self.put_hard_link(&path, target),
            Kind::Special => self.memory.special(&path),
            Kind::Unreadable => self.memory.refused(&path, Refusal::NoPermission),
            Kind::Other(flag) => {
                let flag = char::from(*flag).escape_default().to_string();
                self.memory.refused(&path, Refusal::UnknownMember { flag });
            }
        }
        Ok(())
    }

    /// Adds a regular file.
    fn put_file(&mut self, path: &str, members: &mut Members<impl Read>) -> Result<(), ArchiveError> {
        let length = members.stored_bytes();
        if !self.count_file(path, length)? {
            return Ok(());
        }
        match members.read_body() {
            Ok(bytes) if bytes.len() as u64 == length => self.memory.file(path, bytes),
            Ok(_) => return Err(members.damaged(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(members.damaged(error)),
        }
        Ok(())
    }

    /// Adds a sparse file, its holes filled with zeros.
    fn put_sparse(
        &mut self,
        path: &str,
        map: &Result<SparseMap, MapError>,
        members: &mut Members<impl Read>,
    ) -> Result<(), ArchiveError> {
        let map = match map {
            Ok(map) => map,
            Err(error) => {
                self.memory.refused(path, broken_map(*error));
                return Ok(());
            }
        };
        if !self.count_file(path, map.real_bytes)? {
            return Ok(());
        }
        if let Err(error) = map.check(members.stored_bytes()) {
            self.memory.refused(path, broken_map(error));
            return Ok(());
        }
        match map.expand(members.body()) {
            Ok(bytes) => self.memory.file(path, bytes),
            Err(error) => return Err(members.damaged(error)),
        }
        Ok(())
    }

    /// Counts a file of this size. False, and recorded as refused, if the file is too large.
    fn count_file(&mut self, path: &str, bytes: u64) -> Result<bool, ArchiveError> {
        if bytes > FILE_BYTES_MAX {
            self.memory.refused(path, Refusal::TooLarge { bytes_max: FILE_BYTES_MAX });
            return Ok(false);
        }
        self.bytes += bytes;
        self.check_memory()?;
        Ok(true)
    }

    /// Fails if the unpacked files take more memory than allowed.
    fn check_memory(&self) -> Result<(), ArchiveError> {
        match self.bytes + self.memory.overhead_bytes() {
            ..=KEPT_BYTES_MAX => Ok(()),
            _ => Err(ArchiveError::TooLarge { bytes_max: KEPT_BYTES_MAX }),
        }
    }

    /// Adds a symbolic link; refused if its target is too long.
    fn put_link(&mut self, path: &str, target: &str) {
        match target.len() {
            ..=NAME_BYTES_MAX => self.memory.link(path, target),
            length => {
                let message = format!("a symbolic link of {length} bytes, expected at most {NAME_BYTES_MAX}");
                self.memory.refused(path, Refusal::Other { message });
            }
        }
    }

    /// Adds a hard link as a symbolic link. Its target is a path from the archive's root.
    fn put_hard_link(&mut self, path: &str, target: &str) {
        let up = "../".repeat(path.matches('/').count());
        self.put_link(path, &format!("{up}{}", normalize(target)));
    }
}

/// The reason to refuse a file whose sparse map is wrong.
fn broken_map(error: MapError) -> Refusal {
    Refusal::Other { message: error.to_string() }
}

/// The path without empty names and `.`.
fn normalize(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for part in name.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if !normal.is_empty() {
            normal.push('/');
        }
        normal.push_str(part);
    }
    normal
}

/// The first 80 characters of a name, for an error.
fn shorten(name: &str) -> String {
    name.chars().take(80).collect()
}
