//! Rules that find identifiers by their form or by the words before them.
//!
//! A form must be unmistakable wherever it stands. PCI addresses (`0000:3b:00.0`), ranges of memory, MTRR lines and I/O
//! addresses have none of these forms: a MAC address has at least six pairs of digits, an IPv6 address `::` or eight groups.

use super::kind::{Counts, Kind};
use super::pseudonym::{Key, REDACTED, is_word};
use crate::Bdf;
use regex::Regex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// Returns the pseudonym of a value, given the text before it; `None` if the value is no identifier.
type Pseudonym = fn(&Key, &str, &str) -> Option<String>;

struct Row(&'static str, Kind, Pseudonym);

/// Finds identifiers: the first group of the pattern is the value.
struct Rule {
    pattern: Regex,
    kind: Kind,
    pseudonym: Pseudonym,
}

/// Identifiers that are unmistakable by their form, also in paths, tables and property values.
static FORMS: LazyLock<Vec<Rule>> = LazyLock::new(|| compile(FORM_ROWS));
/// Network addresses. They are searched in free text, not in tables of numbers.
static ADDRESSES: LazyLock<Vec<Rule>> = LazyLock::new(|| compile(ADDRESS_ROWS));
/// Identifiers that are recognised by the words before them.
static CONTEXTS: LazyLock<Vec<Rule>> = LazyLock::new(|| compile(CONTEXT_ROWS));

const FORM_ROWS: &[Row] = &[
    Row(r#"((?:nqn|iqn)\.[0-9]{4}[-.][0-9]{2}\.[^\s"',;()<>]+)"#, Kind::SerialNumber, qualified_name),
    Row(
        r"(?:^|[^0-9A-Za-z])([0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})(?:[^0-9A-Za-z]|$)",
        Kind::Uuid,
        uuid,
    ),
    // Names of systemd's units escape dashes, and /dev/kmsg escapes the backslash.
    Row(
        r"(?:^|[^0-9A-Za-z])([0-9a-fA-F]{8}(?:\\(?:x5c)?x2d[0-9a-fA-F]{4}){3}\\(?:x5c)?x2d[0-9a-fA-F]{12})(?:[^0-9A-Za-z]|$)",
        Kind::Uuid,
        escaped_uuid,
    ),
    Row(r"(?:^|[^0-9A-Za-z:])([0-9a-fA-F]{8}(?::[0-9a-fA-F]{8}){3})(?:[^0-9A-Za-z:]|$)", Kind::Uuid, uuid),
    Row(r"(?:^|[^0-9A-Za-z])([0-9a-fA-F]{32})(?:[^0-9A-Za-z]|$)", Kind::Uuid, uuid),
    Row(
        r"(?:^|[^0-9A-Za-z])([0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5,})(?:[^0-9A-Za-z]|$)",
        Kind::MacAddress,
        octets,
    ),
    Row(
        r"(?:^|[^0-9A-Za-z])([0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5,})(?:[^0-9A-Za-z]|$)",
        Kind::MacAddress,
        octets,
    ),
    // The kernel's predictable names of interfaces (systemd.net-naming-scheme(7)), also ibx and slx.
    Row(
        r"(?:^|[^0-9A-Za-z])(?:en|wl|ww|ib|sl)x([0-9a-f]{12}|[0-9a-f]{16})(?:[^0-9A-Za-z]|$)",
        Kind::MacAddress,
        bare_octets,
    ),
    Row(
        r"(?:^|[^0-9A-Za-z])(?:naa\.|eui\.|wwn-0x|nvme-eui\.)([0-9a-fA-F]{8,32})(?:[^0-9A-Za-z]|$)",
        Kind::SerialNumber,
        bare_octets,
    ),
    // A SCSI name of 128 bits behind a digit for its kind (scsi_id(8)), as multipath and udev write it.
    Row(r"(?:^|[^0-9A-Za-z])[1-8]([0-9a-f]{32})(?:[^0-9A-Za-z]|$)", Kind::SerialNumber, bare_octets),
    Row(r"(?:scsi-|mpath-)[1-8]([0-9a-f]{16})(?:[^0-9A-Za-z]|$)", Kind::SerialNumber, bare_octets),
    // OPAL firmware has a word without the second part.
    Row(
        r"(?:^|[^0-9A-Za-z])U(?:OPWR|[0-9A-Z]{4}\.[0-9A-Z]{3})\.([0-9A-Z]{7})(?:[^0-9A-Za-z]|$)",
        Kind::SerialNumber,
        |key, _, serial| Some(key.location_serial(serial)),
    ),
];

const ADDRESS_ROWS: &[Row] = &[
    // Cisco's form of a MAC address.
    Row(
        r"(?i)(?:^|[^0-9a-z.])([0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})(?:[^0-9a-z.]|$)",
        Kind::MacAddress,
        bare_octets,
    ),
    // Octets without their leading zeros.
    Row(
        r"(?:^|[^0-9A-Za-z:])([0-9a-fA-F]{1,2}(?::[0-9a-fA-F]{1,2}){5})(?:[^0-9A-Za-z:]|$)",
        Kind::MacAddress,
        short_octets,
    ),
    // The kernel writes numbers in lower case, labels of adapters have addresses in upper case.
    Row(
        r"(?:^|[^0-9A-Za-z_.-])([0-9A-F]{12})(?:[^0-9A-Za-z_.-]|$)",
        Kind::MacAddress,
        |key, before, digits| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            (!is_number).then(|| bare_octets(key, before, digits))?
        },
    ),
    // An IPv4 address inside an IPv6 one.
    Row(
        r"(?:^|[^0-9A-Za-z:.])((?:[0-9a-fA-F]{0,4}:){2,7}[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?:[^0-9A-Za-z]|$)",
        Kind::IpAddress,
        ipv6,
    ),
    Row(
        r"(?:^|[^0-9A-Za-z:.])([0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7})(?:[^0-9A-Za-z]|$)",
        Kind::IpAddress,
        ipv6,
    ),
    // Lustre's names of management servers begin with MGC.
    Row(r"(?:^|MGC|[^0-9A-Za-z.])([0-9]{1,3}(?:\.[0-9]{1,3}){3})(?:[^0-9A-Za-z]|$)", Kind::IpAddress, ipv4),
];

const CONTEXT_ROWS: &[Row] = &[
    // drivers/usb/core/hub.c announce_device: whatever the device says, blanks included.
    Row(r"SerialNumber: ?([^\r\n]*[^\s])", Kind::SerialNumber, word),
    // lspci's text of vital product data, where makers put what they like.
    Row(r"\[(?:SN|V[0-9A-Z]|Y[0-9A-Z]|RW)\] [A-Za-z ]+: ([^\r\n]*[^\s])", Kind::SerialNumber, word),
    Row(
        r#"(?i)\b(?:serial[ _-]?(?:number|num|no\.?|#)|s/n)(?: is)?(?:[ \t]*[:=(]+[ \t]*|[ \t]+)"?([0-9A-Za-z][0-9A-Za-z_.+/:-]{2,})"#,
        Kind::SerialNumber,
        word,
    ),
    Row(
        r#"(?i)(?:^|[^0-9A-Za-z._-])(?:serial|sn)(?:[ \t]?[:=][ \t]*"?|[ \t]+)([0-9A-Za-z_.+-]*[0-9][0-9A-Za-z_.+-]*)"#,
        Kind::SerialNumber,
        |key, before, value| {
            (value.len() > 3 && !value.starts_with("8250")).then(|| word(key, before, value))?
        },
    ),
    Row(
        r#"(?i)(?:wwn|wwpn|wwnn|wwid|sas_?addr(?:ess)?|sas address|device_name|device name|logical[ _]id|host_add|port_?name|node_?name|port name|node name|guid|eui64|eui|nguid|fabric_?name)[ \t]*[:=(#"]{0,2}[ \t]*"?(?:0x)?([0-9a-fA-F]{12}|[0-9a-fA-F]{16}|[0-9a-fA-F]{32})(?:[^0-9A-Za-z]|$)"#,
        Kind::SerialNumber,
        bare_octets,
    ),
    Row(
        r"(?i)(?:guid|gid)[ \t]*[:=(#]{0,2}[ \t]*((?:[0-9a-f]{4}:){3}[0-9a-f]{4})(?:[^0-9A-Za-z:]|$)",
        Kind::SerialNumber,
        bare_octets,
    ),
    // The login of a storage target by SRP, and ports of Fibre Channel.
    Row(
        r"\b(?:id_ext|ioc_guid|initiator_ext|dgid)=([0-9a-fA-F]{16}|[0-9a-fA-F]{32})(?:[^0-9A-Za-z]|$)",
        Kind::SerialNumber,
        bare_octets,
    ),
    Row(r"(?i)\bport(?: id)?[ :=]+0x([0-9a-f]{16})(?:[^0-9a-z]|$)", Kind::SerialNumber, bare_octets),
    // drivers/scsi/scsi_lib.c scsi_vpd_lun_id: a maker's name, model and serial number, with blanks between.
    Row(r#"\bt10\.([^\r\n"',;)]*[^\s"',;)])"#, Kind::SerialNumber, word),
    // Words may stand between: `GUID of port 1 is ...`.
    Row(
        r"(?i)\bg?u?id\b.*[^0-9a-z:]((?:[0-9a-f]{4}:){3}[0-9a-f]{4})(?:[^0-9a-z:]|$)",
        Kind::SerialNumber,
        bare_octets,
    ),
    Row(
        r"ll header: (?:[0-9a-f]+: )?((?:[0-9a-f]{2}[ :]){13}[0-9a-f]{2})(?:[^0-9a-z]|$)",
        Kind::MacAddress,
        bare_octets,
    ),
    Row(
        r"(?i)\b(?:mac|mac_?addr|mac_?address|hwaddr|node addr|hw addr|mac addr|mac address|ether(?:net)? addr(?:ess)?)(?: is)?[ \t]*[:=(]{0,2}[ \t]*(?:0x)?([0-9a-f]{12}|[0-9a-f]{4}[.:-][0-9a-f]{4}[.:-][0-9a-f]{4}|[0-9a-f]{2}(?: [0-9a-f]{2}){5})(?:[^0-9A-Za-z]|$)",
        Kind::MacAddress,
        bare_octets,
    ),
    Row(r"(?:Set hostname to|Hostname set to) <([^>\r\n]+)>", Kind::Name, host),
    // ibmvscsi names the partition that serves the disk.
    Row(r"host partition ([^\s,()]+)", Kind::Name, host),
    Row(
        r#"(?i)\b(?:host[ _]?name|nodename)(?: is|[ \t]?[:=])?[ \t]*["'<]?([0-9A-Za-z][0-9A-Za-z_.-]*)"#,
        Kind::Name,
        host,
    ),
    // fs/nfs, fs/lockd, net/sunrpc and fs/smb name the server that does not answer.
    Row(r"(?:nfs4?|NFS|lockd|RPC|CIFS)[^\r\n]*? (?:NFSv4 )?[Ss]erver ([^\s,:'()]+)", Kind::Name, host),
    Row(
        r"lockd: (?:cannot (?:un)?monitor|rebind host|host garbage collection for|[a-z_]+ on) ([^\s,]+)",
        Kind::Name,
        host,
    ),
    // drivers/block/drbd of version 9 names the peer behind the resource and its device.
    Row(r"\bdrbd [^\s:]+ (?:drbd[0-9]+ )?(?:tcp:|rdma:)?([0-9A-Za-z][^\s:]*): ", Kind::Name, host),
    // net/ipv4/ipconfig.c prints what the host got from DHCP.
    Row(r"(?:^|\s)host=([^\s,]+),", Kind::Name, host),
    Row(r"\b(?:nis-)?domain=([^\s,]+)", Kind::Name, domain),
    Row(r"\brootpath=([^\s,]+)", Kind::BootSource, word),
    Row(r#"\b(?:acct|AUID|UID|OUID|FSUID|SUID|EUID)="([^"\r\n]+)""#, Kind::Name, word),
    Row(r#"/home/([^/\s"'<>]+)"#, Kind::Name, word),
    Row(r#"/(?:run/)?media/([^\s"'<>,;:)]+)"#, Kind::Name, word),
    Row(r#"\b[a-zA-Z][a-zA-Z0-9+]{1,15}://([^\s"'<>)`]*[^\s"'<>)`.,;])"#, Kind::BootSource, address_of_url),
    Row(r#"/dev/mapper/([^\s"',;:)\]]+)"#, Kind::BootSource, mapped_volume),
    Row(r#"(?:^|[\s"'(])(?://|\\\\)([^/\\\s"']+[/\\][^\s"']+)"#, Kind::BootSource, word),
    Row(r"device label ([^\s]+)", Kind::BootSource, word),
    Row(
        r#"/dev/disk/by-(?:id|label|partlabel|path|uuid|partuuid)/([^\s"',;)]+)"#,
        Kind::BootSource,
        disk_link,
    ),
    Row(
        r"dev-(?:mapper|disk-by\\(?:x5c)?x2d(?:id|label|partlabel|uuid|partuuid))-([^\s]+?)\.(?:device|swap)",
        Kind::BootSource,
        word,
    ),
    // Who built a kernel by hand: user@host of a private machine.
    Row(r"Linux version [^ ]+ \(([^()\s@]+@[^()\s]+)\)", Kind::Name, builder),
];

/// Compiles a table of rules.
fn compile(rows: &[Row]) -> Vec<Rule> {
    let rule = |Row(source, kind, pseudonym): &Row| {
        Some(Rule { pattern: Regex::new(source).ok()?, kind: *kind, pseudonym: *pseudonym })
    };
    rows.iter().filter_map(rule).collect()
}

/// Text with its identifiers replaced, and how many were found, new and marked ones.
pub(super) struct Rewritten {
    pub(super) text: String,
    pub(super) found: usize,
}

/// Replaces identifiers that are recognised by their form.
pub(super) fn replace_by_form(key: &Key, text: &str, counts: &mut Counts) -> Rewritten {
    rewrite(&FORMS, key, text, counts)
}

/// Replaces network addresses.
pub(super) fn replace_addresses(key: &Key, text: &str, counts: &mut Counts) -> Rewritten {
    rewrite(&ADDRESSES, key, text, counts)
}

/// Replaces identifiers that are recognised by the words before them.
pub(super) fn replace_by_context(key: &Key, text: &str, counts: &mut Counts) -> Rewritten {
    rewrite(&CONTEXTS, key, text, counts)
}

/// Applies rules in order.
fn rewrite(rules: &[Rule], key: &Key, text: &str, counts: &mut Counts) -> Rewritten {
    let mut rewritten = Rewritten { text: text.to_owned(), found: 0 };
    for rule in rules {
        if let Some(text) = rule.rewrite(key, &rewritten.text, &mut rewritten.found, counts) {
            rewritten.text = text;
        }
    }
    rewritten
}

impl Rule {
    /// The text with this rule's identifiers replaced; `None` if nothing changed.
    fn rewrite(&self, key: &Key, text: &str, found: &mut usize, counts: &mut Counts) -> Option<String> {
        // Most lines have no match, and a search without groups is much faster.
        if !self.pattern.is_match(text) {
            return None;
        }
        let mut out = String::new();
        let (mut copied, mut at) = (0, 0);
        while let Some(captures) = self.pattern.captures_at(text, at) {
            let Some(value) = captures.get(1) else { break };
            // The match may include one character behind the value, which may begin the next match.
            at = value.end();
            let Some(pseudonym) = (self.pseudonym)(key, &text[..value.start()], value.as_str()) else {
                continue;
            };
            *found += 1;
            if pseudonym != value.as_str() {
                counts.add(self.kind);
                out.push_str(&text[copied..value.start()]);
                out.push_str(&pseudonym);
                copied = value.end();
            }
        }
        if copied == 0 {
            return None;
        }
        out.push_str(&text[copied..]);
        Some(out)
    }
}

/// The pseudonym of a serial number or name.
fn word(key: &Key, _before: &str, value: &str) -> Option<String> {
    // The serial number of a USB host controller is its PCI address.
    let is_known = is_pseudonym(value) || value.parse::<Bdf>().is_ok();
    Some(if is_known { value.to_owned() } else { key.word(value) })
}

/// The pseudonym of a host name.
fn host(key: &Key, _before: &str, value: &str) -> Option<String> {
    // What follows "hostname" in a sentence.
    const WORDS: [&str; 12] =
        ["to", "is", "set", "for", "from", "of", "in", "not", "changed", "lookup", "resolution", "was"];
    if WORDS.contains(&value) {
        return None;
    }
    Some(if is_pseudonym(value) || value == "(none)" { value.to_owned() } else { key.host(value) })
}

/// The pseudonym of a name below `/dev/disk`. A `by-path` link to a PCI address is no identifier.
fn disk_link(key: &Key, before: &str, value: &str) -> Option<String> {
    let is_place = value.starts_with("pci-") && !value.contains("ip-");
    (!is_place).then(|| word(key, before, value))?
}

/// The pseudonym of a volume's name. `control` is there on every host.
fn mapped_volume(key: &Key, before: &str, value: &str) -> Option<String> {
    (value != "control").then(|| word(key, before, value))?
}

/// The pseudonym of a network's name, not of an IOMMU domain's number: `domain=0x0015`.
fn domain(key: &Key, before: &str, value: &str) -> Option<String> {
    value.contains(|c: char| c.is_ascii_alphabetic() && c != 'x').then_some(())?;
    (!value.starts_with("0x")).then(|| host(key, before, value))?
}

/// Sites to which messages of the kernel and of drivers point.
const PUBLIC_SITES: [&str; 22] = [
    "kernel.org",
    "intel.com",
    "01.org",
    "amd.com",
    "github.com",
    "redhat.com",
    "suse.com",
    "suse.de",
    "opensuse.org",
    "launchpad.net",
    "ubuntu.com",
    "debian.org",
    "freedesktop.org",
    "linuxtv.org",
    "nvidia.com",
    "mellanox.com",
    "broadcom.com",
    "microchip.com",
    "ibm.com",
    "microsoft.com",
    "sourceforge.net",
    "vmware.com",
];

/// The pseudonym of what follows `scheme://`, unless it is at one of the public sites.
fn address_of_url(key: &Key, before: &str, value: &str) -> Option<String> {
    let host = value.split(['/', ':', '?', '#']).next().unwrap_or_default();
    let is_public =
        |site: &str| host.strip_suffix(site).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    (!PUBLIC_SITES.iter().any(|site| is_public(site))).then(|| word(key, before, value))?
}

/// Whether a value already is a pseudonym.
fn is_pseudonym(value: &str) -> bool {
    let bare: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    let bare = bare.to_ascii_lowercase();
    is_word(value)
        || ["02696f", "696f746f"].iter().any(|mark| bare.starts_with(mark))
        || value.contains(":redacted-")
}

/// The pseudonym of an NQN or IQN.
fn qualified_name(key: &Key, _before: &str, name: &str) -> Option<String> {
    // The value was already redacted as a secret.
    if name.strip_suffix(REDACTED).is_some_and(|rest| rest.ends_with(':')) {
        return None;
    }
    let scheme = name.get(..4)?;
    let mark = format!("{scheme}2000-01.{REDACTED}:");
    if name.strip_prefix(&mark).is_some_and(|rest| is_word(&format!("{REDACTED}-{rest}"))) {
        return Some(name.to_owned());
    }
    let hashed = key.word(name);
    Some(format!("{mark}{}", hashed.rsplit('-').next().unwrap_or_default()))
}

/// A UUID in any grouping: digits change, everything between them stays.
fn uuid(key: &Key, _before: &str, value: &str) -> Option<String> {
    let digits: String = value.chars().filter(char::is_ascii_hexdigit).collect();
    regroup(value, &key.uuid(&digits.to_ascii_lowercase()), &digits)
}

/// A UUID in a name that systemd escaped, with `\x2d` for dashes.
fn escaped_uuid(key: &Key, before: &str, value: &str) -> Option<String> {
    let escape = if value.contains(r"\x5cx2d") { r"\x5cx2d" } else { r"\x2d" };
    uuid(key, before, &value.replace(escape, "-")).map(|pseudonym| pseudonym.replace('-', escape))
}

/// Octets with colons or dashes: a MAC address, alone or inside something longer. libata prints registers of a disk alike:
/// `ACPI cmd ef/10:03:00:00:00:a0`.
fn octets(key: &Key, before: &str, value: &str) -> Option<String> {
    let registers = before.strip_suffix('/').and_then(|before| before.get(before.len().checked_sub(6)?..));
    let is_command = registers.is_some_and(|words| words.starts_with("cmd ") || words.starts_with("res "));
    (!is_command).then(|| bare_octets(key, before, value))?
}

/// Octets of one digit or two: `0:1b:21:aa:bb:cc`.
fn short_octets(key: &Key, before: &str, value: &str) -> Option<String> {
    let full: Vec<String> = value.split(':').map(|octet| format!("{octet:0>2}")).collect();
    octets(key, before, &full.join(":"))
}

/// The same without separators, or with others, where words tell what they are.
fn bare_octets(key: &Key, _before: &str, value: &str) -> Option<String> {
    let digits: String = value.chars().filter(char::is_ascii_hexdigit).collect();
    let octets = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect::<Option<Vec<u8>>>()?;
    let pseudonym: String =
        pseudonym_of_octets(key, &octets).iter().map(|octet| format!("{octet:02x}")).collect();
    regroup(value, &pseudonym, &digits)
}

/// The pseudonym of as many octets. An identifier that contains a MAC address or EUI-64 contains its pseudonym.
fn pseudonym_of_octets(key: &Key, octets: &[u8]) -> Vec<u8> {
    let mac =
        |octets: &[u8]| <[u8; 6]>::try_from(octets).map(|mac| key.mac(mac).to_vec()).unwrap_or_default();
    let eui64 =
        |octets: &[u8]| <[u8; 8]>::try_from(octets).map(|eui| key.eui64(eui).to_vec()).unwrap_or_default();
    match octets.len() {
        6 => mac(octets),
        // A DHCP client identifier or PXE's BOOTIF=: the hardware's type, then its address.
        7 => [&octets[..1], &mac(&octets[1..])].concat(),
        8 => eui64(octets),
        // The start of an Ethernet frame, as netfilter logs it: to, from, type.
        14 => [mac(&octets[..6]), mac(&octets[6..12]), octets[12..].to_vec()].concat(),
        // InfiniBand: flags, queue pair, prefix of the GID, GUID of the port (RFC 4391, section 9.1.1).
        20 => [&octets[..12], &eui64(&octets[12..])].concat(),
        _ => key.octets(octets),
    }
}

/// Puts new digits in place of the old, in the case that they had.
fn regroup(value: &str, new: &str, old: &str) -> Option<String> {
    if new.eq_ignore_ascii_case(old) {
        return Some(value.to_owned());
    }
    let upper = old.bytes().any(|byte| byte.is_ascii_uppercase());
    let mut digits = new.chars();
    value
        .chars()
        .map(|c| match c.is_ascii_hexdigit() {
            true => digits.next().map(|digit| if upper { digit.to_ascii_uppercase() } else { digit }),
            false => Some(c),
        })
        .collect()
}

/// An IPv6 address, in the form that it had.
fn ipv6(key: &Key, _before: &str, value: &str) -> Option<String> {
    // Eight pairs of digits are a WWN, which has had its turn.
    if value.split(':').all(|group| group.len() == 2) {
        return None;
    }
    let address: Ipv6Addr = value.parse().ok()?;
    let pseudonym = key.ipv6(address);
    let same = pseudonym == address;
    // The kernel writes %pI6 in full, %pI6c short.
    let full = |address: Ipv6Addr| address.segments().map(|segment| format!("{segment:04x}")).join(":");
    Some(match (same, value.len() == 39) {
        (true, _) => value.to_owned(),
        (false, true) => full(pseudonym),
        (false, false) => pseudonym.to_string(),
    })
}

fn ipv4(key: &Key, before: &str, value: &str) -> Option<String> {
    let address: Ipv4Addr = value.parse().ok()?;
    (!follows_version_word(before)).then(|| key.ipv4(address).to_string())
}

/// Versions of drivers and firmware often have four numbers, too.
fn follows_version_word(before: &str) -> bool {
    const WORDS: [&str; 12] = [
        "version", "ver", "v", "fw", "firmware", "rev", "revision", "release", "driver", "bios", "nvm", "api",
    ];
    let before = before.trim_end_matches([' ', ':', '=', '(', '[', '<', '.', '"', '\'', ',']);
    let before = before.strip_suffix(" is").unwrap_or(before);
    let last = before.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    WORDS.iter().any(|word| last.eq_ignore_ascii_case(word))
}

/// Users that build kernels for a distribution, and say nothing of this host.
const BUILDERS: [&str; 8] =
    ["mockbuild@", "buildd@", "debian-kernel@", "geeko@", "kernel@", "builduser@", "linux@", "builder@"];

/// The host on which the kernel was built, unless it is a distribution's.
fn builder(key: &Key, _before: &str, value: &str) -> Option<String> {
    if BUILDERS.iter().any(|builder| value.starts_with(builder)) {
        return None;
    }
    let (_, host) = value.split_once('@')?;
    Some(format!("{REDACTED}@{}", key.host(host)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn key() -> Key {
        Key::new([7; Key::BYTES])
    }

    #[test]
    fn every_pattern_compiles() {
        for Row(source, ..) in FORM_ROWS.iter().chain(ADDRESS_ROWS).chain(CONTEXT_ROWS) {
            let pattern = Regex::new(source).unwrap();
            assert!(pattern.captures_len() > 1, "{source}: its first group is what is replaced");
        }
    }

    /// What becomes of `text`: `?` for each character that the key decides.
    fn check(text: &str, expect: &str) {
        let all = |text: &str| {
            let mut counts = Counts::default();
            let text = replace_by_form(&key(), text, &mut counts).text;
            let text = replace_addresses(&key(), &text, &mut counts).text;
            replace_by_context(&key(), &text, &mut counts).text
        };
        let got = all(text);
        assert_eq!(all(&got), got, "redacting twice changes nothing more");
        let fits = got.len() == expect.len()
            && got.bytes().zip(expect.bytes()).all(|(got, expect)| expect == b'?' || got == expect);
        assert!(fits, "{text}: got {got}, expected {expect}");
    }

    #[test]
    fn forms_are_kept() {
        check("eth0: 90:B1:1c:0a:0b:0c up", "eth0: 02:69:6F:??:??:?? up");
        check("x:1500:90:b1:1c:0a:0b:0c:1500", "x:1500:02:69:6f:??:??:??:1500");
        check("BOOTIF=01-90-b1-1c-0a-0b-0c", "BOOTIF=01-02-69-6f-??-??-??");
        check("enx90b11c0a0b0c: renamed", "enx02696f??????: renamed");
        check("wwpn 50:06:01:60:bb:e0:1a:2c", "wwpn 02:69:6f:??:??:??:??:??");
        check("DSN 90-b1-1c-ff-ff-0a-0b-0c", "DSN 02-69-6f-ff-ff-??-??-??");
        check("fe80::92b1:1cff:fe0a:b0c is here", "fe80::69:6fff:fe??:???? is here");
        check("from 10.1.2.3:4420 to", &format!("from {}:4420 to", key().ipv4(Ipv4Addr::new(10, 1, 2, 3))));
        check("(3f5ad593-4546-4a94-a374-bcfb68aa11f7)", "(696f746f-????-8???-8???-????????????)");
        check("U78D2.001.WZS0A1B-P1-C6", "U78D2.001.IOT????-P1-C6");
        check("usb 1-1: SerialNumber: A B 12 ", "usb 1-1: SerialNumber: redacted-???????? ");
        check(
            r"dev-disk-by\x2duuid-3f5ad593\x2d4546\x2d4a94\x2da374\x2dbcfb68aa11f7.device",
            r"dev-disk-by\x2duuid-696f746f\x2d????\x2d8???\x2d8???\x2d????????????.device",
        );
        check(r"dev-mapper-rhel_web01\x2droot.device - /dev", "dev-mapper-redacted-????????.device - /dev");
        check("sas_addr(0x500304801f2a0f01), phy(1)", "sas_addr(0x02696f??????????), phy(1)");
        check("Node GUID: 0x0002c90300a1b2c3", "Node GUID: 0x02696f??????????");
        check("node_guid = 0002:c903:00a1:b2c3", "node_guid = 0269:6f??:????:????");
        check(
            "ctrl: NQN \"nqn.2014-08.org.nvmexpress:uuid:3f5ad593\", addr",
            "ctrl: NQN \"nqn.2000-01.redacted:????????\", addr",
        );
        check(
            "MAC=90:b1:1c:0a:0b:0c:90:b1:1c:0a:0b:0d:08:00 S",
            "MAC=02:69:6f:??:??:??:02:69:6f:??:??:??:08:00 S",
        );
        check(
            "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a1",
            "80:00:02:08:fe:80:00:00:00:00:00:00:02:69:6f:??:??:??:??:??",
        );
        check("UOPWR.10ABCDE-Node0-Slot1", "UOPWR.IOT????-Node0-Slot1");
        check(
            "dm-uuid-mpath-3600508b400105e210000900000490000 x",
            "dm-uuid-mpath-302696f?????????????????????????? x",
        );
        check("scsi-35000c500a1b2c3d4-part1", "scsi-302696f??????????-part1");
        check("rport-1:0-2: port 0x500601603ce00a1b up", "rport-1:0-2: port 0x02696f?????????? up");
        check(
            "id_ext=0002c90300a1b2c3,ioc_guid=0002c90300a1b2c3",
            "id_ext=02696f??????????,ioc_guid=02696f??????????",
        );
        check("alua: device t10.ATA     DISK  S3Z9 ", "alua: device t10.redacted-???????? ");
        check(
            "ll header: 00000000: 90 b1 1c 0a 0b 0c 90 b1 1c 0a 0b 0d 08 00",
            "ll header: 00000000: 02 69 6f ?? ?? ?? 02 69 6f ?? ?? ?? 08 00",
        );
        check("lockd: cannot monitor nas01", "lockd: cannot monitor host-????????");
        check(
            "NFS: state manager: check lease failed on NFSv4 server nas01 with error 13",
            "NFS: state manager: check lease failed on NFSv4 server host-???????? with error 13",
        );
        check(
            "     host=web01, domain=corp.example, nis-domain=(none)",
            "     host=host-????????, domain=host-????????, nis-domain=(none)",
        );
        check("rootserver=0.0.0.0, rootpath=/srv/web01", "rootserver=0.0.0.0, rootpath=redacted-????????");
        check("/dev/mapper/rhel_web01-root: clean", "/dev/mapper/redacted-????????: clean");
        check("fetch http://mirror.corp.example/x.", "fetch http://redacted-????????.");
        check("FAT-fs: /run/media/jo/STICK: dirty", "FAT-fs: /run/media/redacted-????????: dirty");
        check("systemd[1]: Set hostname to <web01>.", "systemd[1]: Set hostname to <host-????????>.");
        check("Linux version 6.9.0 (jo@attic) (gcc)", "Linux version 6.9.0 (redacted@host-????????) (gcc)");
    }

    #[test]
    fn text_without_identifiers_stays() {
        for text in [
            "pci 0000:3b:00.0: [8086:1521] type 00 class 0x020000 PCIe Endpoint",
            "pci_bus 0000:00: root bus resource [mem 0xfd000000-0xfe7fffff window]",
            "reg00: base=0x000000000 (    0MB), size= 2048MB, count=1: write-back",
            "00000000-00000fff : Reserved",
            "DMAR: [DMA Read NO_PASID] Request device [00:02.0] fault addr 0x7ffff000 [fault reason 0x06]",
            "fe000000.pcie: host bridge /soc/pcie@fe000000 ranges:",
            "BIOS-e820: [mem 0x0000000000000000-0x000000000009ffff] usable",
            "lpfc: Emulex LightPulse Fibre Channel SCSI driver 14.2.0.14",
            "mpt3sas version 43.100.00.00 loaded",
            "be2net 0045:01:00.1: be2net version is 11.1.215.0",
            "usb 1-1: New USB device strings: Mfr=1, Product=2, SerialNumber=3",
            "usb usb1: SerialNumber: 0000:00:14.0",
            "44e09000.serial: ttyO0 at MMIO 0x44e09000 (irq = 72) is a OMAP UART0",
            "ata3.00: ACPI cmd ef/10:03:00:00:00:a0 (SET FEATURES) succeeded",
            "Serial: 8250/16550 driver, 32 ports, IRQ sharing enabled",
            "00:00:00:00:00:00 ff:ff:ff:ff:ff:ff",
            "TLP Header: 04000001 0000220f 01070000 9eece789",
            "12:34:56 2026-11-21T01:22:03,123456+00:00",
            "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug AER PCIeCapability LTR]",
            "amdgpu 0000:0b:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32769)",
            "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000b address=0xbe000 flags=0x0020]",
            "see https://docs.kernel.org/admin-guide/hw-vuln/srso.html for more",
            "device-mapper: /dev/mapper/control opened",
            "Linux version 6.1.0 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0)",
        ] {
            check(text, text);
        }
    }
}
