//! Profiles of uperf.

use crate::parts;
use model::uperf::{Profile, Variables};

/// A variable's value and a profile that may use it: what is refused has a place in the file.
pub fn uperf_profile(data: &[u8]) {
    let [value, profile] = parts(data);
    let variables = Variables::from_iter([("v", String::from_utf8_lossy(value))]);
    let profile = String::from_utf8_lossy(profile);
    if let Err(error) = Profile::read(&profile, "profile.xml", &variables) {
        assert!(error.line >= 1 && error.column >= 1, "{error}");
        assert!(error.line as usize <= profile.matches('\n').count() + 1, "{error}");
    }
}
