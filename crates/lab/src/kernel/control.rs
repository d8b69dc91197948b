//! The paragraph in which Debian describes a package (Debian Policy Manual, section 5.1).

/// The first paragraph of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Paragraph<'a> {
    text: &'a str,
}

/// A package that another one depends on in exactly one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exactly<'a> {
    /// The other package.
    pub(super) name: &'a str,
    /// The only version that will do.
    pub(super) version: &'a str,
}

impl<'a> Paragraph<'a> {
    /// The first paragraph of `text`.
    pub(super) fn first(text: &'a str) -> Self {
        let text = text.trim_start_matches('\n');
        Self { text: text.split_once("\n\n").map_or(text, |(first, _)| first) }
    }

    /// The first line of a field; names of fields are the same in any case.
    pub(super) fn field(&self, name: &str) -> Option<&'a str> {
        self.text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// What it depends on in exactly one version.
    pub(super) fn depends_exactly(&self) -> impl Iterator<Item = Exactly<'a>> {
        self.field("Depends").unwrap_or_default().split(',').filter_map(exactly)
    }
}

/// Reads `name (= version)`.
fn exactly(relation: &str) -> Option<Exactly<'_>> {
    let (name, version) = relation.trim().split_once('(')?;
    let version = version.strip_suffix(')')?.trim_start().strip_prefix('=')?;
    Some(Exactly { name: name.trim(), version: version.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const META: &str = "\
Package: linux-image-amd64
Version: 6.1.192-2
Provides: linux-image-generic, wireguard-modules (= 1.0.0)
Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2), kmod, initramfs-tools (>= 0.120~) | dracut
Description-en: Linux for 64-bit PCs (meta-package)
 Size: not a field
Size: 1480

Package: linux-image-amd64
Version: 6.1.176-1
";

    #[test]
    fn fields_of_the_first_paragraph() {
        let paragraph = Paragraph::first(META);
        assert_eq!(paragraph.field("Version"), Some("6.1.192-2"));
        assert_eq!(paragraph.field("size"), Some("1480"));
        assert_eq!(paragraph.field("Depends-"), None);
        let depends: Vec<_> = paragraph.depends_exactly().collect();
        assert_eq!(depends, [Exactly { name: "linux-image-6.1.0-56-amd64", version: "6.1.192-2" }]);
    }

    proptest! {
        #[test]
        fn any_text(text in "(?s).{0,200}|(Depends: [a-z(=), |]{0,60}\n)*") {
            let paragraph = Paragraph::first(&text);
            paragraph.field("Size");
            paragraph.depends_exactly().for_each(drop);
        }
    }
}
