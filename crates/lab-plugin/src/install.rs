//! The plugin's entry point, which QEMU calls when it loads the plugin.

use crate::argument::Arguments;
use crate::callback;
use crate::devices::Devices;
use crate::qemu::{Id, Info};
use crate::record::Record;
use crate::recorder::{RECORDER, Recorder, TARGET_IS_X86};
use rustix::process::{Pid, Signal};
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The id that QEMU gave the plugin.
static PLUGIN: AtomicU64 = AtomicU64::new(0);

/// Sets the plugin up. Returns 0 on success; otherwise QEMU ends.
///
/// # Safety
///
/// Only QEMU may call it, once, with `argc` strings in `argv` and a description of itself.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes valid pointers, as the function requires.
    let (words, info) = unsafe { (words(argc, argv), &*info) };
    match install(id, info, &words) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("lab plugin: {why}");
            1
        }
    }
}

/// Converts the arguments to strings.
///
/// # Safety
///
/// `argv` must hold `argc` strings.
unsafe fn words(argc: c_int, argv: *const *const c_char) -> Vec<String> {
    // SAFETY: the caller guarantees that the index is below the number of strings.
    let word = |index| unsafe { CStr::from_ptr(*argv.add(index)) }.to_string_lossy().into_owned();
    (0..usize::try_from(argc).unwrap_or(0)).map(word).collect()
}

/// Parses the arguments, creates the record and the recorder, and registers the callbacks.
fn install(id: Id, info: &Info, words: &[String]) -> Result<(), String> {
    let arguments = Arguments::parse(words.iter().map(String::as_str))?;
    if let Some(parent) = arguments.parent {
        end_with(parent)?;
    }
    let record =
        Record::create(&arguments.out).map_err(|why| format!("{}: {why}", arguments.out.display()))?;
    let log = arguments.log.display().to_string();
    let linear_maps = arguments.linear_maps.clone();
    let devices = Devices::new(arguments)
        .map_err(|why| format!("can't open the log {log} or the disk's socket: {why}"))?;
    // SAFETY: QEMU owns the string, which ends with a zero byte.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    TARGET_IS_X86.store(matches!(target.to_bytes(), b"x86_64" | b"i386"), Relaxed);
    let recorder = Recorder::new(record, devices, linear_maps, usize::try_from(info.vcpus).unwrap_or(1));
    *RECORDER.lock().map_err(|why| why.to_string())? = Some(recorder);
    PLUGIN.store(id, Relaxed);
    register();
    Ok(())
}

/// Makes the kernel kill QEMU when the process that started it ends. An error if that has already ended.
fn end_with(parent: u32) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(|why| why.to_string())?;
    let now = rustix::process::getppid().map(Pid::as_raw_nonzero);
    if now.is_none_or(|now| now.get().cast_unsigned() != parent) {
        return Err(format!("the process {parent} that started QEMU has ended"));
    }
    Ok(())
}

/// Makes QEMU translate all blocks again, with the instrumentation that is now wanted.
pub(crate) fn retranslate() {
    callback::reset(PLUGIN.load(Relaxed));
}

/// Registers all callbacks, at the start and after each reset.
pub(crate) fn register() {
    callback::register(PLUGIN.load(Relaxed));
}
