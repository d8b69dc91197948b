//! What `rdma resource` prints, from the live kernel: how many queue pairs and memory registrations each RDMA device has.
//!
//! The kernel answers through a netlink socket of the protocol `NETLINK_RDMA` (drivers/infiniband/core/nldev.c,
//! `nldev_res_get_dumpit`), to any user. Its answer becomes the tool's text, so that one parser reads a live host and a capture.

mod answer;

use super::source::Refusal;
use answer::{AnswerError, Progress};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::time::Duration;

/// Where captures keep the text.
pub(super) const PATH: &str = "rdma_resource";

/// The longest datagram of a dump (net/netlink/af_netlink.c, `netlink_dump`).
const DATAGRAM_BYTES_MAX: usize = 32 << 10;
/// Datagrams of one answer. One has room for dozens of devices.
const DATAGRAMS_MAX: usize = 1024;
/// The kernel makes each datagram of a dump while it is asked for: it waits for locks alone.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The answer as lines of `rdma resource`.
///
/// Opening the socket on a host without RDMA devices could load the kernel's module for them: the caller has seen one.
pub(super) fn read() -> Result<String, Refusal> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::RDMA),
    )
    .map_err(refusal_of)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(WAIT_MAX)).map_err(refusal_of)?;
    // A connected socket takes messages of the kernel alone, whose port is 0.
    rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0)).map_err(refusal_of)?;
    rustix::net::send(&socket, &answer::REQUEST, SendFlags::empty()).map_err(refusal_of)?;
    let mut lines = String::new();
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    for _ in 0..DATAGRAMS_MAX {
        // With this flag a longer datagram is told by its length.
        let length = match rustix::net::recv(&socket, &mut datagram, RecvFlags::TRUNC) {
            Ok((_, length)) => length,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(refusal_of(error)),
        };
        let datagram = datagram.get(..length).ok_or_else(|| other("a message is too long"))?;
        match answer::append_lines(datagram, &mut lines) {
            Ok(Progress::More) => {}
            Ok(Progress::End) => return Ok(lines),
            Err(AnswerError::Refused(error)) => return Err(refusal_of(error)),
            Err(error) => return Err(other(&error.to_string())),
        }
    }
    Err(Refusal::TooMany { what: "messages of one answer", max: DATAGRAMS_MAX })
}

/// Why the kernel did not answer. None of its errors means that there is no RDMA device: the caller has seen one.
fn refusal_of(error: Errno) -> Refusal {
    if error == Errno::AGAIN {
        return other(&format!("no answer within {} s", WAIT_MAX.as_secs()));
    }
    match Refusal::from(io::Error::from(error)) {
        Refusal::NoPermission => Refusal::NoPermission,
        // Kernels that do not count, which came before 2018.
        _ if matches!(error, Errno::INVAL | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT) => {
            other(&format!("the kernel does not count them ({})", io::Error::from(error)))
        }
        _ => other(&io::Error::from(error).to_string()),
    }
}

/// A refusal in these words.
fn other(words: &str) -> Refusal {
    Refusal::Other { message: format!("RDMA netlink: {words}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
mod tests {
    use super::super::{Disk, Memory, Reach, Tree, progress};
    use super::*;

    #[test]
    fn a_live_host_without_rdma_devices_is_not_asked_and_no_file_is_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(PATH), "0: mlx5_0: qp 5 mr 2\n").unwrap();
        for class in [None, Some("sys/class/infiniband")] {
            if let Some(class) = class {
                std::fs::create_dir_all(root.path().join(class)).unwrap();
            }
            let disk = Box::new(Disk::new(root.path()));
            let tree = Tree::with_prefix(disk, Reach::Live, String::new(), progress::ignore());
            assert!(tree.rdma_resources().is_none());
            assert!(tree.read_log().files().all(|path| path != PATH) && tree.unread().is_empty());
        }
    }

    #[test]
    fn a_capture_has_a_file() {
        let mut files = Memory::default();
        files.file(PATH, "0: mlx5_0: qp 5 mr 2\n");
        assert_eq!(Tree::of_memory(files).rdma_resources().unwrap().body(), "0: mlx5_0: qp 5 mr 2\n");
    }

    #[test]
    fn no_error_of_the_kernel_counts_as_an_absent_source() {
        assert_eq!(refusal_of(Errno::PERM), Refusal::NoPermission);
        assert_eq!(refusal_of(Errno::ACCESS), Refusal::NoPermission);
        let words = |error| refusal_of(error).to_string();
        assert_eq!(words(Errno::AGAIN), "RDMA netlink: no answer within 1 s");
        assert_eq!(
            words(Errno::INVAL),
            "RDMA netlink: the kernel does not count them (Invalid argument (os error 22))"
        );
        assert!(words(Errno::PROTONOSUPPORT).contains("does not count them (Protocol not supported"));
        assert_eq!(words(Errno::NOENT), "RDMA netlink: No such file or directory (os error 2)");
        assert_eq!(words(Errno::NOBUFS), "RDMA netlink: No buffer space available (os error 105)");
    }
}
