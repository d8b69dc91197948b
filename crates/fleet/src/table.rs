//! The tables, and their rows.

use crate::capture::{Capture, InputError};
use crate::document::{Adapter, Finding, Unseen};
use crate::input::{Input, Unlisted};
use crate::part::SCHEMA_METADATA;
use columns::{Cells, Column, panic_text, parquet_bytes, with_causes};
use parquet::errors::ParquetError;

/// The version of the tables' columns. It changes when a column is removed or changes its meaning.
pub const SCHEMA: &str = "iotoll.fleet/1";

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Captures that were inspected.
    Hosts,
    /// Their PCI functions that are neither bridges nor IOMMUs, as far as their class is known.
    Adapters,
    /// What is wrong with them or could be better.
    Findings,
    /// What could not be read.
    Unseen,
    /// Inputs that were not inspected.
    Errors,
}

impl Table {
    /// All.
    pub const ALL: [Self; 5] = [Self::Hosts, Self::Adapters, Self::Findings, Self::Unseen, Self::Errors];

    /// Its name, which its folder and its rows in SQL have.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Adapters => "adapters",
            Self::Findings => "findings",
            Self::Unseen => "unseen",
            Self::Errors => "errors",
        }
    }
}

/// An input, inspected or not.
#[derive(Debug)]
pub struct Inspected {
    input: Input,
    result: Result<Capture, InputError>,
}

impl Inspected {
    /// Reads and inspects an input. `made_by` is the name and version of the program, whose rules these are.
    pub fn read(input: Input, made_by: &str) -> Self {
        let result = std::panic::catch_unwind(|| Capture::read(&input, made_by)).unwrap_or_else(|panic| {
            Err(InputError::Panic { path: input.name(), what: panic_text(&*panic).to_owned() })
        });
        Self { input, result }
    }

    /// What could not be looked at, as an input that can't be read.
    pub fn unlisted(unlisted: Unlisted) -> Self {
        let Unlisted { path, error } = unlisted;
        let input = Input { path, bytes: None, modified_us: None };
        let error = InputError::Io { path: input.name(), source: error };
        Self { input, result: Err(error) }
    }

    /// Why it was not inspected.
    pub fn error(&self) -> Option<&InputError> {
        self.result.as_ref().err()
    }
}

/// Rows of all tables.
#[derive(Debug, Default)]
pub struct Rows {
    hosts: Vec<(Input, Capture)>,
    errors: Vec<(Input, InputError)>,
}

impl Rows {
    /// Adds an input's rows.
    pub fn add(&mut self, inspected: Inspected) {
        match inspected.result {
            Ok(capture) => self.hosts.push((inspected.input, capture)),
            Err(error) => self.errors.push((inspected.input, error)),
        }
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.hosts.len() + self.errors.len()
    }

    /// The bytes of a Parquet file with a table's rows.
    ///
    /// # Errors
    /// [`ParquetError`] for more than a file can hold
    pub fn parquet(&self, table: Table, made_by: &str) -> Result<Vec<u8>, ParquetError> {
        let columns = match table {
            Table::Hosts => self.hosts(),
            Table::Adapters => self.adapters(),
            Table::Findings => self.findings(),
            Table::Unseen => self.unseen(),
            Table::Errors => self.errors(made_by),
        };
        parquet_bytes(table.name(), &columns, made_by, &[(SCHEMA_METADATA, SCHEMA)])
    }

    fn hosts(&self) -> Vec<Column> {
        let all = || self.hosts.iter();
        let text = |of: fn(&Capture) -> Option<&String>| {
            Cells::Text(all().map(|(_, capture)| of(capture).cloned()).collect())
        };
        let inputs: Vec<&Input> = all().map(|(input, _)| input).collect();
        let mut columns = input_columns(&inputs).to_vec();
        columns.extend([
            Column::of("capture", text(|capture| Some(&capture.digest))),
            Column::of("rules", text(|capture| Some(&capture.inspected.made_by))),
            Column::of("source", text(|capture| Some(&capture.source))),
            Column::optional("host_name", text(|capture| capture.host_name.as_ref())),
            Column::optional("machine", text(|capture| capture.inspected.host.machine.as_ref())),
            Column::optional("architecture", text(|capture| capture.inspected.host.architecture.as_ref())),
            Column::optional("cpu_vendor", text(|capture| capture.inspected.host.cpu_vendor.as_ref())),
            Column::optional("hypervisor", text(|capture| capture.inspected.host.hypervisor.as_ref())),
            Column::optional("distribution", text(|capture| capture.inspected.host.distribution.as_ref())),
            Column::optional(
                "kernel_release",
                text(|capture| capture.inspected.host.kernel_release.as_ref()),
            ),
            Column::optional("command_line", text(|capture| capture.inspected.host.command_line.as_ref())),
            Column::optional(
                "memory_bytes",
                Cells::Integer(
                    all()
                        .map(|(_, capture)| i64::try_from(capture.inspected.host.memory_bytes?).ok())
                        .collect(),
                ),
            ),
            Column::of(
                "complete",
                Cells::Flag(all().map(|(_, capture)| Some(capture.inspected.complete)).collect()),
            ),
            Column::of(
                "doubts",
                Cells::Texts(all().map(|(_, capture)| capture.inspected.doubts.clone()).collect()),
            ),
        ]);
        columns
    }

    /// Rows that all captures have, with the input and the capture that each is of.
    fn each<T>(&self, of: impl Fn(&Capture) -> &[T]) -> Vec<(&(Input, Capture), &T)> {
        self.hosts.iter().flat_map(|host| of(&host.1).iter().map(move |one| (host, one))).collect()
    }

    fn adapters(&self) -> Vec<Column> {
        let all = self.each(|capture| &capture.inspected.adapters);
        let text = |of: fn(&Adapter) -> Option<&String>| {
            Cells::Text(all.iter().map(|(_, adapter)| of(adapter).cloned()).collect())
        };
        let number = |of: fn(&Adapter) -> Option<u32>| {
            Cells::Integer(all.iter().map(|(_, adapter)| of(adapter).map(i64::from)).collect())
        };
        let [capture, rules, input] = keys(&all);
        vec![
            capture,
            rules,
            input,
            Column::of("address", text(|adapter| Some(&adapter.address))),
            Column::of("dma_path", text(|adapter| Some(&adapter.dma_path))),
            Column::optional("condition", text(|adapter| adapter.condition.as_ref())),
            Column::optional("reason", text(|adapter| adapter.reason.as_ref())),
            Column::optional("vendor_id", text(|adapter| adapter.vendor_id.as_ref())),
            Column::optional("device_id", text(|adapter| adapter.device_id.as_ref())),
            Column::optional("subsystem_vendor_id", text(|adapter| adapter.subsystem_vendor_id.as_ref())),
            Column::optional("subsystem_device_id", text(|adapter| adapter.subsystem_device_id.as_ref())),
            Column::optional("class", text(|adapter| adapter.class.as_ref())),
            Column::optional("vendor_name", text(|adapter| adapter.vendor_name.as_ref())),
            Column::optional("device_name", text(|adapter| adapter.device_name.as_ref())),
            Column::optional("driver", text(|adapter| adapter.driver.as_ref())),
            Column::optional("iommu_group", number(|adapter| adapter.iommu_group)),
            Column::optional("numa_node", number(|adapter| adapter.numa_node)),
            Column::optional("dma_mask_bits", number(|adapter| adapter.dma_mask_bits)),
        ]
    }

    fn findings(&self) -> Vec<Column> {
        let all = self.each(|capture| &capture.inspected.findings);
        let text = |of: fn(&Finding) -> Option<&String>| {
            Cells::Text(all.iter().map(|(_, finding)| of(finding).cloned()).collect())
        };
        let [capture, rules, input] = keys(&all);
        vec![
            capture,
            rules,
            input,
            Column::of("id", text(|finding| Some(&finding.id))),
            Column::of("severity", text(|finding| Some(&finding.severity))),
            Column::optional("address", text(|finding| finding.address.as_ref())),
            Column::of("what", text(|finding| Some(&finding.what))),
            Column::of("fix", text(|finding| Some(&finding.fix))),
            Column::of(
                "commands",
                Cells::Texts(all.iter().map(|(_, finding)| finding.commands.clone()).collect()),
            ),
            Column::of("risk", text(|finding| Some(&finding.risk))),
        ]
    }

    fn unseen(&self) -> Vec<Column> {
        let all = self.each(|capture| &capture.inspected.unseen);
        let text = |of: fn(&Unseen) -> Option<&String>| {
            Cells::Text(all.iter().map(|(_, unseen)| of(unseen).cloned()).collect())
        };
        let [capture, rules, input] = keys(&all);
        vec![
            capture,
            rules,
            input,
            Column::of("what", text(|unseen| Some(&unseen.what))),
            Column::of("why", text(|unseen| Some(&unseen.why))),
            Column::of("remedy", text(|unseen| Some(&unseen.remedy))),
            Column::of(
                "decisive",
                Cells::Flag(all.iter().map(|(_, unseen)| Some(unseen.decisive)).collect()),
            ),
            Column::optional("file", text(|unseen| unseen.file.as_ref())),
        ]
    }

    fn errors(&self, made_by: &str) -> Vec<Column> {
        let all = || self.errors.iter();
        let inputs: Vec<&Input> = all().map(|(input, _)| input).collect();
        let mut columns = input_columns(&inputs).to_vec();
        columns.extend([
            Column::of("rules", Cells::Text(all().map(|_| Some(made_by.to_owned())).collect())),
            Column::of("kind", Cells::Text(all().map(|(_, error)| Some(error.word().to_owned())).collect())),
            Column::of("what", Cells::Text(all().map(|(_, error)| Some(with_causes(error))).collect())),
        ]);
        columns
    }
}

/// The columns that name an input, and by which it is found again.
fn input_columns(inputs: &[&Input]) -> [Column; 3] {
    let bytes = |input: &&Input| input.bytes.and_then(|bytes| i64::try_from(bytes).ok());
    [
        Column::of("input", Cells::Text(inputs.iter().map(|input| Some(input.name())).collect())),
        Column::optional("input_bytes", Cells::Integer(inputs.iter().map(bytes).collect())),
        Column::optional("modified", Cells::Time(inputs.iter().map(|input| input.modified_us).collect())),
    ]
}

/// The columns that name the capture of each row, the program whose rules it is by, and the input that was read: one of several, if there are copies.
fn keys<T>(all: &[(&(Input, Capture), &T)]) -> [Column; 3] {
    let text = |of: fn(&Input, &Capture) -> String| {
        Cells::Text(all.iter().map(|((input, capture), _)| Some(of(input, capture))).collect())
    };
    [
        Column::of("capture", text(|_, capture| capture.digest.clone())),
        Column::of("rules", text(|_, capture| capture.inspected.made_by.clone())),
        Column::of("input", text(|input, _| input.name())),
    ]
}
