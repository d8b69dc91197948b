//! Drivers that failed to start, or found no memory for DMA: drivers/base/dd.c, mm/{page_alloc,cma}.c,
//! drivers/nvme/host/pci.c, drivers/net/ethernet/mellanox/mlx5/core/cmd.c.

use super::dma_mask::{self, Masks};
use super::{Device, scan};

/// A message about a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverMessage {
    /// A driver did not take its device.
    ProbeFailed {
        /// The driver.
        driver: String,
        /// The error's number, negative.
        error: i64,
    },
    /// Memory for DMA was not to be had.
    AllocationFailed(String),
    /// Pages were not to be had, for DMA or for anything else: the call trace below tells.
    PagesRefused(PagesRefused),
    /// A drive asked for a part of memory as its buffer, and got none. It works without.
    NoHostMemoryBuffer,
    /// Tegra's memory controller refused an access (drivers/memory/tegra/mc.c, `tegra30_mc_handle_irq`).
    ControllerRefused {
        /// Which part of the chip wanted it: `pcie5w`.
        client: String,
    },
    /// A drive did not complete a command in time (drivers/nvme/host/pci.c, `nvme_timeout`).
    CommandTimeout,
    /// DPDK's program has another kind of DMA addresses than a driver expects (drivers/bus/pci, `rte_pci_probe_one_driver`).
    AddressMode,
    /// The kernel's code for DMA warned, of an error of its own or of a driver.
    KernelWarning,
    /// An RDMA adapter has no memory key left: no more memory can be registered with it.
    NoMemoryKey,
    /// A driver tells the DMA masks that it set.
    Masks(Masks),
    /// A driver did not get the DMA mask that it asked for.
    MaskRefused,
}

/// Pages that were not to be had (mm/page_alloc.c, `warn_alloc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagesRefused {
    /// How many in a row, as a power of two.
    pub order: u32,
    /// Only pages with such addresses would do: `GFP_DMA32`, below 4 GiB.
    pub is_below_4gib: bool,
    /// Only pages below the first 16 MiB (x86) or GiB (some Arm boards) would do: `GFP_DMA`.
    pub is_low: bool,
    /// It was asked for where nobody may wait, so the kernel could not make room.
    pub is_atomic: bool,
}

/// Reads a message about a driver. `device` is the one that it begins with.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<DriverMessage> {
    if device.is_some_and(|device| device.driver == "tegra-mc") {
        return parse_controller_refusal(body);
    }
    if let Some(message) = dma_mask::read(body, device) {
        return Some(message);
    }
    match body.as_bytes().first()? {
        // Since 6.9: `probe with driver igb failed with error -5`.
        b'p' if device.is_some() => {
            let (driver, error) =
                body.strip_prefix("probe with driver ")?.split_once(" failed with error ")?;
            Some(DriverMessage::ProbeFailed { driver: driver.to_owned(), error: scan::signed(error)? })
        }
        b'f' if body.starts_with("failed to allocate host memory buffer") => {
            Some(DriverMessage::NoHostMemoryBuffer)
        }
        b'n' if body.starts_with("nvme ") && body.contains(": failed to allocate host memory buffer") => {
            Some(DriverMessage::NoHostMemoryBuffer)
        }
        // "mlx5_cmd_out_err:800:(pid 1): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8), ..."
        b'm' if body.contains("CREATE_MKEY(") && body.contains("limits exceeded") => {
            Some(DriverMessage::NoMemoryKey)
        }
        b'E' if body.starts_with("EAL:") && body.contains("IOVA mode but current mode is") => {
            Some(DriverMessage::AddressMode)
        }
        b'W' if is_warning_on_dma(body) => Some(DriverMessage::KernelWarning),
        b'I' | b'n' if is_command_timeout(body) => Some(DriverMessage::CommandTimeout),
        _ => parse_old_probe(body)
            .or_else(|| parse_pages_refused(body).map(DriverMessage::PagesRefused))
            .or_else(|| parse_allocation(body)),
    }
}

/// `WARNING: CPU: 3 PID: 812 at drivers/iommu/iommu.c:123 iommu_unmap+0x1/0x2`; since 6.19 `WARNING: drivers/iommu/iommu.c:123 at
/// iommu_unmap, CPU#3`.
fn is_warning_on_dma(body: &str) -> bool {
    const PLACES: [&str; 6] = [
        "drivers/iommu/",
        "kernel/dma/",
        "lib/swiotlb.c",
        "arch/powerpc/kernel/iommu.c",
        "arch/powerpc/platforms/pseries/iommu.c",
        "drivers/vfio/",
    ];
    let Some(rest) = body.strip_prefix("WARNING: ") else { return false };
    let places = [Some(rest), scan::after(rest, " at ")].into_iter().flatten();
    let mut places = places.map(|place| place.trim_start_matches("./"));
    places.any(|place| PLACES.iter().any(|known| place.starts_with(known)))
}

/// `pcie5w: write @0x0000000000000000: EMEM address decode error`.
fn parse_controller_refusal(body: &str) -> Option<DriverMessage> {
    let (client, access) = body.split_once(": ")?;
    let is_access = access.contains("read @") || access.contains("write @");
    is_access.then(|| DriverMessage::ControllerRefused { client: scan::words(client) })
}

/// `I/O 23 QID 4 timeout, aborting`, since 6.1 `I/O tag 23 (0017) opcode 0x2 (Read) QID 4 timeout, reset controller`.
fn is_command_timeout(body: &str) -> bool {
    let body = scan::of_drive(body).unwrap_or(body);
    body.starts_with("I/O ") && body.contains(" QID ") && body.contains(" timeout, ")
}

/// `igb: probe of 0000:03:00.0 failed with error -5`, of PCI functions.
fn parse_old_probe(body: &str) -> Option<DriverMessage> {
    let (driver, rest) = scan::split(body, ": probe of ")?;
    let (name, error) = rest.split_once(" failed with error ")?;
    (name.matches(':').count() == 2).then_some(())?;
    Some(DriverMessage::ProbeFailed { driver: driver.to_owned(), error: scan::signed(error)? })
}

/// `insmod: page allocation failure: order:9, mode:0xcc4(GFP_KERNEL|GFP_DMA32), nodemask=...`; up to 3.x `page allocation
/// failure. order:1, mode:0x20`. The bits of zones are the same in all kernels (include/linux/gfp.h).
fn parse_pages_refused(body: &str) -> Option<PagesRefused> {
    let (_, rest) = scan::after(body, "page allocation failure")?.split_once("order:")?;
    let order = scan::small(rest)?;
    let mode = scan::hex_after(rest, "mode:")?;
    let flags = scan::between(rest, "(", ")");
    let is_atomic = match flags {
        Some(flags) => flags.split('|').any(|flag| matches!(flag, "GFP_ATOMIC" | "GFP_NOWAIT")),
        // Up to 4.3: without __GFP_WAIT.
        None => mode & 0x30 == 0x20,
    };
    Some(PagesRefused { order, is_below_4gib: mode & 4 != 0, is_low: mode & 1 != 0, is_atomic })
}

/// `dma_alloc_coherent failed`, as drivers word it, and what the kernel's pool of contiguous memory says.
fn parse_allocation(body: &str) -> Option<DriverMessage> {
    let of_cma = body.contains("cma_alloc: ") && body.contains("alloc failed");
    let of_dma =
        ["dma_alloc_coherent", "pci_alloc_consistent", "dma_map_single", "DMA mapping", "dma mapping"];
    let failed = || body.contains("fail") || body.contains("error") || body.contains("unable");
    let is_failure = of_cma || (of_dma.iter().any(|call| body.contains(call)) && failed());
    is_failure.then(|| DriverMessage::AllocationFailed(scan::words(body)))
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Driver", expect);
    }

    #[test]
    fn messages() {
        check(
            "igb: probe of 0000:03:00.0 failed with error -5",
            r#"ProbeFailed { driver: "igb", error: -5 }"#,
        );
        check(
            "igb 0000:03:00.0: probe with driver igb failed with error -5",
            r#"ProbeFailed { driver: "igb", error: -5 }"#,
        );
        check(
            "insmod: page allocation failure: order:9, mode:0xcc4(GFP_KERNEL|GFP_DMA32)",
            "PagesRefused(PagesRefused { order: 9, is_below_4gib: true, is_low: false, is_atomic: false })",
        );
        check(
            "swapper: page allocation failure. order:1, mode:0x20",
            "PagesRefused(PagesRefused { order: 1, is_below_4gib: false, is_low: false, is_atomic: true })",
        );
        check(
            "modprobe: page allocation failure: order:6, mode:0xcc1(GFP_KERNEL|GFP_DMA), nodemask=(null)",
            "PagesRefused(PagesRefused { order: 6, is_below_4gib: false, is_low: true, is_atomic: false })",
        );
        check(
            "mlx5_core 0000:01:00.0: dma_alloc_coherent failed",
            r#"AllocationFailed("dma_alloc_coherent failed")"#,
        );
        check(
            "cma: cma_alloc: reserved: alloc failed, req-size: 16 pages, ret: -12",
            r#"AllocationFailed("cma: cma_alloc: reserved: alloc failed, req-size: 16 pages, ret: -12")"#,
        );
        check("WARNING: CPU: 3 PID: 812 at drivers/iommu/iommu.c:123 iommu_unmap+0x1/0x2", "KernelWarning");
        check("WARNING: drivers/iommu/iommu.c:123 at iommu_unmap, CPU#3: fio/812", "KernelWarning");
        check("nvme nvme1: failed to allocate host memory buffer.", "NoHostMemoryBuffer");
        check("nvme 0000:01:00.0: failed to allocate host memory buffer.", "NoHostMemoryBuffer");
        check(
            "mlx5_core 0000:41:00.0: mlx5_cmd_out_err:800:(pid 1): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x18af6), err(-12)",
            "NoMemoryKey",
        );
        check(
            "tegra-mc 2c00000.memory-controller: pcie5w: write @0x0000000000000000: EMEM address decode error",
            r#"ControllerRefused { client: "pcie5w" }"#,
        );
        check("nvme nvme0: I/O 23 QID 4 timeout, aborting", "CommandTimeout");
        check(
            "nvme nvme0: I/O tag 23 (0017) opcode 0x2 (Read) QID 4 timeout, reset controller",
            "CommandTimeout",
        );
        check("EAL:   Expecting 'PA' IOVA mode but current mode is 'VA', not initializing", "AddressMode");
    }
}
