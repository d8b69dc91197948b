//! apt with a configuration, state and cache of its own.
//!
//! The system's configuration, sources, pins and package state are neither read nor changed; what is
//! kept of the system is its trust: the keyring of the Debian archive. apt verifies the archive's
//! signature, and by it the checksum of every package.

use super::{Mirror, Package, control::Paragraph};
use crate::Arch;
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// Where the package debian-archive-keyring puts the keys, in its newer and older form.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg"];

/// Bytes kept of what a program complains about.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// What keeps packages from being fetched.
#[derive(Debug, thiserror::Error)]
pub enum AptError {
    /// Nothing to verify the archive with.
    #[error(
        "the keys of the Debian archive are not on this host (looked for {}); \
         install the package debian-archive-keyring",
        KEYRINGS.join(", ")
    )]
    NoKeyring,
    /// A host without Debian's tools.
    #[error(
        "`{program}` can't be started; install {package}, or give your own kernel with --kernel and --modules"
    )]
    NoProgram {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The program ran and failed.
    #[error("{doing}: {status}: {complaint}")]
    Failed {
        /// What was being done.
        doing: String,
        /// How the program ended.
        status: ExitStatus,
        /// What it said last.
        complaint: String,
    },
    /// The archive has no such package.
    #[error("the archive has no package {name} for {arch}")]
    NoPackage {
        /// The package.
        name: String,
        /// The architecture.
        arch: Arch,
    },
    /// A description of a package that lacks what all have.
    #[error("apt's description of {name} has no usable field {field}")]
    NoField {
        /// The package.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// The download ended well, and yet the file is not there.
    #[error("apt downloaded {package}, but {folder} holds {found} files; expected one")]
    NotOneFile {
        /// The package.
        package: Package,
        /// Where it should be.
        folder: PathBuf,
        /// What is there.
        found: usize,
    },
    /// A path that can't be said in apt's configuration.
    #[error(
        "{0} can't be written in apt's configuration; set IOTOLL_CACHE to a path without quotes and line ends"
    )]
    PathUnsuitable(PathBuf),
    /// A file of apt's that can't be written or read.
    #[error("{path}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Percent of something that are done, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Percent(pub(super) f64);

/// What the archive says of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// Its name and newest version.
    pub(super) package: Package,
    /// Bytes to download.
    pub(super) bytes: u64,
    /// Packages that it needs in exactly one version.
    pub(super) depends: Vec<Package>,
}

/// apt for the packages of one architecture.
#[derive(Debug)]
pub(super) struct Apt {
    arch: Arch,
    config: PathBuf,
}

impl Apt {
    /// Writes the configuration into `folder`.
    pub(super) fn set_up(folder: &Path, arch: Arch, mirror: &Mirror) -> Result<Self, AptError> {
        let keyring = KEYRINGS.into_iter().find(|path| Path::new(path).exists());
        let sources = sources(arch, mirror, keyring.ok_or(AptError::NoKeyring)?);
        for below in ["state/lists/partial", "cache/archives/partial"] {
            let path = folder.join(below);
            fs::create_dir_all(&path).map_err(on(&path))?;
        }
        write(&folder.join("status"), "")?;
        write(&folder.join("sources.list"), &sources)?;
        let path = folder.join("apt.conf");
        write(&path, &configuration(arch, folder)?)?;
        Ok(Self { arch, config: path })
    }

    /// Brings the indexes up to date.
    pub(super) fn refresh(&self, heard: &mut dyn FnMut(Percent)) -> Result<(), AptError> {
        let mut command = self.command("apt-get");
        command.args(["-qq", "-o", "APT::Status-Fd=1", "update"]);
        let doing = format!("reading the package lists for {}", self.arch);
        follow(command, "apt-get", heard)?.check(&doing)?;
        Ok(())
    }

    /// What the archive says of a package: `name`, for the newest, or `name=version`.
    pub(super) fn offer(&self, name: &str) -> Result<Offer, AptError> {
        let mut command = self.command("apt-cache");
        command.args(["show", "--no-all-versions", name]);
        let ran = run(command, "apt-cache")?;
        if !ran.status.success() && ran.complaint.contains("No packages found") {
            return Err(AptError::NoPackage { name: name.to_owned(), arch: self.arch });
        }
        offer(name, &ran.check(&format!("looking up {name}"))?)
    }

    /// Downloads a package into an empty folder.
    pub(super) fn download(
        &self,
        package: &Package,
        folder: &Path,
        heard: &mut dyn FnMut(Percent),
    ) -> Result<PathBuf, AptError> {
        let mut command = self.command("apt-get");
        command.args(["-qq", "-o", "APT::Status-Fd=1", "download"]).current_dir(folder);
        command.arg(package.apt_word());
        follow(command, "apt-get", heard)?.check(&format!("downloading {package}"))?;
        let files: io::Result<Vec<_>> = fs::read_dir(folder).and_then(Iterator::collect);
        match files.map_err(on(folder))?.as_slice() {
            [file] => Ok(file.path()),
            files => Err(AptError::NotOneFile {
                package: package.clone(),
                folder: folder.to_owned(),
                found: files.len(),
            }),
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // Its messages are read here, so they must not be translated.
        command.env("APT_CONFIG", &self.config).env("LC_ALL", "C");
        command
    }
}

/// Unpacks a package into a folder.
pub(super) fn unpack(file: &Path, folder: &Path) -> Result<(), AptError> {
    let mut command = Command::new("dpkg-deb");
    command.arg("--extract").args([file, folder]).env("LC_ALL", "C");
    run(command, "dpkg-deb")?.check(&format!("unpacking {}", file.display()))?;
    Ok(())
}

/// The configuration (manual page apt.conf(5)). It is read before the system's, so what would be read
/// after it is turned away by name.
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
// Without these two, what is kept between fetches is 120 MB for each architecture and not 20.
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

/// The sources (manual page sources.list(5)).
fn sources(arch: Arch, mirror: &Mirror, keyring: &str) -> String {
    let line = |address: &str, suite: &str| format!("deb [signed-by={keyring}] {address} {suite} main\n");
    let release = line(mirror.archive(), "bookworm");
    match arch {
        Arch::X86 | Arch::Arm => release + &line(mirror.security(), "bookworm-security"),
        // In November 2026 the security archive's index for ppc64el did not match the checksums in its
        // Release file, and one source that can't be verified fails them all.
        Arch::Ppc => release,
    }
}

fn offer(name: &str, described: &str) -> Result<Offer, AptError> {
    let paragraph = Paragraph::first(described);
    let missing = |field| AptError::NoField { name: name.to_owned(), field };
    let field = |field| paragraph.field(field).ok_or_else(|| missing(field));
    let package = Package { name: field("Package")?.to_owned(), version: field("Version")?.to_owned() };
    let bytes = field("Size")?.parse().map_err(|_| missing("Size"))?;
    let depends = paragraph.depends_exactly();
    let depends = depends.map(|on| Package { name: on.name.to_owned(), version: on.version.to_owned() });
    Ok(Offer { package, bytes, depends: depends.collect() })
}

fn on(path: &Path) -> impl FnOnce(io::Error) -> AptError {
    move |source| AptError::File { path: path.to_owned(), source }
}

fn write(path: &Path, text: &str) -> Result<(), AptError> {
    fs::write(path, text).map_err(on(path))
}

/// How a program ended, and what it wrote.
struct Ran {
    status: ExitStatus,
    output: String,
    complaint: String,
}

impl Ran {
    fn check(self, doing: &str) -> Result<String, AptError> {
        match self.status.success() {
            true => Ok(self.output),
            false => Err(AptError::Failed {
                doing: doing.to_owned(),
                status: self.status,
                complaint: self.complaint,
            }),
        }
    }
}

/// Runs a program to its end.
fn run(command: Command, program: &'static str) -> Result<Ran, AptError> {
    let (mut child, mut errors) = start(command, program)?;
    let mut output = String::new();
    let read = child.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut output));
    end(child, &mut errors, read.map(|_| output), program)
}

/// Runs apt to its end, and passes on how far it is.
fn follow(command: Command, program: &'static str, heard: &mut dyn FnMut(Percent)) -> Result<Ran, AptError> {
    let (mut child, mut errors) = start(command, program)?;
    let lines = child.stdout.take().map(|pipe| BufReader::new(pipe).split(b'\n'));
    let read = lines.into_iter().flatten().try_for_each(|line| {
        progress_line(&String::from_utf8_lossy(&line?)).into_iter().for_each(&mut *heard);
        Ok(())
    });
    end(child, &mut errors, read.map(|()| String::new()), program)
}

fn start(mut command: Command, program: &'static str) -> Result<(Child, File), AptError> {
    let package = if program == "dpkg-deb" { "dpkg" } else { "apt" };
    let failed = |source| AptError::NoProgram { program, package, source };
    // A file, because two pipes can't be read by turns.
    let errors = tempfile::tempfile().map_err(on(&std::env::temp_dir()))?;
    let pipe = errors.try_clone().map_err(on(&std::env::temp_dir()))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(pipe);
    Ok((command.spawn().map_err(failed)?, errors))
}

fn end(
    mut child: Child,
    errors: &mut File,
    output: io::Result<String>,
    program: &'static str,
) -> Result<Ran, AptError> {
    let status = child.wait().map_err(on(Path::new(program)))?;
    let complaint = complaint(errors).map_err(on(&std::env::temp_dir()))?;
    Ok(Ran { status, output: output.map_err(on(Path::new(program)))?, complaint })
}

/// What a program complained about last, in one line.
fn complaint(errors: &mut File) -> io::Result<String> {
    let start = errors.metadata()?.len().saturating_sub(COMPLAINT_BYTES_MAX);
    errors.seek(io::SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    errors.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(if lines.is_empty() { "it said nothing".to_owned() } else { lines.join("; ") })
}

/// Reads `dlstatus:1:45.6:Retrieving file 1 of 1` (apt: `README.progress-reporting`).
fn progress_line(line: &str) -> Option<Percent> {
    let mut parts = line.strip_prefix("dlstatus:")?.splitn(3, ':');
    let percent: f64 = parts.nth(1)?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(Percent(percent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn offers() {
        let text = "Package: linux-image-amd64\nVersion: 6.1.192-2\nSize: 1480\n\
            Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\n";
        let kernel = offer("linux-image-amd64", text).unwrap();
        assert_eq!(kernel.package.to_string(), "linux-image-amd64 6.1.192-2");
        assert_eq!(kernel.bytes, 1480);
        assert_eq!(kernel.depends[0].to_string(), "linux-image-6.1.0-56-amd64 6.1.192-2");
        for field in ["Package", "Version", "Size"] {
            let cut = text.replace(field, "X");
            assert!(matches!(offer("x", &cut), Err(AptError::NoField { field: f, .. }) if f == field));
        }
    }

    #[test]
    fn lines_of_progress() {
        assert_eq!(progress_line("dlstatus:1:45.5000:Retrieving file 1 of 1"), Some(Percent(45.5)));
        assert_eq!(progress_line("pmstatus:1:45.5:x"), None);
        assert_eq!(progress_line("dlstatus:1:nan:x"), None);
        assert_eq!(progress_line("dlstatus:1"), None);
    }

    #[test]
    fn sources_of_each_architecture() {
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
    fn folders_that_would_break_the_configuration() {
        assert!(configuration(Arch::X86, Path::new("/a b/c")).unwrap().contains("\"/a b/c/state\""));
        for bad in ["/a\"; Evil \"b", "/a\nb", "/a\\b"] {
            assert!(matches!(configuration(Arch::X86, Path::new(bad)), Err(AptError::PathUnsuitable(_))));
        }
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo ' E: no such thing' >&2; echo again >&2; exit 3"]);
        let ran = run(command, "sh").unwrap();
        assert_eq!((ran.status.code(), ran.output.as_str()), (Some(3), "out\n"));
        let error = ran.check("trying").unwrap_err().to_string();
        assert_eq!(error, "trying: exit status: 3: E: no such thing; again");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(Command::new("/nowhere/apt-get"), "apt-get").err().unwrap();
        assert!(error.to_string().starts_with("`apt-get` can't be started"), "{error}");
    }
}
