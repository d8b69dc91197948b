//! POWER's PCI error recovery: arch/powerpc/kernel/{eeh,eeh_driver,eeh_pe}.c; and its firmware's (skiboot, hw/phb{3,4}.c).

use super::scan;

/// A message about frozen adapters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EehMessage {
    /// Whether any adapter can be recovered.
    Recovery(bool),
    /// An endpoint was frozen: its DMA and its registers are cut off.
    Frozen {
        /// Host bridge.
        phb: u32,
        /// Endpoint.
        pe: u32,
    },
    /// A whole host bridge was cut off.
    Fenced {
        /// Host bridge.
        phb: u32,
    },
    /// Where the frozen endpoint sits.
    Location {
        /// Slot of the endpoint; absent where firmware does not know.
        pe: Option<String>,
        /// Place of the host bridge.
        phb: Option<String>,
    },
    /// Recovery started.
    Recovering {
        /// Host bridge.
        phb: u32,
        /// Endpoint.
        pe: Option<u32>,
    },
    /// How often the adapter failed.
    FailedTimes(u32),
    /// Recovery did not succeed; the adapter is off for good.
    GivenUp(String),
}

/// Reads a message about frozen adapters.
pub(super) fn read(body: &str) -> Option<EehMessage> {
    // "PHB#006f[6:3]: PHB Freeze/Fence detected !"
    if let Some(phb) = body.strip_prefix("PHB#") {
        let is_fence = body.contains("PHB Freeze/Fence detected");
        return is_fence.then_some(EehMessage::Fenced { phb: scan::small_hex(phb)? });
    }
    let rest = body.strip_prefix("EEH")?;
    // The newest kernels number the event: "EEH(3): ".
    let rest = match rest.strip_prefix('(') {
        Some(numbered) => scan::after(numbered, "): ")?,
        None => rest.strip_prefix(": ")?,
    };
    parse_recovery_state(rest).or_else(|| parse_frozen(rest)).or_else(|| parse_outcome(rest))
}

/// Parses whether error recovery is enabled.
fn parse_recovery_state(rest: &str) -> Option<EehMessage> {
    if rest.starts_with("PCI Enhanced I/O Error Handling Enabled")
        || rest.starts_with("Capable adapter found")
    {
        return Some(EehMessage::Recovery(true));
    }
    let none = rest.starts_with("No capable adapters found")
        || rest.starts_with("PCI Enhanced I/O Error Handling Disabled");
    none.then_some(EehMessage::Recovery(false))
}

/// Parses which endpoint or host bridge is frozen or being recovered, and its location.
fn parse_frozen(rest: &str) -> Option<EehMessage> {
    if let Some(place) = rest.strip_prefix("Frozen PHB#") {
        rest.contains("detected").then_some(())?;
        return Some(EehMessage::Frozen {
            phb: scan::small_hex(place)?,
            pe: scan::after(place, "PE#").and_then(scan::small_hex)?,
        });
    }
    if let Some(place) = rest.strip_prefix("Fenced PHB#") {
        return Some(EehMessage::Fenced { phb: scan::small_hex(place)? });
    }
    if let Some(place) = rest.strip_prefix("Recovering PHB#") {
        let pe = scan::after(place, "PE#").and_then(scan::small_hex);
        return Some(EehMessage::Recovering { phb: scan::small_hex(place)?, pe });
    }
    let (pe, phb) = rest.strip_prefix("PE location: ")?.split_once(", PHB location: ")?;
    Some(EehMessage::Location { pe: parse_location(pe), phb: parse_location(phb) })
}

/// A location code; `None` for `N/A`.
fn parse_location(text: &str) -> Option<String> {
    let text = text.trim();
    (text != "N/A" && !text.is_empty()).then(|| text.to_owned())
}

/// Parses how recovery ended.
fn parse_outcome(rest: &str) -> Option<EehMessage> {
    if let Some(times) = rest.strip_prefix("This PCI device has failed ") {
        return Some(EehMessage::FailedTimes(scan::small(times)?));
    }
    let given_up =
        rest.starts_with("Unable to recover from failure") || rest.contains("permanently disabled");
    given_up.then(|| EehMessage::GivenUp(scan::words(rest)))
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Eeh", expect);
    }

    #[test]
    fn messages() {
        check("EEH: PCI Enhanced I/O Error Handling Enabled", "Recovery(true)");
        check("EEH: Capable adapter found: recovery enabled.", "Recovery(true)");
        check("EEH: No capable adapters found: recovery disabled.", "Recovery(false)");
        check("EEH: Frozen PHB#30-PE#10000 detected", "Frozen { phb: 48, pe: 65536 }");
        check("EEH: Fenced PHB#2 detected, location: N/A", "Fenced { phb: 2 }");
        check("PHB#006f[6:3]: PHB Freeze/Fence detected !", "Fenced { phb: 111 }");
        check("[ 1005.489389250,3] PHB#006f[6:3]: PHB Freeze/Fence detected !", "Fenced { phb: 111 }");
        check(
            "EEH: PE location: U78D3.ND1.CSS0000-P1-C3, PHB location: N/A",
            r#"Location { pe: Some("U78D3.ND1.CSS0000-P1-C3"), phb: None }"#,
        );
        check("EEH: Recovering PHB#400f-PE#10000", "Recovering { phb: 16399, pe: Some(65536) }");
        check(
            "EEH(2): This PCI device has failed 2 times in the last hour and will be permanently disabled after 5 failures.",
            "FailedTimes(2)",
        );
        check(
            "EEH: Unable to recover from failure from PHB#18-PE#10000.",
            r#"GivenUp("Unable to recover from failure from PHB#18-PE#10000.")"#,
        );
    }
}
