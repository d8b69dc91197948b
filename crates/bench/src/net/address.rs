//! Addresses on the command line: to listen on, and of a host to measure with.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The port unless another is given.
pub const PORT_DEFAULT: u16 = 9417;

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// Of this host.
    #[error(
        "expected an address of this host, as 192.0.2.1, 192.0.2.1:{PORT_DEFAULT} or [2001:db8::1]:{PORT_DEFAULT}; no name"
    )]
    Listen,
    /// Of another.
    #[error("expected a host, as its name, 192.0.2.1, HOST:{PORT_DEFAULT} or [2001:db8::1]:{PORT_DEFAULT}")]
    Host,
}

/// An address of this host to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

impl FromStr for ListenAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let alone = || text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, PORT_DEFAULT));
        text.parse().ok().or_else(alone).map(Self).ok_or(BadAddress::Listen)
    }
}

/// A host by name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// The name or address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl FromStr for HostPort {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().to_string(), port: address.port() });
        }
        if text.parse::<IpAddr>().is_ok() {
            return Ok(Self { host: text.to_owned(), port: PORT_DEFAULT });
        }
        let (host, port) = match text.split_once(':') {
            None => (text, PORT_DEFAULT),
            Some((host, port)) => (host, port.parse().map_err(|_| BadAddress::Host)?),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_host = !host.is_empty() && host.chars().all(is_name);
        is_host.then(|| Self { host: host.to_owned(), port }).ok_or(BadAddress::Host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_ports() {
        let listen = |text: &str| text.parse::<ListenAddress>().ok().map(|address| address.0.to_string());
        assert_eq!(listen("192.0.2.1").as_deref(), Some("192.0.2.1:9417"));
        assert_eq!(listen("192.0.2.1:80").as_deref(), Some("192.0.2.1:80"));
        assert_eq!(listen("2001:db8::1").as_deref(), Some("[2001:db8::1]:9417"));
        for text in ["", ":9417", "host", "*", "192.0.2.1:99999", "192.0.2"] {
            assert_eq!(listen(text), None, "{text}");
        }
        let host = |text: &str| text.parse::<HostPort>().ok().map(|host| (host.host, host.port));
        assert_eq!(host("db2"), Some(("db2".to_owned(), 9417)));
        assert_eq!(host("db2:1"), Some(("db2".to_owned(), 1)));
        assert_eq!(host("[2001:db8::1]:7"), Some(("2001:db8::1".to_owned(), 7)));
        assert_eq!(host("::1"), Some(("::1".to_owned(), 9417)));
        for text in ["", ":9417", "a b", "a:b", "a:1:2", "a/b"] {
            assert_eq!(host(text), None, "{text}");
        }
    }
}
