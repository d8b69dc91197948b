//! The shared libraries of a program of this machine, which a guest needs to run it too.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why they are not known.
#[derive(Debug, thiserror::Error)]
pub enum LibrariesError {
    /// The program that tells does not start.
    #[error("ldd does not start")]
    Start(#[from] io::Error),
    /// It refuses the program.
    #[error("ldd {}: {said}", program.display())]
    Refused {
        /// The program.
        program: PathBuf,
        /// What it said.
        said: String,
    },
    /// A library is not here.
    #[error("{} wants {library}, which is not here", program.display())]
    Missing {
        /// The program.
        program: PathBuf,
        /// The library's name.
        library: String,
    },
}

/// The libraries that a program is linked with and their loader, each with its path here, which is the one in the guest too.
///
/// # Errors
/// [`LibrariesError`], if `ldd` does not tell.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>, LibrariesError> {
    let output = Command::new("ldd").arg(program).stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if !output.status.success() {
        let said = format!("{} {}", text(&output.stdout), text(&output.stderr)).trim().to_owned();
        return Err(LibrariesError::Refused { program: program.to_owned(), said });
    }
    read(&text(&output.stdout)).map_err(|library| LibrariesError::Missing {
        program: program.to_owned(),
        library: library.to_owned(),
    })
}

/// Paths of a list as `ldd` prints it; the error is a library that was not found.
fn read(list: &str) -> Result<Vec<PathBuf>, &str> {
    if let Some((library, _)) = list.lines().find_map(|line| line.split_once("=> not found")) {
        return Err(library.trim());
    }
    let paths = list.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn a_list_is_read() {
        let list = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f01)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(read(list).unwrap(), expected.map(PathBuf::from));
        assert_eq!(read("\tlibm.so.6 => not found\n"), Err("libm.so.6"));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let error =
            libraries(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()).unwrap_err();
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }
}
