//! Runs QEMU as a child process, with a time limit, and ends it in every case.

use crate::Arch;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time between two polls of the child process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Lines of the guest's or QEMU's output that an error quotes, from its end.
const LAST_LINES: usize = 12;

/// How many times its limit of CPU time a guest may take on a busy host.
pub const BUSY_TIMES: u32 = 4;
/// A poll of the child process that takes longer than this means that this program was stopped meanwhile.
const AWAKE_MAX: Duration = Duration::from_secs(1);

/// Why a run of QEMU failed.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// QEMU for the architecture is not installed.
    #[error("{program} is not installed; on Debian: apt install {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The package to install.
        package: &'static str,
    },
    /// QEMU can't be started, or one of the run's files can't be created.
    #[error("{action}")]
    Io {
        /// What failed, as in `can't start qemu-system-x86_64`.
        action: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// QEMU ended with an error, or was killed.
    #[error("{program} ended with {status}{}", quote("its last lines", .output))]
    Ended {
        /// The program.
        program: &'static str,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },
    /// The guest did not finish in time.
    #[error("the guest was ended: {exceeded}{}", quote("its last lines", .console))]
    TimedOut {
        /// The limit that it exceeded, as in `it had printed nothing for 300 s`.
        exceeded: String,
        /// The end of the guest's console.
        console: String,
    },
    /// The guest ended before its script did: the kernel panicked, or a driver is missing.
    #[error("the guest ended before its last workload{}", quote("its last lines", .console))]
    GuestFailed {
        /// The end of the guest's console.
        console: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

/// The lines of `text` under a heading, for the end of an error message.
fn quote(heading: &str, text: &str) -> String {
    if text.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    format!("; {heading}:\n{}", lines.join("\n"))
}

/// When a run is ended.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// The CPU time that a guest may take, and the time that it may be silent. On a busy host a guest takes longer, but no more
    /// CPU time: in all it may take [`BUSY_TIMES`] as long. While this program is stopped, no time passes.
    pub time: Duration,
    /// Set when the user interrupts the program.
    pub stop: &'a AtomicBool,
}

impl Limits<'_> {
    /// The limit that a guest has exceeded, if any, for an error.
    fn exceeded(&self, cpu_time: Duration, silent: Duration, waited: Duration) -> Option<String> {
        let seconds = self.time.as_secs();
        if cpu_time > self.time {
            Some(format!("it had taken {seconds} s of CPU time"))
        } else if silent > self.time {
            Some(format!("it had printed nothing for {seconds} s"))
        } else if waited > self.time * BUSY_TIMES {
            Some(format!("it had run for {} s", seconds * u64::from(BUSY_TIMES)))
        } else {
            None
        }
    }
}

/// The Debian package with QEMU for an architecture.
pub fn package(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "qemu-system-x86",
        Arch::Arm => "qemu-system-arm",
        Arch::Ppc => "qemu-system-ppc",
    }
}

/// QEMU's version as it prints it: `7.2.22 (Debian ...)`.
///
/// # Errors
/// [`QemuError::Missing`] if it is not installed.
pub fn version(arch: Arch) -> Result<String, QemuError> {
    let output = Command::new(arch.qemu()).arg("--version").output().map_err(|why| start_error(arch, why))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default();
    Ok(first.strip_prefix("QEMU emulator version ").unwrap_or(first).to_owned())
}

/// A release of QEMU: major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32);

impl Release {
    /// Parses the result of [`version`].
    pub fn parse(version: &str) -> Option<Self> {
        let mut numbers = version.split(|c: char| !c.is_ascii_digit());
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// The error for a QEMU that could not be started.
fn start_error(arch: Arch, source: std::io::Error) -> QemuError {
    match source.kind() {
        std::io::ErrorKind::NotFound => QemuError::Missing { program: arch.qemu(), package: package(arch) },
        _ => QemuError::Io { action: format!("can't start {}", arch.qemu()), source },
    }
}

/// Runs QEMU until it ends. Its output goes to a file beside the console's. `watch` is called with the console's text
/// whenever there is more of it.
///
/// # Errors
/// [`QemuError`] if it fails, exceeds the time limit or is interrupted. It has ended in any case.
pub fn run(
    arch: Arch,
    arguments: &[OsString],
    console: &Path,
    limits: Limits<'_>,
    watch: &mut dyn FnMut(&str),
) -> Result<(), QemuError> {
    let output = console.with_extension("qemu");
    let write_error = |source| QemuError::Io { action: format!("can't write {}", output.display()), source };
    let stderr = File::create(&output).map_err(write_error)?;
    let stdout = stderr.try_clone().map_err(write_error)?;
    let mut command = Command::new(arch.qemu());
    command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    // Otherwise a terminal's Ctrl-C would reach QEMU too, and QEMU could end before this program has seen the signal.
    command.process_group(0);
    let mut guest = Guest(command.spawn().map_err(|why| start_error(arch, why))?);
    let status = guest.wait(console, limits, watch)?;
    if !status.success() {
        return Err(QemuError::Ended { program: arch.qemu(), status, output: last_lines(&output) });
    }
    Ok(())
}

/// The last lines of a file, or those from a kernel panic on. Empty if the file is empty or can't be read.
pub fn last_lines(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    // A panic's first line has its reason; the stack trace behind it is long.
    let panic = lines.iter().position(|line| line.contains("Kernel panic"));
    let from = panic.unwrap_or(lines.len().saturating_sub(LAST_LINES));
    lines.iter().skip(from).take(LAST_LINES).copied().collect::<Vec<_>>().join("\n")
}

/// A running QEMU, which is killed when this is dropped.
struct Guest(Child);

impl Guest {
    /// Polls until QEMU ends, a time limit is exceeded or the user interrupts.
    fn wait(
        &mut self,
        console: &Path,
        limits: Limits<'_>,
        watch: &mut dyn FnMut(&str),
    ) -> Result<ExitStatus, QemuError> {
        let (mut waited, mut silent, mut console_bytes) = (Duration::ZERO, Duration::ZERO, 0);
        let mut last_poll = Instant::now();
        loop {
            let status = self.0.try_wait();
            let status = status
                .map_err(|source| QemuError::Io { action: "can't wait for QEMU".to_owned(), source })?;
            if limits.stop.load(Relaxed) {
                return Err(QemuError::Interrupted);
            }
            if let Some(status) = status {
                return Ok(status);
            }
            let bytes = std::fs::metadata(console).map_or(0, |metadata| metadata.len());
            let awake = last_poll.elapsed().min(AWAKE_MAX);
            last_poll = Instant::now();
            (waited, silent) = (waited + awake, silent + awake);
            if bytes != console_bytes {
                (silent, console_bytes) = (Duration::ZERO, bytes);
                watch(&String::from_utf8_lossy(&std::fs::read(console).unwrap_or_default()));
            }
            if let Some(exceeded) = limits.exceeded(self.cpu_time(), silent, waited) {
                return Err(QemuError::TimedOut { exceeded, console: last_lines(console) });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The CPU time that QEMU has used; zero if the kernel does not say.
    fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        // Fields 14 and 15 (proc_pid_stat(5)): ticks in user mode and in the kernel. The name in field 2 may contain blanks, and
        // ends with the last parenthesis.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks: u64 =
            after_name.split_whitespace().skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Both fail only for a process that has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
