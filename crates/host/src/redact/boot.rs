//! Identifiers in arguments: where the host boots from, its addresses, its volumes.

use super::diagnosed_option::is_diagnosed;
use super::kind::{Counts, Kind};
use super::pseudonym::{Key, REDACTED, is_word};
use super::rules;

/// Options whose whole value says where something lies on a network. A dot at the end: any option that begins so.
const SOURCES: [&str; 55] = [
    "ip",
    "ip6",
    "nameserver",
    "rd.route",
    "rd.peerdns_server",
    "netroot",
    "nfsroot",
    "nfsaddrs",
    "cifsroot",
    "ks",
    "kickstart",
    "method",
    "repo",
    "url",
    "preseed/url",
    "ds",
    "autoinstall",
    "autoyast",
    "autoyast2",
    "install",
    "netboot",
    "fetch",
    "cloud_config_url",
    "netconsole",
    "kgdboe",
    "rd.znet",
    "rd.zfcp",
    "zfcp.device",
    "ignition.",
    "coreos.inst.",
    "inst.ks",
    "inst.ks.",
    "inst.repo",
    "inst.stage2",
    "inst.addrepo",
    "inst.updates",
    "inst.dd",
    "inst.proxy",
    "inst.remotelog",
    "inst.syslog",
    "inst.vncconnect",
    "proxy",
    "http_proxy",
    "https_proxy",
    "rd.iscsi.",
    "rd.nvmf.",
    "rd.fcoe",
    "fcoe",
    "rd.nfs.domain",
    "domain",
    "search",
    "netcfg/",
    "nfs.nfs4_unique_id",
    "talos.",
    "systemd.pull",
];
/// Options that name a volume: by UUID, label, or the name of a volume group, which installers make of the host's name.
const VOLUMES: [&str; 19] = [
    "root",
    "resume",
    "real_root",
    "crypt_root",
    "boot",
    "usr",
    "mount.usr",
    "cryptdevice",
    "cryptopts",
    "zfs",
    "bootfs",
    "swap",
    "subvol",
    "rd.lvm.",
    "rd.md.",
    "rd.luks.",
    "luks.",
    "rd.live.overlay",
    "systemd.verity_root_data",
];
/// What a volume's value begins with that says how the volume is found.
const FIRST_WORDS: [&str; 20] = [
    "UUID=",
    "LABEL=",
    "PARTUUID=",
    "PARTLABEL=",
    "ID=",
    "ZFS=",
    "zfs:",
    "zfs=",
    "live:",
    "block:",
    "iscsi:",
    "nfs:",
    "nfs4:",
    "/dev/mapper/",
    "/dev/disk/by-uuid/",
    "/dev/disk/by-label/",
    "/dev/disk/by-id/",
    "/dev/disk/by-path/",
    "/dev/disk/by-partuuid/",
    "/dev/",
];
/// Folders of kernels that many hosts have.
const FOLDERS: [&str; 15] = [
    "",
    "boot",
    "@",
    "@boot",
    "@rootfs",
    "efi",
    "EFI",
    "casper",
    "live",
    "isolinux",
    "images",
    "pxeboot",
    "install",
    "ostree",
    "(ieee1275",
];
/// Btrfs subvolumes that installers make.
const SUBVOLUMES: [&str; 8] =
    ["@", "/@", "@root", "@rootfs", "root", "/", "_active/rootvol", "@/.snapshots/1/snapshot"];
/// Last words of names whose value is one device's or one host's.
const OWN: [&str; 30] = [
    "mac",
    "macaddr",
    "macaddress",
    "btmacaddr",
    "hwaddr",
    "ethaddr",
    "bootif",
    "ifname",
    "serial",
    "serialno",
    "serialnumber",
    "sn",
    "hostname",
    "host",
    "fqdn",
    "uuid",
    "guid",
    "machine_id",
    "wwid",
    "wwn",
    "wwpn",
    "wwnn",
    "initiator",
    "iqn",
    "nqn",
    "hostnqn",
    "hostid",
    "asset_tag",
    "instance_id",
    "client_id",
];
/// Values that say how, not where.
const WORDS: [&str; 26] = [
    "dhcp",
    "dhcp6",
    "dhcpv6",
    "single-dhcp",
    "auto",
    "auto6",
    "either6",
    "link6",
    "link-local",
    "ibft",
    "on",
    "off",
    "any",
    "none",
    "yes",
    "no",
    "true",
    "false",
    "both",
    "rarp",
    "bootp",
    "nfs",
    "cdrom",
    "nowait",
    "gpt",
    REDACTED,
];

/// The value of an argument without identifiers. `name` is empty for a bare argument.
pub(super) fn without_identifiers(key: &Key, name: &str, value: &str, counts: &mut Counts) -> String {
    let name = name.to_ascii_lowercase().replace('-', "_");
    if is_diagnosed(&name) || is_word(value) || is_plain(value) {
        return value.to_owned();
    }
    if is_listed(&SOURCES, &name) {
        return replace_whole(key, value, Kind::BootSource, counts);
    }
    if is_listed(&VOLUMES, &name) {
        return volume(key, value, counts);
    }
    match name.as_str() {
        "rootflags" => return mount_options(key, value, counts),
        "boot_image" | "initrd" if !value.contains("://") => return image(key, value, counts),
        _ => {}
    }
    let formed = rules::replace_by_form(key, value, counts);
    let addressed = rules::replace_addresses(key, &formed.text, counts);
    let text = urls(key, &rules::replace_by_context(key, &addressed.text, counts).text, counts);
    match is_identifying(&name) && formed.found + addressed.found == 0 && text == value {
        true => replace_whole(key, value, Kind::SerialNumber, counts),
        false => text,
    }
}

/// Whether the whole value of this option says where something lies on a network.
pub(super) fn is_source(name: &str) -> bool {
    is_listed(&SOURCES, &name.to_ascii_lowercase().replace('-', "_"))
}

/// Whether a value of this option is understood here: a source, a volume, or an identifier.
pub(super) fn is_known(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    is_listed(&SOURCES, &name) || is_listed(&VOLUMES, &name) || is_identifying(&name)
}

/// Whether the value of this option identifies a device or a host.
fn is_identifying(name: &str) -> bool {
    let last_word = name.rsplit(['.', '/', ':']).next().unwrap_or_default();
    OWN.iter()
        .any(|own| last_word == *own || last_word.strip_suffix(own).is_some_and(|rest| rest.ends_with('_')))
}

/// Whether a list has this name. An entry that ends in `.` or `/` stands for all names that begin with it.
fn is_listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|listed| match listed.ends_with(['.', '/']) {
        true => name.starts_with(listed),
        false => name == *listed,
    })
}

/// Numbers of up to three digits and words that say how.
fn is_plain(value: &str) -> bool {
    value.is_empty()
        || WORDS.contains(&value)
        || (value.len() <= 3 && value.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A pseudonym for a whole value, which is counted as an identifier of this kind.
fn replace_whole(key: &Key, value: &str, kind: Kind, counts: &mut Counts) -> String {
    if is_word(value) {
        return value.to_owned();
    }
    counts.add(kind);
    key.word(value)
}

/// `UUID=...`, `/dev/mapper/vg-lv`, `ZFS=pool/...`: the first words stay, all that follows them goes. Nodes that every host has stay.
fn volume(key: &Key, value: &str, counts: &mut Counts) -> String {
    if value.strip_prefix("/dev/").is_some_and(is_common_node) {
        return value.to_owned();
    }
    let prefix_bytes = FIRST_WORDS.iter().find(|word| value.starts_with(**word)).map_or(0, |word| word.len());
    let (prefix, name) = value.split_at(prefix_bytes);
    if name.is_empty() || is_plain(name) {
        return value.to_owned();
    }
    format!("{prefix}{}", replace_whole(key, name, Kind::BootSource, counts))
}

/// Whether a name below `/dev` is one that the kernel gave: `sda2`, `nvme0n1p3`, `md127`.
fn is_common_node(name: &str) -> bool {
    const KINDS: [&str; 13] =
        ["nvme", "mmcblk", "pmem", "dasd", "loop", "ram", "dm-", "xvd", "md", "sd", "hd", "vd", "sr"];
    KINDS.iter().filter_map(|kind| name.strip_prefix(kind)).any(|rest| {
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let numbers = &rest[letters..];
        letters <= 2
            && numbers.len() <= 8
            && numbers.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'n' | b'p' | b'c' | b's'))
    })
}

/// The path of the kernel or of its initramfs: `(hd0,gpt2)/boot/vmlinuz-6.1.0`. The file's name tells its version, and common folders stay.
fn image(key: &Key, value: &str, counts: &mut Counts) -> String {
    let Some((folders, file)) = value.rsplit_once('/') else { return image_file(key, value, counts) };
    let folder = |folder: &str| match FOLDERS.contains(&folder) || is_partition(folder) {
        true => folder.to_owned(),
        false => replace_whole(key, folder, Kind::BootSource, counts),
    };
    let folders = folders.split('/').map(folder).collect::<Vec<_>>().join("/");
    format!("{folders}/{}", image_file(key, file, counts))
}

/// The name of such a file. One that no distribution gives may be the host's.
fn image_file(key: &Key, file: &str, counts: &mut Counts) -> String {
    const NAMES: [&str; 8] = ["vmlinu", "linux", "kernel", "bzImage", "zImage", "Image", "initr", "xen"];
    match NAMES.iter().any(|name| file.starts_with(name)) {
        true => file.to_owned(),
        false => replace_whole(key, file, Kind::BootSource, counts),
    }
}

/// GRUB's name of a disk's partition, `(hd0,gpt2)`, or the end of one of Open Firmware, `(ieee1275/disk,msdos7)`.
fn is_partition(folder: &str) -> bool {
    let disk = ["(hd", "disk"].iter().find_map(|start| folder.strip_prefix(start));
    let disk = disk.and_then(|rest| rest.strip_suffix(')'));
    disk.is_some_and(|disk| {
        disk.len() <= 12 && disk.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b',')
    })
}

/// Options of a mount: `subvol=@,compress=zstd`. Numbers and common words stay.
fn mount_options(key: &Key, value: &str, counts: &mut Counts) -> String {
    let option = |option: &str| match option.split_once('=') {
        Some(("subvol" | "addr" | "mountaddr" | "clientaddr" | "domain" | "unc" | "sec", value))
            if !is_plain(value) && !SUBVOLUMES.contains(&value) =>
        {
            let name = &option[..option.len() - value.len()];
            format!("{name}{}", replace_whole(key, value, Kind::BootSource, counts))
        }
        _ => option.to_owned(),
    };
    value.split(',').map(option).collect::<Vec<_>>().join(",")
}

/// What follows `scheme://`: a host, and a path that may name one.
fn urls(key: &Key, value: &str, counts: &mut Counts) -> String {
    match value.split_once("://") {
        Some((scheme, rest)) if !rest.is_empty() => {
            format!("{scheme}://{}", replace_whole(key, rest, Kind::BootSource, counts))
        }
        _ => value.to_owned(),
    }
}
