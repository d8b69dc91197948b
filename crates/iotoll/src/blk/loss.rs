//! What is lost when a disk is overwritten, and whether whoever asks for that has named it.

use crate::cli::Overwrite;
use crate::output::Lines;
use anyhow::Context;
use indicatif::BinaryBytes;
use nvme::chunk::Chunk;
use nvme::signature::{Contents, Signature};
use nvme::spec::identify;
use nvme::takeover::{Candidate, DiskNames, Identity, KernelDisk};
use nvme::{Namespace, signature};
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The word of `--wipe` for places that can't be read: what they hold is lost too.
const UNREADABLE: &str = "unreadable";

/// A disk that is to be overwritten.
#[derive(Debug)]
pub(super) struct Loss {
    /// As it was asked for.
    target: String,
    /// What `--overwrite` may say.
    names: Names,
    model: Option<String>,
    namespace: Option<u32>,
    bytes: u64,
    /// Another controller or another host may have it too.
    is_shared: bool,
    contents: Contents,
}

#[derive(Debug)]
enum Names {
    /// Of a controller's disk: its serial number, or where it has none its address.
    Serial(String),
    /// Of a file or a block device: any path to it, or a whole disk's serial number.
    Path { path: PathBuf, identity: Identity, serial: Option<String> },
}

/// The blocks that are written, as far as they are known: the first one, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    pub(super) first: u64,
    pub(super) count: Option<u64>,
}

impl Blocks {
    fn bytes(self, block_bytes: u64) -> Range<u64> {
        let first = self.first.saturating_mul(block_bytes);
        first..first.saturating_add(self.count.unwrap_or(u64::MAX).saturating_mul(block_bytes))
    }
}

impl Loss {
    /// As the kernel has the disk, before it is taken from the kernel's driver.
    pub(super) fn of_kernel_disk(
        candidate: &Candidate,
        disk: &KernelDisk,
        blocks: Blocks,
    ) -> anyhow::Result<Self> {
        let path = Path::new("/dev").join(&disk.name);
        let unreadable = || format!("can't read {} to see what would be overwritten", path.display());
        let file = File::open(&path).with_context(unreadable)?;
        let block_bytes = u64::from(rustix::fs::ioctl_blksszget(&file).with_context(unreadable)?);
        let mut read = |at: u64, into: &mut [u8]| file.read_exact_at(into, at);
        Ok(Self {
            target: candidate.address.clone(),
            names: serial(candidate.serial.as_deref(), &candidate.address),
            model: candidate.model.clone(),
            namespace: disk.namespace,
            bytes: disk.bytes,
            // The controller knows, and is asked when it has been taken.
            is_shared: false,
            contents: Contents::read(disk.bytes, block_bytes, blocks.bytes(block_bytes), &mut read),
        })
    }

    /// As the controller has it.
    pub(super) fn of_drive(
        address: &str,
        controller: &identify::Controller,
        namespace: Namespace,
        blocks: Blocks,
        chunk: &mut Chunk,
    ) -> Self {
        Self {
            target: address.to_owned(),
            names: serial(Some(&controller.serial), address),
            model: Some(controller.model.clone()),
            namespace: Some(namespace.number),
            bytes: namespace.format.bytes(),
            is_shared: namespace.format.is_shared,
            contents: contents(chunk, blocks),
        }
    }

    /// A file, or a block device of the kernel's.
    pub(super) fn of_file(
        path: &Path,
        identity: Identity,
        names: DiskNames,
        blocks: Blocks,
        chunk: &mut Chunk,
    ) -> Self {
        Self {
            target: path.display().to_string(),
            names: Names::Path { path: path.to_owned(), identity, serial: names.serial },
            model: names.model,
            namespace: None,
            bytes: chunk.blocks() * chunk.block_bytes() as u64,
            is_shared: names.may_be_shared,
            contents: contents(chunk, blocks),
        }
    }
}

fn serial(serial: Option<&str>, address: &str) -> Names {
    Names::Serial(serial.filter(|serial| !serial.is_empty()).unwrap_or(address).to_owned())
}

fn contents(chunk: &mut Chunk, blocks: Blocks) -> Contents {
    let block_bytes = chunk.block_bytes() as u64;
    let bytes = chunk.blocks() * block_bytes;
    let mut read = |at: u64, into: &mut [u8]| chunk.read(at / block_bytes, into).map_err(io::Error::other);
    Contents::read(bytes, block_bytes, blocks.bytes(block_bytes), &mut read)
}

impl Overwrite {
    /// Why it does not allow this loss, with what is lost and what to type; nothing if it does.
    pub(super) fn against(&self, loss: &Loss) -> Option<Lines> {
        let missing = self.missing(loss);
        if missing.is_empty() {
            return None;
        }
        let mut told = vec![
            format!("{} is not written: {}", loss.target, missing.join("; ")),
            "  what would be overwritten:".to_owned(),
        ];
        told.extend(loss.lines().iter().map(|line| format!("    {line}")));
        told.push(format!("  if that may be lost, add: {}", loss.consent()));
        Some(Lines(told))
    }

    fn missing(&self, loss: &Loss) -> Vec<String> {
        let mut missing = Vec::new();
        match &self.overwrite {
            None => missing.push("--overwrite does not name it".to_owned()),
            Some(name) if !loss.is_called(name) => {
                missing.push(format!("--overwrite {name:?} is not its name"));
            }
            Some(_) => {}
        }
        let there = loss.words();
        let unnamed: Vec<&str> =
            there.iter().copied().filter(|word| !self.wipe.iter().any(|named| named == word)).collect();
        if !unnamed.is_empty() {
            missing.push(format!("--wipe does not name what is on it ({})", unnamed.join(", ")));
        }
        // Whoever expects something else on it may mean another disk.
        let absent: Vec<&str> =
            self.wipe.iter().map(String::as_str).filter(|named| !there.contains(named)).collect();
        if !absent.is_empty() {
            missing.push(format!("--wipe names what is not on it ({})", absent.join(", ").escape_debug()));
        }
        if loss.is_shared && !self.accept_shared {
            missing.push("another controller or another host may use it at the same time".to_owned());
        }
        missing
    }
}

impl Loss {
    fn is_called(&self, name: &str) -> bool {
        match &self.names {
            Names::Serial(serial) => name == serial,
            Names::Path { identity, serial, .. } => {
                serial.as_deref() == Some(name)
                    || Identity::of_path(Path::new(name)).is_ok_and(|named| named == *identity)
            }
        }
    }

    /// What `--wipe` has to say.
    fn words(&self) -> Vec<&'static str> {
        let unreadable = (!self.contents.unreadable.is_empty()).then_some(UNREADABLE);
        self.contents.names().into_iter().chain(unreadable).collect()
    }

    fn consent(&self) -> String {
        let name = match &self.names {
            Names::Serial(serial) => serial.clone(),
            Names::Path { path, .. } => path.display().to_string(),
        };
        // A name that must not be pasted is the reader's to type.
        let name = escape::shell::quote(&name).unwrap_or_else(|| "NAME".to_owned());
        let mut words = vec![format!("--overwrite {name}")];
        let wipe = self.words();
        if !wipe.is_empty() {
            words.push(format!("--wipe {}", wipe.join(",")));
        }
        if self.is_shared {
            words.push("--accept-shared".to_owned());
        }
        words.join(" ")
    }

    /// One line for each thing, as this disk has it.
    fn lines(&self) -> Vec<String> {
        let Contents { signatures, unreadable, not_zero, .. } = &self.contents;
        let mut lines = vec![self.disk()];
        lines.extend(signatures.iter().map(line));
        if let Some(first) = unreadable.first() {
            let count = unreadable.len();
            lines.push(format!("{UNREADABLE}: {count} places can't be read, the first at byte {first}"));
        }
        match not_zero {
            Some(at) if signatures.is_empty() => {
                lines.push(format!("no known signature, but it is not empty: byte {at} is not zero"));
            }
            None if signatures.is_empty() && unreadable.is_empty() => {
                lines.push("only zeros in what was read: both ends, and where it is written".to_owned());
            }
            _ => {}
        }
        lines
    }

    fn disk(&self) -> String {
        let mut words = vec![match self.namespace {
            Some(number) => format!("namespace {number} of {}", self.target),
            None => self.target.clone(),
        }];
        words.push(BinaryBytes(self.bytes).to_string());
        words.extend(self.model.clone());
        match &self.names {
            Names::Serial(serial) | Names::Path { serial: Some(serial), .. } => {
                words.push(format!("serial number {serial}"));
            }
            Names::Path { serial: None, .. } => {}
        }
        if self.is_shared {
            words.push("may be shared with other controllers or hosts".to_owned());
        }
        words.join(", ")
    }
}

/// Names of disks say what somebody has typed: control characters are shown, not carried out.
fn line(found: &Signature) -> String {
    let Signature { name, kind, at, partition, label, uuid } = found;
    let mut line = format!("{name}: {} at byte {at}", kind.words());
    if let Some(signature::Partition { number, name, .. }) = partition {
        let _ = write!(line, ", in partition {number}");
        let _ = name.as_ref().map_or(Ok(()), |name| write!(line, " {name:?}"));
    }
    let _ = label.as_ref().map_or(Ok(()), |label| write!(line, ", label {label:?}"));
    let _ = uuid.as_ref().map_or(Ok(()), |uuid| write!(line, ", UUID {}", uuid.escape_debug()));
    line
}
