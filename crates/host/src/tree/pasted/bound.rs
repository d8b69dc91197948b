//! Lines of `dpdk-devbind.py --status`: which driver has a function.
//!
//! ```text
//! 0000:44:00.3 'Ethernet Controller X710 104e' drv=igb_uio unused=i40e,vfio-pci
//! 0000:44:00.0 'Ethernet Controller X710 15ff' if=enp68s0f0 drv=i40e unused=igb_uio *Active*
//! ```
//!
//! And of SPDK's `setup.sh`, with IDs, the driver before and the driver now:
//!
//! ```text
//! 0000:5e:00.0 (8086 0a54): nvme -> vfio-pci
//! ```

use crate::Bdf;

/// The same in lspci's words (`-vmmk`); `None` if it is no such line.
pub(super) fn record(line: &str) -> Option<[String; 4]> {
    parse_devbind(line).or_else(|| parse_spdk(line))
}

/// A line of SPDK's script.
fn parse_spdk(line: &str) -> Option<[String; 4]> {
    let (address, rest) = line.trim().split_once(" (")?;
    let address: Bdf = address.parse().ok()?;
    let (ids, drivers) = rest.split_once("): ")?;
    let (vendor, device) = ids.split_once(' ')?;
    let is_id = |id: &str| id.len() == 4 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let driver = drivers.split_once(" -> ").map_or("", |(_, now)| now.trim());
    let is_driver = !driver.is_empty() && !driver.contains([' ', '/']);
    (is_id(vendor) && is_id(device) && is_driver).then(|| {
        [
            format!("Slot:\t{address}"),
            format!("Vendor:\t{vendor}"),
            format!("Device:\t{device}"),
            format!("Driver:\t{driver}"),
        ]
    })
}

/// A line of DPDK's program.
fn parse_devbind(line: &str) -> Option<[String; 4]> {
    let (address, rest) = line.trim().split_once(" '")?;
    let (name, rest) = rest.split_once("' ")?;
    let address: Bdf = address.parse().ok()?;
    let driver = rest.split_whitespace().find_map(|word| word.strip_prefix("drv="));
    let lists_unused = rest.split_whitespace().any(|word| word.starts_with("unused="));
    (driver.is_some() || lists_unused).then_some(())?;
    let driver = driver.filter(|driver| !driver.is_empty());
    Some([
        format!("Slot:\t{address}"),
        format!("Device:\t{name}"),
        driver.map_or_else(String::new, |driver| format!("Driver:\t{driver}")),
        String::new(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_program_and_others() {
        let line = "0000:44:00.3 'Ethernet Controller X710 104e' drv=igb_uio unused=i40e,vfio-pci";
        let expect =
            ["Slot:\t0000:44:00.3", "Device:\tEthernet Controller X710 104e", "Driver:\tigb_uio", ""];
        assert_eq!(record(line), Some(expect.map(str::to_owned)));
        let unbound =
            record("0000:44:00.1 'NVMe SSD a80a' unused=nvme,vfio-pci").map(|[_, _, driver, _]| driver);
        assert_eq!(unbound, Some(String::new()));
        let spdk = ["Slot:\t0000:5e:00.0", "Vendor:\t8086", "Device:\t0a54", "Driver:\tvfio-pci"];
        assert_eq!(record("0000:5e:00.0 (8086 0a54): nvme -> vfio-pci"), Some(spdk.map(str::to_owned)));
        assert_eq!(record("0000:5e:00.0 (8086 0a54): Active mountpoints on nvme0n1, so not binding"), None);
        assert_eq!(record("0000:44:00.3 'a name' and some prose"), None);
        assert_eq!(record("44:00.3 Ethernet controller: Intel Corporation X710"), None);
    }
}
