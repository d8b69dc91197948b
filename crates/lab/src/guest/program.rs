//! Finds `lab-guest`, the program that drives an adapter from user space in the guest, and reads its symbols.
//!
//! Unlike the agent it is linked with this project's libraries, because their instructions are measured. Cargo builds
//! it beside the program that runs the lab.

use super::agent::{self, AgentError};
use super::identity;
use super::libraries::{LibrariesError, libraries};
use crate::Arch;
use crate::companion;
use object::{Object, ObjectKind, ObjectSymbol, SymbolKind};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toll::GuestProgram;

/// The program's file name.
pub const NAME: &str = "lab-guest";
/// The program's path in the guest.
pub const GUEST_PATH: &str = "/lab/lab-guest";

/// A function of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFunction {
    /// Its demangled name.
    pub name: String,
    /// Its addresses when the program runs.
    pub addresses: Range<u64>,
}

/// Why the program can't be put into a guest.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It has not been built.
    #[error("{} does not exist; install iotoll-lab, or build it with: cargo build --release -p {NAME}", .0.display())]
    Absent(PathBuf),
    /// It is built for the host's architecture, and the guest has another.
    #[error("{NAME} is built for this host and can't run in a guest of {0}")]
    Arch(Arch),
    /// A file can't be read.
    #[error("can't read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// It is not an object file.
    #[error("{}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: object::Error,
    },
    /// It is position independent, so the addresses of its functions are unknown before it runs.
    #[error("{} is position independent; expected a program that is linked for a fixed address", .0.display())]
    PositionIndependent(PathBuf),
    /// Its marks are not at their fixed address.
    #[error(transparent)]
    Marks(AgentError),
    /// Its libraries could not be found.
    #[error(transparent)]
    Libraries(#[from] LibrariesError),
}

/// The program with the files that it needs in a guest.
#[derive(Debug, Clone)]
pub struct Program {
    /// Paths in the guest and contents of the program and its libraries.
    pub files: Vec<(String, Vec<u8>)>,
    /// Its functions, sorted by address.
    pub functions: Vec<ProgramFunction>,
    /// What identifies it.
    pub identity: GuestProgram,
}

impl Program {
    /// Reads the `lab-guest` beside the running program, or where packages install it.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn find(arch: Arch) -> Result<Self, ProgramError> {
        if !arch.is_host() {
            return Err(ProgramError::Arch(arch));
        }
        let [beside, packaged] = companion::folders().map(|folder| folder.join(NAME));
        if beside.is_file() {
            Self::read(&beside)
        } else if packaged.is_file() {
            Self::read(&packaged)
        } else {
            Err(ProgramError::Absent(beside))
        }
    }

    /// Reads a program with its functions and libraries, and checks its marks.
    fn read(path: &Path) -> Result<Self, ProgramError> {
        let own = read_file(path)?;
        let functions = functions(path, &own)?;
        agent::check_marks(path).map_err(ProgramError::Marks)?;
        let identity = identity::identify(NAME, &own, &[])
            .map_err(|source| ProgramError::Object { path: path.to_owned(), source })?;
        let mut files = vec![(GUEST_PATH.to_owned(), own)];
        for library in libraries(path)? {
            files.push((library.display().to_string(), read_file(&library)?));
        }
        Ok(Self { files, functions, identity })
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, ProgramError> {
    fs::read(path).map_err(|source| ProgramError::Read { path: path.to_owned(), source })
}

/// The functions in a program's symbol table, sorted by address.
fn functions(path: &Path, bytes: &[u8]) -> Result<Vec<ProgramFunction>, ProgramError> {
    let object = object::File::parse(bytes)
        .map_err(|source| ProgramError::Object { path: path.to_owned(), source })?;
    if object.kind() != ObjectKind::Executable {
        return Err(ProgramError::PositionIndependent(path.to_owned()));
    }
    let is_function = |symbol: &object::Symbol<'_, '_>| {
        symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0
    };
    let mut functions: Vec<ProgramFunction> =
        object.symbols().filter(is_function).filter_map(|symbol| function(&symbol)).collect();
    functions.sort_by(|a, b| (a.addresses.start, &a.name).cmp(&(b.addresses.start, &b.name)));
    // Of several names for one address, the first in the alphabet is kept.
    functions.dedup_by_key(|function| function.addresses.start);
    Ok(functions)
}

/// A symbol's function, with the demangled name without the hash of the generic instance.
fn function(symbol: &object::Symbol<'_, '_>) -> Option<ProgramFunction> {
    let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
    Some(ProgramFunction { name, addresses: symbol.address()..symbol.address().checked_add(symbol.size())? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn a_position_independent_program_is_refused() {
        let this = std::env::current_exe().unwrap();
        let refused = Program::read(&this).unwrap_err();
        assert!(matches!(refused, ProgramError::PositionIndependent(_)), "{refused}");
    }

    #[test]
    fn a_file_that_is_not_a_program_is_refused() {
        let refused = Program::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap_err();
        assert!(matches!(refused, ProgramError::Object { .. }), "{refused}");
    }

    #[test]
    fn a_guest_of_another_architecture_can_not_run_it() {
        let other = Arch::ALL.into_iter().find(|arch| !arch.is_host()).unwrap();
        assert!(matches!(Program::find(other), Err(ProgramError::Arch(_))));
    }
}
