//! Linux's restartable sequences (rseq): per-CPU steps without atomic instructions or locks.
//!
//! A step is a few instructions whose last one is a store. If the kernel preempts or migrates the thread within them, or delivers a
//! signal, the thread continues elsewhere and the step has had no effect. So no other thread of that CPU runs between the begin
//! and the end of a step, and a step is done completely or not at all.
//!
//! [`Rseq`] has the steps of per-CPU stacks: pop, push, and close, which keeps other steps out. A [fence](Rseq::fence) ends the steps
//! of another CPU, so that its stack can be read from there.
//!
//! ```text
//!   threads on CPU 0 --try_push, try_pop--> stack 0 [count|-|v0 v1 v2 ...]    CLOSED in place of the count:
//!   threads on CPU 1 --try_push, try_pop--> stack 1 [count|-|v0 v1 ...   ]    steps fail, its owner has it
//!        |                                     ^
//!        `--- exchanges CLOSED, then fence(0) -'
//! ```
//!
//! | architecture | signature before the address where an interrupted step continues | orders |
//! |---|---|---|
//! | x86-64 | 0x53053053 | none needed: loads and stores are Acquire and Release |
//! | 64-bit Arm, little endian | 0xd428bc00 | the count's load in a pop: `ldar` |
//! | 64-bit POWER, little endian | 0x0fe5000b | the count's load in a pop: `isync` after a branch |
//!
//! The kernel must be Linux 5.10 or newer, the C library glibc 2.35 or newer: it registers each thread with the kernel, and says
//! so by `__rseq_offset` and `__rseq_size` (glibc manual, "Restartable Sequences"). Where something is missing, [`Rseq::new`] says what;
//! the crate compiles everywhere. On POWER it needs Rust 1.95, whose `asm!` is stable there, and is unsupported before.
//!
//! ```
//! use rseq::{CLOSED, Rseq, Unsupported};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! /// log2 of the bytes of a stack: 64 words.
//! const SHIFT: u32 = 9;
//! const WORDS: usize = 1 << (SHIFT - 3);
//! /// Count and an unused word come before the values.
//! const CAPACITY: u64 = (WORDS - rseq::VALUES_AT) as u64;
//!
//! let rseq = match Rseq::new() {
//!     Ok(rseq) => rseq,
//!     // Use locks instead.
//!     Err(Unsupported::Platform | Unsupported::CLibrary | Unsupported::Kernel) => return,
//!     Err(_) => return,
//! };
//! let cpus = rseq.cpus();
//! let words: Vec<AtomicU64> = (0..cpus * WORDS).map(|_| AtomicU64::new(0)).collect();
//! let first = words.as_ptr().cast_mut();
//!
//! // SAFETY: `words` has a stack of 2^SHIFT bytes with CAPACITY values for each CPU, which nothing but steps changes.
//! let is_done = unsafe { rseq.try_push::<SHIFT>(first, cpus, CAPACITY, 7) };
//! // It may have been interrupted. Without that, the value is on the stack of this CPU, from which any thread there pops it.
//! // SAFETY: as above.
//! let popped = unsafe { rseq.try_pop::<SHIFT>(first, cpus, 0, u64::MAX) };
//! assert!(popped.is_none() || (is_done && popped == Some(7)));
//!
//! // From any CPU: close the stack of CPU 0. Threads that do so would take turns by a lock.
//! let count = loop {
//!     let count = words[0].swap(CLOSED, Ordering::SeqCst);
//!     rseq.fence(0);
//!     // A step that began before the exchange may have overwritten the mark.
//!     if words[0].load(Ordering::SeqCst) == CLOSED {
//!         break count;
//!     }
//! };
//! assert!(count <= 1);
//! // Nobody else has it now. Release: steps that see this count see the values that were stored before.
//! words[0].store(count, Ordering::Release);
//! ```
//!
//! # Memory order
//!
//! Threads of one CPU are one stream of instructions to it, and a migration is a full barrier. So steps of one CPU see each other,
//! and what the threads did before and after, without any order of their own. It is left what passes between CPUs:
//!
//! - **Out of a stack.** Another CPU relies on values only after its exchange of the count and a fence. The fence is a full barrier on both
//!   CPUs: an interrupt's if a thread of the process runs there, else the scheduler's. The loads of the one come after all that the other CPU
//!   did up to its last step. So the stores of steps need not be Release, and a pop's load of a value is over before another CPU
//!   overwrites the value. A count that is read without a fence (to estimate how full a stack is) says nothing about the values.
//! - **Into a stack.** Another CPU that has closed a stack stores values, then the count (Release). No fence follows, so a pop loads the
//!   count by Acquire: what it pops was freed, say, by a thread of the other CPU, and what that did before must be visible to the thread
//!   that pops. For the value alone the dependency of its address on the count would do. A push needs no Acquire:
//!   it reads only the count, its stores depend on it, and what it publishes goes out of the stack.
//!
//! # Pitfalls
//!
//! - Don't unload a shared object that has this code in it (`dlclose`) while threads that called it run: the kernel may still read the
//!   description of their last restartable sequence.
//! - A step may be interrupted any time. Have another way, such as a lock and a closed stack, and don't repeat a step forever.
//! - Emulators of user mode (valgrind, `qemu-user`) have no restartable sequences: [`Rseq::new`] fails there.

#![allow(unsafe_code, reason = "restartable sequences need assembly with fixed addresses")]

#[cfg(all(sequences, target_arch = "aarch64"))]
#[path = "aarch64.rs"]
mod arch;
#[cfg(all(sequences, target_arch = "powerpc64"))]
#[path = "powerpc64.rs"]
mod arch;
#[cfg(not(sequences))]
#[path = "unsupported.rs"]
mod arch;
#[cfg(all(sequences, target_arch = "x86_64"))]
#[path = "x86_64.rs"]
mod arch;
#[cfg(sequences)]
mod registration;

use core::sync::atomic::AtomicU64;

/// Value of a stack's count while a thread has exclusive access. Every step fails on it: as a signed number it is negative, as an
/// unsigned number above every capacity.
pub const CLOSED: u64 = u64::MAX - 1;

/// Index, in 64-bit words, of a stack's first value. Its count is word 0, and the words between are not used.
pub const VALUES_AT: usize = 2;

/// What an abandoned pop returns in place of a value.
const ABANDONED: u64 = u64::MAX;

/// Why there are no restartable sequences here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The crate has no sequences for this operating system or architecture.
    #[error(
        "restartable sequences are not supported on this platform; expected Linux on x86-64, or on aarch64 or powerpc64, little endian"
    )]
    Platform,
    /// The C library has registered no thread with the kernel.
    #[error(
        "the C library registers no restartable sequences; expected glibc 2.35 or newer without `glibc.pthread.rseq=0`"
    )]
    CLibrary,
    /// The kernel can't fence them, or does not say which CPUs there are.
    #[error("the kernel can't fence restartable sequences; expected Linux 5.10 or newer, and /sys")]
    Kernel,
}

/// Restartable sequences of the threads of this process.
#[derive(Debug, Clone, Copy)]
pub struct Rseq {
    area: arch::Area,
    cpus: usize,
}

impl Rseq {
    /// Restartable sequences, if this platform, the C library and the kernel support them.
    ///
    /// # Errors
    /// [`Unsupported`] says what is missing.
    pub fn new() -> Result<Self, Unsupported> {
        #[cfg(sequences)]
        return registration::registered();
        #[cfg(not(sequences))]
        Err(Unsupported::Platform)
    }

    /// Sequences that are not registered with the kernel, to count instructions in an emulator without restartable
    /// sequences, such as valgrind. There is one CPU, and [`current`](Self::current) is always CPU 0.
    ///
    /// # Errors
    /// If the platform has none, or the C library has no area for them.
    ///
    /// # Safety
    /// Only one thread may use the result, and the kernel must not have registered that thread's area.
    pub unsafe fn unregistered() -> Result<Self, Unsupported> {
        #[cfg(sequences)]
        {
            let area = registration::area_offset().ok_or(Unsupported::CLibrary)?;
            // SAFETY: `area` is the offset of the C library's `struct rseq` of each thread, which the kernel does not use, as the
            // caller guarantees.
            unsafe { arch::pretend_cpu_0(area) };
            Ok(Self { area, cpus: 1 })
        }
        #[cfg(not(sequences))]
        Err(Unsupported::Platform)
    }

    /// One more than the highest possible number of a CPU. Numbers of existing CPUs may have gaps, and CPUs may be offline.
    #[inline(always)]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// The CPU that the caller runs on. It may migrate at any time.
    #[inline(always)]
    pub fn current(&self) -> usize {
        // SAFETY: `area` is the offset of each thread's `struct rseq`. This field is always the number of a CPU, or 0.
        unsafe { arch::cpu_field::<0>(self.area) }
    }

    /// The CPU that the caller runs on; `None` if the calling thread is not registered with the kernel, so that its steps fail.
    #[inline]
    pub fn registered_cpu(&self) -> Option<usize> {
        // SAFETY: as in `current`. This field is a number larger than any CPU's if the thread is not registered.
        let cpu = unsafe { arch::cpu_field::<4>(self.area) };
        (cpu < self.cpus).then_some(cpu)
    }

    /// In one step: removes the last value of the current CPU's stack, if it is open and has one, and value + `more` (modulo
    /// 2^64) is at most `limit`. `None` also if the step was interrupted, or the CPU is not below `cpus`. A popped
    /// `u64::MAX` is `None` too: do not push it. The load of the count is Acquire.
    ///
    /// `more` and `limit` let an allocator skip a range that ends above a limit; pass 0 and `u64::MAX` for none.
    ///
    /// `first` is the stack of CPU 0; that of CPU n lies n << `SHIFT` bytes behind it.
    ///
    /// # Safety
    /// - For each CPU below `cpus`, which fits 31 bits, there is memory of a stack at its address: a count, an unused word and
    ///   values, all aligned to 8 bytes, and valid during the call.
    /// - A count is [`CLOSED`], or at most the number of values that the memory has room for, and those values are initialized.
    /// - Other threads access a stack only by steps with the same `first` and `SHIFT`, or atomically. They may load its words at any
    ///   time, but rely on values, and store them, only while the count is [`CLOSED`].
    /// - A stack is closed by [`try_close`](Self::try_close), or by an atomic exchange of the count, a [fence](Self::fence) of its CPU,
    ///   and again if the count is no longer [`CLOSED`] then. It is opened by a Release store of the count.
    #[inline(always)]
    pub unsafe fn try_pop<const SHIFT: u32>(
        &self,
        first: *mut AtomicU64,
        cpus: usize,
        more: u64,
        limit: u64,
    ) -> Option<u64> {
        // SAFETY: `area` is the offset of each thread's `struct rseq`, and the caller guarantees the rest. The sequence from 3 to 4
        // neither calls nor uses the program's stack. If interrupted, it continues at 7, which the signature precedes, with the
        // same registers, of which only outputs are written. The kernel reads the descriptor until the thread's next interruption
        // after the step: this code must stay loaded (see the crate's pitfalls).
        let value = unsafe { arch::pop::<SHIFT>(self.area, first, cpus, more, limit) };
        (value != ABANDONED).then_some(value)
    }

    /// In one step: appends a value to the current CPU's stack. False if it is closed or has `capacity` values, if the step was
    /// interrupted, or the CPU is not below `cpus`.
    ///
    /// # Safety
    /// As for [`try_pop`](Self::try_pop). Each stack has room for `capacity` values, which is at most `i64::MAX`.
    #[inline(always)]
    pub unsafe fn try_push<const SHIFT: u32>(
        &self,
        first: *mut AtomicU64,
        cpus: usize,
        capacity: u64,
        value: u64,
    ) -> bool {
        // SAFETY: as in `try_pop`.
        unsafe { arch::push::<SHIFT>(self.area, first, cpus, capacity, value) != 0 }
    }

    /// In one step on `cpu`: closes an open stack by its count, which is returned. `None` if the step was interrupted, the stack
    /// is closed already, or the caller does not run on `cpu`.
    ///
    /// # Safety
    /// `count` is valid for atomic accesses, and the count of a stack of `cpu` as [`try_pop`](Self::try_pop) describes it.
    #[inline]
    pub unsafe fn try_close(&self, cpu: usize, count: *mut AtomicU64) -> Option<u64> {
        // SAFETY: as in `try_pop`.
        let was = unsafe { arch::close(self.area, cpu, count) };
        (was != CLOSED).then_some(was)
    }

    /// Waits until every step of `cpu` that began before the call has ended, done or abandoned. The caller then sees the effects of
    /// these steps and of all that came before them on that CPU. Steps that begin later see what the caller did before the call.
    ///
    /// # Panics
    /// If the kernel refuses: a filter of system calls may, although it let the registration pass.
    pub fn fence(&self, cpu: usize) {
        #[cfg(sequences)]
        registration::fence(cpu);
        #[cfg(not(sequences))]
        let _ = (self.area, cpu);
    }

    /// A step that only waits, to test what interrupts steps: stores `number` to `begun`, and ends as soon as `end` is
    /// `number`. False if it was interrupted, possibly before that store.
    pub fn wait_in_step(&self, begun: &AtomicU64, end: &AtomicU64, number: u64) -> bool {
        // SAFETY: as in `try_pop`, with borrowed atomics in place of a stack.
        unsafe { arch::wait(self.area, begun, end, number) != 0 }
    }
}

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
