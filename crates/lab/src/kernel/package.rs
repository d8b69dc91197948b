//! A Debian package's name and version, and the order of versions.

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
    /// The name of its folder in the cache, `name_version`. Neither part contains an underscore (Debian Policy
    /// Manual, sections 5.6.1 and 5.6.12).
    pub(super) fn folder_name(&self) -> String {
        format!("{}_{}", self.name, self.version)
    }

    /// The package as an argument of apt: `name=version`.
    pub(super) fn apt_argument(&self) -> String {
        format!("{}={}", self.name, self.version)
    }

    /// The inverse of [`Package::folder_name`]; `None` for the name of any other folder.
    pub(super) fn from_folder_name(folder: &str) -> Option<Self> {
        let (name, version) = folder.split_once('_')?;
        let whole = !name.is_empty() && !name.starts_with('.') && !version.is_empty();
        whole.then(|| Self { name: name.to_owned(), version: version.to_owned() })
    }

    /// Compares the two versions by Debian's rules (Debian Policy Manual, section 5.6.12).
    pub(super) fn compare_versions(&self, other: &Self) -> Ordering {
        let (epoch, upstream, revision) = split_version(&self.version);
        let (other_epoch, other_upstream, other_revision) = split_version(&other.version);
        compare_parts(epoch, other_epoch)
            .then_with(|| compare_parts(upstream, other_upstream))
            .then_with(|| compare_parts(revision, other_revision))
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Splits a version into epoch, upstream version and Debian revision.
fn split_version(version: &str) -> (&str, &str, &str) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, "0"));
    (epoch, upstream, revision)
}

/// Compares two parts of a version: in turn, their prefixes without digits and their numbers.
fn compare_parts(mut left: &str, mut right: &str) -> Ordering {
    while !left.is_empty() || !right.is_empty() {
        let (words, numbers) = (take_while(&mut left, is_not_digit), take_while(&mut left, is_digit));
        let (other_words, other_numbers) =
            (take_while(&mut right, is_not_digit), take_while(&mut right, is_digit));
        let order = compare_words(words, other_words).then_with(|| compare_numbers(numbers, other_numbers));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

fn is_not_digit(c: char) -> bool {
    !is_digit(c)
}

/// Removes the longest prefix of characters that belong from the text, and returns it.
fn take_while<'a>(text: &mut &'a str, belongs: fn(char) -> bool) -> &'a str {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    let (start, rest) = text.split_at(end);
    *text = rest;
    start
}

/// Compares parts without digits. A tilde sorts before the end of a text, letters before all other characters.
fn compare_words(left: &str, right: &str) -> Ordering {
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

/// Compares decimal numbers of any length.
fn compare_numbers(left: &str, right: &str) -> Ordering {
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
        assert_eq!(package(older).compare_versions(&package(newer)), Ordering::Less, "{older} < {newer}");
        assert_eq!(package(newer).compare_versions(&package(older)), Ordering::Greater, "{newer} > {older}");
    }

    #[test]
    fn versions_are_ordered_as_by_debian() {
        check("6.1.9-1", "6.1.176-1");
        check("6.1.192-2", "6.1.192-10");
        check("6.12.117-1~deb12u1", "6.12.117-1");
        check("6.12.117-1~~", "6.12.117-1~");
        check("6.1.192-2", "1:0.1-1");
        check("1.0", "1.0-1");
        check("1.0a", "1.0+");
        check("1.0-1", "1.0-1+b1");
        assert_eq!(package("1.0").compare_versions(&package("1.00-0")), Ordering::Equal);
    }

    #[test]
    fn only_names_of_package_folders_are_parsed() {
        let kernel = Package::from_folder_name("linux-image-6.12-amd64_6.12.117-1~deb12u1");
        assert_eq!(
            kernel.map(|p| p.folder_name()).as_deref(),
            Some("linux-image-6.12-amd64_6.12.117-1~deb12u1")
        );
        assert_eq!(Package::from_folder_name("lost+found"), None);
        assert_eq!(Package::from_folder_name(".tmp_1"), None);
        assert_eq!(Package::from_folder_name("busybox-static_"), None);
    }

    proptest! {
        #[test]
        fn versions_are_totally_ordered(a in "[0-9a~+.:-]{0,6}", b in "[0-9a~+.:-]{0,6}", c in "[0-9a~+.:-]{0,6}") {
            let (a, b, c) = (package(&a), package(&b), package(&c));
            prop_assert_eq!(a.compare_versions(&b), b.compare_versions(&a).reverse());
            if a.compare_versions(&b).is_le() && b.compare_versions(&c).is_le() {
                prop_assert!(a.compare_versions(&c).is_le());
            }
        }
    }
}
