//! Which kernel and initramfs arguments carry a secret, and what of a value is one.
//!
//! The kernel hands every argument that it does not know to the initramfs and to installers, and anyone may add new ones. So a
//! name counts by its words (`password`, `token`, `key` ...), and a value of an option that `public.rs` does not list is shown only if it
//! consists of short numbers and common words: too much is redacted rather than too little. Options that verdicts are made from are
//! exempt; their values are words and numbers from a table.

use super::diagnosed_option::is_diagnosed;
use super::pseudonym::REDACTED;
use super::{public, sign};
use crate::kernel::options;
use memchr::memmem::Finder;

/// Parts of names that mean a secret wherever they stand.
pub(super) const ANYWHERE: [&str; 16] = [
    "passw",
    "passphrase",
    "secret",
    "token",
    "credential",
    "cookie",
    "apikey",
    "authoriz",
    "bearer",
    "community",
    "privkey",
    "private",
    "chap",
    "username",
    "keyfile",
    "signature",
];
/// Ends of one word of a name.
pub(super) const WORD_ENDS: [&str; 11] =
    ["key", "keys", "pw", "pwd", "pass", "psk", "auth", "creds", "cred", "wpa", "wep"];
/// Words that count only as the last one.
pub(super) const LAST_WORDS: [&str; 6] = ["user", "login", "pin", "otp", "sid", "authtok"];
/// Names that the rules above catch, and that say nothing secret.
const HARMLESS: [&str; 6] =
    ["spectre_v2_user", "bypass", "hotkey", "sysrq_key", "trusted_key", "no_user_key"];
/// Tables of device mapper targets, in which keys of dm-crypt stand.
pub(super) const TABLES: [&str; 3] = ["dm_mod.create", "dm", "dm_crypt"];
/// Options whose value may have an `@` between a size and an address.
const SIZES_AT_ADDRESSES: [&str; 12] = [
    "crashkernel",
    "efi_fake_mem",
    "mtdparts",
    "cma",
    "mem",
    "reserve_mem",
    "phram.phram",
    "ramoops.mem_address",
    "hugetlb_cma",
    "netconsole",
    "kgdboe",
    "memmap",
];
/// Options in whose value an `@` separates no user: it is part of a path, or of the name of a Btrfs or ZFS volume.
const WITHOUT_USERS: [&str; 4] = ["rootflags", "boot_image", "initrd", "bootfs"];
/// Digests of images that anyone may know.
const PUBLIC_DIGESTS: [&str; 4] = ["ostree", "roothash", "usrhash", "boot_image"];
/// How hashed passwords begin (crypt(5)).
pub(super) const HASH_MARKS: [&str; 8] = ["$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$argon2"];
/// How tokens of GitHub, GitLab, Slack, Vault, Docker, npm and OpenAI begin.
pub(super) const SERVICE_PREFIXES: [&str; 13] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "hvs.",
    "dckr_pat_",
    "npm_",
    "sk-proj-",
];
/// How values of dracut's options begin that may name a user without `://`.
pub(super) const SCHEMES: [&str; 10] =
    ["iscsi:", "nfs:", "nfs4:", "cifs:", "nbd:", "live:", "fcoe:", "sshfs:", "ftp:", "http:"];
/// Shorter than this, random letters are hard to tell from words.
const TOKEN_CHARS_MIN: usize = 20;
/// The same without letters of both cases: identifiers and names of functions may have as many.
const ONE_CASE_TOKEN_CHARS_MIN: usize = 24;
/// Hexadecimal digits of 160 bits: longer than any identifier that has a form of its own.
const HEX_TOKEN_CHARS_MIN: usize = 40;
/// A secret shorter than this would be found inside words that have nothing to do with it.
const LEARNT_CHARS_MIN: usize = 6;
/// Every line is searched for each secret that was seen: a log of nothing but secrets must not take for ever.
const LEARNT_MAX: usize = 64;

/// Secrets that were seen, longest first: one may contain another. Their values are redacted wherever else they stand.
#[derive(Debug, Clone, Default)]
pub(super) struct Found(Vec<Known>);

/// A secret that was seen.
#[derive(Debug, Clone)]
struct Known {
    value: String,
    finder: Finder<'static>,
}

impl Found {
    /// Remembers a secret's value, unless it is short, or part of an option's name.
    pub(super) fn add(&mut self, value: &str) {
        let value = value.trim_matches(['"', '\'']);
        if self.0.len() < LEARNT_MAX
            && value.chars().count() >= LEARNT_CHARS_MIN
            && !value.contains(REDACTED)
            && !self.0.iter().any(|known| known.value == value)
            && !is_word_of_options(value)
        {
            let at = self.0.partition_point(|known| known.value.len() >= value.len());
            self.0.insert(at, Known { value: value.to_owned(), finder: Finder::new(value).into_owned() });
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Those that a text contains, longest first.
    pub(super) fn within(&self, text: &str) -> Vec<String> {
        self.known_within(text).map(|known| known.value.clone()).collect()
    }

    /// Whether a text contains one.
    pub(super) fn is_any_within(&self, text: &str) -> bool {
        self.known_within(text).next().is_some()
    }

    fn known_within(&self, text: &str) -> impl Iterator<Item = &Known> {
        self.0.iter().filter(|known| known.finder.find(text.as_bytes()).is_some())
    }
}

/// A password that is also a word of an option must not take the option with it.
fn is_word_of_options(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let table = options::table();
    let names = table.options.iter().map(|option| &option.name).chain(&table.unrelated);
    names.into_iter().any(|name| name.to_ascii_lowercase().contains(&value))
}

/// Whether a text begins with two hexadecimal digits.
pub(super) fn starts_with_hex(text: &str) -> bool {
    text.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2
}

/// Whether a value may contain a token: a quick look that passes over most.
fn may_have_token(value: &str) -> bool {
    has_long_word(value)
        || sign::has_piece(value)
            && SERVICE_PREFIXES.iter().chain(&HASH_MARKS).any(|mark| value.contains(mark))
}

/// Whether one word is as long as a token.
pub(super) fn has_long_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_of_word = |byte: &&u8| is_word_char(char::from(**byte));
    // Such a word covers one of these places.
    (TOKEN_CHARS_MIN - 1..bytes.len()).step_by(TOKEN_CHARS_MIN).any(|at| {
        let before = bytes[..at].iter().rev().take(TOKEN_CHARS_MIN).take_while(is_of_word).count();
        let from_here = bytes[at..].iter().take(TOKEN_CHARS_MIN).take_while(is_of_word).count();
        from_here > 0 && before + from_here >= TOKEN_CHARS_MIN
    })
}

/// Whether the whole value of this option is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    if is_secret_anywhere(name) {
        return true;
    }
    let name = name.to_ascii_lowercase().replace('-', "_");
    let last_word = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).find(|word| !word.is_empty());
    !is_harmless(&name)
        && (TABLES.contains(&name.as_str()) || last_word.is_some_and(|word| LAST_WORDS.contains(&word)))
}

/// Whether a name means a secret wherever it stands, not only as the name of an option.
pub(super) fn is_secret_anywhere(name: &str) -> bool {
    if !sign::has_piece(name) {
        return false;
    }
    let name = name.to_ascii_lowercase().replace('-', "_");
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    !is_harmless(&name)
        && (ANYWHERE.iter().any(|part| name.contains(part))
            || is_percent_encoded(&name)
            || words.any(|word| WORD_ENDS.iter().any(|end| word.ends_with(end)) && !HARMLESS.contains(&word)))
}

/// Whether this is the stream of an SMMU's fault, as in `SID=0x1c00` and `sid=17(0x11 - AFI)`: a short number, and no session.
pub(super) fn is_stream_id(name: &str, value: &str) -> bool {
    let number = value.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_hex = number.strip_prefix("0x").is_some_and(|digits| u32::from_str_radix(digits, 16).is_ok());
    name.eq_ignore_ascii_case("sid") && (is_hex || number.parse::<u16>().is_ok())
}

/// Whether an option of this name is never redacted.
fn is_harmless(name: &str) -> bool {
    is_diagnosed(name) || HARMLESS.contains(&name)
}

/// `p%61ssword`: no option is spelled so, unless something is to be hidden.
fn is_percent_encoded(name: &str) -> bool {
    name.split('%').skip(1).any(starts_with_hex)
}

/// The value of an argument without its secrets. `name` is empty for a bare argument.
pub(super) fn without_secrets(name: &str, value: &str, found: &mut Found) -> String {
    if is_diagnosed(name) || value.is_empty() || value == REDACTED {
        return value.to_owned();
    }
    if is_secret(name) {
        found.add(value);
        return REDACTED.to_owned();
    }
    if let Some((flag, secret)) = value.split_once(':')
        && name.is_empty()
        && is_secret_anywhere(flag)
    {
        found.add(secret);
        return REDACTED.to_owned();
    }
    let value = without_secrets_inside(name, value, found);
    let is_shown = name.is_empty() || public::is_known(name) || public::is_common(&value);
    if is_shown { value } else { REDACTED.to_owned() }
}

/// A value without the parts that are secrets by their own names or forms.
pub(super) fn without_secrets_inside(name: &str, value: &str, found: &mut Found) -> String {
    let value = without_secret_parts(value, found);
    let has_no_user = is_size_at_address(name, &value) || is_path_with_at(name, &value);
    let value = if has_no_user { value } else { without_user_info(&value, found) };
    let value = without_query(&value, found);
    match PUBLIC_DIGESTS.contains(&name.to_ascii_lowercase().as_str()) {
        true => value,
        false => without_tokens(&value, found),
    }
}

/// `vers=3,password=x,y` and `systemd.setenv=PASSWORD=x`: parts with a name of their own. What follows a secret up to the next
/// `name=` may belong to it.
fn without_secret_parts(value: &str, found: &mut Found) -> String {
    let mut out = String::with_capacity(value.len());
    let mut inside = false;
    for part in value.split_inclusive([',', ';', '&', '?', ' ']) {
        let (part, separator) = match part.char_indices().next_back() {
            Some((at, ',' | ';' | '&' | '?' | ' ')) => part.split_at(at),
            _ => (part, ""),
        };
        match secret_of(part) {
            Some(start) => {
                let (name, secret) = part.split_at(start);
                inside = true;
                found.add(secret);
                out.extend([name, if secret.is_empty() { "" } else { REDACTED }, separator]);
            }
            None if inside && !part.contains('=') => found.add(part),
            None => {
                inside = false;
                out.extend([part, separator]);
            }
        }
    }
    out
}

/// Where the secret of a part begins: behind the first `=` whose name means one, as in `a=PASSWORD=x`.
fn secret_of(part: &str) -> Option<usize> {
    let mut name = 0;
    memchr::memchr_iter(b'=', part.as_bytes()).find_map(|equals| {
        let own_name = &part[std::mem::replace(&mut name, equals + 1)..equals];
        let last = own_name.rsplit(':').next().unwrap_or(own_name);
        is_secret(last).then_some(equals + 1)
    })
}

/// `http://user:password@host` and `iscsi:user:password@host`: everything between the scheme and the last `@`.
fn without_user_info(value: &str, found: &mut Found) -> String {
    let Some(end) = value.rfind('@') else { return value.to_owned() };
    let before = &value[..end];
    let start = match before.find("://") {
        Some(at) => at + 3,
        None => SCHEMES.iter().find(|scheme| before.starts_with(**scheme)).map_or(0, |scheme| scheme.len()),
    };
    let user_info = &before[start.min(end)..];
    if user_info.is_empty() || user_info == REDACTED {
        return value.to_owned();
    }
    let (_, password) = user_info.split_once(':').unwrap_or((user_info, user_info));
    found.add(password);
    format!("{}{REDACTED}{}", &value[..start.min(end)], &value[end..])
}

/// `64M@16M`, `512M-2G:64M,2G-:128M@16M`, `6665@10.0.0.1/eth0`: digits, sizes and ranges, in an option that takes them.
fn is_size_at_address(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let before = value.rsplit_once('@').map_or("", |(before, _)| before);
    SIZES_AT_ADDRESSES.contains(&name.as_str()) && !before.contains("://")
}

/// `subvol=@`, `/@/boot/vmlinuz`, in an option whose value names no user.
fn is_path_with_at(name: &str, value: &str) -> bool {
    WITHOUT_USERS.contains(&name.to_ascii_lowercase().as_str()) && !value.contains("://")
}

/// What follows a `?` or `#` of a URL: signatures, tokens.
fn without_query(value: &str, found: &mut Found) -> String {
    let Some(scheme) = value.find("://") else { return value.to_owned() };
    let Some(at) = value[scheme..].find(['?', '#']).map(|at| scheme + at + 1) else {
        return value.to_owned();
    };
    let query = &value[at..];
    if query.is_empty() || query == REDACTED {
        return value.to_owned();
    }
    found.add(query);
    format!("{}{REDACTED}", &value[..at])
}

/// Text without parts that look random: long, of mixed letters and digits, of a form that a service gives its keys, or a hash of a
/// password.
pub(super) fn without_tokens(value: &str, found: &mut Found) -> String {
    if !may_have_token(value) {
        return value.to_owned();
    }
    if HASH_MARKS.iter().any(|mark| value.contains(mark)) {
        found.add(value);
        return REDACTED.to_owned();
    }
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c| !is_word_char(c)).unwrap_or(rest.len()));
        if is_token(word) || has_service_prefix(rest) {
            let (token, behind) = split_token(rest);
            found.add(token);
            out.push_str(REDACTED);
            rest = behind;
        } else {
            let separator = after.chars().next().map_or(0, char::len_utf8);
            out.extend([word, &after[..separator]]);
            rest = &after[separator..];
        }
    }
    out
}

/// The token that a text begins with, and what follows it. A JSON Web Token has three parts; base64 has slashes and equals signs.
fn split_token(text: &str) -> (&str, &str) {
    let continues = |c: char| is_word_char(c) || matches!(c, '.' | '/' | '=' | '~' | '-');
    text.split_at(text.find(|c| !continues(c)).unwrap_or(text.len()))
}

/// Whether a character may be inside a word of a token.
fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '+')
}

/// Whether a word looks random: long, of mixed case with digits, of one case with several digits, or of hexadecimal digits alone.
fn is_token(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
    let mixed = || {
        has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
            || is_one_case_token(word)
    };
    let long_hex = || word.len() >= HEX_TOKEN_CHARS_MIN && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    word.len() >= TOKEN_CHARS_MIN && (mixed() || long_hex() || is_access_key(word))
}

/// Letters of one case beyond those of hexadecimal digits, with two digits or more: base32, base36. Names have underscores.
fn is_one_case_token(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let has_other_letters = word.bytes().any(|byte| byte.is_ascii_alphabetic() && !byte.is_ascii_hexdigit());
    word.len() >= ONE_CASE_TOKEN_CHARS_MIN
        && digits >= 2
        && has_other_letters
        && !word.starts_with("0x")
        && !word.contains(['_', '+'])
}

/// Whether a text begins with a token of the form that GitHub, GitLab, Slack, Vault, Docker, npm and OpenAI give.
fn has_service_prefix(text: &str) -> bool {
    SERVICE_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        && split_token(text).0.len() >= TOKEN_CHARS_MIN
}

/// The form of an access key's ID at Amazon Web Services.
fn is_access_key(word: &str) -> bool {
    word.len() == 20
        && (word.starts_with("AKIA") || word.starts_with("ASIA"))
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for name in [
            "rd.iscsi.password",
            "rd.iscsi.in.username",
            "inst.vncpassword",
            "inst.sshpw",
            "rootpw",
            "rd.luks.key",
            "cryptkey",
            "passwd/root-password",
            "passwd/user-password-crypted",
            "systemd.set_credential",
            "TOKEN",
            "k3os.token",
            "coreos.auth",
            "wpa-psk",
            "API_KEY",
            "cifspass",
            "rd.iscsi.chap",
            "db_pwd",
            "ssh.authorized_keys",
            "user",
            "dm-mod.create",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "iommu.passthrough",
            "intel_iommu",
            "root",
            "quiet",
            "crashkernel",
            "rd.vconsole.keymap",
            "vconsole.keymap",
            "spectre_v2_user",
            "user_namespace.enable",
            "console",
            "keep_bootcon",
            "module.sig_enforce",
            "usbcore.autosuspend",
            "vfio_iommu_type1.allow_unsafe_interrupts",
            "pci",
            "nvme_core.default_ps_max_latency_us",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn streams_are_no_sessions() {
        assert!(is_stream_id("SID", "0x1c00"));
        assert!(is_stream_id("sid", "17(0x11 - AFI), pgd=25bec9003"));
        assert!(!is_stream_id("sid", "0x1c00ffffffffffff"));
        assert!(!is_stream_id("sid", "31d4d96e407aad42"));
        assert!(!is_stream_id("connect.sid", "17"));
    }

    #[test]
    fn no_option_of_the_table_is_a_secret() {
        for option in &options::table().options {
            assert!(!is_secret(&option.name), "{}", option.name);
            assert_eq!(without_secrets(&option.name, "a:b@c", &mut Found::default()), "a:b@c");
        }
    }

    #[test]
    fn secrets_within_values() {
        for (name, value, expect) in [
            ("ks", "http://jo:pw@boot/ks.cfg", "http://redacted@boot/ks.cfg"),
            ("ks", "http://jo:p@w/x@boot/ks.cfg", "http://redacted@boot/ks.cfg"),
            ("netroot", "iscsi:jo:pw:in:pw2@10.0.0.1::3260::iqn.x", "iscsi:redacted@10.0.0.1::3260::iqn.x"),
            ("nfsroot", "jo:pw@host:/srv,vers=3", "redacted@host:/srv,vers=3"),
            (
                "cifsroot",
                "//srv/share,username=jo,password=a,b,vers=3.0",
                "//srv/share,username=redacted,password=redacted,vers=3.0",
            ),
            ("systemd.setenv", "DB_PASSWORD=x", "redacted"),
            ("ds", "DB_PASSWORD=x", "DB_PASSWORD=redacted"),
            ("ds", "A=TOKEN=x", "A=TOKEN=redacted"),
            ("", "mypwd:x", "redacted"),
            ("wifi", "x12345", "redacted"),
            ("wifi", "on,1234", "on,1234"),
            ("ignition.config.url", "https://s3/x?sig=abc&t=1", "https://s3/x?redacted"),
            ("crashkernel", "512M-2G:64M,2G-:128M@16M", "512M-2G:64M,2G-:128M@16M"),
            ("mem", "4G@0x100000000", "4G@0x100000000"),
            ("foo", "Zm9vYmFyYmF6cXV4MTIzNDU2", "redacted"),
            ("foo", "$6$salt$hash", "redacted"),
            (
                "BOOT_IMAGE",
                "(hd0,gpt2)/boot/vmlinuz-6.1.0-13-amd64",
                "(hd0,gpt2)/boot/vmlinuz-6.1.0-13-amd64",
            ),
            (
                "BOOT_IMAGE",
                "(ieee1275/disk,msdos7)/boot/vmlinuz-6.18.0",
                "(ieee1275/disk,msdos7)/boot/vmlinuz-6.18.0",
            ),
            ("console", "ttyS0,115200n8", "ttyS0,115200n8"),
            ("rootflags", "subvol=@", "subvol=@"),
            ("rootflags", "subvol=@/x,password=y", "subvol=@/x,password=redacted"),
            ("BOOT_IMAGE", "/@/boot/vmlinuz-linux", "/@/boot/vmlinuz-linux"),
            ("BOOT_IMAGE", "http://jo:pw@boot/vmlinuz", "http://redacted@boot/vmlinuz"),
            ("foo", "JBSWY3DPEHPK3PXPJBSWY3DP", "redacted"),
            ("", "jo:pw@host", "redacted@host"),
        ] {
            let mut found = Found::default();
            let once = without_secrets(name, value, &mut found);
            assert_eq!(once, expect, "{name}={value}");
            assert_eq!(without_secrets(name, &once, &mut found), once, "{name}={value} twice");
        }
    }
}
