//! The host's name, by which captures of one host are known. No verdict depends on it, and no inspection shows it.

use crate::{Cited, Tree};

/// Files that have it, and nothing else.
const FILES: [&str; 4] =
    ["etc/hostname", "proc/sys/kernel/hostname", "sos_commands/host/hostname", "hostname"];
/// Bytes of the longest name (`HOST_NAME_MAX` of Linux).
const BYTES_MAX: usize = 64;
/// What names begin with, up to the first dot, that systems have until somebody names them.
const UNNAMED: [&str; 3] = ["localhost", "localhost4", "localhost6"];

/// The name, from the first file that has one.
pub(super) fn read(tree: &Tree) -> Option<Cited<String>> {
    FILES.iter().filter_map(|file| tree.value(file)).find(|name| is_of_one_host(&name.value))
}

/// Whether a text can be the name of one host alone. Hosts that nobody has named are all called `localhost`, and `(none)` until they have started.
fn is_of_one_host(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let first = text.split_once('.').map_or(text, |(first, _)| first).to_ascii_lowercase();
    (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(is_name) && !UNNAMED.contains(&first.as_str())
}

#[cfg(test)]
mod tests {
    use super::is_of_one_host;

    #[test]
    fn names_that_many_hosts_have_are_none() {
        for name in [
            "localhost",
            "localhost.localdomain",
            "LOCALHOST.localdomain",
            "localhost4.localdomain4",
            "localhost6",
            "(none)",
            "",
            &"x".repeat(65),
        ] {
            assert!(!is_of_one_host(name), "{name}");
        }
        for name in ["node7", "localhost7", "my-localhost", "node7.localdomain"] {
            assert!(is_of_one_host(name), "{name}");
        }
    }
}
