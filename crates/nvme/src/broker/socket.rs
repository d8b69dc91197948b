//! Sockets of whole messages with file descriptors (`unix(7)`, `SOCK_SEQPACKET`).

use rustix::fs::{FileType, Mode, fchmod, stat, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
    sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// Most file descriptors of a message.
const FILES_MAX: usize = 3;
/// A client waits so long for the broker's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

fn new(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | flags, None)
}

/// A socket at this path that only the user of this process may use. One that a killed process has left is replaced.
///
/// Fails with `ADDRINUSE` if a process listens there, and with `EXIST` if another file is there.
pub(super) fn listen(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = new(SocketFlags::NONBLOCK)?;
    // The file gets the socket's permissions, so that it never has others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let address = SocketAddrUnix::new(path)?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            remove_left_behind(path, &address)?;
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Removes a socket at which nobody listens.
fn remove_left_behind(path: &Path, address: &SocketAddrUnix) -> Result<(), Errno> {
    if FileType::from_raw_mode(stat(path)?.st_mode) != FileType::Socket {
        return Err(Errno::EXIST);
    }
    match rustix::net::connect(&new(SocketFlags::NONBLOCK)?, address) {
        Err(Errno::CONNREFUSED) => unlink(path),
        _ => Err(Errno::ADDRINUSE),
    }
}

/// A connection to the broker at this path.
pub(super) fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = new(SocketFlags::empty())?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_TIMEOUT))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(ANSWER_TIMEOUT))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Sends a message with file descriptors.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::INVAL);
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    (sent == bytes.len()).then_some(()).ok_or(Errno::MSGSIZE)
}

/// Receives a message, as long as `into` at most, with its file descriptors. More of them than expected are closed by the kernel.
pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(into)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    Ok((received.bytes, files))
}

/// Whether the process at the other end is gone, or has sent more than its one message.
pub(super) fn has_ended(socket: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN | PollFlags::RDHUP)];
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}
