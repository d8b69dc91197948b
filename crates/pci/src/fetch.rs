//! Reads only those parts of configuration space that are decoded.
//!
//! Linux reads configuration space one dword at a time. Each is a transaction with the function, and in a virtual
//! machine an exit to the hypervisor. So 4 KiB of one PCI Express function take milliseconds; the 200 bytes
//! that are decoded take far less. Bytes that are not read are zero in the result.

use super::capability_id::{conventional, extended};
use super::config::{ConfigSpace, List};
use std::collections::BTreeSet;

/// Bytes that Linux shows without `CAP_SYS_ADMIN`.
const HEADER_BYTES: usize = 64;
/// The start of a header: IDs, Command, Status, class, and Header Type.
const HEADER_START_BYTES: usize = 16;
const CONVENTIONAL_BYTES: usize = 256;
const EXTENDED_BYTES: usize = 4096;
const DWORD: usize = 4;
/// Fills dwords that were not read yet. A walk takes it for the last capability of a list and so reports its
/// offset, which is read next. Zeros would end the walk before it.
const UNREAD: [u8; DWORD] = [1, 0, 0, 0];

/// Fetches the parts that [`Capabilities`](super::Capabilities) and [`Header`](super::Header) are decoded
/// from. `read(offset, length)` returns the bytes, fewer at the end of the readable part, and `None` on an error.
pub fn fetch(read: impl FnMut(usize, usize) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut image = Image { read, bytes: Vec::new(), loaded: BTreeSet::new() };
    (image.grow(HEADER_BYTES) && image.load_header()).then_some(())?;
    if image.grow(CONVENTIONAL_BYTES) {
        image.walk(|config| config.capabilities(), conventional_bytes);
        if ConfigSpace::new(&image.bytes).may_be_extended() && image.grow(EXTENDED_BYTES) {
            image.walk(|config| config.extended_capabilities(), extended_bytes);
        }
    }
    Some(image.finish())
}

/// Bytes of a conventional capability that are decoded.
fn conventional_bytes(capability: u16) -> usize {
    match capability {
        conventional::EXPRESS => 0x3c,
        conventional::POWER_MANAGEMENT | conventional::PCI_X | conventional::SUBSYSTEM => 8,
        _ => DWORD,
    }
}

/// Bytes of an extended capability that are decoded.
fn extended_bytes(capability: u16) -> usize {
    match capability {
        extended::REBAR => 0x34,
        extended::SRIOV => 0x1c,
        extended::AER => 0x14,
        extended::DPC => 0x0c,
        extended::ACS | extended::ARI | extended::ATS | extended::PRI | extended::PASID => 8,
        _ => DWORD,
    }
}

/// Configuration space that is being read.
struct Image<F> {
    read: F,
    bytes: Vec<u8>,
    /// Offsets of the dwords that were read.
    loaded: BTreeSet<usize>,
}

impl<F: FnMut(usize, usize) -> Option<Vec<u8>>> Image<F> {
    /// Extends the image to `size` bytes if the added part is readable. Only its start is read.
    fn grow(&mut self, size: usize) -> bool {
        let from = self.bytes.len();
        let length = if from == 0 { HEADER_START_BYTES } else { DWORD };
        (from..size).step_by(DWORD).for_each(|_| self.bytes.extend(UNREAD));
        let grown = self.load(from, length);
        if !grown {
            self.bytes.truncate(from);
        }
        grown
    }

    /// Reads the rest of the header that is decoded: of a bridge its buses, and where the capabilities of a CardBus bridge begin; then
    /// the subsystem, and where the capabilities of others begin.
    fn load_header(&mut self) -> bool {
        let is_bridge = self.bytes.get(0x0e).is_some_and(|header_type| header_type & 0x7f != 0);
        (!is_bridge || self.load(0x14, 8)) && self.load(0x2c, DWORD) && self.load(0x34, DWORD)
    }

    /// Reads the dwords of a range that were not read yet; false if one can't be read.
    fn load(&mut self, offset: usize, length: usize) -> bool {
        let first = offset / DWORD * DWORD;
        let end = (offset + length).div_ceil(DWORD).saturating_mul(DWORD).min(self.bytes.len());
        let missing = (first..end).step_by(DWORD).find(|at| !self.loaded.contains(at));
        let Some(first) = missing else { return true };
        let Some(read) = (self.read)(first, end - first).filter(|read| read.len() == end - first) else {
            return false;
        };
        self.bytes[first..end].copy_from_slice(&read);
        self.loaded.extend((first..end).step_by(DWORD));
        true
    }

    /// Reads a capability list: the header of each capability points to the next one.
    fn walk(&mut self, list: fn(ConfigSpace<'_>) -> List, bytes_of: fn(u16) -> usize) {
        loop {
            let entries = list(ConfigSpace::new(&self.bytes)).entries;
            let next = entries.iter().map(|entry| usize::from(entry.offset)).find(|at| !self.is_loaded(*at));
            match next {
                Some(at) if self.load(at, DWORD) => {}
                Some(_) => return,
                None => {
                    for entry in entries {
                        // A capability that can't be read stays zero.
                        self.load(usize::from(entry.offset), bytes_of(entry.id));
                    }
                    return;
                }
            }
        }
    }

    /// The image with zeros where nothing was read.
    fn finish(mut self) -> Vec<u8> {
        for (index, dword) in self.bytes.chunks_exact_mut(DWORD).enumerate() {
            if !self.loaded.contains(&(index * DWORD)) {
                dword.fill(0);
            }
        }
        self.bytes
    }

    /// Whether the dword at `offset` was read.
    fn is_loaded(&self, offset: usize) -> bool {
        self.loaded.contains(&(offset / DWORD * DWORD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capabilities, Header};
    use proptest::prelude::*;

    fn fetched(whole: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes_read = 0;
        let part = |offset: usize, length: usize| {
            let end = (offset + length).min(whole.len());
            let part = whole.get(offset..end).unwrap_or_default().to_vec();
            bytes_read += part.len();
            Some(part)
        };
        (fetch(part).unwrap_or_default(), bytes_read)
    }

    fn check(whole: &[u8]) {
        let (image, _) = fetched(whole);
        let (all, some) = (ConfigSpace::new(whole), ConfigSpace::new(&image));
        assert_eq!(Capabilities::decode(some), Capabilities::decode(all));
        assert_eq!(header_without_reach(some), header_without_reach(all));
    }

    /// The header with a fixed reach: `fetch` may read less than there is.
    fn header_without_reach(config: ConfigSpace<'_>) -> Header {
        Header { reach: crate::Reach::Header, ..Header::decode(config) }
    }

    #[test]
    fn captured_functions_decode_the_same_from_300_bytes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/functions");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "config") {
                continue;
            }
            let hex = std::fs::read_to_string(&path).unwrap();
            let whole = crate::image::stored(&hex);
            for length in [64, 256, whole.len()] {
                check(&whole[..length.min(whole.len())]);
            }
            let (_, bytes_read) = fetched(&whole);
            assert!(bytes_read <= 300, "{}: {bytes_read}", path.display());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_the_same(mut whole in prop::collection::vec(any::<u8>(), 4096), reach in 0_usize..3) {
            whole[6] |= 0x10;
            whole.truncate([64, 256, 4096][reach]);
            check(&whole);
        }
    }
}
