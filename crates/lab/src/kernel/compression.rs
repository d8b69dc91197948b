//! Unpacks kernel modules, which distributions keep as they are or compressed.

use std::io::{self, Read};

/// Bytes a module may unpack to. The largest of a distribution have tens of megabytes; with debugging
/// symbols, a few hundred.
const MODULE_BYTES_MAX: u64 = 512 << 20;

/// Memory that unpacking may take. The kernel's build asks xz and zstd for far less
/// (`scripts/Makefile.modinst`).
const XZ_MEMORY_BYTES_MAX: u64 = 256 << 20;

/// What keeps a module from being unpacked.
#[derive(Debug, thiserror::Error)]
pub enum CompressionError {
    /// Neither ELF nor one of the compressions that the kernel's build knows.
    #[error("it begins with {start:02x?}; expected an ELF file, or one packed by gzip, xz or zstd")]
    UnknownFormat {
        /// Its first bytes.
        start: Vec<u8>,
    },
    /// Cut off, or damaged.
    #[error("damaged")]
    Damaged(#[from] io::Error),
    /// More than any module has.
    #[error("it unpacks to more than {MODULE_BYTES_MAX} bytes")]
    TooLarge,
}

/// Unpacks a module. What it is packed by shows in its first bytes, whatever its name says.
pub(super) fn unpack(packed: Vec<u8>) -> Result<Vec<u8>, CompressionError> {
    match *packed.as_slice() {
        [0x7f, b'E', b'L', b'F', ..] => Ok(packed),
        [0x1f, 0x8b, ..] => read_bounded(flate2::bufread::MultiGzDecoder::new(packed.as_slice())),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => read_bounded(xz(&packed)?),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => read_bounded(zstd::stream::read::Decoder::with_buffer(&packed[..])?),
        _ => Err(CompressionError::UnknownFormat { start: packed.into_iter().take(6).collect() }),
    }
}

fn xz(packed: &[u8]) -> io::Result<impl Read> {
    use liblzma::stream::{CONCATENATED, Stream};
    let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, CONCATENATED)?;
    Ok(liblzma::bufread::XzDecoder::new_stream(packed, stream))
}

fn read_bounded(reader: impl Read) -> Result<Vec<u8>, CompressionError> {
    let mut bytes = Vec::new();
    reader.take(MODULE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        ..=MODULE_BYTES_MAX => Ok(bytes),
        _ => Err(CompressionError::TooLarge),
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    /// The same bytes in every packing, with the ending of each.
    pub(in crate::kernel) fn every_packing(bytes: &[u8]) -> [(&'static str, Vec<u8>); 4] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
        xz.write_all(bytes).unwrap();
        [
            ("", bytes.to_vec()),
            (".gz", gzip.finish().unwrap()),
            (".xz", xz.finish().unwrap()),
            (".zst", zstd::encode_all(bytes, 0).unwrap()),
        ]
    }

    #[test]
    fn every_packing_is_read() {
        let elf = [b"\x7fELF".as_slice(), &[7; 5000]].concat();
        for (ending, packed) in every_packing(&elf) {
            assert_eq!(unpack(packed).unwrap(), elf, "{ending}");
        }
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        for (ending, packed) in every_packing(&[9; 5000]).into_iter().skip(1) {
            let cut = packed[..packed.len() - 3].to_vec();
            assert!(matches!(unpack(cut), Err(CompressionError::Damaged(_))), "{ending}");
        }
        assert!(matches!(unpack(b"!<arch>\n".to_vec()), Err(CompressionError::UnknownFormat { .. })));
        assert!(matches!(unpack(Vec::new()), Err(CompressionError::UnknownFormat { .. })));
    }

    #[test]
    fn what_never_ends_is_an_error() {
        assert!(matches!(read_bounded(io::repeat(0)), Err(CompressionError::TooLarge)));
    }

    proptest! {
        #[test]
        fn any_bytes(start in 0..4usize, rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let magic: [&[u8]; 4] = [b"", b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"];
            drop(unpack([magic[start], &rest].concat()));
        }
    }
}
