//! Downloads kernels, and a busybox for each architecture, as Debian packages.

use super::{
    Cache, Kernel, KernelChoice, KernelError, Mirror, Package,
    apt::{self, Apt, Offer, Percent},
    found::{BUSYBOX_PACKAGE, BUSYBOX_PATH, image_path, modules_path},
};
use crate::Arch;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

pub use super::apt::AptError;

/// A step of a fetch, reported while it runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Another fetch for the same architecture holds the lock; this one waits for it.
    Waiting(Arch),
    /// The archive's package lists are being downloaded.
    Lists {
        /// The architecture.
        arch: Arch,
        /// 0 to 100.
        percent: f64,
    },
    /// A package is being downloaded.
    Download {
        /// The package.
        package: Package,
        /// Bytes downloaded so far, from apt's percentage.
        bytes_done: u64,
        /// Size of the package.
        bytes: u64,
    },
    /// A package is being unpacked.
    Unpack(Package),
    /// A package is now in the cache.
    Kept(Package),
    /// The newest version of a package was already in the cache.
    AlreadyKept(Package),
}

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// apt or dpkg failed.
    #[error(transparent)]
    Apt(#[from] AptError),
    /// A metapackage does not depend on a kernel of its series.
    #[error("{package} depends on {}; expected a kernel {choice}", list(depends))]
    NoKernelInMetapackage {
        /// The wanted kernel.
        choice: KernelChoice,
        /// The metapackage.
        package: Package,
        /// Its exact dependencies.
        depends: Vec<Package>,
    },
    /// A package lacks an expected file.
    #[error("{package} has no {path}")]
    NotInPackage {
        /// The package.
        package: Package,
        /// The missing file or folder.
        path: String,
    },
    /// The downloaded kernel is incomplete.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The cache can't be written.
    #[error("{path}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Names and versions joined by commas.
fn list(packages: &[Package]) -> String {
    let names: Vec<_> = packages.iter().map(Package::to_string).collect();
    if names.is_empty() { "no exact version of any package".to_owned() } else { names.join(", ") }
}

/// Turns an I/O error into one that names the file.
fn file_error(path: &Path) -> impl FnOnce(io::Error) -> FetchError {
    move |source| FetchError::File { path: path.to_owned(), source }
}

/// Downloads the newest kernels of `choices`, and a busybox for each of their architectures, into `cache`.
///
/// Packages already in the cache are not downloaded again, and older kernels stay. apt uses the proxy in the
/// environment variable `http_proxy`.
///
/// # Errors
/// If the host lacks apt, dpkg or the archive's keys, if the archive can't be reached or verified or
/// lacks the packages, or if the cache can't be written.
pub fn fetch(
    cache: &Cache,
    choices: &[KernelChoice],
    mirror: &Mirror,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Kernel>, FetchError> {
    let mut kernels = Vec::new();
    for arch in Arch::ALL {
        let wanted: Vec<_> = choices.iter().copied().filter(|choice| choice.arch == arch).collect();
        if !wanted.is_empty() {
            kernels.extend(ArchFetch::begin(cache, arch, mirror, progress)?.run(&wanted)?);
        }
    }
    Ok(kernels)
}

/// A fetch of one architecture's packages.
struct ArchFetch<'a> {
    cache: &'a Cache,
    arch: Arch,
    apt: Apt,
    /// Temporary folder. It is on the cache's file system, so that finished packages can be renamed into place.
    work: PathBuf,
    progress: &'a mut dyn FnMut(Progress),
    /// Holds the lock on the architecture's part of the cache.
    _lock: File,
}

impl<'a> ArchFetch<'a> {
    /// Takes the lock, waiting for another fetch if necessary, and sets up apt.
    fn begin(
        cache: &'a Cache,
        arch: Arch,
        mirror: &Mirror,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Result<Self, FetchError> {
        let folder = cache.apt_folder(arch);
        fs::create_dir_all(&folder).map_err(file_error(&folder))?;
        let lock = lock_file(&folder.join("lock"), || progress(Progress::Waiting(arch)))?;
        let apt = Apt::set_up(&folder, arch, mirror)?;
        let work = folder.join("work");
        create_empty(&work)?;
        Ok(Self { cache, arch, apt, work, progress, _lock: lock })
    }

    /// Downloads the kernels and the busybox.
    fn run(mut self, choices: &[KernelChoice]) -> Result<Vec<Kernel>, FetchError> {
        let arch = self.arch;
        let progress = &mut self.progress;
        self.apt.update_indexes(&mut |Percent(percent)| progress(Progress::Lists { arch, percent }))?;
        let mut kernels = Vec::new();
        for choice in choices {
            kernels.push(self.fetch_kernel(*choice)?);
        }
        let busybox = self.apt.find_offer(BUSYBOX_PACKAGE)?;
        self.install(&busybox, &[BUSYBOX_PATH.to_owned()])?;
        fs::remove_dir_all(&self.work).map_err(file_error(&self.work))?;
        Ok(kernels)
    }

    /// Downloads the newest kernel of a choice, unless the cache has it.
    fn fetch_kernel(&mut self, choice: KernelChoice) -> Result<Kernel, FetchError> {
        let meta = self.apt.find_offer(&choice.meta_package())?;
        let kernel = meta.depends.iter().find_map(|package| Some((package, choice.release_in(package)?)));
        let Some((package, release)) = kernel else {
            let Offer { package, depends, .. } = meta;
            return Err(FetchError::NoKernelInMetapackage { choice, package, depends });
        };
        let offer = self.apt.find_offer(&package.apt_argument())?;
        self.install(&offer, &[image_path(self.arch, release), modules_path(release), config_path(release)])?;
        Ok(Kernel::of_package(self.cache, choice, offer.package)?)
    }

    /// Downloads and unpacks a package, unless the cache has it, and moves only `paths` of it into the cache.
    fn install(&mut self, offer: &Offer, paths: &[String]) -> Result<(), FetchError> {
        let package = &offer.package;
        let place = self.cache.package_folder(self.arch, package);
        if place.exists() {
            (self.progress)(Progress::AlreadyKept(package.clone()));
            return Ok(());
        }
        let file = self.download(offer)?;
        (self.progress)(Progress::Unpack(package.clone()));
        let unpacked = self.work.join("unpacked");
        create_empty(&unpacked)?;
        apt::unpack(&file, &unpacked)?;
        let kept = self.work.join("kept");
        create_empty(&kept)?;
        move_paths(package, paths, &unpacked, &kept)?;
        sync_and_rename(&kept, &place)?;
        (self.progress)(Progress::Kept(package.clone()));
        Ok(())
    }

    /// Downloads a package and reports the progress.
    fn download(&mut self, offer: &Offer) -> Result<PathBuf, FetchError> {
        let folder = self.work.join("download");
        create_empty(&folder)?;
        let (package, bytes) = (&offer.package, offer.bytes);
        let progress = &mut self.progress;
        let file = self.apt.download(package, &folder, &mut |Percent(percent)| {
            let bytes_done = (bytes as f64 * percent / 100.0) as u64;
            progress(Progress::Download { package: package.clone(), bytes_done, bytes });
        })?;
        Ok(file)
    }
}

/// Path of the kernel's build configuration, which documents the defaults of Debian's kernel.
fn config_path(release: &str) -> String {
    format!("boot/config-{release}")
}

/// Locks a file. Calls `waiting` first if another process holds the lock.
fn lock_file(path: &Path, waiting: impl FnOnce()) -> Result<File, FetchError> {
    // Nothing is written to it: if it is a symbolic link, its target stays unchanged.
    let opened = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = opened.map_err(file_error(path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(fs::TryLockError::WouldBlock) => waiting(),
        Err(fs::TryLockError::Error(source)) => return Err(file_error(path)(source)),
    }
    file.lock().map_err(file_error(path))?;
    Ok(file)
}

/// Creates an empty folder; deletes the contents of an existing one.
fn create_empty(folder: &Path) -> Result<(), FetchError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file_error(folder)(error)),
        _ => {}
    }
    fs::create_dir_all(folder).map_err(file_error(folder))
}

/// Moves `paths` from the folder `unpacked` to the folder `kept`.
fn move_paths(package: &Package, paths: &[String], unpacked: &Path, kept: &Path) -> Result<(), FetchError> {
    for path in paths {
        // Later Debian releases have these paths below /usr.
        let places = [unpacked.join(path), unpacked.join("usr").join(path)];
        let missing = || FetchError::NotInPackage { package: package.clone(), path: path.clone() };
        let from = places.iter().find(|place| place.exists()).ok_or_else(missing)?;
        let to = kept.join(path);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(file_error(parent))?;
        }
        fs::rename(from, &to).map_err(file_error(&to))?;
    }
    Ok(())
}

/// Renames a finished folder to `place`, after its files are written to the disk.
fn sync_and_rename(kept: &Path, place: &Path) -> Result<(), FetchError> {
    let folder = File::open(kept).map_err(file_error(kept))?;
    rustix::fs::syncfs(&folder).map_err(|error| file_error(kept)(error.into()))?;
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).map_err(file_error(parent))?;
    }
    fs::rename(kept, place).map_err(file_error(place))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::skip::skip;
    use std::process::Command;

    fn package() -> Package {
        Package { name: "linux-image-6.1.0-1-amd64".to_owned(), version: "6.1.1-1".to_owned() }
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A package file with the given files, if there is a program to build it.
    fn deb(folder: &Path, files: &[&str]) -> Option<PathBuf> {
        let (tree, file) = (folder.join("tree"), folder.join("a.deb"));
        let control = "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: a\n";
        write(&tree.join("DEBIAN/control"), control);
        files.iter().for_each(|path| write(&tree.join(path), path));
        let mut command = Command::new("dpkg-deb");
        let ran =
            command.args(["-Znone", "--root-owner-group", "--build"]).args([&tree, &file]).output().ok()?;
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Some(file)
    }

    #[test]
    fn a_package_is_unpacked_and_only_the_wanted_paths_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let files = ["boot/vmlinuz-1", "boot/System.map-1", "usr/lib/modules/1/kernel/a.ko"];
        let Some(file) = deb(root.path(), &files) else {
            skip("the program dpkg-deb is not installed");
            return;
        };
        let [unpacked, kept, place] =
            ["unpacked", "kept", "packages/x86/a_1"].map(|name| root.path().join(name));
        create_empty(&unpacked).unwrap();
        apt::unpack(&file, &unpacked).unwrap();
        create_empty(&kept).unwrap();
        move_paths(&package(), &["boot/vmlinuz-1".to_owned(), "lib/modules/1".to_owned()], &unpacked, &kept)
            .unwrap();
        sync_and_rename(&kept, &place).unwrap();
        assert_eq!(fs::read_to_string(place.join("lib/modules/1/kernel/a.ko")).unwrap(), files[2]);
        assert_eq!(fs::read_dir(place.join("boot")).unwrap().count(), 1);
        assert!(!kept.exists());
        let error = move_paths(&package(), &["bin/busybox".to_owned()], &unpacked, &kept).unwrap_err();
        assert_eq!(error.to_string(), "linux-image-6.1.0-1-amd64 6.1.1-1 has no bin/busybox");
        fs::write(&file, "no package").unwrap();
        assert!(matches!(apt::unpack(&file, &unpacked), Err(AptError::Failed { .. })));
    }

    #[test]
    fn a_lock_is_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lock");
        let held = lock_file(&path, || panic!("the lock is free")).unwrap();
        let (waits, waiting) = std::sync::mpsc::channel();
        let second = std::thread::spawn(move || lock_file(&path, || waits.send(()).unwrap()).map(drop));
        waiting.recv().unwrap();
        assert!(!second.is_finished());
        drop(held);
        second.join().unwrap().unwrap();
    }
}
