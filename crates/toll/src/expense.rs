//! What tolls come to in time.

use crate::{Average, Count, Event, Given, PriceList};
use serde::Serialize;
use std::collections::BTreeMap;

/// What counts come to in time at the prices of one list. Of a difference it is one, too, and may be negative.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Expense {
    /// All that has a price.
    pub ns: f64,
    /// What it is made of: instructions, then events.
    pub charges: Vec<Charge>,
    /// Events that were counted and have no price. What they take is not in the sum.
    pub unpriced: BTreeMap<Event, f64>,
}

/// The part of one count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Charge {
    /// What was counted.
    pub count: Count,
    /// How many.
    pub amount: f64,
    /// One of them.
    pub price_ns: Given,
    /// All of them.
    pub ns: f64,
}

impl PriceList {
    /// What instructions and events take: those of an I/O, or what one has more than another.
    pub fn price(&self, instructions: f64, events: &BTreeMap<Event, f64>) -> Expense {
        let mut expense = Expense::default();
        expense.add(Count::Instructions, instructions, &self.instruction_ns);
        for (event, amount) in events.iter().filter(|(_, amount)| **amount != 0.0) {
            match self.event_ns.get(event) {
                Some(price) => {
                    expense.add(Count::Event { event: *event, average: Average::Mean }, *amount, price);
                }
                None => _ = expense.unpriced.insert(*event, *amount),
            }
        }
        expense
    }
}

impl Expense {
    fn add(&mut self, count: Count, amount: f64, price_ns: &Given) {
        let ns = amount * price_ns.value;
        self.ns += ns;
        self.charges.push(Charge { count, amount, price_ns: price_ns.clone(), ns });
    }
}
