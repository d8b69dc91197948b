//! A controller's way into work and out of it (Base, 3.5), and how long it may take.

use crate::controller::NvmeError;
use crate::queue_pair::{CommandId, Done, QueuePair};
use crate::registers::Registers;
use crate::spec::registers::{self as register, Capabilities, Status};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at what takes long.
const LOOK: Duration = Duration::from_micros(50);

/// Takes a controller out of work, so that it forgets all queues and reaches no memory.
pub(crate) fn disable(registers: &dyn Registers, capabilities: Capabilities) -> Result<(), NvmeError> {
    registers.write_u32(register::CONFIGURATION, 0);
    wait_for_status(registers, limit_of(capabilities), "stopped", |status| !status.is_ready())
}

/// How long it may take to be ready, or no longer so.
pub(crate) fn limit_of(capabilities: Capabilities) -> Duration {
    Duration::from_millis(capabilities.timeout_ms().max(500))
}

/// Waits for a status of a controller that has not failed.
pub(crate) fn wait_until(
    registers: &dyn Registers,
    limit: Duration,
    what: &'static str,
    holds: impl Fn(Status) -> bool,
) -> Result<(), NvmeError> {
    wait_for_status(registers, limit, what, |status| status.is_fatal() || holds(status))?;
    if Status(registers.read_u32(register::STATUS)).is_fatal() { Err(NvmeError::Fatal) } else { Ok(()) }
}

fn wait_for_status(
    registers: &dyn Registers,
    limit: Duration,
    what: &'static str,
    holds: impl Fn(Status) -> bool,
) -> Result<(), NvmeError> {
    let begin = Instant::now();
    loop {
        let status = Status(registers.read_u32(register::STATUS));
        if status == Status::GONE {
            return Err(NvmeError::Gone);
        }
        if holds(status) {
            return Ok(());
        }
        if begin.elapsed() > limit {
            return Err(NvmeError::Late { what, limit });
        }
        thread::sleep(LOOK);
    }
}

/// Whether a controller is there, has not failed, and was not reset by somebody else.
pub(crate) fn working(registers: &dyn Registers) -> Result<(), NvmeError> {
    match Status(registers.read_u32(register::STATUS)) {
        Status::GONE => Err(NvmeError::Gone),
        status if status.is_fatal() => Err(NvmeError::Fatal),
        status if !status.is_ready() => Err(NvmeError::Stopped),
        _ => Ok(()),
    }
}

/// Waits for one command of a queue that has no other in flight.
pub(crate) fn wait_for(
    queue: &mut QueuePair,
    registers: &dyn Registers,
    id: CommandId,
    limit: Duration,
) -> Result<Done, NvmeError> {
    let begin = Instant::now();
    let mut found = None;
    loop {
        queue.poll(usize::MAX, |done| {
            if done.id == id {
                found = Some(done);
            }
        })?;
        if let Some(done) = found {
            return Ok(done);
        }
        working(registers)?;
        if begin.elapsed() > limit {
            return Err(NvmeError::Late { what: "completed a command", limit });
        }
        thread::sleep(LOOK);
    }
}
