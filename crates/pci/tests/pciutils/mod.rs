//! The dumps with which pciutils tests lspci, and an lspci to print them.
//!
//! `PCIUTILS` names the folder of pciutils' sources; else it is where `fetch.sh` puts them. Its lspci is used, or the one that `LSPCI`
//! names, or the system's. The sources are under the GPL, so they are read where they are, and nothing of them is kept here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The sources of pciutils, and an lspci.
pub(crate) struct Pciutils {
    folder: PathBuf,
    program: PathBuf,
}

/// One of the dumps: what `lspci -xxx` printed on somebody's machine, mostly with `-vvv`.
pub(crate) struct Dump {
    /// The file's name.
    pub(crate) name: String,
    /// The file's text.
    #[allow(dead_code, reason = "not every test reads it")]
    pub(crate) text: String,
    path: PathBuf,
}

impl Pciutils {
    /// The sources, if they are on this machine.
    pub(crate) fn find() -> Option<Self> {
        let fetched = || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("pciutils");
        let folder = env::var_os("PCIUTILS").map_or_else(fetched, PathBuf::from);
        let named = env::var_os("LSPCI").map(PathBuf::from);
        let built = Some(folder.join("lspci")).filter(|program| program.exists());
        let program = named.or(built).unwrap_or_else(|| PathBuf::from("lspci"));
        folder.join("tests").exists().then_some(Self { folder, program })
    }

    /// All dumps, by name.
    pub(crate) fn dumps(&self) -> Vec<Dump> {
        let entries = fs::read_dir(self.folder.join("tests")).expect("a folder of dumps");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a dump").path()).collect();
        paths.sort();
        let dump = |path: PathBuf| {
            let bytes = fs::read(&path).expect("a dump");
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Dump { name, text: String::from_utf8_lossy(&bytes).into_owned(), path }
        };
        paths.into_iter().map(dump).collect()
    }

    /// What lspci says its version is.
    pub(crate) fn version(&self) -> String {
        self.output(&["--version"]).trim().to_owned()
    }

    /// What lspci prints of a dump with these options.
    pub(crate) fn print(&self, dump: &Dump, options: &[&str]) -> String {
        let path = dump.path.to_str().expect("a path in UTF-8");
        self.output(&[&["-F", path], options].concat())
    }

    /// What lspci prints of the functions in a folder like `/sys/bus/pci`.
    #[allow(dead_code, reason = "not every test makes one")]
    pub(crate) fn print_host(&self, sysfs: &Path, options: &[&str]) -> String {
        let path = format!("sysfs.path={}", sysfs.display());
        self.output(&[&["-A", "linux-sysfs", "-O", path.as_str()], options].concat())
    }

    fn output(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.program).args(arguments).output().expect("lspci runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
