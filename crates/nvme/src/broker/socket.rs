//! Sockets of whole messages with file descriptors (`unix(7)`, `SOCK_SEQPACKET`).

#![allow(
    unsafe_code,
    reason = "the kernel says process 0 of a client outside this process's namespace, which rustix takes for impossible"
)]

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, fchmod, flock, open, stat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
    sockopt,
};
use std::ffi::OsString;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// Most file descriptors of a message.
const FILES_MAX: usize = 3;
/// The longest wait for a folder that another process has locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

fn new(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | flags, None)
}

/// A socket that listens, and its file.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    /// The file's folder, whatever its path leads to later.
    folder: OwnedFd,
    name: OsString,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Listener {
    /// A socket at this path that only the user of this process may use. One that a killed process has left is replaced.
    ///
    /// Fails with `ADDRINUSE` if a process listens there, with `NOTSOCK` if another file is there, and with `AGAIN` if another process keeps the
    /// folder locked.
    pub(super) fn new(path: &Path) -> Result<Self, Errno> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = open(folder, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        // Two that begin at once would take each other's socket for one that was left.
        lock(&folder)?;
        let bound = bind(path, &folder, &name);
        let _ = flock(&folder, FlockOperation::Unlock);
        let socket = bound?;
        let file = identity(&folder, &name)?;
        Ok(Self { socket, folder, name, file })
    }

    /// Removes the file, unless it is another one by now.
    pub(super) fn remove_file(&self) {
        if identity(&self.folder, &self.name) == Ok(self.file) {
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Locks a folder, for which it waits a moment.
fn lock(folder: &OwnedFd) -> Result<(), Errno> {
    let begun = Instant::now();
    loop {
        match flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) if begun.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            locked => return locked,
        }
    }
}

/// Device and inode of a file that is a socket.
fn identity(folder: &OwnedFd, name: &OsString) -> Result<(u64, u64), Errno> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => Ok((stat.st_dev, stat.st_ino)),
        _ => Err(Errno::NOTSOCK),
    }
}

/// A socket that listens at a path, in a folder that is locked.
fn bind(path: &Path, folder: &OwnedFd, name: &OsString) -> Result<OwnedFd, Errno> {
    let socket = new(SocketFlags::NONBLOCK)?;
    // The file gets the socket's permissions, so that it never has others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let address = SocketAddrUnix::new(path)?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            identity(folder, name)?;
            match rustix::net::connect(&new(SocketFlags::NONBLOCK)?, &address) {
                Err(Errno::CONNREFUSED) => unlinkat(folder, name, AtFlags::empty())?,
                _ => return Err(Errno::ADDRINUSE),
            }
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Two sockets by which one process wakes another. Nothing can be sent to the first one, so what a hostile process passes is never closed here.
pub(super) fn waker() -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (wakes, woken) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::shutdown(&wakes, rustix::net::Shutdown::Read)?;
    Ok((wakes, woken))
}

/// Wakes the process at the other end. If it has not noticed earlier ones, that is enough.
pub(super) fn wake(socket: &OwnedFd) {
    let _ = rustix::net::send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Forgets wakeups so far.
pub(super) fn clear(socket: &OwnedFd) {
    while matches!(rustix::net::recv(socket, &mut [0; 8][..], RecvFlags::DONTWAIT), Ok((length, _)) if length > 0)
    {
    }
}

/// The process and user at the other end of a connection; process 0 where this process does not see it.
pub(super) fn peer(connection: &OwnedFd) -> Result<(i32, u32), Errno> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let at = (&raw mut peer).cast();
    // SAFETY: the kernel writes at most as many bytes as the structure has, all of which are numbers.
    let result = unsafe {
        libc::getsockopt(connection.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut length)
    };
    match result {
        0 => Ok((peer.pid, peer.uid)),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// A connection to the broker at this path. Each of its calls waits up to `limit`.
///
/// Fails with `NOTSOCK` if a file is there that is no socket, which the kernel tells as it does that nobody listens.
pub(super) fn connect(path: &Path, limit: Duration) -> Result<OwnedFd, Errno> {
    let socket = new(SocketFlags::empty())?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(limit))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(limit))?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) if !is_socket(path) => Err(Errno::NOTSOCK),
        connected => connected.map(|()| socket),
    }
}

/// Whether a path leads to a socket, or to nothing that can be looked at.
fn is_socket(path: &Path) -> bool {
    stat(path).map_or(true, |stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
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

/// Whether the process at the other end is gone.
pub(super) fn has_ended(socket: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty())];
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}
