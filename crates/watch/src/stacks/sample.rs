//! The records of the ring buffer: samples, and what the kernel says of those that it could not deliver.

/// Kinds of records, and the mode bits of one (`include/uapi/linux/perf_event.h`).
const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const MODE_BITS: u16 = 7;
const KERNEL: u16 = 1;
/// Entries of a call chain from this on are no addresses: they say whose addresses follow.
const MARKERS: u64 = -4095_i64 as u64;
const HEADER_BYTES: usize = 8;
/// Entries of a call chain at most: more do not fit into a record. The kernel stops at 127 unless `perf_event_max_stack` was set.
const CHAIN_MAX: u64 = 8192;

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// Where a CPU was.
    Sample(Sample),
    /// So many samples found no room.
    Lost(u64),
    /// The kernel stopped the event until its next tick: samples came too fast.
    Throttled,
    /// Of another kind.
    Other,
}

/// Where a CPU was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    /// Addresses in the kernel, the innermost function's first; empty in user mode.
    pub(super) kernel: Vec<u64>,
    /// The register that was asked for, if the sample has it.
    pub(super) register: Option<u64>,
}

/// Records one after the other. It ends before the first that is none: what follows it has no known begin.
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    /// Whether samples have a register.
    has_register: bool,
    /// Bytes that could not be understood.
    pub(super) malformed_bytes: usize,
}

impl<'a> Records<'a> {
    pub(super) fn of(bytes: &'a [u8], has_register: bool) -> Self {
        Self { bytes, has_register, malformed_bytes: 0 }
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.bytes.is_empty() {
            return None;
        }
        let Some((kind, mode, body, rest)) = split(self.bytes) else {
            self.malformed_bytes += self.bytes.len();
            self.bytes = &[];
            return None;
        };
        self.bytes = rest;
        let record = match kind {
            SAMPLE => sample(mode & MODE_BITS == KERNEL, body, self.has_register).map(Record::Sample),
            // The event's number comes first.
            LOST => word(body, 1).map(Record::Lost),
            LOST_SAMPLES => word(body, 0).map(Record::Lost),
            THROTTLE => Some(Record::Throttled),
            _ => Some(Record::Other),
        };
        Some(record.unwrap_or_else(|| {
            self.malformed_bytes += body.len() + HEADER_BYTES;
            Record::Other
        }))
    }
}

/// A record's kind, its mode and what it holds, and the bytes after it.
fn split(bytes: &[u8]) -> Option<(u32, u16, &[u8], &[u8])> {
    let (header, _) = bytes.split_at_checked(HEADER_BYTES)?;
    let kind = u32::from_ne_bytes(header[..4].try_into().ok()?);
    let mode = u16::from_ne_bytes(header[4..6].try_into().ok()?);
    let size = u16::from_ne_bytes(header[6..].try_into().ok()?);
    let (record, rest) = bytes.split_at_checked(usize::from(size))?;
    Some((kind, mode, record.get(HEADER_BYTES..)?, rest))
}

/// A word of a record by its place.
fn word(body: &[u8], place: usize) -> Option<u64> {
    let at = place.checked_mul(8)?;
    body.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

/// An address, a call chain and a register. The chain's first address is that of the sample.
fn sample(is_kernel: bool, body: &[u8], has_register: bool) -> Option<Sample> {
    let address = word(body, 0)?;
    let entries = word(body, 1).filter(|entries| *entries <= CHAIN_MAX)? as usize;
    let chain = (2..2 + entries).map(|place| word(body, place)).collect::<Option<Vec<u64>>>()?;
    let register = match has_register {
        // The first word says whether registers follow; without those of the interrupted code it is 0.
        true if word(body, 2 + entries)? != 0 => Some(word(body, 3 + entries)?),
        _ => None,
    };
    let mut kernel = Vec::new();
    if is_kernel {
        kernel.push(address);
        let mut callers = chain.into_iter().filter(|entry| *entry < MARKERS).peekable();
        callers.next_if_eq(&address);
        kernel.extend(callers);
    }
    Some(Sample { kernel, register })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::stacks::random::Random;

    fn record(kind: u32, mode: u16, words: &[u64]) -> Vec<u8> {
        let size = (HEADER_BYTES + 8 * words.len()) as u16;
        let header = [&kind.to_ne_bytes()[..], &mode.to_ne_bytes(), &size.to_ne_bytes()].concat();
        header.into_iter().chain(words.iter().flat_map(|word| word.to_ne_bytes())).collect()
    }

    /// A sample as the kernel writes it: `PERF_CONTEXT_KERNEL` leads the chain.
    fn made(chain: &[u64], register: Option<u64>) -> Vec<u8> {
        let mut words = vec![chain[0], chain.len() as u64 + 1, -128_i64 as u64];
        words.extend(chain);
        match register {
            Some(value) => words.extend([2, value]),
            None => words.push(0),
        }
        record(SAMPLE, KERNEL, &words)
    }

    #[test]
    fn records_are_read_as_the_kernel_writes_them() {
        let user = record(SAMPLE, 2, &[0x40_1000, 0, 0]);
        let bytes = [
            made(&[0xffff_0000_0000_1000, 0xffff_0000_0000_2000], Some(0x46)),
            record(LOST, 0, &[7, 12]),
            user,
            record(LOST_SAMPLES, 0, &[3]),
            record(THROTTLE, 0, &[0, 0, 0]),
            record(6, 0, &[0, 0, 0]),
        ]
        .concat();
        let mut records = Records::of(&bytes, true);
        let read: Vec<Record> = records.by_ref().collect();
        let kernel = vec![0xffff_0000_0000_1000, 0xffff_0000_0000_2000];
        let expected = [
            Record::Sample(Sample { kernel, register: Some(0x46) }),
            Record::Lost(12),
            Record::Sample(Sample { kernel: Vec::new(), register: None }),
            Record::Lost(3),
            Record::Throttled,
            Record::Other,
        ];
        assert_eq!((read.as_slice(), records.malformed_bytes), (&expected[..], 0));
    }

    #[test]
    fn a_record_of_no_length_ends_them() {
        let mut bytes = made(&[1], None);
        bytes.extend([0; 24]);
        let mut records = Records::of(&bytes, true);
        assert_eq!(records.by_ref().count(), 1);
        assert_eq!(records.malformed_bytes, 24);
    }

    #[test]
    fn all_that_was_written_is_read() {
        for seed in 0..300 {
            let mut random = Random::of(seed);
            let samples: Vec<(Vec<u64>, Option<u64>)> = (0..random.below(40))
                .map(|_| {
                    let chain = (0..=random.below(129)).map(|_| random.below(MARKERS)).collect();
                    (chain, (random.below(2) == 0).then(|| random.next()))
                })
                .collect();
            let bytes: Vec<u8> =
                samples.iter().flat_map(|(chain, register)| made(chain, *register)).collect();
            let mut records = Records::of(&bytes, true);
            for (chain, register) in &samples {
                let expected = Sample { kernel: chain.clone(), register: *register };
                assert_eq!(records.next(), Some(Record::Sample(expected)), "seed {seed}");
            }
            assert_eq!((records.next(), records.malformed_bytes), (None, 0), "seed {seed}");
        }
    }

    /// Random bytes, records with a changed byte, and records that are cut off.
    #[test]
    fn any_bytes_end_without_a_panic() {
        for seed in 0..20_000 {
            let mut random = Random::of(seed);
            let mut bytes = random.bytes(200);
            if seed % 2 == 0 {
                let chain: Vec<u64> = (0..=random.below(20)).map(|_| random.next()).collect();
                bytes = [made(&chain, Some(1)), record(LOST, 0, &[1, 2])].concat();
                let changed = random.below(bytes.len() as u64) as usize;
                bytes[changed] = random.next() as u8;
                bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
            }
            let mut records = Records::of(&bytes, random.below(2) == 0);
            let number = records.by_ref().count();
            assert!(
                number <= bytes.len() / HEADER_BYTES && records.malformed_bytes <= bytes.len(),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_cut_sample_is_told() {
        let bytes = made(&[1, 2, 3], Some(1));
        for cut in 1..bytes.len() {
            let mut records = Records::of(&bytes[..bytes.len() - cut], true);
            assert_eq!(records.by_ref().count(), 0, "{cut}");
            assert!(records.malformed_bytes > 0, "{cut}");
        }
    }
}
