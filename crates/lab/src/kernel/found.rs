//! Kernels that are here.

use super::{
    Cache, CacheError, KernelChoice, Package,
    modules::{ModuleError, release_of_modules},
};
use crate::Arch;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A kernel that can be booted, with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The guest's architecture.
    pub arch: Arch,
    /// What `uname -r` prints in it: `6.1.0-56-amd64`.
    pub release: String,
    /// The package that it came in; `None` for a kernel that the user gave.
    pub package: Option<Package>,
    /// The image to boot.
    pub image: PathBuf,
    /// The folder of its modules, as `lib/modules/6.1.0-56-amd64`.
    pub modules: PathBuf,
}

/// What keeps a kernel or a busybox from being found.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// None was fetched.
    #[error(
        "no kernel {choice} in {cache}; fetch one with `iotoll lab fetch`, or give your own with --kernel and --modules"
    )]
    NotFetched {
        /// What was wanted.
        choice: KernelChoice,
        /// The cache's folder.
        cache: PathBuf,
    },
    /// No busybox was fetched.
    #[error("no busybox for {arch} in {cache}; fetch it with `iotoll lab fetch`")]
    NoBusybox {
        /// The guest's architecture.
        arch: Arch,
        /// The cache's folder.
        cache: PathBuf,
    },
    /// Something was taken out of the cache.
    #[error(
        "{package} was fetched, but {path} is gone; delete {folder} and fetch it again with `iotoll lab fetch`"
    )]
    Incomplete {
        /// The package.
        package: Package,
        /// What is missing.
        path: PathBuf,
        /// The package's folder.
        folder: PathBuf,
    },
    /// The cache can't be read.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The user's image is no file.
    #[error("the kernel {0} is not a file")]
    NoImage(PathBuf),
    /// The folder of the user's modules can't be listed.
    #[error("modules in {path}: {source}")]
    NoModules {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder of the user's modules holds those of several kernels, or of none.
    #[error(
        "{path} holds the modules of {} kernels ({}); expected one, name its own folder", releases.len(), releases.join(", ")
    )]
    NotOneRelease {
        /// The folder `lib/modules`.
        path: PathBuf,
        /// The folders in it.
        releases: Vec<String>,
    },
    /// Neither a module nor the folder's name tells which kernel the modules are for.
    #[error("which kernel the modules in {0} are for is told neither by a module nor by the folder's name")]
    NoRelease(PathBuf),
    /// A module of the user can't be read.
    #[error(transparent)]
    Module(#[from] ModuleError),
}

impl Kernel {
    /// The newest fetched kernel of a choice.
    ///
    /// # Errors
    /// If none was fetched, or part of it is gone.
    pub fn newest(cache: &Cache, choice: KernelChoice) -> Result<Self, KernelError> {
        let kept = cache.packages(choice.arch)?;
        let kernels = kept.into_iter().filter(|package| choice.release_in(package).is_some());
        let newest = kernels.max_by(Package::age_order);
        let not_fetched = || KernelError::NotFetched { choice, cache: cache.root().to_owned() };
        Self::of_package(cache, choice, newest.ok_or_else(not_fetched)?)
    }

    /// The kernel in a package that was fetched.
    pub(super) fn of_package(
        cache: &Cache,
        choice: KernelChoice,
        package: Package,
    ) -> Result<Self, KernelError> {
        let folder = cache.package_folder(choice.arch, &package);
        let release = choice.release_in(&package).unwrap_or_default().to_owned();
        let image = folder.join(image_path(choice.arch, &release));
        let modules = folder.join(modules_path(&release));
        if let Some(path) = [&image, &modules].into_iter().find(|path| !path.exists()) {
            return Err(KernelError::Incomplete { package, path: path.clone(), folder });
        }
        Ok(Self { arch: choice.arch, release, package: Some(package), image, modules })
    }

    /// A kernel that the user built or took from elsewhere.
    ///
    /// `modules` is the folder of its modules, or one that `lib/modules/<release>` is below, or a folder
    /// that the kernel was built in. The release is the one that the modules were built for; without
    /// any, the folder's name.
    ///
    /// # Errors
    /// If the image is no file, or which modules are meant does not show.
    pub fn of_user(arch: Arch, image: &Path, modules: &Path) -> Result<Self, KernelError> {
        if !image.is_file() {
            return Err(KernelError::NoImage(image.to_owned()));
        }
        let modules = installed_below(modules)?;
        let release = match release_of_modules(&modules)? {
            Some(release) => release,
            None => release_of_name(&modules)?,
        };
        Ok(Self { arch, release, package: None, image: image.to_owned(), modules })
    }
}

/// The newest fetched busybox, a program without shared libraries.
///
/// # Errors
/// If none was fetched, or it is gone.
pub fn busybox(cache: &Cache, arch: Arch) -> Result<PathBuf, KernelError> {
    let kept = cache.packages(arch)?.into_iter().filter(|package| package.name == BUSYBOX_PACKAGE);
    let none = || KernelError::NoBusybox { arch, cache: cache.root().to_owned() };
    let package = kept.max_by(Package::age_order).ok_or_else(none)?;
    let folder = cache.package_folder(arch, &package);
    let path = folder.join(BUSYBOX_PATH);
    match path.is_file() {
        true => Ok(path),
        false => Err(KernelError::Incomplete { package, path, folder }),
    }
}

/// Debian's package of it.
pub(super) const BUSYBOX_PACKAGE: &str = "busybox-static";

/// Where it is in its package's folder.
pub(super) const BUSYBOX_PATH: &str = "bin/busybox";

/// Where a kernel's image is in its package's folder.
pub(super) fn image_path(arch: Arch, release: &str) -> String {
    let name = match arch {
        Arch::X86 | Arch::Arm => "vmlinuz",
        // POWER's firmware loads the ELF file itself.
        Arch::Ppc => "vmlinux",
    };
    format!("boot/{name}-{release}")
}

/// Where a kernel's modules are in its package's folder.
pub(super) fn modules_path(release: &str) -> String {
    format!("lib/modules/{release}")
}

/// The one folder in `lib/modules` below `folder`, if it has such; else `folder` itself.
fn installed_below(folder: &Path) -> Result<PathBuf, KernelError> {
    let of = |path: &Path| {
        let path = path.to_owned();
        move |source| KernelError::NoModules { path, source }
    };
    fs::read_dir(folder).map_err(of(folder))?;
    let below = ["lib/modules", "usr/lib/modules"].map(|path| folder.join(path));
    let Some(installed) = below.into_iter().find(|path| path.is_dir()) else { return Ok(folder.to_owned()) };
    let mut releases = Vec::new();
    for entry in fs::read_dir(&installed).map_err(of(&installed))? {
        releases.push(entry.map_err(of(&installed))?.file_name().to_string_lossy().into_owned());
    }
    releases.sort_unstable();
    match releases.as_slice() {
        [release] => Ok(installed.join(release)),
        _ => Err(KernelError::NotOneRelease { path: installed, releases }),
    }
}

/// Takes the folder's name for a release if it begins as one does, with two numbers.
fn release_of_name(modules: &Path) -> Result<String, KernelError> {
    let absolute = fs::canonicalize(modules);
    let absolute = absolute.map_err(|source| KernelError::NoModules { path: modules.to_owned(), source })?;
    let name = absolute.file_name().unwrap_or_default().to_string_lossy();
    let mut numbers = name.splitn(3, '.').map(|part| part.starts_with(|c: char| c.is_ascii_digit()));
    match (numbers.next(), numbers.next()) {
        (Some(true), Some(true)) => Ok(name.into_owned()),
        _ => Err(KernelError::NoRelease(modules.to_owned())),
    }
}
