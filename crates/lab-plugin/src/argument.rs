//! What the plugin is told on QEMU's command line: `-plugin FILE,out=...,log=...`.

use std::path::PathBuf;
use std::time::Duration;

/// The arguments, read.
pub(crate) struct Arguments {
    /// Where the record goes.
    pub(crate) out: PathBuf,
    /// QEMU's log, in which trace events appear.
    pub(crate) log: PathBuf,
    /// Trace events to follow.
    pub(crate) events: Events,
    /// The socket of the disk that answers when told to.
    pub(crate) disk: Option<PathBuf>,
    /// Where the kernel maps memory one to one: stores elsewhere are not recorded.
    pub(crate) linear_maps: Vec<std::ops::Range<u64>>,
    /// How long devices get to begin what a register write asked of them.
    pub(crate) settle: Duration,
    /// The process without which this one is to end.
    pub(crate) parent: Option<u32>,
}

/// Names of QEMU's trace events that tell how far the requests of disks are.
#[derive(Default)]
pub(crate) struct Events {
    /// A doorbell was rung.
    pub(crate) rung: Vec<String>,
    /// A request was begun.
    pub(crate) started: Vec<String>,
    /// How many bytes the request has that was begun last, and that the disk gives.
    pub(crate) sized: Vec<String>,
    /// The same where the disk gets them.
    pub(crate) sent: Vec<String>,
    /// A request was begun that the device answers by itself.
    pub(crate) prompt: Vec<String>,
    /// Words in the event of a request that is not meant to end.
    pub(crate) lasting: Vec<String>,
    /// A request was ended.
    pub(crate) finished: Vec<String>,
    /// An interrupt was raised.
    pub(crate) raised: Vec<String>,
}

/// How long devices get to begin, unless told.
const SETTLE_DEFAULT: Duration = Duration::from_micros(500);

impl Arguments {
    /// Reads `key=value` words.
    pub(crate) fn read<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let (mut out, mut log, mut parent) = (None, None, None);
        let (mut disk, mut linear_maps) = (None, Vec::new());
        let (mut events, mut settle) = (Events::default(), SETTLE_DEFAULT);
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("{word}: expected key=value"))?;
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
                _ => return Err(format!("{key}: no such argument")),
            }
        }
        let out = out.ok_or("out=FILE is missing")?;
        let log = log.ok_or("log=FILE is missing")?;
        Ok(Self { out, log, events, disk, linear_maps, settle, parent })
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{key}={value}: expected a number"))
}

/// `START-END`, hexadecimal, the end not included.
fn range(key: &str, value: &str) -> Result<std::ops::Range<u64>, String> {
    let bound = |text| u64::from_str_radix(text, 16).ok();
    let read = value.split_once('-').and_then(|(start, end)| Some(bound(start)?..bound(end)?));
    read.ok_or_else(|| format!("{key}={value}: expected START-END in hexadecimal"))
}
