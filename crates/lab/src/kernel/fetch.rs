//! Fetches kernels, and a busybox for each architecture, as Debian packages.

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

/// What is being done.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Another fetch for the same architecture is in progress; this one waits for it.
    Waiting(Arch),
    /// The archive's package lists are brought up to date.
    Lists {
        /// The architecture.
        arch: Arch,
        /// 0 to 100.
        percent: f64,
    },
    /// A package is on its way.
    Download {
        /// The package.
        package: Package,
        /// Bytes that are here, as far as apt says.
        bytes_done: u64,
        /// Bytes of the whole package.
        bytes: u64,
    },
    /// A package is being unpacked.
    Unpack(Package),
    /// A package is now in the cache.
    Kept(Package),
    /// A package was in the cache, and is still the newest.
    AlreadyKept(Package),
}

/// What keeps things from being fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// apt or dpkg.
    #[error(transparent)]
    Apt(#[from] AptError),
    /// A package that should lead to a kernel leads elsewhere.
    #[error("{package} does not depend on a kernel {choice}; it depends on {}", list(depends))]
    NoKernelBehind {
        /// What was wanted.
        choice: KernelChoice,
        /// The package that was to lead there.
        package: Package,
        /// Where it leads.
        depends: Vec<Package>,
    },
    /// A package is not laid out as expected.
    #[error("{package} holds no {path}")]
    NotInPackage {
        /// The package.
        package: Package,
        /// What was expected in it.
        path: String,
    },
    /// What was just fetched can't be found.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The cache can't be written.
    #[error("{path}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn list(packages: &[Package]) -> String {
    let names: Vec<_> = packages.iter().map(Package::to_string).collect();
    if names.is_empty() { "no one version of anything".to_owned() } else { names.join(", ") }
}

fn on(path: &Path) -> impl FnOnce(io::Error) -> FetchError {
    move |source| FetchError::File { path: path.to_owned(), source }
}

/// Fetches the newest kernels of `choices`, and a busybox for each of their architectures, into `cache`.
///
/// What is already there is not fetched again. Older kernels stay. A proxy is taken from `http_proxy`.
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
            kernels.extend(Errand::begin(cache, arch, mirror, progress)?.run(&wanted)?);
        }
    }
    Ok(kernels)
}

/// Fetching for one architecture.
struct Errand<'a> {
    cache: &'a Cache,
    arch: Arch,
    apt: Apt,
    /// Emptied at the start, and on the file system that finished things are renamed within.
    work: PathBuf,
    progress: &'a mut dyn FnMut(Progress),
    /// Held locked until the errand ends.
    _lock: File,
}

impl<'a> Errand<'a> {
    fn begin(
        cache: &'a Cache,
        arch: Arch,
        mirror: &Mirror,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Result<Self, FetchError> {
        let folder = cache.apt_folder(arch);
        fs::create_dir_all(&folder).map_err(on(&folder))?;
        let lock = lock(&folder.join("lock"), || progress(Progress::Waiting(arch)))?;
        let apt = Apt::set_up(&folder, arch, mirror)?;
        let work = folder.join("work");
        empty(&work)?;
        Ok(Self { cache, arch, apt, work, progress, _lock: lock })
    }

    fn run(mut self, choices: &[KernelChoice]) -> Result<Vec<Kernel>, FetchError> {
        let arch = self.arch;
        let progress = &mut self.progress;
        self.apt.refresh(&mut |Percent(percent)| progress(Progress::Lists { arch, percent }))?;
        let mut kernels = Vec::new();
        for choice in choices {
            kernels.push(self.fetch_kernel(*choice)?);
        }
        let busybox = self.apt.offer(BUSYBOX_PACKAGE)?;
        self.keep(&busybox, &[BUSYBOX_PATH.to_owned()])?;
        fs::remove_dir_all(&self.work).map_err(on(&self.work))?;
        Ok(kernels)
    }

    fn fetch_kernel(&mut self, choice: KernelChoice) -> Result<Kernel, FetchError> {
        let meta = self.apt.offer(&choice.meta_package())?;
        let behind = meta.depends.iter().find_map(|on| Some((on, choice.release_in(on)?)));
        let Some((package, release)) = behind else {
            return Err(FetchError::NoKernelBehind { choice, package: meta.package, depends: meta.depends });
        };
        let offer = self.apt.offer(&package.apt_word())?;
        self.keep(&offer, &[image_path(self.arch, release), modules_path(release), config_path(release)])?;
        Ok(Kernel::of_package(self.cache, choice, offer.package)?)
    }

    /// Has a package in the cache: `paths` of it, and no more.
    fn keep(&mut self, offer: &Offer, paths: &[String]) -> Result<(), FetchError> {
        let package = &offer.package;
        let place = self.cache.package_folder(self.arch, package);
        if place.exists() {
            (self.progress)(Progress::AlreadyKept(package.clone()));
            return Ok(());
        }
        let file = self.download(offer)?;
        (self.progress)(Progress::Unpack(package.clone()));
        let unpacked = self.work.join("unpacked");
        empty(&unpacked)?;
        apt::unpack(&file, &unpacked)?;
        let kept = self.work.join("kept");
        empty(&kept)?;
        pick(package, paths, &unpacked, &kept)?;
        finish(&kept, &place)?;
        (self.progress)(Progress::Kept(package.clone()));
        Ok(())
    }

    fn download(&mut self, offer: &Offer) -> Result<PathBuf, FetchError> {
        let folder = self.work.join("download");
        empty(&folder)?;
        let (package, bytes) = (&offer.package, offer.bytes);
        let progress = &mut self.progress;
        let file = self.apt.download(package, &folder, &mut |Percent(percent)| {
            let bytes_done = (bytes as f64 * percent / 100.0) as u64;
            progress(Progress::Download { package: package.clone(), bytes_done, bytes });
        })?;
        Ok(file)
    }
}

/// What the kernel was built with, which tells what a stock kernel of the time does by default.
fn config_path(release: &str) -> String {
    format!("boot/config-{release}")
}

/// Locks a file, and says so if another has it.
fn lock(path: &Path, waiting: impl FnOnce()) -> Result<File, FetchError> {
    // Nothing is ever written to it: whatever a link leads to stays as it is.
    let opened = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = opened.map_err(on(path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(fs::TryLockError::WouldBlock) => waiting(),
        Err(fs::TryLockError::Error(source)) => return Err(on(path)(source)),
    }
    file.lock().map_err(on(path))?;
    Ok(file)
}

/// Makes a folder that holds nothing.
fn empty(folder: &Path) -> Result<(), FetchError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(on(folder)(error)),
        _ => {}
    }
    fs::create_dir_all(folder).map_err(on(folder))
}

/// Moves `paths` from an unpacked package to another folder.
fn pick(package: &Package, paths: &[String], unpacked: &Path, kept: &Path) -> Result<(), FetchError> {
    for path in paths {
        // Later Debians have everything in /usr.
        let places = [unpacked.join(path), unpacked.join("usr").join(path)];
        let missing = || FetchError::NotInPackage { package: package.clone(), path: path.clone() };
        let from = places.iter().find(|place| place.exists()).ok_or_else(missing)?;
        let to = kept.join(path);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(on(parent))?;
        }
        fs::rename(from, &to).map_err(on(&to))?;
    }
    Ok(())
}

/// Puts a finished folder into its place, on disk before it shows there.
fn finish(kept: &Path, place: &Path) -> Result<(), FetchError> {
    let folder = File::open(kept).map_err(on(kept))?;
    rustix::fs::syncfs(&folder).map_err(|error| on(kept)(error.into()))?;
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).map_err(on(parent))?;
    }
    fs::rename(kept, place).map_err(on(place))
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
    fn a_package_is_unpacked_picked_from_and_put_in_place() {
        let root = tempfile::tempdir().unwrap();
        let files = ["boot/vmlinuz-1", "boot/System.map-1", "usr/lib/modules/1/kernel/a.ko"];
        let Some(file) = deb(root.path(), &files) else {
            skip("no program dpkg-deb here to build a package with");
            return;
        };
        let [unpacked, kept, place] =
            ["unpacked", "kept", "packages/x86/a_1"].map(|name| root.path().join(name));
        empty(&unpacked).unwrap();
        apt::unpack(&file, &unpacked).unwrap();
        empty(&kept).unwrap();
        pick(&package(), &["boot/vmlinuz-1".to_owned(), "lib/modules/1".to_owned()], &unpacked, &kept)
            .unwrap();
        finish(&kept, &place).unwrap();
        assert_eq!(fs::read_to_string(place.join("lib/modules/1/kernel/a.ko")).unwrap(), files[2]);
        assert_eq!(fs::read_dir(place.join("boot")).unwrap().count(), 1);
        assert!(!kept.exists());
        let error = pick(&package(), &["bin/busybox".to_owned()], &unpacked, &kept).unwrap_err();
        assert_eq!(error.to_string(), "linux-image-6.1.0-1-amd64 6.1.1-1 holds no bin/busybox");
        fs::write(&file, "no package").unwrap();
        assert!(matches!(apt::unpack(&file, &unpacked), Err(AptError::Failed { .. })));
    }

    #[test]
    fn a_lock_is_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lock");
        let held = lock(&path, || panic!("nobody has it")).unwrap();
        let (waits, waiting) = std::sync::mpsc::channel();
        let second = std::thread::spawn(move || lock(&path, || waits.send(()).unwrap()).map(drop));
        waiting.recv().unwrap();
        assert!(!second.is_finished());
        drop(held);
        second.join().unwrap().unwrap();
    }
}
