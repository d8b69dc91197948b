//! Writes the file tree of a large made-up host, to measure how inspection grows:
//! `cargo run --release --example big_host -- ADAPTERS FOLDER`.
//!
//! Root ports lead to switches with 32 downstream ports, each with one NVMe controller or Ethernet
//! function; every function has the attributes and the 4 KiB of configuration space that sysfs shows
//! to root, a group of its own and an interface.

use std::{
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

const PORTS_PER_SWITCH: usize = 32;
/// Buses of one domain that switches may take, each with 34: upstream port, 32 links, and the root's.
const SWITCHES_PER_DOMAIN: usize = 7;

fn main() -> io::Result<()> {
    let mut args = env::args().skip(1);
    let (Some(adapters), Some(folder)) = (args.next().and_then(|n| n.parse().ok()), args.next()) else {
        eprintln!("usage: big_host ADAPTERS FOLDER");
        std::process::exit(2);
    };
    BigHost { root: PathBuf::from(folder), groups: 0 }.write(adapters)
}

struct BigHost {
    root: PathBuf,
    groups: usize,
}

/// What a function's files say.
struct Function<'a> {
    address: String,
    /// Folder in which its own lies, below `sys/`.
    parent: &'a str,
    /// Port type of its PCI Express capability.
    port: u16,
    class: u32,
    vendor: u16,
    device: u16,
    driver: &'a str,
}

impl BigHost {
    fn write(&mut self, adapters: usize) -> io::Result<()> {
        self.file("proc/cmdline", "quiet intel_iommu=on\n")?;
        self.file("proc/version", "Linux version 6.1.0-53-amd64 (builder@host) #1 SMP Debian\n")?;
        self.file("proc/meminfo", "MemTotal:       1056763000 kB\n")?;
        self.file("var/log/dmesg", &log(adapters))?;
        self.file("sys/class/iommu/dmar0/name", "dmar0\n")?;
        for index in 0..adapters.div_ceil(PORTS_PER_SWITCH) {
            let left = adapters - index * PORTS_PER_SWITCH;
            self.switch(index, left.min(PORTS_PER_SWITCH))?;
        }
        Ok(())
    }

    fn switch(&mut self, index: usize, adapters: usize) -> io::Result<()> {
        let domain = index / SWITCHES_PER_DOMAIN;
        let bus = 1 + index % SWITCHES_PER_DOMAIN * (PORTS_PER_SWITCH + 2);
        let bridge = |address: String, parent, port| Function {
            address,
            parent,
            port,
            class: 0x06_0400,
            vendor: 0x10b5,
            device: 0x8796,
            driver: "pcieport",
        };
        let host_bridge = format!("devices/pci{domain:04x}:00");
        let root_port =
            self.function(&bridge(format!("{domain:04x}:00:{:02x}.0", 1 + index % 31), &host_bridge, 4))?;
        let upstream = self.function(&bridge(format!("{domain:04x}:{bus:02x}:00.0"), &root_port, 5))?;
        for port in 0..adapters {
            let below = bus + 1;
            let link =
                self.function(&bridge(format!("{domain:04x}:{below:02x}:{port:02x}.0"), &upstream, 6))?;
            let nvme = port % 2 == 0;
            let address = format!("{domain:04x}:{:02x}:00.0", below + 1 + port);
            let endpoint = self.function(&Function {
                address,
                parent: &link,
                port: 0,
                class: if nvme { 0x01_0802 } else { 0x02_0000 },
                vendor: if nvme { 0x144d } else { 0x15b3 },
                device: if nvme { 0xa824 } else { 0x101b },
                driver: if nvme { "nvme" } else { "mlx5_core" },
            })?;
            let class = if nvme { "nvme" } else { "net" };
            let name = format!("{}{}", if nvme { "nvme" } else { "eth" }, self.groups);
            self.link(&format!("sys/class/{class}/{name}"), &format!("../../{endpoint}/{class}/{name}"))?;
        }
        Ok(())
    }

    /// Writes a function and gives its folder below `sys/`.
    fn function(&mut self, function: &Function<'_>) -> io::Result<String> {
        let path = format!("{}/{}", function.parent, function.address);
        let up = "../".repeat(path.matches('/').count() + 1);
        let put = |name: &str, value: &str| self.file(&format!("sys/{path}/{name}"), value);
        put("vendor", &format!("0x{:04x}\n", function.vendor))?;
        put("device", &format!("0x{:04x}\n", function.device))?;
        put("subsystem_vendor", "0x0000\n")?;
        put("subsystem_device", "0x0000\n")?;
        put("class", &format!("0x{:06x}\n", function.class))?;
        put("dma_mask_bits", "64\n")?;
        put("consistent_dma_mask_bits", "64\n")?;
        put("numa_node", "0\n")?;
        put("local_cpulist", "0-63\n")?;
        put("irq", "0\n")?;
        put("current_link_speed", "16.0 GT/s PCIe\n")?;
        put("max_link_speed", "16.0 GT/s PCIe\n")?;
        put("current_link_width", "4\n")?;
        put("max_link_width", "4\n")?;
        put("removable", "fixed\n")?;
        fs::write(self.root.join(format!("sys/{path}/config")), config(function))?;
        let group = self.groups;
        self.groups += 1;
        self.link(&format!("sys/{path}/driver"), &format!("{up}bus/pci/drivers/{}", function.driver))?;
        self.link(&format!("sys/{path}/iommu_group"), &format!("{up}kernel/iommu_groups/{group}"))?;
        self.link(&format!("sys/bus/pci/devices/{}", function.address), &format!("../../../{path}"))?;
        self.file(&format!("sys/kernel/iommu_groups/{group}/type"), "DMA-FQ\n")?;
        self.link(
            &format!("sys/kernel/iommu_groups/{group}/devices/{}", function.address),
            &format!("../../../../{path}"),
        )?;
        Ok(path)
    }

    fn file(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        fs::write(path, text)
    }

    fn link(&self, path: &str, target: &str) -> io::Result<()> {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        symlink(target, path)
    }
}

fn log(adapters: usize) -> String {
    let mut log = String::from(
        "[    0.000000] Linux version 6.1.0-53-amd64 (builder@host)\n\
         [    0.100000] DMAR: IOMMU enabled\n\
         [    0.900000] iommu: Default domain type: Translated\n\
         [    0.900000] iommu: DMA domain TLB invalidation policy: lazy mode\n\
         [    1.017508] DMAR: Intel(R) Virtualization Technology for Directed I/O\n",
    );
    for index in 0..adapters {
        log.push_str(&format!("[    2.{index:06}] nvme nvme{index}: 64/0/0 default/read/poll queues\n"));
    }
    log
}

/// 4 KiB of configuration space: header, PCI Express capability at 0x40, ACS at 0x100 for ports.
fn config(function: &Function<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let is_bridge = function.port != 0;
    put(0x00, &function.vendor.to_le_bytes());
    put(0x02, &function.device.to_le_bytes());
    put(0x04, &[0x07, 0x04, 0x10, 0x00]);
    put(0x08, &(function.class << 8).to_le_bytes());
    put(0x0e, &[u8::from(is_bridge)]);
    put(0x34, &[0x40]);
    put(0x40, &[0x10, 0x00]);
    put(0x42, &(2 | function.port << 4).to_le_bytes());
    put(0x44, &0x2_u32.to_le_bytes());
    put(0x48, &0x2050_u16.to_le_bytes());
    put(0x4c, &0x0000_0044_u32.to_le_bytes());
    put(0x52, &0x0044_u16.to_le_bytes());
    put(0x6c, &0x0000_001e_u32.to_le_bytes());
    if is_bridge {
        put(0x100, &[0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, 0x1d, 0x00]);
    }
    bytes
}
