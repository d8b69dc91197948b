//! Users' files for the model, with every number at its extremes.
//!
//! Each key of each example gets each of [`VALUES`], goes, and comes twice; so does each number of a job file, a profile, a trace and a
//! price list. A file is refused with its name and a place, or the model runs to its end.

use super::host::Host;
use super::program::{self, Bounds, Ended, Out};
use super::promises;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Address space of a model: what `iotoll model run` takes of memory is what the machine has of queues.
const BOUNDS: Bounds = Bounds { address_space_kib: 4 << 20, cpu_seconds: 60, wall: Duration::from_secs(180) };

/// In place of any value.
const VALUES: [&str; 20] = [
    "0",
    "-1",
    "1",
    "65537",
    "2147483648",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551616",
    "0.0",
    "-0.0",
    "5e-324",
    "1e-9",
    "1e9",
    "1e308",
    "nan",
    "inf",
    "\"\"",
    "\"\\u001b[2J<hostile>\"",
    "[]",
    "true",
];

/// Examples for `iotoll model run`.
const MACHINES: [&str; 6] = [
    "engine.toml",
    "two-hosts.toml",
    "nvme.toml",
    "flash-array.toml",
    "infiniband.toml",
    "memory-types.toml",
];

/// One changed file, and how the program is given it.
pub(crate) struct Extreme {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    /// The changed file's name, and its text.
    file: &'static str,
    text: String,
    /// `FILE` stands for it, `EXAMPLES` for the folder of examples, `PROCESSES` for a machine that carries out traces, `HOST` for
    /// a host.
    arguments: &'static [&'static str],
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

pub(crate) fn all() -> Vec<Extreme> {
    let mut all = Vec::new();
    for machine in MACHINES {
        let text = fs::read_to_string(examples().join(machine)).unwrap();
        let run: &[&str] = &["model", "run", "FILE"];
        all.extend(changes("machine", machine, &text, &toml_lines, run));
    }
    let prices = fs::read_to_string(examples().join("../data/prices/x86.toml")).unwrap();
    all.extend(changes(
        "price list",
        "prices.toml",
        &prices,
        &toml_lines,
        &["inspect", "--from", "HOST", "--prices", "FILE"],
    ));
    let text = |path: &str| fs::read_to_string(examples().join(path)).unwrap();
    let run: &[&str] = &["model", "run", "EXAMPLES/nvme.toml", "--jobs", "FILE"];
    all.extend(changes("fio", "mixed.fio", &text("fio/mixed.fio"), &toml_lines, run));
    let with_benchmark =
        processes(&text("infiniband.toml"), "benchmark = \"is\"\noperations_per_second = 25e6\nrounds = 2\n");
    all.extend(changes("machine", "processes.toml", &with_benchmark, &toml_lines, &["model", "run", "FILE"]));
    let run: &[&str] = &["model", "run", "PROCESSES", "--trace", "FILE"];
    all.extend(changes("trace", "ring.trace", &text("traces/ring.trace"), &numbers, run));
    for profile in ["udp-rr.xml", "tcp-rr.xml", "tcp-stream.xml"] {
        let run: &[&str] = &[
            "model",
            "run",
            "EXAMPLES/two-hosts.toml",
            "--profile",
            "FILE",
            "--set",
            "n=4",
            "--set",
            "size=1k",
            "--set",
            "h=server",
        ];
        all.extend(changes("uperf", profile, &text(&format!("uperf/{profile}")), &numbers, run));
    }
    all
}

/// The example for InfiniBand with processes in place of its micro-benchmark.
fn processes(example: &str, lines: &str) -> String {
    let (machine, _) = example.split_once("[verbs]").unwrap();
    let host =
        "per_node = 2\neager_bytes_max = 8192\ncopy_ps_per_byte = 500\ncall_ns = 200\nshared_ns = 500\n";
    format!("{machine}[processes]\n{lines}{host}")
}

/// A part of a text that is a value, and what it is called.
struct Place {
    key: String,
    from: usize,
    to: usize,
}

/// What stands behind `KEY =` on a line, without a comment.
fn toml_lines(text: &str) -> Vec<Place> {
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some((key, value)) = line.split_once('=')
            && !line.trim_start().starts_with(['#', ';'])
            && !key.contains(['"', ' '])
                | key.trim().chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        {
            let from = at + key.len() + 1;
            let value = value.split(" #").next().unwrap_or_default().trim_end();
            found.push(Place { key: key.trim().to_owned(), from, to: from + value.len() });
        }
        at += line.len();
    }
    found
}

/// Every number and variable.
fn numbers(text: &str) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    for (at, c) in text.char_indices() {
        let is_part = c.is_ascii_digit() || c == '$';
        match found.last_mut() {
            Some(last) if is_part && last.to == at => last.to = at + 1,
            _ if is_part => found.push(Place { key: format!("at {at}"), from: at, to: at + 1 }),
            _ => {}
        }
    }
    found
}

fn changes(
    kind: &'static str,
    file: &'static str,
    text: &str,
    places: &dyn Fn(&str) -> Vec<Place>,
    arguments: &'static [&'static str],
) -> Vec<Extreme> {
    let mut all = Vec::new();
    let extreme =
        |name: &str, text: String| Extreme { kind, name: format!("{file}: {name}"), file, text, arguments };
    all.push(extreme(UNCHANGED, text.to_owned()));
    let mut push = |name: String, text: String| all.push(extreme(&name, text));
    for Place { key, from, to } in places(text) {
        for value in VALUES {
            push(format!("{key} = {value}"), format!("{} {value}{}", &text[..from], &text[to..]));
        }
        let line = text[..from].rfind('\n').map_or(0, |at| at + 1);
        let end = text[to..].find('\n').map_or(text.len(), |at| to + at + 1);
        push(format!("no {key}"), format!("{}{}", &text[..line], &text[end..]));
        push(format!("{key} twice"), format!("{}{}", &text[..end], &text[line..]));
        push(format!("{key} of an unknown name"), format!("{}hostile_{}", &text[..line], &text[line..]));
        push(
            format!("{key} a thousand times"),
            format!("{}[{}]{}", &text[..from], format!("{},", &text[from..to]).repeat(1000), &text[to..]),
        );
    }
    all
}

/// What the changes are made to: refused, it would say that all of them are refused for another reason.
const UNCHANGED: &str = "as it is";

/// What became of one.
pub(crate) struct Came {
    pub(crate) broken: Vec<String>,
    /// It was refused, and not run.
    pub(crate) is_refused: bool,
    pub(crate) took: Duration,
}

impl Extreme {
    pub(crate) fn run(&self, host: &Path) -> Came {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::write(folder.path().join(self.file), &self.text).unwrap();
        let examples = examples();
        let processes = processes(&fs::read_to_string(examples.join("infiniband.toml")).unwrap(), "");
        fs::write(folder.path().join("traced.toml"), processes).unwrap();
        let argument = |word: &&str| match *word {
            "FILE" => self.file.to_owned(),
            "PROCESSES" => "traced.toml".to_owned(),
            "HOST" => host.display().to_string(),
            word => word.replace("EXAMPLES", &examples.display().to_string()),
        };
        let arguments: Vec<String> = self.arguments.iter().map(argument).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ended = program::run(folder.path(), &arguments, Out::Pipe, BOUNDS);
        let mut broken = Vec::new();
        promises::of_any_run(&ended, Out::Pipe, &mut broken);
        let is_refused = ended.code() == Some(2);
        if is_refused && self.name.ends_with(UNCHANGED) {
            broken.push(format!("refused as it is: {:?}", String::from_utf8_lossy(&ended.complaint)));
        }
        if is_refused {
            self.check_refusal(&ended, &mut broken);
        }
        Came { broken, is_refused, took: ended.took }
    }

    /// A refusal names the file, and in it a line, a field or a table.
    fn check_refusal(&self, ended: &Ended, broken: &mut Vec<String>) {
        let words = String::from_utf8_lossy(&ended.complaint);
        if !words.contains(self.file) {
            broken.push(format!("refused without the file's name: {words:?}"));
            return;
        }
        let behind = words.split_once(self.file).map_or("", |(_, behind)| behind);
        let has_line = behind.starts_with(':') && behind[1..].starts_with(|c: char| c.is_ascii_digit())
            || behind.contains("line ");
        let names = |place: &Place| place.key.len() > 1 && behind.contains(&place.key);
        let has_field =
            toml_lines(&self.text).iter().any(names) || behind.contains(" is ") || behind.contains('[');
        // What a whole profile asks for has no line of its own.
        let has_field = has_field || behind.contains(": profile ");
        if !has_line && !has_field {
            broken.push(format!("refused without a place: {words:?}"));
        }
    }
}

/// A host that prices are used for.
pub(crate) fn host(folder: &Path) -> PathBuf {
    let path = folder.join("host.tar");
    fs::write(&path, Host::plain().archive()).unwrap();
    path
}
