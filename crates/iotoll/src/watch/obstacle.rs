//! What keeps this process from counting the kernel's functions, as far as it can be seen.
//!
//! The kernel answers a refused BPF program with one number, mostly EPERM, whatever the reason is. So common reasons are looked for where
//! the kernel shows them. Only what was seen is reported; if nothing was, the report lists what was checked.

use flate2::read::MultiGzDecoder;
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Size limit of a file; kernel configurations have some 300 KiB.
const BYTES_MAX: u64 = 8 << 20;
const STATUS: &str = "proc/self/status";
const UID_MAP: &str = "proc/self/uid_map";
const LOCKDOWN: &str = "sys/kernel/security/lockdown";
const UNPRIVILEGED: &str = "proc/sys/kernel/unprivileged_bpf_disabled";
const RELEASE: &str = "proc/sys/kernel/osrelease";
/// The identity map of the initial user namespace (`uid_m_show` of `kernel/user_namespace.c`).
const FIRST_NAMESPACE: [&str; 3] = ["0", "0", "4294967295"];
/// Bits of capabilities (`include/uapi/linux/capability.h`); CAP_SYS_ADMIN has the rights of the other two.
const CAP_SYS_ADMIN: u32 = 21;
const CAPABILITIES: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
/// `SECCOMP_MODE_FILTER`
const FILTER: &str = "2";
/// Options without which the kernel refuses, and what it lacks then.
const OPTIONS: [(&str, &str); 3] = [
    ("CONFIG_BPF_SYSCALL", "it has no BPF programs"),
    (
        "CONFIG_KPROBES",
        "it has no kprobes, by which functions are watched where the kernel refuses BPF trampolines",
    ),
    ("CONFIG_KPROBE_EVENTS", "programs can't be attached to its kprobes"),
];
const FORCED_LOCKDOWN: &str = "CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY";

/// A reason that was seen, and what would remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Capabilities that the process lacks, and the value of `kernel.unprivileged_bpf_disabled`, if it is set.
    Capabilities { missing: Vec<&'static str>, unprivileged_bpf_disabled: Option<String> },
    /// Capabilities count only within a user namespace.
    UserNamespace,
    /// The kernel's lockdown is at its highest level, as this file says.
    Lockdown { seen_in: String },
    /// System calls go through a filter.
    Seccomp,
    /// An option that the kernel was built without, as this file says, and what it lacks.
    Option { name: &'static str, effect: &'static str, seen_in: String },
    /// None of the others, and the files that could not be read.
    NoneSeen { unreadable: Vec<String> },
}

impl Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities { missing, unprivileged_bpf_disabled } => {
                let missing = missing.join(" and ");
                write!(out, "this process lacks {missing} (CapEff in /{STATUS})")?;
                if let Some(value) = unprivileged_bpf_disabled {
                    write!(out, ", and kernel.unprivileged_bpf_disabled is {value}")?;
                }
                write!(out, "; run it as root, or with these capabilities")
            }
            Self::UserNamespace => write!(
                out,
                "this process is in a user namespace (/{UID_MAP}), where its capabilities give no right to BPF; run it outside of the \
                 container"
            ),
            Self::Lockdown { seen_in } => write!(
                out,
                "the kernel's lockdown is at `confidentiality` ({seen_in}), which forbids that BPF programs and kprobes read its memory; boot \
                 with lockdown=integrity, or without lockdown"
            ),
            Self::Seccomp => write!(
                out,
                "a seccomp filter checks this process's system calls (Seccomp in /{STATUS}), and can refuse bpf() and perf_event_open(); run \
                 it outside of the container, or in one with --privileged"
            ),
            Self::Option { name, effect, seen_in } => {
                write!(out, "the kernel was built without {name} ({seen_in}): {effect}")
            }
            Self::NoneSeen { unreadable } => {
                write!(out, "the reason was not found")?;
                // What could not be read can't be excluded.
                if !unreadable.iter().any(|file| file.contains(STATUS) || file.contains(UID_MAP)) {
                    write!(
                        out,
                        ": this process has the capabilities, in the initial user namespace, and no seccomp filter"
                    )?;
                }
                if !unreadable.is_empty() {
                    write!(out, "; not checked: {}", unreadable.join(", "))?;
                }
                if unreadable.iter().any(|file| file.contains(LOCKDOWN)) {
                    write!(
                        out,
                        "; `mount -t securityfs none /sys/kernel/security` shows lockdown there, and security modules in its file lsm"
                    )?;
                }
                write!(out, "; a security module with a policy of its own can refuse BPF too")
            }
        }
    }
}

/// All that can be seen below `root`, which is `/` except in tests.
pub(super) fn obstacles(root: &Path) -> Vec<Obstacle> {
    let mut unreadable = Vec::new();
    let mut read = |path: &str| match read_text(&root.join(path)) {
        Ok(text) => Some(text),
        Err(error) => {
            unreadable.push(format!("/{path} ({error})"));
            None
        }
    };
    let (status, map, lockdown) = (read(STATUS), read(UID_MAP), read(LOCKDOWN));
    let config = config(root);
    if config.is_none() {
        unreadable.push("the kernel's configuration (/proc/config.gz or /boot/config-*)".to_owned());
    }
    let status = status.unwrap_or_default();
    let mut seen: Vec<Obstacle> = Vec::new();
    seen.extend(of_capabilities(&status, root));
    seen.extend(map.filter(|map| is_other_namespace(map)).map(|_| Obstacle::UserNamespace));
    seen.extend(of_lockdown(lockdown.as_deref(), config.as_ref()));
    seen.extend((field(&status, "Seccomp") == Some(FILTER)).then_some(Obstacle::Seccomp));
    // Options come last: they may concern only other ways of counting.
    let is_explained = !seen.is_empty();
    if !is_explained {
        seen.push(Obstacle::NoneSeen { unreadable });
    }
    seen.extend(config.iter().flat_map(of_options));
    seen
}

/// The value of a field of `/proc/PID/status`.
fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
}

fn of_capabilities(status: &str, root: &Path) -> Option<Obstacle> {
    let effective = u64::from_str_radix(field(status, "CapEff")?, 16).ok()?;
    let has = |bit: u32| effective >> bit & 1 == 1;
    if has(CAP_SYS_ADMIN) {
        return None;
    }
    let missing: Vec<&str> =
        CAPABILITIES.iter().filter(|(bit, _)| !has(*bit)).map(|(_, name)| *name).collect();
    let value = read_text(&root.join(UNPRIVILEGED)).ok().map(|text| text.trim().to_owned());
    let unprivileged_bpf_disabled = value.filter(|value| value != "0");
    (!missing.is_empty()).then_some(Obstacle::Capabilities { missing, unprivileged_bpf_disabled })
}

fn is_other_namespace(map: &str) -> bool {
    !map.split_whitespace().eq(FIRST_NAMESPACE)
}

/// The file of the security module has the level in brackets: `none integrity [confidentiality]`.
fn of_lockdown(file: Option<&str>, config: Option<&Config>) -> Option<Obstacle> {
    if let Some(text) = file {
        let seen_in = format!("/{LOCKDOWN}");
        return text.contains("[confidentiality]").then_some(Obstacle::Lockdown { seen_in });
    }
    let config =
        config.filter(|config| config.text.lines().any(|line| line == format!("{FORCED_LOCKDOWN}=y")))?;
    Some(Obstacle::Lockdown { seen_in: format!("{FORCED_LOCKDOWN} in {}", config.file) })
}

/// Options that the configuration says are not set. One whose line is missing depends on another that is not set.
fn of_options(config: &Config) -> impl Iterator<Item = Obstacle> {
    let is_unset = |name: &str| config.text.lines().any(|line| line == format!("# {name} is not set"));
    let missing = OPTIONS.into_iter().filter(move |(name, _)| is_unset(name));
    missing.map(|(name, effect)| Obstacle::Option { name, effect, seen_in: config.file.clone() })
}

/// The configuration that the running kernel was built with.
struct Config {
    file: String,
    text: String,
}

fn config(root: &Path) -> Option<Config> {
    let packed = "proc/config.gz";
    if let Ok(text) = File::open(root.join(packed)).and_then(|file| read_all(MultiGzDecoder::new(file))) {
        return Some(Config { file: format!("/{packed}"), text });
    }
    let release = read_text(&root.join(RELEASE)).ok()?;
    let file = format!("boot/config-{}", release.trim());
    let text = read_text(&root.join(&file)).ok()?;
    Some(Config { file: format!("/{file}"), text })
}

fn read_text(path: &Path) -> io::Result<String> {
    read_all(File::open(path)?)
}

fn read_all(file: impl Read) -> io::Result<String> {
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs;
    use std::io::Write;

    const ALL: &str = "CapEff:\t000001ffffffffff\nSeccomp:\t0\n";
    const FIRST: &str = "         0          0 4294967295\n";

    /// The words of what is seen below a root with these files.
    fn seen(files: &[(&str, &[u8])]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        obstacles(root.path()).iter().map(ToString::to_string).collect()
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn each_reason_is_told_where_it_is_seen() {
        let none = "CapEff:\t0000000000000000\nSeccomp:\t2\n";
        let words = seen(&[
            (STATUS, none.as_bytes()),
            (UID_MAP, b"         0       1000          1\n"),
            (LOCKDOWN, b"none integrity [confidentiality]\n"),
            (UNPRIVILEGED, b"2\n"),
            (RELEASE, b"6.12.0-test\n"),
            ("boot/config-6.12.0-test", b"CONFIG_BPF_SYSCALL=y\n# CONFIG_KPROBES is not set\n"),
        ]);
        let starts = [
            "this process lacks CAP_BPF and CAP_PERFMON (CapEff in /proc/self/status), and kernel.unprivileged_bpf_disabled is 2; run",
            "this process is in a user namespace (/proc/self/uid_map)",
            "the kernel's lockdown is at `confidentiality` (/sys/kernel/security/lockdown)",
            "a seccomp filter checks this process's system calls",
            "the kernel was built without CONFIG_KPROBES (/boot/config-6.12.0-test): it has no kprobes",
        ];
        assert_eq!(words.len(), starts.len(), "{words:#?}");
        for (words, start) in words.iter().zip(starts) {
            assert!(words.starts_with(start), "{words}\n{start}");
        }
    }

    #[test]
    fn one_capability_may_be_missing_and_cap_sys_admin_has_both() {
        let of = |capabilities: u64| {
            let status = format!("CapEff:\t{capabilities:016x}\nSeccomp:\t0\n");
            seen(&[(STATUS, status.as_bytes()), (UID_MAP, FIRST.as_bytes())])
        };
        assert!(of(1 << 39)[0].starts_with("this process lacks CAP_PERFMON (CapEff"), "{:?}", of(1 << 39));
        assert!(of(1 << 38)[0].starts_with("this process lacks CAP_BPF (CapEff"));
        for enough in [1 << 39 | 1 << 38, 1 << 21] {
            assert!(of(enough)[0].starts_with("the reason was not found"), "{:?}", of(enough));
        }
    }

    #[test]
    fn no_reason_is_guessed() {
        let config = packed("CONFIG_KPROBES=y\nCONFIG_BPF_SYSCALL=y\n");
        let mut files: Vec<(&str, &[u8])> =
            vec![(STATUS, ALL.as_bytes()), (UID_MAP, FIRST.as_bytes()), ("proc/config.gz", &config)];
        let words = seen(&files);
        assert_eq!(words.len(), 1, "{words:?}");
        for part in [
            "; not checked: /sys/kernel/security/lockdown (No such file or directory (os error 2))",
            "; `mount -t securityfs none /sys/kernel/security` shows lockdown there",
        ] {
            assert!(words[0].contains(part), "{words:?}");
        }
        // `integrity` forbids no reading.
        files.push((LOCKDOWN, b"none [integrity] confidentiality\n"));
        assert_eq!(
            seen(&files),
            [
                "the reason was not found: this process has the capabilities, in the initial user namespace, and no seccomp filter; a \
                 security module with a policy of its own can refuse BPF too"
            ]
        );
    }

    #[test]
    fn what_could_not_be_read_is_not_excluded() {
        let words = seen(&[(UID_MAP, FIRST.as_bytes())]);
        assert!(
            words[0].starts_with("the reason was not found; not checked: /proc/self/status ("),
            "{words:?}"
        );
    }

    #[test]
    fn the_configuration_says_what_the_unmounted_file_would() {
        let config =
            packed("CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY=y\n# CONFIG_BPF_SYSCALL is not set\n");
        let files: [(&str, &[u8]); 3] =
            [(STATUS, ALL.as_bytes()), (UID_MAP, FIRST.as_bytes()), ("proc/config.gz", &config)];
        let words = seen(&files);
        assert_eq!(words.len(), 2, "{words:?}");
        assert!(words[0].contains(
            "`confidentiality` (CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY in /proc/config.gz)"
        ));
        assert!(words[1].contains("without CONFIG_BPF_SYSCALL (/proc/config.gz)"));
    }
}
