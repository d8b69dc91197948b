//! Parses a package's control paragraph (Debian Policy Manual, section 5.1).

/// A control paragraph: lines of `Field: value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Paragraph<'a> {
    text: &'a str,
}

/// A dependency on exactly one version of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExactDependency<'a> {
    /// The package depended on.
    pub(super) name: &'a str,
    /// The required version.
    pub(super) version: &'a str,
}

impl<'a> Paragraph<'a> {
    /// The first paragraph of `text`.
    pub(super) fn first(text: &'a str) -> Self {
        let text = text.trim_start_matches('\n');
        Self { text: text.split_once("\n\n").map_or(text, |(first, _)| first) }
    }

    /// The first line of a field's value. Field names are case-insensitive.
    pub(super) fn field(&self, name: &str) -> Option<&'a str> {
        self.text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The dependencies on exactly one version, in the field `Depends`.
    pub(super) fn exact_dependencies(&self) -> impl Iterator<Item = ExactDependency<'a>> {
        self.field("Depends").unwrap_or_default().split(',').filter_map(parse_exact_dependency)
    }
}

/// Parses `name (= version)`; `None` for any other relation.
fn parse_exact_dependency(relation: &str) -> Option<ExactDependency<'_>> {
    let (name, version) = relation.trim().split_once('(')?;
    let version = version.strip_suffix(')')?.trim_start().strip_prefix('=')?;
    Some(ExactDependency { name: name.trim(), version: version.trim() })
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
    fn only_fields_of_the_first_paragraph_are_read() {
        let paragraph = Paragraph::first(META);
        assert_eq!(paragraph.field("Version"), Some("6.1.192-2"));
        assert_eq!(paragraph.field("size"), Some("1480"));
        assert_eq!(paragraph.field("Depends-"), None);
        let depends: Vec<_> = paragraph.exact_dependencies().collect();
        assert_eq!(depends, [ExactDependency { name: "linux-image-6.1.0-56-amd64", version: "6.1.192-2" }]);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(?s).{0,200}|(Depends: [a-z(=), |]{0,60}\n)*") {
            let paragraph = Paragraph::first(&text);
            paragraph.field("Size");
            paragraph.exact_dependencies().for_each(drop);
        }
    }
}
