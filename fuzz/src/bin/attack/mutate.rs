//! From real inputs to hostile ones.

use crate::seeds;
use fastrand::Rng;
use std::io;
use std::ops::Range;

/// No input grows beyond this.
const BYTES_MAX: usize = 256 << 10;

/// What breaks terminals, shells, pages, paths and numbers, whatever the target.
const WORDS: [&str; 68] = [
    "0",
    "-0",
    "-1",
    "1",
    "127",
    "128",
    "255",
    "256",
    "32767",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e308",
    "1e309",
    "-1e308",
    "5e-324",
    "1e-9",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "NaN",
    "0x",
    "0x0",
    "0xffffffff",
    "0xffffffffffffffff",
    "0x10000000000000000",
    "0-4294967295",
    "4294967295-0",
    "64T",
    "16E",
    "17179869184G",
    "\u{1b}[2J",
    "\u{1b}]0;hostile\u{7}",
    "\u{1b}[31m",
    "\u{9b}31m",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{fffd}",
    "\u{7f}",
    "\r",
    "\u{8}\u{8}",
    "<hostile>",
    "\" onhostile=\"1",
    "'><hostile ",
    "]]><hostile>",
    "&lt;hostile&gt;",
    "$(hostile)",
    "`hostile`",
    "; hostile #",
    "' hostile '",
    "../../../../",
    "/proc/self/fd/0",
    "\t",
    "\n",
    "\n\n",
    "=",
];

/// Bytes that no text has.
const BYTES: [&[u8]; 8] = [
    &[0],
    &[0; 8],
    &[0xff],
    &[0xff; 8],
    &[0xc0, 0x80],
    &[0xed, 0xa0, 0x80],
    &[0xf4, 0x90, 0x80, 0x80],
    &[0x80],
];

/// Makes the inputs of one target.
pub struct Mutator {
    target: u64,
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Mutator {
    /// Reads what the target's inputs are made from.
    pub fn new(target: &str) -> io::Result<Self> {
        let mut words = seeds::dictionary(target)?;
        // Half of all choices of a word fall on the dictionary, whatever its size.
        let own = words.len().max(1);
        let general: Vec<Vec<u8>> = WORDS.iter().map(|word| word.as_bytes().to_vec()).collect();
        let general: Vec<Vec<u8>> =
            general.into_iter().chain(BYTES.iter().map(|bytes| bytes.to_vec())).collect();
        words = words.into_iter().cycle().take(general.len().div_ceil(own) * own).chain(general).collect();
        let seeds = seeds::of(target)?;
        // FNV-1a: two targets have different inputs by the same numbers.
        let target = target.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Ok(Self { target, seeds, words })
    }

    /// The input of a number.
    pub fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        // Numbers that follow each other begin far apart (the step of SplitMix64).
        let mixed = self.target ^ seed.rotate_left(32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut rng = Rng::with_seed(mixed);
        let mut input = self.seed(&mut rng).clone();
        // Few changes reach deep, many reach wide.
        for _ in 0..1 << rng.u32(0..5) {
            self.change(&mut input, &mut rng);
            input.truncate(BYTES_MAX);
        }
        input
    }

    fn seed(&self, rng: &mut Rng) -> &Vec<u8> {
        &self.seeds[rng.usize(..self.seeds.len())]
    }

    fn word(&self, rng: &mut Rng) -> &[u8] {
        &self.words[rng.usize(..self.words.len())]
    }

    fn change(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        match rng.u32(0..19) {
            0 => flip(input, rng),
            1 => {
                let byte = rng.u8(..);
                overwrite(input, rng, &[byte]);
            }
            2 => {
                let bytes = bytes(rng);
                insert(input, rng, &bytes);
            }
            3 => drop(input.drain(range(input.len(), rng))),
            4 => input.truncate(rng.usize(..=input.len())),
            5 => repeat(input, rng),
            6 | 7 => {
                let word = self.word(rng);
                insert(input, rng, word);
            }
            8 => {
                let word = self.word(rng);
                overwrite(input, rng, word);
            }
            9 | 10 => self.number(input, rng),
            11 => self.cross(input, rng),
            12 => integer(input, rng),
            13 => move_range(input, rng),
            14 => lines(input, rng, |lines, rng| drop(lines.remove(rng.usize(..lines.len())))),
            15 => lines(input, rng, |lines, rng| {
                let line = lines[rng.usize(..lines.len())].clone();
                let times = 1 << rng.u32(0..10);
                let at = rng.usize(..=lines.len());
                lines.splice(at..at, std::iter::repeat_n(line, times));
            }),
            16 => lines(input, rng, |lines, rng| {
                let (one, other) = (rng.usize(..lines.len()), rng.usize(..lines.len()));
                lines.swap(one, other);
            }),
            17 => self.value(input, rng),
            _ => {
                let range = range(input.len(), rng);
                input[range].iter_mut().for_each(|byte| *byte ^= 0x20);
            }
        }
    }

    /// Another number in place of one.
    fn number(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        let Some(found) = run(input, rng, |byte| byte.is_ascii_digit()) else { return };
        let word = WORDS[rng.usize(..41)];
        input.splice(found, word.bytes());
    }

    /// Another value behind an equals sign, a colon or a blank.
    fn value(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        let Some(found) = run(input, rng, |byte| !b" =:,;\n\t\"".contains(&byte)) else { return };
        let word = self.word(rng).to_vec();
        input.splice(found, word);
    }

    /// The beginning of this and the end of another.
    fn cross(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        let other = self.seed(rng);
        input.truncate(rng.usize(..=input.len()));
        input.extend_from_slice(&other[rng.usize(..=other.len())..]);
    }
}

/// Somewhere in so many bytes, mostly short.
fn range(length: usize, rng: &mut Rng) -> Range<usize> {
    let first = rng.usize(..=length);
    let longest = 1 << rng.u32(0..16);
    first..first + rng.usize(..=(length - first).min(longest))
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    (0..1 << rng.u32(0..6)).map(|_| rng.u8(..)).collect()
}

fn flip(input: &mut [u8], rng: &mut Rng) {
    if !input.is_empty() {
        let at = rng.usize(..input.len());
        input[at] ^= 1 << rng.u32(0..8);
    }
}

fn insert(input: &mut Vec<u8>, rng: &mut Rng, word: &[u8]) {
    let at = rng.usize(..=input.len());
    input.splice(at..at, word.iter().copied());
}

fn overwrite(input: &mut [u8], rng: &mut Rng, word: &[u8]) {
    let at = rng.usize(..=input.len());
    input[at..].iter_mut().zip(word).for_each(|(byte, new)| *byte = *new);
}

fn repeat(input: &mut Vec<u8>, rng: &mut Rng) {
    let range = range(input.len(), rng);
    let copied = input[range.clone()].repeat(1 << rng.u32(0..8));
    input.splice(range.end..range.end, copied.into_iter().take(BYTES_MAX));
}

fn move_range(input: &mut Vec<u8>, rng: &mut Rng) {
    let moved: Vec<u8> = input.drain(range(input.len(), rng)).collect();
    insert(input, rng, &moved);
}

/// An extreme integer of 2, 4 or 8 bytes, in either order.
fn integer(input: &mut [u8], rng: &mut Rng) {
    let near = [0, 1, u64::MAX, 1 << 63, 1 << 31, 1 << 32, u64::MAX >> 1, 0xffff_ffff, 0xffff, 512, 4096];
    let number = near[rng.usize(..near.len())].wrapping_add(rng.u64(0..3)).wrapping_sub(1);
    let width = 2 << rng.u32(0..3);
    let bytes = number.to_le_bytes();
    let mut bytes = bytes[..width].to_vec();
    if rng.bool() {
        bytes.reverse();
    }
    overwrite(input, rng, &bytes);
}

/// A run of bytes of a kind, around or behind a place.
fn run(input: &[u8], rng: &mut Rng, is: impl Fn(u8) -> bool) -> Option<Range<usize>> {
    let from = rng.usize(..=input.len());
    let first = from + input[from..].iter().position(|byte| is(*byte))?;
    let length = input[first..].iter().take_while(|byte| is(**byte)).count();
    Some(first..first + length)
}

fn lines(input: &mut Vec<u8>, rng: &mut Rng, change: impl Fn(&mut Vec<Vec<u8>>, &mut Rng)) {
    let mut lines: Vec<Vec<u8>> = input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    change(&mut lines, rng);
    *input = lines.join(&b'\n');
    input.truncate(BYTES_MAX);
}
