//! A fleet on one page: its adapters by path, its findings, and hosts that differ from their peers or from what they were.

mod failure;
mod finding;
mod newest;

pub use failure::Failure;
pub use finding::{FleetFinding, FleetFix};
pub use newest::FleetHost;

use crate::tables::{AdapterRow, FindingRow, HostRow, Tables, UnseenRow};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The least number of hosts of a model that are compared.
const PEERS_MIN: usize = 5;
/// The path of an adapter of which too little was read.
const UNKNOWN: &str = "unknown";
/// What hosts have no adapters or findings of.
const NONE: &str = "none";
/// The kernel's release among what is compared.
const KERNEL: &str = "kernel";
/// What is not seen of a host whose adapters are known by names alone.
const IDS: &str = "vendor and device IDs";
/// What at least so many of 10 peers have is usual, and so is what all but one have.
const USUAL_OF_TEN: usize = 9;

/// A fleet.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Hosts, each by its newest capture that tells paths and drivers of adapters, or else by its newest.
    pub hosts: usize,
    /// Inputs that the last run found, in all shards; `None` if that is not known.
    pub inputs: Option<usize>,
    /// Paths of those that have no row yet.
    pub unread: Vec<String>,
    /// Captures of the hosts, all but copies.
    pub captures: usize,
    /// Hosts of which something that decides was not read.
    pub incomplete: usize,
    /// Hosts of which no adapter is known: a log alone tells few or none.
    pub without_adapters: usize,
    /// Inputs that were not inspected, nor later, by path.
    pub errors: Vec<Failure>,
    /// Hosts, those with the worst findings first.
    pub by_host: Vec<FleetHost>,
    /// By number of adapters, most first.
    pub paths: Vec<PathCount>,
    /// Worst first, and most frequent first.
    pub findings: Vec<FleetFinding>,
    /// Hosts that have enough others of the same machine, of which the same was not seen, to be compared with.
    pub compared: usize,
    /// Hosts that differ from others of the same machine.
    pub odd: Vec<Odd>,
    /// What became different between captures of a host.
    pub changes: Vec<Change>,
    /// Hosts with several captures whose files have the same time, or none, so that their order is not known. Where they are the newest, the last by path counts as the newest.
    pub of_one_time: Vec<String>,
}

/// How many adapters have a DMA path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathCount {
    /// The path.
    pub dma_path: String,
    /// Adapters.
    pub adapters: usize,
    /// Hosts that have such adapters.
    pub hosts: usize,
}

/// Something of a host that is usual for its machine, and that this host has otherwise. Hosts whose captures do not tell it are not among its peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Odd {
    /// The host.
    pub host: String,
    /// Its capture, where it was read.
    pub input: String,
    /// The machine's model.
    pub machine: String,
    /// What differs.
    pub what: String,
    /// How this host has it.
    pub value: String,
    /// How its peers have it.
    pub usual: String,
    /// How many hosts of the machine have it so.
    pub same: usize,
    /// Hosts of the machine whose captures tell it.
    pub peers: usize,
}

/// A difference between a capture of a host and the one before that tells the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The host.
    pub host: String,
    /// When the later capture's file was changed last, in microseconds since 1970.
    pub modified_us: Option<i64>,
    /// What differs.
    pub what: String,
    /// In the earlier capture.
    pub before: String,
    /// In the later one.
    pub after: String,
}

/// What a capture tells of its host, as far as hosts are compared.
struct Features {
    told: BTreeMap<String, String>,
    /// Models of adapters of which it does not tell all paths.
    unknown: BTreeSet<String>,
    /// Whether adapters and findings that are not told are not there.
    is_whole: bool,
    /// What of the host was not seen. Adapters and findings are compared between captures of which the same was not seen: a log that names an adapter tells neither all
    /// adapters nor whether a driver is bound.
    unseen: BTreeSet<String>,
}

impl Features {
    /// What the host has of this; `None` if the capture does not tell.
    fn value(&self, what: &str) -> Option<&str> {
        let is_absent = self.is_whole && what != KERNEL && !self.unknown.contains(what);
        self.told.get(what).map(String::as_str).or(is_absent.then_some(NONE))
    }
}

/// A host's captures, oldest first.
struct History<'t> {
    host: String,
    captures: Vec<&'t HostRow>,
}

impl<'t> History<'t> {
    /// The newest capture that tells paths and drivers of adapters, or else the newest: a log of today does not make a host's adapters and findings unknown.
    fn newest(&self, adapters: &ByCapture<'_, AdapterRow>) -> Option<&'t HostRow> {
        let tells = |adapter: &&AdapterRow| adapter.dma_path != UNKNOWN && adapter.driver.is_some();
        let whole = self.captures.iter().rev().find(|row| rows_of(adapters, row).iter().any(tells));
        whole.or(self.captures.last()).copied()
    }

    /// Whether some of its captures have the same time, or none.
    fn is_of_one_time(&self) -> bool {
        self.captures.windows(2).any(|pair| pair[0].modified_us == pair[1].modified_us)
    }
}

impl Summary {
    /// Of tables, where each capture counts once: by the rules of `made_by`, if it was inspected by them.
    pub fn of(tables: &Tables, made_by: &str) -> Self {
        let chosen = choose(&tables.hosts, made_by);
        let histories = histories(&chosen);
        let (adapters, findings) = (
            by_capture(&tables.adapters, |row| (&row.capture, &row.rules)),
            by_capture(&tables.findings, |row| (&row.capture, &row.rules)),
        );
        let unseen = by_capture(&tables.unseen, |row| (&row.capture, &row.rules));
        let names = names(&tables.adapters);
        let features = |row: &HostRow| {
            let (adapters, findings) = (rows_of(&adapters, row), rows_of(&findings, row));
            features(row, adapters, &names, findings, rows_of(&unseen, row))
        };
        let newest: Vec<(&str, &HostRow)> =
            histories.iter().filter_map(|one| Some((one.host.as_str(), one.newest(&adapters)?))).collect();
        let all: Vec<Peer<'_>> = newest.iter().map(|(host, row)| (*host, *row, features(row))).collect();
        let (compared, odd) = compare(&all);
        Self {
            hosts: newest.len(),
            captures: chosen.len(),
            incomplete: newest.iter().filter(|(_, row)| !row.complete).count(),
            without_adapters: newest.iter().filter(|(_, row)| rows_of(&adapters, row).is_empty()).count(),
            errors: failure::all(tables, made_by),
            inputs: tables.inputs.as_ref().map(Vec::len),
            unread: unread(tables),
            by_host: newest::all(&newest, &adapters, &findings),
            paths: paths(&newest, &adapters),
            findings: finding::all(&newest, &findings, made_by),
            compared,
            odd,
            changes: histories.iter().flat_map(|history| changes(history, &features)).collect(),
            of_one_time: histories
                .iter()
                .filter(|one| one.is_of_one_time())
                .map(|one| one.host.clone())
                .collect(),
        }
    }
}

/// Inputs that the last run found, and that have no row.
fn unread(tables: &Tables) -> Vec<String> {
    let inspected = tables.hosts.iter().map(|row| row.input.as_str());
    let read: HashSet<&str> = inspected.chain(tables.errors.iter().map(|row| row.input.as_str())).collect();
    tables.inputs.iter().flatten().filter(|input| !read.contains(input.as_str())).cloned().collect()
}

/// One row for each capture.
fn choose<'t>(hosts: &'t [HostRow], made_by: &str) -> Vec<&'t HostRow> {
    // A capture is at least as old as the oldest of its copies.
    let rank = |row: &HostRow| (Rules::of(row, made_by), Reverse(row.modified_us.unwrap_or(i64::MAX)));
    let mut chosen: BTreeMap<&str, &HostRow> = BTreeMap::new();
    for row in without_replaced(hosts, made_by) {
        let place = chosen.entry(&row.capture).or_insert(row);
        if rank(row) > rank(place) {
            *place = row;
        }
    }
    chosen.into_values().collect()
}

/// How good the rules of a row are: those of now are best, and later versions are better than earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rules {
    is_now: bool,
    version: Vec<u64>,
}

impl Rules {
    fn of(row: &HostRow, made_by: &str) -> Self {
        let numbers = row.rules.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
        Self { is_now: row.rules == made_by, version: numbers.collect() }
    }
}

/// All rows but two kinds: those of an input that better rules have read, too, since other rules read other files of it; and those of
/// hosts without a name whose input was replaced, since nothing tells whether the capture there now is of the same host.
fn without_replaced<'t>(hosts: &'t [HostRow], made_by: &str) -> impl Iterator<Item = &'t HostRow> {
    let mut best: HashMap<(&str, Option<i64>), Rules> = HashMap::new();
    let mut newest: HashMap<&str, Option<i64>> = HashMap::new();
    for row in hosts {
        let rules = Rules::of(row, made_by);
        let of_input = best.entry((&row.input, row.modified_us)).or_insert_with(|| rules.clone());
        *of_input = rules.max(of_input.clone());
        let last = newest.entry(&row.input).or_insert(row.modified_us);
        *last = row.modified_us.max(*last);
    }
    hosts.iter().filter(move |row| {
        let is_best = best.get(&(row.input.as_str(), row.modified_us)) == Some(&Rules::of(row, made_by));
        is_best && (row.host_name.is_some() || newest.get(row.input.as_str()) == Some(&row.modified_us))
    })
}

/// Captures by host. One whose name was not read is known by its input; those of one name on different machines are called by both. A capture
/// that does not tell the machine is of the only one of its name.
fn histories<'t>(chosen: &[&'t HostRow]) -> Vec<History<'t>> {
    let mut machines: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for (host, machine) in
        chosen.iter().filter_map(|row| Some((row.host_name.as_deref()?, row.machine.as_deref()?)))
    {
        machines.entry(host).or_default().insert(machine);
    }
    let name = |row: &HostRow| match &row.host_name {
        None => row.input.clone(),
        Some(host) if machines.get(host.as_str()).is_none_or(|machines| machines.len() == 1) => host.clone(),
        Some(host) => format!("{host} ({})", row.machine.as_deref().unwrap_or("machine not known")),
    };
    let mut hosts: BTreeMap<String, Vec<&HostRow>> = BTreeMap::new();
    for row in chosen {
        hosts.entry(name(row)).or_default().push(row);
    }
    let history = |(host, mut captures): (String, Vec<&'t HostRow>)| {
        captures.sort_by_key(|row| (row.modified_us, &row.input));
        History { host, captures }
    };
    hosts.into_iter().map(history).collect()
}

type ByCapture<'t, T> = HashMap<(&'t str, &'t str), Vec<&'t T>>;

fn by_capture<'t, T>(rows: &'t [T], key: impl Fn(&'t T) -> (&'t String, &'t String)) -> ByCapture<'t, T> {
    let mut all: ByCapture<'t, T> = HashMap::new();
    for row in rows {
        let (capture, rules) = key(row);
        all.entry((capture, rules)).or_default().push(row);
    }
    all
}

fn rows_of<'a, 't, T>(all: &'a ByCapture<'t, T>, row: &'a HostRow) -> &'a [&'t T] {
    all.get(&(row.capture.as_str(), row.rules.as_str())).map_or(&[], Vec::as_slice)
}

/// The name that most adapters of a model have. Hosts whose tables of names differ can call one model by several.
fn names(adapters: &[AdapterRow]) -> BTreeMap<&str, &str> {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (model, name) in adapters.iter().filter_map(|row| Some((row.model.as_deref()?, row.name.as_deref()?)))
    {
        *counts.entry(model).or_default().entry(name).or_default() += 1;
    }
    let most = counts.into_iter().filter_map(|(model, names)| {
        let (name, _) = names.into_iter().max_by_key(|(name, number)| (*number, Reverse(*name)))?;
        Some((model, name))
    });
    most.collect()
}

/// What of a host is compared. Adapters of one model count together: their addresses differ from host to host.
fn features(
    row: &HostRow,
    adapters: &[&AdapterRow],
    names: &BTreeMap<&str, &str>,
    findings: &[&FindingRow],
    unseen: &[&UnseenRow],
) -> Features {
    let mut models: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for adapter in adapters {
        *models.entry(label(adapter, names)).or_default().entry(&adapter.dma_path).or_default() += 1;
    }
    let counted = |paths: BTreeMap<&str, usize>| {
        let words: Vec<String> = paths.into_iter().map(|(path, number)| format!("{number} {path}")).collect();
        words.join(", ")
    };
    // Hosts whose adapters have no IDs are compared by names among themselves.
    let lacks_ids = adapters.iter().any(|adapter| adapter.model.is_none());
    let (unknown, known): (Vec<_>, Vec<_>) =
        models.into_iter().partition(|(_, paths)| paths.contains_key(UNKNOWN));
    let mut told: BTreeMap<String, String> =
        known.into_iter().map(|(model, paths)| (model, counted(paths))).collect();
    let ids: BTreeSet<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
    told.extend(ids.into_iter().map(|id| (format!("finding {id}"), "found".to_owned())));
    told.extend(row.kernel_release.clone().map(|release| (KERNEL.to_owned(), release)));
    Features {
        told,
        unknown: unknown.into_iter().map(|(model, _)| model).collect(),
        is_whole: row.complete && !adapters.is_empty(),
        unseen: unseen
            .iter()
            .map(|row| row.what.to_string())
            .chain(lacks_ids.then(|| IDS.to_owned()))
            .collect(),
    }
}

/// What adapters of one model are called in comparisons: by their IDs, or else by the name that the capture has for them.
fn label(adapter: &AdapterRow, names: &BTreeMap<&str, &str>) -> String {
    let Some(model) = &adapter.model else {
        return format!("adapters {}, IDs not read", adapter.name.as_deref().unwrap_or("without a name"));
    };
    let name = names.get(model.as_str()).map_or(String::new(), |name| format!(" ({name})"));
    format!("adapters {model}{name}")
}

fn paths(newest: &[(&str, &HostRow)], adapters: &ByCapture<'_, AdapterRow>) -> Vec<PathCount> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (_, row) in newest {
        let mut here: BTreeMap<&str, usize> = BTreeMap::new();
        for adapter in rows_of(adapters, row) {
            *here.entry(&adapter.dma_path).or_default() += 1;
        }
        for (path, number) in here {
            let count = counts.entry(path).or_default();
            *count = (count.0 + number, count.1 + 1);
        }
    }
    let count = |(path, (adapters, hosts)): (&str, (usize, usize))| PathCount {
        dma_path: path.to_owned(),
        adapters,
        hosts,
    };
    let mut counts: Vec<PathCount> = counts.into_iter().map(count).collect();
    counts.sort_by_key(|count| Reverse(count.adapters));
    counts
}

/// What peers have in common: the machine's model, and what was not seen of them; `None` where that makes no difference.
type Kind<'t> = (&'t str, Option<&'t BTreeSet<String>>);

/// A host, its newest capture, and what that tells.
type Peer<'t> = (&'t str, &'t HostRow, Features);

/// How many hosts have peers, and what differs from all other peers, or from at least nine of ten.
fn compare(all: &[Peer<'_>]) -> (usize, Vec<Odd>) {
    // The kernel is compared by machine alone.
    let mut groups: BTreeMap<Kind<'_>, Vec<&Peer<'_>>> = BTreeMap::new();
    for peer in all {
        let (_, row, features) = peer;
        let Some(machine) = row.machine.as_deref() else { continue };
        for unseen in [None, Some(&features.unseen)] {
            groups.entry((machine, unseen)).or_default().push(peer);
        }
    }
    groups.retain(|_, peers| peers.len() >= PEERS_MIN);
    let of_the_same = groups.iter().filter(|((_, unseen), _)| unseen.is_some());
    let compared = of_the_same.map(|(_, peers)| peers.len()).sum();
    let mut odd = Vec::new();
    for ((machine, unseen), peers) in groups {
        let names = peers.iter().flat_map(|(_, _, features)| features.told.keys());
        let names: BTreeSet<&String> = names.filter(|what| (*what == KERNEL) == unseen.is_none()).collect();
        for what in names {
            let values: Vec<(&Peer<'_>, &str)> =
                peers.iter().filter_map(|peer| Some((*peer, peer.2.value(what)?))).collect();
            let Some((usual, same)) = usual(&values) else { continue };
            let others = values.iter().filter(|(_, value)| *value != usual);
            odd.extend(others.map(|((host, row, _), value)| Odd {
                host: (*host).to_owned(),
                input: row.input.clone(),
                machine: machine.to_owned(),
                what: what.clone(),
                value: (*value).to_owned(),
                usual: usual.to_owned(),
                same,
                peers: values.len(),
            }));
        }
    }
    (compared, odd)
}

/// The value that all of some hosts have but one, or at least nine of ten, and how many have it; `None` of too few hosts.
fn usual<'t>(values: &[(&Peer<'_>, &'t str)]) -> Option<(&'t str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    values.iter().for_each(|(_, value)| *counts.entry(value).or_default() += 1);
    let (usual, same) = counts.into_iter().max_by_key(|(_, number)| *number)?;
    let is_usual = same * 10 >= values.len() * USUAL_OF_TEN || same + 1 >= values.len();
    (is_usual && values.len() >= PEERS_MIN).then_some((usual, same))
}

/// Differences between each capture of a host and the next that tells the same, in the order of captures.
fn changes(history: &History<'_>, features: &impl Fn(&HostRow) -> Features) -> Vec<Change> {
    let captures: Vec<(Option<i64>, Features)> =
        history.captures.iter().map(|row| (row.modified_us, features(row))).collect();
    let names: BTreeSet<&String> = captures.iter().flat_map(|(_, features)| features.told.keys()).collect();
    let mut changes = Vec::new();
    for what in names {
        let mut last: BTreeMap<Option<&BTreeSet<String>>, Option<&str>> = BTreeMap::new();
        for of_one_time in captures.chunk_by(|(one, _), (other, _)| one == other) {
            for (unseen, value) in values(of_one_time, what) {
                let before = last.insert(unseen, value).flatten();
                let Some((before, after)) = before.zip(value).filter(|(before, after)| before != after)
                else {
                    continue;
                };
                changes.push(Change {
                    host: history.host.clone(),
                    modified_us: of_one_time[0].0,
                    what: what.clone(),
                    before: before.to_owned(),
                    after: after.to_owned(),
                });
            }
        }
    }
    changes.sort_by_key(|change| change.modified_us);
    changes
}

/// What captures of one time tell of this, by what was not seen of them (of the kernel, however much was); `None` where they disagree, since nothing tells which was
/// first.
fn values<'f>(
    of_one_time: &'f [(Option<i64>, Features)],
    what: &str,
) -> BTreeMap<Option<&'f BTreeSet<String>>, Option<&'f str>> {
    let mut values: BTreeMap<_, Option<&str>> = BTreeMap::new();
    for (_, features) in of_one_time {
        let Some(value) = features.value(what) else { continue };
        let known = values.entry((what != KERNEL).then_some(&features.unseen)).or_insert(Some(value));
        *known = known.filter(|known| *known == value);
    }
    values
}

#[cfg(test)]
mod tests;
