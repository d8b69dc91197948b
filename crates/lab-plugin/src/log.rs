//! Lines of ours in QEMU's log, among its trace events and in their order.

use crate::qemu;
use std::ffi::CString;

/// Says what happens on a virtual CPU: a window begins or ends, a workload begins, or it runs from here on.
pub(crate) fn tell(what: &str, vcpu: usize) {
    if let Ok(line) = CString::new(format!("iotoll {what} {vcpu}\n")) {
        // SAFETY: the text ends with a zero byte and is copied before the function returns.
        unsafe { qemu::qemu_plugin_outs(line.as_ptr()) }
    }
}
