//! Names of emulated disks: `emulated:BLOCKS`, or `emulated:BLOCKSxPATHS` for several controllers to one.

use super::{Machine, MachineBuilder, MachineError};

/// Begins a name.
const PREFIX: &str = "emulated:";
/// Size of a block, as a power of two.
const BLOCK_SHIFT: u8 = 12;
/// Most blocks, which are in this process's memory: 4 GiB.
const BLOCKS_MAX: u64 = 1 << 20;
/// Most controllers.
const PATHS_MAX: usize = 4;

/// An emulated disk that a user has named. Its blocks have 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskName {
    blocks: u64,
    paths: usize,
}

/// What follows `emulated:` is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected {PREFIX}BLOCKS or {PREFIX}BLOCKSxPATHS with 1 to {BLOCKS_MAX} blocks and 1 to {PATHS_MAX} paths"
)]
pub struct DiskNameError;

impl DiskName {
    /// The disk that a text names; `None` if it does not begin with `emulated:`.
    ///
    /// # Errors
    /// [`DiskNameError`]
    pub fn parse(text: &str) -> Result<Option<Self>, DiskNameError> {
        let Some(numbers) = text.strip_prefix(PREFIX) else { return Ok(None) };
        let (blocks, paths) = numbers.split_once('x').unwrap_or((numbers, "1"));
        let blocks = blocks.parse().ok().filter(|blocks| (1..=BLOCKS_MAX).contains(blocks));
        let paths = paths.parse().ok().filter(|paths| (1..=PATHS_MAX).contains(paths));
        let both = blocks.zip(paths).ok_or(DiskNameError)?;
        Ok(Some(Self { blocks: both.0, paths: both.1 }))
    }

    /// Size of the disk.
    pub fn bytes(self) -> u64 {
        self.blocks << BLOCK_SHIFT
    }

    /// Opens its controllers, each in a machine with what `build` adds. The namespace of several may be shared.
    ///
    /// # Errors
    /// [`MachineError`]
    pub fn open(
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn names_have_blocks_and_paths() {
        let of = |text: &str| {
            DiskName::parse(text).map(|name| name.map(|DiskName { blocks, paths }| (blocks, paths)))
        };
        assert_eq!(of("emulated:64"), Ok(Some((64, 1))));
        assert_eq!(of("emulated:1048576x4"), Ok(Some((1 << 20, 4))));
        assert_eq!((of("/dev/sda"), of("emulated")), (Ok(None), Ok(None)));
        for wrong in ["", "0", "1048577", "64x", "64x0", "64x5", "64x1x1", "-1", "64/1"] {
            assert_eq!(of(&format!("emulated:{wrong}")), Err(DiskNameError), "{wrong}");
        }
        let machines = DiskName::parse("emulated:8x3").unwrap().unwrap().open(|builder| builder).unwrap();
        let blocks: Vec<u64> = machines.iter().map(|one| one.namespace().unwrap().format.blocks).collect();
        assert_eq!(blocks, [8, 8, 8]);
    }
}
