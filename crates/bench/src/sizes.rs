//! Distributions of the sizes of requests.

use crate::random::Random;
use serde::Serialize;

/// A distribution of request sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// One page per request.
    One,
    /// The sizes of a network adapter's buffers.
    Network,
    /// The sizes of a disk controller's transfers.
    Storage,
}

/// A network adapter's buffers. Assumed, from what such drivers map: receive buffers of a page make up most; frames to
/// send span one or two pages; segmentation offload sends up to 64 KiB, in fragments of up to 8 pages or whole.
const NETWORK: &[(u64, u32)] = &[(1, 70), (2, 14), (4, 6), (8, 5), (16, 5)];
/// A disk controller's scatter lists. Assumed, from block sizes in use: databases' and page-ins' 4 and 8 KiB make up
/// most; 16 to 128 KiB are read-ahead and log writes; 512 KiB to 2 MiB are large sequential transfers. Odd sizes are
/// transfers that begin within a page.
const STORAGE: &[(u64, u32)] = &[
    (1, 40),
    (2, 12),
    (3, 4),
    (4, 10),
    (5, 2),
    (8, 8),
    (9, 1),
    (16, 6),
    (32, 8),
    (33, 1),
    (128, 4),
    (256, 3),
    (512, 1),
];

impl Sizes {
    /// Numbers of pages, each with its share of requests in percent.
    fn table(self) -> &'static [(u64, u32)] {
        match self {
            Self::One => &[(1, 100)],
            Self::Network => NETWORK,
            Self::Storage => STORAGE,
        }
    }

    /// The mean number of pages that a request occupies, rounded up to powers of two as in Linux's caches.
    pub(crate) fn mean_pages(self) -> u64 {
        let taken = self.table().iter().map(|(pages, share)| pages.next_power_of_two() * u64::from(*share));
        taken.sum::<u64>().div_ceil(100)
    }

    /// A random number of pages.
    pub(crate) fn choose(self, random: &mut Random) -> u64 {
        let mut left = random.below(100);
        for (pages, share) in self.table() {
            match left.checked_sub(u64::from(*share)) {
                None => return *pages,
                Some(rest) => left = rest,
            }
        }
        1
    }

    /// A description with the source of the distribution.
    pub fn describe(self) -> String {
        if self == Self::One {
            return "one page".to_owned();
        }
        let shares: Vec<String> =
            self.table().iter().map(|(pages, share)| format!("{pages}: {share} %")).collect();
        format!("pages of a request, assumed: {}; aligned to their size rounded up", shares.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_100_percent() {
        for sizes in [Sizes::One, Sizes::Network, Sizes::Storage] {
            assert_eq!(sizes.table().iter().map(|(_, share)| share).sum::<u32>(), 100, "{sizes:?}");
        }
        assert_eq!((Sizes::One.mean_pages(), Sizes::Network.mean_pages()), (1, 3));
    }

    #[test]
    fn the_same_seed_gives_the_same_sizes() {
        let choose = |seed| {
            let mut random = Random::of_thread(seed, 3);
            (0..100).map(|_| Sizes::Storage.choose(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(choose(1), choose(1));
        assert_ne!(choose(1), choose(2));
    }
}
