//! Several price lists of one machine as one list.

use super::{PriceList, PriceListError};
use crate::{Evidence, Given, Priced};
use std::collections::BTreeMap;

/// A price, and the file that it is from.
type FromFile<'l> = (&'l Given, &'l str);

impl PriceList {
    /// Combines lists of one machine, each with the name of its file. Of two prices of a kind the one with better evidence is taken:
    /// measured before published or calibrated, and these before assumed. `None` without lists.
    ///
    /// # Errors
    /// [`PriceListError`] if lists are of different architectures, or two prices of a kind differ and have evidence that is as good.
    pub fn combined(lists: &[(String, Self)]) -> Result<Option<Self>, PriceListError> {
        let Some(((first_file, first), others)) = lists.split_first() else { return Ok(None) };
        if let Some((file, other)) = others.iter().find(|(_, other)| other.arch != first.arch) {
            return Err(PriceListError::Architectures {
                file: file.clone(),
                arch: other.arch.clone(),
                other_file: first_file.clone(),
                expected: first.arch.clone(),
            });
        }
        let mut all: BTreeMap<Priced, Vec<FromFile<'_>>> = BTreeMap::new();
        for (file, list) in lists {
            list.prices().for_each(|(priced, given)| all.entry(priced).or_default().push((given, file)));
        }
        let mut combined = first.clone();
        combined.platform = distinct_words(lists.iter().map(|(_, list)| list.platform.as_str()), " and ");
        combined.applies_to = distinct_words(lists.iter().map(|(_, list)| list.applies_to.as_str()), "; ");
        for (priced, given) in all {
            if let Some(best) = best(priced, &given)? {
                combined.set(priced, best.clone());
            }
        }
        Ok(Some(combined))
    }
}

/// The price with the best evidence. Fails if others have evidence that is as good, and differ.
fn best<'l>(priced: Priced, prices: &[FromFile<'l>]) -> Result<Option<&'l Given>, PriceListError> {
    let strongest = prices.iter().map(|(given, _)| strength(&given.evidence)).max();
    let mut best = prices.iter().filter(|(given, _)| Some(strength(&given.evidence)) == strongest);
    let Some((first, first_file)) = best.next() else { return Ok(None) };
    match best.find(|(other, _)| other.value != first.value) {
        None => Ok(Some(first)),
        Some((other, file)) => Err(PriceListError::TwoPrices {
            file: (*file).to_owned(),
            other_file: (*first_file).to_owned(),
            priced,
            values: (other.value, first.value),
        }),
    }
}

/// How much a price of this evidence says of the machine.
fn strength(evidence: &Evidence) -> u8 {
    match evidence {
        Evidence::Assumed { .. } => 0,
        Evidence::Published { .. } | Evidence::Calibrated { .. } => 1,
        Evidence::Measured { .. } => 2,
    }
}

/// Texts, each once.
fn distinct_words<'t>(texts: impl Iterator<Item = &'t str>, between: &str) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for text in texts.filter(|text| !text.is_empty()) {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    distinct.join(between)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::Event;

    const INVALIDATIONS: Priced = Priced::Event(Event::Invalidations);

    fn x86() -> PriceList {
        PriceList::builtin().iter().find(|list| list.arch == "x86").unwrap().clone()
    }

    fn measured(value: f64) -> Given {
        Given { value, evidence: Evidence::Measured { how: "a test".into(), on: "here".into() } }
    }

    fn assumed(value: f64) -> Given {
        Given { value, evidence: Evidence::Assumed { why: "a test".into() } }
    }

    fn combined(lists: &[PriceList]) -> Result<PriceList, String> {
        let files = ["a.toml", "b.toml", "c.toml"];
        let lists: Vec<_> = files.map(str::to_owned).into_iter().zip(lists.iter().cloned()).collect();
        PriceList::combined(&lists).map(Option::unwrap).map_err(|error| error.to_string())
    }

    #[test]
    fn a_measured_price_is_taken_in_any_order_and_an_assumed_one_never() {
        let one = x86().with_measured([(Priced::Instruction, measured(0.21))], "here");
        let other = x86().with_measured([(INVALIDATIONS, measured(650.0))], "here");
        for lists in [[&one, &other, &x86()], [&x86(), &other, &one], [&other, &x86(), &one]] {
            let list = combined(&lists.map(Clone::clone)).unwrap();
            assert_eq!(list.instruction_ns, measured(0.21));
            assert_eq!(list.event_ns[&Event::Invalidations], measured(650.0));
            assert_eq!(list.event_ns[&Event::DeviceReads], x86().event_ns[&Event::DeviceReads]);
            assert!(list.platform.contains("here"), "{}", list.platform);
        }
        // What was published or calibrated is better than what is assumed, and worse than what was measured.
        let published = Given { value: 0.4, evidence: Evidence::Published { source: "a book".into() } };
        let book = PriceList { instruction_ns: published.clone(), ..x86() };
        assert_eq!(combined(&[x86(), book.clone()]).unwrap().instruction_ns, published);
        assert_eq!(combined(&[book, one]).unwrap().instruction_ns, measured(0.21));
        assert_eq!(PriceList::combined(&[]), Ok(None));
        // Which of two assumptions holds does not matter where there is a measurement.
        let assumption = PriceList { instruction_ns: assumed(0.5), ..x86() };
        let third = x86().with_measured([(Priced::Instruction, measured(0.21))], "here");
        let lists = [x86(), assumption.clone(), third];
        assert_eq!(combined(&lists).unwrap().instruction_ns, measured(0.21));
        let error = combined(&[x86(), assumption]).unwrap_err();
        assert!(error.starts_with("b.toml: instruction_ns is 0.5, and 0.33 in a.toml"), "{error}");
    }

    #[test]
    fn two_measured_prices_of_a_kind_are_an_error_that_names_both_files() {
        let list = |value| x86().with_measured([(INVALIDATIONS, measured(value))], "here");
        assert_eq!(
            combined(&[list(650.0), list(700.0)]),
            Err("b.toml: event_ns.invalidations is 700, and 650 in a.toml with evidence that is as good; \
                 expected one of them: remove the other"
                .into())
        );
        // The same value twice is one price, whatever its evidence says.
        assert_eq!(combined(&[list(650.0), list(650.0)]), Ok(list(650.0)));
    }

    #[test]
    fn lists_of_two_architectures_are_an_error() {
        let ppc = PriceList { arch: "ppc".into(), ..x86() };
        assert_eq!(
            combined(&[x86(), ppc]),
            Err("b.toml: arch is `ppc`; expected `x86`, the architecture of a.toml".into())
        );
    }
}
