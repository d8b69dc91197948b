//! A Debian package, and which of two is newer.

use std::{cmp::Ordering, fmt};

/// A Debian package in one version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Package {
    /// `linux-image-6.1.0-56-amd64`.
    pub name: String,
    /// `6.1.192-2`.
    pub version: String,
}

impl Package {
    /// Its folder in the cache. Neither names nor versions hold an underscore (Debian Policy Manual,
    /// sections 5.6.1 and 5.6.12).
    pub(super) fn folder(&self) -> String {
        format!("{}_{}", self.name, self.version)
    }

    /// What apt calls it: `name=version`.
    pub(super) fn apt_word(&self) -> String {
        format!("{}={}", self.name, self.version)
    }

    /// What [`Package::folder`] was made from.
    pub(super) fn of_folder(folder: &str) -> Option<Self> {
        let (name, version) = folder.split_once('_')?;
        let whole = !name.is_empty() && !name.starts_with('.') && !version.is_empty();
        whole.then(|| Self { name: name.to_owned(), version: version.to_owned() })
    }

    /// Whether its version is older, the same or newer (Debian Policy Manual, section 5.6.12).
    pub(super) fn age_order(&self, other: &Self) -> Ordering {
        let (epoch, upstream, revision) = split(&self.version);
        let (other_epoch, other_upstream, other_revision) = split(&other.version);
        part_order(epoch, other_epoch)
            .then_with(|| part_order(upstream, other_upstream))
            .then_with(|| part_order(revision, other_revision))
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Epoch, upstream version and Debian revision.
fn split(version: &str) -> (&str, &str, &str) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, "0"));
    (epoch, upstream, revision)
}

/// Compares stretches of other characters and stretches of digits in turn.
fn part_order(mut left: &str, mut right: &str) -> Ordering {
    while !left.is_empty() || !right.is_empty() {
        let (words, numbers) = (stretch(&mut left, is_no_digit), stretch(&mut left, is_digit));
        let (other_words, other_numbers) = (stretch(&mut right, is_no_digit), stretch(&mut right, is_digit));
        let order = words_order(words, other_words).then_with(|| numbers_order(numbers, other_numbers));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

fn is_no_digit(c: char) -> bool {
    !is_digit(c)
}

fn stretch<'a>(text: &mut &'a str, belongs: fn(char) -> bool) -> &'a str {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    let (start, rest) = text.split_at(end);
    *text = rest;
    start
}

/// A tilde sorts before the end, letters before all other characters.
fn words_order(left: &str, right: &str) -> Ordering {
    let weight = |c: Option<char>| match c {
        Some('~') => (0, '~'),
        None => (1, ' '),
        Some(c) if c.is_ascii_alphabetic() => (2, c),
        Some(c) => (3, c),
    };
    let (mut left, mut right) = (left.chars(), right.chars());
    loop {
        let (a, b) = (left.next(), right.next());
        match weight(a).cmp(&weight(b)) {
            Ordering::Equal if a.is_none() => return Ordering::Equal,
            Ordering::Equal => {}
            order => return order,
        }
    }
}

/// Compares as numbers of any length.
fn numbers_order(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn package(version: &str) -> Package {
        Package { name: "p".to_owned(), version: version.to_owned() }
    }

    fn check(older: &str, newer: &str) {
        assert_eq!(package(older).age_order(&package(newer)), Ordering::Less, "{older} < {newer}");
        assert_eq!(package(newer).age_order(&package(older)), Ordering::Greater, "{newer} > {older}");
    }

    #[test]
    fn older_and_newer() {
        check("6.1.9-1", "6.1.176-1");
        check("6.1.192-2", "6.1.192-10");
        check("6.12.117-1~deb12u1", "6.12.117-1");
        check("6.12.117-1~~", "6.12.117-1~");
        check("6.1.192-2", "1:0.1-1");
        check("1.0", "1.0-1");
        check("1.0a", "1.0+");
        check("1.0-1", "1.0-1+b1");
        assert_eq!(package("1.0").age_order(&package("1.00-0")), Ordering::Equal);
    }

    #[test]
    fn folders() {
        let kernel = Package::of_folder("linux-image-6.12-amd64_6.12.117-1~deb12u1");
        assert_eq!(kernel.map(|p| p.folder()).as_deref(), Some("linux-image-6.12-amd64_6.12.117-1~deb12u1"));
        assert_eq!(Package::of_folder("lost+found"), None);
        assert_eq!(Package::of_folder(".tmp_1"), None);
        assert_eq!(Package::of_folder("busybox-static_"), None);
    }

    proptest! {
        #[test]
        fn ages_are_an_order(a in "[0-9a~+.:-]{0,6}", b in "[0-9a~+.:-]{0,6}", c in "[0-9a~+.:-]{0,6}") {
            let (a, b, c) = (package(&a), package(&b), package(&c));
            prop_assert_eq!(a.age_order(&b), b.age_order(&a).reverse());
            if a.age_order(&b).is_le() && b.age_order(&c).is_le() {
                prop_assert!(a.age_order(&c).is_le());
            }
        }
    }
}
