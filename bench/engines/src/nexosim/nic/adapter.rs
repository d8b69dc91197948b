//! The adapter: its send rings, each of which has one frame fetched at a time.

use super::{Message, Parameters, Transfer};
use nexosim::{model::Model, ports::Output};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

#[derive(Serialize, Deserialize)]
pub struct Adapter {
    pub up: Output<Transfer>,
    pub out: Output<Transfer>,
    rings: Vec<SendRing>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct SendRing {
    is_fetching: bool,
    waiting: VecDeque<u32>,
}

#[Model]
impl Adapter {
    /// From either line.
    pub async fn receive(&mut self, Transfer { message, flow }: Transfer) {
        match message {
            Message::Doorbell => self.ring(flow).await,
            Message::Descriptor => self.up.send(Transfer { message: Message::PayloadRequest, flow }).await,
            Message::Payload => {
                self.out.send(Transfer { message: Message::Frame, flow }).await;
                self.fetched(flow).await;
            }
            Message::Echo => self.up.send(Transfer { message: Message::Delivery, flow }).await,
            _ => {}
        }
    }

    async fn ring(&mut self, flow: u32) {
        let ring = self.ring_of(flow);
        if ring.is_fetching {
            ring.waiting.push_back(flow);
        } else {
            ring.is_fetching = true;
            self.fetch(flow).await;
        }
    }

    async fn fetched(&mut self, flow: u32) {
        let ring = self.ring_of(flow);
        match ring.waiting.pop_front() {
            Some(next) => self.fetch(next).await,
            None => ring.is_fetching = false,
        }
    }

    async fn fetch(&mut self, flow: u32) {
        self.up.send(Transfer { message: Message::DescriptorRequest, flow }).await;
    }

    fn ring_of(&mut self, flow: u32) -> &mut SendRing {
        let rings = self.rings.len();
        &mut self.rings[flow as usize % rings]
    }
}

impl Adapter {
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            up: Output::default(),
            out: Output::default(),
            rings: vec![SendRing::default(); usize::from(parameters.rings)],
        }
    }
}
