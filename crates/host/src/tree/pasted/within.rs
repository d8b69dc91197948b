//! What stands inside of a line: messages that are indented, quoted in a sentence, or behind what a program put before them.

use super::line::is_loose;
use crate::kernel::{message, options};
use crate::pci::lspci::Format;

/// How messages begin that people quote in a sentence, or whose beginning a copy lost.
const STARTS: [&str; 15] = [
    "DMAR: ",
    "DMAR:[",
    "AMD-Vi: ",
    "swiotlb buffer is full",
    "DMA: Out of SW-IOMMU space",
    "INTR-REMAP: ",
    "(XEN) ",
    "mtrr: type mismatch",
    "vfio error: ",
    "vfio: error, ",
    "vfio 0",
    "EAL: ",
    "vfio: error no",
    "PCI device 0",
    "NVRM: ",
];

/// Longer words are no option that somebody talks about.
const OPTION_BYTES_MAX: usize = 80;

/// Something of a host inside of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Within<'l> {
    /// A message of the kernel.
    Message(&'l str),
    /// The first line of a record of lspci.
    Function(&'l str),
}

/// What stands inside of a line that is none of a host as a whole.
pub(super) fn within(line: &str) -> Vec<Within<'_>> {
    let trimmed = line.trim();
    if is_problem(trimmed) || names_function(trimmed) {
        return vec![Within::Message(trimmed)];
    }
    // Every other part of a line that is split at backticks stands between two of them.
    let spans = trimmed.split('`').skip(1).step_by(2);
    let quoted: Vec<Within<'_>> = spans.filter_map(span).collect();
    if !quoted.is_empty() {
        return quoted;
    }
    STARTS.iter().find_map(|start| message_from(trimmed, start)).into_iter().map(Within::Message).collect()
}

/// Kernel options that a sentence names: `intel_iommu=pt`, `swiotlb=8192`. Other names of one word, such as `iommu`, are those of
/// other programs too.
pub(super) fn named_options(line: &str) -> impl Iterator<Item = &str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=,.:_-".contains(c);
    let words = line.split(move |c: char| !plain(c)).map(|word| word.trim_end_matches(['.', ',', ':']));
    words.filter(|word| word.len() <= OPTION_BYTES_MAX && word.split_once('=').is_some_and(is_named_option))
}

/// Whether name and value are an option of the kernel's. `swiotlb=N`, `intel_iommu=<value>` and `intel_iommu=...` tell of none.
fn is_named_option((name, value): (&str, &str)) -> bool {
    let is_of_kernel = name.contains(['_', '.']) || name == "swiotlb";
    let has_value = value.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    is_of_kernel && has_value && options::named(name).next().is_some()
}

/// What is between backticks.
fn span(text: &str) -> Option<Within<'_>> {
    let is_record = || Format::of(text) == Some(Format::Listing);
    match () {
        () if is_problem(text) => Some(Within::Message(text)),
        () if is_record() => Some(Within::Function(text)),
        () => None,
    }
}

/// The message that begins with these words inside of a line, at the start of a word.
fn message_from<'l>(line: &'l str, start: &str) -> Option<&'l str> {
    let at = line.find(start)?;
    let at = device_before(line.get(..at)?).unwrap_or(at);
    let follows_word = line.get(..at)?.ends_with(|c: char| c.is_alphanumeric());
    let text = line.get(at..)?;
    (!follows_word && is_problem(text)).then_some(text)
}

/// The byte at which the driver and the address begin that a text ends in: `the log has amdgpu 0000:0d:00.0: `.
fn device_before(text: &str) -> Option<usize> {
    let before = text.trim_end().strip_suffix(':')?;
    let (before, address) = before.rsplit_once(' ')?;
    address.parse::<crate::Bdf>().ok().filter(|_| address.matches(':').count() == 2)?;
    let driver = before.trim_end().rsplit([' ', '`', '"', '(']).next()?;
    (!driver.is_empty()).then(|| before.trim_end().len() - driver.len())
}

/// Whether a text is a message of the kernel that tells of something wrong.
fn is_problem(text: &str) -> bool {
    message::read(text).is_some_and(|(_, message)| message.problem().is_some() && !is_loose(&message))
}

/// Whether a text is what a driver prints about a PCI function.
fn names_function(text: &str) -> bool {
    message::split_device(text).0.is_some_and(|device| device.bdf.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_sentences() {
        let named = |line| named_options(line).collect::<Vec<_>>();
        assert_eq!(
            named("I added `intel_iommu=pt`, and iommu.passthrough=1."),
            ["intel_iommu=pt", "iommu.passthrough=1"]
        );
        assert!(
            named("Xen has iommu=verbose, QEMU iommu_platform=on, the kernel CONFIG_INTEL_IOMMU=y")
                .is_empty()
        );
        assert!(
            named(
                "intel_iommu is on; intel_iommu=<value>, swiotlb=N, iommu.passthrough=[0|1], intel_iommu=..."
            )
            .is_empty()
        );
    }

    #[test]
    fn messages_that_are_quoted_indented_or_cut_off() {
        let fault = "DMAR: [DMA Read] Request device [00:14.0] fault addr 0 [fault reason 06] PTE Read access is not set";
        let check = |line: String, expect: &[Within<'_>]| assert_eq!(within(&line), expect, "{line}");
        check(format!(" {fault}"), &[Within::Message(fault)]);
        check(format!("- It fails with `local error` and `{fault}`."), &[Within::Message(fault)]);
        check(format!("000: {fault}"), &[Within::Message(fault)]);
        check(format!("the log says {fault}"), &[Within::Message(fault)]);
        let start = "52:00.0 VGA compatible controller: NVIDIA Corporation GP102";
        check(format!("- seen as `{start}`"), &[Within::Function(start)]);
        let driver = "xhci_hcd 0000:00:14.0: WARNING: Host System Error";
        check(format!("  {driver}"), &[Within::Message(driver)]);
        let full = "amdgpu 0000:0d:00.0: swiotlb buffer is full (sz: 2097152 bytes), total 32768 (slots), used 0 (slots)";
        check(format!("dmesg is full of: {full}"), &[Within::Message(full)]);
        let refused = "vfio error: 0000:01:00.0: group 1 is not viable";
        check(format!("qemu: -device vfio-pci,host=01:00.0: {refused}"), &[Within::Message(refused)]);
        let gone = "NVRM: GPU 0000:04:00.0: GPU has fallen off the bus.";
        check(format!("after an hour dmesg has {gone}"), &[Within::Message(gone)]);
        check("add `iommu=pt` and look for DMAR: lines in the log".to_owned(), &[]);
        check("NOTDMAR: [DMA Read] Request device [00:14.0] fault addr 0".to_owned(), &[]);
        check(String::new(), &[]);
    }
}
