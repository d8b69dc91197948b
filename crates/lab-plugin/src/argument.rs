//! Parses the plugin's arguments on QEMU's command line: `-plugin FILE,out=...,log=...`.

use std::path::PathBuf;
use std::time::Duration;

/// The plugin's arguments.
pub(crate) struct Arguments {
    /// The file that the record is written to.
    pub(crate) out: PathBuf,
    /// QEMU's log with the trace events.
    pub(crate) log: PathBuf,
    /// Names of the trace events that show the progress of requests.
    pub(crate) events: Events,
    /// The control socket of the disk that completes requests on command.
    pub(crate) disk: Option<PathBuf>,
    /// The kernel's linear maps of memory; stores elsewhere are not recorded.
    pub(crate) linear_maps: Vec<std::ops::Range<u64>>,
    /// The time between a register write and the request that it starts, at most.
    pub(crate) settle: Duration,
    /// The process that started QEMU; QEMU ends when this process does.
    pub(crate) parent: Option<u32>,
}

/// Names of QEMU's trace events that show the progress of NVMe requests.
#[derive(Default)]
pub(crate) struct Events {
    /// A doorbell was written.
    pub(crate) rung: Vec<String>,
    /// A request to the disk was started.
    pub(crate) started: Vec<String>,
    /// The size of the request that was started last, a read.
    pub(crate) sized: Vec<String>,
    /// The size of the request that was started last, a write.
    pub(crate) sent: Vec<String>,
    /// A request was started that the controller completes without the disk.
    pub(crate) prompt: Vec<String>,
    /// Text in the event of a request that stays in flight, as an Asynchronous Event Request.
    pub(crate) lasting: Vec<String>,
    /// A request was completed.
    pub(crate) finished: Vec<String>,
    /// An interrupt was raised.
    pub(crate) raised: Vec<String>,
}

/// The default of `settle_us`.
const SETTLE_DEFAULT: Duration = Duration::from_micros(500);

impl Arguments {
    /// Parses `key=value` words.
    pub(crate) fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let (mut out, mut log, mut parent) = (None, None, None);
        let (mut disk, mut linear_maps) = (None, Vec::new());
        let (mut events, mut settle) = (Events::default(), SETTLE_DEFAULT);
        for word in words {
            let (key, value) =
                word.split_once('=').ok_or_else(|| format!("invalid argument {word}; expected key=value"))?;
            match key {
                "out" => out = Some(PathBuf::from(value)),
                "log" => log = Some(PathBuf::from(value)),
                "rung" => events.rung.push(value.to_owned()),
                "started" => events.started.push(value.to_owned()),
                "sized" => events.sized.push(value.to_owned()),
                "sent" => events.sent.push(value.to_owned()),
                "prompt" => events.prompt.push(value.to_owned()),
                "lasting" => events.lasting.push(value.to_owned()),
                "finished" => events.finished.push(value.to_owned()),
                "raised" => events.raised.push(value.to_owned()),
                "disk" => disk = Some(PathBuf::from(value)),
                "linear" => linear_maps.push(range(key, value)?),
                "settle_us" => settle = Duration::from_micros(number(key, value)?),
                "parent" => parent = Some(number(key, value)?),
                _ => {
                    return Err(format!(
                        "unknown argument {key}; expected out, log, disk, linear, parent, settle_us or a kind of event"
                    ));
                }
            }
        }
        let out = out.ok_or("missing argument; expected out=FILE")?;
        let log = log.ok_or("missing argument; expected log=FILE")?;
        Ok(Self { out, log, events, disk, linear_maps, settle, parent })
    }
}

/// Parses the decimal value of an argument.
fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("invalid {key}={value}; expected a number"))
}

/// Parses `START-END`, two hexadecimal addresses, the end exclusive.
fn range(key: &str, value: &str) -> Result<std::ops::Range<u64>, String> {
    let bound = |text| u64::from_str_radix(text, 16).ok();
    let read = value.split_once('-').and_then(|(start, end)| Some(bound(start)?..bound(end)?));
    read.ok_or_else(|| format!("invalid {key}={value}; expected START-END in hexadecimal"))
}
