//! What keeps the data: dies on channels, and a buffer of what is written.

use crate::serial::Serial;
use des::{Span, Stream, Time};
use std::collections::VecDeque;

/// What an adapter keeps its data in.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    /// Channels, each with dies on it.
    pub channels: u32,
    /// Dies of all channels; each does one thing at a time.
    pub dies: u32,
    /// What a die reads or programs at once.
    pub page_bytes: u64,
    /// How long it reads.
    pub read: Service,
    /// How long it programs.
    pub write: Service,
    /// Bytes in a second that a channel carries.
    pub channel_bytes_per_second: f64,
    /// Written data that is safe before it is programmed; a write is answered when it is here. None: when it is programmed.
    pub buffer_bytes: u64,
}

/// How long a die takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Service {
    /// Always so long.
    Fixed(Span),
    /// So long on average, exponentially distributed.
    Exponential(Span),
}

impl Service {
    fn draw(self, stream: &mut Stream) -> Span {
        match self {
            Self::Fixed(span) => span,
            Self::Exponential(mean) => stream.exponential(mean),
        }
    }
}

/// Whom a page of the media is read or programmed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// A command that waits for it.
    Command(u32),
    /// The buffer, which has so much more room then.
    Buffer(u32),
}

/// Media at work.
#[derive(Debug)]
pub(super) struct Dies {
    setup: Media,
    stream: Stream,
    dies: Vec<Serial>,
    channels: Vec<Serial>,
    /// Bytes of the buffer that nothing is in.
    room: u64,
    /// Commands whose data waits for room, in order.
    waiting: VecDeque<(u32, u64)>,
}

/// The numbers that dies draw.
const ENTITY: u64 = 1 << 40;

impl Dies {
    pub(super) fn new(setup: &Media, seed: u64) -> Self {
        Self {
            stream: Stream::new(seed, ENTITY),
            dies: vec![Serial::default(); setup.dies as usize],
            channels: vec![Serial::default(); setup.channels as usize],
            room: setup.buffer_bytes,
            waiting: VecDeque::new(),
            setup: setup.clone(),
        }
    }

    /// Dies that hold so much data, from this one on, and bytes of each piece.
    pub(super) fn pieces(&self, first: u32, bytes: u64) -> impl Iterator<Item = (u32, u64)> + use<> {
        let (dies, page_bytes) = (u64::from(self.setup.dies), self.setup.page_bytes);
        (0..bytes).step_by(page_bytes as usize).map(move |from| {
            let die = (u64::from(first) + from / page_bytes) % dies;
            (die as u32, (bytes - from).min(page_bytes))
        })
    }

    /// A die to begin at.
    pub(super) fn draw_die(&mut self) -> u32 {
        self.stream.below(self.setup.dies.into()) as u32
    }

    /// When a die has read a page.
    pub(super) fn read(&mut self, now: Time, die: u32) -> Time {
        let span = self.setup.read.draw(&mut self.stream);
        self.dies[die as usize].take(now, span)
    }

    /// When it has programmed one.
    pub(super) fn program(&mut self, now: Time, die: u32) -> Time {
        let span = self.setup.write.draw(&mut self.stream);
        self.dies[die as usize].take(now, span)
    }

    /// When a piece has come to or from a die.
    pub(super) fn carry(&mut self, now: Time, die: u32, bytes: u64) -> Time {
        let channel = die % self.setup.channels;
        let span = Span::from_ps_f64(bytes as f64 * 1e12 / self.setup.channel_bytes_per_second);
        self.channels[channel as usize].take(now, span)
    }

    /// Whether writes are answered before they are programmed.
    pub(super) fn has_buffer(&self) -> bool {
        self.setup.buffer_bytes > 0
    }

    /// A command's data has come: who waited first goes first.
    pub(super) fn wait_for_room(&mut self, command: u32, bytes: u64) {
        self.waiting.push_back((command, bytes));
    }

    /// There is more room.
    pub(super) fn make_room(&mut self, bytes: u64) {
        self.room += bytes;
    }

    /// A command whose data the buffer takes now.
    pub(super) fn buffered(&mut self) -> Option<u32> {
        let (_, bytes) = *self.waiting.front()?;
        self.room = self.room.checked_sub(bytes)?;
        self.waiting.pop_front().map(|(command, _)| command)
    }

    /// How long dies and channels were busy up to now, each on average.
    pub(super) fn busy(&self, now: Time) -> [Span; 2] {
        [&self.dies, &self.channels].map(|all| {
            let busy: f64 = all.iter().map(|one| one.busy(now).as_ps_f64()).sum();
            Span::from_ps_f64(busy / all.len() as f64)
        })
    }
}
