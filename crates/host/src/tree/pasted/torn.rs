//! The last word of a text that may have been cut in its middle: `intel_iommu=o`, `0000:04:0`, `(sz: 655`.
//!
//! A text without a line break at its end was cut there, or copied without it: nobody can tell. Whatever the last word cannot be
//! longer than stays, such as a whole address or an option's whole value; numbers, names and values that may go on are left out.

use super::joined;
use super::line::{self, Kind};
use super::within::{Within, within};
use crate::Text;
use crate::kernel::verdict::{BootedKernel, Verdict, check_command_line};
use crate::kernel::{CommandLine, Effect, Log, message};

/// Drivers for user space and guests: with them a device has another DMA path. `igb_uio` is left out, since far more texts end
/// in `igb` than in its beginning.
const OTHER_PATHS: [&str; 5] = ["vfio-pci", "pci-stub", "pciback", "xen-pciback", "uio_pci_generic"];

/// A text without the last word, if that may be torn and would tell something else if it were.
pub(super) fn without_torn_word(text: &str) -> &str {
    let end = torn_end(text);
    let body = text.get(..end).unwrap_or(text);
    if end == text.len() && (text.ends_with(char::is_whitespace) || text.is_empty()) {
        return text;
    }
    let start = body.rfind('\n').map_or(0, |at| at + 1);
    let line = body.get(start..).unwrap_or_default();
    match is_told_whole(line) {
        true => text,
        false => {
            let word = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
            body.get(..start + word).unwrap_or(body)
        }
    }
}

/// Where a text ends: before the dots behind its last word, which stand for what was left out.
fn torn_end(text: &str) -> usize {
    let body = text.trim_end();
    let shorter = body.strip_suffix("...").or_else(|| body.strip_suffix('\u{2026}'));
    match shorter.filter(|shorter| shorter.ends_with(char::is_alphanumeric)) {
        Some(shorter) => shorter.len(),
        None => text.len(),
    }
}

/// Whether the line tells the same however its last word goes on.
fn is_told_whole(line: &str) -> bool {
    let word = line.rsplit(char::is_whitespace).next().unwrap_or_default();
    if is_closed(line) || ends_in_address(word) || is_driver_whole(line) {
        return true;
    }
    let clean = line::clean(line);
    let line = joined::messages(&clean).pop().unwrap_or_default();
    match line::kind(line) {
        Kind::Fence | Kind::Command { .. } | Kind::File { path: "uname", .. } => true,
        Kind::Log => Log::message_of(line).is_none_or(|message| is_message_whole(message, word)),
        Kind::File { path: "proc/cmdline", .. } => is_option_whole(word),
        Kind::Other => match within(line).as_slice() {
            [] => is_option_whole(word),
            found => found.iter().all(|found| match found {
                Within::Message(message) => is_message_whole(message, word),
                Within::Function(_) => false,
            }),
        },
        _ => false,
    }
}

/// Whether the last word ends in what ends words and sentences. A point behind a digit may be a part of a number or an address.
fn is_closed(line: &str) -> bool {
    let by_mark = line.ends_with([')', ']', '}', '>', '"', '\'', '`', ';', ':', ',', '!', '?', '|', '*']);
    by_mark || line.strip_suffix('.').is_some_and(|line| line.ends_with(|c: char| c.is_alphabetic()))
}

/// Whether a word ends in the whole address of a function, which nothing can make longer: `function 0000:05:00.0`.
fn ends_in_address(word: &str) -> bool {
    let address = word.rsplit(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.').next();
    address.is_some_and(|address| address.len() >= "05:00.0".len() && address.parse::<crate::Bdf>().is_ok())
}

/// Whether lspci's line of a driver, which often is the last of a listing, can be believed: the name is not the beginning of one
/// whose DMA path is another.
fn is_driver_whole(line: &str) -> bool {
    let driver = line.trim_start().strip_prefix("Kernel driver in use: ");
    driver.is_some_and(|driver| {
        let may_go_on = |other: &&str| other.len() > driver.len() && other.starts_with(driver);
        driver.len() > 1 && !OTHER_PATHS.iter().any(may_go_on)
    })
}

/// Whether a message tells the same if its last word goes on: its number or name would then be another.
fn is_message_whole(message: &str, word: &str) -> bool {
    if message.contains("ommand line: ") {
        return is_option_whole(word);
    }
    let told = message::read(message);
    let goes_on = message::read(&format!("{message}9"));
    told.is_some() && (goes_on.is_none() || goes_on == told)
}

/// Whether a word is an option with a value that is whole: one of the words that the kernel knows, and no number, text or list of IDs.
fn is_option_whole(word: &str) -> bool {
    let value = word.split_once('=').map_or("", |(_, value)| value);
    let has_number = value.len() > 1 && value.contains(|c: char| c.is_ascii_digit());
    let line = CommandLine::parse(&Text::new("", word));
    let judged = check_command_line(&line, &BootedKernel::default());
    let is_known = |verdict: &Verdict| matches!(verdict, Verdict::Understood { effects, .. } if effects.iter().all(is_switch));
    !value.is_empty() && !has_number && judged.iter().all(|judged| is_known(&judged.verdict))
}

/// Whether an option turns something on or off, or one way or the other.
fn is_switch(effect: &Effect) -> bool {
    !matches!(
        effect,
        Effect::SwiotlbSlots(_)
            | Effect::SwiotlbAreas(_)
            | Effect::Memmap(_)
            | Effect::MemoryLimit(_)
            | Effect::AcsOverride(_)
            | Effect::AcsRedirectOff(_)
            | Effect::UserOwned(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_may_be_torn_are_left_out() {
        for (text, expect) in [
            ("I have iommu=pt and intel_iommu=o", "I have iommu=pt and "),
            ("try swiotlb=6553", "try "),
            (
                "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/sda2 quiet intel_iommu=o",
                "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/sda2 quiet ",
            ),
            ("[    0.1] Command line: ro vfio-pci.ids=10de:1b8", "[    0.1] Command line: ro "),
            (
                "a\nahci 0000:03:00.0: swiotlb buffer is full (sz: 655",
                "a\nahci 0000:03:00.0: swiotlb buffer is full (sz: ",
            ),
            (
                "[    1.000000] DMAR: IOMMU enabled [    1.200000] pci 0000:01:00.0: Adding to iommu group 1",
                "[    1.000000] DMAR: IOMMU enabled [    1.200000] pci 0000:01:00.0: Adding to iommu group ",
            ),
            ("pci 0000:00:01.0: PCI bridge to [bus 01-0", "pci 0000:00:01.0: PCI bridge to [bus "),
            (
                "[    0.6] pci 0000:01:00.0: Adding to iommu group 1",
                "[    0.6] pci 0000:01:00.0: Adding to iommu group ",
            ),
            (
                "01:00.0 VGA compatible controller: NVIDIA Corporation GP102 [GeForce GTX 10",
                "01:00.0 VGA compatible controller: NVIDIA Corporation GP102 [GeForce GTX ",
            ),
            (
                "01:00.0 VGA compatible controller: NVIDIA\n\tKernel driver in use: vfio",
                "01:00.0 VGA compatible controller: NVIDIA\n\tKernel driver in use: ",
            ),
            ("DMI: Dell Inc. PowerEd", "DMI: Dell Inc. "),
            ("the option intel_iommu=o...\n", "the option "),
            ("the option swiotlb=655\u{2026}", "the option "),
        ] {
            assert_eq!(without_torn_word(text), expect, "{text}");
        }
    }

    #[test]
    fn words_that_are_whole_stay() {
        for text in [
            "",
            "a torn word above a line break is none: intel_iommu=o\n",
            "I have intel_iommu=on",
            "quiet iommu.passthrough=1",
            "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/sda2 quiet iommu=pt",
            "[    0.1] Command line: ro amd_iommu=off",
            "nvme nvme0: pci function 0000:05:00.0",
            "vfio-pci 0000:01:00.0: Unable to change power state from D0 to D3hot, device inaccessible",
            "iommu: Default domain type: Passthrough",
            "NVRM: GPU 0000:04:00.0: GPU has fallen off the bus.",
            "01:00.0 Ethernet controller: Intel Corporation I350 (rev 01)",
            "01:00.0 Ethernet controller: Intel\n\tKernel driver in use: igb",
            "01:00.0 Ethernet controller: Intel\n\tKernel driver in use: vfio-pci",
            "/sys/kernel/iommu_groups/1/devices/0000:01:00.0",
            "Linux host 6.1.0-18-amd64 #1 SMP Debian 6.1.76-1 x86_64 GNU/Linux",
            "[    5.0] something goes on ...\n",
        ] {
            assert_eq!(without_torn_word(text), text);
        }
    }
}
