//! Unbinds an adapter from the kernel's driver, binds it to `vfio-pci`, and rebinds it afterwards.

use super::candidate::is_driver;
use super::refusal::VFIO_DRIVER;
use super::{Candidate, Root, link_name};
use escape::shell::Command;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Time within which the kernel's driver must unbind or bind.
const BIND_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which a disk may stay busy. The kernel closes the files of an io_uring in the background, after the process has closed the ring.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Written to `driver_override`, this clears it (`Documentation/ABI/testing/sysfs-bus-pci`).
const NO_OVERRIDE: &str = "\n";

/// A write to a file of sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The file.
    pub file: PathBuf,
    /// The text.
    pub text: String,
}

impl Step {
    /// The write as a shell command to paste.
    pub fn command(&self) -> Command {
        // Invalid UTF-8 becomes replacement characters; `Command` refuses to show those.
        Command::write(self.text.trim_end(), self.file.to_string_lossy())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command().fmt(formatter)
    }
}

/// Why an adapter could not be unbound or rebound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeoverError {
    /// A write to sysfs failed.
    #[error("can't write {text:?} to {}", file.display())]
    Step {
        /// The file.
        file: PathBuf,
        /// The text.
        text: String,
        /// The error.
        source: io::Error,
    },
    /// A disk of the adapter is open exclusively.
    #[error("/dev/{device} is in use: something has it open exclusively")]
    Busy {
        /// The disk or partition.
        device: String,
    },
    /// A disk of the adapter can't be opened exclusively, so it may be in use.
    #[error("can't open /dev/{device} to check whether it is in use")]
    ExclusiveOpen {
        /// The disk or partition.
        device: String,
        /// The error.
        source: io::Error,
    },
    /// The adapter changed since it was checked.
    #[error("{address} changed after the check: {what}; nothing was done")]
    Changed {
        /// Its address.
        address: String,
        /// What changed.
        what: String,
    },
    /// The process that is to rebind the adapter could not be told about it.
    #[error("can't notify the process that is to rebind the adapter")]
    Notify(#[source] io::Error),
    /// Another driver than expected is bound.
    #[error("{address} has {found}; expected {expected}")]
    Driver {
        /// Its address.
        address: String,
        /// The driver found.
        found: String,
        /// The driver expected.
        expected: String,
    },
}

/// An adapter unbound from the kernel's driver. Dropping this does not rebind it: call [`rebind`](Self::rebind), here
/// or in another process that got [`previous`](Self::previous), since this one may die.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    address: String,
    /// The driver before; `None` if there was none.
    previous: Option<String>,
    /// Its `driver_override` before.
    previous_override: Option<String>,
}

impl Takeover {
    /// The steps of [`unbind_from_kernel`](Self::unbind_from_kernel).
    pub fn steps(root: &Root, candidate: &Candidate) -> Vec<Step> {
        let device = root.device(&candidate.address);
        let step = |file: PathBuf, text: &str| Step { file, text: text.to_owned() };
        let mut steps = vec![step(device.join("driver_override"), VFIO_DRIVER)];
        if let Some(driver) = &candidate.driver {
            // Through the driver's own folder: if another driver was bound meanwhile, the write fails.
            let unbind = root.path("sys/bus/pci/drivers").join(driver).join("unbind");
            steps.push(step(unbind, &candidate.address));
        }
        steps.push(step(root.path("sys/bus/pci/drivers_probe"), &candidate.address));
        steps
    }

    /// The steps of [`rebind`](Self::rebind), for the user to run if no process is left that does.
    pub fn rebind_steps(root: &Root, candidate: &Candidate) -> Vec<Step> {
        let device = root.device(&candidate.address);
        let drivers = root.path("sys/bus/pci/drivers");
        let step = |file: PathBuf, text: &str| Step { file, text: text.to_owned() };
        let preference =
            |driver: Option<&str>| step(device.join("driver_override"), driver.unwrap_or(NO_OVERRIDE));
        let mut steps = vec![step(drivers.join(VFIO_DRIVER).join("unbind"), &candidate.address)];
        if let Some(driver) = candidate.driver.as_deref() {
            steps.push(preference(Some(driver)));
            steps.push(step(drivers.join(driver).join("bind"), &candidate.address));
        }
        steps.push(preference(candidate.driver_override.as_deref()));
        steps
    }

    /// The state before unbinding, for another process that is to rebind.
    pub fn of(candidate: &Candidate) -> Self {
        Self {
            address: candidate.address.clone(),
            previous: candidate.driver.clone(),
            previous_override: candidate.driver_override.clone(),
        }
    }

    /// The driver to rebind to; `None` if there was none or it was `vfio-pci`.
    pub fn previous_driver(&self) -> Option<&str> {
        self.previous.as_deref().filter(|driver| *driver != VFIO_DRIVER)
    }

    /// As three words: address, driver and override, with a hyphen for none.
    pub fn previous(&self) -> [String; 3] {
        let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
        [self.address.clone(), word(&self.previous), word(&self.previous_override)]
    }

    /// The reverse of [`previous`](Self::previous).
    pub fn from_previous([address, driver, driver_override]: [&str; 3]) -> Self {
        let word = |word: &str| (word != "-").then(|| word.to_owned());
        Self { address: address.to_owned(), previous: word(driver), previous_override: word(driver_override) }
    }

    /// Unbinds an adapter without [refusals](Candidate::refusals), checks it again, and binds it to `vfio-pci`. Calls
    /// `notify` before the first step: from then on the adapter must be rebound. If a step fails, the earlier ones
    /// are undone.
    ///
    /// # Errors
    /// [`TakeoverError`]
    pub fn unbind_from_kernel(
        root: &Root,
        candidate: &Candidate,
        notify: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, TakeoverError> {
        // Exclusive opens fail if any mount namespace or device uses a disk, even one that was not found.
        let claims = claims(root, candidate)?;
        check_unchanged(root, candidate)?;
        notify().map_err(TakeoverError::Notify)?;
        let takeover = Self::of(candidate);
        let done = Self::steps(root, candidate).iter().try_for_each(|step| write(&step.file, &step.text));
        drop(claims);
        let done =
            done.and_then(|()| wait_for_driver(root, &candidate.address, Some(VFIO_DRIVER), BIND_TIMEOUT));
        match done {
            Ok(()) => Ok(takeover),
            Err(error) => {
                // Report the first error, not one of the undoing.
                let _ = takeover.rebind(root);
                Err(error)
            }
        }
    }

    /// Rebinds the adapter to its previous driver. The process that drives it must have closed it: the kernel waits
    /// for that.
    ///
    /// # Errors
    /// [`TakeoverError`]
    pub fn rebind(&self, root: &Root) -> Result<(), TakeoverError> {
        let driver = link_name(&root.device(&self.address).join("driver"));
        let bound =
            if driver == self.previous { Ok(()) } else { self.bind_previous(root, driver.as_deref()) };
        let restored = self.set_override(root, self.previous_override.as_deref());
        bound.and(restored)
    }

    /// Binds the previous driver, if there was one.
    fn bind_previous(&self, root: &Root, driver: Option<&str>) -> Result<(), TakeoverError> {
        // The driver may have been bound before `driver_override` was set to another one, so set it first.
        self.set_override(root, self.previous.as_deref())?;
        driver.map_or(Ok(()), |driver| self.unbind(root, driver))?;
        let Some(previous) = &self.previous else { return Ok(()) };
        write(&root.path("sys/bus/pci/drivers").join(previous).join("bind"), &self.address)?;
        wait_for_driver(root, &self.address, Some(previous), BIND_TIMEOUT)
    }

    /// Sets `driver_override`, if it differs.
    fn set_override(&self, root: &Root, driver: Option<&str>) -> Result<(), TakeoverError> {
        let file = root.device(&self.address).join("driver_override");
        match std::fs::read_to_string(&file) {
            Ok(now) if Some(now.trim()).filter(|now| is_driver(now)) == driver => Ok(()),
            _ => write(&file, driver.unwrap_or(NO_OVERRIDE)),
        }
    }

    /// Unbinds a driver and waits until it is gone.
    fn unbind(&self, root: &Root, driver: &str) -> Result<(), TakeoverError> {
        let unbound = write(&root.path("sys/bus/pci/drivers").join(driver).join("unbind"), &self.address);
        match unbound {
            // Someone else has just unbound it.
            Err(_) if link_name(&root.device(&self.address).join("driver")).as_deref() != Some(driver) => {
                Ok(())
            }
            unbound => unbound,
        }
    }
}

/// Opens its disks and their partitions exclusively, so that nothing mounts them meanwhile.
fn claims(root: &Root, candidate: &Candidate) -> Result<Vec<File>, TakeoverError> {
    let mut claims = Vec::new();
    for disk in &candidate.disks {
        let device = disk.name.clone();
        let file = root.path("dev").join(&disk.name);
        // An exclusive open of the disk also keeps its partitions from being mounted (kernel: bd_prepare_to_claim).
        let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
        let open = || OpenOptions::new().read(true).custom_flags(exclusive).open(&file);
        match wait_while_busy(BUSY_TIMEOUT, open) {
            Ok(claim) => claims.push(claim),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                return Err(TakeoverError::Busy { device });
            }
            // If sysfs no longer has the disk, its node is rightly gone. If it has, the node and its users may be in
            // another mount namespace.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !root.path("sys/block").join(&disk.name).exists() => {}
            Err(source) => return Err(TakeoverError::ExclusiveOpen { device, source }),
        }
    }
    Ok(claims)
}

/// Opens a disk again while that fails because it is busy, up to `limit`.
fn wait_while_busy<T>(limit: Duration, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < limit => {
                thread::sleep(POLL_INTERVAL);
            }
            opened => return opened,
        }
    }
}

/// Fails if the adapter's driver, group, disks or their uses changed since the check.
fn check_unchanged(root: &Root, candidate: &Candidate) -> Result<(), TakeoverError> {
    let address = candidate.address.clone();
    let now = Candidate::at(root, &address).ok().flatten();
    let what = match now {
        None => "it was removed or can't be read".to_owned(),
        Some(now) => match now.usages().next() {
            Some((_, usage)) => usage.to_string(),
            None if now != *candidate => "its driver, its group or its disks".to_owned(),
            None => return Ok(()),
        },
    };
    Err(TakeoverError::Changed { address, what })
}

/// Writes to a file of sysfs.
fn write(file: &Path, text: &str) -> Result<(), TakeoverError> {
    let opened = OpenOptions::new().write(true).open(file);
    opened.and_then(|mut open| open.write_all(text.as_bytes())).map_err(|source| TakeoverError::Step {
        file: file.to_owned(),
        text: text.trim_end().to_owned(),
        source,
    })
}

/// Waits up to `limit` until the adapter has this driver.
fn wait_for_driver(
    root: &Root,
    address: &str,
    driver: Option<&str>,
    limit: Duration,
) -> Result<(), TakeoverError> {
    let link = root.device(address).join("driver");
    let begin = Instant::now();
    loop {
        let found = link_name(&link);
        if found.as_deref() == driver {
            return Ok(());
        }
        if begin.elapsed() > limit {
            let word = |driver: Option<&str>| {
                driver.map_or("no driver".to_owned(), |driver| format!("the driver {driver}"))
            };
            let (found, expected) = (word(found.as_deref()), word(driver));
            return Err(TakeoverError::Driver { address: address.to_owned(), found, expected });
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn a_busy_disk_is_waited_for_but_not_without_end() {
        let hour = Duration::from_secs(3600);
        let busy = || io::Error::from(io::ErrorKind::ResourceBusy);
        let mut answers = vec![Ok(7), Err(busy()), Err(busy())];
        assert_eq!(wait_while_busy(hour, || answers.pop().unwrap()).unwrap(), 7);
        let fails = |limit, kind: io::ErrorKind| {
            wait_while_busy(limit, || Err::<(), _>(kind.into())).unwrap_err().kind()
        };
        let busy = io::ErrorKind::ResourceBusy;
        assert_eq!(fails(Duration::from_millis(1), busy), busy);
        assert_eq!(fails(hour, io::ErrorKind::NotFound), io::ErrorKind::NotFound, "at once");
    }

    /// A write to `drivers_probe` succeeds whether or not a driver binds.
    #[test]
    fn a_driver_that_never_comes_is_not_waited_for_without_end() {
        let nothing = Root::at("/no/such/tree");
        let error =
            wait_for_driver(&nothing, "0000:03:00.0", Some("nvme"), Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.to_string(), "0000:03:00.0 has no driver; expected the driver nvme");
        assert!(wait_for_driver(&nothing, "0000:03:00.0", None, Duration::ZERO).is_ok());
    }
}
