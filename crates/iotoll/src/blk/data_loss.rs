//! The data that a write would destroy, and the check that the user has named it by `--overwrite` and `--wipe`.

use super::claimed_file::ClaimedFile;
use super::driven_adapter::device_path;
use super::input::Input;
use crate::cli::{BlkWrite, Overwrite};
use crate::output::Lines;
use anyhow::{Context, ensure};
use indicatif::BinaryBytes;
use nvme::chunk::{Chunk, Drive, RetryPolicy, Waiting};
use nvme::signature::{Contents, Signature};
use nvme::spec::identify::{self, NamespaceNames};
use nvme::takeover::{Candidate, Identity, KernelDisk};
use nvme::{Controller, Namespace, signature};
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Buffer of the request that reads signatures.
const REQUEST_BYTES: u64 = 64 << 10;
/// The word of `--wipe` for blocks that can't be read: their data would be lost too.
const UNREADABLE: &str = "unreadable";

/// A disk to be overwritten, and the data on it.
#[derive(Debug)]
pub(crate) struct DataLoss {
    /// The address or path that the user gave.
    target: String,
    /// What `--overwrite` may name it by.
    names: Names,
    model: Option<String>,
    namespace: Option<u32>,
    bytes: u64,
    /// Another controller or host may use it at the same time.
    is_shared: bool,
    contents: Contents,
    /// The namespace's NGUID or EUI64 in words, where this process has read it.
    global_name: Option<String>,
    /// Not attached to this controller, so that nothing of it can be read.
    is_detached: bool,
}

/// Names by which `--overwrite` confirms a disk.
#[derive(Debug)]
enum Names {
    /// A controller's serial number, or its address if it has no serial number.
    Serial(String),
    /// Any path to a file or block device, or the serial number of a whole disk.
    Path { path: PathBuf, identity: Identity, serial: Option<String> },
}

/// The blocks to be written. `count` is `None` if it is not known before the input ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRange {
    pub(super) first: u64,
    pub(super) count: Option<u64>,
}

impl BlockRange {
    /// All blocks of a disk.
    pub(crate) const ALL: Self = Self { first: 0, count: None };

    /// The byte offsets of these blocks; up to the end of the address space if the count is unknown.
    fn byte_range(self, block_bytes: u64) -> Range<u64> {
        let first = self.first.saturating_mul(block_bytes);
        first..first.saturating_add(self.count.unwrap_or(u64::MAX).saturating_mul(block_bytes))
    }
}

/// The blocks that a write will change. `count` is `None` if neither `--blocks` nor the input's length tells it.
pub(super) fn blocks_to_write(
    args: &BlkWrite,
    input: &Input,
    block_bytes: u64,
) -> anyhow::Result<BlockRange> {
    let count = match (args.blocks, input.bytes()) {
        (Some(blocks), Some(bytes)) => {
            ensure!(
                blocks <= bytes / block_bytes,
                "{} has {bytes} bytes; expected {blocks} blocks of {block_bytes}",
                input.name()
            );
            Some(blocks)
        }
        (None, Some(bytes)) => {
            ensure!(
                bytes > 0 && bytes.is_multiple_of(block_bytes),
                "{} has {bytes} bytes; expected a multiple of {block_bytes}, the disk's blocks",
                input.name()
            );
            Some(bytes / block_bytes)
        }
        (blocks, None) => blocks,
    };
    Ok(BlockRange { first: args.first, count })
}

impl DataLoss {
    /// Reads the disk through the kernel's block device, before the adapter is unbound.
    pub(super) fn of_kernel_disk(
        candidate: &Candidate,
        disk: &KernelDisk,
        blocks: BlockRange,
    ) -> anyhow::Result<Self> {
        let path = device_path(disk);
        let unreadable = || format!("can't read {} to check what would be overwritten", path.display());
        let file = File::open(&path).with_context(unreadable)?;
        let block_bytes = u64::from(rustix::fs::ioctl_blksszget(&file).with_context(unreadable)?);
        Ok(Self {
            target: candidate.address.clone(),
            names: serial_or_address(candidate.serial.as_deref(), &candidate.address),
            model: candidate.model.clone(),
            namespace: disk.namespace,
            bytes: disk.bytes,
            // Only Identify Namespace says so; it is read when this process has opened the adapter.
            is_shared: false,
            contents: read_file(&file, disk.bytes, block_bytes, blocks),
            global_name: None,
            is_detached: false,
        })
    }

    /// Reads the same disk, all of which would be overwritten, after this process has claimed it.
    pub(crate) fn of_claimed_disk(candidate: &Candidate, disk: &KernelDisk, claimed: &ClaimedFile) -> Self {
        Self {
            target: candidate.address.clone(),
            names: serial_or_address(candidate.serial.as_deref(), &candidate.address),
            namespace: disk.namespace,
            ..Self::of_file(claimed, BlockRange::ALL)
        }
    }

    /// Reads a whole namespace of a controller that this process drives, with a queue of its own.
    pub(crate) fn of_namespace(
        address: &str,
        controller: &Arc<Mutex<Controller>>,
        namespace: Namespace,
    ) -> anyhow::Result<Self> {
        let identity = Controller::lock(controller).identity().clone();
        let (policy, waiting) = (RetryPolicy::default(), Waiting::Polling);
        let drive = Drive::open(Arc::clone(controller), namespace, 1, REQUEST_BYTES, waiting, policy)?;
        let mut chunk = Chunk::from(drive);
        let loss = Self::of_drive(address, &identity, namespace, BlockRange::ALL, &mut chunk);
        chunk.close()?;
        Ok(loss)
    }

    /// Reads the disk through the adapter that this process drives.
    pub(super) fn of_drive(
        address: &str,
        controller: &identify::Controller,
        namespace: Namespace,
        blocks: BlockRange,
        chunk: &mut Chunk,
    ) -> Self {
        Self {
            target: address.to_owned(),
            names: serial_or_address(Some(&controller.serial), address),
            model: Some(controller.model.clone()),
            namespace: Some(namespace.number),
            bytes: namespace.format.bytes(),
            is_shared: namespace.format.is_shared,
            contents: read_contents(chunk, blocks),
            global_name: Some(names_in_words(&namespace.format.names)),
            is_detached: false,
        }
    }

    /// A namespace that this controller has not attached, so that nothing of it can be read.
    pub(super) fn of_detached(
        address: &str,
        controller: &identify::Controller,
        namespace: u32,
        format: Option<identify::Namespace>,
    ) -> Self {
        Self {
            target: address.to_owned(),
            names: serial_or_address(Some(&controller.serial), address),
            model: Some(controller.model.clone()),
            namespace: Some(namespace),
            bytes: format.map_or(0, |format| format.bytes()),
            is_shared: format.is_some_and(|format| format.is_shared),
            contents: Contents { unreadable: vec![0], ..Contents::default() },
            global_name: format.map(|format| names_in_words(&format.names)),
            is_detached: true,
        }
    }

    /// Reads a file or block device.
    pub(crate) fn of_file(claimed: &ClaimedFile, blocks: BlockRange) -> Self {
        let ClaimedFile { file, path, identity, names, .. } = claimed;
        let bytes = claimed.blocks() * claimed.block_bytes();
        Self {
            target: path.display().to_string(),
            names: Names::Path { path: path.clone(), identity: *identity, serial: names.serial.clone() },
            model: names.model.clone(),
            namespace: None,
            bytes,
            is_shared: names.may_be_shared,
            contents: read_file(file, bytes, claimed.block_bytes(), blocks),
            global_name: None,
            is_detached: false,
        }
    }
}

/// The names of a namespace, or that it has none.
pub(super) fn names_in_words(names: &NamespaceNames) -> String {
    let nguid = hexadecimal(&names.nguid).map(|digits| format!("NGUID {digits}"));
    let eui64 = hexadecimal(&names.eui64).map(|digits| format!("EUI64 {digits}"));
    let found: Vec<String> = nguid.into_iter().chain(eui64).collect();
    if found.is_empty() { "no NGUID or EUI64".to_owned() } else { found.join(", ") }
}

/// Hexadecimal digits of a name; `None` for one of zeros.
pub(super) fn hexadecimal(name: &[u8]) -> Option<String> {
    let is_set = name.iter().any(|byte| *byte != 0);
    is_set.then(|| name.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn serial_or_address(serial: Option<&str>, address: &str) -> Names {
    Names::Serial(serial.filter(|serial| !serial.is_empty()).unwrap_or(address).to_owned())
}

/// Finds the signatures on a disk, and whether the blocks to be written are zero.
fn read_contents(chunk: &mut Chunk, blocks: BlockRange) -> Contents {
    let block_bytes = chunk.block_bytes() as u64;
    let bytes = chunk.blocks() * block_bytes;
    let mut read = |at: u64, into: &mut [u8]| chunk.read(at / block_bytes, into).map_err(io::Error::other);
    Contents::read(bytes, block_bytes, blocks.byte_range(block_bytes), &mut read)
}

/// The same on a file or block device.
fn read_file(file: &File, bytes: u64, block_bytes: u64, blocks: BlockRange) -> Contents {
    let mut read = |at: u64, into: &mut [u8]| file.read_exact_at(into, at);
    Contents::read(bytes, block_bytes, blocks.byte_range(block_bytes), &mut read)
}

impl Overwrite {
    /// Fails unless these options allow the loss.
    pub(crate) fn check(&self, loss: &DataLoss) -> anyhow::Result<()> {
        self.refusal(loss).map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// Fails unless these options allow the loss of what is left on a disk of which this process has overwritten a part.
    pub(crate) fn check_rest(&self, loss: &DataLoss) -> anyhow::Result<()> {
        let on_disk = loss.wipe_words();
        let wipe = self.wipe.iter().filter(|named| on_disk.contains(&named.as_str())).cloned().collect();
        let rest = Self { overwrite: self.overwrite.clone(), wipe, accept_shared: self.accept_shared };
        rest.check(loss)
    }

    /// The error if these options do not allow the loss: what is missing, what would be lost, and the options to add. `None` if they do.
    pub(super) fn refusal(&self, loss: &DataLoss) -> Option<Lines> {
        let first = format!("{} is not written", loss.target);
        let zeros = "only zeros were read: at both ends, and where it would be written";
        self.refusal_with(loss, &first, "  what would be overwritten:", loss.description(zeros))
    }

    /// The same for the deletion of a namespace with this number.
    pub(super) fn deletion_refusal(&self, number: u32, loss: &DataLoss) -> Option<Lines> {
        let first = format!("namespace {number} of {} is not deleted", loss.target);
        let mut description = loss.description("only zeros were read at both ends");
        description.splice(1..1, loss.global_name.clone());
        self.refusal_with(loss, &first, "  what would be lost:", description)
    }

    fn refusal_with(
        &self,
        loss: &DataLoss,
        first: &str,
        heading: &str,
        description: Vec<String>,
    ) -> Option<Lines> {
        let missing = self.missing_consents(loss);
        if missing.is_empty() {
            return None;
        }
        let mut lines = vec![format!("{first}: {}", missing.join("; ")), heading.to_owned()];
        lines.extend(description.iter().map(|line| format!("    {line}")));
        lines.push(format!("  if that may be lost, add: {}", loss.required_options()));
        Some(Lines(lines))
    }

    /// What these options lack to allow the loss, one sentence each.
    fn missing_consents(&self, loss: &DataLoss) -> Vec<String> {
        let mut missing = Vec::new();
        match &self.overwrite {
            None => missing.push("--overwrite does not name it".to_owned()),
            Some(name) if !loss.is_named(name) => {
                missing.push(format!("--overwrite {name:?} is not its name"));
            }
            Some(_) => {}
        }
        let on_disk = loss.wipe_words();
        let unnamed: Vec<&str> =
            on_disk.iter().copied().filter(|word| !self.wipe.iter().any(|named| named == word)).collect();
        if !unnamed.is_empty() {
            missing.push(format!("--wipe does not name what is on it ({})", unnamed.join(", ")));
        }
        // A user who expects other data may have named the wrong disk.
        let absent: Vec<&str> =
            self.wipe.iter().map(String::as_str).filter(|named| !on_disk.contains(named)).collect();
        if !absent.is_empty() {
            missing.push(format!("--wipe names what is not on it ({})", absent.join(", ").escape_debug()));
        }
        if loss.is_shared && !self.accept_shared {
            missing.push("another controller or another host may use it at the same time".to_owned());
        }
        missing
    }
}

impl DataLoss {
    /// Whether `name` is one of the disk's names.
    fn is_named(&self, name: &str) -> bool {
        match &self.names {
            Names::Serial(serial) => name == serial,
            Names::Path { identity, serial, .. } => {
                serial.as_deref() == Some(name)
                    || Identity::of_path(Path::new(name)).is_ok_and(|named| named == *identity)
            }
        }
    }

    /// The words that `--wipe` must list.
    fn wipe_words(&self) -> Vec<&'static str> {
        let unreadable = (!self.contents.unreadable.is_empty()).then_some(UNREADABLE);
        self.contents.names().into_iter().chain(unreadable).collect()
    }

    /// The options that allow the loss, to paste.
    fn required_options(&self) -> String {
        let name = match &self.names {
            Names::Serial(serial) => serial.clone(),
            Names::Path { path, .. } => path.display().to_string(),
        };
        // A name that is unsafe to paste is left for the user to type.
        let name = escape::shell::quote(&name).unwrap_or_else(|| "NAME".to_owned());
        let mut words = vec![format!("--overwrite {name}")];
        let wipe = self.wipe_words();
        if !wipe.is_empty() {
            words.push(format!("--wipe {}", wipe.join(",")));
        }
        if self.is_shared {
            words.push("--accept-shared".to_owned());
        }
        words.join(" ")
    }

    /// Describes the disk and its data: one line for the disk, one for each signature, one for unreadable blocks. `zeros` says that nothing was
    /// found.
    fn description(&self, zeros: &str) -> Vec<String> {
        let Contents { signatures, unreadable, not_zero, .. } = &self.contents;
        let mut lines = vec![self.disk_line()];
        if self.is_detached {
            lines.push(format!(
                "{UNREADABLE}: it is not attached to this controller, so what is on it is not known"
            ));
            return lines;
        }
        lines.extend(signatures.iter().map(signature_line));
        if let Some(first) = unreadable.first() {
            let count = unreadable.len();
            lines.push(format!("{UNREADABLE}: {count} places can't be read, the first at byte {first}"));
        }
        match not_zero {
            Some(at) if signatures.is_empty() => {
                lines.push(format!("no known signature, but it is not empty: byte {at} is not zero"));
            }
            None if signatures.is_empty() && unreadable.is_empty() => {
                lines.push(zeros.to_owned());
            }
            _ => {}
        }
        lines
    }

    fn disk_line(&self) -> String {
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

/// A signature with its partition, label and UUID. Control characters in labels are escaped, because a terminal would obey them.
fn signature_line(found: &Signature) -> String {
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
