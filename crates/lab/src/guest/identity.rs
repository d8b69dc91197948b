//! What identifies a program that runs in guests.

use object::{Object, ObjectSection};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use toll::GuestProgram;

/// The section in which compilers and linkers write their names and versions.
const COMPILERS: &str = ".comment";

/// The section in which a program tells the flags with which it was compiled.
const FLAGS: &str = ".compiler_flags";

/// What identifies a program, from its file. Its flags are those `given`, and those that it tells itself.
///
/// # Errors
/// If the file is not an object file.
pub(super) fn identify(name: &str, file: &[u8], given: &[String]) -> Result<GuestProgram, object::Error> {
    let object = object::File::parse(file)?;
    let compilers = words(&object, COMPILERS)?;
    let flags = given.iter().cloned().chain(words(&object, FLAGS)?).collect();
    let sha256 = Sha256::digest(file).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    Ok(GuestProgram { name: name.to_owned(), sha256, compiler: compilers.join(", "), flags })
}

/// The texts in a section, each with a zero behind it. None if there is no such section.
fn words(object: &object::File<'_>, section: &str) -> Result<Vec<String>, object::Error> {
    let section = object.section_by_name(section).map(|section| section.data()).transpose()?;
    let words = section.unwrap_or_default().split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Ok(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}
