//! `iotoll capture` as a user runs it: who may read the file, what is redacted, what the help and the manual say.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use flate2::read::GzDecoder;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const COMMAND_LINE: &str = "BOOT_IMAGE=/vmlinuz intel_iommu=on rd.iscsi.password=\"Canary1x Canary2x\" \
    ks=http://Canary3x:Canary4x@boot.example.com/ks ifname=eth0:90:b1:1c:0a:0b:0c iommu=pt";

/// A host with secrets, and place for what is made of it.
fn host() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("host");
    fs::create_dir_all(root.join("proc")).unwrap();
    fs::create_dir_all(root.join("var/log")).unwrap();
    fs::write(root.join("proc/cmdline"), format!("{COMMAND_LINE}\n")).unwrap();
    fs::write(root.join("proc/version"), "Linux version 6.9.0 (jo@attic) (gcc) #1 SMP x86_64\n").unwrap();
    let log = format!(
        "[    0.000000] Kernel command line: {COMMAND_LINE}\n\
         [    0.000000] Unknown kernel command line parameters \"rd.iscsi.password=Canary1x Canary2x\", will be passed to user space.\n\
         [    0.000000] DMAR: IOMMU enabled\n\
         [    1.000000] igb 0000:3b:00.0: (PCIe:5.0Gb/s:Width x4) 90:b1:1c:0a:0b:0c\n\
         [    1.000000] usb 1-1: SerialNumber: Canary5x\n"
    );
    fs::write(root.join("var/log/dmesg"), log).unwrap();
    folder
}

/// Runs the program as most shells would: files are for all to read unless it says otherwise.
fn iotoll(folder: &Path, args: &[&str]) -> Output {
    let program = assert_cmd::cargo::cargo_bin("iotoll");
    let mut command = Command::new("sh");
    command.args(["-c", "umask 022; exec \"$0\" \"$@\""]).arg(program);
    command.current_dir(folder).env("COLUMNS", "400").env("NO_COLOR", "1").args(args).output().unwrap()
}

/// Captures the host with this key; gives what the archive holds and what was said.
fn capture(folder: &Path, to: &str, more: &[&str]) -> (String, String) {
    let made = iotoll(folder, &[&["capture", "--from", "host", "-o", to], more].concat());
    let said = String::from_utf8(made.stderr).unwrap();
    assert_eq!(made.status.code(), Some(0), "{said}");
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(folder.join(to)).unwrap()).read_to_end(&mut bytes).unwrap();
    (String::from_utf8_lossy(&bytes).into_owned(), said)
}

#[test]
fn only_the_owner_may_read_a_capture_and_it_holds_no_canary() {
    let host = host();
    let folder = host.path();
    let (held, said) = capture(folder, "a.tar.gz", &["--key", "key"]);
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("a.tar.gz"), mode("key")), (0o600, 0o600));
    for canary in ["Canary", "90:b1:1c:0a:0b:0c", "boot.example.com", "attic"] {
        assert!(!held.contains(canary), "{canary}: {held}");
    }
    assert!(held.contains("intel_iommu=on") && held.contains("iommu=pt") && held.contains("0000:3b:00.0"));
    assert!(
        said.contains("redacted: ") && said.contains("secrets, 3 MAC addresses, 1 serial number"),
        "{said}"
    );
    // A file that others could read before is replaced by one that they can't.
    fs::set_permissions(folder.join("a.tar.gz"), fs::Permissions::from_mode(0o644)).unwrap();
    let (again, _) = capture(folder, "a.tar.gz", &["--key", "key"]);
    assert_eq!(mode("a.tar.gz"), 0o600);
    assert_eq!(again, held, "two captures of one host match");
    assert_ne!(capture(folder, "b.tar.gz", &["--key", "other"]).0, held);
    let (kept, said) = capture(folder, "c.tar.gz", &["--with-identifiers"]);
    assert!(kept.contains("90:b1:1c:0a:0b:0c") && kept.contains("SerialNumber: Canary5x"), "{kept}");
    assert!(
        ["Canary1x", "Canary2x", "Canary3x", "Canary4x"].iter().all(|secret| !kept.contains(secret)),
        "{kept}"
    );
    assert!(said.contains("kept, as --with-identifiers asks"), "{said}");
}

#[test]
fn no_output_of_an_inspection_shows_secrets() {
    let host = host();
    let folder = host.path();
    for args in
        [&["inspect", "--from", "host", "--json", "--html", "page.html"][..], &["inspect", "--from", "host"]]
    {
        let output = iotoll(folder, args);
        assert!(output.status.code().unwrap() < 2, "{}", String::from_utf8_lossy(&output.stderr));
        let shown = String::from_utf8(output.stdout).unwrap();
        for secret in ["Canary1x", "Canary2x", "Canary3x", "Canary4x"] {
            assert!(!shown.contains(secret), "{args:?}: {shown}");
        }
        if args.contains(&"--json") {
            assert!(shown.contains("rd.iscsi.password=\\\"redacted\\\""), "{shown}");
            let document: serde_json::Value = serde_json::from_str(&shown).unwrap();
            let citations = document["citations"].as_array().unwrap();
            let of_words = |row: &&serde_json::Value| row["fact"] == "/host/command_line";
            assert_eq!(citations.iter().find(of_words).unwrap()["line"], 1, "evidence still has its line");
        }
    }
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(!page.contains("Canary1x") && !page.contains("Canary4x"));
}

#[test]
fn the_key_stays_where_it_is_said_to() {
    let host = host();
    let folder = host.path();
    fs::write(folder.join("short"), "x").unwrap();
    fs::set_permissions(folder.join("short"), fs::Permissions::from_mode(0o600)).unwrap();
    let refused = iotoll(folder, &["capture", "--from", "host", "-o", "a.tar.gz", "--key", "short"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("short: 1 bytes; expected a key of 32"));
    assert!(!folder.join("a.tar.gz").exists());
}

#[test]
fn the_key_is_not_replaced_by_the_archive() {
    let folder = host();
    let folder = folder.path();
    capture(folder, "a.tar.gz", &["--key", "key"]);
    let key = fs::read(folder.join("key")).unwrap();
    std::os::unix::fs::symlink("key", folder.join("link")).unwrap();
    for output in ["key", "./key", "link"] {
        let refused = iotoll(folder, &["capture", "--from", "host", "-o", output, "--key", "key"]);
        assert_eq!(refused.status.code(), Some(2), "{output}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(&format!("{output}: the output is the key of pseudonyms")), "{said}");
    }
    assert_eq!(fs::read(folder.join("key")).unwrap(), key);
}

#[test]
fn help_and_manual_list_the_files_that_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let help = String::from_utf8(iotoll(folder.path(), &["capture", "--help"]).stdout).unwrap();
    assert!(iotoll(folder.path(), &["man", "pages"]).status.success());
    let page = fs::read_to_string(folder.path().join("pages/iotoll-capture.1")).unwrap().replace('\\', "");
    for row in host::redact::READS {
        assert!(help.contains(&format!("/{}", row.pattern)), "{}: {help}", row.pattern);
        assert!(page.contains(&format!("/{}", row.pattern)), "{}: {page}", row.pattern);
    }
    assert!(!help.contains("no user data") && help.contains("read the log in the archive"), "{help}");
}
