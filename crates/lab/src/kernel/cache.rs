//! The private folder that fetched things are kept in.
//!
//! ```text
//! packages/<arch>/<name>_<version>/   what was kept of one package: boot/ and lib/modules/, or bin/
//! apt/<arch>/                         apt's own files: configuration, indexes, a lock, work/
//! ```
//!
//! A package's folder is renamed into place when all of it is there: what is there is whole.

use super::Package;
use crate::Arch;
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// The folder that fetched kernels and busyboxes are kept in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// What keeps the cache from being used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No variable says where it is.
    #[error("no place for a cache: none of IOTOLL_CACHE, XDG_CACHE_HOME and HOME is set")]
    NoPlace,
    /// The current folder, which a relative path starts from, is gone.
    #[error("`{path}` can't be made absolute")]
    NotAbsolute {
        /// As given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder is there and can't be listed.
    #[error("{path}")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Cache {
    /// `$IOTOLL_CACHE`, or `$XDG_CACHE_HOME/iotoll`, or `~/.cache/iotoll`.
    ///
    /// # Errors
    /// If none of the variables is set.
    pub fn of_environment() -> Result<Self, CacheError> {
        let root = root_of(|name| std::env::var_os(name)).ok_or(CacheError::NoPlace)?;
        Self::at(&root)
    }

    /// The cache in folder `root`, which need not be there yet.
    ///
    /// # Errors
    /// If `root` is relative and the current folder is gone.
    pub fn at(root: &Path) -> Result<Self, CacheError> {
        let absolute = std::path::absolute(root);
        let root = absolute.map_err(|source| CacheError::NotAbsolute { path: root.to_owned(), source })?;
        Ok(Self { root })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where packages of an architecture are kept.
    pub(super) fn packages_folder(&self, arch: Arch) -> PathBuf {
        self.root.join("packages").join(arch.word())
    }

    /// Where `package` is kept, once it is.
    pub(super) fn package_folder(&self, arch: Arch, package: &Package) -> PathBuf {
        self.packages_folder(arch).join(package.folder())
    }

    /// Where apt keeps its own files for an architecture.
    pub(super) fn apt_folder(&self, arch: Arch) -> PathBuf {
        self.root.join("apt").join(arch.word())
    }

    /// The packages kept for an architecture, sorted by name.
    pub(super) fn packages(&self, arch: Arch) -> Result<Vec<Package>, CacheError> {
        let path = self.packages_folder(arch);
        let names = match names_in(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|source| CacheError::Unreadable { path, source })?,
        };
        Ok(names.iter().filter_map(|name| Package::of_folder(name)).collect())
    }
}

fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        // Other names than UTF-8 are none of ours.
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Variables that are empty count as not set, and a relative `XDG_CACHE_HOME` too (XDG Base Directory
/// Specification 0.8).
fn root_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    path("IOTOLL_CACHE")
        .or_else(|| path("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("iotoll")))
        .or_else(|| path("HOME").map(|path| path.join(".cache/iotoll")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn check(variables: &[(&str, &str)], expect: Option<&str>) {
        let root = root_of(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| v.into()));
        assert_eq!(root.as_deref(), expect.map(Path::new), "{variables:?}");
    }

    #[test]
    fn places() {
        check(&[("IOTOLL_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")], Some("/a"));
        check(&[("IOTOLL_CACHE", ""), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")], Some("/b/iotoll"));
        check(&[("XDG_CACHE_HOME", "b"), ("HOME", "/c")], Some("/c/.cache/iotoll"));
        check(&[], None);
    }

    #[test]
    fn kept_packages() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        assert_eq!(cache.packages(Arch::Arm).unwrap(), []);
        let package = Package { name: "busybox-static".to_owned(), version: "1:1.35.0-4".to_owned() };
        fs::create_dir_all(cache.package_folder(Arch::Arm, &package)).unwrap();
        fs::create_dir_all(cache.packages_folder(Arch::Arm).join("lost+found")).unwrap();
        assert_eq!(cache.packages(Arch::Arm).unwrap(), [package]);
        assert_eq!(cache.packages(Arch::X86).unwrap(), []);
        fs::write(cache.packages_folder(Arch::Ppc), "").unwrap();
        assert!(cache.packages(Arch::Ppc).is_err());
    }
}
