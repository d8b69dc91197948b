//! Memory for DMA that a driver did not get, by the kernel's warning and the call trace below it.

use super::call_trace::Shown;
use crate::Citation;
use crate::kernel::message::driver::PagesRefused;
use crate::kernel::message::{DriverMessage, Message, read};

/// Lines below a warning that are looked at for the function that wanted the pages.
const LINES_MAX: u32 = 40;

/// Memory for DMA that was not to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAllocation {
    /// What was wanted.
    pub wanted: Wanted,
    /// Nothing translates for the device: the trace shows the code of direct mapping.
    pub is_direct: bool,
    /// The line that says so; of pages also the line of the trace that shows that they were for DMA.
    pub at: Vec<Citation>,
}

/// What a driver wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Pages in a row.
    Pages(PagesRefused),
    /// Bytes in a row, which neither the kernel's pool of contiguous memory (CMA) nor anything else had.
    Bytes(u64),
}

/// Follows a log from a warning to the function below it that asks for memory for DMA.
#[derive(Debug, Default)]
pub(super) struct RefusalFollower {
    warning: Option<(PagesRefused, Citation)>,
    lines_left: u32,
}

impl RefusalFollower {
    /// Takes a message, with what it shows of a call trace; a refusal once its trace shows that it was of memory for DMA.
    pub(super) fn take(
        &mut self,
        message: &str,
        shown: Option<Shown>,
        cite: impl Fn() -> Citation,
    ) -> Option<RefusedAllocation> {
        if message.contains("page allocation failure")
            && let Some((_, Message::Driver(DriverMessage::PagesRefused(pages)))) = read(message)
        {
            (self.warning, self.lines_left) = (Some((pages, cite())), LINES_MAX);
            return None;
        }
        self.warning.as_ref()?;
        self.lines_left = self.lines_left.saturating_sub(1);
        if self.lines_left == 0 || message.starts_with("Mem-Info:") || message.contains("---[ end trace") {
            self.warning = None;
        }
        // `? ` marks what only lies on the stack.
        if message.contains("? ") {
            return None;
        }
        let is_direct = match shown? {
            Shown::Allocation(is_direct) => is_direct,
            Shown::Translation(_) | Shown::DeviceInvalidation => return None,
        };
        let (pages, at) = self.warning.take()?;
        Some(RefusedAllocation { wanted: Wanted::Pages(pages), is_direct, at: vec![at, cite()] })
    }
}
