//! The bytes of the kernel's answer: netlink messages of nested attributes, in the byte order of the machine.
//!
//! Numbers are those of include/uapi/linux/netlink.h and include/uapi/rdma/rdma_netlink.h. The text is that of iproute2's
//! rdma/res.c, `res_print_summary`.

use AnswerError::Malformed;
use rustix::io::Errno;
use std::fmt::Write;

/// `NLMSG_ERROR`: an error, or an acknowledgement.
const ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a dump.
const DONE: u16 = 3;
/// `NLMSG_MIN_TYPE`: types below it are netlink's own.
const TYPE_MIN: u16 = 0x10;
/// A client of the kernel's and its command: `RDMA_NL_NLDEV`, `RDMA_NLDEV_CMD_RES_GET`.
const RESOURCES: u16 = (5 << 10) | 9;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_FLAGS: u16 = 0x1 | 0x300;
/// The number of our request, which its answers carry.
const SEQUENCE: u32 = 1;
/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEADER_BYTES: usize = 16;

// `enum rdma_nldev_attr`.
const DEVICE_INDEX: u16 = 1;
const DEVICE_NAME: u16 = 2;
const SUMMARY: u16 = 15;
const SUMMARY_ENTRY: u16 = 16;
const ENTRY_NAME: u16 = 17;
const ENTRY_COUNT: u16 = 18;

/// The request: a header alone.
pub(super) const REQUEST: [u8; HEADER_BYTES] = header(HEADER_BYTES as u32, RESOURCES, REQUEST_FLAGS);

/// The header of a message.
const fn header(length: u32, kind: u16, flags: u16) -> [u8; HEADER_BYTES] {
    let [l0, l1, l2, l3] = length.to_ne_bytes();
    let ([k0, k1], [f0, f1], [s0, s1, s2, s3]) =
        (kind.to_ne_bytes(), flags.to_ne_bytes(), SEQUENCE.to_ne_bytes());
    [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, 0, 0, 0, 0]
}

/// Whether the answer goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Another datagram follows.
    More,
    /// That was all.
    End,
}

/// An answer that tells nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnswerError {
    /// The kernel's error.
    #[error("{0}")]
    Refused(Errno),
    /// Bytes that are no answer.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
}

/// Appends a line for each device that a datagram describes.
pub(super) fn append_lines(datagram: &[u8], lines: &mut String) -> Result<Progress, AnswerError> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let (length, after) = number(rest, u32::from_ne_bytes)?;
        let (kind, after) = number(after, u16::from_ne_bytes)?;
        let (_flags, after) = number(after, u16::from_ne_bytes)?;
        let (sequence, _) = number(after, u32::from_ne_bytes)?;
        let length = usize::try_from(length).map_err(|_| Malformed("length of a message"))?;
        let body = rest.get(HEADER_BYTES..length).ok_or(Malformed("length of a message"))?;
        rest = after_aligned(rest, length);
        if sequence != SEQUENCE {
            return Err(Malformed("a message that answers another request"));
        }
        match kind {
            // An acknowledgement has the error 0.
            ERROR | DONE => return status(body).map(|()| Progress::End),
            RESOURCES => append_line(body, lines)?,
            kind if kind < TYPE_MIN => {}
            _ => return Err(Malformed("type of a message")),
        }
    }
    Ok(Progress::More)
}

/// Whether the status at the beginning of a message says that all went well. An error is a negative number.
fn status(body: &[u8]) -> Result<(), AnswerError> {
    let (status, _) = number(body, i32::from_ne_bytes)?;
    match status.checked_neg() {
        // `MAX_ERRNO` (include/linux/err.h).
        Some(error @ 1..=4095) => Err(AnswerError::Refused(Errno::from_raw_os_error(error))),
        Some(..=0) => Ok(()),
        _ => Err(Malformed("status")),
    }
}

/// Appends the line of a device: `0: mlx5_0: pd 4 cq 6 qp 5 cm_id 0 mr 2 ctx 0 srq 2 `.
fn append_line(body: &[u8], lines: &mut String) -> Result<(), AnswerError> {
    let (mut index, mut name, mut counts) = (None, None, None);
    for attribute in Attributes(body) {
        match attribute? {
            (DEVICE_INDEX, value) => index = Some(number(value, u32::from_ne_bytes)?.0),
            (DEVICE_NAME, value) => name = Some(word(value)?),
            (SUMMARY, value) => counts = Some(summary(value)?),
            _ => {}
        }
    }
    let (Some(index), Some(name), Some(counts)) = (index, name, counts) else {
        return Err(Malformed("a device without index, name or counts"));
    };
    // Writing to a string does not fail.
    let _ = writeln!(lines, "{index}: {name}: {counts}");
    Ok(())
}

/// The counts of a device: `pd 4 cq 6 `.
fn summary(table: &[u8]) -> Result<String, AnswerError> {
    let mut counts = String::new();
    for entry in Attributes(table) {
        let (SUMMARY_ENTRY, entry) = entry? else { continue };
        let (mut name, mut count) = (None, None);
        for attribute in Attributes(entry) {
            match attribute? {
                (ENTRY_NAME, value) => name = Some(word(value)?),
                (ENTRY_COUNT, value) => count = Some(number(value, u64::from_ne_bytes)?.0),
                _ => {}
            }
        }
        let (Some(name), Some(count)) = (name, count) else {
            return Err(Malformed("a count without its name or number"));
        };
        let _ = write!(counts, "{name} {count} ");
    }
    Ok(counts)
}

/// A name, which ends in a NUL. Blanks or line feeds in it would make other lines of the text.
fn word(value: &[u8]) -> Result<&str, AnswerError> {
    let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_word = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    let name = is_word.then(|| std::str::from_utf8(name).ok()).flatten();
    name.ok_or(Malformed("a name"))
}

/// The number at the beginning of these bytes, and what follows it.
fn number<const BYTES: usize, N>(
    bytes: &[u8],
    from: fn([u8; BYTES]) -> N,
) -> Result<(N, &[u8]), AnswerError> {
    let (number, rest) = bytes.split_first_chunk().ok_or(Malformed("it ends too early"))?;
    Ok((from(*number), rest))
}

/// What follows an item of this length: items begin at multiples of 4 bytes, and the last one need not be filled up.
fn after_aligned(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(length.next_multiple_of(4)..).unwrap_or_default()
}

/// An attribute's type, without flags, and its value.
type Attribute<'b> = (u16, &'b [u8]);

/// Attributes one behind the other: `struct nlattr` with length and type, and the value. An error is the last item.
struct Attributes<'b>(&'b [u8]);

impl<'b> Attributes<'b> {
    /// The first attribute, and what follows it.
    fn split_first(bytes: &'b [u8]) -> Result<(Attribute<'b>, &'b [u8]), AnswerError> {
        /// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
        const FLAGS: u16 = 0x8000 | 0x4000;
        let (length, after) = number(bytes, u16::from_ne_bytes)?;
        let (kind, after) = number(after, u16::from_ne_bytes)?;
        let length = usize::from(length);
        let value = length.checked_sub(4).and_then(|value_bytes| after.get(..value_bytes));
        let value = value.ok_or(Malformed("length of an attribute"))?;
        Ok(((kind & !FLAGS, value), after_aligned(bytes, length)))
    }
}

impl<'b> Iterator for Attributes<'b> {
    type Item = Result<Attribute<'b>, AnswerError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let first = Self::split_first(self.0);
        self.0 = first.map_or(&[], |(_, rest)| rest);
        Some(first.map(|(attribute, _)| attribute))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `NLA_F_NESTED`, which newer kernels set and older ones do not.
    const NESTED: u16 = 0x8000;

    /// An attribute, filled up to a multiple of 4 bytes.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap();
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut bytes = [&header(length, kind, 2), body].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A device's message as `fill_res_info` makes it, with attributes that nobody asked for.
    fn device(index: u32, name: &str, nested: u16, counts: &[(&str, u64)]) -> Vec<u8> {
        let entry = |(name, count): &(&str, u64)| {
            let name = attribute(ENTRY_NAME, format!("{name}\0").as_bytes());
            // `RDMA_NLDEV_ATTR_PAD` aligns the number where the CPU wants it so.
            let entry = [name, attribute(0, &[]), attribute(ENTRY_COUNT, &count.to_ne_bytes())].concat();
            attribute(SUMMARY_ENTRY | nested, &entry)
        };
        let table: Vec<u8> = counts.iter().flat_map(entry).collect();
        let body = [
            attribute(DEVICE_INDEX, &index.to_ne_bytes()),
            attribute(DEVICE_NAME, format!("{name}\0").as_bytes()),
            attribute(84, b"roce\0"),
            attribute(SUMMARY | nested, &table),
        ];
        message(RESOURCES, &body.concat())
    }

    fn lines(datagram: &[u8]) -> (String, Result<Progress, AnswerError>) {
        let mut lines = String::new();
        let progress = append_lines(datagram, &mut lines);
        (lines, progress)
    }

    #[test]
    fn the_request_is_a_dump_of_resources() {
        // Length, type, flags, sequence number, and the port, which is the kernel's.
        let words: [&[u8]; 5] = [
            &16_u32.to_ne_bytes(),
            &0x1409_u16.to_ne_bytes(),
            &0x301_u16.to_ne_bytes(),
            &1_u32.to_ne_bytes(),
            &[0; 4],
        ];
        assert_eq!(REQUEST.as_slice(), words.concat());
    }

    #[test]
    fn devices_become_lines_of_the_tool() {
        let counts = [("pd", 4), ("cq", 6), ("qp", 5), ("cm_id", 0), ("mr", u64::MAX)];
        let datagram = [
            device(0, "mlx5_0", NESTED, &counts),
            device(3, "rxe0", 0, &[]),
            device(7, "a", 0, &[("qp", 1)]),
        ];
        let expected = "0: mlx5_0: pd 4 cq 6 qp 5 cm_id 0 mr 18446744073709551615 \n3: rxe0: \n7: a: qp 1 \n";
        assert_eq!(lines(&datagram.concat()), (expected.to_owned(), Ok(Progress::More)));
    }

    #[test]
    fn an_answer_ends_with_a_status() {
        let done = |status: i32| lines(&message(DONE, &status.to_ne_bytes())).1;
        assert_eq!(done(0), Ok(Progress::End));
        assert_eq!(done(-1), Err(AnswerError::Refused(Errno::PERM)));
        assert_eq!(done(i32::MIN), Err(Malformed("status")));
        let error = |status: i32| [&status.to_ne_bytes()[..], &REQUEST].concat();
        assert_eq!(lines(&message(ERROR, &error(-22))).1, Err(AnswerError::Refused(Errno::INVAL)));
        assert_eq!(lines(&message(ERROR, &error(0))).1, Ok(Progress::End));
        assert_eq!(lines(&message(ERROR, &[])).1, Err(Malformed("it ends too early")));
        // What follows the end is not read.
        let rest = [message(DONE, &[0; 4]), vec![1]].concat();
        assert_eq!(lines(&rest).1, Ok(Progress::End));
        assert_eq!(lines(&message(1, &[])).1, Ok(Progress::More));
    }

    #[test]
    fn malformed_answers_are_errors() {
        let malformed = |datagram: &[u8]| match lines(datagram).1 {
            Err(Malformed(what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(malformed(&header(15, RESOURCES, 0)), "length of a message");
        assert_eq!(malformed(&header(17, RESOURCES, 0)), "length of a message");
        assert_eq!(malformed(&header(16, RESOURCES + 1, 0)), "type of a message");
        assert_eq!(malformed(&[1; 3]), "it ends too early");
        let mut of_other = message(DONE, &[0; 4]);
        of_other[8] ^= 0x10;
        assert_eq!(malformed(&of_other), "a message that answers another request");
        assert_eq!(malformed(&message(RESOURCES, &[])), "a device without index, name or counts");
        for length in [0_u16, 3, 9] {
            let bytes = [&length.to_ne_bytes()[..], &[1, 0, 0, 0, 0, 0]].concat();
            assert_eq!(malformed(&message(RESOURCES, &bytes)), "length of an attribute", "{length}");
        }
        for name in ["", "a b", "a\nb", "ä"] {
            assert_eq!(malformed(&device(0, name, 0, &[])), "a name", "{name:?}");
            assert_eq!(malformed(&device(0, "a", 0, &[(name, 1)])), "a name", "{name:?}");
        }
        let short = message(RESOURCES, &attribute(DEVICE_INDEX, &[0; 2]));
        assert_eq!(malformed(&short), "it ends too early");
        let entry = attribute(SUMMARY, &attribute(SUMMARY_ENTRY, &attribute(ENTRY_COUNT, &[0; 8])));
        assert_eq!(malformed(&message(RESOURCES, &entry)), "a count without its name or number");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(datagram in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = lines(&datagram);
            let _ = lines(&message(RESOURCES, &datagram));
            let _ = lines(&message(RESOURCES, &attribute(SUMMARY, &datagram)));
            prop_assert!(Attributes(&datagram).count() <= datagram.len());
        }

        #[test]
        fn what_a_kernel_counts_is_what_is_read(
            devices in proptest::collection::vec(
                (any::<u32>(), "[a-z0-9_]{1,20}", any::<bool>(), proptest::collection::vec(("[a-z_]{1,9}", any::<u64>()), 0..9)),
                0..6,
            ),
        ) {
            let mut expected = String::new();
            let mut datagram = Vec::new();
            for (index, name, nested, counts) in &devices {
                let counts: Vec<(&str, u64)> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
                datagram.extend(device(*index, name, if *nested { NESTED } else { 0 }, &counts));
                let words: String = counts.iter().map(|(name, count)| format!("{name} {count} ")).collect();
                expected += &format!("{index}: {name}: {words}\n");
            }
            prop_assert_eq!(lines(&datagram), (expected, Ok(Progress::More)));
        }

        #[test]
        fn a_changed_answer_is_read_or_refused(at in 0_usize..200, byte: u8, length in 0_usize..240) {
            let counts = [("pd", 1), ("cq", 2), ("qp", 3), ("mr", 4)];
            let mut datagram = [device(0, "mlx5_0", NESTED, &counts), message(DONE, &[0; 4])].concat();
            if let Some(changed) = datagram.get_mut(at) {
                *changed = byte;
            }
            datagram.truncate(length);
            let (lines, _) = lines(&datagram);
            prop_assert!(lines.lines().count() <= 1);
        }
    }
}
