//! Kernel options that the running kernel need not have been started with: those of the boot loader's configuration, and those that
//! a pasted text only talks about.

use crate::kernel::command_line::CommandLine;
use crate::kernel::verdict::{BootedKernel, TokenVerdict, check_command_line};
use crate::{Cited, Text, Tree};

/// The configuration of GRUB, of Debian, Red Hat, SUSE and their relatives.
pub(crate) const GRUB: &str = "etc/default/grub";
/// That of systemd-boot and of Proxmox, one line; of Red Hat's newer kernels too.
const KERNEL_INSTALL: &str = "etc/kernel/cmdline";
/// Options that a pasted text names in sentences, one in a line.
pub(crate) const NAMED: &str = "named-options";

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
    let grub = tree.text(GRUB).map(|text| (grub_lines(&text), text));
    let install = tree.text(KERNEL_INSTALL).map(|text| (text.lines().take(1).map(owned).collect(), text));
    let named = tree.text(NAMED).map(|text| (text.lines().map(owned).collect(), text));
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

/// The values of `GRUB_CMDLINE_LINUX` and `GRUB_CMDLINE_LINUX_DEFAULT`, the last one of each: GRUB gives a kernel both.
fn grub_lines(text: &Text) -> Vec<(u32, String)> {
    let of = |variable: &str| {
        let assigned = text.lines().filter_map(|(number, line)| Some((number, grub_assignment(line)?)));
        let of_variable = assigned.filter(|(_, assignment)| assignment.variable == variable);
        of_variable.last().map(|(number, assignment)| (number, assignment.value.to_owned()))
    };
    ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"].into_iter().filter_map(of).collect()
}

/// A line of GRUB's configuration that gives options to kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrubAssignment<'l> {
    pub(crate) variable: &'l str,
    /// The quote around the value, or nothing.
    pub(crate) quote: &'l str,
    pub(crate) value: &'l str,
}

/// Reads such a line. The file is read by a shell: a value with characters that one interprets is left out.
pub(crate) fn grub_assignment(line: &str) -> Option<GrubAssignment<'_>> {
    let (variable, value) = line.trim().split_once('=')?;
    let is_name = variable.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    (variable.starts_with("GRUB_CMDLINE_LINUX") && is_name).then_some(())?;
    let quote = value.get(..1).filter(|first| matches!(*first, "\"" | "'")).unwrap_or("");
    let value = value.strip_prefix(quote)?.strip_suffix(quote)?;
    (!value.contains(['$', '\\', '`'])).then_some(GrubAssignment { variable, quote, value })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_the_configuration_of_grub() {
        let text = Text::new(
            GRUB,
            "# GRUB_CMDLINE_LINUX=\"a\"\n\
             GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\n\
             GRUB_CMDLINE_LINUX_DEFAULT=\"quiet intel_iommu=on\"\n\
             GRUB_CMDLINE_LINUX='iommu=pt'\n\
             GRUB_CMDLINE_LINUX_RECOVERY=\"x\"\n",
        );
        let expect = [(4, "iommu=pt".to_owned()), (3, "quiet intel_iommu=on".to_owned())];
        assert_eq!(grub_lines(&text), expect);
        assert!(grub_lines(&Text::new(GRUB, "GRUB_CMDLINE_LINUX=\"$OTHER quiet\"\n")).is_empty());
        assert!(grub_lines(&Text::new(GRUB, "GRUB_CMDLINE_LINUX=\"quiet\n")).is_empty());
    }
}
