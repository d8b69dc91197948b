//! The way from an address of this host to another: the interface that the kernel's route leads through, and the adapters below it.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Interfaces below one, as those of a bond, at most.
const ADAPTERS_MAX: usize = 16;
/// Interfaces that lie on each other, at most.
const DEPTH_MAX: usize = 4;
const INTERFACES: &str = "/sys/class/net";

/// The way to the other host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetPath {
    /// This side's address and port.
    pub address: String,
    /// The interface of the kernel's route; `None` if it is unknown.
    pub interface: Option<String>,
    /// Its MTU in bytes.
    pub mtu: Option<u32>,
    /// Whether the other address is one of this host, so that nothing leaves it.
    pub is_local: bool,
    /// The adapters that carry the interface. If there is none, no adapter's DMA is in the figures.
    pub adapters: Vec<NetAdapter>,
}

/// An adapter that carries an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetAdapter {
    /// Its interface.
    pub interface: String,
    /// The driver that is bound to it.
    pub driver: Option<String>,
    /// Its address on PCI, if it is a PCI device.
    pub pci_address: Option<String>,
    /// The link's speed in megabits per second, if the driver says it.
    pub megabits_per_second: Option<u32>,
}

impl NetPath {
    /// The way between two addresses, as far as it can be read.
    pub(super) fn between(local: SocketAddr, remote: IpAddr) -> Self {
        // A socket of IPv6 that serves IPv4 too shows its addresses as those of IPv6 (RFC 4291, section 2.5.5.2).
        let (from, remote) = (local.ip().to_canonical(), remote.to_canonical());
        let route = ask_route(from, remote);
        let is_local = remote.is_loopback() || route.as_ref().is_some_and(|route| route.is_local);
        let index = route.map(|route| route.interface);
        let interface = index.and_then(interface_name);
        let folder = interface.as_ref().map(|name| Path::new(INTERFACES).join(name));
        // In a network namespace without a sysfs of its own, sysfs shows other interfaces, perhaps of the same name.
        let folder = folder.filter(|folder| number(&folder.join("ifindex")) == index);
        let mtu = folder.as_ref().and_then(|folder| number(&folder.join("mtu")));
        let mut adapters = Vec::new();
        if !is_local && let Some(folder) = &folder {
            add_adapters(folder, 0, &mut adapters);
        }
        Self { address: SocketAddr::new(from, local.port()).to_string(), interface, mtu, is_local, adapters }
    }
}

/// What the kernel says of a route.
struct Route {
    interface: u32,
    is_local: bool,
}

/// `RTM_NEWROUTE`, `RTM_GETROUTE`, `NLM_F_REQUEST` and the attributes of rtnetlink(7).
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const REQUEST: u16 = 1;
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const OUTPUT_INTERFACE: u16 = 4;
/// `RTN_LOCAL`.
const LOCAL: u8 = 2;
/// Lengths of `struct nlmsghdr` and `struct rtmsg`.
const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;

/// Asks the kernel for a route, as `ip route get` does; its rules count too.
fn ask_route(from: IpAddr, to: IpAddr) -> Option<Route> {
    // Protocol 0 of netlink is that of routes.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).ok()?;
    bind(&socket, &SocketAddrNetlink::new(0, 0)).ok()?;
    send(&socket, &route_request(from, to), SendFlags::empty()).ok()?;
    let mut answer = [0; 4096];
    let (bytes, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
    parse_route(&answer[..bytes])
}

/// The request for a route.
fn route_request(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let bytes_of = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }.as_raw() as u8;
    let bits = bytes_of(to).len() as u8 * 8;
    let mut route = vec![family, bits, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (kind, address) in [(DESTINATION, to), (SOURCE, from)] {
        let value = bytes_of(address);
        route.extend((value.len() as u16 + 4).to_ne_bytes());
        route.extend(kind.to_ne_bytes());
        route.extend(value);
    }
    let mut request = ((HEADER_BYTES + route.len()) as u32).to_ne_bytes().to_vec();
    request.extend(GET_ROUTE.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(route);
    request
}

/// The route in an answer.
fn parse_route(answer: &[u8]) -> Option<Route> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let route = answer.get(HEADER_BYTES..)?;
    let is_local = *route.get(7)? == LOCAL;
    let mut rest = route.get(ROUTE_BYTES..).filter(|_| kind == NEW_ROUTE)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let attribute = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let value = rest.get(4..length)?;
        if attribute == OUTPUT_INTERFACE {
            return Some(Route { interface: u32::from_ne_bytes(value.try_into().ok()?), is_local });
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// The name of an interface.
fn interface_name(index: u32) -> Option<String> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    rustix::net::netdevice::index_to_name(&socket, index).ok()
}

/// Adds the adapter of an interface, or those of the interfaces below it (bond, VLAN, bridge).
fn add_adapters(folder: &Path, depth: usize, adapters: &mut Vec<NetAdapter>) {
    if adapters.len() >= ADAPTERS_MAX || depth > DEPTH_MAX {
        return;
    }
    if folder.join("device").exists() {
        adapters.push(adapter(folder));
        return;
    }
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("lower_"))
        .map(|entry| entry.path())
        .collect();
    below.sort();
    below.iter().for_each(|folder| add_adapters(folder, depth + 1, adapters));
}

/// The adapter that has this interface.
fn adapter(folder: &Path) -> NetAdapter {
    let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    // The nearest PCI function above it: virtio's device is below its function, and a USB adapter below its host controller, whose DMA it is.
    let device = fs::canonicalize(folder.join("device")).unwrap_or_default();
    let is_pci =
        |path: &&Path| path.join("subsystem").canonicalize().is_ok_and(|bus| bus.ends_with("bus/pci"));
    NetAdapter {
        interface: name(&real).unwrap_or_default(),
        driver: fs::canonicalize(folder.join("device/driver")).ok().and_then(|driver| name(&driver)),
        pci_address: device.ancestors().find(is_pci).and_then(name),
        megabits_per_second: number(&folder.join("speed")),
    }
}

/// A number in a file of sysfs; `None` if there is none, as of the speed of a link that is down (-1).
fn number(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_way_to_this_host_leaves_it_by_no_adapter() {
        let here: SocketAddr = "127.0.0.1:1234".parse().unwrap();
        let path = NetPath::between(here, here.ip());
        assert_eq!((path.is_local, path.adapters.len()), (true, 0));
        assert_eq!((path.address.as_str(), path.interface.as_deref()), ("127.0.0.1:1234", Some("lo")));
    }

    proptest! {
        #[test]
        fn any_answer_is_a_route_or_none(mut answer in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_route(&answer);
            if let Some(kind) = answer.get_mut(4..6) {
                kind.copy_from_slice(&NEW_ROUTE.to_ne_bytes());
            }
            let _ = parse_route(&answer);
        }
    }
}
