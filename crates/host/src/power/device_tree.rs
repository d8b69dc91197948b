//! Raw device-tree properties: big-endian cells and NUL-terminated strings.
//!
//! Linux shows them unaltered under `/sys/firmware/devicetree/base` (`/proc/device-tree`), so a length
//! or a character may be anything; whatever does not fit is an error that names the property.

/// Longest string accepted, in bytes: real ones are short, and an error quotes them.
const STRING_BYTES_MAX: usize = 4096;

/// A property that does not hold what its name promises.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// The wrong number of bytes.
    #[error("{property} has {len} bytes; expected {expected}")]
    Length {
        /// The property.
        property: String,
        /// How many bytes it has.
        len: usize,
        /// How many it should have.
        expected: String,
    },
    /// Bytes that are no text.
    #[error("{property} is not text ({len} bytes); expected {expected}")]
    Text {
        /// The property.
        property: String,
        /// How many bytes it has.
        len: usize,
        /// What was expected.
        expected: &'static str,
    },
    /// A number that makes no sense where it stands.
    #[error("{property}: {what} is {value:#x}; expected {expected}")]
    Value {
        /// The property.
        property: String,
        /// Which number in it.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What was expected.
        expected: String,
    },
}

impl PropertyError {
    pub(crate) fn length(property: &str, bytes: &[u8], expected: impl Into<String>) -> Self {
        Self::Length { property: property.to_owned(), len: bytes.len(), expected: expected.into() }
    }

    pub(crate) fn value(property: &str, what: &'static str, value: u64, expected: impl Into<String>) -> Self {
        Self::Value { property: property.to_owned(), what, value, expected: expected.into() }
    }
}

/// One 32-bit cell.
pub fn u32_cell(property: &str, bytes: &[u8]) -> Result<u32, PropertyError> {
    let cell = bytes.try_into().map_err(|_| PropertyError::length(property, bytes, "4"))?;
    Ok(u32::from_be_bytes(cell))
}

/// One 64-bit number, that is two cells.
pub fn u64_cells(property: &str, bytes: &[u8]) -> Result<u64, PropertyError> {
    let cells = bytes.try_into().map_err(|_| PropertyError::length(property, bytes, "8"))?;
    Ok(u64::from_be_bytes(cells))
}

/// A number of one or two cells, as sizes are written where `#size-cells` may be 1 or 2.
pub fn number(property: &str, bytes: &[u8]) -> Result<u64, PropertyError> {
    match bytes.len() {
        4 => u32_cell(property, bytes).map(u64::from),
        8 => u64_cells(property, bytes),
        _ => Err(PropertyError::length(property, bytes, "4 or 8")),
    }
}

/// All cells.
pub fn cells(property: &str, bytes: &[u8]) -> Result<Vec<u32>, PropertyError> {
    let (cells, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(PropertyError::length(property, bytes, "a multiple of 4"));
    }
    Ok(cells.iter().map(|cell| u32::from_be_bytes(*cell)).collect())
}

/// One string. The closing NUL may be missing: captures made with text tools lose it.
pub fn string(property: &str, bytes: &[u8]) -> Result<String, PropertyError> {
    let mut strings = strings(property, bytes)?;
    match (strings.pop(), strings.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => Err(PropertyError::Text {
            property: property.to_owned(),
            len: bytes.len(),
            expected: "one NUL-terminated string",
        }),
    }
}

/// A list of strings, each closed by NUL.
pub fn strings(property: &str, bytes: &[u8]) -> Result<Vec<String>, PropertyError> {
    let error = || PropertyError::Text {
        property: property.to_owned(),
        len: bytes.len(),
        expected: "NUL-terminated strings",
    };
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| error())?;
    let text = text.strip_suffix('\0').unwrap_or(text);
    text.split('\0')
        .map(|one| {
            // A newline is what `cat > capture` or lsprop leaves behind.
            let one = one.trim_end_matches('\n');
            let plain = one.len() <= STRING_BYTES_MAX && !one.chars().any(char::is_control);
            plain.then(|| one.to_owned()).ok_or_else(error)
        })
        .collect()
}

/// A string list with a count in front: `ibm,drc-names`, `ibm,drc-types` (LoPAR, Dynamic
/// Reconfiguration).
pub fn counted_strings(property: &str, bytes: &[u8]) -> Result<Vec<String>, PropertyError> {
    let (count, rest) =
        bytes.split_first_chunk::<4>().ok_or_else(|| PropertyError::length(property, bytes, "at least 4"))?;
    let count = u32::from_be_bytes(*count);
    let strings = strings(property, rest)?;
    if u64::try_from(strings.len()).ok() == Some(u64::from(count)) {
        return Ok(strings);
    }
    let expected = format!("{} as there are strings", strings.len());
    Err(PropertyError::value(property, "its count", u64::from(count), expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers() {
        assert_eq!(u32_cell("a", &[0, 0, 1, 2]), Ok(0x102));
        assert_eq!(number("a", &[0, 0, 0, 0, 0x10, 0, 0, 0]), Ok(0x1000_0000));
        assert_eq!(cells("a", &[0, 0, 0, 1, 0, 0, 0, 2]), Ok(vec![1, 2]));
        let text = |e: Result<u32, PropertyError>| e.unwrap_err().to_string();
        assert_eq!(text(u32_cell("ibm,lmb-size", &[1, 2, 3])), "ibm,lmb-size has 3 bytes; expected 4");
    }

    #[test]
    fn texts() {
        assert_eq!(string("model", b"IBM,8231-E2C\0").unwrap(), "IBM,8231-E2C");
        assert_eq!(string("model", b"IBM,8231-E2C").unwrap(), "IBM,8231-E2C");
        assert_eq!(string("model", b"AL770_028\n").unwrap(), "AL770_028");
        assert_eq!(strings("x", b"hcall-tce\0hcall-multi-tce\0").unwrap(), ["hcall-tce", "hcall-multi-tce"]);
        assert!(string("model", b"a\0b\0").is_err());
        assert!(string("model", b"").is_err());
        assert!(strings("x", b"\xff\0").is_err());
        assert!(strings("x", b"a\x1bb\0").is_err());
        assert_eq!(counted_strings("n", b"\0\0\0\x02C1\0C2\0").unwrap(), ["C1", "C2"]);
        assert!(counted_strings("n", b"\xff\0\0\x02C1\0C2\0").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = (u32_cell("p", &bytes), u64_cells("p", &bytes), number("p", &bytes));
            let _ = (cells("p", &bytes), string("p", &bytes), strings("p", &bytes));
            let _ = counted_strings("p", &bytes);
        }

        #[test]
        fn numbers_round_trip(value: u64, cell: u32) {
            prop_assert_eq!(number("p", &value.to_be_bytes()), Ok(value));
            prop_assert_eq!(u32_cell("p", &cell.to_be_bytes()), Ok(cell));
        }
    }
}
