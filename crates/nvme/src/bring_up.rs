//! Enables and disables a controller (Base, 3.5), and waits for its status and its completions.

use crate::controller::NvmeError;
use crate::queue_pair::{CommandId, Done, QueuePair};
use crate::registers::Registers;
use crate::spec::registers::{self as register, Capabilities, Status};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two polls of the status register.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Disables a controller. Afterwards it has no queues and does no DMA.
pub(crate) fn disable(registers: &dyn Registers, capabilities: Capabilities) -> Result<(), NvmeError> {
    registers.write_u32(register::CONFIGURATION, 0);
    poll_status(registers, ready_timeout(capabilities), "stopped", |status| !status.is_ready())
}

/// How long the controller may take to set or clear CSTS.RDY (CAP.TO), at least 500 ms.
pub(crate) fn ready_timeout(capabilities: Capabilities) -> Duration {
    Duration::from_millis(capabilities.timeout_ms().max(500))
}

/// Polls CSTS until `holds` is true. Fails at once if the adapter is gone or the controller has failed.
pub(crate) fn wait_for_status(
    registers: &dyn Registers,
    limit: Duration,
    what: &'static str,
    holds: impl Fn(Status) -> bool,
) -> Result<(), NvmeError> {
    poll_status(registers, limit, what, |status| status.is_fatal() || holds(status))?;
    if Status(registers.read_u32(register::STATUS)).is_fatal() { Err(NvmeError::Fatal) } else { Ok(()) }
}

fn poll_status(
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
            return Err(NvmeError::TimedOut { what, limit });
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Fails if the adapter is gone, or the controller has failed or was reset by someone else.
pub(crate) fn check_working(registers: &dyn Registers) -> Result<(), NvmeError> {
    match Status(registers.read_u32(register::STATUS)) {
        Status::GONE => Err(NvmeError::Gone),
        status if status.is_fatal() => Err(NvmeError::Fatal),
        status if !status.is_ready() => Err(NvmeError::Stopped),
        _ => Ok(()),
    }
}

/// Waits for one command, which is the only one in flight in its queue.
pub(crate) fn wait_for_completion(
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
        check_working(registers)?;
        if begin.elapsed() > limit {
            return Err(NvmeError::TimedOut { what: "completed a command", limit });
        }
        thread::sleep(POLL_INTERVAL);
    }
}
