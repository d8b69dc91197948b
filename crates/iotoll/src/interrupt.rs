//! Signals that end the program: temporary files are removed first, and a command may ask to stop by itself instead.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What a signal finds to do.
#[derive(Default)]
struct Duties {
    /// Removed before the program ends.
    temporary: BTreeSet<PathBuf>,
    /// Set instead of ending the program.
    stop: Option<Arc<AtomicBool>>,
}

fn duties() -> MutexGuard<'static, Duties> {
    static DUTIES: OnceLock<Mutex<Duties>> = OnceLock::new();
    DUTIES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file that a signal removes, until this is dropped.
pub(crate) struct Removal(PathBuf);

impl Removal {
    /// Takes effect once the program [listens](listen).
    pub(crate) fn of(path: &Path) -> Self {
        duties().temporary.insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        duties().temporary.remove(&self.0);
    }
}

/// From now on a signal sets this, and the command that asked for it ends by itself.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    listen()?;
    Ok(Arc::clone(duties().stop.get_or_insert_default()))
}

/// Starts the thread that waits for signals, once. A signal that was ignored from the start (`nohup`) stays ignored.
pub(crate) fn listen() -> io::Result<()> {
    static LISTENER: Mutex<bool> = Mutex::new(false);
    let mut listens = LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
    if !*listens {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !contains(ignored, *signal));
        let mut signals = Signals::new(ending)?;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || signals.forever().for_each(obey))?;
        *listens = true;
    }
    Ok(())
}

fn obey(signal: i32) {
    let duties = duties();
    if let Some(stop) = &duties.stop {
        stop.store(true, Ordering::Relaxed);
        return;
    }
    for path in &duties.temporary {
        // The program ends whether or not the file could be removed.
        let _ = std::fs::remove_file(path);
    }
    let _ = emulate_default_handler(signal);
}

/// The mask of ignored signals in `/proc/self/status` (`SigIgn`, proc(5)); zero if it is not told.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn contains(mask: u64, signal: i32) -> bool {
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "Name:\tiotoll\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(contains(ignored(status), SIGHUP));
        assert!(!contains(ignored(status), SIGTERM));
        assert_eq!(ignored("SigIgn:\tnot hexadecimal\n"), 0);
        assert_eq!(ignored(""), 0);
    }
}
