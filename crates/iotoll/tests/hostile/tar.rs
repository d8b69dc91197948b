//! Members of tar archives, byte by byte, so that any of them can be wrong.

pub(crate) const BLOCK: usize = 512;

/// A header whose checksum is right, with its size.
pub(crate) fn header(kind: u8, name: &[u8], link: &[u8], size: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    put(&mut header, 0, name, 100);
    put(&mut header, 100, b"0000644\0", 8);
    put(&mut header, 108, b"0000000\0", 8);
    put(&mut header, 116, b"0000000\0", 8);
    put(&mut header, 124, format!("{size:011o}\0").as_bytes(), 12);
    put(&mut header, 136, b"00000000000\0", 12);
    header[156] = kind;
    put(&mut header, 157, link, 100);
    put(&mut header, 257, b"ustar\x0000", 8);
    summed(header)
}

fn put(header: &mut [u8], at: usize, bytes: &[u8], longest: usize) {
    let bytes = &bytes[..bytes.len().min(longest)];
    header[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The header with its checksum set right.
pub(crate) fn summed(mut header: [u8; BLOCK]) -> [u8; BLOCK] {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// The header with other bytes from a place on, and its checksum set right.
pub(crate) fn with(mut header: [u8; BLOCK], at: usize, bytes: &[u8]) -> [u8; BLOCK] {
    header[at..at + bytes.len()].copy_from_slice(bytes);
    summed(header)
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(BLOCK), 0);
    padded
}

/// Any member: a header of a kind, and data.
pub(crate) fn member(kind: u8, name: &[u8], link: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if name.len() > 100 {
        bytes.extend(long(b'L', name));
    }
    if link.len() > 100 {
        bytes.extend(long(b'K', link));
    }
    bytes.extend(header(kind, name, link, data.len() as u64));
    bytes.extend(padded(data));
    bytes
}

/// A name or target of any length (GNU).
pub(crate) fn long(kind: u8, name: &[u8]) -> Vec<u8> {
    let mut data = name.to_vec();
    data.push(0);
    [header(kind, b"././@LongLink", b"", data.len() as u64).to_vec(), padded(&data)].concat()
}

pub(crate) fn file(name: &[u8], data: &[u8]) -> Vec<u8> {
    member(b'0', name, b"", data)
}

pub(crate) fn link(name: &[u8], target: &[u8]) -> Vec<u8> {
    member(b'2', name, target, b"")
}

/// Records of extended attributes for the next member (`x`) or for all (`g`).
pub(crate) fn pax(kind: u8, records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    for (key, value) in records {
        // The length counts its own digits.
        let rest = key.len() + value.len() + 3;
        let length = (rest..).find(|length| length.to_string().len() + rest == *length).unwrap();
        data.extend(format!("{length} {key}=").bytes());
        data.extend_from_slice(value);
        data.push(b'\n');
    }
    pax_raw(kind, &data)
}

/// Extended attributes as any bytes.
pub(crate) fn pax_raw(kind: u8, data: &[u8]) -> Vec<u8> {
    member(kind, b"././@PaxHeader", b"", data)
}

/// Two empty blocks end an archive.
pub(crate) fn end() -> Vec<u8> {
    vec![0; 2 * BLOCK]
}
