//! What fuzzing drives: the parsers of `host`, `lab`, `toll` and `model`, fed with bytes that nobody meant for them, and `nvme`'s
//! driver and controller, each with a hostile one on the other side.
//!
//! A capture comes from somebody else's machine, and a kernel's own files have changed for thirty
//! years; whatever they hold, a parser may answer "nothing", and may not panic, hang or fill memory.
//! Each function here takes the bytes of one input. The fuzz targets call them, and so does the test
//! that replays the kept inputs, on stable and without libFuzzer.
//!
//! ```text
//! cargo test --manifest-path fuzz/Cargo.toml          # replay, stable
//! cargo +nightly fuzz run --features fuzzing TARGET -- \
//!     -max_total_time=600 -rss_limit_mb=2048 -timeout=10 -dict=fuzz/dictionaries/TARGET.dict
//! cargo +nightly fuzz cmin --features fuzzing TARGET
//! ```
//!
//! The corpora began with real logs, tables and properties. At most 150 inputs and 300 KB of each are
//! kept, those that reach most for their size; what a longer run adds is for the machine it ran on.

mod archive;
mod bytes;
mod compare;
mod digest;
mod experiment;
mod fio;
mod lab;
mod mtrr;
mod nvme;
mod power;
mod price_list;
mod rendered;
mod sweep;
mod takeover;
mod text;
mod toll_sheet;
mod trace;
mod uperf;
mod whole_host;
mod words;

pub use archive::archive;
pub use bytes::{config_space, proc_bus_pci_and_names};
pub use compare::comparison;
pub use digest::digest;
pub use experiment::experiment;
pub use fio::fio_jobs;
pub use lab::{lab_module, lab_presets, lab_record, lab_symbols, lab_trace};
pub use mtrr::{memmap_wish_range, mtrr_pat_iomem, mtrr_plan};
pub use nvme::{nvme_completions, nvme_controller, nvme_driver, nvme_structures};
pub use power::{ddw, device_tree};
pub use price_list::price_list;
pub use rendered::rendered;
pub use sweep::sweep_plan;
pub use takeover::takeover;
pub use text::{command_line, interrupts_numa, kernel_log, lspci_text, version_cpuinfo};
pub use toll_sheet::toll_sheet;
pub use trace::trace;
pub use uperf::uperf_profile;
pub use whole_host::whole_host;
pub use words::words;

/// One target: its name, which is also that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 35] = [
    ("archive", archive),
    ("command_line", command_line),
    ("comparison", comparison),
    ("config_space", config_space),
    ("ddw", ddw),
    ("device_tree", device_tree),
    ("digest", digest),
    ("experiment", experiment),
    ("fio_jobs", fio_jobs),
    ("interrupts_numa", interrupts_numa),
    ("kernel_log", kernel_log),
    ("lab_module", lab_module),
    ("lab_presets", lab_presets),
    ("lab_record", lab_record),
    ("lab_symbols", lab_symbols),
    ("lab_trace", lab_trace),
    ("lspci_text", lspci_text),
    ("memmap_wish_range", memmap_wish_range),
    ("mtrr_pat_iomem", mtrr_pat_iomem),
    ("mtrr_plan", mtrr_plan),
    ("nvme_completions", nvme_completions),
    ("nvme_controller", nvme_controller),
    ("nvme_driver", nvme_driver),
    ("nvme_structures", nvme_structures),
    ("price_list", price_list),
    ("proc_bus_pci_and_names", proc_bus_pci_and_names),
    ("rendered", rendered),
    ("sweep_plan", sweep_plan),
    ("takeover", takeover),
    ("toll_sheet", toll_sheet),
    ("trace", trace),
    ("uperf_profile", uperf_profile),
    ("version_cpuinfo", version_cpuinfo),
    ("whole_host", whole_host),
    ("words", words),
];

/// Bytes as [`host::Tree::text`] would read them from `file`.
fn text(file: &str, data: &[u8]) -> host::Text {
    host::Text::new(file, String::from_utf8_lossy(data))
}

/// The parts of an input that stands for several files, which are divided by NUL: none of them holds
/// one. Parts that are missing are empty.
fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut split = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| split.next().unwrap_or_default())
}
