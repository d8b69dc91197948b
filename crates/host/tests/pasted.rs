//! Nothing that a host says of itself gets out of its word in a command that is pasted.
//!
//! Every made-up host of `tests/rules/` is given hostile driver names, kernel arguments and log lines. Each command of
//! each finding, and whatever else stands in backticks, is then run by the shells of this machine, where every program
//! is a stand-in that writes down what it was called with. A redirection goes below the test's own folder.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test uses its part of the reader")]
mod fixture;

use fixture::Case;
use host::diagnose::{Advice, Part};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Programs that fixes name, and what an injected command would call.
const PROGRAMS: [&str; 14] = [
    "grubby",
    "lspci",
    "grep",
    "setpci",
    "sysctl",
    "driverctl",
    "cat",
    "ls",
    "readlink",
    "iotoll",
    "dmesg",
    "update-grub",
    "yast",
    "pwned",
];

/// What would call `pwned` if it got out of its word, each without blanks, which end a kernel argument.
const HOSTILE: [&str; 10] = [
    "';pwned;'",
    "\";pwned;\"",
    "';pwned${IFS}x;'",
    "$(pwned)",
    "`pwned`",
    ";pwned;",
    "|pwned|",
    "&pwned&",
    "'$(pwned)'",
    "\\';pwned;\\'",
];

/// A case's host with something hostile in the names of drivers, the arguments that are about DMA, and the log.
fn hostile(text: &str, evil: &str) -> String {
    let line = |line: &str| {
        if let Some((path, driver)) = line.split_once("/bus/pci/drivers/").filter(|_| line.starts_with("-- "))
        {
            let driver = driver.trim_end_matches(" --");
            return format!("{path}/bus/pci/drivers/{driver}{evil} --");
        }
        if line.contains("Kernel driver in use: ") || line.starts_with("model name") || line.starts_with('[')
        {
            return format!("{line}{evil}");
        }
        let dma = ["iommu", "swiotlb", "pci=", "ddw", "memmap", "smmu"];
        let is_dma = |word: &str| dma.iter().any(|part| word.contains(part));
        if line.starts_with("expect-") || line.starts_with("why:") || line.starts_with("-- ") || !is_dma(line)
        {
            return line.to_owned();
        }
        let word = |word: &str| match is_dma(word) {
            true => format!("{word} {word},{evil}"),
            false => word.to_owned(),
        };
        line.split(' ').map(word).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The commands of a case's findings, and all that stands in backticks.
fn pasted(text: &str, name: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut commands, mut quoted) = (BTreeSet::new(), BTreeSet::new());
    for finding in Case::parse(text, name.to_owned(), &[]).inspect().findings {
        for advice in [&finding.fix, &finding.verify] {
            commands.extend(advice.commands().iter().filter_map(|command| command.line()));
            quoted.extend(prose(advice).split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    (commands, quoted)
}

/// Advice without its commands.
fn prose(advice: &Advice) -> String {
    advice
        .parts()
        .filter_map(|part| if let Part::Prose(prose) = part { Some(prose.as_ref()) } else { None })
        .collect()
}

/// A folder with stand-ins for all programs.
fn stand_ins(folder: &Path) {
    for program in PROGRAMS {
        let file = folder.join(program);
        let log = folder.join("called");
        fs::write(&file, format!("#!/bin/sh\nprintf '%s\\n' \"{program}\" >> {}\n", log.display())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs a line where nothing of this machine is reached; the names of the programs that were called.
fn run(shell: &str, line: &str, folder: &Path) -> BTreeSet<String> {
    let log = folder.join("called");
    let _ = fs::remove_file(&log);
    // Redirections stay in the folder: their paths begin at the root, quoted or not.
    let line = line.replace("> '/", "> './").replace("> /", "> ./");
    let home = folder.join("home");
    fs::create_dir_all(&home).unwrap();
    let status =
        Command::new(shell).args(["-c", &line]).env_clear().env("PATH", folder).current_dir(&home).output();
    status.unwrap();
    let called = fs::read_to_string(&log).unwrap_or_default();
    called.lines().map(str::to_owned).collect()
}

/// The same host with Red Hat's distribution, whose fixes have the host's kernel arguments in commands.
fn on_red_hat(text: &str) -> String {
    match text.contains("-- etc/os-release --") {
        true => text.to_owned(),
        false => format!("{text}-- etc/os-release --\nPRETTY_NAME=\"Red Hat Enterprise Linux 9.4 (Plow)\"\n"),
    }
}

#[test]
fn a_hostile_host_adds_no_command_to_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    stand_ins(folder.path());
    // The stand-ins are called at all, and an injection would be seen.
    assert!(run("/bin/sh", "grubby --remove-args='iommu=off,';pwned;''", folder.path()).contains("pwned"));
    let shells = ["/bin/sh", "/bin/bash"].into_iter().filter(|shell| Path::new(shell).exists());
    let (mut commands, mut quoted, mut with_evil) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (name, text) in fixture::texts("rules") {
        let text = on_red_hat(&text);
        for evil in HOSTILE {
            let (some, others) = pasted(&hostile(&text, evil), &name);
            with_evil += some.iter().filter(|line| line.contains("pwned")).count();
            commands.extend(some);
            quoted.extend(others);
        }
    }
    assert!(commands.len() > 60 && with_evil > 0, "{} commands, {with_evil} hostile", commands.len());
    for shell in shells {
        for line in &commands {
            let syntax = Command::new(shell).args(["-n", "-c", line]).output().unwrap();
            assert!(syntax.status.success(), "{shell} can't read {line}");
            let words = shlex::split(line).unwrap_or_else(|| panic!("shlex can't read {line}"));
            assert!(
                PROGRAMS.contains(&words[0].as_str())
                    || ["echo", "printf", "for"].contains(&words[0].as_str()),
                "{line}"
            );
            let called = run(shell, line, folder.path());
            assert!(!called.contains("pwned"), "{shell}: {line}");
        }
        for text in &quoted {
            assert!(!run(shell, text, folder.path()).contains("pwned"), "{shell}: `{text}`");
        }
    }
}

#[test]
fn a_name_with_control_characters_is_in_no_command() {
    for (name, text) in fixture::texts("rules") {
        for evil in ["\x1b[201~pwned", "\u{202e}pwned", "\u{200b}", "\u{9b}2J"] {
            let (commands, _) = pasted(&hostile(&text, evil), &name);
            let is_plain = |line: &String| !line.chars().any(escape::terminal::is_unsafe);
            assert!(commands.iter().all(is_plain), "{name}: {commands:?}");
        }
    }
}

/// Prose has no command in it that was put together by hand, and so past the quoter.
#[test]
fn advice_text_contains_no_command() {
    for (name, text) in fixture::texts("rules") {
        for finding in Case::parse(&text, name.clone(), &[]).inspect().findings {
            for advice in [&finding.fix, &finding.verify] {
                let prose = prose(advice);
                let by_hand =
                    ["echo ", "grubby ", "yast ", "setpci ", "driverctl ", "lspci -vvs", " > /", "--want 0x"];
                let found = by_hand.iter().find(|start| prose.contains(**start));
                assert_eq!(found, None, "{name}: {prose}");
            }
        }
    }
}
