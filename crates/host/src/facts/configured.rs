//! Kernel options that the running kernel need not have been started with: those of the boot loader's configuration, and those that
//! a pasted text only talks about.

use crate::kernel::command_line::CommandLine;
use crate::kernel::grub;
use crate::kernel::verdict::{BootedKernel, TokenVerdict, check_command_line};
use crate::tree::{NAMED_OPTIONS, Reach};
use crate::{Text, Tree};

/// The line for new boot entries of systemd-boot, of Proxmox and of newer systems of Red Hat.
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

    /// The options for the next boot that a line with these options does not have.
    pub(super) fn missing_on<'c>(
        &'c self,
        booted: &'c [TokenVerdict],
    ) -> impl Iterator<Item = &'c TokenVerdict> {
        let is_booted =
            |judged: &TokenVerdict| booted.iter().any(|own| own.token.words() == judged.token.words());
        self.for_next_boot.iter().filter(move |judged| !judged.token.for_init && !is_booted(judged))
    }
}

/// Lines with options, with their numbers.
type Lines<'t> = Vec<(u32, &'t str)>;

/// Reads and judges them.
pub(super) fn read(tree: &Tree, machine: &BootedKernel<'_>) -> ConfiguredOptions {
    let verdicts = |path: &str, lines: fn(&Text) -> Lines<'_>| -> Vec<TokenVerdict> {
        let Some(text) = tree.text(path) else { return Vec::new() };
        let of_line =
            |(number, words)| check_command_line(&CommandLine::parse_quoted(&text, number, words), machine);
        lines(&text).into_iter().flat_map(of_line).collect()
    };
    let mut for_next_boot = verdicts(grub::FILE, grub::lines);
    for_next_boot.extend(verdicts(KERNEL_INSTALL, |text| text.lines().take(1).collect()));
    let named = match tree.reach() {
        Reach::Live => Vec::new(),
        Reach::Capture => verdicts(NAMED_OPTIONS, |text| text.lines().collect()),
    };
    ConfiguredOptions { for_next_boot, named }
}
