//! Kernel options that the running kernel need not have been started with: those of the boot loader's configuration, and those that
//! a pasted text only talks about.

use crate::kernel::command_line::CommandLine;
use crate::kernel::grub;
use crate::kernel::verdict::{BootedKernel, TokenVerdict, check_command_line};
use crate::tree::NAMED_OPTIONS;
use crate::{Cited, Text, Tree};

/// That of systemd-boot and of Proxmox, one line; of Red Hat's newer kernels too.
const KERNEL_INSTALL: &str = "etc/kernel/cmdline";
/// Options that stand elsewhere than on the running kernel's line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfiguredOptions {
    /// Those of the boot loader's configuration.
    pub for_next_boot: Vec<TokenVerdict>,
    /// Those that a text talks about: whether anybody gave them to a kernel is not known.
    pub named: Vec<TokenVerdict>,
}

impl ConfiguredOptions {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.for_next_boot.is_empty() && self.named.is_empty()
    }
}

/// Reads and judges them.
pub(super) fn read(tree: &Tree, machine: &BootedKernel<'_>) -> ConfiguredOptions {
    let grub = tree.text(grub::FILE).map(|text| (grub::lines(&text), text));
    let install = tree.text(KERNEL_INSTALL).map(|text| (text.lines().take(1).map(owned).collect(), text));
    let named = tree.text(NAMED_OPTIONS).map(|text| (text.lines().map(owned).collect(), text));
    let verdicts = |source: Option<(Vec<(u32, String)>, Text)>| {
        let (lines, text) = source.unwrap_or_else(|| (Vec::new(), Text::new("", "")));
        let of_line = |(number, words): &(u32, String)| {
            check_command_line(&CommandLine::parse_quoted(&text, *number, words), machine)
        };
        lines.iter().flat_map(of_line).collect::<Vec<_>>()
    };
    let for_next_boot = verdicts(grub).into_iter().chain(verdicts(install)).collect();
    ConfiguredOptions { for_next_boot, named: verdicts(named) }
}

fn owned((number, line): (u32, &str)) -> (u32, String) {
    (number, line.to_owned())
}

/// The options of the boot loader's configuration that the running kernel was not started with. Empty if its line is not known.
pub(super) fn not_booted<'c>(
    configured: &'c ConfiguredOptions,
    booted: Option<&Cited<String>>,
    options: &[TokenVerdict],
) -> Vec<&'c TokenVerdict> {
    let is_on_line =
        |judged: &TokenVerdict| options.iter().any(|own| own.token.words() == judged.token.words());
    let of_kernel = configured.for_next_boot.iter().filter(|judged| !judged.token.for_init);
    let missing = of_kernel.filter(|judged| booted.is_some() && !is_on_line(judged));
    missing.collect()
}
