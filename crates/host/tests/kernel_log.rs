//! Whole kernel logs of QEMU machines (Debian 6.1, one for each way of mapping DMA), and the same logs
//! mangled.

use host::kernel::{CommandLine, KernelVersion, Log, Logged, Message, Requests, classify, message, verdict};
use host::{Bdf, Text};
use message::{AmdViMessage, BootMessage, IommuMessage, SmmuMessage, VtDMessage, WindowMessage};
use proptest::prelude::*;

const LOGS: [(&str, &str); 5] = [
    ("x86-vtd-lazy", include_str!("logs/x86-vtd-lazy.txt")),
    ("x86-no-iommu", include_str!("logs/x86-no-iommu.txt")),
    ("ppc-ddw", include_str!("logs/ppc-ddw.txt")),
    ("ppc-noddw", include_str!("logs/ppc-noddw.txt")),
    ("arm-smmu-strict", include_str!("logs/arm-smmu-strict.txt")),
];

fn messages_of(name: &str) -> Vec<Logged> {
    let body = LOGS.iter().find(|(log, _)| *log == name).map_or("", |(_, body)| body);
    let text = Text::new("var/log/dmesg", body);
    let log = Log::parse(&text);
    assert!(log.complete_from_boot(), "{name}");
    classify(&log)
}

fn says(messages: &[Logged], message: &Message) -> bool {
    messages.iter().any(|logged| logged.message == *message)
}

fn lazy(strict: bool) -> Message {
    Message::Iommu(IommuMessage::InvalidationPolicy { strict, by_command_line: false })
}

#[test]
fn vt_d_is_active_and_lazy() {
    let messages = messages_of("x86-vtd-lazy");
    assert!(says(&messages, &Message::VtD(VtDMessage::EnableRequested)));
    assert!(says(&messages, &Message::VtD(VtDMessage::Active)));
    assert!(says(&messages, &lazy(false)));
    let grouped =
        messages.iter().filter(|m| matches!(m.message, Message::Iommu(IommuMessage::GroupJoined { .. })));
    assert_eq!(grouped.count(), 8);
}

#[test]
fn without_an_iommu_the_policy_is_still_printed() {
    let messages = messages_of("x86-no-iommu");
    assert!(says(&messages, &lazy(false)));
    assert!(says(&messages, &Message::AmdVi(AmdViMessage::NoIommuV2)));
    assert!(!messages.iter().any(|m| matches!(m.message, Message::VtD(_))));
    assert!(!messages.iter().any(|m| matches!(m.message, Message::Iommu(IommuMessage::GroupJoined { .. }))));
}

#[test]
fn a_direct_window_is_made_and_not_announced() {
    let messages = messages_of("ppc-ddw");
    let created =
        messages.iter().find(|m| matches!(m.message, Message::Window(WindowMessage::Create { .. })));
    let created = created.unwrap();
    assert_eq!(created.bdf(), "0000:00:03.0".parse::<Bdf>().ok());
    assert_eq!(created.seconds, Some(1.328053));
    assert_eq!(created.at.line, Some(248));
    let expect = WindowMessage::Create {
        config_address: 0x1800,
        page_shift: 24,
        window_shift: 31,
        returned: 0,
        liobn: Some(0x8000_0001),
        start: Some(0x0800_0000_0000_0000),
    };
    assert_eq!(created.message, Message::Window(expect));
    assert!(!messages.iter().any(|m| matches!(m.message, Message::Window(WindowMessage::Direct { .. }))));
}

#[test]
fn disabled_windows_are_announced_before_the_banner() {
    let messages = messages_of("ppc-noddw");
    assert_eq!(messages.first().map(|m| &m.message), Some(&Message::Window(WindowMessage::Disabled)));
    assert!(!messages.iter().any(|m| matches!(m.message, Message::Window(WindowMessage::Create { .. }))));
}

#[test]
fn smmu_is_strict() {
    let messages = messages_of("arm-smmu-strict");
    assert!(says(&messages, &lazy(true)));
    assert!(
        messages
            .iter()
            .any(|m| matches!(m.message, Message::Smmu(SmmuMessage::FoundV3 { input_bits: 44, .. })))
    );
}

#[test]
fn banner_and_command_line_are_enough_to_judge_the_options() {
    let messages = messages_of("ppc-noddw");
    let banner = messages.iter().find_map(|m| match &m.message {
        Message::Boot(BootMessage::Version(banner)) => KernelVersion::parse(banner),
        _ => None,
    });
    let version = banner.unwrap();
    let line = messages.iter().find_map(|m| match &m.message {
        Message::Boot(BootMessage::CommandLine(line)) => {
            let text = Text::new("var/log/dmesg", "");
            Some(CommandLine::parse_quoted(&text, m.at.line.unwrap(), line))
        }
        _ => None,
    });
    let machine = verdict::BootedKernel {
        version: Some(&version),
        architecture: version.architecture.as_ref(),
        vendor: None,
    };
    let requests = Requests::collect(&host::kernel::check_command_line(&line.unwrap(), &machine));
    let window = requests.direct_window.unwrap();
    assert!(!window.value);
    assert_eq!(window.at.to_string(), "var/log/dmesg:64: disable_ddw");
}

/// Everything about DMA in the five logs is understood: what is left has none of the words that such
/// messages are made of.
#[test]
fn nothing_about_iommus_is_missed() {
    // Memory zones, pools, disk modes, ACPI's own listing and the EEH notice have nothing to say.
    let harmless = ["ACPI: ", "DMAR-IR: IOAPIC", "EEH: pSeries platform"];
    for (name, body) in LOGS {
        let text = Text::new(name, body);
        for record in Log::parse(&text).records() {
            let words = ["iommu", "IOMMU", "DMAR", "swiotlb", "AMD-Vi", "smmu", "EEH", "ddw", "dma-window"];
            let about = words.iter().any(|word| record.message.contains(word));
            let known = message::read(record.message).is_some();
            let excused = harmless.iter().any(|start| record.message.starts_with(start));
            assert!(!about || known || excused, "{name}:{}: {}", record.line, record.message);
        }
    }
}

proptest! {
    #[test]
    fn mangled_logs_do_no_harm(
        which in 0..LOGS.len(), line in 0usize..450, cut in 0usize..120, junk in "[ -~\u{e9}]{0,12}", again in 0usize..120,
    ) {
        let lines: Vec<&str> = LOGS[which].1.lines().collect();
        let original = lines[line % lines.len()];
        let cut = original.floor_char_boundary(cut.min(original.len()));
        let again = original.floor_char_boundary(again.min(original.len()));
        let mangled = format!("{}{junk}{}\n{original}\n{original}", &original[..cut], &original[again..]);
        let text = Text::new("var/log/dmesg", mangled);
        for logged in classify(&Log::parse(&text)) {
            prop_assert!(logged.at.line.is_some_and(|line| line <= 3));
        }
    }
}
