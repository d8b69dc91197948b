//! `iotoll bench net` between two processes: over loopback, between network namespaces, and when one of them ends.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod published;
#[path = "../../../tests/skip.rs"]
mod skip;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_iotoll");
const TINY: [&str; 8] = ["--rounds", "2", "--seconds", "0.05", "--size", "64,1K", "--instances", "1,2"];

fn secret(folder: &Path) -> PathBuf {
    let path = folder.join("secret");
    fs::write(&path, "a secret of the tests\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A server of this host that has said where it listens.
struct Server {
    child: Child,
    said: BufReader<ChildStderr>,
    address: String,
}

impl Server {
    fn start(secret: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["bench", "net", "--listen", "127.0.0.1:0", "--secret"]).arg(secret).args(options);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let line = next_line(&mut said);
        let rest = line.strip_prefix("listening on TCP ").unwrap_or_else(|| panic!("{line}"));
        let address = rest.split(',').next().unwrap().to_owned();
        Self { child, said, address }
    }

    /// Waits for a line with these words.
    fn await_line(&mut self, words: &str) {
        while !next_line(&mut self.said).contains(words) {}
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert!(from.read_line(&mut line).unwrap() > 0, "it ended");
    line
}

fn client(secret: &Path, address: &str, options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("COLUMNS", "100").env("NO_COLOR", "1");
    command.args(["bench", "net", address, "--secret"]).arg(secret).args(options);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn failed(output: &Output, words: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(words) && output.stdout.is_empty(), "{words}: {said}");
}

#[test]
fn a_document_with_its_published_schema_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, page) = (secret(folder.path()), folder.path().join("net.html"));
    let mut server = Server::start(&secret, &["--once"]);
    let options =
        [&TINY[..], &["--test", "udp-rr,tcp-rr,tcp-stream", "--json", "--html", page.to_str().unwrap()]];
    let output = client(&secret, &server.address, &options.concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = published::document(&output.stdout);
    assert_eq!(
        (&document["schema"], document["cells"].as_array().unwrap().len()),
        (&"iotoll.bench-net/1".into(), 12)
    );
    assert!(!text(&output.stdout).contains("a secret"));
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg class=\"plot\"").count(), 9);
    for outside in ["<script", "src=", "http://", "https://", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    server.await_line("session ended");
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "it served once");
}

#[test]
fn profiles_of_uperf_are_run() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    let server = Server::start(&secret, &[]);
    for (name, test) in [("udp-rr", "udp-rr"), ("tcp-rr", "tcp-rr"), ("tcp-stream", "tcp-stream")] {
        let text =
            fs::read_to_string(published::repository(&format!("experiments/uperf/{name}.xml"))).unwrap();
        let file = folder.path().join(format!("{name}.xml"));
        fs::write(&file, text.replace("30s", "60ms")).unwrap();
        let run = |extra: &[&str]| {
            let options = ["--json", "--set", "n=3", "--set", "size=90", "--profile", file.to_str().unwrap()];
            client(&secret, &server.address, &[&options[..], extra].concat()).output().unwrap()
        };
        let output = run(&["--rounds", "2"]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let document = published::document(&output.stdout);
        let cell = &document["cells"][0];
        assert_eq!(
            (&cell["test"], &cell["bytes"], &cell["instances"]),
            (&test.into(), &90.into(), &3.into())
        );
        assert!(cell["rounds"][1]["transactions"].as_u64().unwrap() > 0, "{cell}");
        assert_eq!(
            (&document["settings"]["profile"], &document["settings"]["seconds"]),
            (&name.into(), &0.06.into())
        );
        failed(&run(&["--size", "64"]), "cannot be used with");
    }
    let file = folder.path().join("accept.xml");
    let text = "<profile name=\"p\"><group nthreads=\"1\"><transaction>\n<flowop type=\"accept\" options=\"remotehost=$h\"/>\n\
                </transaction></group></profile>";
    fs::write(&file, text).unwrap();
    let refused = client(&secret, &server.address, &["--profile", file.to_str().unwrap()]).output().unwrap();
    failed(&refused, "accept.xml:1: no transfer of data; bench net runs one group");
}

/// The model beside is the one that `iotoll model run` runs with the same profile and variables.
#[test]
fn a_model_gets_the_profile_that_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    let server = Server::start(&secret, &[]);
    let hosts = published::repository("experiments/two-hosts.toml");
    for name in ["udp-rr", "tcp-stream"] {
        let text =
            fs::read_to_string(published::repository(&format!("experiments/uperf/{name}.xml"))).unwrap();
        let profile = folder.path().join(format!("{name}.xml"));
        fs::write(&profile, text.replace("30s", "60ms")).unwrap();
        let given = ["--json", "--set", "n=2", "--set", "size=1k", "--set", "h=127.0.0.1", "--profile"];
        let options = [&given[..], &[profile.to_str().unwrap()]].concat();
        let measure = |model: &Path| {
            let model = ["--rounds", "1", "--model", model.to_str().unwrap()];
            client(&secret, &server.address, &[&options[..], &model].concat()).output().unwrap()
        };
        let output = measure(&hosts);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let beside = published::document(&output.stdout)["model"].clone();
        let run = Command::new(PROGRAM).args(["model", "run"]).arg(&hosts).args(&options).output().unwrap();
        let alone: Value = serde_json::from_slice(&run.stdout).unwrap();
        let answer = &alone["network"];
        assert_eq!(beside["transactions_per_second"], answer["operations_per_second"], "{name}");
        assert_eq!(beside["round_trip_p99_ns"], answer["latency_p99_ns"], "{name}");
        let gigabits = if name == "tcp-stream" { answer["gigabits_per_second"].clone() } else { Value::Null };
        assert_eq!(beside["gigabits_per_second"], gigabits, "{name}");
        failed(
            &measure(&published::repository("experiments/nvme.toml")),
            "nvme.toml describes no network; expected two hosts",
        );
    }
    failed(
        &client(&secret, &server.address, &["--model", hosts.to_str().unwrap()]).output().unwrap(),
        "--profile <FILE>",
    );
}

#[test]
fn two_documents_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    let server = Server::start(&secret, &[]);
    for name in ["before.json", "after.json"] {
        let output = client(&secret, &server.address, &[&TINY[..], &["--json"]].concat()).output().unwrap();
        fs::write(folder.path().join(name), output.stdout).unwrap();
    }
    let compared = Command::new(PROGRAM)
        .current_dir(folder.path())
        .args(["compare", "before.json", "after.json"])
        .output()
        .unwrap();
    let shown = text(&compared.stdout);
    assert_eq!(compared.status.code(), Some(0), "{}", text(&compared.stderr));
    for words in
        ["udp-rr, 64 B, 1 instance", "round trip", "server, CPU time of the whole host per transaction"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

/// SIGTERM, since SIGINT may be ignored where tests run in the background.
#[test]
fn signals_end_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    let mut server = Server::start(&secret, &[]);
    let long = ["--seconds", "30", "--instances", "2", "--test", "tcp-rr"];
    let mut running = client(&secret, &server.address, &long)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    server.await_line("tcp-rr");
    assert!(Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(2));
    failed(&running.wait_with_output().unwrap(), "stopped before the end");
    server.await_line("session ended");
    // A client that is killed says nothing, and the next one is served all the same.
    let mut running = client(&secret, &server.address, &long).stderr(Stdio::null()).spawn().unwrap();
    server.await_line("tcp-rr");
    running.kill().unwrap();
    running.wait().unwrap();
    server.await_line("session ended");
    let running =
        client(&secret, &server.address, &long).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    server.await_line("tcp-rr");
    server.signal("-TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "a signal is how a server ends");
    let output = running.unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn a_server_that_stalls_ends_the_client_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    let mut server = Server::start(&secret, &[]);
    let options = ["--seconds", "1", "--instances", "2", "--test", "tcp-stream", "--size", "64K"];
    let running =
        client(&secret, &server.address, &options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    server.await_line("tcp-stream");
    server.signal("-STOP");
    // It waits for ten seconds.
    let output = running.unwrap().wait_with_output().unwrap();
    server.signal("-CONT");
    failed(&output, &format!("the session with {} ended", server.address));
    server.await_line("session ended");
}

#[test]
fn secrets_and_addresses_that_are_not_safe_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = secret(folder.path());
    let other = folder.path().join("other");
    fs::write(&other, "another secret of the tests").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
    let run =
        |arguments: &[&str]| Command::new(PROGRAM).args(["bench", "net"]).args(arguments).output().unwrap();
    let (good, other) = (good.to_str().unwrap(), other.to_str().unwrap());
    failed(
        &run(&["127.0.0.1:1", "--secret", other]),
        "mode 644 lets other users read the secret; expected 600",
    );
    failed(&run(&["127.0.0.1:1", "--secret", good]), "127.0.0.1:1: can't connect");
    failed(&run(&["--secret", good]), "required arguments were not provided");
    failed(&run(&["--listen", "", "--secret", good]), "expected an address of this host");
    failed(&run(&["--listen", "example.com", "--secret", good]), "expected an address of this host");
    failed(&run(&["127.0.0.1", "--listen", "127.0.0.1", "--secret", good]), "cannot be used with");
    failed(&run(&["127.0.0.1", "--secret", good, "--instances", "1025"]), "expected 1 to 1024");
    fs::set_permissions(other, fs::Permissions::from_mode(0o600)).unwrap();
    let server = Server::start(Path::new(good), &[]);
    failed(&run(&[&server.address, "--secret", other]), "with the same secret");
    failed(&run(&[&server.address, "--secret", good, "--size", "65508"]), "expected 16 to 65507");
}

/// Two network namespaces, joined by a pair of virtual interfaces: `$1` is the program, `$2` the secret, `$3` the folder for what is printed.
const BETWEEN_NAMESPACES: &str = r#"
set -e
mount -t sysfs sysfs /sys
unshare -nm sh -c 'mount -t sysfs sysfs /sys; ip link set lo up; echo ready > "$0/other"; exec sleep 60' "$3" &
other=$!
trap 'kill $other' EXIT
until [ -s "$3/other" ]; do sleep 0.05; done
ip link add left type veth peer name right
ip link set right netns $other
ip addr add 192.0.2.1/24 dev left
ip link set left up
nsenter -t $other -n -m ip addr add 192.0.2.2/24 dev right
nsenter -t $other -n -m ip link set right up
nsenter -t $other -n -m "$1" bench net --listen 192.0.2.2 --secret "$2" --once 2> "$3/server" &
until grep -q listening "$3/server"; do sleep 0.05; done
"$1" bench net 192.0.2.2 --secret "$2" --rounds 2 --seconds 0.05 --size 64 --instances 1,2 --json > "$3/document"
"#;

#[test]
fn a_virtual_interface_between_namespaces_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    let attempt = "mount -t sysfs sysfs /sys && ip link add left type veth peer name right";
    // A user namespace may not mount a sysfs where parts of /sys are covered, as in containers. Root needs no such namespace.
    let is_possible = |kind: &&str| {
        let attempted = Command::new("unshare").args([kind, "sh", "-c", attempt]).output();
        attempted.is_ok_and(|output| output.status.success())
    };
    let Some(kind) = ["-Urnm", "-nm"].into_iter().find(is_possible) else {
        return skip::skip("network namespaces, mounts in them, unshare or ip can't be had here");
    };
    let mut command = Command::new("unshare");
    command.args([kind, "sh", "-c", BETWEEN_NAMESPACES, "sh", PROGRAM]).arg(&secret).arg(folder.path());
    let output = command.output().unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert!(output.status.success(), "{}{}", text(&output.stderr), read("server"));
    let document: Value = serde_json::from_str(&read("document")).unwrap();
    for (side, interface) in [("client", "left"), ("server", "right")] {
        let path = &document[side]["path"];
        assert_eq!(
            (&path["interface"], &path["is_local"]),
            (&interface.into(), &false.into()),
            "{side}: {path}"
        );
        assert_eq!(
            (&path["mtu"], path["adapters"].as_array().unwrap().len()),
            (&1500.into(), 0),
            "{side}: {path}"
        );
        let words = format!("{side}: virtual interface ({interface})");
        assert!(document["warnings"].to_string().contains(&words), "{}", document["warnings"]);
    }
}

/// Carries connections to a server, as a firewall does that lets TCP through and UDP not. Returns its address.
fn relay_of_tcp(server: String) -> String {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    address
}

#[test]
fn a_test_without_any_answer_is_told_first_and_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    let server = Server::start(&secret, &[]);
    let relay = relay_of_tcp(server.address.clone());
    let mut command = Command::new(PROGRAM);
    command.args(["bench", "net", &relay, "--secret"]).arg(&secret).args(TINY);
    let output = command.args(["--test", "udp-rr,tcp-rr"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{text}");
    // Data connections of TCP come through, so UDP alone is silent.
    let first = words.find("warning udp-rr, 64 B, 1 instance: no datagram was answered");
    assert_eq!(first, words.find("warning"), "{text}");
    assert!(words.contains("as in 3 other results. A firewall blocks the server's UDP ports"), "{text}");
}

#[test]
fn options_of_the_server_and_of_profiles_are_not_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    for options in [
        &["--once"][..],
        &["--seconds-max", "5"],
        &["--instances-max", "5"],
        &["--test", "tcp-rr", "--set", "a=b"],
    ] {
        let mut command = Command::new(PROGRAM);
        let output =
            command.args(["bench", "net", "127.0.0.1:1", "--secret"]).arg(&secret).args(options).output();
        let error = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(error.contains("cannot be used with") || error.contains("required"), "{options:?}: {error}");
    }
    for option in [
        &["--contestant", "direct"][..],
        &["--pairs", "5"],
        &["--pin"],
        &["--svg", "a.svg"],
        &["--html", "a.html"],
    ] {
        let output =
            Command::new(PROGRAM).args(["bench", "map", "--dma-path", "no-iommu"]).args(option).output();
        assert_eq!(output.unwrap().status.code(), Some(2), "{option:?}");
    }
}
