//! Downloads Debian packages by apt, with a configuration, state and cache of its own.
//!
//! The system's apt configuration, sources, pins and package state are neither read nor changed. Only its
//! keyring of the Debian archive is used. apt verifies the archive's signature, which covers the checksum of
//! every package.

use super::{Mirror, Package, control::Paragraph};
use crate::Arch;
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// Files of the package debian-archive-keyring, in its newer and its older version.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg"];

/// Bytes of a failed program's standard error that an error message quotes, from its end.
const STDERR_BYTES_MAX: u64 = 4096;

/// Why packages can't be downloaded or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum AptError {
    /// The keys that the archive is verified with are missing.
    #[error(
        "the keys of the Debian archive are not on this host (searched {}); \
         install the package debian-archive-keyring",
        KEYRINGS.join(", ")
    )]
    NoKeyring,
    /// A Debian tool is not installed.
    #[error(
        "`{program}` can't be started; install {package}, or give your own kernel with --kernel and --modules"
    )]
    NoProgram {
        /// The program.
        program: &'static str,
        /// The package to install.
        package: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The program ran and failed.
    #[error("{action}: {status}: {stderr}")]
    Failed {
        /// What the program was run for.
        action: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its standard error.
        stderr: String,
    },
    /// The archive has no such package.
    #[error("the archive has no package {name} for {arch}")]
    NoPackage {
        /// The package.
        name: String,
        /// The architecture.
        arch: Arch,
    },
    /// A package's description lacks a mandatory field.
    #[error("apt's description of {name} has no valid field {field}")]
    NoField {
        /// The package.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// apt reported success, but there is not exactly one downloaded file.
    #[error("apt downloaded {package}, but {folder} holds {found} files; expected one")]
    NotOneFile {
        /// The package.
        package: Package,
        /// The download folder.
        folder: PathBuf,
        /// Number of files in it.
        found: usize,
    },
    /// A path with characters that apt's configuration does not allow.
    #[error(
        "{0} can't be written in apt's configuration; set IOTOLL_CACHE to a path without quotes and line ends"
    )]
    PathUnsuitable(PathBuf),
    /// One of apt's files can't be written or read.
    #[error("{path}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Progress in percent, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Percent(pub(super) f64);

/// A package as the archive's index describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// Its name and version.
    pub(super) package: Package,
    /// Bytes to download.
    pub(super) bytes: u64,
    /// Packages that it depends on in exactly one version.
    pub(super) depends: Vec<Package>,
}

/// Runs apt for the packages of one architecture.
#[derive(Debug)]
pub(super) struct Apt {
    arch: Arch,
    config: PathBuf,
}

impl Apt {
    /// Writes apt's configuration and list of sources into `folder`.
    pub(super) fn set_up(folder: &Path, arch: Arch, mirror: &Mirror) -> Result<Self, AptError> {
        let keyring = KEYRINGS.into_iter().find(|path| Path::new(path).exists());
        let sources = sources(arch, mirror, keyring.ok_or(AptError::NoKeyring)?);
        for below in ["state/lists/partial", "cache/archives/partial"] {
            let path = folder.join(below);
            fs::create_dir_all(&path).map_err(file_error(&path))?;
        }
        write_file(&folder.join("status"), "")?;
        write_file(&folder.join("sources.list"), &sources)?;
        let path = folder.join("apt.conf");
        write_file(&path, &configuration(arch, folder)?)?;
        Ok(Self { arch, config: path })
    }

    /// Downloads the archive's current package indexes.
    pub(super) fn update_indexes(&self, on_progress: &mut dyn FnMut(Percent)) -> Result<(), AptError> {
        let mut command = self.command("apt-get");
        command.args(["-qq", "-o", "APT::Status-Fd=1", "update"]);
        let action = format!("reading the package lists for {}", self.arch);
        run_with_progress(command, "apt-get", on_progress)?.check(&action)?;
        Ok(())
    }

    /// Looks up a package in the index: `name` for the newest version, or `name=version`.
    pub(super) fn find_offer(&self, name: &str) -> Result<Offer, AptError> {
        let mut command = self.command("apt-cache");
        command.args(["show", "--no-all-versions", name]);
        let finished = run(command, "apt-cache")?;
        if !finished.status.success() && finished.stderr.contains("No packages found") {
            return Err(AptError::NoPackage { name: name.to_owned(), arch: self.arch });
        }
        parse_offer(name, &finished.check(&format!("looking up {name}"))?)
    }

    /// Downloads a package into an empty folder and returns the file's path.
    pub(super) fn download(
        &self,
        package: &Package,
        folder: &Path,
        on_progress: &mut dyn FnMut(Percent),
    ) -> Result<PathBuf, AptError> {
        let mut command = self.command("apt-get");
        command.args(["-qq", "-o", "APT::Status-Fd=1", "download"]).current_dir(folder);
        command.arg(package.apt_argument());
        run_with_progress(command, "apt-get", on_progress)?.check(&format!("downloading {package}"))?;
        let files: io::Result<Vec<_>> = fs::read_dir(folder).and_then(Iterator::collect);
        match files.map_err(file_error(folder))?.as_slice() {
            [file] => Ok(file.path()),
            files => Err(AptError::NotOneFile {
                package: package.clone(),
                folder: folder.to_owned(),
                found: files.len(),
            }),
        }
    }

    /// An apt program with our configuration.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // Its messages are parsed, so they must not be translated.
        command.env("APT_CONFIG", &self.config).env("LC_ALL", "C");
        command
    }
}

/// Unpacks a package's file into a folder.
pub(super) fn unpack(file: &Path, folder: &Path) -> Result<(), AptError> {
    let mut command = Command::new("dpkg-deb");
    command.arg("--extract").args([file, folder]).env("LC_ALL", "C");
    run(command, "dpkg-deb")?.check(&format!("unpacking {}", file.display()))?;
    Ok(())
}

/// The text of apt.conf(5). apt reads the system's files after it, so it replaces their paths by /dev/null.
fn configuration(arch: Arch, folder: &Path) -> Result<String, AptError> {
    let suitable = |text: &&str| !text.chars().any(|c| c == '"' || c == '\\' || c.is_control());
    let place =
        folder.to_str().filter(suitable).ok_or_else(|| AptError::PathUnsuitable(folder.to_owned()))?;
    let debian = arch.debian();
    Ok(format!(
        r#"APT::Architecture "{debian}";
APT::Architectures "{debian}";
APT::Update::Error-Mode "any";
// Root's apt would change to a user who can't enter a private folder.
APT::Sandbox::User "root";
Acquire::Languages "none";
// These three shrink apt's files from 120 MB to 20 MB per architecture.
Acquire::GzipIndexes "true";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Retries "3";
Dir::State "{place}/state";
Dir::State::status "{place}/status";
Dir::Cache "{place}/cache";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "{place}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
"#
    ))
}

/// The text of sources.list(5).
fn sources(arch: Arch, mirror: &Mirror, keyring: &str) -> String {
    let line = |address: &str, suite: &str| format!("deb [signed-by={keyring}] {address} {suite} main\n");
    let release = line(mirror.archive(), "bookworm");
    match arch {
        Arch::X86 | Arch::Arm => release + &line(mirror.security(), "bookworm-security"),
        // In November 2026 the security archive's index for ppc64el did not match the checksums in its
        // Release file, and apt fails if one of its sources can't be verified.
        Arch::Ppc => release,
    }
}

/// Parses the output of `apt-cache show`; `name` is for errors.
fn parse_offer(name: &str, description: &str) -> Result<Offer, AptError> {
    let paragraph = Paragraph::first(description);
    let missing = |field| AptError::NoField { name: name.to_owned(), field };
    let field = |field| paragraph.field(field).ok_or_else(|| missing(field));
    let package = Package { name: field("Package")?.to_owned(), version: field("Version")?.to_owned() };
    let bytes = field("Size")?.parse().map_err(|_| missing("Size"))?;
    let depends = paragraph.exact_dependencies();
    let depends = depends.map(|on| Package { name: on.name.to_owned(), version: on.version.to_owned() });
    Ok(Offer { package, bytes, depends: depends.collect() })
}

/// Turns an I/O error into one that names the file.
fn file_error(path: &Path) -> impl FnOnce(io::Error) -> AptError {
    move |source| AptError::File { path: path.to_owned(), source }
}

fn write_file(path: &Path, text: &str) -> Result<(), AptError> {
    fs::write(path, text).map_err(file_error(path))
}

/// A finished program's exit status and output.
struct Finished {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Finished {
    /// Its standard output; an error that names `action` if it failed.
    fn check(self, action: &str) -> Result<String, AptError> {
        match self.status.success() {
            true => Ok(self.stdout),
            false => {
                Err(AptError::Failed { action: action.to_owned(), status: self.status, stderr: self.stderr })
            }
        }
    }
}

/// Runs a command to its end and captures its output; `program` is its name for errors.
fn run(command: Command, program: &'static str) -> Result<Finished, AptError> {
    let (mut child, mut errors) = start(command, program)?;
    let mut output = String::new();
    let read = child.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut output));
    finish(child, &mut errors, read.map(|_| output), program)
}

/// Runs apt to its end and reports its progress to `on_progress`.
fn run_with_progress(
    command: Command,
    program: &'static str,
    on_progress: &mut dyn FnMut(Percent),
) -> Result<Finished, AptError> {
    let (mut child, mut errors) = start(command, program)?;
    let lines = child.stdout.take().map(|pipe| BufReader::new(pipe).split(b'\n'));
    let read = lines.into_iter().flatten().try_for_each(|line| {
        parse_progress(&String::from_utf8_lossy(&line?)).into_iter().for_each(&mut *on_progress);
        Ok(())
    });
    finish(child, &mut errors, read.map(|()| String::new()), program)
}

/// Starts a program, with a pipe for its standard output and a temporary file for its standard error.
fn start(mut command: Command, program: &'static str) -> Result<(Child, File), AptError> {
    let package = if program == "dpkg-deb" { "dpkg" } else { "apt" };
    let failed = |source| AptError::NoProgram { program, package, source };
    // A file, because reading one of two pipes to its end blocks when the program fills the other.
    let errors = tempfile::tempfile().map_err(file_error(&std::env::temp_dir()))?;
    let pipe = errors.try_clone().map_err(file_error(&std::env::temp_dir()))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(pipe);
    Ok((command.spawn().map_err(failed)?, errors))
}

/// Waits for a program's end and reads its standard error.
fn finish(
    mut child: Child,
    errors: &mut File,
    stdout: io::Result<String>,
    program: &'static str,
) -> Result<Finished, AptError> {
    let status = child.wait().map_err(file_error(Path::new(program)))?;
    let stderr = stderr_end(errors).map_err(file_error(&std::env::temp_dir()))?;
    Ok(Finished { status, stdout: stdout.map_err(file_error(Path::new(program)))?, stderr })
}

/// The end of a program's standard error, its lines joined by `; `.
fn stderr_end(errors: &mut File) -> io::Result<String> {
    let start = errors.metadata()?.len().saturating_sub(STDERR_BYTES_MAX);
    errors.seek(io::SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    errors.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(if lines.is_empty() { "no error message".to_owned() } else { lines.join("; ") })
}

/// Parses `dlstatus:1:45.6:Retrieving file 1 of 1` (apt: `README.progress-reporting`).
fn parse_progress(line: &str) -> Option<Percent> {
    let mut parts = line.strip_prefix("dlstatus:")?.splitn(3, ':');
    let percent: f64 = parts.nth(1)?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(Percent(percent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn a_package_s_description_is_parsed() {
        let text = "Package: linux-image-amd64\nVersion: 6.1.192-2\nSize: 1480\n\
            Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\n";
        let kernel = parse_offer("linux-image-amd64", text).unwrap();
        assert_eq!(kernel.package.to_string(), "linux-image-amd64 6.1.192-2");
        assert_eq!(kernel.bytes, 1480);
        assert_eq!(kernel.depends[0].to_string(), "linux-image-6.1.0-56-amd64 6.1.192-2");
        for field in ["Package", "Version", "Size"] {
            let cut = text.replace(field, "X");
            assert!(matches!(parse_offer("x", &cut), Err(AptError::NoField { field: f, .. }) if f == field));
        }
    }

    #[test]
    fn apt_s_progress_lines_are_parsed() {
        assert_eq!(parse_progress("dlstatus:1:45.5000:Retrieving file 1 of 1"), Some(Percent(45.5)));
        assert_eq!(parse_progress("pmstatus:1:45.5:x"), None);
        assert_eq!(parse_progress("dlstatus:1:nan:x"), None);
        assert_eq!(parse_progress("dlstatus:1"), None);
    }

    #[test]
    fn only_ppc_goes_without_the_security_archive() {
        let mirror = Mirror::debian_org().with_archive("file:/srv/debian").unwrap();
        let text = sources(Arch::Arm, &mirror, "/k.gpg");
        assert_eq!(
            text,
            "deb [signed-by=/k.gpg] file:/srv/debian bookworm main\n\
             deb [signed-by=/k.gpg] http://deb.debian.org/debian-security bookworm-security main\n"
        );
        assert_eq!(sources(Arch::Ppc, &mirror, "/k.gpg").lines().count(), 1);
    }

    #[test]
    fn folders_that_apt_s_configuration_can_not_quote_are_refused() {
        assert!(configuration(Arch::X86, Path::new("/a b/c")).unwrap().contains("\"/a b/c/state\""));
        for bad in ["/a\"; Evil \"b", "/a\nb", "/a\\b"] {
            assert!(matches!(configuration(Arch::X86, Path::new(bad)), Err(AptError::PathUnsuitable(_))));
        }
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo ' E: no such thing' >&2; echo again >&2; exit 3"]);
        let finished = run(command, "sh").unwrap();
        assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(3), "out\n"));
        let error = finished.check("trying").unwrap_err().to_string();
        assert_eq!(error, "trying: exit status: 3: E: no such thing; again");
    }

    #[test]
    fn a_program_that_is_not_installed_is_named() {
        let error = run(Command::new("/nowhere/apt-get"), "apt-get").err().unwrap();
        assert!(error.to_string().starts_with("`apt-get` can't be started"), "{error}");
    }
}
