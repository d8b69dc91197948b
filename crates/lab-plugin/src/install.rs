//! Coming and going: what QEMU calls when it loads the plugin and when it ends.

use crate::argument::Arguments;
use crate::callback;
use crate::qemu::{Id, Info};
use crate::quiet::Quiet;
use crate::record::Record;
use crate::recorder::{RECORDER, Recorder, TARGET_IS_X86};
use rustix::process::{Pid, Signal};
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static PLUGIN: AtomicU64 = AtomicU64::new(0);

/// What QEMU calls first. Returns 0 if the plugin is to stay.
///
/// # Safety
///
/// QEMU calls it, once, with `argc` strings in `argv` and a description of itself.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's promise, above.
    let (words, info) = unsafe { (words(argc, argv), &*info) };
    match install(id, info, &words) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("lab plugin: {why}");
            1
        }
    }
}

/// # Safety
///
/// `argv` holds `argc` strings.
unsafe fn words(argc: c_int, argv: *const *const c_char) -> Vec<String> {
    // SAFETY: the caller's promise.
    let word = |index| unsafe { CStr::from_ptr(*argv.add(index)) }.to_string_lossy().into_owned();
    (0..usize::try_from(argc).unwrap_or(0)).map(word).collect()
}

fn install(id: Id, info: &Info, words: &[String]) -> Result<(), String> {
    let arguments = Arguments::read(words.iter().map(String::as_str))?;
    if let Some(parent) = arguments.parent {
        end_with(parent)?;
    }
    let record =
        Record::create(&arguments.out).map_err(|why| format!("{}: {why}", arguments.out.display()))?;
    let shown = arguments.log.display().to_string();
    let linear_maps = arguments.linear_maps.clone();
    let quiet = Quiet::follow(arguments).map_err(|why| format!("{shown}, or the disk: {why}"))?;
    // SAFETY: a string that QEMU owns.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    TARGET_IS_X86.store(matches!(target.to_bytes(), b"x86_64" | b"i386"), Relaxed);
    let recorder = Recorder::new(record, quiet, linear_maps, usize::try_from(info.vcpus).unwrap_or(1));
    *RECORDER.lock().map_err(|why| why.to_string())? = Some(recorder);
    PLUGIN.store(id, Relaxed);
    register();
    Ok(())
}

/// Without whoever started it, this QEMU is of no use, and nobody else would end it.
fn end_with(parent: u32) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(|why| why.to_string())?;
    let now = rustix::process::getppid().map(Pid::as_raw_nonzero);
    if now.is_none_or(|now| now.get().cast_unsigned() != parent) {
        return Err(format!("the process that started QEMU ({parent}) is gone"));
    }
    Ok(())
}

/// Has QEMU translate everything anew: what is watched has changed.
pub(crate) fn translate_anew() {
    callback::reset(PLUGIN.load(Relaxed));
}

/// Asks QEMU for all callbacks, at the start and when it has forgotten them.
pub(crate) fn register() {
    callback::register(PLUGIN.load(Relaxed));
}
