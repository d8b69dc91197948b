//! Commands in a pasted text, and the file of the host that their output belongs in.

/// The command after a prompt such as `user@host:~$ `, `[root@host ~]# `, `$ `, `# ` or `host:~ # `, or in the heading of a
/// report (`*** /proc/cmdline`). A line that only looks like one is no harm: its words must name a command that is known.
pub(super) fn command(line: &str) -> Option<&str> {
    let after = line.strip_prefix("*** ").or_else(|| after_prompt(line))?;
    let words = after.trim().trim_start_matches("sudo ").trim_start();
    let is_known = PROGRAMS.contains(&program(words)) || words.starts_with("/proc/");
    is_known.then_some(words)
}

/// The host that a prompt names: `user@HOST:~$`.
pub(super) fn host(line: &str) -> Option<&str> {
    let (before, _) = line.split_once(['$', '#', '%'])?;
    let (user, rest) = before.trim_start_matches('[').split_once('@')?;
    let end = rest.find([':', ' ', ']']).unwrap_or(rest.len());
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let name = rest.get(..end)?;
    (is_name(user) && is_name(name)).then_some(name)
}

/// Programs whose output is often pasted, and those after whose output another begins.
const PROGRAMS: [&str; 14] = [
    "dmesg",
    "journalctl",
    "lspci",
    "uname",
    "cat",
    "grep",
    "zcat",
    "head",
    "tail",
    "find",
    "ls",
    "lsusb",
    "lsmod",
    "for",
];

/// The name of the program that a command calls, without its folder.
pub(super) fn program(command: &str) -> &str {
    let word = command.split(' ').next().unwrap_or_default();
    word.rsplit('/').next().unwrap_or(word)
}

/// What follows a shell's prompt.
fn after_prompt(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")) {
        return Some(rest);
    }
    // The words before the sign have no blank but the one before a folder.
    let at = line.find(['$', '#', '%'])?;
    let (before, after) = line.split_at(at);
    let names_host = before.contains('@') || before.contains(':');
    let is_short = before.len() <= 80 && before.split_whitespace().count() <= 2;
    let rest = after.get(1..)?.strip_prefix(' ')?;
    // A log's time in brackets is no prompt, `[user@host ~]` is one.
    let is_prompt = names_host && is_short && (!before.starts_with('[') || before.contains('@'));
    is_prompt.then_some(rest)
}

/// Files of a host that are of use as they are.
const FILES: [&str; 13] = [
    "proc/cmdline",
    "etc/default/grub",
    "etc/kernel/cmdline",
    "proc/version",
    "proc/iomem",
    "proc/mtrr",
    "proc/cpuinfo",
    "proc/meminfo",
    "etc/os-release",
    "etc/redhat-release",
    "etc/SuSE-release",
    "proc/interrupts",
    "sys/hypervisor/type",
];

/// The file of the host that a path on it names.
pub(super) fn copied_file(path: &str) -> Option<&'static str> {
    FILES.into_iter().find(|file| path.strip_prefix('/') == Some(file))
}

/// The file of the host that the output of a command belongs in; `None` if it is of no use here.
pub(super) fn file_of_output(command: &str) -> Option<&'static str> {
    let file = command.split([' ', '|']).find_map(copied_file);
    match program(command) {
        _ if file.is_some() => file,
        "dmesg" | "journalctl" => Some(super::LOG),
        "cat" | "grep" | "zcat" | "head" | "tail" if command.contains("/var/log/") => Some(super::LOG),
        "lspci" => Some(super::LISTING),
        "uname" => Some("uname"),
        _ => None,
    }
}

/// Whether lspci was asked for a tree, which has no records.
pub(super) fn is_tree(command: &str) -> bool {
    command.split(' ').any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<Option<&'static str>>) {
        assert_eq!(command(line).map(file_of_output), expect, "{line}");
    }

    #[test]
    fn commands_after_prompts() {
        check("user@host:~$ dmesg | grep -i iommu", Some(Some("var/log/dmesg")));
        check("[root@host ~]# lspci -nnk", Some(Some("lspci")));
        check("root@pve:~# cat /proc/cmdline", Some(Some("proc/cmdline")));
        check("$ sudo dmesg", Some(Some("var/log/dmesg")));
        check("# uname -a", Some(Some("uname")));
        check("host:~ # lspci -tv", Some(Some("lspci")));
        check("$ ls /sys/kernel/iommu_groups", Some(None));
        check("*** /proc/cmdline", Some(Some("proc/cmdline")));
        check("# /sbin/lspci -nn", Some(Some("lspci")));
    }

    #[test]
    fn lines_that_are_no_command() {
        for line in ["# a comment", "costs $ 5", "[    0.1] pci 0000:00:01.0: x # y", "100 % of cases", ""] {
            check(line, None);
        }
    }
}
