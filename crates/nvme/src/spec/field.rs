//! Little-endian numbers within a data structure.

/// The number of `WIDTH` bytes at an offset. Bytes beyond the structure's end count as zero.
pub(super) fn number<const WIDTH: usize>(bytes: &[u8], at: usize) -> u128 {
    let field = bytes.iter().skip(at).take(WIDTH);
    field.enumerate().fold(0, |number, (place, byte)| number | u128::from(*byte) << (8 * place))
}

/// Writes the low bytes of a number at an offset, as many as fit in `width` bytes.
pub(super) fn write_number(bytes: &mut [u8], at: usize, width: usize, number: u128) {
    let encoded = number.to_le_bytes();
    bytes.iter_mut().skip(at).take(width).zip(encoded).for_each(|(into, byte)| *into = byte);
}
