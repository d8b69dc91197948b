//! Writes the plugin's lines to QEMU's log, in order with its trace events.

use crate::qemu;
use std::ffi::CString;

/// Writes a line `iotoll EVENT VCPU`. Events: `begin` and `end` of a window, `phase` (a workload begins), and `on` (this
/// virtual CPU runs from here on).
pub(crate) fn write_event(event: &str, vcpu: usize) {
    if let Ok(line) = CString::new(format!("iotoll {event} {vcpu}\n")) {
        // SAFETY: the text ends with a zero byte and is copied before the function returns.
        unsafe { qemu::qemu_plugin_outs(line.as_ptr()) }
    }
}
