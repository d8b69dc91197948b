//! The programs that a run needs on the host: QEMU, and a C compiler for the guest's architecture.

use crate::Arch;
use crate::guest::agent;
use crate::qemu;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

/// Programs that are not installed, all at once, so that one command installs them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not installed: {}; on Debian: apt install {}", programs.join(", "), packages.join(" "))]
pub struct NotInstalled {
    /// The programs.
    pub programs: Vec<String>,
    /// Debian's packages with them.
    pub packages: Vec<&'static str>,
}

/// Checks that everything that a run needs is installed.
///
/// # Errors
/// [`NotInstalled`] with all that is missing.
pub fn check(arch: Arch) -> Result<(), NotInstalled> {
    let (mut programs, mut packages) = (Vec::new(), Vec::new());
    if !is_installed(arch.qemu()) {
        programs.push(arch.qemu().to_owned());
        packages.push(qemu::package(arch));
    }
    let compilers = agent::compilers(arch);
    if !compilers.iter().any(|compiler| is_installed(compiler)) {
        programs.push(compilers.join(" or "));
        packages.push(agent::compiler_package(arch));
    }
    if programs.is_empty() { Ok(()) } else { Err(NotInstalled { programs, packages }) }
}

/// Whether a program can be started.
fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    !command.status().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_exist_is_not_installed() {
        assert!(!is_installed("iotoll-no-such-program"));
    }

    #[test]
    fn all_that_is_missing_is_named_with_one_command() {
        let missing = NotInstalled {
            programs: vec!["qemu-system-ppc64".to_owned(), "powerpc64le-linux-gnu-gcc".to_owned()],
            packages: vec![qemu::package(Arch::Ppc), agent::compiler_package(Arch::Ppc)],
        };
        assert_eq!(
            missing.to_string(),
            "not installed: qemu-system-ppc64, powerpc64le-linux-gnu-gcc; on Debian: apt install qemu-system-ppc \
             gcc-powerpc64le-linux-gnu"
        );
    }
}
