//! Nothing from outside steers the terminal: every command with escape sequences in all that it is given, on a
//! pseudo-terminal. On a pipe a program may strip them, and nothing would be tested.
//!
//! The sequences are those of published attacks: titles (CVE-2003-0063 xterm), DECRQSS (CVE-2008-2383 xterm), hidden text
//! and cleared screens in output of tools (CVE-2021-25743 kubectl), the clipboard (OSC 52), links (OSC 8), the end of a
//! bracketed paste, one-byte controls, and "Trojan Source" (CVE-2021-42574).

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// All of them in one word, without what no file's name may have.
const EVIL: &str = "e\x1b]0;title\x07\x1b[2J\x1b[8m\x1bP$q\x1b\\\x1b]52;c;cm0=\x07\x1b]8;;x:\x07\x1b[201~\x08\r\x7f\u{9b}2J\u{202e}\u{2066}\u{200b}\u{feff}\u{ad}\u{e0041}v\niotoll was here";

/// The same where a format has escapes for control characters: TOML and JSON.
fn escaped() -> String {
    let unit = |unit: u16| match unit {
        0x20..0x7f if !matches!(unit, 0x22 | 0x5c) => char::from(unit as u8).to_string(),
        // TOML takes code points.
        _ => format!("\\u{unit:04x}"),
    };
    EVIL.replace('\u{e0041}', "").encode_utf16().map(unit).collect()
}

/// What a command wrote to a terminal, and how it ended.
struct Seen {
    text: String,
    status: i32,
}

/// Runs it with all three streams on a pseudo-terminal.
fn on_a_terminal(args: &[&str], folder: &Path) -> Seen {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let side = || OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotoll"));
    command
        .args(args)
        .current_dir(folder)
        .env("TERM", "xterm-256color")
        .env("COLUMNS", "100")
        .env_remove("NO_COLOR");
    command.env("HOME", folder).env("XDG_CACHE_HOME", folder);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::from(side())).stderr(Stdio::from(side())).spawn().unwrap();
    // The command's own copies keep the terminal open.
    drop(command);
    let mut bytes = Vec::new();
    let mut master = File::from(master);
    let mut some = [0; 4096];
    // The last side's end is an error (EIO) here.
    while let Ok(count @ 1..) = master.read(&mut some) {
        bytes.extend_from_slice(&some[..count]);
    }
    let status = child.wait().unwrap().code().unwrap();
    // How a progress bar takes itself back.
    Seen { text: String::from_utf8(bytes).unwrap().replace("\r\x1b[2K", "\n"), status }
}

/// Our own colours, listed anew: not the program's list.
fn is_colour(parameters: &str) -> bool {
    let one = |one: &str| {
        matches!(
            one,
            "" | "0" | "1" | "2" | "4" | "22" | "24" | "31" | "32" | "33" | "34" | "35" | "36" | "39"
        )
    };
    parameters.split(';').all(one) || (0..16).any(|colour| parameters == format!("38;5;{colour}"))
}

/// What a terminal would obey or not show.
fn obeyed(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let colour =
            after.strip_prefix('[').and_then(|after| after.split_once('m')).map(|(parameters, _)| parameters);
        match c {
            '\x1b' if colour.is_some_and(is_colour) => {}
            '\n' | '\r' | '\t' => {}
            '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{ad}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}' => {
                found.push(format!("{c:?} before {:?}", after.chars().take(12).collect::<String>()))
            }
            _ => {}
        }
        rest = after;
    }
    // A line feed from outside would begin a line in the program's name; a carriage return, write over one.
    found.extend(text.lines().filter(|line| line.starts_with("iotoll was here")).map(str::to_owned));
    if text.replace("\r\n", "\n").contains('\r') {
        found.push("a carriage return".to_owned());
    }
    found
}

/// Checks one command; whether it showed that something was taken out.
fn check(args: &[&str], folder: &Path) -> bool {
    let seen = on_a_terminal(args, folder);
    assert!(seen.status <= 2, "{args:?}: {}", seen.text);
    let found = obeyed(&seen.text);
    assert!(found.is_empty(), "{args:?} reaches the terminal with {found:?}:\n{}", seen.text.escape_debug());
    if seen.status == 2 {
        assert!(seen.text.contains("iotoll: ") || seen.text.contains("error: "), "{args:?}: {}", seen.text);
        assert_eq!(said_twice(&seen.text), None, "{args:?}: {}", seen.text);
    }
    seen.text.contains('\u{fffd}')
}

/// A part of an error that is in it twice.
fn said_twice(text: &str) -> Option<String> {
    let error = text.lines().find_map(|line| line.strip_prefix("iotoll: "))?;
    let parts: Vec<&str> = error.trim().split(": ").filter(|part| part.len() > 8).collect();
    let twice = |part: &&&str| parts.iter().filter(|other| other == part).count() > 1;
    parts.iter().find(twice).map(|part| (*part).to_owned())
}

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

/// Checks a file of each content with the same arguments; how many showed that something was taken out.
fn check_files(folder: &Path, args: &[&str], name: &str, contents: &[String]) -> usize {
    let shown = contents.iter().filter(|content| {
        fs::write(folder.join(name), content).unwrap();
        check(args, folder)
    });
    shown.count()
}

#[test]
fn escapes_in_arguments_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let below = format!("{EVIL}/x/y");
    let commands: &[&[&str]] = &[
        &[EVIL],
        &["inspect", EVIL],
        &["inspect", "--from", EVIL],
        &["inspect", "--range", EVIL],
        &["inspect", "--tolls", EVIL],
        &["inspect", "--prices", EVIL],
        &["inspect", "--html", &below],
        &["inspect", EVIL, EVIL],
        &["capture", "-o", &below],
        &["capture", "--from", EVIL, "-o", "x"],
        &["mtrr", "plan", "--want", EVIL],
        &["mtrr", EVIL],
        &["lab", "run", EVIL],
        &["lab", "run", "--presets", EVIL, "x"],
        &["lab", "run", "x86-vtd-strict", "--flame", EVIL],
        &["lab", "show", EVIL],
        &["lab", "diff", EVIL, EVIL],
        &["compare", EVIL, EVIL],
        &["compare", EVIL, EVIL, "--html", EVIL],
        &["lab", "list", "--presets", EVIL],
        &["lab", "fetch", EVIL],
        &["model", "run", EVIL],
        &["reproduce", EVIL],
        &["reproduce", "memmap", "--set", EVIL],
        &["bench", EVIL],
        &["bench", "iova", "--peer", EVIL],
        &["bench", "memtype", "--bar", EVIL],
        &["bench", "blk", EVIL],
        &["blk", "read", EVIL],
        &["blk", "list", "--root", EVIL],
        &["blk", "write", EVIL, "-i", EVIL],
        &["blk", "log", EVIL],
        &["blk", "health", EVIL],
        &["blk", "test", EVIL],
        &["blk", "firmware", EVIL],
        &["blk", "namespace", "list", EVIL],
        &["blk", "namespace", "delete", EVIL, "--namespace", "1", "--overwrite", EVIL],
        &["blk", "firmware", EVIL, "--image", EVIL, "--activate", "now", "--replace", EVIL],
        &["complete", EVIL],
        &["sweep", EVIL, "--out", EVIL],
        &["fleet", "report", EVIL],
    ];
    let shown = commands.iter().filter(|args| check(args, folder)).count();
    assert!(shown >= commands.len() - 4, "{shown} of {} showed what they were given", commands.len());
}

#[test]
fn escapes_in_user_files_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let evil = escaped();
    let wrong = |text: &str| {
        // Raw, as an unknown key, as an unknown table, and as a value of every word that is one.
        let mut all = vec![
            format!("{EVIL} = 1\n{text}"),
            format!("\"{evil}\" = 1\n{text}"),
            format!("{text}\n[\"{evil}\"]\nx = 1\n"),
            format!("{text}\n{EVIL}"),
        ];
        for (at, line) in text.lines().enumerate() {
            let Some((key, value)) = line.split_once(" = ") else { continue };
            if value.starts_with('"') && !value.starts_with("\"\"\"") && value.ends_with('"') {
                let replaced = text.lines().enumerate().map(|(other, line)| {
                    if other == at { format!("{key} = \"{evil}\"") } else { line.to_owned() }
                });
                all.push(replaced.collect::<Vec<_>>().join("\n"));
            }
        }
        all
    };
    let mut shown = 0;
    for name in [
        "engine.toml",
        "two-hosts.toml",
        "nvme.toml",
        "infiniband.toml",
        "memory-types.toml",
        "flash-array.toml",
    ] {
        let Ok(text) = fs::read_to_string(experiments().join(name)) else { continue };
        shown += check_files(folder, &["model", "run", "mine.toml"], "mine.toml", &wrong(&text));
    }
    assert!(shown > 8, "{shown} experiments");
    let prices = fs::read_to_string(experiments().join("../data/prices/x86.toml")).unwrap();
    let host = experiments().join("../crates/host/tests/captures/x86-vtd-lazy.tar.gz");
    let host = host.to_str().unwrap();
    shown = check_files(
        folder,
        &["inspect", "--from", host, "--prices", "mine.toml"],
        "mine.toml",
        &wrong(&prices),
    );
    assert!(shown > 2, "{shown} price lists");
    let presets = "[mine]\narch = \"x86\"\n".to_owned();
    shown = check_files(folder, &["lab", "list", "--presets", "mine.toml"], "mine.toml", &wrong(&presets));
    assert!(shown > 0, "{shown} presets");
    let plan = fs::read_to_string(experiments().join("sweep.toml")).unwrap();
    check_files(
        folder,
        &["sweep", "mine.toml", "--out", "out", "--shard", "0/100000"],
        "mine.toml",
        &wrong(&plan),
    );
    let nvme = experiments().join("nvme.toml");
    let jobs = [
        format!("[{EVIL}]\nrw=randread\n"),
        format!("[a]\n{EVIL}=1\n"),
        format!("[a]\nrw={EVIL}\n"),
        EVIL.to_owned(),
    ];
    shown = check_files(
        folder,
        &["model", "run", nvme.to_str().unwrap(), "--jobs", "mine.fio"],
        "mine.fio",
        &jobs,
    );
    assert!(shown > 1, "{shown} job files");
    let printable = EVIL.replace(|c: char| c.is_ascii_control(), "");
    let hosts = experiments().join("two-hosts.toml");
    let profiles = [
        format!("<profile name=\"{printable}\"><group nthreads=\"{printable}\"/></profile>"),
        format!("<{printable}/>"),
        EVIL.to_owned(),
        format!(
            "<?xml version=\"1.0\"?><profile name=\"x\"><group nprocs=\"1\"><transaction iterations=\"1\"><flowop type=\"{printable}\"/></transaction></group></profile>"
        ),
    ];
    shown = check_files(
        folder,
        &["model", "run", hosts.to_str().unwrap(), "--profile", "mine.xml"],
        "mine.xml",
        &profiles,
    );
    assert!(shown > 1, "{shown} profiles");
    let adapters = experiments().join("infiniband.toml");
    let traces = [format!("0 {EVIL} 1 2\n"), format!("{EVIL} send 1 2\n"), EVIL.to_owned()];
    check_files(
        folder,
        &["model", "run", adapters.to_str().unwrap(), "--trace", "mine.trace"],
        "mine.trace",
        &traces,
    );
}

#[test]
fn escapes_in_toll_sheets_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tolls = experiments().join("../data/tolls");
    let sheet = fs::read_dir(tolls).unwrap().map(|entry| entry.unwrap().path());
    let sheet = sheet
        .filter(|path| path.extension().is_some_and(|end| end == "json") && !path.ends_with("schema.json"))
        .min()
        .unwrap();
    let text = fs::read_to_string(sheet).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut wrong = vec![
        EVIL.to_owned(),
        format!("{{\"schema\": \"{}\"}}", escaped()),
        format!("{{\"{}\": 1}}", escaped()),
    ];
    for key in ["preset", "date", "schema"] {
        let mut other = whole.clone();
        other[key] = EVIL.into();
        wrong.push(other.to_string());
    }
    let mut workload = whole.clone();
    workload["tolls"][0]["workload"] = EVIL.into();
    workload["kernel"]["release"] = EVIL.into();
    workload["machine"]["command_line"] = vec![EVIL].into();
    wrong.push(workload.to_string());
    fs::write(folder.join("good.json"), &text).unwrap();
    for args in [
        &["lab", "show", "mine.json"][..],
        &["lab", "show", "mine.json", "--json"],
        &["lab", "diff", "good.json", "mine.json"],
        &["compare", "good.json", "mine.json"],
        &["compare", "mine.json", "good.json", "--json"],
        &["lab", "show", "mine.json", "--html", "page.html"],
        &["inspect", "--tolls", "."],
    ] {
        let shown = check_files(folder, args, "mine.json", &wrong);
        assert!(shown > 1 || args.contains(&"--json") || args.contains(&"inspect"), "{args:?}: {shown}");
    }
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    assert_eq!(obeyed(&page), Vec::<String>::new());
    assert!(page.contains('\u{fffd}'));
}

/// A host that is hostile in everything that it says of itself.
fn hostile_host(folder: &Path) {
    let write = |path: &str, text: &str| {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let line = EVIL.replace('\n', " ");
    write("proc/version", &format!("Linux version 6.1.0{line} (x@y) #1 SMP\n"));
    write(
        "proc/cmdline",
        &format!("intel_iommu=on,{line} iommu=pt,{line} iommu.passthrough=1{line} memmap={line}\n"),
    );
    write("proc/cpuinfo", &format!("processor : 0\nvendor_id : GenuineIntel\nmodel name : {line}\n"));
    write("proc/meminfo", "MemTotal: 67108864 kB\n");
    write("sys/devices/virtual/dmi/id/product_name", &line);
    write("sys/class/dmi/id/product_name", &line);
    let device = "sys/bus/pci/devices/0000:3b:00.0";
    for (name, text) in [
        ("class", "0x010802"),
        ("vendor", "0x144d"),
        ("device", "0xa808"),
        ("label", &line),
        ("numa_node", "0"),
        ("current_link_speed", &line),
    ] {
        write(&format!("{device}/{name}"), &format!("{text}\n"));
    }
    std::os::unix::fs::symlink(
        format!("../../../../bus/pci/drivers/nvme{EVIL}"),
        folder.join(device).join("driver"),
    )
    .unwrap();
    write("sys/kernel/iommu_groups/4/type", "DMA\n");
    fs::create_dir_all(folder.join("sys/kernel/iommu_groups/4/devices")).unwrap();
    std::os::unix::fs::symlink("../../../../kernel/iommu_groups/4", folder.join(device).join("iommu_group"))
        .unwrap();
    write(
        "var/log/dmesg",
        &format!(
            "[    0.0] DMAR: [DMA Read] Request device [3b:00.0] fault addr 0x1000 [fault reason 06] {line}\n[    0.1] nvme 0000:3b:00.0: swiotlb buffer is full {line}\n[    0.2] Unknown kernel command line parameters \"iommu={line}\"\n"
        ),
    );
    write(&format!("sys/class/iommu/dmar0{}/name", EVIL.replace('/', "")), &line);
}

#[test]
fn escapes_of_a_host_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let host = folder.join("host");
    hostile_host(&host);
    assert!(check(&["inspect", "--from", "host"], folder));
    assert!(check(&["inspect", "--from", "host", "3b:00.0"], folder));
    check(&["inspect", "--from", "host", "--json"], folder);
    check(&["inspect", "--from", "host", "--html", "page.html"], folder);
    check(&["inspect", "--from", "host", "3c:00.0"], folder);
    check(&["mtrr", "plan", "--from", "host", "--want", "0x10000000:64M:write-combining"], folder);
    check(&["capture", "--from", "host", "-o", "copy.tar.gz"], folder);
    check(&["inspect", "--from", "copy.tar.gz"], folder);
    check(&["blk", "list", "--root", "host"], folder);
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    assert_eq!(obeyed(&page), Vec::<String>::new());
}

#[test]
fn escapes_in_archives_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let archive = |name: &str, member: &str| {
        let mut builder = tar::Builder::new(File::create(folder.join(name)).unwrap());
        let mut header = tar::Header::new_ustar();
        // Past the writer's own check of names.
        let place = &mut header.as_old_mut().name;
        let bytes = member.as_bytes();
        let count = bytes.len().min(place.len());
        place[..count].copy_from_slice(&bytes[..count]);
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &[][..]).unwrap();
        builder.into_inner().unwrap();
    };
    archive("out.tar", &format!("../\x1b]0;x\x07\x1b[2J{}", &EVIL[..10]));
    assert!(check(&["inspect", "--from", "out.tar"], folder));
    archive("no-host.tar", "\x1b]0;x\x07\x1b[2J");
    check(&["inspect", "--from", "no-host.tar"], folder);
    let named = format!("{EVIL}.tar.gz");
    fs::write(folder.join(&named), "no archive").unwrap();
    assert!(check(&["inspect", "--from", &named], folder));
    fs::write(folder.join("cut.tar.gz"), b"\x1f\x8b\x08\0\0\0\0\0\0\x03cut").unwrap();
    check(&["inspect", "--from", "cut.tar.gz"], folder);
}

/// What is no text is not written to a terminal, which would obey it.
#[test]
fn bytes_are_not_written_to_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    hostile_host(&folder.join("host"));
    fs::write(folder.join("disk"), b"\x1b[2J\x1b]0;x\x07".repeat(4096)).unwrap();
    for args in [&["blk", "read", "disk", "--blocks", "1"][..], &["capture", "--from", "host", "-o", "-"]] {
        let seen = on_a_terminal(args, folder);
        assert_eq!(seen.status, 2, "{args:?}: {}", seen.text.escape_debug());
        assert!(
            seen.text.contains("standard output is a terminal"),
            "{args:?}: {}",
            seen.text.escape_debug()
        );
        assert!(obeyed(&seen.text).is_empty());
    }
}

/// Help and reports have their colours on a terminal: what is checked above is not that nothing is coloured.
#[test]
fn our_own_colours_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    hostile_host(&folder.path().join("host"));
    for args in [&["inspect", "--from", "host"][..], &["--help"]] {
        let seen = on_a_terminal(args, folder.path());
        assert!(seen.text.contains("\x1b[1m"), "{args:?}: {}", seen.text);
        assert!(obeyed(&seen.text).is_empty(), "{args:?}: {:?}", obeyed(&seen.text));
    }
}

/// A log of thousands of made-up faults, each of another adapter, is some pages, and says what shows the rest.
#[test]
fn a_report_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    hostile_host(&folder.join("host"));
    let fault = |number: u32| {
        let [bus, device, function] = [number >> 8 & 0xff, number >> 3 & 0x1f, number & 7];
        format!(
            "[    1.{number:06}] DMAR: [DMA Read] Request device [{bus:02x}:{device:02x}.{function}] fault addr {number:#x}000 [fault reason 06] PTE Read access is not set {number}\n"
        )
    };
    fs::write(folder.join("host/var/log/dmesg"), (0..4_000).map(fault).collect::<String>()).unwrap();
    let lines = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_iotoll")).args(args).current_dir(folder).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let folded = lines(&["inspect", "--from", "host", "--html", "page.html"]);
    assert!(folded.lines().count() < 2_000, "{} lines", folded.lines().count());
    assert!(folded.contains("more findings: the same command with --full shows all"), "{folded}");
    assert!(folded.contains("Not seen"), "what was not seen is cut off");
    let full = lines(&["inspect", "--from", "host", "--full"]);
    assert!(full.lines().count() > 8_000, "{} lines", full.lines().count());
    let page = fs::metadata(folder.join("page.html")).unwrap().len();
    assert!(page < 2 << 20, "a page of {page} bytes");
}
