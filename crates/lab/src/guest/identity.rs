//! What identifies a program that runs in guests.

use object::{Object, ObjectSection};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use toll::GuestProgram;

/// The section in which compilers write their names and versions.
const COMPILERS: &str = ".comment";

/// What identifies a program, from its file.
///
/// # Errors
/// If the file is not an object file.
pub(super) fn identify(name: &str, file: &[u8], flags: Vec<String>) -> Result<GuestProgram, object::Error> {
    let object = object::File::parse(file)?;
    let section = object.section_by_name(COMPILERS).map(|section| section.data()).transpose()?;
    let names = section.unwrap_or_default().split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let names: Vec<_> = names.map(String::from_utf8_lossy).collect();
    let sha256 = Sha256::digest(file).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    Ok(GuestProgram { name: name.to_owned(), sha256, compiler: names.join(", "), flags })
}
