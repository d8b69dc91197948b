//! The name of a disk that is emulated in this process: `emulated:BLOCKS`, or `emulated:BLOCKSxPATHS` for several controllers to it.

use anyhow::Context;
use nvme::emulated::{Machine, MachineBuilder, MachineError};

/// Begins the name.
const EMULATED: &str = "emulated:";
/// Size of the disk's blocks, as a power of two.
const BLOCK_SHIFT: u8 = 12;
/// Most blocks, which are in this process's memory: 4 GiB.
const BLOCKS_MAX: u64 = 1 << 20;
/// Most controllers.
const PATHS_MAX: usize = 4;

/// A disk that is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EmulatedDisk {
    blocks: u64,
    /// Controllers.
    paths: usize,
}

impl EmulatedDisk {
    /// The disk that an address names; `None` if it is of another kind.
    pub(super) fn of(address: &str) -> anyhow::Result<Option<Self>> {
        let Some(numbers) = address.strip_prefix(EMULATED) else { return Ok(None) };
        Self::parse(numbers).map(Some).with_context(|| {
            format!(
                "expected {EMULATED}BLOCKS or {EMULATED}BLOCKSxPATHS with 1 to {BLOCKS_MAX} blocks and 1 to {PATHS_MAX} paths"
            )
        })
    }

    fn parse(numbers: &str) -> Option<Self> {
        let (blocks, paths) = numbers.split_once('x').unwrap_or((numbers, "1"));
        let blocks = blocks.parse().ok().filter(|blocks| (1..=BLOCKS_MAX).contains(blocks))?;
        let paths = paths.parse().ok().filter(|paths| (1..=PATHS_MAX).contains(paths))?;
        Some(Self { blocks, paths })
    }

    /// Bytes of the disk.
    pub(super) fn bytes(self) -> u64 {
        self.blocks << BLOCK_SHIFT
    }

    /// Opens its controllers, with what else `build` gives them. Several may share the disk.
    pub(super) fn open(
        self,
        build: impl FnOnce(MachineBuilder) -> MachineBuilder,
    ) -> Result<Vec<Machine>, MachineError> {
        let builder = build(Machine::builder(self.blocks, BLOCK_SHIFT));
        match self.paths {
            1 => Ok(vec![builder.open()?]),
            paths => builder.open_paths(paths),
        }
    }
}
