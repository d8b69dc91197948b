//! Boots a guest that runs the test program itself: its test `in_the_guest`, which is ignored on the host.

#[path = "../../../../tests/skip.rs"]
mod skip;

mod guest_kernel;
mod machine;

use lab::{
    guest::{Initramfs, PlacedFile, initramfs::module_path, libraries::libraries},
    kernel::{Cache, Kernel, Module, ModuleTree, busybox},
};
use machine::boot;
use std::{collections::BTreeMap, env, fs, path::Path, time::Duration};

/// An emulated guest finishes in two minutes; a busy host takes several times as long.
const BOOT_TIME_MAX: Duration = Duration::from_secs(600);

/// A guest's contents, and the commands that it runs in this order: loads `modules`, `before`, the test program once per
/// mode, `after`.
pub(crate) struct Guest<'a> {
    /// Kernel modules to load.
    pub(crate) modules: &'a [&'a str],
    /// Further programs of the host that are copied into the guest, at the same paths.
    pub(crate) programs: &'a [&'a Path],
    /// Shell commands before the test program.
    pub(crate) before: String,
    /// Values of the variable [`MODE`]; the test program runs once with each.
    pub(crate) modes: &'a [&'a str],
    /// Shell commands after the test program.
    pub(crate) after: &'a str,
    /// QEMU's arguments for devices.
    pub(crate) devices: &'a str,
    /// Further words of the kernel's command line.
    pub(crate) command_line: &'a str,
}

pub(crate) use guest_kernel::{GuestKernel, cache};
#[allow(unused_imports, reason = "not every test program uses both")]
pub(crate) use skip::{skip, skip_part, takes_too_long};

/// The environment variable that tells the test program in the guest what to test.
pub(crate) const MODE: &str = "IOTOLL_TEST_MODE";

impl Guest<'_> {
    /// Boots the guest and returns its console's output; `None` without QEMU, which is reported.
    pub(crate) fn run(&self, cache: &Cache, kernel: &Kernel) -> Option<String> {
        let modules = ModuleTree::of_kernel(kernel).unwrap().load_order(self.modules).unwrap().load;
        let busybox = fs::read(busybox(cache, kernel.arch).unwrap()).unwrap();
        let program = env::current_exe().unwrap();
        let this = if self.modes.is_empty() && !self.programs.is_empty() { None } else { Some(&*program) };
        let files: BTreeMap<String, Vec<u8>> = self
            .programs
            .iter()
            .copied()
            .chain(this)
            .flat_map(|program| libraries(program).unwrap().into_iter().chain([program.to_owned()]))
            .map(|path| (path.to_str().unwrap().to_owned(), fs::read(path).unwrap()))
            .collect();
        let placed: Vec<PlacedFile<'_>> = files
            .iter()
            .map(|(path, bytes)| PlacedFile {
                path: path.as_str(),
                permissions: 0o755,
                bytes: bytes.as_slice(),
            })
            .collect();
        let init = self.init(&modules, &program);
        let initramfs = Initramfs {
            release: &kernel.release,
            busybox: &busybox,
            modules: &modules,
            init: &init,
            files: &placed,
        };
        let machine = format!("-machine q35,kernel-irqchip=split -cpu max -accel tcg {}", self.devices);
        let command_line = format!("console=ttyS0 {}", self.command_line);
        let console = boot(kernel, &initramfs.build().unwrap(), &machine, &command_line, BOOT_TIME_MAX);
        if console.is_none() {
            skip(&format!("no {} here, {} was not booted", kernel.arch.qemu(), kernel.release));
        }
        console
    }

    /// The init script.
    fn init(&self, modules: &[Module], program: &Path) -> String {
        let mut script = "#!/bin/sh\n".to_owned();
        for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
            script += &format!("busybox mount -t {kind} {kind} {place}\n");
        }
        for (position, module) in modules.iter().enumerate() {
            script += &format!("busybox insmod {}\n", module_path(position, module));
        }
        script += &self.before;
        for mode in self.modes {
            let program = program.display();
            script += &format!("{MODE}={mode} {program} --ignored --exact in_the_guest --nocapture\n");
        }
        script + self.after + "busybox poweroff -f\n"
    }
}
