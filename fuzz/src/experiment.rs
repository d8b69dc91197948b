//! Experiments of users.

use model::Description;

/// A user's file: refused with its name, or a machine that can be modelled.
pub fn experiment(data: &[u8]) {
    if let Err(error) = Description::read(&String::from_utf8_lossy(data), "mine.toml") {
        assert!(error.to_string().starts_with("mine.toml"), "{error}");
    }
}
