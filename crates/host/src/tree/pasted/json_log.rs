//! Logs that a program wrote as JSON: `journalctl -k -o json` and `json-pretty`, `dmesg --json`.

use super::{Cut, LOG, Part, Parts};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// Microseconds in a second.
const SECOND_US: u64 = 1_000_000;

/// How `dmesg --json` begins its list of records.
const DMESG_HEAD: [&str; 4] = ["{", "\"dmesg\"", ":", "["];

/// A record of either program; nothing else of it is kept.
#[derive(Deserialize)]
struct Record {
    /// Of `dmesg`.
    msg: Option<Field>,
    /// Seconds, of `dmesg`.
    time: Option<f64>,
    #[serde(rename = "MESSAGE")]
    message: Option<Field>,
    #[serde(rename = "_TRANSPORT")]
    transport: Option<Field>,
    #[serde(rename = "SYSLOG_IDENTIFIER")]
    identifier: Option<Field>,
    #[serde(rename = "_HOSTNAME")]
    host: Option<Field>,
    #[serde(rename = "_SOURCE_MONOTONIC_TIMESTAMP")]
    source_time_us: Option<Field>,
    #[serde(rename = "__MONOTONIC_TIMESTAMP")]
    time_us: Option<Field>,
}

/// A field. The journal has one that is no text as an array of bytes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Text(String),
    Other(IgnoredAny),
}

impl Field {
    fn text(field: Option<&Self>) -> Option<&str> {
        match field? {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }
}

/// The kernel's log of a text in JSON, its lines as `dmesg` and `journalctl -o short-monotonic` print them. `None` if the text is none.
pub(super) fn read(text: &str) -> Option<Cut> {
    let text = text.trim_start_matches('\u{feff}');
    let mut rest = text.trim_start();
    if !rest.starts_with('{') {
        return None;
    }
    let behind_head =
        DMESG_HEAD.iter().try_fold(rest, |rest, part| rest.strip_prefix(part).map(str::trim_start));
    let is_dmesg = behind_head.is_some();
    rest = behind_head.unwrap_or(rest);
    let mut log = Part::default();
    let (mut line, mut counted) = (1_u32, 0);
    // What is behind the first broken record is not read: a log that was cut off ends in half of one.
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t', '\r', '\n']);
        let mut records = Deserializer::from_str(rest).into_iter::<Record>();
        let Some(Ok(record)) = records.next() else { break };
        let (own, behind) = rest.split_at_checked(records.byte_offset())?;
        let printed = if is_dmesg { of_dmesg(&record) } else { of_journal(&record) };
        if let Some(printed) = printed {
            // The line of its message, which others of its members may stand above.
            let key = if is_dmesg { "\"msg\"" } else { "\"MESSAGE\"" };
            let at = text.len() - rest.len() + own.find(key).unwrap_or(0);
            line = line.saturating_add(newlines(text.get(counted..at)?));
            counted = at;
            log.push(line, &printed);
        }
        rest = behind;
    }
    (!log.numbers.is_empty()).then(|| Cut { parts: Parts::from([(LOG, log)]), ..Cut::default() })
}

fn newlines(text: &str) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', text.as_bytes()).count()).unwrap_or(u32::MAX)
}

/// One record of `dmesg`; `None` if it has no message.
fn of_dmesg(record: &Record) -> Option<String> {
    let message = Field::text(record.msg.as_ref())?;
    let time = record.time.map_or_else(String::new, |seconds| format!("[{seconds:12.6}] "));
    Some(format!("{time}{}", first_line(message)))
}

/// One record of the journal; `None` if it is not the kernel's, or not of text.
fn of_journal(record: &Record) -> Option<String> {
    let is_kernels = [&record.transport, &record.identifier]
        .into_iter()
        .any(|field| Field::text(field.as_ref()) == Some("kernel"));
    let message = Field::text(record.message.as_ref()).filter(|_| is_kernels)?;
    let time = Field::text(record.source_time_us.as_ref()).or_else(|| Field::text(record.time_us.as_ref()));
    let time = time.and_then(|time| time.parse::<u64>().ok()).map_or_else(String::new, |microseconds| {
        format!("[{:5}.{:06}] ", microseconds / SECOND_US, microseconds % SECOND_US)
    });
    // A name that has blanks is none.
    let host = Field::text(record.host.as_ref())
        .filter(|name| !name.is_empty() && !name.contains(char::is_whitespace));
    let host = host.filter(|_| !time.is_empty()).map_or_else(String::new, |host| format!("{host} kernel: "));
    Some(format!("{time}{host}{}", first_line(message)))
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}
