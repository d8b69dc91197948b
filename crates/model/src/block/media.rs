//! The adapter's media: flash dies on channels, and a write buffer.

use crate::serial_server::SerialServer;
use des::{Span, Stream, Time};
use std::collections::VecDeque;

/// Parameters of the media.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    /// Number of channels, each with dies.
    pub channels: u32,
    /// Dies on all channels. A die does one operation at a time.
    pub dies: u32,
    /// Page size: what a die reads or programs in one operation.
    pub page_bytes: u64,
    /// Time to read a page.
    pub read: Service,
    /// Time to program a page.
    pub write: Service,
    /// Bandwidth of a channel.
    pub channel_bytes_per_second: f64,
    /// Size of the power-safe write buffer: a write completes when it is in there. 0: a write completes when it is
    /// programmed.
    pub buffer_bytes: u64,
}

/// Duration of a die's operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Service {
    /// A fixed time.
    Fixed(Span),
    /// An exponentially distributed time with this mean.
    Exponential(Span),
}

impl Service {
    /// A duration from this distribution.
    fn draw_duration(self, stream: &mut Stream) -> Span {
        match self {
            Self::Fixed(span) => span,
            Self::Exponential(mean) => stream.exponential(mean),
        }
    }
}

/// What a page is programmed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramTarget {
    /// A command that waits for it.
    Command(u32),
    /// The write buffer, which frees this many bytes afterwards.
    Buffer(u32),
}

/// State of the media.
#[derive(Debug)]
pub(super) struct Dies {
    setup: Media,
    stream: Stream,
    dies: Vec<SerialServer>,
    channels: Vec<SerialServer>,
    /// Free bytes of the write buffer.
    room: u64,
    /// Commands that wait for buffer space, in order, with their bytes.
    waiting: VecDeque<(u32, u64)>,
}

/// Entity number of the media's random stream.
const ENTITY: u64 = 1 << 40;

impl Dies {
    pub(super) fn new(setup: &Media, seed: u64) -> Self {
        Self {
            stream: Stream::new(seed, ENTITY),
            dies: vec![SerialServer::default(); setup.dies as usize],
            channels: vec![SerialServer::default(); setup.channels as usize],
            room: setup.buffer_bytes,
            waiting: VecDeque::new(),
            setup: setup.clone(),
        }
    }

    /// Splits data into pages on consecutive dies, from this one: each die and its bytes.
    pub(super) fn pieces(&self, first: u32, bytes: u64) -> impl Iterator<Item = (u32, u64)> + use<> {
        let (dies, page_bytes) = (u64::from(self.setup.dies), self.setup.page_bytes);
        (0..bytes).step_by(page_bytes as usize).map(move |from| {
            let die = (u64::from(first) + from / page_bytes) % dies;
            (die as u32, (bytes - from).min(page_bytes))
        })
    }

    /// A random die to begin at.
    pub(super) fn draw_die(&mut self) -> u32 {
        self.stream.below(self.setup.dies.into()) as u32
    }

    /// Reads a page. Returns when the die has it.
    pub(super) fn read(&mut self, now: Time, die: u32) -> Time {
        let span = self.setup.read.draw_duration(&mut self.stream);
        self.dies[die as usize].occupy(now, span)
    }

    /// Programs a page. Returns when that is done.
    pub(super) fn program(&mut self, now: Time, die: u32) -> Time {
        let span = self.setup.write.draw_duration(&mut self.stream);
        self.dies[die as usize].occupy(now, span)
    }

    /// Transfers a page over a die's channel. Returns when that is done.
    pub(super) fn carry(&mut self, now: Time, die: u32, bytes: u64) -> Time {
        let channel = die % self.setup.channels;
        let span = Span::from_ps_f64(bytes as f64 * 1e12 / self.setup.channel_bytes_per_second);
        self.channels[channel as usize].occupy(now, span)
    }

    /// Whether there is a write buffer.
    pub(super) fn has_buffer(&self) -> bool {
        self.setup.buffer_bytes > 0
    }

    /// Bytes in the write buffer.
    pub(super) fn buffered_bytes(&self) -> u64 {
        self.setup.buffer_bytes - self.room
    }

    /// Lets a command's data wait for buffer space, first come, first served.
    pub(super) fn wait_for_room(&mut self, command: u32, bytes: u64) {
        self.waiting.push_back((command, bytes));
    }

    /// Frees buffer space.
    pub(super) fn make_room(&mut self, bytes: u64) {
        self.room += bytes;
    }

    /// The next waiting command whose data fits into the buffer.
    pub(super) fn buffered(&mut self) -> Option<u32> {
        let (_, bytes) = *self.waiting.front()?;
        self.room = self.room.checked_sub(bytes)?;
        self.waiting.pop_front().map(|(command, _)| command)
    }

    /// Average busy time of dies and of channels up to now.
    pub(super) fn busy(&self, now: Time) -> [Span; 2] {
        [&self.dies, &self.channels].map(|all| {
            let busy: f64 = all.iter().map(|one| one.busy(now).as_ps_f64()).sum();
            Span::from_ps_f64(busy / all.len() as f64)
        })
    }
}
