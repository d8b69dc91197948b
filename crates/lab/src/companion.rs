//! Where the files are that belong to the program that runs the lab: the QEMU plugin and the guest's program.
//!
//! Cargo builds them beside it. Packages install the program in `bin`, which holds no libraries, and these in
//! `lib/iotoll` beside that.

use std::path::{Path, PathBuf};

/// The folder of packages, from the program's own.
const PACKAGED: &str = "../lib/iotoll";

/// The folders to look in, best first: that of the running program, and that of packages. Links to the program are
/// followed.
pub(crate) fn folders() -> [PathBuf; 2] {
    folders_of(&std::env::current_exe().unwrap_or_default())
}

fn folders_of(program: &Path) -> [PathBuf; 2] {
    let beside = program.parent().unwrap_or(Path::new("")).to_owned();
    let packaged = beside.join(PACKAGED);
    [beside, packaged]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_them_in_lib() {
        let [beside, packaged] = folders_of(Path::new("/usr/bin/iotoll"));
        assert_eq!((beside, packaged), ("/usr/bin".into(), "/usr/bin/../lib/iotoll".into()));
    }
}
