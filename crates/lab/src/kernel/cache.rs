//! The folder of downloaded kernels and busyboxes.
//!
//! ```text
//! packages/<arch>/<name>_<version>/   files of one package: boot/ and lib/modules/, or bin/
//! apt/<arch>/                         apt's own files: configuration, indexes, a lock, work/
//! ```
//!
//! A package's folder is renamed into place after all its files are written, so it is never incomplete.

use super::Package;
use crate::Arch;
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// The cache folder of downloaded kernels and busyboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// Why the cache can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No environment variable says where it is.
    #[error("no folder for the cache; expected one of IOTOLL_CACHE, XDG_CACHE_HOME and HOME to be set")]
    NoPlace,
    /// The path is relative and the current folder no longer exists.
    #[error("can't make `{path}` absolute")]
    NotAbsolute {
        /// The relative path.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A folder exists but can't be listed.
    #[error("{path}")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Cache {
    /// `$IOTOLL_CACHE`, or `$XDG_CACHE_HOME/iotoll`, or `~/.cache/iotoll`.
    ///
    /// # Errors
    /// If none of the variables is set.
    pub fn from_environment() -> Result<Self, CacheError> {
        let root = cache_root(|name| std::env::var_os(name)).ok_or(CacheError::NoPlace)?;
        Self::at(&root)
    }

    /// The cache in folder `root`, which need not exist yet.
    ///
    /// # Errors
    /// If `root` is relative and the current folder no longer exists.
    pub fn at(root: &Path) -> Result<Self, CacheError> {
        let absolute = std::path::absolute(root);
        let root = absolute.map_err(|source| CacheError::NotAbsolute { path: root.to_owned(), source })?;
        Ok(Self { root })
    }

    /// The cache's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of an architecture's packages.
    pub(super) fn packages_folder(&self, arch: Arch) -> PathBuf {
        self.root.join("packages").join(arch.word())
    }

    /// The folder of `package`, which exists once it was downloaded.
    pub(super) fn package_folder(&self, arch: Arch, package: &Package) -> PathBuf {
        self.packages_folder(arch).join(package.folder_name())
    }

    /// The folder of apt's own files for an architecture.
    pub(super) fn apt_folder(&self, arch: Arch) -> PathBuf {
        self.root.join("apt").join(arch.word())
    }

    /// The downloaded packages of an architecture, sorted by name.
    pub(super) fn packages(&self, arch: Arch) -> Result<Vec<Package>, CacheError> {
        let path = self.packages_folder(arch);
        let names = match file_names(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|source| CacheError::Unreadable { path, source })?,
        };
        Ok(names.iter().filter_map(|name| Package::from_folder_name(name)).collect())
    }
}

/// Names of the files and folders in `folder`, sorted.
fn file_names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        // The cache has no names that are not UTF-8, so others are skipped.
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// The cache's folder according to the environment. An empty variable counts as not set, and so does a relative
/// `XDG_CACHE_HOME` (XDG Base Directory Specification 0.8).
fn cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
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
        let root =
            cache_root(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| v.into()));
        assert_eq!(root.as_deref(), expect.map(Path::new), "{variables:?}");
    }

    #[test]
    fn the_environment_decides_on_the_folder() {
        check(&[("IOTOLL_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")], Some("/a"));
        check(&[("IOTOLL_CACHE", ""), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")], Some("/b/iotoll"));
        check(&[("XDG_CACHE_HOME", "b"), ("HOME", "/c")], Some("/c/.cache/iotoll"));
        check(&[], None);
    }

    #[test]
    fn only_folders_of_packages_are_listed() {
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
