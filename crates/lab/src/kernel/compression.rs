//! Decompresses kernel modules; some distributions compress them, others don't.

use std::io::{self, Read};

/// Bytes of the largest accepted decompressed module. A distribution's largest ones have tens of megabytes, with
/// debugging symbols a few hundred.
const MODULE_BYTES_MAX: u64 = 512 << 20;

/// Memory that xz decompression may use. The settings of the kernel's build need far less
/// (`scripts/Makefile.modinst`).
const XZ_MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Why a module can't be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum CompressionError {
    /// Neither ELF nor a compression format of the kernel's build.
    #[error("it begins with {start:02x?}; expected an ELF file, or one compressed by gzip, xz or zstd")]
    UnknownFormat {
        /// Its first bytes.
        start: Vec<u8>,
    },
    /// Truncated or damaged.
    #[error("the compressed data are damaged")]
    Damaged(#[from] io::Error),
    /// Larger than any module.
    #[error("it decompresses to more than {MODULE_BYTES_MAX} bytes; expected a kernel module")]
    TooLarge,
}

/// Decompresses a module's file. Its first bytes, not its name, identify the format.
pub(super) fn unpack(packed: Vec<u8>) -> Result<Vec<u8>, CompressionError> {
    match *packed.as_slice() {
        [0x7f, b'E', b'L', b'F', ..] => Ok(packed),
        [0x1f, 0x8b, ..] => read_bounded(flate2::bufread::MultiGzDecoder::new(packed.as_slice())),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => read_bounded(xz_decoder(&packed)?),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => read_bounded(zstd::stream::read::Decoder::with_buffer(&packed[..])?),
        _ => Err(CompressionError::UnknownFormat { start: packed.into_iter().take(6).collect() }),
    }
}

/// An xz decoder with a memory limit.
fn xz_decoder(packed: &[u8]) -> io::Result<impl Read> {
    use liblzma::stream::{CONCATENATED, Stream};
    let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, CONCATENATED)?;
    Ok(liblzma::bufread::XzDecoder::new_stream(packed, stream))
}

/// Reads to the end, at most [`MODULE_BYTES_MAX`] bytes.
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

    /// The same bytes in every compression format, with the format's file extension.
    pub(in crate::kernel) fn every_compression(bytes: &[u8]) -> [(&'static str, Vec<u8>); 4] {
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
    fn every_compression_format_is_read() {
        let elf = [b"\x7fELF".as_slice(), &[7; 5000]].concat();
        for (ending, packed) in every_compression(&elf) {
            assert_eq!(unpack(packed).unwrap(), elf, "{ending}");
        }
    }

    #[test]
    fn truncated_data_and_unknown_formats_are_errors() {
        for (ending, packed) in every_compression(&[9; 5000]).into_iter().skip(1) {
            let cut = packed[..packed.len() - 3].to_vec();
            assert!(matches!(unpack(cut), Err(CompressionError::Damaged(_))), "{ending}");
        }
        assert!(matches!(unpack(b"!<arch>\n".to_vec()), Err(CompressionError::UnknownFormat { .. })));
        assert!(matches!(unpack(Vec::new()), Err(CompressionError::UnknownFormat { .. })));
    }

    #[test]
    fn data_beyond_the_size_limit_are_an_error() {
        assert!(matches!(read_bounded(io::repeat(0)), Err(CompressionError::TooLarge)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(start in 0..4usize, rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let magic: [&[u8]; 4] = [b"", b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"];
            drop(unpack([magic[start], &rest].concat()));
        }
    }
}
