//! Reads of configuration space only what the decoders look at.
//!
//! Each four bytes are a transaction with the function (in a virtual machine, an exit to the
//! hypervisor), so the 4 KiB of one PCI Express function cost milliseconds and the 200 bytes that matter
//! do not. What is not read stays zero in the image.

use super::capability::{extended_id, id};
use super::config::{ConfigSpace, List};
use std::collections::BTreeSet;

/// What a read without privilege gives.
const HEADER_BYTES: usize = 64;
const CONVENTIONAL_BYTES: usize = 256;
const EXTENDED_BYTES: usize = 4096;
const DWORD: usize = 4;
/// Stands where nothing was read yet. To a walk it is a capability and the last one, so that the walk
/// shows its offset; zeros would end the walk one step too early.
const UNREAD: [u8; DWORD] = [1, 0, 0, 0];

/// Fetches the parts that [`Capabilities`](super::Capabilities) and [`Header`](super::Header) are decoded
/// from. `read` gives the bytes at an offset, fewer at the end of what may be read, `None` on an error.
pub fn fetch(read: impl FnMut(usize, usize) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut image = Image { read, bytes: Vec::new(), loaded: BTreeSet::new() };
    image.grow(HEADER_BYTES).then_some(())?;
    if image.grow(CONVENTIONAL_BYTES) {
        image.walk(|config| config.capabilities(), conventional_bytes);
        if ConfigSpace::new(&image.bytes).may_be_extended() && image.grow(EXTENDED_BYTES) {
            image.walk(|config| config.extended_capabilities(), extended_bytes);
        }
    }
    Some(image.finish())
}

/// How far into a capability the decoders look.
fn conventional_bytes(capability: u16) -> usize {
    match capability {
        id::EXPRESS => 0x3c,
        id::POWER_MANAGEMENT | id::PCI_X | id::SUBSYSTEM => 8,
        _ => DWORD,
    }
}

fn extended_bytes(capability: u16) -> usize {
    match capability {
        extended_id::REBAR => 0x34,
        extended_id::SRIOV => 0x1c,
        extended_id::AER => 0x14,
        extended_id::DPC => 0x0c,
        extended_id::ACS | extended_id::ARI | extended_id::ATS | extended_id::PRI | extended_id::PASID => 8,
        _ => DWORD,
    }
}

struct Image<F> {
    read: F,
    bytes: Vec<u8>,
    /// Offsets of the dwords that were read.
    loaded: BTreeSet<usize>,
}

impl<F: FnMut(usize, usize) -> Option<Vec<u8>>> Image<F> {
    /// Makes room up to `size`, if the first bytes there can be read: all of them in the header, whose
    /// every field counts, one dword elsewhere.
    fn grow(&mut self, size: usize) -> bool {
        let from = self.bytes.len();
        let length = if from == 0 { size } else { DWORD };
        (from..size).step_by(DWORD).for_each(|_| self.bytes.extend(UNREAD));
        let grown = self.load(from, length);
        if !grown {
            self.bytes.truncate(from);
        }
        grown
    }

    /// Reads the dwords of a part that were not read yet; false if it can't be read whole.
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

    /// Walks a list: each capability read shows where the next one lies.
    fn walk(&mut self, list: fn(ConfigSpace<'_>) -> List, bytes_of: fn(u16) -> usize) {
        loop {
            let entries = list(ConfigSpace::new(&self.bytes)).entries;
            let next = entries.iter().map(|entry| usize::from(entry.offset)).find(|at| !self.is_loaded(*at));
            match next {
                Some(at) if self.load(at, DWORD) => {}
                Some(_) => return,
                None => {
                    for entry in entries {
                        // A part that can't be read stays zero, as it would in the whole image.
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

    fn is_loaded(&self, offset: usize) -> bool {
        self.loaded.contains(&(offset / DWORD * DWORD))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Capabilities, Header};
    use super::*;
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

    /// A function without capabilities that lead there is not asked for more than it needs.
    fn header_without_reach(config: ConfigSpace<'_>) -> Header {
        Header { reach: super::super::Reach::Header, ..Header::decode(config) }
    }

    #[test]
    fn captured_functions_decode_the_same_from_a_tenth() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pci");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "config") {
                continue;
            }
            let hex = std::fs::read_to_string(&path).unwrap();
            let whole = super::super::image::stored(&hex);
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
