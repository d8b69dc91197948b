//! Guests of each architecture whose init script runs an example of a package.

use super::guest_kernel::{GuestKernel, cache};
use super::machine::{boot, machine};
use super::skip::skip;
use lab::{
    Arch,
    guest::{Initramfs, PlacedFile, initramfs::module_path},
    kernel::{Cache, Kernel, ModuleTree, busybox},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// An emulated guest needs a minute or two; a busy host takes several times as long.
const BOOT_TIME_MAX: Duration = Duration::from_secs(600);

/// A guest, and the example at `/lab/EXAMPLE`.
pub(crate) struct GuestProgram<'a> {
    pub(crate) arch: Arch,
    pub(crate) kernel: GuestKernel,
    pub(crate) package: &'a str,
    pub(crate) example: &'a str,
    /// Kernel modules to load.
    pub(crate) modules: &'a [&'a str],
    /// Shell commands, after proc, sysfs and devtmpfs are mounted and the modules loaded.
    pub(crate) script: String,
    /// What QEMU's machine has more, such as `,gic-version=3`.
    pub(crate) options: &'a str,
    /// Further arguments of QEMU.
    pub(crate) arguments: String,
    /// Further words of the kernel's command line.
    pub(crate) command_line: &'a str,
}

impl GuestProgram<'_> {
    /// Boots the guest, prints its kernel's release, and returns the console's output; `None` where that is not possible, which is
    /// reported.
    pub(crate) fn run(&self) -> Option<String> {
        let cache = cache()?;
        let kernel = self.kernel.find(&cache, self.arch)?;
        let program = self.build()?;
        let Some(console) = self.boot(&cache, &kernel, &fs::read(program).unwrap()) else {
            skip(&format!("no {} here, {} was not booted", self.arch.qemu(), kernel.release));
            return None;
        };
        println!("{}", kernel.release);
        Some(console)
    }

    /// The program; `None` if nothing can build it, which is reported.
    fn build(&self) -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let mut script = Command::new(root.join("tests/guest_program.sh"));
        script.arg(self.arch.gnu().replace("-linux-gnu", "")).arg(&target);
        let output = script.args([self.package, self.example]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.code() {
            Some(0) => Some(PathBuf::from(text(&output.stdout))),
            Some(3) => {
                skip(&text(&output.stderr));
                None
            }
            _ => panic!("{}", text(&output.stderr)),
        }
    }

    /// Runs the guest, and returns its console's output; `None` without QEMU.
    fn boot(&self, cache: &Cache, kernel: &Kernel, program: &[u8]) -> Option<String> {
        let modules = match self.modules {
            [] => Vec::new(),
            names => ModuleTree::of_kernel(kernel).unwrap().load_order(names).unwrap().load,
        };
        let busybox = fs::read(busybox(cache, self.arch).unwrap()).unwrap();
        let mut init = "#!/bin/sh\n".to_owned();
        for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
            init += &format!("busybox mount -t {kind} {kind} {place}\n");
        }
        for (position, module) in modules.iter().enumerate() {
            init += &format!("busybox insmod {}\n", module_path(position, module));
        }
        // POWER's firmware does not end its last line.
        init += &format!("echo\n{}busybox poweroff -f\n", self.script);
        let path = format!("/lab/{}", self.example);
        let program = PlacedFile { path: &path, permissions: 0o755, bytes: program };
        let initramfs = Initramfs {
            release: &kernel.release,
            busybox: &busybox,
            modules: &modules,
            init: &init,
            files: &[program],
        };
        let (machine, processor, terminal) = machine(self.arch);
        let machine = format!("-machine {machine}{} -cpu {processor} {}", self.options, self.arguments);
        let command_line = format!("console={terminal} {}", self.command_line);
        boot(kernel, &initramfs.build().unwrap(), &machine, &command_line, BOOT_TIME_MAX)
    }
}
