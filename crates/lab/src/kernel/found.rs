//! Finds downloaded kernels and busyboxes in the cache, and reads the user's own kernel.

use super::{
    Cache, CacheError, KernelChoice, Package, image,
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
    /// The package that it came in; `None` for the user's own kernel.
    pub package: Option<Package>,
    /// The image to boot.
    pub image: PathBuf,
    /// The folder of its modules, such as `lib/modules/6.1.0-56-amd64`.
    pub modules: PathBuf,
}

/// Why a kernel or a busybox was not found.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No kernel of this choice is in the cache.
    #[error(
        "no kernel {choice} in {cache}; fetch one with `iotoll lab fetch`, \
         or give your own with --kernel and --modules"
    )]
    NotFetched {
        /// The wanted kernel.
        choice: KernelChoice,
        /// The cache's folder.
        cache: PathBuf,
    },
    /// No busybox is in the cache.
    #[error("no busybox for {arch} in {cache}; fetch it with `iotoll lab fetch`")]
    NoBusybox {
        /// The guest's architecture.
        arch: Arch,
        /// The cache's folder.
        cache: PathBuf,
    },
    /// A file of a downloaded package was deleted from the cache.
    #[error(
        "{package} was fetched, but {path} no longer exists; \
         delete {folder} and fetch it again with `iotoll lab fetch`"
    )]
    Incomplete {
        /// The package.
        package: Package,
        /// The missing file or folder.
        path: PathBuf,
        /// The package's folder.
        folder: PathBuf,
    },
    /// The cache can't be read.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The user's kernel image is not a file.
    #[error("the kernel image {0} is not a file")]
    NoImage(PathBuf),
    /// The user's kernel image can't be read.
    #[error("can't read {path}")]
    Image {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The user's file is not a kernel that QEMU boots.
    #[error("{path} is not a kernel for {arch}; expected {expected}")]
    NotAKernel {
        /// The file.
        path: PathBuf,
        /// The guest's architecture.
        arch: Arch,
        /// What it should be.
        expected: &'static str,
    },
    /// The folder of the user's modules can't be listed.
    #[error("can't list the modules in {path}")]
    NoModules {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The user's folder has the modules of several kernels, or of none.
    #[error(
        "{path} has the modules of {} kernels ({}); expected the folder of one of them",
        releases.len(), releases.join(", ")
    )]
    NotOneRelease {
        /// The folder `lib/modules`.
        path: PathBuf,
        /// The folders in it.
        releases: Vec<String>,
    },
    /// Neither a module nor the folder's name contains the kernel's release.
    #[error(
        "the release of the modules in {0} is unknown; expected a module with a vermagic, or a folder named after the release"
    )]
    NoRelease(PathBuf),
    /// One of the user's modules can't be read.
    #[error(transparent)]
    Module(#[from] ModuleError),
}

impl Kernel {
    /// The newest kernel of a choice in the cache.
    ///
    /// # Errors
    /// If there is none, or part of it was deleted.
    pub fn newest(cache: &Cache, choice: KernelChoice) -> Result<Self, KernelError> {
        let kept = cache.packages(choice.arch)?;
        let kernels = kept.into_iter().filter(|package| choice.release_in(package).is_some());
        let newest = kernels.max_by(Package::compare_versions);
        let not_fetched = || KernelError::NotFetched { choice, cache: cache.root().to_owned() };
        Self::of_package(cache, choice, newest.ok_or_else(not_fetched)?)
    }

    /// The kernel in a downloaded package.
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

    /// The user's own kernel.
    ///
    /// `modules` is the folder of its modules, or a folder that contains `lib/modules/<release>`, or the kernel's
    /// build folder. The release is the one that the modules were built for; without modules, it is the
    /// folder's name.
    ///
    /// # Errors
    /// If the image is not a kernel, or the modules or their release can't be determined.
    pub fn of_user(arch: Arch, image: &Path, modules: &Path) -> Result<Self, KernelError> {
        if !image.is_file() {
            return Err(KernelError::NoImage(image.to_owned()));
        }
        image::check(arch, image)?;
        let modules = module_folder(modules)?;
        let release = match release_of_modules(&modules)? {
            Some(release) => release,
            None => release_of_name(&modules)?,
        };
        Ok(Self { arch, release, package: None, image: image.to_owned(), modules })
    }
}

/// Path of the newest statically linked busybox in the cache.
///
/// # Errors
/// If there is none, or it was deleted.
pub fn busybox(cache: &Cache, arch: Arch) -> Result<PathBuf, KernelError> {
    let kept = cache.packages(arch)?.into_iter().filter(|package| package.name == BUSYBOX_PACKAGE);
    let none = || KernelError::NoBusybox { arch, cache: cache.root().to_owned() };
    let package = kept.max_by(Package::compare_versions).ok_or_else(none)?;
    let folder = cache.package_folder(arch, &package);
    let path = folder.join(BUSYBOX_PATH);
    match path.is_file() {
        true => Ok(path),
        false => Err(KernelError::Incomplete { package, path, folder }),
    }
}

/// Debian's package with the statically linked busybox.
pub(super) const BUSYBOX_PACKAGE: &str = "busybox-static";

/// Path of busybox in its package's folder.
pub(super) const BUSYBOX_PATH: &str = "bin/busybox";

/// Path of a kernel's image in its package's folder.
pub(super) fn image_path(arch: Arch, release: &str) -> String {
    let name = match arch {
        Arch::X86 | Arch::Arm => "vmlinuz",
        // POWER's firmware loads the uncompressed ELF file.
        Arch::Ppc => "vmlinux",
    };
    format!("boot/{name}-{release}")
}

/// Path of a kernel's modules in its package's folder.
pub(super) fn modules_path(release: &str) -> String {
    format!("lib/modules/{release}")
}

/// The only folder in `folder/lib/modules`, if that exists; else `folder` itself.
fn module_folder(folder: &Path) -> Result<PathBuf, KernelError> {
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

/// The release that a folder of modules is named after: its name, if that begins with two numbers.
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

    fn put_package(cache: &Cache, name: &str, version: &str, files: &[&str]) {
        let package = Package { name: name.to_owned(), version: version.to_owned() };
        for file in files {
            let path = cache.package_folder(Arch::X86, &package).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }

    fn put_kernel(cache: &Cache, release: &str, version: &str) {
        let files = [format!("boot/vmlinuz-{release}"), format!("lib/modules/{release}/modules.builtin")];
        put_package(cache, &format!("linux-image-{release}"), version, &files.each_ref().map(String::as_str));
    }

    #[test]
    fn the_newest_kernel_of_a_series_is_found() {
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
    fn a_deleted_file_of_a_package_is_named() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        put_package(&cache, "linux-image-6.1.0-9-amd64", "6.1.27-1", &["boot/vmlinuz-6.1.0-9-amd64"]);
        let error = Kernel::newest(&cache, CHOICE).unwrap_err();
        let KernelError::Incomplete { path, .. } = error else { panic!("{error}") };
        assert!(path.ends_with("lib/modules/6.1.0-9-amd64"), "{}", path.display());
        assert!(matches!(busybox(&cache, Arch::X86), Err(KernelError::NoBusybox { .. })));
        put_package(&cache, "busybox-static", "1:1.35.0-4", &["other"]);
        assert!(matches!(busybox(&cache, Arch::X86), Err(KernelError::Incomplete { .. })));
        put_package(&cache, "busybox-static", "1:1.36.0-1", &["bin/busybox"]);
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
        fs::write(&image, image::bz_image()).unwrap();
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
    fn the_user_s_modules_are_found_with_their_release() {
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
    fn missing_or_ambiguous_modules_of_the_user_are_errors() {
        assert!(matches!(of_user(None, &["linux"], "linux"), Err(KernelError::NoRelease(_))));
        assert!(matches!(of_user(None, &[], "nowhere"), Err(KernelError::NoModules { .. })));
        let two =
            of_user(None, &["m/lib/modules/6.1.0", "m/lib/modules/6.9.0"], "m").unwrap_err().to_string();
        assert!(two.contains("has the modules of 2 kernels (6.1.0, 6.9.0)"), "{two}");
        let none = Kernel::of_user(Arch::X86, Path::new("/nowhere/vmlinux"), Path::new("/"));
        assert!(matches!(none, Err(KernelError::NoImage(_))));
    }
}
