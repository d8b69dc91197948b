//! A guest that runs this test program itself, with the libraries that it was linked with: its one test that is ignored elsewhere.

#[path = "../../../../tests/skip.rs"]
mod skip;

use lab::{
    Arch,
    guest::{Initramfs, PlacedFile, initramfs::module_path, libraries::libraries},
    kernel::{Cache, Kernel, Module, ModuleTree, busybox},
    qemu::{self, Limits, QemuError},
};
use std::{
    collections::BTreeMap, env, ffi::OsString, fs, path::Path, sync::atomic::AtomicBool, time::Duration,
};

/// A guest under emulation boots in seconds, and is done in two minutes; a busy machine takes several times as long.
const BOOT_TIME_MAX: Duration = Duration::from_secs(600);

/// What is in the guest, and done there.
pub(crate) struct Guest<'a> {
    /// Modules that are loaded, before `before`.
    pub(crate) modules: &'a [&'a str],
    /// Programs of this machine that it has too, by the same paths, besides this one.
    pub(crate) programs: &'a [&'a Path],
    /// Lines of a script that come before the program.
    pub(crate) before: String,
    /// Values of the variable `IOTOLL_WAY` that it is run with, one after the other.
    pub(crate) ways: &'a [&'a str],
    /// Lines that come after it.
    pub(crate) after: &'a str,
    /// QEMU's arguments for its devices.
    pub(crate) devices: &'a str,
    /// The kernel's.
    pub(crate) command_line: &'a str,
}

#[allow(unused_imports, reason = "not all who have guests say so themselves")]
pub(crate) use skip::{skip, skip_part};

/// In the guest: which way to go.
pub(crate) const WAY: &str = "IOTOLL_WAY";

/// Where kernels are; `None` where no guests are to be booted.
pub(crate) fn cache() -> Option<Cache> {
    if env::var("IOTOLL_KERNEL_TESTS").is_ok_and(|value| value == "off") {
        skip("IOTOLL_KERNEL_TESTS=off, no guest was booted");
        return None;
    }
    Some(Cache::of_environment().unwrap())
}

/// Ubuntu's kernel, which has of VFIO what Debian's leaves out; without one it is said that `what` was not looked at.
#[allow(dead_code, reason = "not all who have guests want it")]
pub(crate) fn ubuntu_kernel(cache: &Cache, what: &str) -> Option<Kernel> {
    let folder = cache.root().join("ubuntu");
    if !folder.join("modules").exists() {
        skip(&format!("no kernel with {what}; crates/lab/tests/kernel/fetch_ubuntu.sh fetches one"));
        return None;
    }
    Some(Kernel::of_user(Arch::X86, &folder.join("vmlinuz"), &folder.join("modules")).unwrap())
}

impl Guest<'_> {
    /// Boots it, and returns what was written on its console; `None` without QEMU.
    pub(crate) fn run(&self, cache: &Cache, kernel: &Kernel) -> Option<String> {
        let modules = ModuleTree::of_kernel(kernel).unwrap().order(self.modules).unwrap().load;
        let busybox = fs::read(busybox(cache, kernel.arch).unwrap()).unwrap();
        let program = env::current_exe().unwrap();
        let this = if self.ways.is_empty() && !self.programs.is_empty() { None } else { Some(&*program) };
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
        let console = self.boot(kernel, &initramfs.build().unwrap());
        if console.is_none() {
            skip(&format!("no {} here, {} was not booted", kernel.arch.qemu(), kernel.release));
        }
        console
    }

    fn init(&self, modules: &[Module], program: &Path) -> String {
        let mut script = "#!/bin/sh\n".to_owned();
        for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
            script += &format!("busybox mount -t {kind} {kind} {place}\n");
        }
        for (position, module) in modules.iter().enumerate() {
            script += &format!("busybox insmod {}\n", module_path(position, module));
        }
        script += &self.before;
        for way in self.ways {
            let program = program.display();
            script += &format!("{WAY}={way} {program} --ignored --exact in_the_guest --nocapture\n");
        }
        script + self.after + "busybox poweroff -f\n"
    }

    fn boot(&self, kernel: &Kernel, archive: &[u8]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let [guest, console] = ["guest", "console"].map(|name| folder.path().join(name));
        fs::write(&guest, archive).unwrap();
        let machine = "-machine q35,kernel-irqchip=split -cpu max -m 1G -accel tcg -nodefaults -display none -no-reboot";
        let arguments = format!("{machine} {} -serial file:{}", self.devices, console.display());
        let mut arguments: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
        arguments.extend(["-kernel".into(), kernel.image.clone().into(), "-initrd".into(), guest.into()]);
        let command_line = format!("console=ttyS0 {} panic=-1 quiet", self.command_line);
        arguments.extend(["-append".into(), command_line.into()]);
        let limits = Limits { time: BOOT_TIME_MAX, stop: &AtomicBool::new(false) };
        match qemu::run(kernel.arch, &arguments, &console, limits) {
            Ok(()) => Some(String::from_utf8_lossy(&fs::read(console).unwrap()).into_owned()),
            Err(QemuError::Missing { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }
}
