//! The configuration of GRUB that holds kernel options (GNU GRUB manual, "Simple configuration handling").

use crate::Text;

/// Where it lies, on Debian, Red Hat, SUSE and their relatives.
pub(crate) const FILE: &str = "etc/default/grub";

/// The values of `GRUB_CMDLINE_LINUX` and `GRUB_CMDLINE_LINUX_DEFAULT`, the last one of each: GRUB gives a kernel both. A last one
/// that only a shell can read leaves its variable unknown.
pub(crate) fn lines(text: &Text) -> Vec<(u32, &str)> {
    let of = |name: &str| {
        let (number, line) = text.lines().filter(|(_, line)| variable(line) == Some(name)).last()?;
        Some((number, assignment(line)?.value))
    };
    ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"].into_iter().filter_map(of).collect()
}

/// The variable with kernel options that a line sets or adds to.
pub(crate) fn variable(line: &str) -> Option<&str> {
    let (name, _) = line.trim_start().split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    (name.starts_with("GRUB_CMDLINE_LINUX") && is_name).then_some(name)
}

/// A line of GRUB's configuration that gives options to kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Assignment<'l> {
    pub(crate) variable: &'l str,
    /// The quote around the value, or nothing.
    pub(crate) quote: &'l str,
    pub(crate) value: &'l str,
}

/// Reads such a line. The file is read by a shell: a value that is more than one word or string of it is left out.
pub(crate) fn assignment(line: &str) -> Option<Assignment<'_>> {
    let variable = variable(line)?;
    let value = line.trim().strip_prefix(variable)?.strip_prefix('=')?;
    let quote = value.get(..1).filter(|first| matches!(*first, "\"" | "'")).unwrap_or("");
    let value = value.strip_prefix(quote)?.strip_suffix(quote)?;
    let is_one_word = match quote {
        "" => !value.contains([' ', '\t', '#', '"', '\'']),
        quote => !value.contains(quote),
    };
    (is_one_word && !value.contains(['$', '\\', '`'])).then_some(Assignment { variable, quote, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_the_configuration_of_grub() {
        let text = Text::new(
            FILE,
            "# GRUB_CMDLINE_LINUX=\"a\"\n\
             GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\n\
             GRUB_CMDLINE_LINUX_DEFAULT=\"quiet intel_iommu=on\"\n\
             GRUB_CMDLINE_LINUX='iommu=pt'\n\
             GRUB_CMDLINE_LINUX_RECOVERY=\"x\"\n",
        );
        let expect = [(4, "iommu=pt"), (3, "quiet intel_iommu=on")];
        assert_eq!(lines(&text), expect);
        for unreadable in [
            "GRUB_CMDLINE_LINUX=\"$OTHER quiet\"\n",
            "GRUB_CMDLINE_LINUX=quiet\nGRUB_CMDLINE_LINUX=\"$(cat x)\"\n",
            "GRUB_CMDLINE_LINUX= # intel_iommu=on\n",
            "GRUB_CMDLINE_LINUX=quiet iommu=pt\n",
            "GRUB_CMDLINE_LINUX=\"quiet\" # \"iommu=pt\"\n",
            "GRUB_CMDLINE_LINUX=\"iommu=pt\"; X=\"\"\n",
        ] {
            assert!(lines(&Text::new(FILE, unreadable)).is_empty(), "{unreadable}");
        }
        assert!(lines(&Text::new(FILE, "GRUB_CMDLINE_LINUX=\"quiet\n")).is_empty());
    }
}
