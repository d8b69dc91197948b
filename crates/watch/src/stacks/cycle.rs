//! How long a cycle takes.

use super::event::{Event, SamplerError, refusal};
use crate::perf_event::Reading;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

/// Work by which the length of a cycle is measured, again and again: together long enough for a CPU to reach its speed.
const CALIBRATION: Duration = Duration::from_millis(1);
const CALIBRATIONS: usize = 21;

/// Nanoseconds that a cycle takes, of this thread's own work. For the timer they are nanoseconds themselves.
pub(super) fn cycle_ns(event: Event) -> Result<f64, SamplerError> {
    if event == Event::Timer {
        return Ok(1.0);
    }
    let opened = event.attributes().open_for_this_thread();
    let counter = opened.map_err(|error| refusal(error, SamplerError::NoCycles))?;
    let mut counter = File::from(counter);
    // Others may have run meanwhile, whose cycles are not counted: the middle of several times is without that.
    let measured = (0..CALIBRATIONS).map(|_| calibrate(&mut counter)).collect::<io::Result<Vec<f64>>>();
    let mut measured = measured.map_err(SamplerError::NoCycles)?;
    measured.sort_by(f64::total_cmp);
    let middle = measured[CALIBRATIONS / 2];
    if middle.is_finite() && middle > 0.0 { Ok(middle) } else { Err(SamplerError::Idle) }
}

/// Works for a moment, and returns the nanoseconds of a cycle. It is infinite if none was counted.
fn calibrate(counter: &mut File) -> io::Result<f64> {
    let (first, start) = (Reading::of(counter)?.scaled(), Instant::now());
    while start.elapsed() < CALIBRATION {
        black_box((0..1000_u64).fold(0, |sum, one| black_box(sum + one)));
    }
    let (ns, last) = (start.elapsed().as_nanos() as f64, Reading::of(counter)?.scaled());
    Ok(ns / (last - first).max(0.0))
}
