//! Configuration space images for tests: built field by field, or restored from a stored dump.

/// A configuration space under construction; capabilities are linked in the order they are added.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    pointer: usize,
    next: usize,
    extended_last: Option<usize>,
    extended_next: usize,
}

impl Image {
    /// A type 0 header.
    pub(crate) fn endpoint(vendor: u16, device: u16, class: u32) -> Self {
        let image = Self {
            bytes: vec![0; 4096],
            pointer: 0x34,
            next: 0x40,
            extended_last: None,
            extended_next: 0x100,
        };
        image
            .set(0, &vendor.to_le_bytes())
            .set(2, &device.to_le_bytes())
            .set(4, &[0x06, 0x04])
            .set(9, &class.to_le_bytes()[..3])
    }

    /// A type 1 header: a bridge from `primary` to the buses `secondary` to `subordinate`.
    pub(crate) fn bridge(primary: u8, secondary: u8, subordinate: u8) -> Self {
        Self::endpoint(0x8086, 0x2030, 0x06_0400)
            .set(0x0e, &[1])
            .set(0x18, &[primary, secondary, subordinate])
    }

    /// Appends a conventional capability; `body` follows its ID and pointer.
    pub(crate) fn capability(self, id: u8, body: &[u8]) -> Self {
        let (pointer, at) = (self.pointer, self.next);
        let mut image = self
            .set(6, &[0x10])
            .set(pointer, &[u8::try_from(at).unwrap()])
            .set(at, &[id, 0])
            .set(at + 2, body);
        image.pointer = at + 1;
        image.next = (at + 2 + body.len()).next_multiple_of(4);
        image
    }

    /// Appends an extended capability; `body` follows its 4-byte header.
    pub(crate) fn extended(mut self, id: u16, version: u8, body: &[u8]) -> Self {
        let at = self.extended_next;
        if let Some(last) = self.extended_last {
            let pointer = u16::try_from(at << 4).unwrap();
            let version = u16::from(self.bytes[last + 2] & 0xf);
            self = self.set(last + 2, &(pointer | version).to_le_bytes());
        }
        self.extended_last = Some(at);
        self.extended_next = (at + 4 + body.len()).next_multiple_of(4);
        self.set(at, &id.to_le_bytes()).set(at + 2, &[version]).set(at + 4, body)
    }

    /// Overwrites bytes.
    pub(crate) fn set(mut self, offset: usize, bytes: &[u8]) -> Self {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// The finished 4096 bytes.
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The registers of a capability structure under construction, by offset from the structure's start.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    skipped: usize,
}

impl Body {
    /// A conventional structure of `length` bytes; its ID and pointer are the image's business.
    pub(crate) fn conventional(length: usize) -> Self {
        Self { bytes: vec![0; length - 2], skipped: 2 }
    }

    /// An extended structure of `length` bytes; its header is the image's business.
    pub(crate) fn extended(length: usize) -> Self {
        Self { bytes: vec![0; length - 4], skipped: 4 }
    }

    /// Sets a 16-bit register.
    pub(crate) fn word(self, offset: usize, value: u16) -> Self {
        self.put(offset, &value.to_le_bytes())
    }

    /// Sets a 32-bit register.
    pub(crate) fn dword(self, offset: usize, value: u32) -> Self {
        self.put(offset, &value.to_le_bytes())
    }

    fn put(mut self, offset: usize, bytes: &[u8]) -> Self {
        let at = offset - self.skipped;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// The bytes after what the image fills in.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Restores a stored image: `length N` on the first line, then `offset: bytes` in hexadecimal, with
/// lines of zeros left out.
pub(crate) fn stored(text: &str) -> Vec<u8> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let length = lines.next().and_then(|line| line.strip_prefix("length ")).unwrap();
    let mut bytes = vec![0; length.parse().unwrap()];
    for line in lines {
        let (offset, row) = line.split_once(": ").unwrap();
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for (at, byte) in (offset..).zip(row.split(' ')) {
            bytes[at] = u8::from_str_radix(byte, 16).unwrap();
        }
    }
    bytes
}

/// The hexadecimal dump that `lspci -xxxx` prints below a device's text.
pub(crate) fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (row, chunk) in bytes.chunks(16).enumerate() {
        text += &format!("{:02x}:", row * 16);
        for byte in chunk {
            text += &format!(" {byte:02x}");
        }
        text.push('\n');
    }
    text
}
