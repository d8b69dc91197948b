//! Interrupts of an adapter, as a process waits for them.

#![allow(unsafe_code, reason = "the kernel reads the structure that it is given")]

use super::call;
use super::device::Device;
use super::error::VfioError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{Errno, read, write};
use std::time::Duration;
use vfio_bindings::bindings::vfio;

const SET_IRQS: u8 = 110;
const MSIX: u32 = vfio::VFIO_PCI_MSIX_IRQ_INDEX;

/// One interrupt: an `eventfd` that the kernel signals when the adapter interrupts, or a model of one in this process does.
#[derive(Debug)]
pub struct Interrupt {
    file: OwnedFd,
}

impl Interrupt {
    /// One that nobody signals yet.
    ///
    /// # Errors
    /// If the operating system has none.
    pub fn new() -> Result<Self, VfioError> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Self { file: file.map_err(VfioError::call("eventfd"))? })
    }

    /// Signals it, as an adapter's model does.
    ///
    /// # Errors
    /// If the operating system does not take it.
    pub fn signal(&self) -> Result<(), VfioError> {
        match write(&self.file, &1_u64.to_ne_bytes()) {
            // As many signals as it counts wait to be seen: one more says nothing new.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(VfioError::call("write of an eventfd")(error)),
        }
    }

    /// Sleeps until it has been signalled since the last time, or for so long. Says whether it has.
    ///
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
            // A signal of the operating system: whoever waits looks again.
            Ok(_) | Err(Errno::INTR) => self.take(),
            Err(error) => Err(VfioError::call("poll of an eventfd")(error)),
        }
    }

    /// Whether it has been signalled; from now on it has not.
    fn take(&self) -> Result<bool, VfioError> {
        match read(&self.file, &mut [0; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(VfioError::call("read of an eventfd")(error)),
        }
    }
}

impl Device {
    /// MSI-X vectors that it has.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn vectors_max(&self) -> Result<u32, VfioError> {
        let argsz = size_of::<vfio::vfio_irq_info>() as u32;
        let mut info = vfio::vfio_irq_info { argsz, index: MSIX, ..Default::default() };
        call::with(self.as_fd(), &mut info).map_err(VfioError::call("VFIO_DEVICE_GET_IRQ_INFO"))?;
        Ok(info.count)
    }

    /// Interrupts by MSI-X, vectors 0 and on; the adapter's own table is the kernel's to write. Those of an earlier call are no longer
    /// signalled.
    ///
    /// # Errors
    /// If it has fewer, or the kernel can't give so many.
    pub fn interrupts(&self, number: u32) -> Result<Vec<Interrupt>, VfioError> {
        let what = "VFIO_DEVICE_SET_IRQS";
        if number == 0 || number > self.vectors_max()? {
            return Err(VfioError::Answer { what, why: "the adapter has no such number of MSI-X vectors" });
        }
        let interrupts = (0..number).map(|_| Interrupt::new()).collect::<Result<Vec<_>, _>>()?;
        let mut request = request(&interrupts);
        // SAFETY: the request begins with the structure, which says how many bytes there are; words are aligned for it.
        unsafe { call::with_room(self.as_fd(), SET_IRQS, &mut request) }.map_err(VfioError::call(what))?;
        Ok(interrupts)
    }
}

/// The call's structure, `struct vfio_irq_set`: its five numbers, and behind them a file for each vector.
fn request(interrupts: &[Interrupt]) -> Vec<u64> {
    let number = interrupts.len() as u32;
    let argsz = (size_of::<vfio::vfio_irq_set>() + interrupts.len() * size_of::<i32>()) as u32;
    let flags = vfio::VFIO_IRQ_SET_DATA_EVENTFD | vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
    let files = interrupts.iter().map(|interrupt| interrupt.file.as_raw_fd() as u32);
    let halves: Vec<u32> = [argsz, flags, MSIX, 0, number].into_iter().chain(files).collect();
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
        let halves: Vec<u32> = request(&interrupts)
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
    fn a_sleeper_is_woken() {
        let interrupt = Interrupt::new().unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| interrupt.wait(Duration::from_secs(60)).unwrap());
            interrupt.signal().unwrap();
            assert!(sleeper.join().unwrap());
        });
    }
}
