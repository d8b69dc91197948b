//! Pseudonyms: what stands in place of an identifier, in a form that parsers still read.
//!
//! A pseudonym is a keyed hash (HMAC-SHA-256) of the identifier. With one key the same identifier always gets the same
//! pseudonym, so two captures of a host match. Without the key nobody can find a MAC address by trying all of them.
//!
//! Each form has a mark by which a pseudonym is recognised, so that redacting twice changes nothing more:
//!
//! | identifier | pseudonym | mark |
//! |---|---|---|
//! | MAC address | `02:69:6f:xx:xx:xx` | the first three octets; bit 1 of the first says "locally administered" |
//! | EUI-64, GUID, WWN | `02696fxxxxxxxxxx` | `02696f`, in an IPv6 interface identifier `00696f` |
//! | UUID | `696f746f-xxxx-8xxx-8xxx-xxxxxxxxxxxx` | the first group |
//! | IPv4 address | `240.x.x.x` | 240.0.0.0/8, which nobody routes (RFC 1112, section 4) |
//! | IPv6 address | `2001:db8:696f:...` | a documentation prefix (RFC 3849) |
//! | location code | `U78AA.001.IOTxxxx-P1-C2` | `IOT`; IBM's serial numbers have no I and no O |
//! | anything else | `redacted-xxxxxxxx`, `host-xxxxxxxx` | the word, and eight hexadecimal digits |

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The word in place of secrets, and the mark of pseudonyms without a form of their own.
pub(super) const REDACTED: &str = "redacted";

/// The second and third octet of marked addresses: "io" in ASCII.
const MARK: [u8; 2] = [0x69, 0x6f];
/// Unicast, locally administered (IEEE 802, section 8.4).
const LOCAL: u8 = 0x02;
/// The same in an IPv6 interface identifier, where the bit is inverted (RFC 4291, appendix A).
const LOCAL_INVERTED: u8 = 0x00;
/// "ioto", the first group of marked UUIDs.
const UUID_MARK: &str = "696f746f";
const LOCATION_MARK: &str = "IOT";
/// 2001:db8:696f::/48.
const IPV6_MARK: [u16; 3] = [0x2001, 0x0db8, 0x696f];
const IPV4_MARK: u8 = 240;

/// The key of pseudonyms. Whoever has it can test a guess of an identifier; it stays on the host.
#[derive(Clone)]
pub struct Key([u8; Key::BYTES]);

impl Key {
    /// Length of a key in bytes.
    pub const BYTES: usize = 32;

    /// A key of these bytes, which must be random.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Hash of an identifier. `domain` keeps a MAC address and a serial number of the same bytes apart.
    fn hash(&self, domain: &str, identifier: &[u8]) -> [u8; 32] {
        // HMAC takes keys of any length; the error exists for other algorithms.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return [0; 32] };
        mac.update(domain.as_bytes());
        mac.update(&[0]);
        mac.update(identifier);
        mac.finalize().into_bytes().into()
    }

    /// The first hexadecimal digits of an identifier's hash.
    fn hex(&self, domain: &str, identifier: &[u8], digits: usize) -> String {
        let hash = self.hash(domain, identifier);
        let mut hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        hex.truncate(digits);
        hex
    }

    /// The pseudonym of a MAC address.
    pub(super) fn mac(&self, mac: [u8; 6]) -> [u8; 6] {
        match mac {
            [LOCAL, a, b, ..] if [a, b] == MARK => mac,
            _ if is_uniform(&mac) => mac,
            _ => {
                let [a, b, c, ..] = self.hash("mac", &mac);
                [LOCAL, MARK[0], MARK[1], a, b, c]
            }
        }
    }

    /// The pseudonym of a 64-bit identifier: GUID, WWN, device serial number. If it contains a MAC address,
    /// its pseudonym contains that address's pseudonym.
    pub(super) fn eui64(&self, eui: [u8; 8]) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h] = eui;
        if is_uniform(&eui) || (matches!(a, LOCAL | LOCAL_INVERTED) && [b, c] == MARK) {
            return eui;
        }
        if let (0xff, 0xff | 0xfe) = (d, e) {
            let [a, b, c, f, g, h] = self.mac([a, b, c, f, g, h]);
            return [a, b, c, d, e, f, g, h];
        }
        let [p, q, r, s, t, ..] = self.hash("eui64", &eui);
        [LOCAL, MARK[0], MARK[1], p, q, r, s, t]
    }

    /// The pseudonym of a longer identifier, with as many octets.
    pub(super) fn octets(&self, octets: &[u8]) -> Vec<u8> {
        let mark = [LOCAL, MARK[0], MARK[1]];
        // 32 digits without dashes may have been taken for a UUID.
        if is_uniform(octets) || octets.starts_with(&mark) || octets.starts_with(b"ioto") {
            return octets.to_vec();
        }
        let hash = self.hash("octets", octets);
        mark.iter().chain(hash.iter().cycle()).take(octets.len()).copied().collect()
    }

    /// The pseudonym of a UUID. Both are 32 digits in lower case.
    pub(super) fn uuid(&self, digits: &str) -> String {
        if digits.starts_with(UUID_MARK) || digits.starts_with("02696f") || is_uniform(digits.as_bytes()) {
            return digits.to_owned();
        }
        let hash = self.hex("uuid", digits.as_bytes(), 24);
        // Version 8 and variant 1, for identifiers of one's own making (RFC 9562, section 5.8).
        let hash: String =
            hash.char_indices().map(|(at, digit)| if matches!(at, 4 | 8) { '8' } else { digit }).collect();
        format!("{UUID_MARK}{hash}")
    }

    /// The pseudonym of an IPv4 address. Masks, loopback and "no address" identify no host and stay.
    pub(super) fn ipv4(&self, address: Ipv4Addr) -> Ipv4Addr {
        match address.octets() {
            [IPV4_MARK | 0 | 127 | 255, ..] => address,
            octets => {
                let [a, b, c, ..] = self.hash("ipv4", &octets);
                Ipv4Addr::new(IPV4_MARK, a, b, c)
            }
        }
    }

    /// The pseudonym of an IPv6 address. A link-local one stays link-local, with the pseudonym of its interface.
    pub(super) fn ipv6(&self, address: Ipv6Addr) -> Ipv6Addr {
        let octets = address.octets();
        let [.., i0, i1, i2, i3, i4, i5, i6, i7] = octets;
        match address.segments() {
            [0xfe80..=0xfebf, ..] => {
                // The interface identifier has the bit inverted; the GUID of an InfiniBand port has not.
                let inverted = (i3, i4) == (0xff, 0xfe);
                let flip = if inverted { LOCAL } else { 0 };
                let [p0, p1, p2, p3, p4, p5, p6, p7] = self.eui64([i0 ^ flip, i1, i2, i3, i4, i5, i6, i7]);
                let mut new = octets;
                new[8..].copy_from_slice(&[p0 ^ flip, p1, p2, p3, p4, p5, p6, p7]);
                Ipv6Addr::from(new)
            }
            [a, b, c, ..] if [a, b, c] == IPV6_MARK => address,
            _ if address.is_loopback() || address.is_unspecified() => address,
            _ => {
                let hash = self.hash("ipv6", &octets);
                let mut new = [0; 16];
                for (at, segment) in IPV6_MARK.iter().enumerate() {
                    new[2 * at..2 * at + 2].copy_from_slice(&segment.to_be_bytes());
                }
                new[6..].copy_from_slice(&hash[..10]);
                Ipv6Addr::from(new)
            }
        }
    }

    /// The serial number's inside a location code, of seven characters as all of them are.
    pub(super) fn location_serial(&self, serial: &str) -> String {
        if serial.starts_with(LOCATION_MARK) {
            return serial.to_owned();
        }
        let hash = self.hash("location", serial.as_bytes());
        let digit =
            |byte: &u8| char::from_digit(u32::from(byte % 36), 36).unwrap_or('0').to_ascii_uppercase();
        format!("{LOCATION_MARK}{}", hash.iter().take(4).map(digit).collect::<String>())
    }

    /// A word's that needs no form: `redacted-1a2b3c4d`.
    pub(super) fn word(&self, word: &str) -> String {
        self.labelled(REDACTED, word)
    }

    /// A host's name: `host-1a2b3c4d`. Names of hosts are the same in either case (RFC 4343).
    pub(super) fn host(&self, name: &str) -> String {
        self.labelled("host", &name.to_ascii_lowercase())
    }

    /// The pseudonym of a word: the label and a hash.
    fn labelled(&self, label: &str, word: &str) -> String {
        // A quote whose other half is lost stays behind.
        if is_word(word.trim_matches(['"', '\''])) {
            return word.to_owned();
        }
        format!("{label}-{}", self.hex(label, word.as_bytes(), 8))
    }
}

/// All octets are the same: "none" or "all".
fn is_uniform(octets: &[u8]) -> bool {
    octets.windows(2).all(|pair| pair[0] == pair[1])
}

/// Whether a word is one that [`Key::word`] or [`Key::host`] makes, or stands for a secret.
pub(super) fn is_word(word: &str) -> bool {
    let digits = word.strip_prefix("redacted-").or_else(|| word.strip_prefix("host-"));
    word == REDACTED
        || digits.is_some_and(|digits| {
            digits.len() == 8 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
}
