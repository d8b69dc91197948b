//! QEMU as a process: started, watched, and never left behind.

use crate::Arch;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How much of the end of what a guest or QEMU printed an error shows.
const LAST_LINES: usize = 12;

/// Why a run of QEMU is worth nothing.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// There is no QEMU for the architecture.
    #[error("{program} is not installed; on Debian: apt install {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The package that brings it.
        package: &'static str,
    },
    /// It can't be started, or a file of the run not be made.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// It ended with an error of its own, or was killed.
    #[error("{program} ended with {status}{}", quoted("it said", .said))]
    Ended {
        /// The program.
        program: &'static str,
        /// How.
        status: ExitStatus,
        /// The end of what it said.
        said: String,
    },
    /// The guest did not come to its end in time.
    #[error("the guest was not done after {} s and was ended{}", .limit.as_secs(), quoted("its last lines", .console))]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// The end of the guest's console.
        console: String,
    },
    /// The guest ended without having done everything: a panic, or a driver is missing.
    #[error("the guest ended before it was done{}", quoted("its last lines", .console))]
    GuestFailed {
        /// The end of the guest's console.
        console: String,
    },
    /// The user wants no more.
    #[error("interrupted")]
    Interrupted,
}

fn quoted(what: &str, text: &str) -> String {
    if text.is_empty() {
        return "; the guest printed nothing".to_owned();
    }
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    format!("; {what}:\n{}", lines.join("\n"))
}

/// What a run gets.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// How long a guest may take.
    pub time: Duration,
    /// Set when the user wants no more.
    pub stop: &'a AtomicBool,
}

/// The Debian package that brings QEMU for an architecture.
pub fn package(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "qemu-system-x86",
        Arch::Arm => "qemu-system-arm",
        Arch::Ppc => "qemu-system-ppc",
    }
}

/// QEMU's version, in its own words.
///
/// # Errors
/// [`QemuError::Missing`] if there is none.
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
    /// Reads [`version`]'s words: `7.2.22 (Debian ...)`.
    pub fn read(version: &str) -> Option<Self> {
        let mut numbers = version.split(|c: char| !c.is_ascii_digit());
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

fn start_error(arch: Arch, source: std::io::Error) -> QemuError {
    match source.kind() {
        std::io::ErrorKind::NotFound => QemuError::Missing { program: arch.qemu(), package: package(arch) },
        _ => QemuError::Io { what: format!("can't start {}", arch.qemu()), source },
    }
}

/// Runs QEMU to its end.
///
/// # Errors
/// [`QemuError`] if it does not come to a good end; it is gone in any case.
pub fn run(arch: Arch, arguments: &[OsString], console: &Path, limits: Limits<'_>) -> Result<(), QemuError> {
    let said = console.with_extension("qemu");
    let talk = |source| QemuError::Io { what: format!("can't write {}", said.display()), source };
    let stderr = File::create(&said).map_err(talk)?;
    let stdout = stderr.try_clone().map_err(talk)?;
    let mut command = Command::new(arch.qemu());
    command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut guest = Guest(command.spawn().map_err(|why| start_error(arch, why))?);
    let status = guest.wait(console, limits)?;
    if !status.success() {
        return Err(QemuError::Ended { program: arch.qemu(), status, said: last_lines(&said) });
    }
    Ok(())
}

/// The end of a file, for people. Empty if there is nothing.
pub fn last_lines(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    // A panic says why it is one in its first line, and where in the many that follow.
    let panic = lines.iter().position(|line| line.contains("Kernel panic"));
    let from = panic.unwrap_or(lines.len().saturating_sub(LAST_LINES));
    lines.iter().skip(from).take(LAST_LINES).copied().collect::<Vec<_>>().join("\n")
}

/// A running QEMU, ended at the latest when this goes.
struct Guest(Child);

impl Guest {
    fn wait(&mut self, console: &Path, limits: Limits<'_>) -> Result<ExitStatus, QemuError> {
        let since = Instant::now();
        loop {
            let status = self.0.try_wait();
            let status =
                status.map_err(|source| QemuError::Io { what: "can't wait for QEMU".to_owned(), source })?;
            // First: a terminal's Ctrl-C reaches QEMU too, which then comes to what looks like a good end.
            if limits.stop.load(Relaxed) {
                return Err(QemuError::Interrupted);
            }
            if let Some(status) = status {
                return Ok(status);
            }
            if since.elapsed() > limits.time {
                return Err(QemuError::TimedOut { limit: limits.time, console: last_lines(console) });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
