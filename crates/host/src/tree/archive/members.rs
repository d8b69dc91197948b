//! Reads the members of a tar archive in order, with the headers before them: long names, pax records and
//! sparse maps.
//!
//! The iterator of crate `tar` either reads long names of any length into memory, or returns raw members. Raw, it
//! ignores sizes in pax records and the blocks after a sparse member's header, and so loses its position. Here
//! every part has a limit.
//!
//! Data is taken out of the buffer of one `BufReader`: a reader that is copied from by itself clears a new buffer for each member.

use super::ArchiveError;
use super::sparse::{BLOCK_BYTES, MapError, SparseMap};
use std::io::{self, BufRead, BufReader, Read};
use tar::{EntryType, Header, PaxExtensions};

/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 16;
/// Longest name, as long as Linux's paths (`PATH_MAX`).
const NAME_BYTES_MAX: u64 = 4096;
/// Bytes of pax records of one member; the map of a sparse file may be among them.
const PAX_BYTES_MAX: u64 = 2 << 20;

/// Type of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file, stored whole.
    File,
    /// A file with holes.
    Sparse(Result<SparseMap, MapError>),
    Folder,
    Link,
    /// A hard link to another member; its target is a path from the archive's root.
    HardLink,
    /// A device or pipe.
    Special,
    /// An empty file of mode 0: `capture` writes it for a file that it could not read.
    Unreadable,
    /// Another type, which is not read.
    Other(u8),
}

/// A member, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Its name as stored in the archive.
    pub(super) name: String,
    /// Target of a link.
    pub(super) target: String,
    pub(super) kind: Kind,
    /// Number in the archive, from 1.
    pub(super) number: u64,
}

/// A tar archive.
pub(super) struct Members<R> {
    reader: BufReader<R>,
    /// Bytes of the current member that were not read yet.
    body_left: u64,
    /// Bytes of padding after it, up to a whole block.
    padding: u64,
    /// Number of members read so far.
    number: u64,
}

impl<R: Read> Members<R> {
    pub(super) fn new(reader: R) -> Self {
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        Self { reader, body_left: 0, padding: 0, number: 0 }
    }

    /// The next member; `None` at the archive's end.
    pub(super) fn next(&mut self) -> Result<Option<Member>, ArchiveError> {
        let mut prefix = Prefix::default();
        while let Some(header) = self.header()? {
            self.number += 1;
            let kind = header.entry_type();
            match kind {
                EntryType::GNULongName => prefix.name = Some(self.long_name()?),
                EntryType::GNULongLink => prefix.target = Some(self.long_name()?),
                EntryType::XHeader => prefix.parse_pax(&self.bounded_body(PAX_BYTES_MAX)?),
                // Records for all members: none that matter here.
                EntryType::XGlobalHeader => {}
                _ => return self.member(&header, prefix).map(Some),
            }
        }
        Ok(None)
    }

    /// Bytes of the current member that are stored in the archive.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.body_left
    }

    /// All data of the current member, or as much as the archive has of it.
    pub(super) fn read_body(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.pass(self.body_left, |part| bytes.extend_from_slice(part))?;
        self.body_left -= bytes.len() as u64;
        Ok(bytes)
    }

    /// Passes so many bytes of the archive to `take`, or as many as there are; how many those were.
    fn pass(&mut self, bytes: u64, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
        let mut left = bytes;
        while left > 0 {
            let filled = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                filled => filled?,
            };
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(filled.len());
            let Some(part) = filled.get(..most).filter(|part| !part.is_empty()) else { break };
            take(part);
            self.reader.consume(most);
            left -= most as u64;
        }
        Ok(bytes - left)
    }

    /// The data of the current member. Data that is not read is skipped.
    pub(super) fn body(&mut self) -> Body<'_, R> {
        Body(self)
    }

    /// A read error after the members read so far.
    pub(super) fn damaged(&self, source: io::Error) -> ArchiveError {
        super::damaged(self.number.saturating_sub(1), source)
    }

    /// The member that a header and its prefix describe.
    fn member(&mut self, header: &Header, prefix: Prefix) -> Result<Member, ArchiveError> {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = match prefix.sparse.name.clone().or(prefix.name.clone()) {
            Some(name) => name,
            None => lossy(&header.path_bytes()),
        };
        let target = prefix
            .target
            .clone()
            .unwrap_or_else(|| header.link_name_bytes().map_or_else(String::new, |target| lossy(&target)));
        if let Some(bytes) = prefix.size_bytes {
            self.set_size(bytes);
        }
        let number = self.number;
        let kind = match header.entry_type() {
            // Prefix POSIX there was no type for folders.
            EntryType::Regular if name.ends_with('/') => Kind::Folder,
            EntryType::Regular
                if self.body_left == 0 && header.mode().is_ok_and(|mode| mode & 0o777 == 0) =>
            {
                Kind::Unreadable
            }
            EntryType::Regular | EntryType::Continuous => self.file_kind(prefix.sparse)?,
            EntryType::GNUSparse => match header.as_gnu() {
                Some(gnu) => {
                    Kind::Sparse(SparseMap::of_gnu(gnu, || self.block()).map_err(|e| self.damaged(e))?)
                }
                None => Kind::Other(b'S'),
            },
            EntryType::Directory => Kind::Folder,
            EntryType::Symlink => Kind::Link,
            EntryType::Link => {
                // GNU tar gives the size of the other member here, and no data.
                self.set_size(0);
                Kind::HardLink
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => Kind::Special,
            other => match other.as_byte() {
                // A folder with the names in it (tar --incremental).
                b'D' => Kind::Folder,
                flag => Kind::Other(flag),
            },
        };
        Ok(Member { name, target, kind, number })
    }

    /// Whether a regular file is sparse, by its pax records.
    fn file_kind(&mut self, sparse: PaxSparse) -> Result<Kind, ArchiveError> {
        let Some(real_bytes) = sparse.real_bytes else { return Ok(Kind::File) };
        if sparse.is_bad {
            return Ok(Kind::Sparse(Err(MapError::NotANumber)));
        }
        if !sparse.map_in_body {
            return Ok(Kind::Sparse(SparseMap::of_numbers(real_bytes, &sparse.numbers)));
        }
        let map = SparseMap::of_body(real_bytes, &mut self.body()).map_err(|error| self.damaged(error))?;
        Ok(Kind::Sparse(map))
    }

    /// Skips the rest of the current member and reads the next header; `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let rest = self.body_left.saturating_add(self.padding);
        let passed = self.pass(rest, |_| {}).map_err(|error| self.damaged(error))?;
        if passed < rest {
            return Err(self.damaged(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        let read = self.pass(BLOCK_BYTES as u64, |part| bytes.extend_from_slice(part));
        read.map_err(|error| super::damaged(self.number, error))?;
        (self.body_left, self.padding) = (0, 0);
        if bytes.iter().all(|byte| *byte == 0) && matches!(bytes.len(), 0 | BLOCK_BYTES) {
            return Ok(None);
        }
        let broken = |words: &str| super::damaged(self.number, io::Error::other(words.to_owned()));
        let block = <[u8; BLOCK_BYTES]>::try_from(bytes).map_err(|_| broken("it ends inside a header"))?;
        let mut header = Header::new_old();
        header.as_mut_bytes().copy_from_slice(&block);
        if !checksum_fits(&header) {
            return Err(broken("the checksum of a header does not fit it"));
        }
        let size = header.entry_size().map_err(|error| super::damaged(self.number, error))?;
        self.set_size(size);
        Ok(Some(header))
    }

    /// Sets the size of the current member's data.
    fn set_size(&mut self, bytes: u64) {
        self.body_left = bytes;
        let block = BLOCK_BYTES as u64;
        self.padding = (block - bytes % block) % block;
    }

    /// Reads one block.
    fn block(&mut self) -> io::Result<[u8; BLOCK_BYTES]> {
        let mut block = [0; BLOCK_BYTES];
        self.reader.read_exact(&mut block)?;
        Ok(block)
    }

    /// A name or link target that GNU tar stores as the data of a member of its own.
    fn long_name(&mut self) -> Result<String, ArchiveError> {
        let bytes = self.bounded_body(NAME_BYTES_MAX)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The data of the current member; fails if it is longer than `bytes_max`.
    fn bounded_body(&mut self, bytes_max: u64) -> Result<Vec<u8>, ArchiveError> {
        let bytes_claimed = self.body_left;
        // A name ends in a NUL, which is not part of it.
        if bytes_claimed > bytes_max + 1 {
            return Err(ArchiveError::HeaderTooLarge {
                number: self.number,
                bytes: bytes_claimed,
                bytes_max,
            });
        }
        let bytes = self.read_body().map_err(|error| self.damaged(error))?;
        if (bytes.len() as u64) < bytes_claimed {
            return Err(self.damaged(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }
}

/// The data of a member.
pub(super) struct Body<'m, R>(&'m mut Members<R>);

impl<R: Read> Read for Body<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.0.reader.by_ref().take(self.0.body_left).read(buffer)?;
        self.0.body_left -= length as u64;
        Ok(length)
    }
}

/// Values from the headers before a member.
#[derive(Debug, Default)]
struct Prefix {
    name: Option<String>,
    target: Option<String>,
    size_bytes: Option<u64>,
    sparse: PaxSparse,
}

/// GNU tar's records about a sparse file.
#[derive(Debug, Default)]
struct PaxSparse {
    /// The file's real name. The member's own name is artificial, for programs without support for sparse files.
    name: Option<String>,
    real_bytes: Option<u64>,
    /// Version 1.0.
    map_in_body: bool,
    numbers: Vec<u64>,
    is_bad: bool,
}

impl Prefix {
    /// Parses pax records (POSIX.1-2001).
    fn parse_pax(&mut self, bytes: &[u8]) {
        for extension in PaxExtensions::new(bytes).flatten() {
            let words = || String::from_utf8_lossy(extension.value_bytes()).into_owned();
            let number = || words().parse::<u64>().ok();
            match extension.key_bytes() {
                b"path" => self.name = Some(words()),
                b"linkpath" => self.target = Some(words()),
                b"size" => self.size_bytes = number(),
                b"GNU.sparse.name" => self.sparse.name = Some(words()),
                b"GNU.sparse.major" => self.sparse.map_in_body = extension.value_bytes() == b"1",
                b"GNU.sparse.size" | b"GNU.sparse.realsize" => {
                    self.sparse.is_bad |= number().is_none();
                    self.sparse.real_bytes = number().or(Some(0));
                }
                b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => self.sparse.push(number()),
                b"GNU.sparse.map" => {
                    for part in words().split(',').filter(|part| !part.is_empty()) {
                        self.sparse.push(part.parse().ok());
                    }
                }
                _ => {}
            }
        }
    }
}

impl PaxSparse {
    /// Appends a number of the map; one that could not be parsed makes the map bad.
    fn push(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.numbers.push(number),
            None => self.is_bad = true,
        }
    }
}

/// Whether a header's checksum is the sum of its bytes. Some old programs summed signed bytes.
fn checksum_fits(header: &Header) -> bool {
    let Ok(expected) = header.cksum() else { return false };
    // The checksum's own bytes count as blanks.
    let mut bytes = *header.as_bytes();
    bytes[148..156].fill(b' ');
    let sum: u32 = bytes.iter().map(|byte| u32::from(*byte)).sum();
    let signed_sum = || bytes.iter().map(|byte| i64::from(byte.cast_signed())).sum::<i64>();
    sum == expected || signed_sum() == i64::from(expected)
}

/// Whether a block is the header of a member, including those of tar archives before POSIX.
pub(super) fn is_header(start: &[u8]) -> bool {
    let Ok(block) = <[u8; BLOCK_BYTES]>::try_from(start) else { return false };
    let mut header = Header::new_old();
    header.as_mut_bytes().copy_from_slice(&block);
    block.get(257..262) == Some(b"ustar") || checksum_fits(&header)
}
