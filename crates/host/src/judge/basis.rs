//! What predictions are made from.

use crate::Digest;
use toll::PriceList;

/// Toll sheets and prices to predict from: those that the program carries, or others in their place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Basis<'b> {
    /// Toll sheets.
    pub tolls: Option<&'b Digest>,
    /// Prices, by the architecture of the sheets. Sheets of others stay without.
    pub prices: Option<&'b [PriceList]>,
}

impl<'b> Basis<'b> {
    pub(super) fn tolls(self) -> &'b Digest {
        self.tolls.unwrap_or_else(|| Digest::builtin())
    }

    pub(super) fn prices(self, arch: &str) -> Option<&'b PriceList> {
        let lists = self.prices.unwrap_or_else(|| PriceList::builtin());
        lists.iter().find(|list| list.arch == arch)
    }
}
