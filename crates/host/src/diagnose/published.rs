//! Published figures that say what leaving a DMA path gave somebody. Each is of one machine and workload:
//! a direction and an order of magnitude, not a promise.

use toll::{Evidence, Gain};

/// A gain that a publication reports.
fn published_gain(what: &str, source: &str) -> Gain {
    Gain { what: what.to_owned(), evidence: Evidence::Published { source: source.to_owned() } }
}

/// Strict to lazy on x86.
pub(super) fn strict_to_lazy_x86() -> Gain {
    published_gain(
        "34.10 to 97.38 Gb/s receiving 32 TCP streams (AMD Ryzen 3950X, Intel E810 100 Gb/s)",
        "\"Regression 5.12.0-rc4 net: ice: significant throughput drop\", J. Maki, mail to the iommu list, 2021",
    )
}

/// Strict to lazy on Arm.
pub(super) fn strict_to_lazy_arm() -> Gain {
    published_gain(
        "2.8 to 16.4 million 4 KiB random reads per second over eight NVMe drives (two-socket NVIDIA Grace)",
        "NVIDIA/NV-Kernels pull request 182, nirmoy, 2025",
    )
}

/// Default window to direct window.
pub(super) fn tce_to_direct_window() -> Gain {
    published_gain(
        "UDP request/response latency 21 % better, TCP stream throughput 11 % higher (means; 7R2, 10 GbE, RHEL 6.4)",
        "\"Taking Advantage of 64-bit DMA capability on PowerLinux\", B. Leitão and others, 2014",
    )
}

/// Uncached reserved area to cached memory of the DMA API.
pub(super) fn uncached_to_dma_api() -> Gain {
    published_gain(
        "4.56 % to 96.88 % of the link's throughput (Xilinx PCIe card, RHEL 6.4)",
        "\"RHEL6.4 Apparent reduced PCIe performance in comparison to RHEL5.9\", Red Hat Customer Portal, 2013",
    )
}
