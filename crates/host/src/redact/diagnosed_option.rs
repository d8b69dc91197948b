//! Options whose values the diagnosis reads.

use crate::kernel::options;

/// Whether the diagnosis reads the value of this kernel option. Such a value is never redacted.
pub(super) fn is_diagnosed(name: &str) -> bool {
    options::named(name).next().is_some()
}
