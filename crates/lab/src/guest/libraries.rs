//! Finds the shared libraries of a host program, which a guest needs to run the program.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a program's libraries could not be found.
#[derive(Debug, thiserror::Error)]
pub enum LibrariesError {
    /// `ldd` could not be started.
    #[error("can't start ldd")]
    Start(#[from] io::Error),
    /// `ldd` reported an error.
    #[error("ldd {}: {output}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// The output of `ldd`.
        output: String,
    },
    /// A library is not installed on this host.
    #[error("{} needs the library {library}, which is not installed", program.display())]
    Missing {
        /// The program.
        program: PathBuf,
        /// The library's name.
        library: String,
    },
}

/// Paths of the libraries that a program is linked with, and of their loader. The guest has them at the same paths.
///
/// # Errors
/// [`LibrariesError`] if `ldd` fails or a library is missing.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>, LibrariesError> {
    let output = Command::new("ldd").arg(program).stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if !output.status.success() {
        let output = format!("{} {}", text(&output.stdout), text(&output.stderr)).trim().to_owned();
        return Err(LibrariesError::Failed { program: program.to_owned(), output });
    }
    parse_list(&text(&output.stdout)).map_err(|library| LibrariesError::Missing {
        program: program.to_owned(),
        library: library.to_owned(),
    })
}

/// Parses the output of `ldd` into paths. The error is the name of a library that was not found.
fn parse_list(list: &str) -> Result<Vec<PathBuf>, &str> {
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
    fn the_paths_in_the_output_of_ldd_are_found() {
        let list = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f01)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f02)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(parse_list(list).unwrap(), expected.map(PathBuf::from));
        assert_eq!(parse_list("\tlibm.so.6 => not found\n"), Err("libm.so.6"));
    }

    #[test]
    fn a_file_that_is_not_a_program_is_an_error() {
        let error =
            libraries(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()).unwrap_err();
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }
}
