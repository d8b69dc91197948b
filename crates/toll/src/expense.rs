//! The time that instructions and events take, at the prices of a list.

use crate::{Average, Count, Estimate, Event, Given, PriceList};
use std::collections::BTreeMap;

/// The CPU time of counts at the prices of one list. It is negative for a difference that saves time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expense {
    /// The sum of all charges.
    pub ns: f64,
    /// The charges: instructions, then each kind of event.
    pub charges: Vec<Charge>,
    /// Counted events without a price. Their time is not in the sum.
    pub unpriced: BTreeMap<Event, f64>,
}

/// The time of one count.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// The count's name.
    pub count: Count,
    /// How many.
    pub amount: f64,
    /// The price of one.
    pub price_ns: Given,
    /// The time of all.
    pub ns: f64,
}

impl PriceList {
    /// The CPU time of the instructions and events of an I/O, or of a difference between two I/Os.
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

    /// The CPU time of a difference with intervals, and half of its own: as if all parts erred to one side, and 0 with a single boot.
    pub fn price_difference(
        &self,
        instructions: Estimate,
        events: &BTreeMap<Event, Estimate>,
    ) -> (Expense, f64) {
        let half = |estimate: &Estimate| estimate.half_width().unwrap_or_default();
        let amounts = |of: &dyn Fn(&Estimate) -> f64| {
            events.iter().map(|(event, estimate)| (*event, of(estimate))).collect()
        };
        let expense = self.price(instructions.mean, &amounts(&|estimate| estimate.mean));
        (expense, self.price(half(&instructions), &amounts(&half)).ns)
    }
}

impl Expense {
    /// Adds the time of one count.
    fn add(&mut self, count: Count, amount: f64, price_ns: &Given) {
        let ns = amount * price_ns.value;
        self.ns += ns;
        self.charges.push(Charge { count, amount, price_ns: price_ns.clone(), ns });
    }
}
