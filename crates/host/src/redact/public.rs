//! Which values of kernel arguments may be shown: those of options that are known to hold nothing secret, and those that are a
//! few short numbers or common words whatever the option is.
//!
//! Anyone may add an argument of their own (`bearer=`, `wifi=`, `x=`), and no list of suspicious names is complete. So what is not
//! in these lists is redacted.
//!
//! Sources: kernel-parameters.txt; kernel-command-line(7); dracut.cmdline(7).

use super::boot;
use super::diagnosed_option::is_diagnosed;
use crate::Bdf;
use crate::kernel::{command_line::same_name, options};

/// Options with values worth reading: how the kernel and the initramfs start. An entry that ends in a dot stands for all its options.
const NAMES: [&str; 98] = [
    "acpi_backlight",
    "acpi_enforce_resources",
    "acpi_osi",
    "acpi_rev_override",
    "boot",
    "boot_delay",
    "cgroup_enable",
    "cloud_init",
    "coherent_pool",
    "console",
    "consoleblank",
    "cpufreq.default_governor",
    "cpuidle.governor",
    "crash_kexec_post_notifiers",
    "libata.force",
    "pci-stub.",
    "pciback.",
    "rd.break",
    "rdinit",
    "systemd.mask",
    "vfio-pci.",
    "vfio_pci.",
    "workqueue.",
    "xen-pciback.",
    "devfs",
    "dyndbg",
    "earlycon",
    "earlyprintk",
    "ecryptfs",
    "enforcing",
    "fbcon",
    "firmware_class.path",
    "fsck.mode",
    "fsck.repair",
    "hugetlb_cma",
    "hugetlb_free_vmemmap",
    "ima_appraise",
    "ima_policy",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "irqaffinity",
    "kernelcore",
    "keymap",
    "kvm-arm.mode",
    "kvm_amd.",
    "kvm_intel.",
    "l1tf",
    "lang",
    "locale.lang",
    "lsm",
    "md_mod.start_ro",
    "mem_encrypt",
    "mem_sleep_default",
    "mmio_stale_data",
    "modprobe.blacklist",
    "module_blacklist",
    "movablecore",
    "net.ifnames",
    "nfs.nfs4_disable_idmapping",
    "noresume",
    "nohz_full",
    "nvidia-drm.modeset",
    "pcie_port_pm",
    "plymouth.",
    "possible_cpus",
    "preempt",
    "printk.devkmsg",
    "psi",
    "randomize_kstack_offset",
    "ras",
    "rcutree.",
    "rcu_nocb_poll",
    "rd.driver.blacklist",
    "rd.driver.post",
    "rd.driver.pre",
    "rd.locale.",
    "rd.vconsole.",
    "retbleed",
    "rootdelay",
    "rootfstype",
    "rootwait",
    "skew_tick",
    "spec_store_bypass_disable",
    "spectre_v2_user",
    "srbds",
    "systemd.default_timeout_start_sec",
    "systemd.log_level",
    "systemd.log_target",
    "systemd.show_status",
    "systemd.unified_cgroup_hierarchy",
    "systemd.unit",
    "transparent_hugepage",
    "vconsole.",
    "video",
    "vt.handoff",
];

/// Values that say nothing of a host, in parts between separators.
const WORDS: [&str; 76] = [
    "all",
    "any",
    "auto",
    "bochs",
    "both",
    "cdrom",
    "cgroup",
    "conservative",
    "debug",
    "default",
    "deny",
    "disable",
    "disabled",
    "dma",
    "dynamic",
    "early",
    "enable",
    "enabled",
    "enforce",
    "ext4",
    "false",
    "fast",
    "fixed",
    "force",
    "forced",
    "full",
    "graphical",
    "guest",
    "hard",
    "high",
    "hint",
    "host",
    "info",
    "io",
    "kernel",
    "lazy",
    "legacy",
    "loose",
    "low",
    "madvise",
    "managed_irq",
    "mask",
    "max",
    "memory",
    "min",
    "mode",
    "modern",
    "multi",
    "native",
    "never",
    "no",
    "nodefer",
    "noforce",
    "none",
    "nopt",
    "normal",
    "null",
    "off",
    "on",
    "only",
    "passthrough",
    "passive",
    "performance",
    "powersave",
    "preempt",
    "private",
    "ro",
    "rw",
    "safe",
    "soft",
    "strict",
    "sync",
    "true",
    "user",
    "voluntary",
    "yes",
];
/// Digits of a number, and parts of a value: addresses of PCI functions and networks have no more, secrets should.
const NUMBER_CHARS_MAX: usize = 4;
const PARTS_MAX: usize = 4;

/// Whether an option is known to hold nothing secret.
pub(super) fn is_known(name: &str) -> bool {
    let fits = |listed: &str| match listed.ends_with('.') {
        true => name.get(..listed.len()).is_some_and(|start| same_name(start, listed)),
        false => same_name(name, listed),
    };
    is_diagnosed(name)
        || options::is_unrelated(name)
        || NAMES.iter().any(|listed| fits(listed))
        || boot::is_known(name)
}

/// Whether a value consists of PCI addresses, or of a few short numbers and common words.
pub(super) fn is_common(value: &str) -> bool {
    let parts = value.split([',', ';', '(', ')']).filter(|part| part.parse::<Bdf>().is_err());
    let words = parts.flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    let mut words = words.filter(|word| !word.is_empty());
    let is_common = |word: &str| {
        let word = word.to_ascii_lowercase();
        WORDS.contains(&word.as_str()) || is_short_number(&word)
    };
    words.clone().count() <= PARTS_MAX && words.all(is_common)
}

/// `00`, `3b`, `8086`, `0x1f`, `16m`. Without a mark, longer words of hexadecimal digits could be words.
fn is_short_number(word: &str) -> bool {
    let hex = word.strip_prefix("0x");
    let digits = hex.unwrap_or(word.strip_suffix(['k', 'm', 'g', 't', 'p', 's', 'y', 'n']).unwrap_or(word));
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.len() <= NUMBER_CHARS_MAX && (is_decimal || is_hex && (hex.is_some() || digits.len() <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_common_words_pass() {
        for value in [
            "",
            "1",
            "Y",
            "0000:3b:00.0",
            "(3b:00.0)",
            "2-31,64-95",
            "16M",
            "0x1f",
            "on,force",
            "10.77.77.77",
        ] {
            assert!(is_common(value), "{value}");
        }
        for value in [
            "hunter2",
            "123456",
            "1234-5678-9012-3456-7890",
            "dead-beef",
            "s3cr3t",
            "AKIAIOSFODNN7EXAMPLE",
            "correct horse",
            "pässword",
        ] {
            assert!(!is_common(value), "{value}");
        }
    }

    #[test]
    fn known_options() {
        for name in [
            "console",
            "rd.vconsole.keymap",
            "intel_iommu",
            "kvm_intel.nested",
            "root",
            "ignition.config.url",
        ] {
            assert!(is_known(name), "{name}");
        }
        for name in ["", "bearer", "wpa", "foo.bar", "consoles"] {
            assert!(!is_known(name), "{name}");
        }
    }
}
