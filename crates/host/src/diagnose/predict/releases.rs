//! How many releases of Linux lie between two kernels.

use crate::digest::SheetDigest;
use crate::kernel::KernelVersion;

/// The major releases with the number of minor ones that each had (kernel.org). 2.6 counts its third number.
const MINORS: [(u16, u32); 4] = [(3, 20), (4, 21), (5, 20), (6, 20)];
/// Releases of 2.6, from 2.6.0 to 2.6.39.
const OF_2_6: u32 = 40;
/// What a major release that is not over is taken to have.
const USUAL: u32 = 20;

/// Releases between two kernels, by their numbers: distributions' own changes are not seen.
fn between(a: &KernelVersion, b: &KernelVersion) -> u32 {
    ordinal(a).abs_diff(ordinal(b))
}

/// Releases between a host's kernel and that of a sheet; `None` if one of them is not known.
pub(super) fn to_sheet(host: Option<&KernelVersion>, sheet: &SheetDigest) -> Option<u32> {
    Some(between(host?, &KernelVersion::parse(&sheet.kernel.release)?))
}

/// The place of a release among all since 2.6.0.
fn ordinal(version: &KernelVersion) -> u32 {
    let (major, minor) = (version.major, u32::from(version.minor));
    if major < 3 {
        return u32::from(version.patch).min(OF_2_6 - 1);
    }
    let before = MINORS.iter().filter(|(earlier, _)| *earlier < major);
    let known: u32 = before.map(|(_, minors)| minors).sum();
    let unknown = u32::from(major.saturating_sub(7)) * USUAL;
    OF_2_6 + known + unknown + minor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_between() {
        let check = |a: &str, b: &str, expect: u32| {
            let version = |text: &str| KernelVersion::parse(text).unwrap();
            assert_eq!(between(&version(a), &version(b)), expect, "{a} {b}");
            assert_eq!(between(&version(b), &version(a)), expect, "{b} {a}");
        };
        check("6.1.0-56-amd64", "6.1.76", 0);
        check("5.19.0", "6.0.0", 1);
        check("5.14.0-427.el9.x86_64", "6.1.0-56-amd64", 7);
        check("4.20.17", "5.0.0", 1);
        check("2.6.39", "3.0.0", 1);
        check("2.6.32-642.el6.ppc64", "3.10.0-1160.el7", 18);
        check("6.19.0", "7.0.0", 1);
        check("6.12.1", "6.1.0", 11);
    }
}
