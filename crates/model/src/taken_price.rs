//! Prices that were measured on a host, in place of an experiment's own values.
//!
//! A price is taken only if it was measured: an assumed one is no better than what the file has. It is taken where a key of the file
//! means the same, and nowhere else: `read_ns` of a disk is an adapter's read of memory, not a CPU's of a register, and an IOMMU's
//! `entry_ns` is each further entry of a hypercall, not each entry.

use crate::description::Description;
use serde::Serialize;
use toll::{Event, Evidence, PriceList, Priced, TomlText};

/// A price that replaced a value of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TakenPrice {
    /// The key in the file, with its tables: `cpus.instruction_ns`.
    pub key: String,
    /// The price, in the unit of the key.
    pub value: f64,
    /// How it was measured.
    pub evidence: Evidence,
}

/// An experiment with prices of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct PricedExperiment {
    /// The text of the file, with the prices. Each key has the line that it had.
    pub text: String,
    /// The prices that it has; at least one.
    pub prices: Vec<TakenPrice>,
}

/// Why an experiment takes no price of a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPriceTaken {
    /// Nothing in experiments of its kind is a price.
    #[error(
        "{file} describes {described}, which takes no price of a list; expected two hosts, a host with a disk or with a flash array, or \
         InfiniBand adapters"
    )]
    Kind {
        /// The file of the experiment.
        file: String,
        /// What it describes.
        described: &'static str,
    },
    /// The list has no measured price for any key of the file.
    #[error(
        "{list}: no measured price that {file} takes; expected one of {expected}. `iotoll watch --prices` measures invalidations and hypercalls"
    )]
    List {
        /// The file of the list.
        list: String,
        /// The file of the experiment.
        file: String,
        /// The prices that the experiment takes, and its keys for them.
        expected: String,
    },
    /// The file has none of the keys that experiments of its kind may have.
    #[error("{file} has no value that a price list has; expected one of {expected}")]
    Keys {
        /// The file of the experiment.
        file: String,
        /// Keys that would take a price.
        expected: String,
    },
}

/// A key that takes a price.
struct PricedKey {
    key: &'static str,
    priced: Priced,
    /// What a nanosecond is in the unit of the key.
    unit_ns: f64,
}

impl PricedKey {
    const fn new(key: &'static str, priced: Priced) -> Self {
        Self { key, priced, unit_ns: 1.0 }
    }

    /// A key in picoseconds a byte, for bytes that a CPU copies.
    const fn copy_ps(key: &'static str) -> Self {
        Self { key, priced: Priced::Event(Event::StringIterations), unit_ns: 1000.0 }
    }

    /// A price in the unit of the key, without the last bits of the multiplication.
    fn convert(&self, ns: f64) -> f64 {
        if self.unit_ns == 1.0 { ns } else { (ns * self.unit_ns * 1e6).round() / 1e6 }
    }

    fn words(&self) -> String {
        format!("{} ({})", self.priced, self.key)
    }
}

const INVALIDATION: Priced = Priced::Event(Event::Invalidations);
const HYPERCALL: Priced = Priced::Event(Event::Hypercalls);

/// The keys of a host with a disk or a flash array.
const HOST: &[PricedKey] = &[
    PricedKey::new("cpus.instruction_ns", Priced::Instruction),
    PricedKey::new("mapping.invalidation_ns", INVALIDATION),
    PricedKey::new("mapping.hypercall_ns", HYPERCALL),
];
/// The keys of two hosts. A server that the file describes is another machine, and keeps its values.
const TWO_HOSTS: &[PricedKey] = &[
    PricedKey::new("client.cpus.instruction_ns", Priced::Instruction),
    PricedKey::new("client.mapping.invalidation_ns", INVALIDATION),
    PricedKey::new("client.mapping.hypercall_ns", HYPERCALL),
    PricedKey::copy_ps("client.memory.copy_ps_per_byte"),
];
/// The keys of InfiniBand adapters.
const ADAPTERS: &[PricedKey] = &[PricedKey::copy_ps("processes.copy_ps_per_byte")];

impl Description {
    /// What it describes, in words.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Engine(_) => "an engine",
            Self::Hosts(_) => "two hosts",
            Self::Block(_) => "a host with a disk",
            Self::FlashArray(_) => "a host with a flash array",
            Self::Memory(_) => "memory types",
            Self::Adapters(_) => "InfiniBand adapters",
        }
    }

    /// The keys that take prices.
    fn priced_keys(&self) -> &'static [PricedKey] {
        match self {
            Self::Engine(_) | Self::Memory(_) => &[],
            Self::Hosts(_) => TWO_HOSTS,
            Self::Block(_) | Self::FlashArray(_) => HOST,
            Self::Adapters(_) => ADAPTERS,
        }
    }
}

impl PricedExperiment {
    /// The experiment of a file's text with the measured prices of a list. `description` is what was read from `text`; `file` and
    /// `list_file` are for errors.
    ///
    /// # Errors
    /// [`NoPriceTaken`] if none has a place.
    pub fn new(
        description: &Description,
        text: &str,
        file: &str,
        list: &PriceList,
        list_file: &str,
    ) -> Result<Self, NoPriceTaken> {
        let keys = description.priced_keys();
        let file = file.to_owned();
        if keys.is_empty() {
            return Err(NoPriceTaken::Kind { file, described: description.words() });
        }
        let in_file = |key: &&PricedKey| TomlText::new(text, &file).with_number(key.key, 0.0).is_some();
        let here: Vec<&PricedKey> = keys.iter().filter(in_file).collect();
        if here.is_empty() {
            let expected = keys.iter().map(|key| key.key).collect::<Vec<_>>().join(", ");
            return Err(NoPriceTaken::Keys { file, expected });
        }
        let mut priced = Self { text: text.to_owned(), prices: Vec::new() };
        here.iter().for_each(|key| priced.take(key, list));
        if priced.prices.is_empty() {
            let expected = here.iter().map(|key| key.words()).collect::<Vec<_>>().join(", ");
            return Err(NoPriceTaken::List { list: list_file.to_owned(), file, expected });
        }
        Ok(priced)
    }

    /// Takes the list's price for a key, if it was measured.
    fn take(&mut self, key: &PricedKey, list: &PriceList) {
        let given = list.prices().find(|(priced, _)| *priced == key.priced).map(|(_, given)| given);
        let Some(given) = given.filter(|given| matches!(given.evidence, Evidence::Measured { .. })) else {
            return;
        };
        let value = key.convert(given.value);
        if let Some(text) = TomlText::new(&self.text, "").with_number(key.key, value) {
            self.text = text;
            let evidence = given.evidence.clone();
            self.prices.push(TakenPrice { key: key.key.to_owned(), value, evidence });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toll::Given;

    const NVME: &str = include_str!("../experiments/nvme.toml");
    const TWO: &str = include_str!("../experiments/two-hosts.toml");
    const INFINIBAND: &str = include_str!("../experiments/infiniband.toml");

    fn measured(value: f64) -> Given {
        Given { value, evidence: Evidence::Measured { how: "a test".into(), on: "here".into() } }
    }

    /// A list whose prices of these are measured; all others are assumed, and differ from those of any file.
    fn list(prices: &[(Priced, f64)]) -> PriceList {
        let mut list = PriceList::builtin().iter().find(|list| list.arch == "x86").unwrap().clone();
        let assumed = |value| Given { value, evidence: Evidence::Assumed { why: "a test".into() } };
        list.instruction_ns = assumed(77.0);
        Event::ALL.into_iter().for_each(|event| list.set(Priced::Event(event), assumed(77.0)));
        list.with_measured(prices.iter().map(|(priced, value)| (*priced, measured(*value))), "here")
    }

    fn priced(text: &str, list: &PriceList) -> Result<PricedExperiment, String> {
        let description = Description::read(text, "x.toml").unwrap();
        let priced = PricedExperiment::new(&description, text, "x.toml", list, "mine.toml");
        priced.map_err(|error| error.to_string())
    }

    fn all() -> PriceList {
        list(&[
            (Priced::Instruction, 0.21),
            (INVALIDATION, 650.5),
            (HYPERCALL, 480.0),
            (Priced::Event(Event::StringIterations), 0.1735),
            (Priced::Event(Event::DeviceReads), 900.0),
            (Priced::Event(Event::TableEntries), 7.0),
        ])
    }

    #[test]
    fn each_key_that_means_the_same_has_the_measured_price_in_its_unit() {
        let taken = |text: &str| {
            let priced = priced(text, &all()).unwrap();
            Description::read(&priced.text, "x.toml").unwrap();
            priced.prices.iter().map(|price| (price.key.clone(), price.value)).collect::<Vec<_>>()
        };
        let expected = |keys: &[(&str, f64)]| -> Vec<(String, f64)> {
            keys.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
        };
        let host = [
            ("cpus.instruction_ns", 0.21),
            ("mapping.invalidation_ns", 650.5),
            ("mapping.hypercall_ns", 480.0),
        ];
        assert_eq!(taken(NVME), expected(&host));
        assert_eq!(taken(include_str!("../experiments/flash-array.toml")), expected(&host[..1]));
        let client = host.map(|(key, value)| (format!("client.{key}"), value));
        assert_eq!(taken(TWO), client);
        let memory = "[client.memory]\nadapter_node = 0\nremote_dma_ns = 0\nline_bytes = 128\nremote_line_ns = 0\ncopy_ps_per_byte = 0\n";
        let copied = ("client.memory.copy_ps_per_byte".to_owned(), 173.5);
        assert_eq!(taken(&format!("{TWO}\n{memory}")), [client.to_vec(), vec![copied]].concat());
        let start = INFINIBAND.find("[verbs]").unwrap();
        let processes = "[processes]\nbenchmark = \"is\"\noperations_per_second = 25e6\nrounds = 2\nper_node = 2\neager_bytes_max = 8192\n\
                         copy_ps_per_byte = 500\ncall_ns = 200\nshared_ns = 500\n";
        let with_processes = format!("{}{processes}", &INFINIBAND[..start]);
        assert_eq!(taken(&with_processes), expected(&[("processes.copy_ps_per_byte", 173.5)]));
    }

    #[test]
    fn nothing_else_of_the_file_changes() {
        let priced = priced(NVME, &all()).unwrap();
        let changed = NVME
            .replace("instruction_ns = 0.33 ", "instruction_ns = 0.21 ")
            .replace("invalidation_ns = 710 ", "invalidation_ns = 650.5 ")
            .replace("hypercall_ns = 620", "hypercall_ns = 480.0");
        assert_eq!(priced.text, changed);
    }

    #[test]
    fn a_server_of_its_own_keeps_its_values() {
        let client = &TWO[TWO.find("[client.cpus]").unwrap()..];
        let both = format!("{TWO}\n{}", client.replace("client.", "server."));
        let priced = priced(&both, &all()).unwrap();
        assert!(priced.prices.iter().all(|price| price.key.starts_with("client.")));
        let server = &priced.text[priced.text.find("[server.cpus]").unwrap()..];
        assert_eq!(server, client.replace("client.", "server."));
    }

    #[test]
    fn an_assumed_price_is_never_taken() {
        let one = priced(NVME, &list(&[(INVALIDATION, 650.0)])).unwrap();
        assert_eq!(one.prices.len(), 1);
        assert_eq!(one.text, NVME.replace("invalidation_ns = 710 ", "invalidation_ns = 650.0 "));
        assert_eq!(
            priced(NVME, &list(&[(Priced::Event(Event::DeviceReads), 900.0)])),
            Err("mine.toml: no measured price that x.toml takes; expected one of instruction_ns (cpus.instruction_ns), \
                 event_ns.invalidations (mapping.invalidation_ns), event_ns.hypercalls (mapping.hypercall_ns). `iotoll watch --prices` measures invalidations \
                 and hypercalls"
                .into())
        );
    }

    #[test]
    fn an_experiment_without_prices_is_refused() {
        let engine = priced(include_str!("../experiments/engine.toml"), &all()).unwrap_err();
        assert!(
            engine.starts_with(
                "x.toml describes an engine, which takes no price of a list; expected two hosts"
            ),
            "{engine}"
        );
        assert!(priced(include_str!("../experiments/memory-types.toml"), &all()).is_err());
        assert_eq!(
            priced(INFINIBAND, &all()),
            Err("x.toml has no value that a price list has; expected one of processes.copy_ps_per_byte"
                .into())
        );
    }
}
