//! Where a sweep's parts are: whole ones under names that follow from their bytes, and at most one for each shard that is not
//! whole yet, under a name that does not count.

use anyhow::{Context, bail};
use model::sweep::Shard;
use sha2::{Digest, Sha256};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A folder in which this process alone works on its shard.
pub(super) struct Folder {
    path: PathBuf,
    unfinished: PathBuf,
    /// Held until the process ends, however it ends.
    _lock: File,
}

impl Folder {
    /// Makes it, locks the shard in it, and removes what a dead run left of a part.
    pub(super) fn open(path: &Path, shard: Shard) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("can't make {}", path.display()))?;
        let name = format!("shard-{}", shard.to_string().replace('/', "-of-"));
        let lock = lock(&path.join(format!("{name}.lock")))?;
        let unfinished = path.join(format!(".{name}.unfinished"));
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("can't remove {}", unfinished.display()))
            }
            _ => Ok(Self { path: path.to_owned(), unfinished, _lock: lock }),
        }
    }

    /// All parts, of whatever shard, in the order of their names.
    pub(super) fn parts(&self) -> anyhow::Result<Vec<PathBuf>> {
        let cant = || format!("can't read {}", self.path.display());
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.path).with_context(cant)? {
            let name = entry.with_context(cant)?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with("part-") && name.ends_with(".parquet")) {
                parts.push(self.path.join(name));
            }
        }
        parts.sort_unstable();
        Ok(parts)
    }

    /// Adds a part: whole or not at all, even if the machine loses power.
    pub(super) fn put(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path.join(name(bytes));
        let write = || {
            let mut file = File::create(&self.unfinished)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&self.unfinished, &path)
        };
        write().with_context(|| format!("can't write {}", path.display()))
    }
}

/// Fails if a part's bytes are not those that were written.
pub(super) fn check(part: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(part).with_context(|| format!("can't read {}", part.display()))?;
    let (is, expected) = (part.file_name().unwrap_or_default(), name(&bytes));
    if is != expected.as_str() {
        bail!(
            "{}: damaged: by its bytes it should be {expected}; expected a part as it was written. Without it, its points run again",
            part.display()
        );
    }
    Ok(())
}

fn name(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("part-{digits}.parquet")
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let cant = || format!("can't lock {}", path.display());
    let file = File::create(path).with_context(cant)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("{}: another run is at this shard; expected none, or another --shard", path.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(cant),
    }
}
