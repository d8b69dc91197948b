//! What answers at the other end of the wire.

use super::{EVENTS, Message, Parameters, Task, Transfer, delay};
use des::{Span, Stream};
use nexosim::{
    model::{Context, Model, schedulable},
    ports::Output,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Peer {
    pub back: Output<Transfer>,
    #[serde(skip)]
    stream: Option<Stream>,
    echo_ns: u64,
}

#[Model]
impl Peer {
    pub fn receive(&mut self, transfer: Transfer, cx: &Context<Self>) {
        let Some(stream) = &mut self.stream else { return };
        let span = stream.exponential(Span::from_ns(self.echo_ns));
        cx.schedule_event(delay(span), schedulable!(Self::echo), transfer.flow).expect("it is to come");
    }

    #[nexosim(schedulable)]
    async fn echo(&mut self, flow: u32) {
        EVENTS.add(1);
        self.back.send(Transfer { message: Message::Echo, flow }).await;
    }
}

impl Peer {
    pub fn new(parameters: &Parameters, task: &Task) -> Self {
        Self {
            back: Output::default(),
            stream: Some(Stream::new(task.seed, u64::from(task.flows))),
            echo_ns: parameters.echo_ns,
        }
    }
}
