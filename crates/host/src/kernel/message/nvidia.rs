//! NVIDIA's own driver, which names a GPU in its own words: src/nvidia/arch/nvalloc/unix/src/{os,osinit}.c of the open kernel
//! modules, and what the drivers before them printed.

use super::{Device, PcieMessage, scan};

/// How the driver begins its messages.
const PREFIX: &str = "NVRM: ";
/// What stands before the address of a GPU, the longer of two first.
const BEFORE_ADDRESS: [&str; 6] = ["GPU at PCI:", "GPU at ", "GPU ", "The NVIDIA GPU ", "Xid (PCI:", "Xid ("];
/// The event of a GPU that has fallen off the bus. The numbers are in NVIDIA's documentation (Xid Errors).
const FALLEN_OFF: u64 = 79;

/// Takes the GPU off a message: `NVRM: GPU 0000:04:00.0: GPU has fallen off the bus.`, `NVRM: GPU at 0000:01:00.0 has ...` (2014),
/// `NVRM: Xid (PCI:0000:04:00): 79, ...`, whose text keeps its `Xid`. Without a function's number it is function 0.
pub(super) fn split_device(message: &str) -> Option<(Device, &str)> {
    let rest = message.trim_start().strip_prefix(PREFIX)?;
    let from = BEFORE_ADDRESS.iter().find_map(|start| rest.strip_prefix(start))?;
    let length = from.bytes().take_while(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.')).count();
    let (word, after) = from.split_at_checked(length)?;
    let name = word.strip_suffix(':').unwrap_or(word);
    let is_ended = after.starts_with(')') || name.len() < word.len();
    let has_function = name.contains('.');
    let is_whole = name.matches(':').count() == 2 && (is_ended || has_function);
    let name = if has_function { name.to_owned() } else { format!("{name}.0") };
    let bdf = name.parse().ok().filter(|_| is_whole)?;
    let body = if rest.starts_with("Xid ") { rest } else { after.trim_start() };
    Some((Device { driver: "nvidia".to_owned(), name, bdf: Some(bdf) }, body))
}

/// Reads that a GPU does not answer: `GPU has fallen off the bus.`, `Xid (PCI:0000:04:00): 79, ...`, and the end of a sentence over
/// several lines.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<PcieMessage> {
    let text = match device {
        Some(device) => (device.driver == "nvidia").then_some(body)?,
        None => body.trim_start().strip_prefix(PREFIX)?,
    };
    let is_gone = match text.strip_prefix("Xid (") {
        Some(event) => scan::decimal_after(event, "): ") == Some(FALLEN_OFF),
        None => text.contains("fallen off the bus"),
    };
    is_gone.then_some(PcieMessage::Inaccessible { from_d3cold: false })
}

/// The GPU of a sentence over up to three lines, each with the driver's prefix (`RmInitNvDevice`, `rm_is_supported_device`):
///
/// ```text
/// NVRM: The NVIDIA GPU 0000:b3:00.0
/// NVRM: (PCI ID: 10de:26b5) installed in this system has
/// NVRM: fallen off the bus and is not responding to commands.
/// ```
#[derive(Debug, Default)]
pub(super) struct Sentence {
    gpu: Option<Device>,
    lines_left: u8,
}

impl Sentence {
    /// Takes a message with the device that it begins with; the device that it is about, if a line before names it.
    pub(super) fn take(&mut self, message: &str, device: Option<&Device>) -> Option<Device> {
        let words = message.trim_start();
        if words.starts_with("NVRM: The NVIDIA GPU ") {
            (self.gpu, self.lines_left) = (device.cloned(), 2);
            return None;
        }
        self.lines_left = self.lines_left.saturating_sub(1);
        if !words.starts_with(PREFIX) || device.is_some() {
            self.gpu = None;
        }
        let gpu = self.gpu.clone();
        if self.lines_left == 0 {
            self.gpu = None;
        }
        gpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Text;
    use crate::kernel::Log;
    use crate::kernel::message::{Message, classify};

    /// The GPUs that a log says are gone.
    fn gone(log: &str) -> Vec<Option<String>> {
        let text = Text::new("dmesg", log);
        let logged = classify(&Log::parse(&text));
        let is_gone = |message: &Message| {
            matches!(message, Message::Pcie(PcieMessage::Inaccessible { from_d3cold: false }))
        };
        logged
            .iter()
            .filter(|logged| is_gone(&logged.message))
            .map(|logged| logged.bdf().map(|bdf| bdf.to_string()))
            .collect()
    }

    #[test]
    fn gpus_that_fell_off_the_bus() {
        for log in [
            "NVRM: GPU 0000:04:00.0: GPU has fallen off the bus.",
            "NVRM: GPU at 0000:04:00.0 has fallen off the bus.",
            "NVRM: Xid (PCI:0000:04:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "NVRM: Xid (0000:04:00): 79, GPU has fallen off the bus.",
            "NVRM: The NVIDIA GPU 0000:04:00.0\nNVRM: (PCI ID: 10de:1b80) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.",
            "[    5.1] NVRM: The NVIDIA GPU 0000:04:00.0\n               NVRM: (PCI ID: 10de:1b80) installed in this system has\n               NVRM: fallen off the bus and is not responding to commands.",
            "NVRM: The NVIDIA GPU 0000:04:00.0 (PCI ID: 10de:1e07) installed in this\nNVRM: system has fallen off the bus and is not responding to commands.",
        ] {
            assert_eq!(gone(log), [Some("0000:04:00.0".to_owned())], "{log}");
        }
    }

    #[test]
    fn other_events_and_sentences_without_a_gpu() {
        for log in [
            "NVRM: Xid (PCI:0000:04:00): 31, pid=812, name=python3, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS",
            "NVRM: Xid (PCI:0000:04:00): 7",
            "NVRM: GPU 0000:04:00.0: RmInitAdapter failed! (0x24:0x65:1423)",
            "NVRM: GPU 0000:04:00.0 is already bound to vfio-pci.",
        ] {
            assert_eq!(gone(log), [], "{log}");
        }
        let alone = "NVRM: fallen off the bus and is not responding to commands.";
        assert_eq!(gone(alone), [None]);
        let apart = format!("NVRM: The NVIDIA GPU 0000:04:00.0\nusb 1-1: new device\n{alone}");
        assert_eq!(gone(&apart), [None]);
        let far = format!("NVRM: The NVIDIA GPU 0000:04:00.0\nNVRM: a\nNVRM: b\n{alone}");
        assert_eq!(gone(&far), [None]);
    }

    #[test]
    fn addresses_that_are_cut_off_are_none() {
        for message in
            ["NVRM: GPU 0000:04:0", "NVRM: Xid (PCI:0000:04", "NVRM: GPU at PCI:0000:04:00x", "NVRM: "]
        {
            assert_eq!(split_device(message), None, "{message}");
        }
    }
}
