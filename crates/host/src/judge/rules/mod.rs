//! The rules: each looks at the case and gives findings.

mod bounce;
mod faults;
mod invalidation;
mod link;
mod memory_type;
mod numa;
mod options;
mod peer;
mod power;
mod protection;
mod sources;

use super::{Case, Finding};

/// All findings, in no particular order.
pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let rules = [
        bounce::find,
        faults::find,
        invalidation::find,
        link::find,
        memory_type::find,
        numa::find,
        options::find,
        peer::find,
        power::find,
        protection::find,
        sources::find,
    ];
    rules.iter().flat_map(|rule| rule(case)).collect()
}

/// `1 adapter`, `3 adapters`.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Where a kernel argument is put for good, by what the host's boot loader probably is.
fn kernel_argument(argument: &str) -> String {
    format!(
        "add `{argument}` to the kernel command line (grubby --update-kernel=ALL --args={argument}, or \
         GRUB_CMDLINE_LINUX in /etc/default/grub and update-grub) and reboot"
    )
}

/// The same for an argument that must go.
fn without_kernel_argument(argument: &str) -> String {
    format!(
        "take `{argument}` off the kernel command line (grubby --update-kernel=ALL --remove-args={argument}, or \
         /etc/default/grub and update-grub) and reboot"
    )
}
