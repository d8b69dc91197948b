//! Options that both sides set on the sockets of a test.

use super::result::{NetSettings, NetTest};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{TcpStream, UdpSocket};

/// The options.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SocketOptions {
    /// Whether small segments are sent at once (`TCP_NODELAY`).
    is_nodelay: bool,
    /// Bytes of each buffer (`SO_SNDBUF`, `SO_RCVBUF`); what the kernel chooses if there are none.
    window_bytes: Option<u32>,
}

impl SocketOptions {
    /// Those of a test. Requests over TCP don't wait for more to send, unless a profile has them do so.
    pub(super) fn of(test: NetTest, settings: &NetSettings) -> Self {
        let is_nodelay = settings.is_nodelay.unwrap_or(test == NetTest::TcpRr);
        Self { is_nodelay, window_bytes: settings.window_bytes }
    }

    pub(super) fn set_on_stream(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(self.is_nodelay)?;
        self.set_buffers(stream)
    }

    pub(super) fn set_on_datagrams(&self, socket: &UdpSocket) -> io::Result<()> {
        self.set_buffers(socket)
    }

    fn set_buffers(&self, socket: impl std::os::fd::AsFd) -> io::Result<()> {
        // The kernel takes no more than its limit (net.core.wmem_max, rmem_max), and keeps twice as much.
        if let Some(bytes) = self.window_bytes {
            set_socket_send_buffer_size(&socket, bytes as usize)?;
            set_socket_recv_buffer_size(&socket, bytes as usize)?;
        }
        Ok(())
    }
}
