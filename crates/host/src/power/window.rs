//! Windows of I/O bus addresses, as the device tree describes them.

use crate::power::device_tree::{PropertyError, cells};
use ddw::DEFAULT_PAGE_SHIFT;
use serde::Serialize;

/// The property of a window whose entries the kernel wrote once for all memory.
pub const DIRECT_PROPERTY: &str = "linux,direct64-ddr-window-info";
/// The property of a 64-bit window whose entries are written per mapping (Linux 6.1; 5.10 has none).
pub const DYNAMIC_PROPERTY: &str = "linux,dma64-ddr-window-info";

/// How many cells an address and a size take in `ibm,dma-window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaCells {
    /// Cells of the bus address.
    pub address: u32,
    /// Cells of the size.
    pub size: u32,
}

impl DmaCells {
    /// From `ibm,#dma-address-cells` and `ibm,#dma-size-cells` of the window's node, else the node's
    /// inherited `#address-cells` and `#size-cells`, that is those of its *parent* (Linux,
    /// arch/powerpc/kernel/prom_parse.c, `of_parse_dma_window`).
    pub fn from_properties(
        dma_address: Option<&[u8]>,
        dma_size: Option<&[u8]>,
        parent_address: Option<&[u8]>,
        parent_size: Option<&[u8]>,
    ) -> Result<Self, PropertyError> {
        Ok(Self {
            address: cell_count([
                ("ibm,#dma-address-cells", dma_address),
                ("#address-cells", parent_address),
            ])?,
            size: cell_count([("ibm,#dma-size-cells", dma_size), ("#size-cells", parent_size)])?,
        })
    }
}

/// The first of the properties that is there; 1 without any, as the device tree specification has it for
/// sizes and Linux for both.
fn cell_count(choices: [(&str, Option<&[u8]>); 2]) -> Result<u32, PropertyError> {
    let Some((property, bytes)) = choices.into_iter().find_map(|(name, bytes)| Some((name, bytes?))) else {
        return Ok(1);
    };
    match crate::power::device_tree::u32_cell(property, bytes)? {
        count @ 1..=4 => Ok(count),
        count => Err(PropertyError::value(property, "the count", u64::from(count), "1 to 4")),
    }
}

/// A default window: below 4 GiB, 4 KiB pages, entries written per mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultWindow {
    /// Logical I/O bus number: names the table in hypercalls.
    pub liobn: u32,
    /// First bus address.
    pub base: u64,
    /// Bytes of bus addresses.
    pub size_bytes: u64,
}

impl std::fmt::Display for DefaultWindow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LIOBN {:#x}, {:#x} bytes at {:#x}", self.liobn, self.size_bytes, self.base)
    }
}

impl DefaultWindow {
    /// Entries of its table.
    pub fn tces(&self) -> u64 {
        self.size_bytes >> DEFAULT_PAGE_SHIFT
    }

    /// Whether it lies wholly below 4 GiB, as LoPAR demands.
    pub fn below_4_gib(&self) -> bool {
        self.base.checked_add(self.size_bytes).is_some_and(|end| end <= 1 << 32)
    }
}

/// `ibm,dma-window`: one window. Trailing bytes are refused; Linux would overlook them.
pub fn default_window(bytes: &[u8], layout: DmaCells) -> Result<DefaultWindow, PropertyError> {
    only_window("ibm,dma-window", bytes, layout)
}

/// `ibm,dma-window-saved`: the copy that Linux 6.12 keeps of a default window it removed.
pub fn saved_window(bytes: &[u8], layout: DmaCells) -> Result<DefaultWindow, PropertyError> {
    only_window("ibm,dma-window-saved", bytes, layout)
}

/// `ibm,my-dma-window` of a virtual device: its own window and, perhaps, that of its remote partition.
pub fn virtual_windows(bytes: &[u8], layout: DmaCells) -> Result<Vec<DefaultWindow>, PropertyError> {
    parse_windows("ibm,my-dma-window", bytes, layout)
}

/// The one window of a property that must hold one.
fn only_window(property: &str, bytes: &[u8], layout: DmaCells) -> Result<DefaultWindow, PropertyError> {
    match parse_windows(property, bytes, layout)?.as_slice() {
        [window] => Ok(*window),
        _ => Err(PropertyError::length(property, bytes, window_bytes(layout).to_string())),
    }
}

/// Bytes of a window in a property: LIOBN, address and size.
fn window_bytes(layout: DmaCells) -> u64 {
    4 * (1 + u64::from(layout.address) + u64::from(layout.size))
}

/// All windows of a property.
fn parse_windows(
    property: &str,
    bytes: &[u8],
    layout: DmaCells,
) -> Result<Vec<DefaultWindow>, PropertyError> {
    let expected = || format!("a multiple of {}", window_bytes(layout));
    let cells = cells(property, bytes)?;
    let per_window = usize::try_from(window_bytes(layout) / 4)
        .map_err(|_| PropertyError::length(property, bytes, expected()))?;
    let address_cells = usize::try_from(layout.address).unwrap_or(usize::MAX);
    let chunks = cells.chunks_exact(per_window);
    if cells.is_empty() || !chunks.remainder().is_empty() {
        return Err(PropertyError::length(property, bytes, expected()));
    }
    chunks.map(|window| parse_window(property, window, address_cells)).collect()
}

/// A window from its cells.
fn parse_window(property: &str, cells: &[u32], address_cells: usize) -> Result<DefaultWindow, PropertyError> {
    let (liobn, rest) = cells.split_first().map_or((0, cells), |(liobn, rest)| (*liobn, rest));
    let (address, size) = rest.split_at(address_cells.min(rest.len()));
    Ok(DefaultWindow {
        liobn,
        base: join(property, "the bus address", address)?,
        size_bytes: join(property, "the size", size)?,
    })
}

/// Cells to a number. More than two are fine as long as the upper ones are zero.
fn join(property: &str, what: &'static str, cells: &[u32]) -> Result<u64, PropertyError> {
    cells.iter().try_fold(0u64, |number, cell| {
        let fits = number >> 32 == 0;
        let wide = || PropertyError::value(property, what, number, "a number of 64 bits");
        fits.then_some(number << 32 | u64::from(*cell)).ok_or_else(wide)
    })
}

/// How the kernel uses a 64-bit window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DdwKind {
    /// All memory is mapped in it, once: bus address = base + physical address.
    Direct,
    /// Entries are written per mapping, as in the default window, but there is room.
    Dynamic,
}

impl DdwKind {
    /// The property that the kernel leaves on the bridge's node.
    pub fn property(self) -> &'static str {
        match self {
            Self::Direct => DIRECT_PROPERTY,
            Self::Dynamic => DYNAMIC_PROPERTY,
        }
    }
}

/// A 64-bit window that the kernel has created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ddw {
    /// Logical I/O bus number: names the table in hypercalls.
    pub liobn: u32,
    /// First bus address: 2^52 on POWER7, 2^59 later.
    pub base: u64,
    /// One entry maps `1 << page_shift` bytes.
    pub page_shift: u32,
    /// The window spans `1 << window_shift` bytes.
    pub window_shift: u32,
    /// How it is used.
    pub kind: DdwKind,
}

impl std::fmt::Display for Ddw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { liobn, base, page_shift, window_shift, .. } = self;
        write!(f, "LIOBN {liobn:#x}, 2^{window_shift} bytes at {base:#x} in pages of 2^{page_shift} bytes")
    }
}

impl Ddw {
    /// Bytes of bus addresses.
    pub fn size_bytes(&self) -> u64 {
        // The decoder admits shifts below 64 only; a window made by hand could be wider.
        1u64.checked_shl(self.window_shift).unwrap_or(u64::MAX)
    }

    /// Entries of its table.
    pub fn tces(&self) -> u64 {
        1u64.checked_shl(self.window_shift.saturating_sub(self.page_shift)).unwrap_or(u64::MAX)
    }

    /// Whether all of `memory_max_bytes` fits, so that it can be a direct window.
    pub fn covers(&self, memory_max_bytes: u64) -> bool {
        self.size_bytes() >= memory_max_bytes
    }

    /// Whether a device that drives `mask_bits` address bits reaches all of it.
    pub fn within_mask(&self, mask_bits: u32) -> bool {
        let end = u128::from(self.base) + u128::from(self.size_bytes());
        1u128.checked_shl(mask_bits).is_none_or(|limit| end <= limit)
    }
}

/// `linux,direct64-ddr-window-info` or `linux,dma64-ddr-window-info`: the kernel's own record
/// (arch/powerpc/platforms/pseries/iommu.c, `struct dynamic_dma_window_prop`).
///
/// The C structure is not packed, so there are 4 bytes of padding after the LIOBN, not zeroed by kernels up
/// to 5.10. A packed one of 20 bytes is accepted, too.
pub fn ddw(kind: DdwKind, bytes: &[u8]) -> Result<Ddw, PropertyError> {
    let property = kind.property();
    let words = cells(property, bytes)?;
    let (liobn, rest) = match words.as_slice() {
        [liobn, _padding, rest @ ..] if rest.len() == 4 => (*liobn, rest),
        [liobn, rest @ ..] if rest.len() == 4 => (*liobn, rest),
        _ => return Err(PropertyError::length(property, bytes, "24, or 20 if packed")),
    };
    let &[base_high, base_low, page_shift, window_shift] = rest else {
        return Err(PropertyError::length(property, bytes, "24, or 20 if packed"));
    };
    if !(12..64).contains(&page_shift) {
        return Err(PropertyError::value(property, "the page shift", u64::from(page_shift), "12 to 63"));
    }
    if !(page_shift..64).contains(&window_shift) {
        let expected = format!("{page_shift} to 63");
        return Err(PropertyError::value(property, "the window shift", u64::from(window_shift), expected));
    }
    let base = u64::from(base_high) << 32 | u64::from(base_low);
    Ok(Ddw { liobn, base, page_shift, window_shift, kind })
}

/// `ibm,ddw-applicable`, on the node above the adapter's: the RTAS tokens of the window calls. Without it
/// the firmware offers no 64-bit window there (LoPAR, DMA Window RTAS calls).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DdwApplicable {
    /// Token of `ibm,query-pe-dma-windows`.
    pub query: u32,
    /// Token of `ibm,create-pe-dma-window`.
    pub create: u32,
    /// Token of `ibm,remove-pe-dma-window`.
    pub remove: u32,
}

/// Decodes `ibm,ddw-applicable`.
pub fn ddw_applicable(bytes: &[u8]) -> Result<DdwApplicable, PropertyError> {
    match cells("ibm,ddw-applicable", bytes)?.as_slice() {
        [query, create, remove, ..] => Ok(DdwApplicable { query: *query, create: *create, remove: *remove }),
        _ => Err(PropertyError::length("ibm,ddw-applicable", bytes, "12")),
    }
}

/// `ibm,ddw-extensions`: what the firmware can do beyond that. Absent extensions are `None` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DdwExtensions {
    /// How many extensions the property announces.
    pub count: u32,
    /// Token of `ibm,reset-pe-dma-windows`, which gives the boot-time window back.
    pub reset: Option<u32>,
    /// The query answers in six numbers, with a 64-bit block size.
    pub query_in_six: bool,
    /// Windows can be placed low enough for devices with a mask below 64 bits.
    pub limited_addressing: bool,
}

/// Decodes `ibm,ddw-extensions`. Like Linux it reads no extension beyond the count in front.
pub fn ddw_extensions(bytes: &[u8]) -> Result<DdwExtensions, PropertyError> {
    let words = cells("ibm,ddw-extensions", bytes)?;
    let Some((count, values)) = words.split_first() else {
        return Err(PropertyError::length("ibm,ddw-extensions", bytes, "at least 4"));
    };
    let announced = usize::try_from(*count).unwrap_or(usize::MAX);
    let extension = |index: usize| values.get(index).copied().filter(|_| index < announced);
    Ok(DdwExtensions {
        count: *count,
        reset: extension(0),
        query_in_six: extension(1) == Some(1),
        limited_addressing: extension(2) == Some(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // QEMU's pseries machine, Debian 6.1: pci@800000020000000.
    const DMA_WINDOW: &[u8] = b"\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\0";
    const DIRECT64: &[u8] = b"\x80\0\0\x01\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\x18\0\0\0\x1f";
    const TWO_AND_TWO: DmaCells = DmaCells { address: 2, size: 2 };

    #[test]
    fn default_windows() {
        let two = &[0, 0, 0, 2][..];
        let layout = DmaCells::from_properties(Some(two), Some(two), Some(&[0, 0, 0, 3]), None).unwrap();
        assert_eq!(layout, TWO_AND_TWO);
        let window = default_window(DMA_WINDOW, layout).unwrap();
        assert_eq!(window, DefaultWindow { liobn: 0x8000_0000, base: 0, size_bytes: 0x4000_0000 });
        assert_eq!(window.tces(), 262_144);
        assert!(window.below_4_gib());
        assert_eq!(saved_window(DMA_WINDOW, layout), Ok(window));
        let twice = [DMA_WINDOW, DMA_WINDOW].concat();
        assert_eq!(virtual_windows(&twice, layout), Ok(vec![window, window]));
        let error = default_window(&twice, layout).unwrap_err().to_string();
        assert_eq!(error, "ibm,dma-window has 40 bytes; expected 20");
    }

    #[test]
    fn cell_counts() {
        let fallback =
            DmaCells::from_properties(None, None, Some(&[0, 0, 0, 2]), Some(&[0, 0, 0, 1])).unwrap();
        assert_eq!(fallback, DmaCells { address: 2, size: 1 });
        // IBM firmware: one cell each would do for a window below 4 GiB.
        let one = DmaCells { address: 1, size: 1 };
        assert_eq!(DmaCells::from_properties(None, None, None, None), Ok(one));
        let window = default_window(b"\x70\0\0\x10\0\0\0\0\x80\0\0\0", one).unwrap();
        assert_eq!((window.liobn, window.size_bytes, window.tces()), (0x7000_0010, 2 << 30, 524_288));
        assert!(DmaCells::from_properties(Some(&[0xff; 4]), None, None, None).is_err());
        assert!(DmaCells::from_properties(Some(&[0; 4]), None, None, None).is_err());
        let three = DmaCells { address: 3, size: 1 };
        assert!(default_window(&[0xff; 20], three).is_err(), "96 bits do not fit");
        assert_eq!(default_window(&[0; 20], three).unwrap().base, 0);
    }

    #[test]
    fn created_windows() {
        let window = ddw(DdwKind::Direct, DIRECT64).unwrap();
        let expect = Ddw {
            liobn: 0x8000_0001,
            base: 1 << 59,
            page_shift: 24,
            window_shift: 31,
            kind: DdwKind::Direct,
        };
        assert_eq!(window, expect);
        assert_eq!((window.size_bytes(), window.tces()), (2 << 30, 128));
        assert!(window.covers(2 << 30) && !window.covers((2 << 30) + 1));
        assert!(window.within_mask(64) && window.within_mask(60) && !window.within_mask(59));
        let packed = [&DIRECT64[..4], &DIRECT64[8..]].concat();
        assert_eq!(ddw(DdwKind::Direct, &packed), Ok(expect));
        let error = ddw(DdwKind::Dynamic, &DIRECT64[..12]).unwrap_err().to_string();
        assert_eq!(error, "linux,dma64-ddr-window-info has 12 bytes; expected 24, or 20 if packed");
    }

    #[test]
    fn absurd_shifts() {
        for (offset, shift) in [(19, 11), (19, 64), (23, 23), (23, 64)] {
            let mut bytes = DIRECT64.to_vec();
            bytes[offset] = shift;
            assert!(ddw(DdwKind::Direct, &bytes).is_err(), "byte {offset} = {shift}");
        }
    }

    #[test]
    fn firmware_calls() {
        let tokens = ddw_applicable(b"\0\0\x20\x26\0\0\x20\x27\0\0\x20\x28").unwrap();
        assert_eq!(tokens, DdwApplicable { query: 0x2026, create: 0x2027, remove: 0x2028 });
        assert!(ddw_applicable(&[0; 8]).is_err());
        let two = ddw_extensions(b"\0\0\0\x02\0\0\x20\x29\0\0\0\x01").unwrap();
        let expect =
            DdwExtensions { count: 2, reset: Some(0x2029), query_in_six: true, limited_addressing: false };
        assert_eq!(two, expect);
        let one = ddw_extensions(b"\0\0\0\x01\0\0\x20\x29\0\0\0\x01").unwrap();
        assert_eq!((one.reset, one.query_in_six), (Some(0x2029), false), "count 1 hides the second");
        let hostile = ddw_extensions(b"\xff\xff\xff\xff\0\0\0\x05").unwrap();
        assert_eq!((hostile.reset, hostile.limited_addressing), (Some(5), false));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, address: u32, size: u32) {
            let layout = DmaCells { address, size };
            let _ = (default_window(&bytes, layout), virtual_windows(&bytes, layout));
            let _ = (ddw(DdwKind::Direct, &bytes), ddw_applicable(&bytes), ddw_extensions(&bytes));
        }

        #[test]
        fn created_windows_round_trip(liobn: u32, padding: u32, base: u64, page in 12u32..=34, more in 0u32..=29) {
            let window_shift = page + more;
            let mut bytes = Vec::new();
            for cell in [liobn, padding, (base >> 32) as u32, base as u32, page, window_shift] {
                bytes.extend(cell.to_be_bytes());
            }
            let window = ddw(DdwKind::Dynamic, &bytes).unwrap();
            prop_assert_eq!(window, Ddw { liobn, base, page_shift: page, window_shift, kind: DdwKind::Dynamic });
            prop_assert_eq!(window.tces(), 1 << more);
        }

        #[test]
        fn default_windows_round_trip(liobn: u32, base: u64, size: u64) {
            let bytes = [&liobn.to_be_bytes()[..], &base.to_be_bytes(), &size.to_be_bytes()].concat();
            let window = default_window(&bytes, TWO_AND_TWO);
            prop_assert_eq!(window, Ok(DefaultWindow { liobn, base, size_bytes: size }));
        }
    }
}
