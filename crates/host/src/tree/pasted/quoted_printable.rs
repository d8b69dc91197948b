//! Texts as mail programs encode them: `=3D` for an equals sign, `=` at the end of a line that goes on in the next
//! (RFC 2045, section 6.7, Quoted-Printable).

use super::Part;

/// Encoded characters that a text must have for it to count as encoded: one alone may be an option's value.
const ENCODED_MIN: usize = 2;

/// The lines of a text, decoded, with the number of the first line of each; `None` if it is not encoded.
pub(super) fn decode(text: &str) -> Option<Part> {
    let has_soft_break = text.lines().any(|line| line.ends_with('='));
    let encoded = text.matches("=3D").count() + text.matches("=20").count();
    if !has_soft_break || encoded < ENCODED_MIN {
        return None;
    }
    let mut part = Part::default();
    let mut open: Option<(u32, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let (first, mut joined) = open.take().unwrap_or((number, String::new()));
        let soft = line.strip_suffix('=');
        joined.push_str(soft.unwrap_or(line));
        match soft {
            Some(_) => open = Some((first, joined)),
            None => part.push(first, &decoded(&joined)),
        }
    }
    if let Some((first, joined)) = open {
        part.push(first, &decoded(&joined));
    }
    Some(part)
}

/// A line with its encoded characters decoded; a line feed among them becomes a blank.
fn decoded(line: &str) -> String {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code =
            after.get(..2).filter(|_| *first == b'=').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(if byte == b'\n' { b' ' } else { byte });
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).trim_end_matches(' ').to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
mod tests {
    use super::*;

    #[test]
    fn soft_breaks_and_encoded_characters() {
        let text = "AMD-Vi: [IO_PAGE_FAULT device=3D0000:00:01.0 pasid=3D0x0=\n0000 flags=3D0x80]\nplain\n=E2=82=AC=20\n=zz=";
        let part = decode(text).unwrap();
        let lines: Vec<(u32, &str)> = part.lines().collect();
        let fault = "AMD-Vi: [IO_PAGE_FAULT device=0000:00:01.0 pasid=0x00000 flags=0x80]";
        assert_eq!(lines, [(1, fault), (3, "plain"), (4, "\u{20ac}"), (5, "=zz")]);
        assert!(decode("root=/dev/sda1 quiet=\n").is_none() && decode("device=3D1 a=3D2\n").is_none());
    }
}
