//! The way of an adapter from the kernel's driver to `vfio-pci`, and back.

use super::candidate::is_driver;
use super::refusal::LENDER;
use super::{Candidate, Root, link_name};
use escape::shell::Command;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The kernel's driver lets go, or takes, within this.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// What an adapter's `driver_override` is to be to have none (`Documentation/ABI/testing/sysfs-bus-pci`).
const NONE: &str = "\n";

/// Something that is written to a file of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The file.
    pub file: PathBuf,
    /// What is written.
    pub text: String,
}

impl Step {
    /// The same for a person to paste.
    pub fn command(&self) -> Command {
        // What is no UTF-8 gets replacement characters, with which no command is shown.
        Command::write(self.text.trim_end(), self.file.to_string_lossy())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command().fmt(formatter)
    }
}

/// Why an adapter was not taken, or not given back.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// A step failed.
    #[error("can't write {text:?} to {}", file.display())]
    Step {
        /// The file.
        file: PathBuf,
        /// What was to be written.
        text: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody has a disk of it open for himself.
    #[error("/dev/{device} is in use by somebody who has it for himself; it is not taken away from that")]
    Busy {
        /// The disk or its partition.
        device: String,
    },
    /// It can't be said whether somebody has a disk of it open.
    #[error("can't look whether /dev/{device} is in use")]
    Look {
        /// The disk or its partition.
        device: String,
        /// Why.
        source: io::Error,
    },
    /// It is not what it was when it was looked at.
    #[error("{address} has changed since it was looked at: {what}; nothing was done")]
    Changed {
        /// Its address.
        address: String,
        /// What is new.
        what: String,
    },
    /// Whoever is to give it back was not told.
    #[error("can't tell who is to give it back")]
    Tell(#[source] io::Error),
    /// It has another driver than it should afterwards.
    #[error("{address} has {found} afterwards; expected {expected}")]
    Driver {
        /// Its address.
        address: String,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
    },
}

/// An adapter that was taken from the kernel's driver. It is not given back by itself: [`give_back`](Self::give_back) does that, in this process or,
/// since this one may die, in another that was told [where from](Self::previous).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    address: String,
    /// The driver that had it.
    previous: Option<String>,
    /// Its `driver_override`.
    previous_override: Option<String>,
}

impl Takeover {
    /// What taking it does, step by step.
    pub fn steps(root: &Root, candidate: &Candidate) -> Vec<Step> {
        let device = root.device(&candidate.address);
        let step = |file: PathBuf, text: &str| Step { file, text: text.to_owned() };
        let mut steps = vec![step(device.join("driver_override"), LENDER)];
        if let Some(driver) = &candidate.driver {
            // By the driver's name: what another one has meanwhile is not taken from that.
            let unbind = root.path("sys/bus/pci/drivers").join(driver).join("unbind");
            steps.push(step(unbind, &candidate.address));
        }
        steps.push(step(root.path("sys/bus/pci/drivers_probe"), &candidate.address));
        steps
    }

    /// How somebody gives it back by hand if nobody is left to do it, step by step: the way of [`give_back`](Self::give_back).
    pub fn steps_by_hand(root: &Root, candidate: &Candidate) -> Vec<Step> {
        let device = root.device(&candidate.address);
        let drivers = root.path("sys/bus/pci/drivers");
        let step = |file: PathBuf, text: &str| Step { file, text: text.to_owned() };
        let preference = |driver: Option<&str>| step(device.join("driver_override"), driver.unwrap_or(NONE));
        let mut steps = vec![step(drivers.join(LENDER).join("unbind"), &candidate.address)];
        if let Some(driver) = candidate.driver.as_deref() {
            steps.push(preference(Some(driver)));
            steps.push(step(drivers.join(driver).join("bind"), &candidate.address));
        }
        steps.push(preference(candidate.driver_override.as_deref()));
        steps
    }

    /// What was there before, for another process that is to give it back.
    pub fn of(candidate: &Candidate) -> Self {
        Self {
            address: candidate.address.clone(),
            previous: candidate.driver.clone(),
            previous_override: candidate.driver_override.clone(),
        }
    }

    /// The driver that it was taken from; none if it had none, or was lent before.
    pub fn taken_from(&self) -> Option<&str> {
        self.previous.as_deref().filter(|driver| *driver != LENDER)
    }

    /// As three words: address, driver, override, with a hyphen for none.
    pub fn previous(&self) -> [String; 3] {
        let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
        [self.address.clone(), word(&self.previous), word(&self.previous_override)]
    }

    /// Of such words.
    pub fn from_previous([address, driver, driver_override]: [&str; 3]) -> Self {
        let word = |word: &str| (word != "-").then(|| word.to_owned());
        Self { address: address.to_owned(), previous: word(driver), previous_override: word(driver_override) }
    }

    /// Takes an adapter against which [nothing speaks](Candidate::refusals), and still does not. `tell` is called before the first step: from then on it has to be
    /// given back. What was done is undone if a step fails.
    ///
    /// # Errors
    /// [`TakeoverError`]
    pub fn take(
        root: &Root,
        candidate: &Candidate,
        tell: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, TakeoverError> {
        // The kernel knows best: a disk that somebody has for himself can't be opened so.
        let claims = claims(root, candidate)?;
        expect_the_same(root, candidate)?;
        tell().map_err(TakeoverError::Tell)?;
        let takeover = Self::of(candidate);
        let done = Self::steps(root, candidate).iter().try_for_each(|step| write(&step.file, &step.text));
        drop(claims);
        let done = done.and_then(|()| expect(root, &candidate.address, Some(LENDER), PATIENCE));
        match done {
            Ok(()) => Ok(takeover),
            Err(error) => {
                // The first error says more than what else may go wrong.
                let _ = takeover.give_back(root);
                Err(error)
            }
        }
    }

    /// Gives it back to the driver that had it. Whoever has it must have let it go: the kernel resets no adapter that is waited for.
    ///
    /// # Errors
    /// [`TakeoverError`]
    pub fn give_back(&self, root: &Root) -> Result<(), TakeoverError> {
        let driver = link_name(&root.device(&self.address).join("driver"));
        let bound = if driver == self.previous { Ok(()) } else { self.bind_again(root, driver.as_deref()) };
        let restored = self.prefer(root, self.previous_override.as_deref());
        bound.and(restored)
    }

    fn bind_again(&self, root: &Root, driver: Option<&str>) -> Result<(), TakeoverError> {
        // Only a driver that is preferred, or none is, can be bound: the one that had it may have got it before another was preferred.
        self.prefer(root, self.previous.as_deref())?;
        driver.map_or(Ok(()), |driver| self.unbind(root, driver))?;
        let Some(previous) = &self.previous else { return Ok(()) };
        write(&root.path("sys/bus/pci/drivers").join(previous).join("bind"), &self.address)?;
        expect(root, &self.address, Some(previous), PATIENCE)
    }

    /// Sets its `driver_override`, if it is another.
    fn prefer(&self, root: &Root, driver: Option<&str>) -> Result<(), TakeoverError> {
        let file = root.device(&self.address).join("driver_override");
        match std::fs::read_to_string(&file) {
            Ok(now) if Some(now.trim()).filter(|now| is_driver(now)) == driver => Ok(()),
            _ => write(&file, driver.unwrap_or(NONE)),
        }
    }

    fn unbind(&self, root: &Root, driver: &str) -> Result<(), TakeoverError> {
        let unbound = write(&root.path("sys/bus/pci/drivers").join(driver).join("unbind"), &self.address);
        match unbound {
            // Somebody has just done that.
            Err(_) if link_name(&root.device(&self.address).join("driver")).as_deref() != Some(driver) => {
                Ok(())
            }
            unbound => unbound,
        }
    }
}

/// Files of its disks and their partitions, each opened for this process alone: nobody mounts them meanwhile.
fn claims(root: &Root, candidate: &Candidate) -> Result<Vec<File>, TakeoverError> {
    let mut claims = Vec::new();
    for disk in &candidate.disks {
        let device = disk.name.clone();
        let file = root.path("dev").join(&disk.name);
        // Of a disk that is opened so, no partition is mounted or held (fs: bd_prepare_to_claim).
        match OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::EXCL.bits() as i32).open(&file) {
            Ok(claim) => claims.push(claim),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                return Err(TakeoverError::Busy { device });
            }
            // A disk that is gone has no file any more. One that is there may have its file, and its users, where this process does not see them.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !root.path("sys/block").join(&disk.name).exists() => {}
            Err(source) => return Err(TakeoverError::Look { device, source }),
        }
    }
    Ok(claims)
}

/// That nothing has come to it since it was looked at: disks are found, and used, at any time until they are claimed.
fn expect_the_same(root: &Root, candidate: &Candidate) -> Result<(), TakeoverError> {
    let address = candidate.address.clone();
    let now = Candidate::at(root, &address).ok().flatten();
    let what = match now {
        None => "it is gone, or can't be read".to_owned(),
        Some(now) => match now.usages().next() {
            Some((_, usage)) => usage.to_string(),
            None if now != *candidate => "its driver, its group or its disks".to_owned(),
            None => return Ok(()),
        },
    };
    Err(TakeoverError::Changed { address, what })
}

fn write(file: &Path, text: &str) -> Result<(), TakeoverError> {
    let opened = OpenOptions::new().write(true).open(file);
    opened.and_then(|mut open| open.write_all(text.as_bytes())).map_err(|source| TakeoverError::Step {
        file: file.to_owned(),
        text: text.trim_end().to_owned(),
        source,
    })
}

/// Waits until it has a driver, at most as long as `limit`.
fn expect(root: &Root, address: &str, driver: Option<&str>, limit: Duration) -> Result<(), TakeoverError> {
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
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write to `drivers_probe` succeeds whether or not a driver binds.
    #[test]
    fn a_driver_that_never_comes_is_not_waited_for_without_end() {
        let nothing = Root::at("/no/such/tree");
        let error = expect(&nothing, "0000:03:00.0", Some("nvme"), Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.to_string(), "0000:03:00.0 has no driver afterwards; expected the driver nvme");
        assert!(expect(&nothing, "0000:03:00.0", None, Duration::ZERO).is_ok());
    }
}
