//! A part of a plan's points, for one of several machines.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Shard `index` of `count`, counted from 0: the points whose place, divided by `count`, leaves `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

/// A text that is no shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected I/N, I from 0 to N - 1")]
pub struct NotAShard;

impl Shard {
    /// Its places of `len`.
    pub fn positions(self, len: u64) -> impl Iterator<Item = u64> {
        (self.index..len).step_by(usize::try_from(self.count).unwrap_or(usize::MAX))
    }

    /// Whether it has what has this hash.
    pub fn has(self, hash: u64) -> bool {
        hash % self.count == self.index
    }
}

impl Display for Shard {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = NotAShard;

    fn from_str(text: &str) -> Result<Self, NotAShard> {
        let (index, count) = text.split_once('/').ok_or(NotAShard)?;
        let number = |text: &str| text.parse::<u32>().map(u64::from).map_err(|_| NotAShard);
        let (index, count) = (number(index)?, number(count)?);
        if index < count { Ok(Self { index, count }) } else { Err(NotAShard) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_every_place_once() {
        let mut all: Vec<u64> = (0..3)
            .flat_map(|index| {
                format!("{index}/3").parse::<Shard>().unwrap().positions(10).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_eq!("7/8".parse::<Shard>().unwrap().positions(7).count(), 0);
    }

    #[test]
    fn invalid_shards_are_refused() {
        for text in ["", "/", "1", "0/0", "2/2", "-1/2", "1/x", "0/4294967296", "0/1/2"] {
            assert_eq!(text.parse::<Shard>(), Err(NotAShard), "{text}");
        }
    }
}
