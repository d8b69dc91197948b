//! How a connection begins: both sides prove that they know the secret, and agree on keys.
//!
//! ```text
//!   server -> client   greeting: name and version, 16 bytes; nonce, 32 bytes
//!   client -> server   opening: purpose, 1 byte; nonce, 32; session, 16; instance, 2; code, 32
//!   server -> client   acceptance: code, 32 bytes; only of a control connection
//! ```
//!
//! Codes of a control connection are keyed by the secret and cover all bytes before them. The client proves itself first, so strangers who connect
//! get nothing to guess secrets by. Greeting and opening are also what the session's keys are derived from: both nonces are in them, so no session's frames are
//! good in another. A data connection names its session, and its code is by a key of that session.

use super::frame::{Channel, FrameError};
use super::secret::{Code, MAC_BYTES, Secret, random_bytes};
use super::timed::{self, Limit};
use std::net::TcpStream;

/// The protocol's version.
pub(super) const VERSION: u8 = 1;
const NAME: &[u8; 16] = b"iotoll-net\x01\0\0\0\0\0";
const NONCE_BYTES: usize = 32;
const GREETING_BYTES: usize = 16 + NONCE_BYTES;
const UNSIGNED_BYTES: usize = 1 + NONCE_BYTES + 16 + 2;
const OPENING_BYTES: usize = UNSIGNED_BYTES + MAC_BYTES;

/// The number of a session.
pub(super) type SessionId = [u8; 16];

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Requests and replies.
    Control,
    /// Data of an instance of a session's test.
    Data { session: SessionId, instance: u16 },
}

/// What a client sends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) purpose: Purpose,
    signed: [u8; UNSIGNED_BYTES],
    code: Code,
}

/// A greeting, as it was sent.
#[derive(Clone, Copy)]
pub(super) struct Greeting([u8; GREETING_BYTES]);

/// A session's keys.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) session: SessionId,
    to_server: Secret,
    to_client: Secret,
    data: Secret,
}

impl Keys {
    fn new(secret: &Secret, greeting: &Greeting, opening: &Opening) -> Self {
        let key = |name: &[u8]| secret.key(&[name, &greeting.0, &opening.signed]);
        let mut session = SessionId::default();
        session.copy_from_slice(&secret.code(&[b"session", &greeting.0, &opening.signed])[..16]);
        Self { session, to_server: key(b"to server"), to_client: key(b"to client"), data: key(b"data") }
    }

    /// The first 8 bytes of each datagram of an instance, by which foreign datagrams are rejected.
    pub(super) fn token(&self, cell: u64, instance: u16) -> u64 {
        let code = self.data.code(&[b"token", &cell.to_le_bytes(), &instance.to_le_bytes()]);
        code.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

impl Opening {
    /// An opening, signed.
    fn new(purpose: Purpose, key: &Secret, greeting: &Greeting) -> Result<Self, FrameError> {
        let mut signed = [0; UNSIGNED_BYTES];
        signed[1..33].copy_from_slice(&random_bytes::<NONCE_BYTES>()?);
        if let Purpose::Data { session, instance } = purpose {
            signed[0] = 1;
            signed[33..49].copy_from_slice(&session);
            signed[49..].copy_from_slice(&instance.to_le_bytes());
        }
        let code = key.code(&[b"opening", &greeting.0, &signed]);
        Ok(Self { purpose, signed, code })
    }

    /// Parses an opening; its code is still to be verified.
    fn parse(bytes: &[u8; OPENING_BYTES]) -> Option<Self> {
        let (signed, code) = bytes.split_at(UNSIGNED_BYTES);
        let (signed, code): ([u8; UNSIGNED_BYTES], Code) = (signed.try_into().ok()?, code.try_into().ok()?);
        let purpose = match signed[0] {
            0 => Purpose::Control,
            1 => Purpose::Data {
                session: signed[33..49].try_into().ok()?,
                instance: u16::from_le_bytes(signed[49..].try_into().ok()?),
            },
            _ => return None,
        };
        Some(Self { purpose, signed, code })
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.signed[..], &self.code].concat()
    }
}

/// The server's first part: greets, and receives the opening.
pub(super) fn greet(stream: &TcpStream, limit: Limit<'_>) -> Result<(Greeting, Opening), FrameError> {
    timed::poll_stream(stream)?;
    let nonce = random_bytes::<NONCE_BYTES>()?;
    let mut greeting = Greeting([0; GREETING_BYTES]);
    greeting.0[..16].copy_from_slice(NAME);
    greeting.0[16..].copy_from_slice(&nonce);
    timed::write_all(stream, &greeting.0, limit)?;
    let mut bytes = [0; OPENING_BYTES];
    timed::read_exact(stream, &mut bytes, limit)?;
    Ok((greeting, Opening::parse(&bytes).ok_or(FrameError::Version)?))
}

/// The server's second part, of a control connection: the session, if the client knows the secret.
pub(super) fn accept(
    stream: TcpStream,
    secret: &Secret,
    (greeting, opening): &(Greeting, Opening),
    limit: Limit<'_>,
) -> Result<(Channel, Keys), FrameError> {
    if !secret.verifies(&[b"opening", &greeting.0, &opening.signed], &opening.code) {
        return Err(FrameError::Code);
    }
    timed::write_all(&stream, &secret.code(&[b"acceptance", &greeting.0, &opening.signed]), limit)?;
    let keys = Keys::new(secret, greeting, opening);
    Ok((Channel::new(stream, keys.to_client.clone(), keys.to_server.clone()), keys))
}

/// Whether a data connection belongs to the session.
pub(super) fn is_of_session(keys: &Keys, (greeting, opening): &(Greeting, Opening)) -> bool {
    matches!(opening.purpose, Purpose::Data { session, .. } if session == keys.session)
        && keys.data.verifies(&[b"opening", &greeting.0, &opening.signed], &opening.code)
}

/// Receives the server's greeting.
fn receive_greeting(stream: &TcpStream, limit: Limit<'_>) -> Result<Greeting, FrameError> {
    timed::poll_stream(stream)?;
    let mut greeting = Greeting([0; GREETING_BYTES]);
    timed::read_exact(stream, &mut greeting.0, limit)?;
    if greeting.0[..16] == NAME[..] { Ok(greeting) } else { Err(FrameError::Version) }
}

/// The client's part of a control connection.
pub(super) fn open(
    stream: TcpStream,
    secret: &Secret,
    limit: Limit<'_>,
) -> Result<(Channel, Keys), FrameError> {
    let greeting = receive_greeting(&stream, limit)?;
    let opening = Opening::new(Purpose::Control, secret, &greeting)?;
    timed::write_all(&stream, &opening.bytes(), limit)?;
    let mut code = [0; MAC_BYTES];
    // A server that is not convinced closes the connection.
    timed::read_exact(&stream, &mut code, limit)?;
    if !secret.verifies(&[b"acceptance", &greeting.0, &opening.signed], &code) {
        return Err(FrameError::Code);
    }
    let keys = Keys::new(secret, &greeting, &opening);
    Ok((Channel::new(stream, keys.to_server.clone(), keys.to_client.clone()), keys))
}

/// The client's part of a data connection.
pub(super) fn attach(
    stream: &TcpStream,
    keys: &Keys,
    instance: u16,
    limit: Limit<'_>,
) -> Result<(), FrameError> {
    let greeting = receive_greeting(stream, limit)?;
    let purpose = Purpose::Data { session: keys.session, instance };
    let opening = Opening::new(purpose, &keys.data, &greeting)?;
    Ok(timed::write_all(stream, &opening.bytes(), limit)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_opening_is_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), OPENING_BYTES)) {
            let bytes: [u8; OPENING_BYTES] = bytes.try_into().unwrap();
            match Opening::parse(&bytes) {
                Some(opening) => prop_assert_eq!(opening.bytes(), bytes.to_vec()),
                None => prop_assert!(bytes[0] > 1),
            }
        }
    }
}
