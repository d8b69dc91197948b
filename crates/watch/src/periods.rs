//! Windows and the periods that they stand for. The kernel counts I/O all the time, so it is read where a period ends and the next one begins.

use crate::completed::{Completed, completed, since};
use crate::record::Interval;
use crate::sums::Span;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What adapters had completed at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Boundary {
    /// Since watching began.
    pub(crate) at: Duration,
    pub(crate) completed: BTreeMap<String, Completed>,
}

impl Boundary {
    /// Reads the kernel's counters at this time since watching began.
    pub(crate) fn read(at: Duration) -> Self {
        Self { at, completed: completed(Path::new("/")) }
    }
}

/// A window that ended.
#[derive(Debug)]
struct Window {
    span: Span,
    interval: Interval,
    /// Of its period.
    begin: Boundary,
}

impl Window {
    /// With its period, which ended here.
    fn until(self, end: &Boundary) -> Counted {
        let Self { span, interval, begin } = self;
        Counted {
            period: Span {
                seconds: end.at.saturating_sub(begin.at).as_secs_f64().max(span.seconds),
                completed: since(&end.completed, &begin.completed),
                ..Span::default()
            },
            span,
            interval,
        }
    }
}

/// A window whose period ended.
#[derive(Debug)]
pub(crate) struct Counted {
    /// What was counted in the window.
    pub(crate) span: Span,
    pub(crate) interval: Interval,
    /// The time that it stands for, and what adapters completed in that. No calls.
    pub(crate) period: Span,
}

/// The periods up to now. Each begins where the one before ended, so that together they are all the time.
#[derive(Debug, Default)]
pub(crate) struct Periods {
    /// Where the last period ended, or where that of the last window began while it goes on.
    boundary: Boundary,
    /// When the last window's period ends, while it goes on.
    due: Option<Duration>,
    /// It is kept until the next one ended: if there is none, its period lasts as long as watching.
    last: Option<Window>,
}

impl Periods {
    /// The first period begins here.
    pub(crate) fn begin(boundary: Boundary) -> Self {
        Self { boundary, due: None, last: None }
    }

    /// A window ended, whose period ends at `due`. Returns the window before it.
    pub(crate) fn end_window(&mut self, span: Span, interval: Interval, due: Duration) -> Option<Counted> {
        let begin = self.boundary.clone();
        self.due = Some(due);
        let before = self.last.replace(Window { span, interval, begin });
        before.map(|window| window.until(&self.boundary))
    }

    /// Whether a period must end now.
    pub(crate) fn is_due(&self, elapsed: Duration) -> bool {
        self.due.is_some_and(|due| elapsed >= due)
    }

    /// The last window's period ends, and the next one begins.
    pub(crate) fn end_period(&mut self, boundary: Boundary) {
        self.boundary = boundary;
        self.due = None;
    }

    /// Watching ends, and with it the last window's period. Returns that window.
    pub(crate) fn finish(&mut self, end: &Boundary) -> Option<Counted> {
        self.last.take().map(|window| window.until(end))
    }
}
