//! Areas of `memmap=` that a benchmark may overwrite: which they are, why others are refused, and how they are mapped.

use anyhow::{Context, bail};
use dma::{PageCaching, Ram};
use host::facts::memory::MemoryTypes;
use host::memory::effective::Call;
use host::memory::{PhysRange, parse_memtype_list};
use host::{Host, Text};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ranges of the firmware's memory map that are read at most; real ones have a few dozen.
const FIRMWARE_RANGES_MAX: usize = 4096;

/// Mappings of physical addresses that the kernel tracks.
const MEMTYPES: &str = "sys/kernel/debug/x86/pat_memtype_list";
/// Bytes of a page on x86.
const PAGE_BYTES: u64 = host::memory::range::PAGE_BYTES;
/// Bytes of `/proc/vmallocinfo` that are read at most; a busy server's has a few MiB.
const VMALLOCINFO_BYTES_MAX: u64 = 256 << 20;

/// What is known of this host's physical memory.
pub(super) struct PhysicalMemory<'h> {
    types: Option<&'h MemoryTypes>,
    /// RAM, as the firmware told the kernel (`/sys/firmware/memmap`); `None` if the kernel does not show it.
    firmware_ram: Option<Vec<PhysRange>>,
    /// What drivers have mapped (`/proc/vmallocinfo`), each with its line; `None` if it can't be read.
    mapped: Option<Vec<(Mapped, String)>>,
    /// What the crash log of ramoops is in (`/sys/module/ramoops/parameters`): it maps reserved RAM by `vmap()`, without an address.
    ramoops: Option<PhysRange>,
    /// `/`, except in tests.
    root: PathBuf,
}

/// A device mapping of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mapped {
    At(PhysRange),
    /// The kernel does not say where, or not in a known form.
    Somewhere,
}

/// Half of an area, mapped by this process.
pub(super) struct MappedHalf {
    /// Its name in reports.
    pub(super) name: String,
    /// How it was mapped.
    pub(super) mapping: &'static str,
    /// Its memory type by MTRRs and page table, where it is one.
    pub(super) memory_type: Option<String>,
    pub(super) memory: Arc<Ram>,
}

impl<'h> PhysicalMemory<'h> {
    /// Reads what the host's facts lack, below `root`.
    pub(super) fn of(host: &'h Host, root: &Path) -> Self {
        Self {
            types: host.memory.as_ref(),
            firmware_ram: firmware_ram(&root.join("sys/firmware/memmap")),
            mapped: mappings(&root.join("proc/vmallocinfo")).ok(),
            ramoops: ramoops(&root.join("sys/module/ramoops/parameters")),
            root: root.to_owned(),
        }
    }

    /// The areas that `memmap=` reserves.
    fn areas(&self) -> impl Iterator<Item = PhysRange> {
        self.types.into_iter().flat_map(|types| types.memmap.iter().filter_map(|area| area.set_aside()))
    }

    /// The areas that may be overwritten with buffers of `bytes`.
    pub(super) fn usable_areas(&self, bytes: u64) -> Vec<PhysRange> {
        self.areas().filter(|area| self.refusal(*area, bytes).is_none()).collect()
    }

    /// Maps `bytes` at the beginning of each half of an area: write-back, and uncached. The kernel maps no address as both.
    pub(super) fn map_halves(&self, area: PhysRange, bytes: u64) -> anyhow::Result<[MappedHalf; 2]> {
        if let Some(refusal) = self.refusal(area, bytes) {
            bail!("{area} is not overwritten: {refusal}");
        }
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let half_bytes = (area.size_bytes() / 2) as u64 / PAGE_BYTES * PAGE_BYTES;
        let second = area.base() + half_bytes;
        let halves = [
            self.map(area.base(), bytes, PageCaching::WriteBack)?,
            self.map(second, bytes, PageCaching::Uncached)?,
        ];
        // Another program may have come between the check and the mapping: the kernel lists each mapping by itself.
        match self.mappings_now(area) {
            2 => Ok(halves),
            number => bail!(
                "{area} is not overwritten: /{MEMTYPES} shows {number} mappings of it; expected the two of this program, so another may \
                 have just mapped it"
            ),
        }
    }

    /// The number of mappings that overlap a range, read anew.
    fn mappings_now(&self, range: PhysRange) -> usize {
        let text = fs::read_to_string(self.root.join(MEMTYPES)).unwrap_or_default();
        let (list, _) = parse_memtype_list(&Text::new(MEMTYPES, &text));
        list.iter().filter(|memtype| memtype.value.range.overlaps(range)).count()
    }

    /// Why an area is not overwritten; `None` if it may be.
    fn refusal(&self, area: PhysRange, bytes: u64) -> Option<String> {
        let Some(types) = self.types else { return Some("only x86 has memmap=".to_owned()) };
        self.unsuitable(types, area, bytes).or_else(|| self.used(types, area))
    }

    /// Why an area is no reserved RAM with room for two buffers of `bytes`.
    fn unsuitable(&self, types: &MemoryTypes, area: PhysRange, bytes: u64) -> Option<String> {
        let is_large_enough = |bytes: u64| u128::from(bytes) * 2 <= area.size_bytes();
        let iomem = types.iomem.as_ref().filter(|iomem| !iomem.hidden);
        let owners = || iomem.into_iter().flat_map(|iomem| iomem.overlapping(area));
        let is_ram = |ram: &Vec<PhysRange>| ram.iter().any(|ram| ram.contains(area));
        let why = if !self.areas().any(|reserved| reserved.contains(area)) {
            "it is not within an area that memmap=SIZE$BASE reserves on the running kernel's command line"
        } else if !area.is_page_aligned() {
            "it is not whole pages"
        } else if !bytes.checked_next_multiple_of(PAGE_BYTES).is_some_and(is_large_enough) {
            return Some(format!(
                "it is smaller than two buffers of {bytes} bytes, a write-back and an uncached one; --size makes them smaller"
            ));
        } else if iomem.is_none() {
            "/proc/iomem does not show who owns it: run as root"
        } else if let Some(owner) = owners().find(|owner| !owner.value.is_reserved()) {
            return Some(format!("{} uses it (/proc/iomem)", owner.value.name));
        } else if !owners().any(|owner| owner.value.range.contains(area)) {
            "the kernel has not reserved all of it (/proc/iomem)"
        } else if self.firmware_ram.is_none() {
            "/sys/firmware/memmap is not there, so whether it is RAM is unknown"
        } else if !self.firmware_ram.as_ref().is_some_and(is_ram) {
            "it is not RAM, as the firmware's map says (/sys/firmware/memmap)"
        } else {
            return None;
        };
        Some(why.to_owned())
    }

    /// Who has mapped an area, or why that is unknown.
    fn used(&self, types: &MemoryTypes, area: PhysRange) -> Option<String> {
        let Some(mapped) = &self.mapped else {
            return Some(
                "/proc/vmallocinfo does not show whether a driver has mapped it: run as root".to_owned(),
            );
        };
        for (mapped, line) in mapped {
            match mapped {
                Mapped::At(range) if range.overlaps(area) => {
                    return Some(format!("a driver has mapped it (/proc/vmallocinfo: {line})"));
                }
                Mapped::At(_) => {}
                Mapped::Somewhere => {
                    return Some(format!(
                        "a driver has mapped memory, and the kernel does not say where (/proc/vmallocinfo: {line})"
                    ));
                }
            }
        }
        if self.ramoops.is_some_and(|ramoops| ramoops.overlaps(area)) {
            return Some("ramoops keeps crash logs in it (/sys/module/ramoops/parameters)".to_owned());
        }
        if types.memtypes.is_empty() {
            return Some(format!(
                "/{MEMTYPES} does not show whether a program has mapped it: mount -t debugfs none /sys/kernel/debug"
            ));
        }
        let memtype = types.memtypes.iter().find(|memtype| memtype.value.range.overlaps(area))?;
        Some(format!("{} is mapped already ({})", memtype.value.range, memtype.at))
    }

    /// Maps a range.
    #[allow(
        unsafe_code,
        reason = "what the kernel and its drivers do not use, the user has named to be overwritten"
    )]
    fn map(&self, base: u64, bytes: u64, caching: PageCaching) -> anyhow::Result<MappedHalf> {
        let (call, mapping) = match caching {
            PageCaching::WriteBack => (Call::DevMem, "/dev/mem"),
            PageCaching::Uncached => (Call::DevMemSync, "/dev/mem with O_SYNC"),
        };
        let range = PhysRange::from_base_and_size(base, bytes).context("the area has no bytes")?;
        let memory_type = self.types.map(|types| types.effective(range)).and_then(|effective| {
            let mapping = effective.mapped_by(call)?;
            match &mapping.parts[..] {
                [part] => Some(part.kind.to_string()),
                _ => None,
            }
        });
        // SAFETY: `refusal` found that the range is RAM which the kernel keeps out of its memory, and that neither a driver nor a program
        // has mapped it, as far as the kernel shows: `vmap()` of a driver is not shown. The user has named the range to be overwritten.
        // Each half is mapped once.
        let memory = unsafe { Ram::reserved(base, bytes, caching) };
        let memory = memory.with_context(|| {
            format!("can't map {range} by {mapping} (CONFIG_STRICT_DEVMEM, or the kernel is locked down)")
        })?;
        Ok(MappedHalf {
            name: format!("memmap= at {base:#x}"),
            mapping,
            memory_type,
            memory: Arc::new(memory),
        })
    }
}

/// RAM of the firmware's memory map; `None` if it is not there. Adjacent ranges are joined.
fn firmware_ram(folder: &Path) -> Option<Vec<PhysRange>> {
    let mut ranges: Vec<PhysRange> = fs::read_dir(folder)
        .ok()?
        .take(FIRMWARE_RANGES_MAX)
        .filter_map(|entry| {
            let read = |name: &str| fs::read_to_string(entry.as_ref().ok()?.path().join(name)).ok();
            let number = |name: &str| u64::from_str_radix(read(name)?.trim().strip_prefix("0x")?, 16).ok();
            let is_ram = read("type")?.trim() == "System RAM";
            PhysRange::from_first_to_last(number("start")?, number("end")?).filter(|_| is_ram)
        })
        .collect();
    ranges.sort();
    let mut joined: Vec<PhysRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if u128::from(range.base()) <= last.end() => {
                let end = last.last().max(range.last());
                *last = PhysRange::from_first_to_last(last.base(), end).unwrap_or(*last);
            }
            _ => joined.push(range),
        }
    }
    Some(joined)
}

/// The device mappings of `/proc/vmallocinfo`.
fn mappings(file: &Path) -> io::Result<Vec<(Mapped, String)>> {
    let mut text = String::new();
    let bytes = fs::File::open(file)?.take(VMALLOCINFO_BYTES_MAX).read_to_string(&mut text)?;
    if bytes as u64 == VMALLOCINFO_BYTES_MAX {
        // What was not read may be the mapping that matters.
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text.lines().filter_map(mapping).collect())
}

/// The device mapping of a line of `/proc/vmallocinfo`, and its words behind the virtual addresses:
/// `0xffffc90000000000-0xffffc90000005000   20480 caller+0x1/0x2 phys=0x00000000fed00000 ioremap`. The size includes a guard page. Kernels
/// before 4.12 write the address without `0x`. A mapping of reserved pages by `vmap()` as ramoops makes it has no address.
fn mapping(line: &str) -> Option<(Mapped, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let physical = words.iter().find_map(|word| word.strip_prefix("phys="));
    if physical.is_none() && !words.contains(&"ioremap") {
        return None;
    }
    let range = physical.and_then(|physical| {
        let base = u64::from_str_radix(physical.strip_prefix("0x").unwrap_or(physical), 16).ok()?;
        let bytes: u64 = words.get(1)?.parse().ok()?;
        PhysRange::from_base_and_size(base, bytes.saturating_sub(PAGE_BYTES).max(PAGE_BYTES))
    });
    let words = words.get(2..).unwrap_or_default().join(" ");
    Some((range.map_or(Mapped::Somewhere, Mapped::At), words))
}

/// The memory of ramoops; `None` if it has none.
fn ramoops(folder: &Path) -> Option<PhysRange> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
    PhysRange::from_base_and_size(number("mem_address")?, number("mem_size")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::Tree;

    /// Names and texts of files.
    type Files<'f> = &'f [(&'f str, &'f str)];

    const AREA: &str = "0x10000000+16M";

    /// A made-up host with an area of `memmap=`, and the texts of files that replace or add to its own.
    fn host_with(files: Files<'_>) -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().unwrap();
        let usual = [
            ("proc/version", "Linux version 6.1.0-13-amd64 (debian-kernel@lists.debian.org)\n"),
            ("proc/cpuinfo", "vendor_id\t: GenuineIntel\nmodel name\t: Intel\nflags\t\t: mtrr pat\n"),
            ("proc/cmdline", "root=/dev/sda1 memmap=16M$0x10000000\n"),
            (
                "proc/iomem",
                "00100000-0fffffff : System RAM\n10000000-10ffffff : Reserved\n11000000-3fffffff : System RAM\n",
            ),
            ("proc/mtrr", "reg00: base=0x000000000 (    0MB), size= 4096MB, count=1: write-back\n"),
            (
                "proc/vmallocinfo",
                "0xffffc90000000000-0xffffc90000005000   20480 acpi_os_map_iomem+0x1/0x2 phys=0x00000000fed00000 ioremap\n",
            ),
            (
                "sys/kernel/debug/x86/pat_memtype_list",
                "PAT: [mem 0x00000000fed00000-0x00000000fed01000] uncached-minus\n",
            ),
            ("sys/firmware/memmap/0/start", "0x100000\n"),
            ("sys/firmware/memmap/0/end", "0x1fffffff\n"),
            ("sys/firmware/memmap/0/type", "System RAM\n"),
            ("sys/firmware/memmap/1/start", "0x20000000\n"),
            ("sys/firmware/memmap/1/end", "0x3fffffff\n"),
            ("sys/firmware/memmap/1/type", "System RAM\n"),
        ];
        for (name, text) in usual.iter().chain(files) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let host = Host::read(&Tree::open(folder.path()).unwrap());
        (folder, host)
    }

    fn refusal_with(files: Files<'_>, area: &str) -> Option<String> {
        let (folder, host) = host_with(files);
        PhysicalMemory::of(&host, folder.path()).refusal(area.parse().unwrap(), 1 << 20)
    }

    #[test]
    fn an_area_that_nothing_uses_may_be_overwritten() {
        assert_eq!(refusal_with(&[], AREA), None);
        let (folder, host) = host_with(&[]);
        let physical = PhysicalMemory::of(&host, folder.path());
        assert_eq!(
            physical.areas().map(|area| area.to_string()).collect::<Vec<_>>(),
            ["0x10000000-0x10ffffff"]
        );
        // Two ranges that follow each other are one.
        assert_eq!(physical.firmware_ram.unwrap(), ["0x100000-0x3fffffff".parse().unwrap()]);
    }

    #[test]
    fn each_reason_against_an_area_is_told() {
        let cases: [(Files<'_>, &str, &str); 17] = [
            (&[], "0x11000000+16M", "not within an area that memmap=SIZE$BASE reserves"),
            (&[], "0x10000800+8M", "not whole pages"),
            (&[], "0x10000000+1M", "smaller than two buffers"),
            (&[("proc/cmdline", "memmap=16M@0x10000000\n")], AREA, "not within an area"),
            (&[("proc/cmdline", "memmap=16M!0x10000000\n")], AREA, "not within an area"),
            (
                &[("proc/iomem", "00000000-00000000 : System RAM\n00000000-00000000 : Reserved\n")],
                AREA,
                "run as root",
            ),
            (
                &[("proc/iomem", "10000000-10ffffff : Reserved\n  10400000-104fffff : ramoops:dump(0/4)\n")],
                AREA,
                "ramoops:dump(0/4) uses it",
            ),
            (&[("proc/iomem", "00100000-3fffffff : System RAM\n")], AREA, "System RAM uses it"),
            (&[("proc/iomem", "10000000-107fffff : Reserved\n")], AREA, "not reserved all of it"),
            (&[("sys/firmware/memmap/0/type", "Reserved\n")], AREA, "not RAM"),
            (&[("sys/firmware/memmap/0/end", "0x107fffff\n")], AREA, "not RAM"),
            (
                &[(
                    "proc/vmallocinfo",
                    "0xffffc90000000000-0xffffc90000102000 1056768 probe+0x1/0x2 [card] phys=0x0000000010f00000 ioremap\n",
                )],
                AREA,
                "a driver has mapped it (/proc/vmallocinfo: probe+0x1/0x2 [card] phys=0x0000000010f00000 ioremap)",
            ),
            (
                &[(
                    "proc/vmallocinfo",
                    "0xffffc90000000000-0xffffc90000102000 1056768 probe+0x1/0x2 [card] phys=10f00000 ioremap\n",
                )],
                AREA,
                "a driver has mapped it (/proc/vmallocinfo: probe+0x1/0x2 [card] phys=10f00000 ioremap)",
            ),
            (
                &[(
                    "proc/vmallocinfo",
                    "0xffffc90000000000-0xffffc90000102000 1056768 f+0x1/0x2 phys=(____ptrval____) ioremap\n",
                )],
                AREA,
                "does not say where",
            ),
            (
                &[(
                    "proc/vmallocinfo",
                    "0xffffc90000000000-0xffffc90000022000 139264 persistent_ram_new+0x1/0x2 [ramoops] ioremap vmap\n",
                )],
                AREA,
                "does not say where (/proc/vmallocinfo: persistent_ram_new+0x1/0x2 [ramoops] ioremap vmap)",
            ),
            (
                &[
                    ("sys/module/ramoops/parameters/mem_address", "268435456\n"),
                    ("sys/module/ramoops/parameters/mem_size", "1048576\n"),
                ],
                AREA,
                "ramoops keeps crash logs in it",
            ),
            (
                &[(
                    "sys/kernel/debug/x86/pat_memtype_list",
                    "PAT: [mem 0x0000000010fff000-0x0000000011000000] write-back\n",
                )],
                AREA,
                "0x10fff000-0x10ffffff is mapped already",
            ),
        ];
        for (files, area, words) in cases {
            let refusal = refusal_with(files, area).unwrap_or_default();
            assert!(refusal.contains(words), "{area}, {files:?}: {refusal}");
        }
    }

    #[test]
    fn without_the_files_that_tell_its_use_an_area_is_refused() {
        for (file, words) in [
            ("proc/vmallocinfo", "run as root"),
            ("sys/firmware/memmap", "is unknown"),
            ("sys/kernel/debug/x86/pat_memtype_list", "mount -t debugfs"),
        ] {
            let (folder, _) = host_with(&[]);
            let path = folder.path().join(file);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            let host = Host::read(&Tree::open(folder.path()).unwrap());
            let refusal = PhysicalMemory::of(&host, folder.path()).refusal(AREA.parse().unwrap(), 1 << 20);
            assert!(refusal.as_ref().is_some_and(|refusal| refusal.contains(words)), "{refusal:?}");
        }
    }

    /// A page that borders on the area is not in it: the size in the file includes a guard page.
    #[test]
    fn a_mapping_beside_an_area_does_not_refuse_it() {
        let line = "0xffffc90000000000-0xffffc90000003000 12288 f+0x1/0x2 phys=0x000000000fffe000 ioremap\n";
        assert_eq!(refusal_with(&[("proc/vmallocinfo", line)], AREA), None);
        let line = line.replace("12288", "16384");
        assert!(refusal_with(&[("proc/vmallocinfo", &line)], AREA).is_some());
    }
}
