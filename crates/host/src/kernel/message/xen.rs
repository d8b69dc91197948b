//! Xen's hypervisor, whose lines stand in its own log (`xl dmesg`) or on a console shared with dom0's kernel:
//! xen/drivers/passthrough/{iommu.c,amd,vtd}. It drives the IOMMU; dom0's kernel does not see it.

use super::scan;

/// A message of Xen about the IOMMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XenMessage {
    /// `I/O virtualisation enabled`, or disabled: whether Xen uses the IOMMU.
    Virtualisation(bool),
    /// A step of setting the IOMMU up went wrong.
    SetupProblem(String),
}

/// Takes `(XEN) ` and the time after it off a message: `(XEN) [   37.201160] [VT-D]DMAR: ...`.
pub(super) fn strip_prefix(message: &str) -> &str {
    let Some(rest) = message.strip_prefix("(XEN) ") else { return message };
    let time = rest.strip_prefix('[').and_then(|time| time.split_once("] "));
    let is_time = |time: &str| time.bytes().all(|byte| byte.is_ascii_digit() || b" .:-".contains(&byte));
    time.filter(|(time, _)| is_time(time)).map_or(rest, |(_, rest)| rest)
}

/// Reads a message of Xen, without its prefix.
pub(super) fn read(body: &str) -> Option<XenMessage> {
    match body.trim_end() {
        "I/O virtualisation enabled" => return Some(XenMessage::Virtualisation(true)),
        "I/O virtualisation disabled" => return Some(XenMessage::Virtualisation(false)),
        _ => {}
    }
    const PROBLEMS: [&str; 5] = [
        "AMD-Vi: Error initialization",
        "IVHD Error: ",
        "IVMD Error: ",
        "AMD-Vi: IVHD Error",
        "IVRS Error: ",
    ];
    let is_problem = PROBLEMS.iter().any(|start| body.starts_with(start));
    is_problem.then(|| XenMessage::SetupProblem(scan::words(body)))
}

#[cfg(test)]
mod tests {
    use super::strip_prefix;

    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Xen", expect);
    }

    #[test]
    fn messages() {
        check("(XEN) I/O virtualisation disabled", "Virtualisation(false)");
        check("(XEN) [    4.812345] I/O virtualisation enabled", "Virtualisation(true)");
        check("(XEN) AMD-Vi: Error initialization", r#"SetupProblem("AMD-Vi: Error initialization")"#);
        check(
            "(XEN) IVHD Error: Invalid IO-APIC 0xff",
            r#"SetupProblem("IVHD Error: Invalid IO-APIC 0xff")"#,
        );
    }

    #[test]
    fn the_time_goes_and_names_in_brackets_stay() {
        assert_eq!(strip_prefix("(XEN) [   37.201160] [VT-D]DMAR: x"), "[VT-D]DMAR: x");
        assert_eq!(strip_prefix("(XEN) [2024-05-26 10:21:21.123] x"), "x");
        assert_eq!(strip_prefix("(XEN) [VT-D]DMAR:[DMA Read] x"), "[VT-D]DMAR:[DMA Read] x");
        assert_eq!(strip_prefix("[VT-D]x"), "[VT-D]x");
    }
}
