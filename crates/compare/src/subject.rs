//! What figures are about in one document of `iotoll watch`: a device, or all of them. Sums of all the time, and by interval.

use crate::explanation::Counts;
use crate::quantity::{Quantity, Unit};
use crate::rate::Round;
use crate::watched::{Adapter, Watched, stage_net_ns, stage_ns};
use std::collections::BTreeMap;
use toll::Stage;
use watch::{Action, Activity, Completed, Interval, Mapping};

/// Sums by interval may differ from those of all the time by this share: by rounding.
const ROUNDING: f64 = 1e-9;
/// The same where what watching added was taken off, which is not done below 0 in an interval, and where windows stand for longer times: each
/// was rounded.
const COARSE_ROUNDING: f64 = 0.01;

/// A count: a quantity, and the stage where it is CPU time of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) quantity: Quantity,
    pub(crate) stage: Option<Stage>,
}

impl Count {
    pub(crate) fn of(quantity: Quantity) -> Self {
        Self { quantity, stage: None }
    }

    /// The action whose calls or bytes it counts.
    fn action(self) -> Option<Action> {
        match self.quantity {
            Quantity::Maps => Some(Action::Map),
            Quantity::Unmaps => Some(Action::Unmap),
            Quantity::Iovas => Some(Action::AllocateIova),
            Quantity::TableWrites => Some(Action::WriteTable),
            Quantity::Invalidations => Some(Action::Invalidate),
            Quantity::BouncedBytes => Some(Action::TakeBounce),
            _ => None,
        }
    }

    /// Whether calls of this function are among it.
    fn is_of(self, function: &watch::Function) -> bool {
        match self.stage {
            Some(stage) => function.stage == stage,
            None => self.action().is_some() && function.action == self.action(),
        }
    }
}

/// What a device did in an interval.
#[derive(Debug, Clone, Copy)]
struct Part<'d> {
    /// Its place in the document.
    place: usize,
    interval: &'d Interval,
    activity: &'d Activity,
}

/// The devices of a document, with what each did in the intervals.
pub(crate) struct Devices<'d> {
    document: &'d Watched,
    adapters: BTreeMap<&'d str, &'d Adapter>,
    parts: BTreeMap<&'d str, Vec<Part<'d>>>,
    unwatched: Vec<&'static watch::Function>,
}

impl<'d> Devices<'d> {
    pub(crate) fn new(document: &'d Watched) -> Self {
        let mut parts: BTreeMap<&str, Vec<Part<'_>>> = BTreeMap::new();
        for (place, interval) in document.intervals.iter().enumerate() {
            for activity in &interval.adapters {
                parts.entry(&activity.adapter).or_default().push(Part { place, interval, activity });
            }
        }
        let adapters = document.adapters.iter().map(|adapter| (adapter.adapter.as_str(), adapter)).collect();
        Self { document, adapters, parts, unwatched: document.unwatched_functions() }
    }

    /// The names, in the document's order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'d str> {
        self.document.adapters.iter().map(|adapter| adapter.adapter.as_str())
    }

    /// Whether the device is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.adapters.contains_key(name)
    }

    /// All devices as one.
    pub(crate) fn all(&self) -> Subject<'_> {
        self.subject(self.document.adapters.iter().collect())
    }

    /// One device, if it is there.
    pub(crate) fn one(&self, name: &str) -> Option<Subject<'_>> {
        Some(self.subject(vec![self.adapters.get(name)?]))
    }

    fn subject<'s>(&'s self, adapters: Vec<&'s Adapter>) -> Subject<'s> {
        let of = |adapter: &'s Adapter| Device {
            adapter,
            parts: self.parts.get(adapter.adapter.as_str()).cloned().unwrap_or_default(),
        };
        let devices = adapters.into_iter().map(of).collect();
        Subject { document: self.document, unwatched: &self.unwatched, devices }
    }
}

/// A device in one document.
struct Device<'d> {
    adapter: &'d Adapter,
    parts: Vec<Part<'d>>,
}

impl Device<'_> {
    /// What it completed of the kind that it completes: requests if it completed any, else packets.
    fn io(&self, completed: &Completed) -> u64 {
        completed.io_of_kind(&self.adapter.completed)
    }

    /// Whether it completed I/O while calls were counted, so that what one costs is known. (Older documents know no other I/O.)
    fn has_counted_io(&self) -> bool {
        let completed = self.adapter.completed_while_counted.as_ref().unwrap_or(&self.adapter.completed);
        self.io(completed) > 0
    }

    /// How many times its calls in weighted windows count: as many times as there was more I/O than these say.
    fn factor(&self, rounding: f64) -> f64 {
        let all = self.io(&self.adapter.completed) as f64;
        let sum = |of: &dyn Fn(&Part<'_>) -> f64| self.parts.iter().map(of).sum::<f64>();
        let in_periods = sum(&|part| part.interval.io_of_period(part.activity, &self.adapter.completed));
        let weighted = sum(&|part| part.interval.weight() * self.io(&part.activity.completed) as f64);
        let is_whole = (in_periods - all).abs() <= all * rounding;
        if is_whole && weighted > 0.0 { all / weighted } else { 1.0 }
    }

    /// What it completed in the time that an interval stands for. Fails if that was estimated from the window, since where I/O comes in
    /// bursts, windows differ less than they are off.
    fn io_of_period(&self, interval: &Interval, activity: &Activity) -> Result<f64, &'static str> {
        let is_known = activity.completed_in_period.is_some() || interval.weight() == 1.0;
        let io = interval.io_of_period(activity, &self.adapter.completed);
        is_known.then_some(io).ok_or("I/O was counted in windows alone")
    }

    fn unit(&self) -> Option<Unit> {
        match self.adapter.completed {
            Completed { block_requests: 1.., .. } => Some(Unit::Request),
            Completed { packets: 1.., .. } => Some(Unit::Packet),
            _ => None,
        }
    }

    /// The count in all the time; `None` if it is not known.
    fn sum(&self, count: Count) -> Option<f64> {
        let adapter = self.adapter;
        match (count.quantity, count.stage, count.action()) {
            (Quantity::Io, ..) => Some(self.io(&adapter.completed) as f64),
            (Quantity::CpuNs, None, _) => Some(adapter.ns()),
            (Quantity::CpuNs, Some(stage), _) => Some(stage_ns(&adapter.stages, stage) as f64),
            (Quantity::CpuWithoutWatchingNs, None, _) => adapter.net_ns(),
            (Quantity::CpuWithoutWatchingNs, Some(stage), _) => {
                stage_net_ns(&adapter.stages, stage).map(|ns| ns as f64)
            }
            (Quantity::BouncedBytes, _, Some(action)) => {
                Some(adapter.count(action).map_or(0.0, |one| one.bytes as f64))
            }
            (_, _, Some(action)) => Some(adapter.calls(action) as f64),
            _ => None,
        }
    }
}

/// A count of calls in an interval; `None` if that does not hold it.
fn in_interval(count: Count, activity: &Activity) -> Option<f64> {
    mapping_count(count, activity.mapping.as_ref()?).map(|amount| amount as f64)
}

/// A count of what the kernel mapped; `None` if it is none.
fn mapping_count(count: Count, mapping: &Mapping) -> Option<u64> {
    Some(match (count.quantity, count.stage) {
        (Quantity::CpuNs, None) => mapping.ns,
        (Quantity::CpuNs, Some(stage)) => stage_ns(&mapping.stages, stage),
        (Quantity::CpuWithoutWatchingNs, None) => mapping.net_ns()?,
        (Quantity::CpuWithoutWatchingNs, Some(stage)) => stage_net_ns(&mapping.stages, stage)?,
        (Quantity::Maps, _) => mapping.maps,
        (Quantity::Unmaps, _) => mapping.unmaps,
        (Quantity::Iovas, _) => mapping.iovas,
        (Quantity::TableWrites, _) => mapping.table_writes,
        (Quantity::Invalidations, _) => mapping.invalidations,
        (Quantity::BouncedBytes, _) => mapping.bounced_bytes,
        _ => return None,
    })
}

/// A device or all devices in one document.
pub(crate) struct Subject<'d> {
    document: &'d Watched,
    /// Functions that the kernel has, but did not let be watched.
    unwatched: &'d [&'static watch::Function],
    devices: Vec<Device<'d>>,
}

impl Subject<'_> {
    /// What its costs are divided by; seconds if it completed no I/O.
    pub(crate) fn unit(&self) -> Unit {
        let units = self.devices.iter().filter_map(Device::unit);
        units.reduce(|one, other| if one == other { one } else { Unit::Io }).unwrap_or(Unit::Second)
    }

    /// The stages that took time.
    pub(crate) fn stages(&self) -> impl Iterator<Item = Stage> {
        self.devices.iter().flat_map(|device| device.adapter.stages.iter().map(|one| one.stage))
    }

    /// The count in all the time; `None` if it is not known.
    pub(crate) fn sum(&self, count: Count) -> Option<f64> {
        self.devices.iter().map(|device| device.sum(count)).sum()
    }

    /// What counts are divided by, in all the time; `None` if it is not known.
    fn units(&self, unit: Unit) -> Option<f64> {
        match unit {
            Unit::Second => Some(self.document.seconds),
            _ => {
                Some(self.devices_with_cost().map(|device| device.io(&device.adapter.completed) as f64).sum())
            }
        }
    }

    /// Devices whose I/O has a known cost.
    fn devices_with_cost(&self) -> impl Iterator<Item = &Device<'_>> {
        self.devices.iter().filter(|device| device.has_counted_io())
    }

    /// The count and its units in all the time; `None` if it is not known, or there are no units.
    pub(crate) fn total(&self, count: Count, unit: Unit) -> Option<Round> {
        let total = Round { amount: self.sum(count)?, units: self.units(unit)? };
        (total.amount / total.units).is_finite().then_some(total)
    }

    /// Whether times without watching are known as a whole.
    pub(crate) fn knows_watching(&self) -> bool {
        self.document.knows_watching()
    }

    /// The share of calls that were not counted.
    pub(crate) fn lost_share(&self) -> f64 {
        self.document.lost_share()
    }

    /// Why a count per unit is not known; `None` if it was counted.
    pub(crate) fn uncounted(&self, count: Count, unit: Unit) -> Option<String> {
        // What adapters completed is the kernel's own counter.
        if count.quantity == Quantity::Io {
            return None;
        }
        if let Some(why) = &self.document.uncounted {
            return Some(why.clone());
        }
        if unit != Unit::Second && self.unit() != Unit::Second && self.devices_with_cost().next().is_none() {
            return Some("no window met I/O".to_owned());
        }
        let function = self.unwatched.iter().find(|function| count.is_of(function))?;
        Some(format!("{} could not be watched", function.name))
    }

    /// The count by interval. Fails if the intervals do not hold it, or do not add up to the sum.
    pub(crate) fn rounds(&self, count: Count, unit: Unit) -> Result<Vec<Round>, &'static str> {
        let intervals = &self.document.intervals;
        let mut rounds: Vec<Round> = match unit {
            Unit::Second => {
                intervals.iter().map(|one| Round { amount: 0.0, units: one.weight() * one.seconds }).collect()
            }
            _ => vec![Round::default(); intervals.len()],
        };
        let is_weighted = intervals.iter().any(|interval| interval.weight() > 1.0);
        let rounding = if is_weighted { COARSE_ROUNDING } else { ROUNDING };
        for device in &self.devices {
            let factor = device.factor(rounding);
            for Part { place, interval, activity } in &device.parts {
                let (round, weight) = (&mut rounds[*place], factor * interval.weight());
                round.amount += match count.quantity {
                    Quantity::Io => device.io_of_period(interval, activity)?,
                    _ => weight * in_interval(count, activity).ok_or("intervals do not hold it")?,
                };
                if unit != Unit::Second {
                    round.units += weight * device.io(&activity.completed) as f64;
                }
            }
        }
        let added: f64 = rounds.iter().map(|round| round.amount).sum();
        let sum = self.sum(count).ok_or("not known")?;
        let rounding = match count.quantity {
            Quantity::CpuWithoutWatchingNs => COARSE_ROUNDING,
            _ => rounding,
        };
        let is_whole = (added - sum).abs() <= sum * rounding;
        if is_whole { Ok(rounds) } else { Err("intervals do not add up to the sum") }
    }

    /// Counts that explain costs.
    pub(crate) fn counts(&self) -> Counts {
        let counted = |quantity| {
            let count = Count::of(quantity);
            if self.uncounted(count, self.unit()).is_some() { None } else { self.sum(count) }
        };
        Counts {
            maps: counted(Quantity::Maps),
            unmaps: counted(Quantity::Unmaps),
            table_writes: counted(Quantity::TableWrites),
            invalidations: counted(Quantity::Invalidations),
            bounced_bytes: counted(Quantity::BouncedBytes),
        }
    }
}
