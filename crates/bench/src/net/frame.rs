//! The channel on which a client asks and a server replies: frames with a length, a body and an authentication code.
//!
//! ```text
//!   4 bytes         the body's length, little-endian
//!   body            JSON
//!   32 bytes        HMAC-SHA-256 over the frame's number and the body, by the key of this direction and session
//! ```
//!
//! Frames are numbered from 0 in each direction. A frame that is sent again, left out or taken from another session has a wrong code. The body is
//! parsed only after its code was verified.

use super::secret::{MAC_BYTES, Secret};
use super::timed::{self, Limit};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::net::TcpStream;

/// The longest body. That of 1024 ports has 6 KiB.
pub(super) const BODY_MAX: usize = 64 << 10;
/// What the code of a frame is for.
const PURPOSE: &[u8] = b"frame";

/// Why a frame could not be sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The connection failed, or the other side took too long.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other side closed the connection.
    #[error("the other side closed the connection")]
    Closed,
    /// A frame is too long.
    #[error("a frame of {bytes} bytes; expected at most {BODY_MAX}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// The code is wrong.
    #[error("wrong authentication code")]
    Code,
    /// The body is of no known form.
    #[error("a frame with an unknown body")]
    Body(#[source] serde_json::Error),
    /// It is a reply to something else.
    #[error("an unexpected reply")]
    Unexpected,
    /// The other side is not iotoll, or has another version of the protocol.
    #[error("the other side does not speak iotoll's protocol in version {}", super::handshake::VERSION)]
    Version,
}

/// Its two directions, with their keys.
pub(super) struct Channel {
    stream: TcpStream,
    send: Direction,
    receive: Direction,
}

/// The key of a direction, and the number of its next frame.
pub(super) struct Direction {
    key: Secret,
    next: u64,
}

impl Direction {
    pub(super) fn new(key: Secret) -> Self {
        Self { key, next: 0 }
    }

    /// A body as a frame.
    fn pack(&mut self, body: &[u8]) -> Result<Vec<u8>, FrameError> {
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= BODY_MAX);
        let length = length.ok_or(FrameError::Length { bytes: body.len() })?;
        let mut frame = length.to_le_bytes().to_vec();
        frame.extend(body);
        frame.extend(self.key.code(&[PURPOSE, &self.next.to_le_bytes(), body]));
        self.next += 1;
        Ok(frame)
    }

    /// The body of what follows a frame's length, if its code is right.
    fn unpack<'f>(&mut self, frame: &'f [u8]) -> Result<&'f [u8], FrameError> {
        let (body, code) = frame.split_last_chunk::<MAC_BYTES>().ok_or(FrameError::Code)?;
        if !self.key.verifies(&[PURPOSE, &self.next.to_le_bytes(), body], code) {
            return Err(FrameError::Code);
        }
        self.next += 1;
        Ok(body)
    }
}

/// The length of a body, if it is allowed.
fn body_length(bytes: [u8; 4]) -> Result<usize, FrameError> {
    let bytes = u32::from_le_bytes(bytes) as usize;
    if bytes > BODY_MAX { Err(FrameError::Length { bytes }) } else { Ok(bytes) }
}

impl Channel {
    pub(super) fn new(stream: TcpStream, send: Secret, receive: Secret) -> Self {
        Self { stream, send: Direction::new(send), receive: Direction::new(receive) }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a message.
    pub(super) fn send(&mut self, message: &impl Serialize, limit: Limit<'_>) -> Result<(), FrameError> {
        let body = serde_json::to_vec(message).map_err(FrameError::Body)?;
        let frame = self.send.pack(&body)?;
        Ok(timed::write_all(&self.stream, &frame, limit)?)
    }

    /// Receives a message.
    pub(super) fn receive<Message: DeserializeOwned>(
        &mut self,
        limit: Limit<'_>,
    ) -> Result<Message, FrameError> {
        // Messages that are there at once would otherwise be received for ever.
        limit.check()?;
        let mut length = [0; 4];
        self.read(&mut length, limit)?;
        let mut frame = vec![0; body_length(length)? + MAC_BYTES];
        self.read(&mut frame, limit)?;
        serde_json::from_slice(self.receive.unpack(&frame)?).map_err(FrameError::Body)
    }

    fn read(&self, buffer: &mut [u8], limit: Limit<'_>) -> Result<(), FrameError> {
        timed::read_exact(&self.stream, buffer, limit).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => FrameError::Closed,
            _ => FrameError::Io(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Reply, Request};
    use super::*;
    use proptest::prelude::*;

    fn key(name: &[u8]) -> Secret {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "0123456789abcdef").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Secret::read(&path).unwrap().key(&[name])
    }

    #[test]
    fn frames_are_good_once_in_order_and_in_their_direction() {
        let (mut send, mut receive) = (Direction::new(key(b"a")), Direction::new(key(b"a")));
        let (first, second) = (send.pack(b"first").unwrap(), send.pack(b"second").unwrap());
        assert!(matches!(receive.unpack(&second[4..]), Err(FrameError::Code)), "left one out");
        assert_eq!(receive.unpack(&first[4..]).unwrap(), b"first");
        assert!(matches!(receive.unpack(&first[4..]), Err(FrameError::Code)), "sent again");
        assert_eq!(receive.unpack(&second[4..]).unwrap(), b"second");
        assert!(
            matches!(Direction::new(key(b"b")).unpack(&first[4..]), Err(FrameError::Code)),
            "another key"
        );
        assert!(matches!(send.pack(&vec![0; BODY_MAX + 1]), Err(FrameError::Length { .. })));
    }

    #[test]
    fn nothing_is_received_after_the_deadline_even_if_it_is_there() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let mut sender = Channel::new(one, key(b"a"), key(b"b"));
        let mut receiver = Channel::new(other, key(b"b"), key(b"a"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        let later = || Limit::after(std::time::Duration::from_secs(60), &stop);
        sender.send(&Request::Sample, later()).unwrap();
        let late = receiver.receive::<Request>(Limit::after(std::time::Duration::ZERO, &stop));
        assert!(matches!(&late, Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::TimedOut));
        assert!(matches!(receiver.receive::<Request>(later()), Ok(Request::Sample)));
    }

    proptest! {
        #[test]
        fn no_bytes_are_taken_for_a_frame(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Direction::new(key(b"a")).unpack(&bytes).is_err());
            if let Some(length) = bytes.first_chunk::<4>() {
                prop_assert!(body_length(*length).map_or(true, |length| length <= BODY_MAX));
            }
        }

        #[test]
        fn a_changed_byte_is_noticed(body in proptest::collection::vec(any::<u8>(), 0..100), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
            let mut frame = Direction::new(key(b"a")).pack(&body).unwrap().split_off(4);
            let at = at.index(frame.len());
            frame[at] ^= 1_u8 << bit;
            prop_assert!(Direction::new(key(b"a")).unpack(&frame).is_err());
        }

        /// What an authenticated peer sends is parsed without a panic, whatever it is.
        #[test]
        fn any_body_is_a_message_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..300), text in "[\\[\\]{}\",:a-z0-9 _.-]{0,120}") {
            let _ = serde_json::from_slice::<Request>(&body);
            let _ = serde_json::from_slice::<Reply>(&body);
            let _ = serde_json::from_slice::<Request>(text.as_bytes());
            let _ = serde_json::from_slice::<Reply>(text.as_bytes());
        }
    }
}
