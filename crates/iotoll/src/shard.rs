//! A part of the work, for one of several machines.

use anyhow::bail;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Shard `index` of `count`, counted from 0: what has a number or hash that, divided by `count`, leaves `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// Its places of `len`.
    #[cfg(any(feature = "sweep", test))]
    pub(crate) fn positions(self, len: u64) -> impl Iterator<Item = u64> {
        (self.index..len).step_by(usize::try_from(self.count).unwrap_or(usize::MAX))
    }

    /// Its name in those of files: `0-of-4`.
    #[cfg(any(feature = "fleet", feature = "sweep"))]
    pub(crate) fn file_name(self) -> String {
        format!("{}-of-{}", self.index, self.count)
    }

    /// What it has of the whole, for people: `, 5 of shard 0/4`. Nothing if it is the whole.
    #[cfg(any(feature = "fleet", feature = "sweep"))]
    pub(crate) fn share(self, number: usize) -> String {
        if self.count == 1 { String::new() } else { format!(", {number} of shard {self}") }
    }

    /// Whether it has what has this hash.
    #[cfg(feature = "fleet")]
    pub(crate) fn has(self, hash: u64) -> bool {
        hash % self.count == self.index
    }
}

impl Display for Shard {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
        let shard = text.split_once('/').and_then(|(index, count)| number(index).zip(number(count)));
        match shard {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            _ => bail!("expected I/N, I from 0 to N - 1"),
        }
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
        let last = "7/8".parse::<Shard>().unwrap();
        assert_eq!((last.positions(7).count(), last.to_string().as_str()), (0, "7/8"));
    }

    #[test]
    fn invalid_shards_are_refused() {
        for text in ["", "/", "1", "0/0", "2/2", "-1/2", "1/x", "0/4294967296", "0/1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
