//! Counters of IOMMUs and of PCIe root ports, where the machine has them and the kernel has a driver for them.
//!
//! The kernel shows each as a source of events (a PMU) in `/sys/bus/event_source/devices`: its number, the CPU on which it is read, the
//! bits of an event (`format/`) and the events by name (`events/`), as `perf list` shows them.

use crate::cpu_list::cpus_of;
use crate::perf_event::{Attributes, Reading, SOURCES, WITH_TIMES};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Sources whose names begin so, and the events that are read of each.
///
/// `drivers/iommu/intel/perfmon.c` (Linux 6.3), `drivers/perf/arm_smmuv3_pmu.c` (5.2), `arch/x86/events/amd/iommu.c` (3.11),
/// `arch/x86/events/intel/uncore_snbep.c` (4.17).
const PMUS: [(&str, &[&str]); 4] = [
    ("dmar", &["iotlb_lookup", "iotlb_hit"]),
    ("smmuv3_pmcg_", &["transaction", "tlb_miss", "trans_table_walk_access"]),
    ("amd_iommu_", &["mem_trans_total", "mem_iommu_tlb_pte_hit", "mem_iommu_tlb_pte_mis"]),
    (
        "uncore_iio_free_running_",
        &[
            "bw_in_port0",
            "bw_in_port1",
            "bw_in_port2",
            "bw_in_port3",
            "bw_in_port4",
            "bw_in_port5",
            "bw_in_port6",
            "bw_in_port7",
            "bw_out_port0",
            "bw_out_port1",
            "bw_out_port2",
            "bw_out_port3",
            "bw_out_port4",
            "bw_out_port5",
            "bw_out_port6",
            "bw_out_port7",
        ],
    ),
];
/// Sources that are read at most; large servers have some dozens.
const SOURCES_MAX: usize = 256;
/// Longest text of a file; they have a line each.
const TEXT_BYTES_MAX: u64 = 4096;

/// What a counter counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HardwareCount {
    /// The source, as `perf list` names it: `dmar0`, `smmuv3_pmcg_ff840`, `amd_iommu_0`, `uncore_iio_free_running_0`.
    pub source: String,
    /// The event.
    pub event: String,
    /// How often it happened, or how much of `unit`; scaled up if the counter was shared with other events ([`Self::counted_share`]).
    /// `None` if it could not be read.
    pub count: Option<f64>,
    /// The unit, if it is not a number of events: `MiB`.
    pub unit: Option<String>,
    /// Share of the time in which the counter counted it: less than 1 if there are more events than counters.
    pub counted_share: Option<f64>,
    /// Why it could not be counted.
    pub why: Option<String>,
}

/// A counter that runs, or why it does not.
#[derive(Debug)]
struct Counter {
    source: String,
    event: String,
    unit: Option<String>,
    scale: f64,
    opened: io::Result<(File, Reading)>,
}

/// All counters that were found.
#[derive(Debug)]
pub(crate) struct HardwareCounters(Vec<Counter>);

impl HardwareCounters {
    /// Starts all counters of this machine.
    pub(crate) fn start() -> Self {
        Self::start_of(Path::new("/"), &PMUS)
    }

    fn start_of(root: &Path, pmus: &[(&str, &[&str])]) -> Self {
        let sources = root.join(SOURCES);
        let names = fs::read_dir(&sources).into_iter().flatten().filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let (_, events) = pmus.iter().find(|(prefix, _)| {
                name.strip_prefix(prefix)
                    .is_some_and(|rest| rest.chars().all(|one| one.is_ascii_alphanumeric()))
            })?;
            Some((name, *events))
        });
        let mut names: Vec<(String, &[&str])> = names.take(SOURCES_MAX).collect();
        names.sort();
        let counters = names.iter().flat_map(|(name, events)| {
            let folder = sources.join(name);
            let is_there = |event: &&&str| folder.join("events").join(event).exists();
            let counter = |event: &&str| Counter::start(&folder, name, event);
            events.iter().filter(is_there).map(counter).collect::<Vec<_>>()
        });
        Self(counters.collect())
    }

    /// What was counted since the start.
    pub(crate) fn counts(&mut self) -> Vec<HardwareCount> {
        self.0.iter_mut().map(Counter::count).collect()
    }
}

impl Counter {
    fn start(folder: &Path, source: &str, event: &str) -> Self {
        let events = folder.join("events");
        let unit = read_text(&events.join(format!("{event}.unit"))).ok();
        let scale = read_text(&events.join(format!("{event}.scale"))).ok().and_then(|text| text.parse().ok());
        let opened = open(folder, &events.join(event)).and_then(|mut file| {
            let first = Reading::of(&mut file)?;
            Ok((file, first))
        });
        let scale = scale.filter(|scale: &f64| scale.is_finite()).unwrap_or(1.0);
        Self { source: source.to_owned(), event: event.to_owned(), unit, scale, opened }
    }

    fn count(&mut self) -> HardwareCount {
        let counted = match &mut self.opened {
            Ok((file, first)) => {
                Reading::of(file).map(|now| now.since(first)).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let (count, counted_share, why) = match counted {
            Ok(Reading { running_ns: 0, .. }) => {
                (None, Some(0.0), Some("all counters were in use".to_owned()))
            }
            Ok(reading) => {
                let share = reading.running_ns as f64 / reading.enabled_ns.max(1) as f64;
                (Some(reading.scaled() * self.scale), Some(share), None)
            }
            Err(why) => (None, None, Some(why)),
        };
        let (source, event, unit) = (self.source.clone(), self.event.clone(), self.unit.clone());
        HardwareCount { source, event, count, unit, counted_share, why }
    }
}

/// Opens an event of a source, on the CPU that the source names.
fn open(folder: &Path, event: &Path) -> io::Result<File> {
    let invalid = |what: &'static str| move || io::Error::new(io::ErrorKind::InvalidData, what);
    let kind = read_text(&folder.join("type"))?.parse().map_err(|_| invalid("type is no number")())?;
    // Sources of a whole IOMMU or socket name the CPU that reads them; `0-3,8` begins with it. Any CPU reads the others.
    let cpus = read_text(&folder.join("cpumask")).unwrap_or_default();
    let cpus = if cpus.is_empty() { "0" } else { &cpus };
    let first = cpus_of(cpus).and_then(|cpus| cpus.first().copied());
    let cpu = first.ok_or_else(invalid("cpumask is no list of CPUs"))? as libc::c_int;
    let words = event_words(&read_text(event)?, |field| read_text(&folder.join("format").join(field)).ok());
    let [config, config1, config2] = words.ok_or_else(invalid("the event has unknown fields"))?;
    let attributes =
        Attributes { kind, config, config1, config2, read_format: WITH_TIMES, ..Attributes::default() };
    Ok(File::from(attributes.open(cpu)?))
}

/// The three words of an event such as `event=0x1,filter_enable`, by the bits of each field: `config:0-7`, `config1:0-3,8`. `None` if it has
/// a field without bits, or a value that is too large for them.
fn event_words(event: &str, bits_of: impl Fn(&str) -> Option<String>) -> Option<[u64; 3]> {
    let mut words = [0_u64; 3];
    for field in event.split(',').map(str::trim).filter(|field| !field.is_empty()) {
        let (name, value) = field.split_once('=').unwrap_or((field, "1"));
        if name.is_empty() || !name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_') {
            return None;
        }
        let mut value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => value.parse().ok()?,
        };
        let format = bits_of(name)?;
        let (word, ranges) = format.split_once(':')?;
        let index = ["config", "config1", "config2"].iter().position(|known| *known == word)?;
        for range in ranges.split(',') {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
            let width = high.checked_sub(low).filter(|_| high < 64)? + 1;
            let mask = u64::MAX >> (64 - width);
            words[index] |= (value & mask) << low;
            value = value.checked_shr(width).unwrap_or(0);
        }
        if value != 0 {
            return None;
        }
    }
    Some(words)
}

/// The text of a file without its line's end.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::thread::sleep;
    use std::time::Duration;

    /// The bits of VT-d's, the SMMU's and another source's fields.
    fn bits(field: &str) -> Option<String> {
        let format = match field {
            "event" => "config:0-27",
            "event_group" => "config:28-31",
            "filter_enable" => "config1:33",
            "split" => "config2:0-3,8-11",
            "whole" => "config1:0-63",
            _ => return None,
        };
        Some(format.to_owned())
    }

    #[test]
    fn events_become_words() {
        let words = |event: &str| event_words(event, bits);
        assert_eq!(words("event_group=0x2,event=0x004"), Some([2 << 28 | 4, 0, 0]));
        assert_eq!(words("event=7,filter_enable"), Some([7, 1 << 33, 0]));
        assert_eq!(words("split=0xab"), Some([0, 0, 0xa0b]));
        assert_eq!(words("whole=0xffffffffffffffff"), Some([0, u64::MAX, 0]));
        assert_eq!(words(""), Some([0, 0, 0]));
        for refused in ["other=1", "event=", "event=0x10000000", "event=-1", "split=0x100", "../x=1", "=1"] {
            assert_eq!(words(refused), None, "{refused}");
        }
        for format in ["config", "config:", "config9:0-7", "config:7-0", "config:0-64", "config:a-b"] {
            assert_eq!(event_words("event=1", |_| Some(format.to_owned())), None, "{format}");
        }
    }

    /// A made-up machine: a source that can't be opened says why, and one of another name is not read.
    #[test]
    fn counters_that_can_t_be_read_say_why() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(SOURCES).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for source in ["dmar0", "dmar/../x", "cpu", "uncore_iio_free_running_0"] {
            write(&format!("{source}/events/iotlb_lookup"), "event_group=0x2,event=0x001\n");
        }
        write("dmar0/type", "4294967295\n");
        write("dmar0/format/event", "config:0-27\n");
        write("dmar0/format/event_group", "config:28-31\n");
        write("uncore_iio_free_running_0/events/bw_in_port0", "event=0xff\n");
        write("uncore_iio_free_running_0/events/bw_in_port0.unit", "MiB\n");
        let counts = HardwareCounters::start_of(root.path(), &PMUS).counts();
        let names: Vec<(&str, &str)> =
            counts.iter().map(|one| (one.source.as_str(), one.event.as_str())).collect();
        assert_eq!(names, [("dmar0", "iotlb_lookup"), ("uncore_iio_free_running_0", "bw_in_port0")]);
        assert!(counts.iter().all(|one| one.count.is_none() && one.why.is_some()), "{counts:?}");
        assert_eq!(counts[1].unit.as_deref(), Some("MiB"));
    }

    /// The kernel's source of the time stamp counter, where it has one, against the counter itself.
    #[test]
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "no safe function reads the time stamp counter")]
    fn the_time_stamp_counter_by_perf_is_that_of_the_cpu() {
        // SAFETY: every x86-64 CPU has the instruction.
        let now = || unsafe { core::arch::x86_64::_rdtsc() };
        let before = now();
        let mut counters = HardwareCounters::start_of(Path::new("/"), &[("msr", &["tsc"])]);
        let begun = now();
        sleep(Duration::from_millis(50));
        let middle = now();
        let counts = counters.counts();
        let after = now();
        let [HardwareCount { count: Some(count), counted_share, .. }] = &counts[..] else {
            println!("SKIPPED the_time_stamp_counter_by_perf_is_that_of_the_cpu: {counts:?}");
            return;
        };
        assert_eq!(*counted_share, Some(1.0));
        let (least, most) = ((middle - begun) as f64, (after - before) as f64);
        assert!((least..=most).contains(count), "{least} {count} {most}");
    }
}
