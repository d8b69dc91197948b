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
        "no kernel {choice} in {cache}; fetch one with `iotoll lab fetch`, \
         or give your own with --kernel and --modules"
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
        "{package} was fetched, but {path} is gone; \
         delete {folder} and fetch it again with `iotoll lab fetch`"
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
    #[error("modules in {path}")]
    NoModules {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder of the user's modules holds those of several kernels, or of none.
    #[error(
        "{path} holds the modules of {} kernels ({}); expected one, name its own folder",
        releases.len(), releases.join(", ")
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::kernel::{Series, modinfo::tests::module};
    use object::{Architecture, Endianness};

    const CHOICE: KernelChoice = KernelChoice { arch: Arch::X86, series: Series::V6_1 };

    fn put(cache: &Cache, name: &str, version: &str, files: &[&str]) {
        let package = Package { name: name.to_owned(), version: version.to_owned() };
        for file in files {
            let path = cache.package_folder(Arch::X86, &package).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }

    fn put_kernel(cache: &Cache, release: &str, version: &str) {
        let files = [format!("boot/vmlinuz-{release}"), format!("lib/modules/{release}/modules.builtin")];
        put(cache, &format!("linux-image-{release}"), version, &files.each_ref().map(String::as_str));
    }

    #[test]
    fn the_newest_is_found() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let text = Kernel::newest(&cache, CHOICE).unwrap_err().to_string();
        assert!(
            text.starts_with("no kernel 6.1 for x86 in /") && text.contains("`iotoll lab fetch`"),
            "{text}"
        );
        put_kernel(&cache, "6.1.0-9-amd64", "6.1.27-1");
        put_kernel(&cache, "6.1.0-56-amd64", "6.1.192-2");
        put_kernel(&cache, "6.1.0-56-cloud-amd64", "6.1.193-1");
        put_kernel(&cache, "6.12.117+deb12-amd64", "6.12.117-1~deb12u1");
        let kernel = Kernel::newest(&cache, CHOICE).unwrap();
        assert_eq!(kernel.release, "6.1.0-56-amd64");
        assert_eq!(kernel.package.unwrap().version, "6.1.192-2");
        assert!(kernel.image.is_file() && kernel.modules.ends_with("lib/modules/6.1.0-56-amd64"));
        let newer = KernelChoice { series: Series::V6_12, ..CHOICE };
        assert_eq!(Kernel::newest(&cache, newer).unwrap().release, "6.12.117+deb12-amd64");
    }

    #[test]
    fn what_is_gone_is_named() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        put(&cache, "linux-image-6.1.0-9-amd64", "6.1.27-1", &["boot/vmlinuz-6.1.0-9-amd64"]);
        let error = Kernel::newest(&cache, CHOICE).unwrap_err();
        let KernelError::Incomplete { path, .. } = error else { panic!("{error}") };
        assert!(path.ends_with("lib/modules/6.1.0-9-amd64"), "{}", path.display());
        assert!(matches!(busybox(&cache, Arch::X86), Err(KernelError::NoBusybox { .. })));
        put(&cache, "busybox-static", "1:1.35.0-4", &["other"]);
        assert!(matches!(busybox(&cache, Arch::X86), Err(KernelError::Incomplete { .. })));
        put(&cache, "busybox-static", "1:1.36.0-1", &["bin/busybox"]);
        assert!(busybox(&cache, Arch::X86).unwrap().ends_with("busybox-static_1:1.36.0-1/bin/busybox"));
    }

    /// A user's folder, with a module for kernel `vermagic` at `path` if that is given.
    fn of_user(
        module_at: Option<(&str, &str)>,
        folders: &[&str],
        given: &str,
    ) -> Result<Kernel, KernelError> {
        let root = tempfile::tempdir().unwrap();
        let image = root.path().join("vmlinux");
        fs::write(&image, "").unwrap();
        folders.iter().for_each(|folder| fs::create_dir_all(root.path().join(folder)).unwrap());
        if let Some((path, vermagic)) = module_at {
            let section = format!("depends=\0vermagic={vermagic}\0");
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, module(Architecture::X86_64, Endianness::Little, section.as_bytes())).unwrap();
        }
        Kernel::of_user(Arch::X86, &image, &root.path().join(given))
    }

    #[test]
    fn kernels_of_the_user() {
        let check = |module_at, folders: &[&str], given: &str, expect: &str| {
            let kernel = of_user(module_at, folders, given).unwrap();
            assert_eq!((kernel.release.as_str(), kernel.package), (expect, None), "{given}");
        };
        check(Some(("linux/drivers/a.ko", "6.9.0-rc1+ SMP")), &[], "linux", "6.9.0-rc1+");
        check(Some(("m/lib/modules/6.9.0/a.ko", "6.9.0 SMP")), &[], "m", "6.9.0");
        check(None, &["m/usr/lib/modules/6.9.0"], "m", "6.9.0");
        check(None, &["6.9.0-mine"], "6.9.0-mine", "6.9.0-mine");
    }

    #[test]
    fn what_the_user_must_say_better() {
        assert!(matches!(of_user(None, &["linux"], "linux"), Err(KernelError::NoRelease(_))));
        assert!(matches!(of_user(None, &[], "nowhere"), Err(KernelError::NoModules { .. })));
        let two =
            of_user(None, &["m/lib/modules/6.1.0", "m/lib/modules/6.9.0"], "m").unwrap_err().to_string();
        assert!(two.contains("holds the modules of 2 kernels (6.1.0, 6.9.0)"), "{two}");
        let none = Kernel::of_user(Arch::X86, Path::new("/nowhere/vmlinux"), Path::new("/"));
        assert!(matches!(none, Err(KernelError::NoImage(_))));
    }
}
