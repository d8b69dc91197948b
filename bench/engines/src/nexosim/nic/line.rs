//! A line that one message after the other goes over.

use super::{EVENTS, Message, Parameters, Transfer, Way, delay};
use nexosim::{
    model::{Context, Model, schedulable},
    ports::Output,
};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, time::Duration};

/// Busy with a message for as long as its bytes take; it arrives a latency later.
#[derive(Serialize, Deserialize)]
pub struct Line {
    pub output: Output<Transfer>,
    /// By message.
    spans: [Duration; Message::ALL.len()],
    latency: Duration,
    is_busy: bool,
    waiting: VecDeque<Transfer>,
}

#[Model]
impl Line {
    pub fn send(&mut self, transfer: Transfer, cx: &Context<Self>) {
        if self.is_busy {
            self.waiting.push_back(transfer);
        } else {
            self.begin(transfer, cx);
        }
    }

    fn begin(&mut self, transfer: Transfer, cx: &Context<Self>) {
        self.is_busy = true;
        let span = self.spans[transfer.message as usize];
        cx.schedule_event(span, schedulable!(Self::sent), transfer).expect("it is to come");
    }

    #[nexosim(schedulable)]
    fn sent(&mut self, transfer: Transfer, cx: &Context<Self>) {
        EVENTS.add(1);
        cx.schedule_event(self.latency, schedulable!(Self::arrive), transfer).expect("it is to come");
        self.is_busy = false;
        if let Some(next) = self.waiting.pop_front() {
            self.begin(next, cx);
        }
    }

    #[nexosim(schedulable)]
    async fn arrive(&mut self, transfer: Transfer) {
        EVENTS.add(1);
        self.output.send(transfer).await;
    }
}

impl Line {
    pub fn new(parameters: &Parameters, way: Way) -> Self {
        Self {
            output: Output::default(),
            spans: Message::ALL.map(|message| delay(message.span(parameters))),
            latency: delay(des::Span::from_ns(way.line(parameters).latency_ns)),
            is_busy: false,
            waiting: VecDeque::new(),
        }
    }
}
