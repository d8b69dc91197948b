//! MSI-X interrupts, delivered to this process by eventfd.

#![allow(unsafe_code, reason = "the kernel reads the structure that it is given")]

use super::call;
use super::device::Device;
use super::error::VfioError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read, write};
use std::time::Duration;
use vfio_bindings::bindings::vfio;

const SET_IRQS: u8 = 110;
const SET_IRQS_NAME: &str = "VFIO_DEVICE_SET_IRQS";
const MSIX: u32 = vfio::VFIO_PCI_MSIX_IRQ_INDEX;
/// Signalled when the device is to be released.
const REQUEST: u32 = vfio::VFIO_PCI_REQ_IRQ_INDEX;

/// An interrupt: an `eventfd` signalled by the kernel, or by a device model in this process.
#[derive(Debug)]
pub struct Interrupt {
    file: OwnedFd,
}

impl Interrupt {
    /// An interrupt that nothing signals yet.
    ///
    /// # Errors
    /// If no eventfd can be created.
    pub fn new() -> Result<Self, VfioError> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Self { file: file.map_err(VfioError::call("eventfd"))? })
    }

    /// The same interrupt for another owner, such as the device model that signals it.
    ///
    /// # Errors
    /// If no more files can be opened.
    pub fn try_clone(&self) -> Result<Self, VfioError> {
        let file = fcntl_dupfd_cloexec(&self.file, 0);
        Ok(Self { file: file.map_err(VfioError::call("fcntl of an eventfd"))? })
    }

    /// Signals it, for a device model.
    ///
    /// # Errors
    /// If the write fails.
    pub fn signal(&self) -> Result<(), VfioError> {
        match write(&self.file, &1_u64.to_ne_bytes()) {
            // The counter is full, so a signal is pending already.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(VfioError::call("write of an eventfd")(error)),
        }
    }

    /// Waits for a signal since the last call, for up to `at_most`. False after a timeout.
    /// # Errors
    /// If the operating system can't wait for it.
    pub fn wait(&self, at_most: Duration) -> Result<bool, VfioError> {
        if self.take()? {
            return Ok(true);
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&timeout)) {
            // Interrupted by a signal handler: the caller polls again.
            Ok(_) | Err(Errno::INTR) => self.take(),
            Err(error) => Err(VfioError::call("poll of an eventfd")(error)),
        }
    }

    /// Whether a signal is pending, which stays so.
    pub fn is_pending(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&now)), Ok(1))
    }

    /// Clears the counter. Returns whether it had been signalled.
    fn take(&self) -> Result<bool, VfioError> {
        match read(&self.file, &mut [0; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(VfioError::call("read of an eventfd")(error)),
        }
    }
}

/// For event loops: it is readable while a signal is pending, which a [wait](Interrupt::wait) without time clears.
impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// As [`AsFd`], for event loops that take numbers.
impl AsRawFd for Interrupt {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Device {
    /// Number of the device's MSI-X vectors.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn vectors_max(&self) -> Result<u32, VfioError> {
        self.number(MSIX)
    }

    /// How many interrupts of a kind there are.
    fn number(&self, kind: u32) -> Result<u32, VfioError> {
        let argsz = size_of::<vfio::vfio_irq_info>() as u32;
        let mut info = vfio::vfio_irq_info { argsz, index: kind, ..Default::default() };
        call::with(self.as_fd(), &mut info).map_err(VfioError::call("VFIO_DEVICE_GET_IRQ_INFO"))?;
        Ok(info.count)
    }

    /// Enables MSI-X vectors 0 to `number - 1`. Interrupts of an earlier call are no longer signalled.
    ///
    /// # Errors
    /// If the device has fewer vectors, or the kernel can't provide them.
    pub fn interrupts(&self, number: u32) -> Result<Vec<Interrupt>, VfioError> {
        if number == 0 || number > self.vectors_max()? {
            return Err(VfioError::Answer {
                what: SET_IRQS_NAME,
                why: "the adapter has fewer MSI-X vectors",
            });
        }
        let interrupts = (0..number).map(|_| Interrupt::new()).collect::<Result<Vec<_>, _>>()?;
        self.signal_by(MSIX, &interrupts)?;
        Ok(interrupts)
    }

    /// Is signalled when the system wants the device back: it is unbound or removed. That waits until the device is closed. `None` if the kernel can't
    /// tell (it can since Linux 4.0).
    ///
    /// # Errors
    /// If the kernel fails.
    pub fn removal_request(&self) -> Result<Option<Interrupt>, VfioError> {
        if !matches!(self.number(REQUEST), Ok(1..)) {
            return Ok(None);
        }
        let interrupt = Interrupt::new()?;
        self.signal_by(REQUEST, std::slice::from_ref(&interrupt))?;
        Ok(Some(interrupt))
    }

    /// Has the kernel signal interrupts of a kind.
    fn signal_by(&self, kind: u32, interrupts: &[Interrupt]) -> Result<(), VfioError> {
        let mut request = request(kind, interrupts);
        // SAFETY: the request begins with the structure, which contains its size; words are aligned for it.
        unsafe { call::with_trailing_data(self.as_fd(), SET_IRQS, &mut request) }
            .map_err(VfioError::call(SET_IRQS_NAME))?;
        Ok(())
    }
}

/// `struct vfio_irq_set`: five numbers, followed by a file descriptor for each vector.
fn request(kind: u32, interrupts: &[Interrupt]) -> Vec<u64> {
    let number = interrupts.len() as u32;
    let argsz = (size_of::<vfio::vfio_irq_set>() + interrupts.len() * size_of::<i32>()) as u32;
    let flags = vfio::VFIO_IRQ_SET_DATA_EVENTFD | vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
    let files = interrupts.iter().map(|interrupt| interrupt.file.as_raw_fd() as u32);
    let halves: Vec<u32> = [argsz, flags, kind, 0, number].into_iter().chain(files).collect();
    let word = |halves: &[u32]| {
        let mut bytes = [0; size_of::<u64>()];
        for (into, half) in bytes.chunks_exact_mut(size_of::<u32>()).zip(halves) {
            into.copy_from_slice(&half.to_ne_bytes());
        }
        u64::from_ne_bytes(bytes)
    };
    halves.chunks(2).map(word).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn a_request_names_the_file_of_each_vector() {
        let interrupts = [(); 2].map(|()| Interrupt::new().unwrap());
        let halves: Vec<u32> = request(MSIX, &interrupts)
            .into_iter()
            .flat_map(|word| {
                let bytes = word.to_ne_bytes();
                [0, 4].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()))
            })
            .collect();
        let files = [0, 1].map(|place: usize| interrupts[place].file.as_raw_fd() as u32);
        assert_eq!(halves, [28, 4 | 1 << 5, 2, 0, 2, files[0], files[1], 0]);
    }

    #[test]
    fn signals_are_seen_once() {
        let interrupt = Interrupt::new().unwrap();
        assert!(!interrupt.wait(Duration::from_millis(1)).unwrap());
        interrupt.signal().unwrap();
        interrupt.signal().unwrap();
        assert!(interrupt.wait(Duration::ZERO).unwrap());
        assert!(!interrupt.wait(Duration::ZERO).unwrap());
    }

    #[test]
    fn an_event_loop_sees_a_signal_until_it_is_cleared() {
        let interrupt = Interrupt::new().unwrap();
        assert_eq!(interrupt.as_fd().as_raw_fd(), interrupt.as_raw_fd());
        let readable = || {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&interrupt, PollFlags::IN)], Some(&now)).unwrap() == 1
        };
        assert!(!readable());
        interrupt.signal().unwrap();
        assert!(readable() && readable());
        assert!(interrupt.wait(Duration::ZERO).unwrap() && !readable());
    }

    #[test]
    fn a_sleeper_is_woken() {
        let interrupt = Interrupt::new().unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| interrupt.wait(Duration::from_secs(60)).unwrap());
            interrupt.signal().unwrap();
            assert!(sleeper.join().unwrap());
        });
    }
}
