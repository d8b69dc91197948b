//! Price lists.

use std::collections::BTreeMap;
use toll::{Event, PriceList};

/// A list: what is read is written and read again the same, and prices whatever is counted with finite times.
pub fn price_list(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(list) = PriceList::read(text, "prices.toml") else { return };
    let again = toml::to_string(&list).map(|text| PriceList::read(&text, "again.toml"));
    assert!(matches!(again, Ok(Ok(again)) if again == list));
    let events: BTreeMap<Event, f64> = Event::ALL.into_iter().map(|event| (event, u64::MAX as f64)).collect();
    let expense = list.price(u64::MAX as f64, &events);
    assert!(expense.ns.is_finite() && expense.ns >= 0.0);
    assert_eq!(expense.charges.len() + expense.unpriced.len(), 1 + events.len());
}
