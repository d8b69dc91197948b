//! Which commands and files show the log of another boot than the one that the rest of a report is of.

/// Programs and daemons name the logs that they keep of the kernel like this; a number or date behind it makes one older.
const LOG_NAMES: [&str; 8] =
    ["dmesg", "kern", "kern.log", "kernel", "messages", "syslog", "boot.msg", "boot.log"];

/// Whether `journalctl` is asked for another boot than the last one: `-b -1`, `--boot=3`.
pub(super) fn is_asked_for(command: &str) -> bool {
    let mut words = command.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let boot = match word {
            "|" => return false,
            "-b" | "--boot" => words.next_if(|next| is_number(next)).unwrap_or_default(),
            word => match word.strip_prefix("--boot=").or_else(|| word.strip_prefix("-b")) {
                Some(boot) => boot,
                None => continue,
            },
        };
        return is_number(boot) && boot.trim_start_matches(['-', '+']).bytes().any(|digit| digit != b'0');
    }
    false
}

/// Whether a word is a boot's number, such as `-1`.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a file's name says that its log is older than another one's: `dmesg.0`, `messages-20240131`, `kern.log.1`,
/// `journalctl_--no-pager_--boot_-1`, what kdump saved of a crash. `dmesg-6.1` names a version instead.
pub(super) fn is_named_by(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let mut stem = name.as_str();
    for ending in [".gz", ".xz", ".zst", ".txt"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    if stem.starts_with("journalctl") {
        return is_asked_for(&stem.replace('_', " "));
    }
    let is_log = |name: &str| LOG_NAMES.contains(&name);
    let is_rotated = |mark: char, digits: fn(usize) -> bool| {
        stem.rsplit_once(mark)
            .is_some_and(|(log, number)| is_log(log) && is_number(number) && digits(number.len()))
    };
    stem.contains("vmcore-dmesg")
        || stem == "boot.omsg"
        || stem.strip_suffix(".old").is_some_and(is_log)
        || is_rotated('.', |digits| digits <= 2)
        || is_rotated('-', |digits| digits == 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        for command in [
            "/usr/bin/journalctl --no-pager --boot=1 --output=short-iso",
            "journalctl -b -1 _COMM=Xorg",
            "journalctl -k -b-2",
            "journalctl --no-pager --boot -1",
        ] {
            assert!(is_asked_for(command), "{command}");
        }
        for command in [
            "journalctl --boot=0 --no-pager",
            "journalctl -b -0",
            "journalctl -k",
            "journalctl -b -k",
            "journalctl --no-pager --boot",
            "journalctl -b | tail -n 500 -b -1",
            "dmesg -T",
        ] {
            assert!(!is_asked_for(command), "{command}");
        }
    }

    #[test]
    fn names() {
        for name in [
            "var/log/dmesg.0",
            "logs/dmesg.1",
            "dmesg.1.gz",
            "kern.log.1",
            "messages-20240131.txt",
            "boot.omsg",
            "dmesg.old",
            "journalctl_--no-pager_--catalog_--boot_-1",
            "127.0.0.1-2024-01-31/vmcore-dmesg.txt",
        ] {
            assert!(is_named_by(name), "{name}");
        }
        for name in [
            "dmesg",
            "dmesg-6.1.txt",
            "dmesg-6",
            "CurrentDmesg.txt",
            "messages.txt",
            "journalctl_--no-pager_--boot",
            "host.1",
        ] {
            assert!(!is_named_by(name), "{name}");
        }
    }
}
