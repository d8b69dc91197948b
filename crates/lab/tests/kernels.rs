//! Tests with real kernels: their modules load in order, and guests boot with them.
//!
//! The tests use the kernels that `iotoll lab fetch` downloaded, in `IOTOLL_CACHE` or its default, and report missing
//! ones as skipped. With `IOTOLL_KERNEL_TESTS=off` no guest boots; with `IOTOLL_NETWORK_TESTS=on` one kernel is
//! downloaded.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

#[path = "support/machine.rs"]
mod machine;

use lab::{
    Arch,
    guest::{Initramfs, PlacedFile, initramfs::module_path},
    kernel::{
        Cache, Kernel, KernelChoice, KernelError, Mirror, ModInfo, Module, ModuleError, ModuleName,
        ModuleOrder, ModuleTree, Package, Progress, Series, busybox, fetch,
    },
};
use machine::{boot, machine};
use skip::{skip, skip_part};
use std::{collections::BTreeSet, env, fs, time::Duration};

/// An emulated guest boots in seconds, on a busy host in minutes.
const BOOT_TIME_MAX: Duration = Duration::from_secs(240);

/// The downloaded kernels in a cache; missing ones are reported as skipped.
fn fetched(cache: &Cache) -> Vec<Kernel> {
    let found = KernelChoice::ALL.into_iter().filter_map(|choice| match Kernel::newest(cache, choice) {
        Ok(kernel) => Some(kernel),
        Err(error @ KernelError::NotFetched { .. }) => {
            skip_part(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    });
    found.collect()
}

/// The downloaded kernels in the user's cache.
fn kernels() -> Vec<Kernel> {
    fetched(&Cache::from_environment().unwrap())
}

fn load_order(kernel: &Kernel, wanted: &[&str]) -> ModuleOrder {
    ModuleTree::of_kernel(kernel).unwrap().load_order(wanted).unwrap()
}

/// Checks that every module comes once, and after its dependencies.
fn assert_loads_in_order(kernel: &Kernel, wanted: &[&str]) {
    let tree = ModuleTree::of_kernel(kernel).unwrap();
    let order = tree.load_order(wanted).unwrap();
    let mut loaded = BTreeSet::new();
    for module in &order.load {
        let info = ModInfo::of_module(&module.bytes).unwrap();
        assert_eq!(info.release(), Some(kernel.release.as_str()), "{module:?}");
        for needed in info.depends {
            let is_present = loaded.contains(&needed) || tree.is_built_in(&needed) == Some(true);
            assert!(is_present, "{}: {needed} comes too late for {module:?}", kernel.release);
        }
        assert!(loaded.insert(module.name.clone()), "{module:?} comes twice");
    }
    for name in wanted.iter().map(|name| ModuleName::from(*name)) {
        assert!(loaded.contains(&name) || order.built_in.contains(&name), "{}: {name}", kernel.release);
    }
}

#[test]
fn drivers_come_after_their_dependencies() {
    for kernel in kernels() {
        for wanted in [&["nvme"][..], &["e1000e"], &["igb"], &["virtio_net", "virtio-pci"]] {
            assert_loads_in_order(&kernel, wanted);
        }
        let last = load_order(&kernel, &["nvme"]).load.pop().unwrap();
        assert_eq!(last.name.as_str(), "nvme", "{}", kernel.release);
    }
}

#[test]
fn a_module_that_no_kernel_has_is_an_error() {
    for kernel in kernels() {
        let error = ModuleTree::of_kernel(&kernel).unwrap().load_order(&["no-such-driver"]).unwrap_err();
        let ModuleError::Absent { name, needed_by: None, release, .. } = error else { panic!("{error}") };
        assert_eq!((name.as_str(), release), ("no_such_driver", kernel.release));
    }
}

#[test]
fn a_truncated_real_module_is_parsed_or_refused() {
    for kernel in kernels() {
        let nvme = load_order(&kernel, &["nvme"]).load.pop().unwrap().bytes;
        let step = nvme.len() / 1000;
        for length in (0..nvme.len()).step_by(step) {
            drop(ModInfo::of_module(&nvme[..length]));
        }
        assert!(ModInfo::of_module(&nvme[..step]).is_err(), "{}", kernel.release);
    }
}

#[test]
fn a_fetched_kernel_can_also_be_given_as_the_user_s_own() {
    for kernel in kernels() {
        let same = Kernel::of_user(kernel.arch, &kernel.image, &kernel.modules).unwrap();
        assert_eq!(same, Kernel { package: None, ..kernel });
    }
}

/// An init script that loads all modules and prints the loaded ones.
fn init(modules: &[Module]) -> String {
    let mut script = "#!/bin/sh\nbusybox mount -t proc proc /proc\n".to_owned();
    for (position, module) in modules.iter().enumerate() {
        script += &format!("busybox insmod {}\n", module_path(position, module));
    }
    // POWER's firmware does not end its last line.
    script + "echo\nbusybox cat /proc/modules\n/lab/hello \"$(busybox uname -r)\"\nbusybox poweroff -f\n"
}

#[test]
fn guests_boot_and_load_their_modules() {
    if env::var("IOTOLL_KERNEL_TESTS").is_ok_and(|value| value == "off") {
        return skip("IOTOLL_KERNEL_TESTS=off, no guest was booted");
    }
    let cache = Cache::from_environment().unwrap();
    for kernel in fetched(&cache) {
        let modules = load_order(&kernel, &["nvme", "e1000e", "igb", "virtio_net", "virtio_pci"]).load;
        let busybox = fs::read(busybox(&cache, kernel.arch).unwrap()).unwrap();
        let hello = b"#!/bin/sh\necho hello from $1\n";
        let hello = PlacedFile { path: "/lab/hello", permissions: 0o755, bytes: hello };
        let (release, init) = (kernel.release.as_str(), init(&modules));
        let guest = Initramfs { release, busybox: &busybox, modules: &modules, init: &init, files: &[hello] };
        let (machine, processor, terminal) = machine(kernel.arch);
        let machine = format!("-machine {machine} -cpu {processor} -accel tcg");
        let console =
            boot(&kernel, &guest.build().unwrap(), &machine, &format!("console={terminal}"), BOOT_TIME_MAX);
        let Some(console) = console else {
            skip_part(&format!("no {} here, {release} was not booted", kernel.arch.qemu()));
            continue;
        };
        for module in &modules {
            let line = |line: &str| line.split(' ').next() == Some(module.name.as_str());
            assert!(console.lines().any(line), "{release}: {module:?} is not in\n{console}");
        }
        assert!(console.contains(&format!("hello from {release}")), "{console}");
    }
}

#[test]
fn a_fetched_kernel_stays_in_the_cache() {
    if !env::var("IOTOLL_NETWORK_TESTS").is_ok_and(|value| value == "on") {
        return skip("IOTOLL_NETWORK_TESTS is not `on`, nothing was fetched");
    }
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::at(&root.path().join("a cache")).unwrap();
    let choice = KernelChoice { arch: Arch::Ppc, series: Series::V6_1 };
    let fetch = |steps: &mut Vec<Progress>| {
        fetch(&cache, &[choice], &Mirror::debian_org(), &mut |progress| steps.push(progress)).unwrap()
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let kernels = fetch(&mut first);
    assert_eq!(kernels, [Kernel::newest(&cache, choice).unwrap()]);
    assert_eq!(fetch(&mut second), kernels);
    let package: Package = kernels[0].package.clone().unwrap();
    assert!(first.contains(&Progress::Kept(package.clone())), "{first:?}");
    assert!(second.contains(&Progress::AlreadyKept(package)), "{second:?}");
    assert_loads_in_order(&kernels[0], &["nvme"]);
    assert!(busybox(&cache, Arch::Ppc).unwrap().is_file());
}
