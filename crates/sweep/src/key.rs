//! What a point is known by, whoever runs it and in whatever order.

use crate::value::canonical;
use model::Kind;
use sha2::{Digest, Sha256};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The version of a model, part of every key: to be raised when the same fields give other numbers (a test pins them).
pub fn version(kind: Kind) -> &'static str {
    match kind {
        Kind::Engine => "engine/3",
        Kind::MemoryTypes => "memory-types/1",
        Kind::Network => "network/1",
        Kind::Block => "block/1",
        Kind::FlashArray => "flash-array/1",
        Kind::Infiniband => "infiniband/1",
    }
}

/// The first 128 bits of the SHA-256 of a point's fields and the model's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u128);

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no key: 32 hexadecimal digits")]
pub struct NotAKey(String);

impl Key {
    /// Of a machine's fields; its words for people are none.
    pub(crate) fn of(version: &str, mut fields: toml::Table) -> Self {
        fields.remove("what");
        let fields = canonical(&toml::Value::Table(fields));
        let digest = Sha256::digest(format!("{version}\n{fields}"));
        Self(digest[..16].iter().fold(0, |key, byte| key << 8 | u128::from(*byte)))
    }
}

impl Display for Key {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let is_key = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let key = is_key.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        key.map(Self).ok_or_else(|| NotAKey(text.to_owned()))
    }
}
