//! Folders that are given as captures, with what only a file system has.

use super::case::Case;
use super::host::Host;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// Files that every inspection of the host asks for.
const ASKED: [&str; 5] = [
    "proc/cmdline",
    "proc/version",
    "proc/iomem",
    "var/log/dmesg",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/class",
];

pub(crate) fn cases() -> Vec<Case> {
    let mut all = links();
    for asked in ASKED {
        all.extend(in_place_of(asked));
    }
    all.extend(folders());
    all.extend(inputs());
    all
}

fn replace(root: &Path, path: &str, make: impl Fn(&Path)) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path);
    make(&path);
}

/// Something else where a file should be.
fn in_place_of(asked: &'static str) -> Vec<Case> {
    let case = |what: &str, make: fn(&Path)| {
        Case::tree("trees", format!("{what} in place of {asked}"), move |root, _| {
            Host::plain().write(root);
            replace(root, asked, make);
        })
    };
    vec![
        case("a FIFO", |path| node(path, rustix::fs::FileType::Fifo, 0)),
        case("the device of endless zeros", |path| {
            node(path, rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 5))
        }),
        case("the device of random bytes", |path| {
            node(path, rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 9))
        }),
        case("the terminal", |path| {
            node(path, rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(5, 0))
        }),
        case("a block device without a driver", |path| {
            node(path, rustix::fs::FileType::BlockDevice, rustix::fs::makedev(240, 0))
        }),
        case("a socket", socket),
        case("a folder", |path| fs::create_dir(path).unwrap()),
        case("a file that nobody may read", |path| {
            fs::write(path, "iommu=pt").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
        }),
        case("a sparse file of 1 TiB", |path| File::create(path).unwrap().set_len(1 << 40).unwrap()),
        case("a sparse file of 60 MiB", |path| File::create(path).unwrap().set_len(60 << 20).unwrap())
            .heavy(),
        case("a file that grows", |path| {
            let mut file = File::create(path).unwrap();
            // Too large for an attribute from the start: all runs see the same.
            file.write_all(&[b'a'; 128 << 10]).unwrap();
            std::thread::spawn(move || {
                for _ in 0..400 {
                    let _ = file.write_all(&[b'a'; 64 << 10]);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        })
        .heavy(),
    ]
}

/// What is no archive and no folder, given as a capture.
fn inputs() -> Vec<Case> {
    use rustix::fs::FileType::{CharacterDevice, Fifo};
    let case = |name: &str, make: fn(&Path)| Case::special("inputs", name.to_owned(), make);
    vec![
        case("a FIFO that nobody writes to", |path| node(path, Fifo, 0)),
        case("the device of endless zeros", |path| node(path, CharacterDevice, rustix::fs::makedev(1, 5))),
        case("the device of random bytes", |path| node(path, CharacterDevice, rustix::fs::makedev(1, 9))),
        case("the device of nothing", |path| node(path, CharacterDevice, rustix::fs::makedev(1, 3))),
        case("the terminal", |path| node(path, CharacterDevice, rustix::fs::makedev(5, 0))),
        case("a socket", socket),
        case("a link to itself", |path| symlink(path, path).unwrap()),
        case("a link to a device", |path| symlink("/dev/zero", path).unwrap()),
        case("a link to standard input", |path| symlink("/proc/self/fd/0", path).unwrap()),
        case("a link to nothing", |path| symlink("\u{1b}[2J<hostile>", path).unwrap()),
        case("nothing", |_| {}),
        case("an empty file", |path| drop(File::create(path).unwrap())),
        case("a sparse file of 1 TiB", |path| File::create(path).unwrap().set_len(1 << 40).unwrap()),
        case("a tar of 1 TiB of hole", |path| {
            fs::write(path, Host::plain().members()).unwrap();
            File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
        }),
        case("a file of memory", |path| symlink("/proc/self/mem", path).unwrap()),
    ]
}

fn socket(path: &Path) {
    // Paths of sockets are short, and it stays when its listener goes.
    let short = tempfile::tempdir().unwrap();
    let name = short.path().join("s");
    drop(UnixListener::bind(&name).unwrap());
    fs::rename(name, path).unwrap();
}

fn node(path: &Path, kind: rustix::fs::FileType, device: u64) {
    // Devices need rights; without them the file is missing, which is a case as well.
    let _ = rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RUSR, device);
}

fn links() -> Vec<Case> {
    let case = |path: &'static str, target: &'static str| {
        Case::tree("trees", format!("{path} is a link to {target}"), move |root, _| {
            Host::plain().write(root);
            replace(root, path, |path| symlink(target, path).unwrap());
        })
    };
    let mut all = vec![
        case("proc/cmdline", "/etc/shadow"),
        case("proc/cmdline", "/proc/self/fd/0"),
        case("proc/cmdline", "/dev/zero"),
        case("proc/cmdline", "/dev/tty"),
        case("proc/cmdline", "/proc/kmsg"),
        case("proc/cmdline", "cmdline"),
        case("proc/cmdline", "../../../../../../../../etc/passwd"),
        case("proc/cmdline", "/"),
        case("var/log/dmesg", "/dev/kmsg"),
        case("sys/class/net", "/"),
        case("sys/class/nvme", "../.."),
        case("sys/bus/pci/slots", "/proc/self/root/sys"),
        case("proc/irq", "/proc/self/task"),
    ];
    for (name, path) in [
        ("a file", "proc/cmdline"),
        ("a kernel log", "var/log/dmesg"),
        ("a name", "sys/class/dmi/id/product_name"),
    ] {
        all.push(Case::tree(
            "trees",
            format!("{name} is a link to one beside the tree"),
            move |root, beside| {
                Host::plain().write(root);
                replace(root, path, |path| symlink(beside.join("secret"), path).unwrap());
            },
        ));
        all.push(Case::tree(
            "trees",
            format!("{name} is a relative link to one beside the tree"),
            move |root, _| {
                Host::plain().write(root);
                let up = "../".repeat(path.split('/').count());
                replace(root, path, |path| symlink(format!("{up}beside/secret"), path).unwrap());
            },
        ));
    }
    for folder in ["proc", "sys/devices", "var/log", "sys"] {
        all.push(Case::tree(
            "trees",
            format!("the folder {folder} is a link out of the tree"),
            move |root, beside| {
                let host = Host::plain();
                host.write(beside);
                fs::create_dir_all(root.join("proc")).unwrap();
                let mut rest = host;
                rest.0.retain(|(path, _)| !path.starts_with(folder));
                rest.write(root);
                let path = root.join(folder);
                let _ = fs::remove_dir(&path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                symlink(beside.join(folder), path).unwrap();
                // What is read of it would be shown.
                let _ =
                    fs::write(beside.join("proc/version"), "Linux version 6.1.0-what-is-beside-the-input");
            },
        ));
    }
    all
}

fn folders() -> Vec<Case> {
    let folder = |name: &str, make: fn(&Path)| {
        Case::tree("trees", name.to_owned(), move |root, _| {
            Host::plain().write(root);
            make(root);
        })
    };
    vec![
        folder("names that steer terminals", |root| {
            let nvme = root.join("sys/class/nvme");
            fs::create_dir_all(&nvme).unwrap();
            for name in ["\u{1b}[2J", "\u{9b}31m", "\u{202e}x", "a\nb", "<hostile>", "$(touch HOSTILE)"] {
                symlink("../../devices/pci0000:00/0000:00:01.0/0000:01:00.0", nvme.join(name)).unwrap();
            }
        }),
        folder("names that are no UTF-8", |root| {
            use std::os::unix::ffi::OsStrExt;
            let name = std::ffi::OsStr::from_bytes(b"\xff\xfe\x80");
            fs::create_dir_all(root.join("sys/class/net").join(name)).unwrap();
            fs::create_dir_all(root.join("sys/bus/pci/devices").join(name)).unwrap();
        }),
        folder("a folder that nobody may list", |root| {
            fs::set_permissions(root.join("sys/bus/pci/devices"), Permissions::from_mode(0o000)).unwrap();
        }),
        folder("folders where files should be", |root| {
            for path in
                ["proc/meminfo", "proc/mtrr", "proc/interrupts", "etc/os-release", "proc/bus/pci/devices"]
            {
                let _ = fs::remove_file(root.join(path));
                fs::create_dir_all(root.join(path)).unwrap();
            }
        }),
        folder("1,000 folders deep", |root| {
            let mut path = root.join("sys/devices/deep");
            for _ in 0..1000 {
                path.push("d");
            }
            fs::create_dir_all(&path).unwrap();
        }),
        folder("100,000 names in a folder", |root| {
            let folder = root.join("sys/class/net");
            fs::create_dir_all(&folder).unwrap();
            (0..100_000).for_each(|n| drop(File::create(folder.join(format!("eth{n}"))).unwrap()));
        })
        .heavy(),
        folder("a name as long as there can be", |root| {
            fs::create_dir_all(root.join("sys/class/net").join("n".repeat(255))).unwrap();
        }),
        Case::tree("trees", "an empty folder", |_, _| {}),
        Case::tree("trees", "nothing but an empty /proc", |root, _| {
            fs::create_dir(root.join("proc")).unwrap()
        }),
        Case::tree("trees", "nothing but empty files", |root, _| {
            for (path, _) in Host::plain().0 {
                let path = root.join(path);
                let _ = fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(path, ""));
            }
        }),
        Case::tree("trees", "200 hosts below it", |root, _| {
            (0..200).for_each(|n| fs::create_dir_all(root.join(format!("h{n}/proc"))).unwrap());
        }),
    ]
}
