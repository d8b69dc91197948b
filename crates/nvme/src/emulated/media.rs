//! The blocks of an emulated controller's namespace, and the copies between it and memory.

use super::write_cache::WriteCache;
use super::zones::{ZoneOptions, Zones};
use crate::prp::Piece;
use crate::spec::command::{COPIED_RANGE_BYTES, Command, RANGE_BYTES, nvm, zoned};
use crate::spec::identify::{Controller, CopyLimits, Namespace};
use crate::spec::status::Status;
use crate::spec::zone::{self, REPORT_HEADER_BYTES, ZONE_BYTES, ZoneAction, ZoneState};
use crate::walk;
use dma::SoftwareAdapter;
use std::collections::BTreeMap;
use std::ops::Range;

/// Identifier of the namespace that there is at first.
pub const NAMESPACE: u32 = 1;
/// MDTS: 128 pages of 4 KiB, so 512 KiB.
pub(super) const TRANSFER_PAGES_SHIFT: u8 = 7;
/// ZASL: 32 pages of 4 KiB, so 128 KiB.
pub(super) const APPEND_PAGES_SHIFT: u8 = 5;
/// What one Copy takes, if it is not changed.
pub(super) const COPY_LIMITS: CopyLimits =
    CopyLimits { range_blocks_max: 128, blocks_max: 256, ranges_max: 16 };

/// A namespace's blocks.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) namespace: Namespace,
    /// What reads see: the media, with what the write cache has.
    disk: Vec<u8>,
    /// Each controller has a volatile write cache of its own.
    caches: BTreeMap<u16, WriteCache>,
    /// The controller whose command is executed.
    controller: u16,
    pub(super) zones: Option<Zones>,
}

impl Media {
    /// A disk of zeros.
    pub(super) fn new(namespace: Namespace) -> Self {
        let disk = vec![0; namespace.bytes() as usize];
        Self { namespace, disk, caches: BTreeMap::new(), controller: 0, zones: None }
    }

    /// Divides the disk into empty zones.
    pub(super) fn divide(&mut self, options: ZoneOptions) {
        self.zones = Some(Zones::new(options, self.namespace.blocks));
    }

    /// The disk's content, as reads see it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.disk
    }

    /// Writes a controller's cache to the media.
    pub(super) fn flush(&mut self, controller: u16) {
        self.caches.entry(controller).or_default().flush();
    }

    /// Writes blocks of all caches to the media.
    fn write_back(&mut self, blocks: &Range<u64>) {
        self.caches.values_mut().for_each(|cache| cache.write_back(blocks.clone()));
    }

    /// Loses a controller's cache.
    pub(super) fn lose_cache(&mut self, controller: u16) {
        for (block, bytes) in self.caches.remove(&controller).unwrap_or_default().lose() {
            let at = (block * self.namespace.block_bytes()) as usize;
            self.disk[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Executes a command of a controller with this identity. Returns its status, and the result of an append.
    pub(super) fn execute(
        &mut self,
        adapter: &SoftwareAdapter,
        identity: &Controller,
        controller: u16,
        command: &Command,
    ) -> (Status, u64) {
        self.controller = controller;
        match (&mut self.zones, command.opcode()) {
            (Some(_), zoned::APPEND) => self.append(adapter, command),
            (Some(_), zoned::MANAGEMENT_SEND) => (self.manage_zones(command), 0),
            (Some(zones), zoned::MANAGEMENT_RECEIVE) => {
                (report_zones(zones, self.namespace.blocks, adapter, command), 0)
            }
            _ => (self.execute_nvm(adapter, identity, command), 0),
        }
    }

    /// Executes a command of the NVM command set.
    fn execute_nvm(&mut self, adapter: &SoftwareAdapter, identity: &Controller, command: &Command) -> Status {
        let has_command = match command.opcode() {
            nvm::COMPARE => identity.can_compare,
            nvm::DATASET_MANAGEMENT => identity.can_deallocate,
            nvm::WRITE_ZEROES => identity.can_write_zeroes,
            nvm::VERIFY => identity.can_verify,
            nvm::COPY => identity.can_copy,
            _ => true,
        };
        if !has_command {
            return Status::INVALID_OPCODE.with_do_not_retry();
        }
        let blocks = u64::from(command.word(12) & 0xffff) + 1;
        let is_cached = self.is_cached(identity, command);
        match command.opcode() {
            nvm::FLUSH => {
                self.flush(self.controller);
                Status::SUCCESS
            }
            nvm::DATASET_MANAGEMENT => self.deallocate(adapter, identity, command),
            nvm::COPY => self.copy(adapter, identity, command),
            nvm::READ | nvm::WRITE | nvm::COMPARE | nvm::WRITE_ZEROES | nvm::VERIFY => {
                match self.byte_range(first_block(command), blocks) {
                    None => Status::LBA_OUT_OF_RANGE.with_do_not_retry(),
                    Some(range) => self.transfer(adapter, command, range, is_cached),
                }
            }
            _ => Status::INVALID_OPCODE.with_do_not_retry(),
        }
    }

    /// Whether a write goes to the cache. A zone's write pointer would say that lost blocks are written, so zones have no cache.
    fn is_cached(&self, identity: &Controller, command: &Command) -> bool {
        identity.has_write_cache && !command.forces_unit_access() && self.zones.is_none()
    }

    /// Executes a Zone Append.
    fn append(&mut self, adapter: &SoftwareAdapter, command: &Command) -> (Status, u64) {
        let (zone, count) = (first_block(command), u64::from(command.word(12) & 0xffff) + 1);
        let Some(zones) = self.zones.as_ref().filter(|_| zone < self.namespace.blocks) else {
            return (Status::LBA_OUT_OF_RANGE.with_do_not_retry(), 0);
        };
        if count << self.namespace.block_shift > 4096 << APPEND_PAGES_SHIFT {
            return (Status::INVALID_FIELD.with_do_not_retry(), 0);
        }
        let first = match zones.append_at(zone) {
            Ok(first) => first,
            Err(status) => return (status, 0),
        };
        let Some(range) = self.byte_range(first, count) else {
            return (Status::ZONE_BOUNDARY.with_do_not_retry(), 0);
        };
        match self.transfer(adapter, command, range, false) {
            Status::SUCCESS => (Status::SUCCESS, first),
            status => (status, 0),
        }
    }

    /// Executes a Zone Management Send.
    fn manage_zones(&mut self, command: &Command) -> Status {
        let (first, action) = (first_block(command), ZoneAction::of_code(command.word(13) as u8));
        let (Some(zones), Some(action)) = (&mut self.zones, action) else {
            return Status::INVALID_FIELD.with_do_not_retry();
        };
        let emptied = match command.word(13) >> 8 & 1 {
            1 => zones.manage_all(action),
            _ if first >= self.namespace.blocks => return Status::LBA_OUT_OF_RANGE.with_do_not_retry(),
            _ => zones.manage(first, action).map(|emptied| vec![emptied]),
        };
        match emptied {
            Ok(emptied) => {
                for range in emptied.into_iter().filter(|range| !range.is_empty()) {
                    if let Some(range) = self.byte_range(range.start, range.end - range.start) {
                        self.disk[range].fill(0);
                    }
                }
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Checks a read of blocks against the zones.
    fn check_read(&self, blocks: &Range<u64>) -> Status {
        self.zones.as_ref().map_or(Status::SUCCESS, |zones| zones.check_read(blocks))
    }

    /// The blocks of a range of bytes.
    fn blocks(&self, range: &Range<usize>) -> Range<u64> {
        let shift = self.namespace.block_shift;
        range.start as u64 >> shift..range.end as u64 >> shift
    }

    /// Writes whole blocks, to the cache or to the media. In a zone they must be the next ones.
    fn write(&mut self, range: Range<usize>, is_cached: bool, write: impl FnOnce(&mut [u8])) -> Status {
        let block_bytes = self.namespace.block_bytes() as usize;
        let blocks = self.blocks(&range);
        if let Some(zones) = &mut self.zones {
            match zones.begin_write(&blocks) {
                Status::SUCCESS => zones.end_write(&blocks),
                status => return status,
            }
        }
        if is_cached {
            // One cache has the newest content of a block, and what other caches have of it would come after that.
            let others = self.caches.iter_mut().filter(|(controller, _)| **controller != self.controller);
            others.for_each(|(_, cache)| cache.write_back(blocks.clone()));
            for (block, media) in blocks.zip(self.disk[range.clone()].chunks(block_bytes)) {
                self.caches.entry(self.controller).or_default().take_block(block, media);
            }
        } else {
            self.write_back(&blocks);
        }
        write(&mut self.disk[range]);
        Status::SUCCESS
    }

    /// The bytes of a range of blocks; `None` if it reaches beyond the disk.
    fn byte_range(&self, first: u64, blocks: u64) -> Option<Range<usize>> {
        let end = first.checked_add(blocks).filter(|end| *end <= self.namespace.blocks)?;
        let bytes = |block: u64| (block * self.namespace.block_bytes()) as usize;
        Some(bytes(first)..bytes(end))
    }

    /// Executes a read, write, compare, verify or write-zeroes of a range of the disk.
    fn transfer(
        &mut self,
        adapter: &SoftwareAdapter,
        command: &Command,
        range: Range<usize>,
        is_cached: bool,
    ) -> Status {
        match command.opcode() {
            nvm::WRITE_ZEROES => return self.write(range, is_cached, |bytes| bytes.fill(0)),
            nvm::READ | nvm::COMPARE | nvm::VERIFY => match self.check_read(&self.blocks(&range)) {
                Status::SUCCESS if command.opcode() == nvm::VERIFY => return Status::SUCCESS,
                Status::SUCCESS => {}
                status => return status,
            },
            _ => {}
        }
        if range.len() as u64 > 4096 << TRANSFER_PAGES_SHIFT {
            return Status::INVALID_FIELD.with_do_not_retry();
        }
        let pieces = match data_pieces(adapter, command, range.len() as u64) {
            Ok(pieces) => pieces,
            Err(status) => return status,
        };
        if command.opcode() == nvm::READ {
            if command.forces_unit_access() {
                self.write_back(&self.blocks(&range));
            }
            return write_memory(adapter, &pieces, &self.disk[range]);
        }
        // Nothing is written unless all of the data can be read.
        match read_memory(adapter, &pieces) {
            Ok(bytes) if command.opcode() == nvm::COMPARE => match bytes == self.disk[range] {
                true => Status::SUCCESS,
                false => Status::COMPARE_FAILURE,
            },
            Ok(bytes) => self.write(range, is_cached, |into| into.copy_from_slice(&bytes)),
            Err(status) => status,
        }
    }

    /// Zeroes deallocated blocks. A zone's write pointer stays.
    fn forget(&mut self, range: Range<usize>, is_cached: bool) {
        let zones = self.zones.take();
        self.write(range, is_cached, |bytes| bytes.fill(0));
        self.zones = zones;
    }

    /// Executes a Copy. All ranges are checked and read before anything is written.
    fn copy(&mut self, adapter: &SoftwareAdapter, identity: &Controller, command: &Command) -> Status {
        let CopyLimits { range_blocks_max, blocks_max, ranges_max } = self.namespace.copy_limits;
        let ranges = u64::from(command.word(12) & 0xff) + 1;
        let format = command.word(12) >> 8 & 0xf;
        if format != 0 || identity.copy_formats & 1 == 0 {
            return Status::INVALID_FIELD.with_do_not_retry();
        }
        if ranges > ranges_max.into() {
            return Status::SIZE_LIMIT.with_do_not_retry();
        }
        let sources = data_pieces(adapter, command, ranges * COPIED_RANGE_BYTES as u64)
            .and_then(|pieces| read_memory(adapter, &pieces));
        let sources = match sources {
            Ok(sources) => sources,
            Err(status) => return status,
        };
        let (mut copied, mut blocks) = (Vec::new(), 0);
        for source in sources.chunks_exact(COPIED_RANGE_BYTES) {
            let [.., low, high] = dwords(source);
            let [less_one, ..] = dwords(&source[16..]);
            let count = u64::from(less_one & 0xffff) + 1;
            blocks += count;
            if count > range_blocks_max.into() || blocks > blocks_max.into() {
                return Status::SIZE_LIMIT.with_do_not_retry();
            }
            let Some(range) = self.byte_range(u64::from(low) | u64::from(high) << 32, count) else {
                return Status::LBA_OUT_OF_RANGE.with_do_not_retry();
            };
            match self.check_read(&self.blocks(&range)) {
                Status::SUCCESS => copied.extend_from_slice(&self.disk[range]),
                status => return status,
            }
        }
        let Some(into) = self.byte_range(first_block(command), blocks) else {
            return Status::LBA_OUT_OF_RANGE.with_do_not_retry();
        };
        let is_cached = self.is_cached(identity, command);
        self.write(into, is_cached, |bytes| bytes.copy_from_slice(&copied))
    }

    /// Zeroes the ranges that a Dataset Management command names.
    fn deallocate(&mut self, adapter: &SoftwareAdapter, identity: &Controller, command: &Command) -> Status {
        let ranges = usize::from(command.word(10) as u8) + 1;
        let bytes = data_pieces(adapter, command, (ranges * RANGE_BYTES) as u64)
            .and_then(|pieces| read_memory(adapter, &pieces));
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(status) => return status,
        };
        let range = |range: &[u8]| {
            let [_, blocks, first @ ..] = dwords(range);
            self.byte_range(u64::from(first[0]) | u64::from(first[1]) << 32, blocks.into())
        };
        let Some(places) = bytes.chunks_exact(RANGE_BYTES).map(range).collect::<Option<Vec<_>>>() else {
            return Status::LBA_OUT_OF_RANGE.with_do_not_retry();
        };
        // The deallocate attribute is set: these blocks read as zero from now on.
        if command.word(11) >> 2 & 1 == 1 {
            let is_cached = identity.has_write_cache && self.zones.is_none();
            for range in places {
                self.forget(range, is_cached);
            }
        }
        Status::SUCCESS
    }
}

/// Executes a Zone Management Receive: a report of zones.
fn report_zones(zones: &Zones, blocks: u64, adapter: &SoftwareAdapter, command: &Command) -> Status {
    let bytes = (command.word(12) as usize).saturating_add(1).saturating_mul(4);
    let [action, filter] = [command.word(13), command.word(13) >> 8].map(|word| word as u8);
    let state = ZoneState::of_filter(filter);
    if action != 0 || filter != 0 && state.is_none() || bytes > 4096 << TRANSFER_PAGES_SHIFT {
        return Status::INVALID_FIELD.with_do_not_retry();
    }
    let block = first_block(command);
    if block >= blocks {
        return Status::LBA_OUT_OF_RANGE.with_do_not_retry();
    }
    let room = bytes.saturating_sub(REPORT_HEADER_BYTES) / ZONE_BYTES;
    // A partial report counts the zones that it has, another all zones that there are.
    let is_partial = command.word(13) >> 16 & 1 == 1;
    let count = zones.report(block, state).take(if is_partial { room } else { usize::MAX }).count();
    let report = zone::write_report(zones.report(block, state).take(room), count as u64, bytes);
    match data_pieces(adapter, command, bytes as u64) {
        Ok(pieces) => write_memory(adapter, &pieces, &report),
        Err(status) => status,
    }
}

/// The starting LBA of a read or write.
pub(super) fn first_block(command: &Command) -> u64 {
    u64::from(command.word(10)) | u64::from(command.word(11)) << 32
}

/// The pieces of memory that hold a command's data.
pub(super) fn data_pieces(
    adapter: &SoftwareAdapter,
    command: &Command,
    bytes: u64,
) -> Result<Vec<Piece>, Status> {
    let read = |at| {
        let mut word = [0; 8];
        adapter.read(at, &mut word).ok().map(|()| u64::from_le_bytes(word))
    };
    if command.uses_sgl() {
        walk::sgl(command.data(), bytes, read)
    } else {
        walk::prp(command.data(), bytes, 4096, read)
    }
}

/// Writes bytes to pieces of the host's memory. The status is a transfer error if the IOMMU blocks one.
pub(super) fn write_memory(adapter: &SoftwareAdapter, pieces: &[Piece], mut bytes: &[u8]) -> Status {
    for piece in pieces {
        let (these, rest) = bytes.split_at(piece.bytes as usize);
        if adapter.write(piece.at, these).is_err() {
            return Status::DATA_TRANSFER;
        }
        bytes = rest;
    }
    Status::SUCCESS
}

/// Reads pieces of the host's memory.
pub(super) fn read_memory(adapter: &SoftwareAdapter, pieces: &[Piece]) -> Result<Vec<u8>, Status> {
    let mut bytes = vec![0; pieces.iter().map(|piece| piece.bytes as usize).sum()];
    let mut left = bytes.as_mut_slice();
    for piece in pieces {
        let (these, rest) = left.split_at_mut(piece.bytes as usize);
        adapter.read(piece.at, these).map_err(|_| Status::DATA_TRANSFER)?;
        left = rest;
    }
    Ok(bytes)
}

/// The first four little-endian dwords of `bytes`, zero where it is too short.
pub(super) fn dwords(bytes: &[u8]) -> [u32; 4] {
    let number = |place: usize| bytes.get(4 * place..4 * place + 4)?.try_into().ok().map(u32::from_le_bytes);
    std::array::from_fn(|place| number(place).unwrap_or_default())
}
