//! What predictions are made from.

use super::AreaForecast;
use crate::Digest;
use crate::memory::PhysRange;
use toll::PriceList;

/// Toll sheets and prices to predict from, those that the program carries or others in their place; and what models say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Basis<'b> {
    /// Toll sheets.
    pub tolls: Option<&'b Digest>,
    /// Prices, by the architecture of the sheets. Sheets of others stay without.
    pub prices: Option<&'b [PriceList]>,
    /// What a model expects of the host's areas of `memmap=`; the program carries none.
    pub areas: &'b [AreaForecast],
}

impl<'b> Basis<'b> {
    /// The digest of toll sheets: the one given, else the built-in one.
    pub(super) fn tolls(self) -> &'b Digest {
        self.tolls.unwrap_or_else(|| Digest::builtin())
    }

    /// The forecast for this `memmap=` area, if there is one.
    pub(super) fn area_forecast(self, range: PhysRange) -> Option<AreaForecast> {
        self.areas.iter().find(|forecast| forecast.area == range).cloned()
    }

    /// The prices of an architecture's platform, given or built in; `None` if there are none.
    pub(super) fn prices(self, arch: &str) -> Option<&'b PriceList> {
        let lists = self.prices.unwrap_or_else(|| PriceList::builtin());
        lists.iter().find(|list| list.arch == arch)
    }
}
