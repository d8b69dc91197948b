//! The steps of a takeover, one at a time, on a tree whose control files are named pipes.
//!
//! Whoever opens a pipe for writing waits until somebody opens it for reading. So a test stops a takeover before any step, looks at
//! what was done until then, and then does what the kernel would do.

#[path = "../../../../tests/skip.rs"]
mod skip;

use super::{ADDRESS, Tree};
use nvme::takeover::{Candidate, Takeover, TakeoverError};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Each step of a takeover comes within this.
const STEP_LIMIT: Duration = Duration::from_secs(10);

const PROBE: &str = "sys/bus/pci/drivers_probe";

/// The tree of a host, and what its kernel does when a control file is written.
struct Kernel {
    tree: Tree,
}

impl Kernel {
    fn new() -> Self {
        let tree = Tree::new();
        let kernel = Self { tree };
        kernel.pipe(PROBE);
        for driver in ["nvme", "vfio-pci"] {
            for file in ["bind", "unbind"] {
                kernel.pipe(&control(driver, file));
            }
        }
        kernel
    }

    fn pipe(&self, inside: &str) {
        let path = self.tree.path(inside);
        let _ = fs::remove_file(&path);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Starts to unbind the adapter, in a thread of its own.
    fn start_unbind(
        &self,
        tell: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Work<Result<Takeover, TakeoverError>> {
        let (root, candidate) = (self.tree.root(), self.tree.candidate());
        start(move || Takeover::unbind_from_kernel(&root, &candidate, tell))
    }

    /// Starts to rebind the adapter, in a thread of its own.
    fn start_rebind(&self, takeover: &Takeover) -> Work<Result<(), TakeoverError>> {
        let (root, takeover) = (self.tree.root(), takeover.clone());
        start(move || takeover.rebind(&root))
    }

    /// Waits for what is written to a control file. Until this is called, the writer waits.
    fn expect_write(&self, inside: &str, expected: &str) {
        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let mut pipe =
            OpenOptions::new().read(true).custom_flags(nonblock).open(self.tree.path(inside)).unwrap();
        let (begin, mut written) = (Instant::now(), String::new());
        while written != expected {
            assert!(begin.elapsed() < STEP_LIMIT, "{inside}: {written:?}; expected {expected:?}");
            match pipe.read_to_string(&mut written) {
                Ok(_) => thread::sleep(Duration::from_millis(1)),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{inside}: {error}"),
            }
        }
    }

    /// Waits until a control file that is a pipe is read, and shows that text.
    fn show(&self, inside: &str, text: &str) {
        let begin = Instant::now();
        let wait = |what: &str| {
            assert!(begin.elapsed() < STEP_LIMIT, "nobody {what} {inside}");
            thread::sleep(Duration::from_millis(1));
        };
        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let mut pipe = loop {
            match OpenOptions::new().write(true).custom_flags(nonblock).open(self.tree.path(inside)) {
                Ok(pipe) => break pipe,
                Err(_) => wait("opens"),
            }
        };
        pipe.write_all(text.as_bytes()).unwrap();
        // Until it is read, whoever opens the pipe next would get it.
        while rustix::io::ioctl_fionread(&pipe).unwrap() > 0 {
            wait("reads");
        }
    }

    /// Waits for a `driver_override`, and then shows it as the kernel does: a plain file keeps the rest of a longer text.
    fn expect_override(&self, expected: &str) {
        let file = format!("sys/bus/pci/devices/{ADDRESS}/driver_override");
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(self.tree.path(&file)).unwrap();
            if text.starts_with(expected) {
                break;
            }
            assert!(begin.elapsed() < STEP_LIMIT, "driver_override is {text:?}; expected {expected:?}");
            thread::sleep(Duration::from_millis(1));
        }
        let shown = if expected == "\n" { "(null)\n".to_owned() } else { format!("{expected}\n") };
        self.tree.file(&file, &shown);
    }

    fn driver_override(&self) -> String {
        fs::read_to_string(self.tree.path(&format!("sys/bus/pci/devices/{ADDRESS}/driver_override"))).unwrap()
    }

    /// The adapter gets a driver, or none.
    fn bind(&self, driver: Option<&str>) {
        let link = format!("sys/bus/pci/devices/{ADDRESS}/driver");
        match driver {
            Some(driver) => self.tree.link(&link, &self.tree.path(&format!("sys/bus/pci/drivers/{driver}"))),
            None => fs::remove_file(self.tree.path(&link)).unwrap(),
        }
    }

    /// Whether this process has the adapter's disk open.
    fn is_claimed(&self) -> bool {
        let disk = self.tree.path("dev/nvme0n1").canonicalize().unwrap();
        let open = fs::read_dir("/proc/self/fd").unwrap();
        open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok()).any(|target| target == disk)
    }

    fn candidate(&self) -> Candidate {
        self.tree.candidate()
    }
}

/// Begins what waits for the kernel. A test that fails meanwhile leaves it waiting.
fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Work<T> {
    Work(thread::spawn(work))
}

struct Work<T>(thread::JoinHandle<T>);

impl<T> Work<T> {
    fn finish(self) -> T {
        let begin = Instant::now();
        while !self.0.is_finished() {
            assert!(begin.elapsed() < STEP_LIMIT, "it waits for a step that nobody expects");
            thread::sleep(Duration::from_millis(1));
        }
        self.0.join().unwrap()
    }
}

fn control(driver: &str, file: &str) -> String {
    format!("sys/bus/pci/drivers/{driver}/{file}")
}

/// The disk stays claimed until the last step: nobody mounts it while its driver lets go.
#[test]
fn the_disk_is_claimed_until_the_last_step() {
    let kernel = Arc::new(Kernel::new());
    let at_tell = Arc::clone(&kernel);
    let unbinding = kernel.start_unbind(move || {
        assert!(at_tell.is_claimed(), "before anybody is told");
        assert_eq!(at_tell.driver_override(), "(null)\n", "nothing is done before somebody is told");
        Ok(())
    });
    kernel.expect_override("vfio-pci");
    assert!(kernel.is_claimed(), "before unbinding");
    kernel.expect_write(&control("nvme", "unbind"), ADDRESS);
    kernel.bind(None);
    assert!(kernel.is_claimed(), "before probing");
    kernel.expect_write(PROBE, ADDRESS);
    kernel.bind(Some("vfio-pci"));
    let takeover = unbinding.finish().unwrap();
    assert_eq!(takeover.previous_driver(), Some("nvme"));
    assert!(!kernel.is_claimed(), "the kernel's driver takes it back only if nobody has it open");
}

/// The kernel binds only the driver that `driver_override` names (drivers/pci/pci-driver.c, `pci_match_device`).
#[test]
fn the_override_names_the_driver_that_is_bound_again() {
    for (previous_override, restored) in [("(null)\n", "\n"), ("vfio-pci\n", "vfio-pci")] {
        let kernel = Kernel::new();
        let file = format!("sys/bus/pci/devices/{ADDRESS}/driver_override");
        kernel.tree.file(&file, previous_override);
        let takeover = Takeover::of(&kernel.candidate());
        kernel.tree.file(&file, "vfio-pci\n");
        kernel.bind(Some("vfio-pci"));
        let giving = kernel.start_rebind(&takeover);
        kernel.expect_override("nvme");
        kernel.expect_write(&control("vfio-pci", "unbind"), ADDRESS);
        kernel.bind(None);
        kernel.expect_write(&control("nvme", "bind"), ADDRESS);
        assert!(!giving.0.is_finished(), "it has no driver yet");
        kernel.bind(Some("nvme"));
        giving.finish().unwrap();
        kernel.expect_override(restored);
    }
}

/// An adapter that had no driver has none again, and no override.
#[test]
fn an_adapter_without_a_driver_is_probed_and_unbound() {
    let kernel = Kernel::new();
    kernel.bind(None);
    let unbinding = kernel.start_unbind(|| Ok(()));
    kernel.expect_override("vfio-pci");
    kernel.expect_write(PROBE, ADDRESS);
    kernel.bind(Some("vfio-pci"));
    let takeover = unbinding.finish().unwrap();
    assert_eq!(takeover.previous_driver(), None);
    let giving = kernel.start_rebind(&takeover);
    kernel.expect_override("\n");
    kernel.expect_write(&control("vfio-pci", "unbind"), ADDRESS);
    kernel.bind(None);
    giving.finish().unwrap();
    assert_eq!(kernel.driver_override(), "(null)\n");
}

/// The kernel's driver gets the adapter back if the new driver doesn't take it.
#[test]
fn a_takeover_that_fails_half_way_is_undone() {
    let kernel = Kernel::new();
    fs::remove_file(kernel.tree.path(PROBE)).unwrap();
    let unbinding = kernel.start_unbind(|| Ok(()));
    kernel.expect_override("vfio-pci");
    // Between unbinding and the probe that fails nothing waits for the kernel: the driver lets go before the write ends.
    kernel.bind(None);
    kernel.expect_write(&control("nvme", "unbind"), ADDRESS);
    kernel.expect_override("nvme");
    kernel.expect_write(&control("nvme", "bind"), ADDRESS);
    kernel.bind(Some("nvme"));
    let error = unbinding.finish().unwrap_err();
    assert!(matches!(&error, TakeoverError::Step { file, .. } if file.ends_with(PROBE)), "{error}");
    kernel.expect_override("\n");
}

/// An adapter that was bound to vfio-pci before has no previous driver.
#[test]
fn an_adapter_that_was_bound_to_vfio_has_no_previous_driver() {
    let previous_driver_of =
        |driver| Takeover::from_previous([ADDRESS, driver, "-"]).previous_driver().map(str::to_owned);
    assert_eq!(previous_driver_of("nvme").as_deref(), Some("nvme"));
    assert_eq!(previous_driver_of("vfio-pci"), None);
    assert_eq!(previous_driver_of("-"), None);
}

/// Without a process that rebinds it, an adapter is not unbound.
#[test]
fn nothing_is_done_if_the_notification_fails() {
    let tree = Tree::new();
    let error =
        Takeover::unbind_from_kernel(&tree.root(), &tree.candidate(), || Err(io::Error::other("nobody")))
            .unwrap_err();
    assert!(matches!(error, TakeoverError::Notify(_)), "{error}");
    let driver_override = tree.path(&format!("sys/bus/pci/devices/{ADDRESS}/driver_override"));
    assert_eq!(fs::read_to_string(driver_override).unwrap(), "(null)\n");
}

/// An unbind that fails is an error only as long as the driver still has the adapter.
#[test]
fn an_unbind_that_another_process_did_is_no_error() {
    let kernel = Kernel::new();
    let takeover = Takeover::of(&kernel.candidate());
    let unbind = control("vfio-pci", "unbind");
    kernel.bind(Some("vfio-pci"));
    fs::remove_file(kernel.tree.path(&unbind)).unwrap();
    let error = kernel.start_rebind(&takeover).finish().unwrap_err();
    assert!(matches!(&error, TakeoverError::Step { file, .. } if file.ends_with(&unbind)), "{error}");
    // Somebody unbinds it after its driver was read, and the write is refused.
    let driver_override = format!("sys/bus/pci/devices/{ADDRESS}/driver_override");
    kernel.pipe(&driver_override);
    kernel.tree.link(&unbind, Path::new("/dev/full"));
    let giving = kernel.start_rebind(&takeover);
    kernel.show(&driver_override, "vfio-pci\n");
    kernel.bind(None);
    kernel.expect_write(&driver_override, "nvme");
    kernel.expect_write(&control("nvme", "bind"), ADDRESS);
    kernel.bind(Some("nvme"));
    kernel.show(&driver_override, "nvme\n");
    kernel.expect_write(&driver_override, "\n");
    giving.finish().unwrap();
}

/// A disk that is gone needs no claim; one that is there, but not in this `/dev`, may have users that nobody sees here.
#[test]
fn only_a_disk_that_is_gone_needs_no_claim() {
    let take = |change: &dyn Fn(&Tree)| {
        let tree = Tree::new();
        change(&tree);
        let told = std::cell::Cell::new(false);
        let tell = || {
            told.set(true);
            Err(io::Error::other("this is far enough"))
        };
        let error = Takeover::unbind_from_kernel(&tree.root(), &tree.candidate(), tell).unwrap_err();
        (error, told.get())
    };
    let no_file = |tree: &Tree| fs::remove_file(tree.path("dev/nvme0n1")).unwrap();
    let (error, told) = take(&no_file);
    assert!(
        matches!(&error, TakeoverError::ExclusiveOpen { device, .. } if device == "nvme0n1") && !told,
        "{error}"
    );
    let (error, told) = take(&|tree| {
        no_file(tree);
        fs::remove_dir_all(tree.path("sys/block/nvme0n1")).unwrap();
    });
    assert!(matches!(error, TakeoverError::Notify(_)) && told, "{error}");
    // A file that is there and can't be opened: a link to itself.
    let (error, told) = take(&|tree| tree.link("dev/nvme0n1", &tree.path("dev/nvme0n1")));
    assert!(
        matches!(&error, TakeoverError::ExclusiveOpen { device, .. } if device == "nvme0n1") && !told,
        "{error}"
    );
    let (error, told) = take(&|tree| {
        tree.link("dev/nvme0n1", &tree.path("dev/nvme0n1"));
        fs::remove_dir_all(tree.path("sys/block/nvme0n1")).unwrap();
    });
    assert!(matches!(&error, TakeoverError::ExclusiveOpen { .. }) && !told, "{error}");
}

/// A block device of the running kernel's, of a file.
struct Loop {
    device: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    /// Nothing without the right to make one.
    fn new() -> Option<Self> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().ok()?;
        let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        made.status.success().then_some(Self { device, _file: file })
    }

    /// Opens it for nobody else, as a mount does.
    fn open_exclusively(&self) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits() as i32).open(&self.device)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

/// On a real block device, because the kernel distinguishes `O_EXCL` from a plain open only there.
#[test]
fn a_disk_that_is_open_exclusively_is_busy() {
    let Some(disk) = Loop::new() else {
        skip::skip("no loop device can be set up here, which takes root");
        return;
    };
    let tree = Tree::new();
    tree.link("dev/nvme0n1", &disk.device);
    let holder = disk.open_exclusively().unwrap();
    let error =
        Takeover::unbind_from_kernel(&tree.root(), &tree.candidate(), || panic!("nothing was unbound"))
            .unwrap_err();
    assert!(matches!(&error, TakeoverError::Busy { device } if device == "nvme0n1"), "{error}");
    drop(holder);

    let tell = || {
        let error = disk.open_exclusively().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "nobody else gets it meanwhile");
        Err(error)
    };
    let error = Takeover::unbind_from_kernel(&tree.root(), &tree.candidate(), tell).unwrap_err();
    assert!(matches!(error, TakeoverError::Notify(_)), "{error}");
    disk.open_exclusively().unwrap();
}
