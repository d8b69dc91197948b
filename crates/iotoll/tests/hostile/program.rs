//! The program under bounds, on a pseudo-terminal or with a pipe.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a run may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) address_space_kib: u64,
    pub(crate) cpu_seconds: u64,
    pub(crate) wall: Duration,
}

impl Bounds {
    /// Of an inspection. What waits for something takes no CPU: a busy machine gets longer than a program that computes.
    pub(crate) const INSPECTION: Self =
        Self { address_space_kib: 1536 << 10, cpu_seconds: 20, wall: Duration::from_secs(120) };
}

/// What is kept of an output; the rest is counted alone.
const KEPT_BYTES: usize = 8 << 20;

/// Where the output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Out {
    Terminal,
    Pipe,
}

/// How a run ended.
pub(crate) struct Ended {
    /// None if it had to be killed.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) took: Duration,
    /// Of standard output, and of standard error too where both are a terminal.
    pub(crate) output: Vec<u8>,
    pub(crate) output_bytes: usize,
    pub(crate) complaint: Vec<u8>,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status?.code()
    }

    pub(crate) fn how(&self) -> String {
        match self.status {
            None => format!("had to be killed after {} s", self.took.as_secs()),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            },
        }
    }
}

fn program() -> PathBuf {
    std::env::var_os("HOSTILE_PROGRAM").map_or(PathBuf::from(env!("CARGO_BIN_EXE_iotoll")), PathBuf::from)
}

/// Runs it in a folder.
pub(crate) fn run(folder: &Path, arguments: &[&str], out: Out, bounds: Bounds) -> Ended {
    let Bounds { address_space_kib, cpu_seconds, wall } = bounds;
    let limited =
        format!("ulimit -v {address_space_kib}; ulimit -t {cpu_seconds}; ulimit -c 0; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(limited).arg(program()).args(arguments);
    command.current_dir(folder).env_clear();
    let (home, path) = (folder.join("home"), std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", home).env("PATH", path).env("TERM", "xterm-256color").env("COLUMNS", "100");
    // Never ends: what reads its standard input through a link would wait.
    command.stdin(Stdio::piped());
    let begun = Instant::now();
    let (mut child, output) = match out {
        Out::Pipe => {
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let output = collect(child.stdout.take().unwrap());
            (child, output)
        }
        Out::Terminal => {
            let (master, slave) = terminal();
            let child = command.stdout(slave.try_clone().unwrap()).stderr(slave).spawn().unwrap();
            // The command has the terminal's other side open as long as it is there.
            drop(command);
            (child, collect(master))
        }
    };
    let complaint = child.stderr.take().map(collect);
    let status = wait(&mut child, begun, wall);
    let took = begun.elapsed();
    let (output, output_bytes) = output.join().unwrap();
    let complaint = complaint.map(|thread| thread.join().unwrap().0).unwrap_or_default();
    Ended { status, took, output, output_bytes, complaint }
}

fn wait(child: &mut Child, begun: Instant, wall: Duration) -> Option<ExitStatus> {
    let stdin = child.stdin.take();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            drop(stdin);
            return Some(status);
        }
        if begun.elapsed() > wall {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn terminal() -> (File, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(master), slave)
}

/// Reads to the end, which of a terminal is an error.
fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<(Vec<u8>, usize)> {
    thread::spawn(move || {
        let (mut kept, mut count, mut buffer) = (Vec::new(), 0, vec![0; 64 << 10]);
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            count += length;
            let room = KEPT_BYTES - kept.len();
            kept.extend_from_slice(&buffer[..length.min(room)]);
        }
        (kept, count)
    })
}
