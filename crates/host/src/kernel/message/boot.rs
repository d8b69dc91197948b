//! The start of the kernel: init/main.c, kernel/params.c, arch/x86/mm/mem_encrypt.c.

use super::scan;

/// A message about how the kernel was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootMessage {
    /// The kernel's banner: same words as /proc/version.
    Version(String),
    /// The command line.
    CommandLine(String),
    /// Options that nothing in the kernel knows.
    UnknownParameters(Vec<String>),
    /// An option whose parser refused the value.
    MalformedOption(String),
    /// Memory is encrypted: devices reach only what is shared with them.
    MemoryEncryption(Vec<String>),
}

/// Reads a message about the start of the kernel.
pub(super) fn read(body: &str) -> Option<BootMessage> {
    match body.as_bytes().first()? {
        b'L' => body.starts_with("Linux version ").then(|| BootMessage::Version(scan::words(body))),
        b'K' => {
            body.strip_prefix("Kernel command line: ").map(|line| BootMessage::CommandLine(scan::words(line)))
        }
        // x86 prints it a second time, earlier and before its own additions.
        b'C' => body.strip_prefix("Command line: ").map(|line| BootMessage::CommandLine(scan::words(line))),
        b'U' => unknown(body),
        b'M' => parse_malformed_option(body).or_else(|| encryption(body)),
        b'B' => booting(body),
        b'A' => encryption(body),
        b't' => body
            .starts_with("tdx: Guest detected")
            .then(|| BootMessage::MemoryEncryption(vec!["TDX".to_owned()])),
        _ => None,
    }
}

/// `Unknown kernel command line parameters "a b=c", will be passed to user space.`; 2.6 and 3.x: `Unknown
/// boot option `a=b': ignoring`.
fn unknown(body: &str) -> Option<BootMessage> {
    if let Some(rest) = body.strip_prefix("Unknown kernel command line parameters \"") {
        let list = rest.rsplit_once('"').map_or(rest, |(list, _)| list);
        return Some(BootMessage::UnknownParameters(list.split_whitespace().map(str::to_owned).collect()));
    }
    let rest = body
        .strip_prefix("Unknown boot option `")
        .or_else(|| body.strip_prefix("Unknown boot parameter `"))?;
    let option = rest.split(['\'', '`']).next()?;
    Some(BootMessage::UnknownParameters(vec![option.to_owned()]))
}

/// Parses `Malformed early option 'x'`.
fn parse_malformed_option(body: &str) -> Option<BootMessage> {
    let option = scan::between(body, "Malformed early option '", "'")?;
    Some(BootMessage::MalformedOption(option.to_owned()))
}

/// `Booting kernel: `2x' invalid for parameter `iommu.strict'`.
fn booting(body: &str) -> Option<BootMessage> {
    let option = scan::between(body.strip_prefix("Booting kernel: ")?, "for parameter `", "'")?;
    Some(BootMessage::MalformedOption(option.to_owned()))
}

/// `AMD Memory Encryption Features active: SEV`, `Memory Encryption Features active: Intel TDX`, and
/// before 5.10 `AMD Secure Encrypted Virtualization (SEV) active`.
fn encryption(body: &str) -> Option<BootMessage> {
    if let Some((maker, features)) = body.split_once("Memory Encryption Features active: ") {
        (maker.is_empty() || maker == "AMD ").then_some(())?;
        let makers = ["AMD", "Intel"];
        let features = features.split_whitespace().filter(|word| !makers.contains(word)).map(str::to_owned);
        return Some(BootMessage::MemoryEncryption(features.collect()));
    }
    let name = body.strip_prefix("AMD Secure ")?.strip_suffix(" active")?;
    let short = scan::between(name, "(", ")")?;
    Some(BootMessage::MemoryEncryption(vec![short.to_owned()]))
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Boot", expect);
    }

    #[test]
    fn messages() {
        check(
            "Linux version 6.1.0-53-amd64 (debian-kernel@lists.debian.org)",
            r#"Version("Linux version 6.1.0-53-amd64 (debian-kernel@lists.debian.org)")"#,
        );
        check(
            "Kernel command line: console=ttyS0 quiet intel_iommu=on",
            r#"CommandLine("console=ttyS0 quiet intel_iommu=on")"#,
        );
        check(
            r#"Unknown kernel command line parameters "BOOT_IMAGE=/vmlinuz intel_iomu=on", will be passed to user space."#,
            r#"UnknownParameters(["BOOT_IMAGE=/vmlinuz", "intel_iomu=on"])"#,
        );
        check("Unknown boot option `iommu.stric=0': ignoring", r#"UnknownParameters(["iommu.stric=0"])"#);
        check("Malformed early option 'iommu.strict'", r#"MalformedOption("iommu.strict")"#);
        check(
            "Booting kernel: `2x' invalid for parameter `iommu.strict'",
            r#"MalformedOption("iommu.strict")"#,
        );
        check(
            "AMD Memory Encryption Features active: SEV SEV-ES SEV-SNP",
            r#"MemoryEncryption(["SEV", "SEV-ES", "SEV-SNP"])"#,
        );
        check("tdx: Guest detected", r#"MemoryEncryption(["TDX"])"#);
        check("Memory Encryption Features active: Intel TDX", r#"MemoryEncryption(["TDX"])"#);
        check("AMD Secure Encrypted Virtualization (SEV) active", r#"MemoryEncryption(["SEV"])"#);
    }
}
