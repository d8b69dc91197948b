//! SIGINT, SIGTERM and SIGHUP: temporary files are removed before the program ends. A command may instead have a flag set, and end by
//! itself.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What to do when a signal arrives.
#[derive(Default)]
struct SignalActions {
    /// Removed before the program ends.
    temporary: BTreeSet<PathBuf>,
    /// Set instead of ending the program.
    stop: Option<Arc<AtomicBool>>,
}

/// The actions of this process, locked.
fn actions() -> MutexGuard<'static, SignalActions> {
    static ACTIONS: OnceLock<Mutex<SignalActions>> = OnceLock::new();
    ACTIONS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file that is removed when a signal ends the program, until this is dropped.
pub(crate) struct RemoveOnSignal(PathBuf);

impl RemoveOnSignal {
    /// Registers a file. Signals are handled only after [`start_signal_thread`] was called.
    pub(crate) fn new(path: &Path) -> Self {
        actions().temporary.insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for RemoveOnSignal {
    fn drop(&mut self) {
        actions().temporary.remove(&self.0);
    }
}

/// A flag that a signal sets from now on, instead of ending the program. The caller must check it and end.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    start_signal_thread()?;
    Ok(Arc::clone(actions().stop.get_or_insert_default()))
}

/// Starts the thread that handles signals, unless it runs already. A signal that was ignored from the start (`nohup`) stays ignored.
pub(crate) fn start_signal_thread() -> io::Result<()> {
    static IS_STARTED: Mutex<bool> = Mutex::new(false);
    let mut is_started = IS_STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_started {
        let ignored = ignored_signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !contains(ignored, *signal));
        let mut signals = Signals::new(ending)?;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || signals.forever().for_each(handle_signal))?;
        *is_started = true;
    }
    Ok(())
}

/// Sets the stop flag if there is one; otherwise removes temporary files and ends the program as the signal does by default.
fn handle_signal(signal: i32) {
    let actions = actions();
    if let Some(stop) = &actions.stop {
        stop.store(true, Ordering::Relaxed);
        return;
    }
    for path in &actions.temporary {
        // The program ends whether or not the file could be removed.
        let _ = std::fs::remove_file(path);
    }
    let _ = emulate_default_handler(signal);
}

/// The mask of ignored signals in `/proc/self/status` (`SigIgn`, proc(5)); zero if the line is missing.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether a signal is in a mask, whose bit 0 is signal 1.
fn contains(mask: u64, signal: i32) -> bool {
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "Name:\tiotoll\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(contains(ignored_signals(status), SIGHUP));
        assert!(!contains(ignored_signals(status), SIGTERM));
        assert_eq!(ignored_signals("SigIgn:\tnot hexadecimal\n"), 0);
        assert_eq!(ignored_signals(""), 0);
    }
}
