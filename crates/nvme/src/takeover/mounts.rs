//! Mounted file systems, in every mount namespace that this process can see.

use super::{Root, Unreadable, names, text};
use std::collections::BTreeSet;

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Device number, such as `259:0`.
    pub(super) number: String,
    pub(super) source: String,
    pub(super) at: String,
}

/// The mounts of this process's namespace, then those found only in others. A mount namespace without a process is
/// not seen; the kernel's exclusive open (`O_EXCL`) catches those mounts.
pub(super) fn all(root: &Root) -> Result<Vec<Mount>, Unreadable> {
    let processes = root.path("proc");
    let mut mounts: Vec<Mount> =
        text(&processes.join("self/mountinfo"))?.unwrap_or_default().lines().filter_map(mount).collect();
    let namespace = |process: &str| std::fs::read_link(processes.join(process).join("ns/mnt")).ok();
    let mut seen: BTreeSet<_> = namespace("self").into_iter().collect();
    for process in names(&processes)?.into_iter().filter(|name| super::is_number(name)) {
        // Without root, other users' namespaces can't be read.
        if namespace(&process).is_some_and(|namespace| !seen.insert(namespace)) {
            continue;
        }
        // The process may have ended meanwhile.
        let lines = text(&processes.join(&process).join("mountinfo")).ok().flatten().unwrap_or_default();
        for found in lines.lines().filter_map(mount) {
            let is_known = |one: &Mount| one.number == found.number && one.source == found.source;
            if !mounts.iter().any(is_known) {
                let at = format!("{} (in the mount namespace of process {process})", found.at);
                mounts.push(Mount { at, ..found });
            }
        }
    }
    Ok(mounts)
}

/// Parses a line of `mountinfo` (`Documentation/filesystems/proc.rst`, 3.5). A hyphen ends the optional fields.
fn mount(line: &str) -> Option<Mount> {
    let mut words = line.split(' ');
    let number = words.nth(2)?.to_owned();
    let at = unescaped(words.nth(1)?);
    let source = unescaped(words.skip_while(|word| *word != "-").nth(2)?);
    Some(Mount { number, source, at })
}

/// Decodes `mountinfo`'s octal escapes, such as `\040` for a blank.
pub(super) fn unescaped(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = behind
            .get(..3)
            .filter(|digits| byte == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value = octal
            .map(|digits| digits.iter().fold(0_u16, |value, digit| value << 3 | u16::from(digit - b'0')));
        bytes.push(value.map_or(byte, |value| value as u8));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mounts_are_read_with_their_blanks() {
        let line = r"36 35 259:3 / /mnt/a\040b rw,noatime shared:1 master:2 - ext4 /dev/nvme0n1p3 rw";
        let expected = Mount {
            number: "259:3".to_owned(),
            source: "/dev/nvme0n1p3".to_owned(),
            at: "/mnt/a b".to_owned(),
        };
        assert_eq!(mount(line), Some(expected));
        assert_eq!(mount("36 35 259:3 / /mnt rw"), None);
        assert_eq!(unescaped(r"a\\0401\134\08"), r"a\ 1\\08");
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_not(line in ".*", word in r"[\\0-9a]*") {
            let _ = mount(&line);
            prop_assert!(unescaped(&word).len() <= 3 * word.len());
        }
    }
}
