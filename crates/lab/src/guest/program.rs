//! The program in the guest that drives an adapter by itself: `lab-guest`, which is built beside this one.
//!
//! Unlike the agent it is linked with our own libraries, whose instructions are what is counted: those of the release
//! that whoever measures has built.

use super::agent::{self, AgentError};
use super::libraries::{LibrariesError, libraries};
use crate::Arch;
use object::{Object, ObjectKind, ObjectSymbol, SymbolKind};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Its name.
pub const NAME: &str = "lab-guest";
/// Where it is in the guest.
pub const PLACE: &str = "/lab/lab-guest";

/// A function of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFunction {
    /// Its name.
    pub name: String,
    /// Where it is when the program runs.
    pub addresses: Range<u64>,
}

/// Why a guest can't have it.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not there.
    #[error("no program for guests at {}; build it with: cargo build --release -p {NAME}", .0.display())]
    Absent(PathBuf),
    /// It is built for this machine, and the guest is another.
    #[error("{NAME} is built for this machine, and does not run in a guest of {0}")]
    Arch(Arch),
    /// It can't be read.
    #[error("can't read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no program.
    #[error("{}", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: object::Error,
    },
    /// Nobody knows where its functions will be.
    #[error("{}: expected a program that is linked for a fixed address", .0.display())]
    Movable(PathBuf),
    /// Its marks are not where they are looked for.
    #[error(transparent)]
    Marks(AgentError),
    /// Its libraries are not known.
    #[error(transparent)]
    Libraries(#[from] LibrariesError),
}

/// The program, with all that it needs in a guest.
#[derive(Debug, Clone)]
pub struct Program {
    /// Contents by path in the guest: the program's own, and its libraries'.
    pub files: Vec<(String, Vec<u8>)>,
    /// Its functions, in the order of their addresses.
    pub functions: Vec<ProgramFunction>,
}

impl Program {
    /// The one beside this program, where cargo and packages put it.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn find(arch: Arch) -> Result<Self, ProgramError> {
        if !arch.is_host() {
            return Err(ProgramError::Arch(arch));
        }
        let beside = std::env::current_exe().unwrap_or_default().with_file_name(NAME);
        if beside.is_file() { Self::read(&beside) } else { Err(ProgramError::Absent(beside)) }
    }

    fn read(path: &Path) -> Result<Self, ProgramError> {
        let own = contents(path)?;
        let functions = functions(path, &own)?;
        agent::check_marks(path).map_err(ProgramError::Marks)?;
        let mut files = vec![(PLACE.to_owned(), own)];
        for library in libraries(path)? {
            files.push((library.display().to_string(), contents(&library)?));
        }
        Ok(Self { files, functions })
    }
}

fn contents(path: &Path) -> Result<Vec<u8>, ProgramError> {
    fs::read(path).map_err(|source| ProgramError::Read { path: path.to_owned(), source })
}

fn functions(path: &Path, bytes: &[u8]) -> Result<Vec<ProgramFunction>, ProgramError> {
    let object = object::File::parse(bytes)
        .map_err(|source| ProgramError::Object { path: path.to_owned(), source })?;
    if object.kind() != ObjectKind::Executable {
        return Err(ProgramError::Movable(path.to_owned()));
    }
    let is_function = |symbol: &object::Symbol<'_, '_>| {
        symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0
    };
    let mut functions: Vec<ProgramFunction> =
        object.symbols().filter(is_function).filter_map(|symbol| function(&symbol)).collect();
    functions.sort_by(|a, b| (a.addresses.start, &a.name).cmp(&(b.addresses.start, &b.name)));
    // Of several names of one place, the first.
    functions.dedup_by_key(|function| function.addresses.start);
    Ok(functions)
}

/// Its name as its source has it: without the hash that tells instances apart.
fn function(symbol: &object::Symbol<'_, '_>) -> Option<ProgramFunction> {
    let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
    Some(ProgramFunction { name, addresses: symbol.address()..symbol.address().checked_add(symbol.size())? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn what_can_be_put_anywhere_is_refused() {
        let this = std::env::current_exe().unwrap();
        let refused = Program::read(&this).unwrap_err();
        assert!(matches!(refused, ProgramError::Movable(_)), "{refused}");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let refused = Program::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap_err();
        assert!(matches!(refused, ProgramError::Object { .. }), "{refused}");
    }

    #[test]
    fn a_guest_of_another_architecture_has_none() {
        let other = Arch::ALL.into_iter().find(|arch| !arch.is_host()).unwrap();
        assert!(matches!(Program::find(other), Err(ProgramError::Arch(_))));
    }
}
