//! The agent: the program that runs workloads in the guest and calls a mark function before and after each I/O.
//!
//! It is C without a C library (`agent/` beside this crate's sources), so that one static binary of a few pages
//! serves every kernel. It is compiled for each run, so that no binary has to be shipped.
//!
//! ```text
//! agent arm [SYMBOL]                               begin recording; SYMBOL is the function that yields the CPU by a hypercall
//! agent disarm                                     end recording
//! agent read|write PHASE DEV SIZE WINDOWS [CPU]    synchronous direct I/O
//! agent uring PHASE DEV SIZE WINDOWS DEPTH plain|registered|polled|passthru read|write|scattered
//! agent passthru PHASE DEV SIZE WINDOWS            synchronous reads by the NVMe driver's ioctl
//! agent many PHASE DEV SIZE WINDOWS CPUS           synchronous direct reads on CPUs 0 to CPUS-1 at once
//! agent udp|tcp PHASE IF_A IF_B SIZE WINDOWS       traffic between two interfaces on one wire
//! agent loop PHASE N WINDOWS                       windows of exactly 2 N + 3 instructions
//! agent symbols DEV                                write the kernel's function symbols to a block device
//! agent scheduler DEV NAME                         set the I/O scheduler of /sys/block/DEV
//! agent bind DRIVER ADDRESS                        bind a PCI device to its driver
//! agent online CPU                                 bring a CPU of /sys/devices/system/cpu online
//! ```
//!
//! A word `+N` in front makes the workload run N more windows before the first that is measured.
//!
//! Exit status 0: it printed `done NAME n=COUNT`. Status 3: it printed `absent NAME ERRNO`, because the kernel lacks
//! what the workload needs. Status 1: it printed an error to standard error.

use super::identity;
use crate::Arch;
use object::{Object, ObjectSection};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use toll::GuestProgram;

/// Address of the table of mark functions in the program; mark i is 16 i bytes behind it.
pub const MARKS_ADDRESS: u64 = 0x7000_0000;
/// Address of the rest of the program: 64 KiB, the largest page of the three architectures, above the marks.
const PROGRAM_ADDRESS: u64 = 0x7001_0000;

/// C sources embedded at build time, by their paths in the folder where they are compiled.
macro_rules! sources {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../../agent/", $path)))),*] };
}

const SOURCES: &[(&str, &str)] = sources![
    "arch.h",
    "arch/arm.h",
    "arch/ppc.h",
    "arch/x86.h",
    "argument.c",
    "argument.h",
    "bind.c",
    "block.c",
    "commands.h",
    "disk.c",
    "disk.h",
    "inet.c",
    "inet.h",
    "kallsyms.c",
    "kallsyms.h",
    "link.c",
    "link.h",
    "loop.c",
    "main.c",
    "many.c",
    "mark.c",
    "mark.h",
    "memory.c",
    "memory.h",
    "number.h",
    "nvme.c",
    "nvme.h",
    "online.c",
    "pages.c",
    "pages.h",
    "pair.c",
    "pair.h",
    "passthru.c",
    "processor.c",
    "processor.h",
    "recording.c",
    "report.c",
    "report.h",
    "scheduler.c",
    "setting.c",
    "setting.h",
    "settle.c",
    "settle.h",
    "symbols.c",
    "system.h",
    "tcp.c",
    "udp.c",
    "uring.c",
    "warm_up.c",
    "warm_up.h",
];

/// Why the agent could not be built.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No compiler for the architecture.
    #[error("no C compiler for {arch} ({tried} not found); install Debian's package {package}")]
    NoCompiler {
        /// The guest's architecture.
        arch: Arch,
        /// The programs looked for.
        tried: String,
        /// The package to install.
        package: &'static str,
    },
    /// The compiler exists but could not be started.
    #[error("can't start {program}")]
    Start {
        /// The compiler.
        program: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The compiler reported errors.
    #[error("{program} failed ({status}):\n{stderr}")]
    Compile {
        /// The compiler.
        program: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// Its standard error.
        stderr: String,
    },
    /// A file could not be written or read.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The compiler's output is not an object file.
    #[error("{}", path.display())]
    Object {
        /// The program.
        path: PathBuf,
        /// What is wrong with it.
        source: object::Error,
    },
    /// The linker did not place the marks at [`MARKS_ADDRESS`].
    #[error("{}: section .marks is {}; expected it at {MARKS_ADDRESS:#x}", path.display(), describe_address(*.found))]
    Marks {
        /// The program.
        path: PathBuf,
        /// Where the section is, if there is one.
        found: Option<u64>,
    },
}

/// `at 0x...`, or `missing`.
fn describe_address(found: Option<u64>) -> String {
    found.map_or_else(|| "missing".to_owned(), |address| format!("at {address:#x}"))
}

/// Compiles the agent for an architecture; returns its file, and what identifies it.
///
/// # Errors
/// [`AgentError`]: no compiler, a compiler error, or marks at an unexpected address.
pub fn compiled(arch: Arch) -> Result<(Vec<u8>, GuestProgram), AgentError> {
    let folder =
        tempfile::tempdir().map_err(|source| AgentError::File { path: std::env::temp_dir(), source })?;
    let path = build(arch, folder.path())?;
    let file = fs::read(&path).map_err(|source| AgentError::File { path: path.clone(), source })?;
    let identity = identity::identify("agent", &file, &compiler_flags(arch));
    Ok((file, identity.map_err(|source| AgentError::Object { path, source })?))
}

/// Compiles the agent into `folder` and returns the program's path.
fn build(arch: Arch, folder: &Path) -> Result<PathBuf, AgentError> {
    let program = folder.join(format!("agent-{arch}"));
    compile(arch, &program, &[])?;
    check_marks(&program)?;
    Ok(program)
}

/// Compiles the embedded sources to `program`; `warnings` are further flags for the compiler.
fn compile(arch: Arch, program: &Path, warnings: &[&str]) -> Result<(), AgentError> {
    let sources =
        tempfile::tempdir().map_err(|source| AgentError::File { path: std::env::temp_dir(), source })?;
    write_sources(sources.path())?;
    let program = std::path::absolute(program)
        .map_err(|source| AgentError::File { path: program.to_owned(), source })?;
    let (compiler, output) = run_compiler(arch, |compiler| {
        let mut command = Command::new(compiler);
        command.current_dir(sources.path()).args(compiler_flags(arch)).args(warnings);
        command.args(SOURCES.iter().map(|(path, _)| path).filter(|path| path.ends_with(".c")));
        command.arg("-o").arg(&program);
        command
    })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(AgentError::Compile { program: compiler.to_owned(), status: output.status, stderr })
}

fn write_sources(folder: &Path) -> Result<(), AgentError> {
    let file_error = |path: PathBuf| |source| AgentError::File { path, source };
    let arch = folder.join("arch");
    fs::create_dir(&arch).map_err(file_error(arch))?;
    for (path, text) in SOURCES {
        let path = folder.join(path);
        fs::write(&path, text).map_err(file_error(path))?;
    }
    Ok(())
}

/// The compiler's flags: a static program without a C library, with the marks at their fixed address.
fn compiler_flags(arch: Arch) -> Vec<String> {
    let common = "-std=gnu11 -O2 -I. -nostdlib -static -ffreestanding -fno-stack-protector -fno-pic -no-pie \
                  -fno-asynchronous-unwind-tables -Wl,--build-id=none -Wl,-z,noexecstack";
    let words = common.split_whitespace().chain(general_registers_only(arch).split_whitespace());
    let mut flags: Vec<String> = words.map(str::to_owned).collect();
    flags.push(format!("-Wl,--section-start=.marks={MARKS_ADDRESS:#x}"));
    flags.push(format!("-Wl,-Ttext-segment={PROGRAM_ADDRESS:#x}"));
    if arch == Arch::X86 {
        // Marks are called from inline assembly. The call writes its return address into the red zone, where a leaf
        // function may keep variables.
        flags.push("-mno-red-zone".to_owned());
    }
    flags
}

/// Flags that forbid vector and floating-point registers. The kernel saves and restores those of a program that has used
/// them at each context switch, and these instructions would count for every I/O.
fn general_registers_only(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 | Arch::Arm => "-mgeneral-regs-only",
        Arch::Ppc => "-msoft-float -mno-altivec -mno-vsx",
    }
}

/// Runs the command built for the first compiler that is installed. Returns the compiler's name and its output.
fn run_compiler(arch: Arch, command: impl Fn(&str) -> Command) -> Result<(String, Output), AgentError> {
    let compilers = compilers(arch);
    for compiler in &compilers {
        match command(compiler).output() {
            Ok(output) => return Ok((compiler.clone(), output)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(AgentError::Start { program: compiler.clone(), source }),
        }
    }
    Err(AgentError::NoCompiler { arch, tried: compilers.join(", "), package: compiler_package(arch) })
}

/// Names of the C compilers that can build for an architecture, the preferred one first.
pub(crate) fn compilers(arch: Arch) -> Vec<String> {
    let cross = format!("{}-gcc", arch.gnu());
    if arch.is_host() { vec![cross, "cc".to_owned()] } else { vec![cross] }
}

/// Debian's package with a C compiler for an architecture.
pub(crate) fn compiler_package(arch: Arch) -> &'static str {
    match arch {
        _ if arch.is_host() => "gcc",
        Arch::X86 => "gcc-x86-64-linux-gnu",
        Arch::Arm => "gcc-aarch64-linux-gnu",
        Arch::Ppc => "gcc-powerpc64le-linux-gnu",
    }
}

/// Checks that a program's marks are at [`MARKS_ADDRESS`], where the plugin expects them.
pub(super) fn check_marks(program: &Path) -> Result<(), AgentError> {
    let bytes = fs::read(program).map_err(|source| AgentError::File { path: program.to_owned(), source })?;
    let object = object::File::parse(&*bytes)
        .map_err(|source| AgentError::Object { path: program.to_owned(), source })?;
    match object.section_by_name(".marks").map(|section| section.address()) {
        Some(MARKS_ADDRESS) => Ok(()),
        found => Err(AgentError::Marks { path: program.to_owned(), found }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::skip::skip_part;
    use object::Architecture;
    use tempfile::TempDir;

    /// Architectures with an installed compiler; the host's own is always one of them.
    fn buildable() -> Vec<Arch> {
        let has_compiler = |arch: &Arch| {
            arch.is_host()
                || run_compiler(*arch, |compiler| {
                    let mut command = Command::new(compiler);
                    command.arg("--version");
                    command
                })
                .is_ok()
        };
        Arch::ALL.into_iter().filter(has_compiler).collect()
    }

    #[test]
    fn every_source_file_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("agent");
        let mut found = Vec::new();
        for sub in ["", "arch"] {
            for entry in fs::read_dir(folder.join(sub)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    found.push(path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        assert_eq!(found, SOURCES.iter().map(|(path, _)| (*path).to_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn the_marks_are_at_their_fixed_address_16_bytes_apart() {
        let folder = tempfile::tempdir().unwrap();
        for arch in buildable() {
            let bytes = fs::read(build(arch, folder.path()).unwrap()).unwrap();
            let object = object::File::parse(&*bytes).unwrap();
            let expected = match arch {
                Arch::X86 => Architecture::X86_64,
                Arch::Arm => Architecture::Aarch64,
                Arch::Ppc => Architecture::PowerPc64,
            };
            assert_eq!((object.architecture(), object.is_little_endian()), (expected, true));
            let marks = object.section_by_name(".marks").unwrap().data().unwrap().to_owned();
            assert_eq!(marks.len().div_ceil(16), 13, "{arch}");
            let body = if arch == Arch::X86 { 2 } else { 8 };
            for mark in marks.chunks(16) {
                assert_eq!(mark[..body], marks[..body], "{arch}");
            }
        }
    }

    #[test]
    fn the_sources_compile_without_warnings() {
        let folder = tempfile::tempdir().unwrap();
        for arch in buildable() {
            compile(arch, &folder.path().join("agent"), &["-Wall", "-Wextra", "-Werror"]).unwrap();
        }
    }

    /// Whether a word of a disassembled instruction's operands, as binutils writes them, is a vector or floating-point
    /// register.
    fn is_vector_register(arch: Arch, word: &str) -> bool {
        let prefixes: &[&str] = match arch {
            Arch::X86 => &["xmm", "ymm", "zmm", "mm", "st", "k"],
            Arch::Arm => &["v", "q", "d", "s", "h", "b", "z", "p"],
            Arch::Ppc => &["vs", "vr", "v", "fr", "f"],
        };
        // Arm's have a suffix for the lanes, as in v0.16b.
        let register = word.split('.').next().unwrap();
        let number = |prefix: &&str| register.strip_prefix(*prefix)?.parse::<u8>().ok();
        (arch == Arch::X86 && register == "st")
            || prefixes.iter().find_map(number).is_some_and(|number| number < 64)
    }

    /// Instructions of a program that name a vector or floating-point register, and the number of all instructions.
    fn vector_instructions(arch: Arch, program: &Path) -> (Vec<String>, usize) {
        let objdump = if arch.is_host() { "objdump".to_owned() } else { format!("{}-objdump", arch.gnu()) };
        let output = Command::new(objdump).args(["-d", "--no-show-raw-insn"]).arg(program).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let instructions: Vec<&str> =
            text.lines().filter_map(|line| line.split_once(":\t")).map(|it| it.1).collect();
        // Behind `<` and `#` are names of functions and comments.
        let operands = |line: &&&str| {
            let code = line.split(['<', '#']).next().unwrap();
            let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').skip(1);
            words.into_iter().any(|word| is_vector_register(arch, word))
        };
        (instructions.iter().filter(operands).map(|line| (*line).to_owned()).collect(), instructions.len())
    }

    #[test]
    fn the_program_uses_general_registers_only() {
        let folder = tempfile::tempdir().unwrap();
        let buildable = buildable();
        for arch in Arch::ALL.into_iter().filter(|arch| !buildable.contains(arch)) {
            skip_part(&format!("no compiler for {arch}"));
        }
        for arch in buildable {
            let (vector, all) = vector_instructions(arch, &build(arch, folder.path()).unwrap());
            assert!(vector.is_empty() && all > 1000, "{arch}: {vector:#?} of {all} instructions");
        }
    }

    #[test]
    fn a_vector_register_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        for arch in buildable() {
            let (source, object) = (folder.path().join("copy.c"), folder.path().join("copy.o"));
            fs::write(
                &source,
                "typedef int v __attribute__((vector_size(16)));\nv add(v a, v b) { return a + b; }\n",
            )
            .unwrap();
            let (_, output) = run_compiler(arch, |compiler| {
                let mut command = Command::new(compiler);
                command.args(["-O2", "-c", "-o"]).arg(&object).arg(&source);
                command
            })
            .unwrap();
            assert!(output.status.success());
            assert!(!vector_instructions(arch, &object).0.is_empty(), "{arch}");
        }
    }

    #[test]
    fn the_error_quotes_the_compiler() {
        let arch = buildable()[0];
        let folder = tempfile::tempdir().unwrap();
        let error = compile(arch, &folder.path().join("agent"), &["-include", "nowhere.h"]).unwrap_err();
        assert!(error.to_string().contains("nowhere.h: No such file"), "{error}");
    }

    #[test]
    fn a_program_without_marks_is_refused() {
        let this = std::env::current_exe().unwrap();
        let error = check_marks(&this).unwrap_err();
        assert!(
            error.to_string().ends_with("section .marks is missing; expected it at 0x70000000"),
            "{error}"
        );
    }

    /// The agent for this host, and a file for direct I/O. The file is beside the test program: many systems have
    /// their temporary folder on tmpfs, which may not support direct I/O.
    struct Native {
        folder: TempDir,
        program: PathBuf,
        disk: PathBuf,
    }

    impl Native {
        fn new() -> Option<Self> {
            let arch = Arch::ALL.into_iter().find(|arch| arch.is_host())?;
            let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
            let folder = tempfile::tempdir_in(beside).unwrap();
            let program = build(arch, folder.path()).unwrap();
            let disk = folder.path().join("disk");
            fs::write(&disk, vec![7; 4 << 20]).unwrap();
            Some(Self { folder, program, disk })
        }

        /// Standard output, standard error and exit status; `DISK` stands for the file.
        fn run(&self, arguments: &str) -> (String, String, Option<i32>) {
            let arguments = arguments.replace("DISK", "disk");
            let output = Command::new(&self.program)
                .args(arguments.split_whitespace())
                .current_dir(self.folder.path())
                .output()
                .unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (text(output.stdout), text(output.stderr), output.status.code())
        }

        fn check(&self, arguments: &str, stdout: &str, stderr: &str, status: i32) {
            let expected = (stdout.to_owned(), stderr.to_owned(), Some(status));
            assert_eq!(self.run(arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn workloads_also_run_on_the_host() {
        let Some(native) = Native::new() else { return };
        native.check("arm", "done arm n=1\n", "", 0);
        native.check("loop 1 1000 10", "done loop n=10\n", "", 0);
        native.check("read 2 DISK 4096 100", "done read n=100\n", "", 0);
        native.check("read 2 DISK 65536 10 0", "done read n=10\n", "", 0);
        native.check("many 3 DISK 4096 50 1", "done many n=50\n", "", 0);
        native.check("disarm", "done disarm n=1\n", "", 0);
    }

    #[test]
    fn writes_reach_the_file() {
        let Some(native) = Native::new() else { return };
        native.check("write 1 DISK 4096 10", "done write n=10\n", "", 0);
        let written = fs::read(&native.disk).unwrap();
        // 64 writes of warm-up and 10 that are measured, at consecutive offsets.
        assert!(written[..74 * 4096].iter().all(|byte| *byte == 0x5a));
        assert!(written[74 * 4096..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn io_uring_workloads_run_where_the_kernel_has_io_uring() {
        let Some(native) = Native::new() else { return };
        for how in ["plain read", "plain write", "plain scattered", "registered read", "registered write"] {
            let (stdout, stderr, status) = native.run(&format!("uring 1 DISK 4096 20 8 {how}"));
            let absent = status == Some(3) && stdout.starts_with("absent uring ");
            assert!(
                absent || (stdout == "done uring n=20\n" && status == Some(0)),
                "{how}: {stdout}{stderr}"
            );
        }
    }

    #[test]
    fn failures_name_the_failed_step() {
        let Some(native) = Native::new() else { return };
        native.check("", "", "agent: no command given: errno 22\n", 1);
        native.check("dance", "", "agent: no command dance: errno 22\n", 1);
        native.check("read 1 DISK 4096", "", "agent: number of words after read: returned 3\n", 1);
        native.check("read 1 nowhere 4096 1", "", "agent: open nowhere: errno 2\n", 1);
        native.check("read 1 DISK 4k 1", "", "agent: SIZE 4k: errno 22\n", 1);
        native.check(
            "read 1 DISK 8388608 1",
            "",
            "agent: size of DISK: returned 4194304\n".replace("DISK", "disk").as_str(),
            1,
        );
        let directions = "agent: read|write|scattered: erase: errno 22\n";
        native.check("uring 1 DISK 4096 1 1 plain erase", "", directions, 1);
        let preparations = "agent: plain|registered|polled|passthru: raw: errno 22\n";
        native.check("uring 1 DISK 4096 1 1 raw read", "", preparations, 1);
        let written = "agent: passthru only reads: write: errno 22\n";
        native.check("uring 1 DISK 4096 1 1 passthru write", "", written, 1);
        // 25 is ENOTTY: a regular file has no NVMe ioctl.
        native.check("passthru 1 DISK 4096 1", "", "agent: NVME_IOCTL_IO_CMD disk: errno 25\n", 1);
        native.check(
            "scheduler nothing none",
            "",
            "agent: none /sys/block/nothing/queue/scheduler: errno 2\n",
            1,
        );
    }
}
