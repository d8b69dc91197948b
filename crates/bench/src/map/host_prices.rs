//! Prices of this host, for a price list of its own.
//!
//! Two can be measured in a process without privileges: an instruction of mapping code, if the CPU has a counter of instructions, and
//! a byte that the CPU copies, as bounce buffers are. An invalidation and a hypercall can't: they are function calls in the models here,
//! and a system call through VFIO, which drivers of the kernel do not make. A mapping has no price of its own, because its instructions,
//! table entries and invalidations have.

mod copied_byte;
mod instruction;

use super::MapError;
use toll::{Event, Priced};

/// A price of this host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostPrice {
    /// What it is of.
    pub priced: Priced,
    /// The price in nanoseconds.
    pub ns: f64,
    /// How it was measured.
    pub how: String,
}

/// A price that was not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentPrice {
    /// What it is of.
    pub priced: Priced,
    /// Why not.
    pub why: String,
}

/// Prices of this host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostPrices {
    /// Prices that were measured.
    pub measured: Vec<HostPrice>,
    /// Prices that can be measured by [`measure_host_prices`], but not on this host.
    pub absent: Vec<AbsentPrice>,
}

/// Measures the prices of an instruction and of a copied byte, in so many rounds each.
///
/// # Errors
/// [`MapError`] if mapping fails.
pub fn measure_host_prices(rounds: usize) -> Result<HostPrices, MapError> {
    let mut prices = HostPrices::default();
    prices.add(Priced::Instruction, instruction::measure(rounds)?);
    prices.add(Priced::Event(Event::StringIterations), copied_byte::measure(rounds));
    Ok(prices)
}

impl HostPrices {
    /// Adds a price, or why there is none.
    fn add(&mut self, priced: Priced, measured: Result<MeasuredPrice, String>) {
        match measured {
            Ok(MeasuredPrice { ns, how }) => self.measured.push(HostPrice { priced, ns, how }),
            Err(why) => self.absent.push(AbsentPrice { priced, why }),
        }
    }
}

/// A price, and how it was measured.
#[derive(Debug, PartialEq)]
struct MeasuredPrice {
    ns: f64,
    how: String,
}

/// Rounded to a ten-thousandth of a nanosecond: more digits than any measurement here has.
fn rounded(ns: f64) -> f64 {
    (ns * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_price_is_measured_or_says_why_not() {
        let HostPrices { measured, absent } = measure_host_prices(2).unwrap();
        assert_eq!(measured.len() + absent.len(), 2, "{measured:?} {absent:?}");
        for price in &measured {
            assert!((1e-4..1e3).contains(&price.ns) && price.how.contains("2 rounds"), "{price:?}");
        }
        for price in &absent {
            assert!(!price.why.is_empty(), "{price:?}");
        }
    }
}
