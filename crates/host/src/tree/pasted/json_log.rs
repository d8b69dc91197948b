//! Logs that a program wrote as JSON: `journalctl -k -o json` and `json-pretty`, `dmesg --json`.

use super::{Cut, LOG, Part, Parts};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// Microseconds in a second.
const SECOND_US: u64 = 1_000_000;

/// A value of either program; nothing else of it is kept.
#[derive(Deserialize)]
struct Value {
    /// All records of `dmesg --json`.
    dmesg: Option<Vec<DmesgRecord>>,
    #[serde(rename = "MESSAGE")]
    message: Option<Field>,
    #[serde(rename = "_TRANSPORT")]
    transport: Option<Field>,
    #[serde(rename = "SYSLOG_IDENTIFIER")]
    identifier: Option<Field>,
    #[serde(rename = "_HOSTNAME")]
    host: Option<Field>,
    #[serde(rename = "_SOURCE_MONOTONIC_TIMESTAMP")]
    source_time: Option<Field>,
    #[serde(rename = "__MONOTONIC_TIMESTAMP")]
    time: Option<Field>,
}

/// A record of `dmesg --json`.
#[derive(Deserialize)]
struct DmesgRecord {
    time: Option<f64>,
    msg: Option<Field>,
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
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    let mut log = Part::default();
    let (mut line, mut counted) = (1_u32, 0);
    // What is behind the first broken value is not read: a log that was cut off ends in half of one.
    while let Some(Ok(value)) = values.next() {
        let end = values.byte_offset();
        if let Some(records) = &value.dmesg {
            of_dmesg(text, records, &mut log);
        } else if let Some(record) = of_journal(&value) {
            // Blanks before a value are counted with it.
            let before = text.get(counted..).unwrap_or_default();
            let blank = before.len() - before.trim_start().len();
            let own = line.saturating_add(newlines(before.get(..blank).unwrap_or_default()));
            log.push(own, &record);
        }
        line = line.saturating_add(newlines(text.get(counted..end).unwrap_or_default()));
        counted = end;
    }
    (!log.numbers.is_empty()).then(|| Cut { parts: Parts::from([(LOG, log)]), ..Cut::default() })
}

fn newlines(text: &str) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', text.as_bytes()).count()).unwrap_or(u32::MAX)
}

/// Adds the records of `dmesg --json`, which prints each member on a line of its own.
fn of_dmesg(text: &str, records: &[DmesgRecord], log: &mut Part) {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with("\"msg\""));
    for record in records {
        let number = lines.next().map_or(1, |(number, _)| number);
        let Some(message) = Field::text(record.msg.as_ref()) else { continue };
        let time = record.time.map_or_else(String::new, |seconds| format!("[{seconds:12.6}] "));
        log.push(number, &format!("{time}{}", first_line(message)));
    }
}

/// One record of the journal; `None` if it is not the kernel's, or not of text.
fn of_journal(record: &Value) -> Option<String> {
    let is_kernels = [&record.transport, &record.identifier]
        .into_iter()
        .any(|field| Field::text(field.as_ref()) == Some("kernel"));
    let message = Field::text(record.message.as_ref()).filter(|_| is_kernels)?;
    let time = Field::text(record.source_time.as_ref()).or_else(|| Field::text(record.time.as_ref()));
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
