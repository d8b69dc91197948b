//! The command line: all commands and options with their help. Manual pages, completions and docs/reference/commands.md are generated from
//! these definitions.

use crate::flame_file::FlameFile;
use crate::peer_file::PeerFile;
use crate::shard::Shard;
use bench::net::{HostPort, INSTANCES_MAX, ListenAddress, NetTest};
use bench::{Bytes, Scenario, Settings};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum, ValueHint};
use host::Bdf;
use host::memory::plan::Wish;
use host::memory::{MemoryType, PhysRange};
use nvme::takeover::Accepted;
use std::ffi::OsString;
use std::path::PathBuf;
use toll::Tolerance;

const AFTER_HELP: &str = "\
Examples:
  iotoll                                inspect this host, benchmark it, write report.html
  iotoll inspect --from sosreport.tar.xz 0000:3b:00.0

Exit status: 0 no findings, 1 findings, 2 error. An inspection also ends with 1 if something that its verdicts depend on \
exists but could not be read, such as the kernel's log without root. An inspection needs no root, and lists what it could \
not read without it.";

/// Show how each PCIe device's DMA reaches memory, what that costs per I/O, and the exact fix.
#[derive(Debug, Parser)]
#[command(name = "iotoll", bin_name = "iotoll", version, about, after_help = AFTER_HELP, propagate_version = true)]
pub(crate) struct Cli {
    /// Command to run [default: inspect this host, run a short benchmark, and write report.html]
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Print reports in full: all rows, and more than 1,900 lines
    #[arg(long, global = true)]
    pub(crate) full: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Inspect(Inspect),
    Capture(Capture),
    /// Memory type range registers of x86 CPUs
    #[command(subcommand)]
    Mtrr(Mtrr),
    /// Count the instructions and events of each I/O on real kernels in QEMU (toll sheets)
    #[command(subcommand)]
    Lab(Lab),
    /// Measure IOVA allocators, DMA mappings, memory accesses and disk reads on this machine, and the network to another
    #[command(subcommand)]
    Bench(Bench),
    Watch(Watch),
    Compare(Compare),
    /// Read, write and maintain NVMe disks from user space, bypassing the kernel
    #[command(subcommand)]
    Blk(Blk),
    /// Simulate a machine that a file describes
    #[command(subcommand)]
    Model(Model),
    Sweep(Sweep),
    Fleet(Fleet),
    Reproduce(Reproduce),
    Complete(Complete),
    #[command(hide = true)]
    Man(Man),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Model {
    Run(ModelRun),
    /// List the studies of published figures for `iotoll reproduce`
    #[command(after_help = "\
Examples:
  iotoll model list
  iotoll model list | head -1")]
    List,
}

/// Simulate the machine that a file describes, and report its throughput and what limits it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll model run experiments/nvme.toml --jobs experiments/fio/mixed.fio
  iotoll model run experiments/two-hosts.toml --profile experiments/uperf/udp-rr.xml \\
      --set n=50 --set size=1k --set h=server
  iotoll model run experiments/infiniband.toml

The file describes one of these machines; the examples in experiments/ explain each value:
  engine.toml         a DMA engine behind an IOMMU
  two-hosts.toml      two hosts and their network
  nvme.toml           a host with an NVMe disk
  flash-array.toml    a host with a flash array
  memory-types.toml   a buffer of memmap= compared with one of the DMA API
  infiniband.toml     InfiniBand adapters with and without memory")]
pub(crate) struct ModelRun {
    /// Print one JSON document with schema iotoll.model/3
    #[arg(long)]
    pub(crate) json: bool,
    /// uperf profile for the two hosts to run
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) profile: Option<PathBuf>,
    /// Variable of the profile, which uperf itself reads from the environment
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "profile", conflicts_with = "jobs", value_parser = parse_variable)]
    pub(crate) variables: Vec<(String, String)>,
    /// fio job file for the host with a disk to run
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "profile")]
    pub(crate) jobs: Option<PathBuf>,
    /// Trace of messages for the InfiniBand processes to send, instead of a benchmark (docs/reference/formats.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,
    /// Price list of your machine, whose measured prices replace values of the file (docs/reference/prices.md). Given several
    /// times, a measured price replaces an assumed one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prices: Vec<PathBuf>,
    /// File that describes the machine
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

/// Run a model at every combination of values in a plan, on all cores; a killed run is resumed
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  iotoll sweep experiments/sweep.toml --out results
  iotoll sweep report results --html results.html
  sbatch --array=0-31 --wrap 'iotoll sweep plan.toml --out results \\
      --shard $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT'

A plan is a machine as `iotoll model run` reads it, under [base], and fields of it with the values that they take, under [axes]: \
experiments/sweep.toml is an example. Results are Parquet files DIR/part-*.parquet with a row for each point. Points that a file in DIR \
already has are not run again. Needs a build with `--features sweep`.

Exit status: 0 if all points have a result; 1 if some have an error instead; 2 on errors."
)]
pub(crate) struct Sweep {
    #[command(subcommand)]
    pub(crate) report: Option<SweepCommand>,
    #[command(flatten)]
    pub(crate) points: Option<SweepPoints>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SweepCommand {
    Report(SweepReport),
}

/// Show a sweep on one page: what limits, and how a figure follows from each axis; or merge its files
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll sweep report results
  iotoll sweep report results --figure latency_mean_ns --html results.html
  iotoll sweep report results --merge results.parquet
  iotoll sweep report results --json | jq .figure.shares

Exit status: 0 if there are results; 2 on errors.")]
pub(crate) struct SweepReport {
    /// Print one JSON document with schema iotoll.sweep-report/1
    #[arg(long)]
    pub(crate) json: bool,
    /// Result to show, by the name of its column [default: a rate that is not the same at all points, or else another such figure]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) figure: Option<String>,
    /// Also write the report as an HTML page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Also write all rows as one Parquet file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) merge: Option<PathBuf>,
    /// Folder of the results
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct SweepPoints {
    /// Run only shard I of N: every Nth point, starting with point I, counted from 0
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    pub(crate) shard: Shard,
    /// Folder for results; points whose results it has are not run again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Print one JSON document with schema iotoll.sweep/1
    #[arg(long)]
    pub(crate) json: bool,
    /// Plan to run
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub(crate) plan: PathBuf,
}

/// Inspect captures of many hosts on all cores, and write tables of their adapters and findings; a killed run is resumed
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  iotoll fleet captures/ --out fleet
  sbatch --array=0-31 --wrap 'iotoll fleet /data/sosreports --out /data/fleet \\
      --shard $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT'
  iotoll fleet report fleet --html fleet.html
  duckdb -c \"select dma_path, count(distinct (capture, address)) from 'fleet/adapters/*.parquet' group by 1\"

Inputs are archives, sosreports, texts, folders with a host's files, and documents of `iotoll inspect --json`; in other folders they are \
looked for. Results are Parquet files in DIR/hosts, DIR/adapters, DIR/findings, DIR/unseen and DIR/errors. Inputs that have rows there \
and have not been changed since are not read again: remove DIR/errors to try again what failed. Needs a build with `--features fleet`.

Exit status: 0 if all inputs were inspected; 1 if some could not be; 2 on errors."
)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    pub(crate) report: Option<FleetCommand>,
    #[command(flatten)]
    pub(crate) tables: Option<FleetTables>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    Report(FleetReport),
}

/// Show a fleet on one page: findings with their fixes and hosts, odd hosts, adapters by path, and what changed between captures
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll fleet report fleet
  iotoll fleet report fleet --html fleet.html
  iotoll fleet report fleet --json | jq -ac '.findings[] | [.id, .hosts]'

Exit status: 0 if there are no findings and no odd hosts; 1 if there are; 2 on errors.")]
pub(crate) struct FleetReport {
    /// Print one JSON document with schema iotoll.fleet-report/1
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write the report as an HTML page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Folder of the tables
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct FleetTables {
    /// Inspect only shard I of N, counted from 0; inputs are divided by a hash of their paths
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    pub(crate) shard: Shard,
    /// Folder for the tables; inputs that have rows there are not read again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Print one JSON document with schema iotoll.fleet-run/1
    #[arg(long)]
    pub(crate) json: bool,
    /// Captures, or folders of them
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
}

/// Compare published figures with a model of the same machine, with errors and evidence
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll reproduce                         all studies
  iotoll reproduce iotlb --html iotlb.html one of them, with plots
  iotoll reproduce power-window --seeds 20 with narrower intervals
  iotoll reproduce power-window --set instruction_ns=0.4
                                           with another value of a parameter

Each figure has a kind. Only those out of sample count as hits; all but calibrated ones can miss.

Exit status: 0 if no figure misses its study's tolerance; 1 if one does; 2 on errors.")]
pub(crate) struct Reproduce {
    /// Print one JSON document with schema iotoll.reproduction/4
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Change a parameter of the named studies, to between half and twice its value
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "studies", value_parser = parse_parameter)]
    pub(crate) changes: Vec<(String, f64)>,
    /// Runs of each study, each with another seed; figures are their means
    #[arg(long, value_name = "N", default_value_t = model::STUDY_SEEDS,
          value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) seeds: u32,
    /// Studies to reproduce [default: all]
    #[arg(value_name = "STUDY")]
    pub(crate) studies: Vec<String>,
}

/// Show each adapter's DMA path, what is wrong with it, and the exact fix
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll inspect                                     this host
  iotoll inspect --from host.tar.gz --json 3b:00.0   one adapter of a captured host, as JSON
  iotoll inspect --prices mine.toml                  times at the prices of your machine (docs/reference/prices.md)
  iotoll inspect --range 0x10000000-0x14ffffff       the memory type of a physical range (x86)
  dmesg | iotoll inspect --from -                    what a kernel log alone says
  iotoll inspect --from post.txt --from lspci.txt    texts of one host, whatever else stands in them
  iotoll inspect --from dmesg.txt --cmdline 'quiet iommu=pt'

Exit status: 0 no findings, no other problem in the log, and everything that verdicts depend on was read; 1 findings, problems in \
the log that no finding is about, or something that verdicts depend on could not be read (\"complete\": false in the JSON document; listed under \"Not seen\"); 2 error.

Limits of a source: 64 MiB and 4,000,000 lines per file or text, 1,048,576 names per folder, 65,536 PCI functions, 4,000,000 \
files and 1 GiB in all. Limits of an archive: 1,000,000 members, 8 GiB unpacked and at most 256 MiB plus 200 times its size, 512 MiB \
of it in memory. A file beyond a limit is listed under \"Not seen\"; an archive beyond a limit is an error (docs/reference/limits.md).")]
pub(crate) struct Inspect {
    /// What there is of a host: a directory, a sosreport, .tar[.gz|.xz|.zst], or text with its kernel log, its lspci and the
    /// like, as people paste it; - for standard input. Several are read as one host [default: this host]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) from: Vec<PathBuf>,
    /// The kernel command line, in place of the one that is read
    #[arg(long, value_name = "TEXT")]
    pub(crate) cmdline: Option<String>,
    /// Print one JSON document with schema iotoll.inspect/2
    #[arg(long)]
    pub(crate) json: bool,
    /// Also show what each finding was concluded from and would gain, what DMA paths cost, and memory types
    #[arg(long, conflicts_with = "json")]
    pub(crate) explain: bool,
    /// Also write a self-contained HTML page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Toll sheets that predictions use: a folder of *.json files, as `iotoll lab run -o` writes them
    /// [default: built-in counts of Debian's kernels in QEMU]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) tolls: Option<PathBuf>,
    /// Price list of your machine: the time of an instruction, a hypercall, an invalidation ... (see data/prices/*.toml)
    /// [default: built-in prices for the host's architecture]. Given several times, a measured price replaces an assumed one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prices: Vec<PathBuf>,
    /// Show the effective memory type of physical addresses BASE to END, inclusive (x86)
    #[arg(long, value_name = "BASE-END", conflicts_with_all = ["html", "adapter", "tolls", "prices"])]
    pub(crate) range: Option<PhysRange>,
    /// Show only this adapter, in full: 0000:3b:00.0 or 3b:00.0
    #[arg(value_name = "ADAPTER")]
    pub(crate) adapter: Option<Bdf>,
}

const CAPTURE_EXAMPLES: &str = "\
Examples:
  iotoll capture -o host.tar.gz
  sudo iotoll capture -o - | ssh me@desk 'cat > host.tar.gz'
  iotoll capture --from sosreport.tar.xz -o host.tar.gz";

/// The text after the options in `capture --help` and in the manual page.
fn capture_help() -> String {
    format!(
        "{CAPTURE_EXAMPLES}

The file has mode 0600. Redacted by default:
  secrets       passwords, keys, tokens and user names; values of kernel options that are
                not known to be public; messages of programs in the log. No option keeps them.
  identifiers   MAC and IP addresses, serial numbers, WWNs, GUIDs, UUIDs, names of hosts and
                users, and where the host boots from

Identifiers become pseudonyms of the same form. They depend on a random key, which stays on this host in \
/var/lib/iotoll/capture.key (root) or ~/.local/state/iotoll/capture.key (others). Two captures of one host have the same pseudonyms, \
and nobody without the key can find an address by trying. Names of interfaces and disks are kept. A secret in the log is kept if no \
word such as \"password\" precedes it, so read the log in the archive before you publish it (docs/reference/capture.md).

The archive contains these files of the host, and nothing else:
{}",
        host::redact::manual()
    )
}

/// Save the files that an inspection reads, without secrets and identifiers, to inspect them elsewhere
#[derive(Debug, Args)]
#[command(after_help = CAPTURE_EXAMPLES, after_long_help = capture_help())]
pub(crate) struct Capture {
    /// Where to write the gzip-compressed tar archive; - for standard output
    #[arg(short, long, value_name = "FILE.tar.gz", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Capture from a captured host instead of this one, for example to make a small archive of a sosreport;
    /// - for standard input
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) from: Option<PathBuf>,
    /// Keep MAC addresses, serial numbers, host names and other identifiers; secrets are always redacted
    #[arg(long)]
    pub(crate) with_identifiers: bool,
    /// Key file of the pseudonyms, 32 random bytes with mode 0600; created if missing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "with_identifiers")]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mtrr {
    Plan(Plan),
}

/// How the planner chooses between several possible tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// The fewest writes, then the fewest registers
    FewestSteps,
    /// The fewest registers, then the fewest writes
    FewestRegisters,
    /// Sorted by type (uncachable last) and address; needs more writes, and some ranges have another type in between
    Tidy,
}

/// Print the steps that give physical ranges the wanted memory types
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll mtrr plan --want 0x10000000:80M:uncachable
  iotoll mtrr plan --from host.tar.gz --want 0xe0000000:256M:wc --script > set-mtrr.sh

Nothing is changed on this host: you run the steps.")]
pub(crate) struct Plan {
    /// A captured host: directory, sosreport, .tar[.gz|.xz|.zst], or the text of a kernel log or of lspci;
    /// - for standard input [default: this host]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) from: Option<PathBuf>,
    /// A range and its type: uncachable (uc), write-combining (wc), write-through (wt),
    /// write-protect (wp) or write-back (wb); sizes take K, M, G
    #[arg(long = "want", value_name = "BASE:SIZE:TYPE", required = true)]
    pub(crate) wishes: Vec<Wish>,
    /// Number of variable MTRRs: bits 0 to 7 of the MSR IA32_MTRRCAP [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) registers: Option<u32>,
    /// Default memory type, outside all MTRRs [default: derived from the table, the memory map and the log]
    #[arg(long, value_name = "TYPE")]
    pub(crate) default_type: Option<MemoryType>,
    /// How to choose between several possible tables
    #[arg(long, value_enum, default_value = "fewest-steps")]
    pub(crate) order: Order,
    /// Print a commented shell script with checks, the steps, and their undo
    #[arg(long, conflicts_with = "json")]
    pub(crate) script: bool,
    /// Print one JSON document with schema iotoll.mtrr-plan/2
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    List(LabList),
    Fetch(LabFetch),
    Run(LabRun),
    Show(LabShow),
    Diff(LabDiff),
}

/// List presets, workloads, and the kernels already fetched
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll lab list
  iotoll lab list --presets mine.toml --json | jq .presets")]
pub(crate) struct LabList {
    /// File with further presets
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) presets: Option<PathBuf>,
    /// Print one JSON document with schema iotoll.lab-list/2
    #[arg(long)]
    pub(crate) json: bool,
}

/// Fetch Debian's kernels and busybox into a private cache; needs apt, but no root
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll lab fetch                     the kernels of all presets, about 290 MB to download
  iotoll lab fetch x86-vtd-strict      what one preset needs

Signatures and checksums are verified by apt. The cache is IOTOLL_CACHE, or ~/.cache/iotoll.")]
pub(crate) struct LabFetch {
    /// Presets whose kernels to fetch [default: all]
    #[arg(value_name = "PRESET")]
    pub(crate) names: Vec<String>,
    /// File with further presets
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) presets: Option<PathBuf>,
    /// Another mirror of Debian's archive
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) mirror: Option<String>,
    /// Another mirror of Debian's security archive
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) security_mirror: Option<String>,
}

/// Boot presets and count each I/O's instructions and events (toll sheets)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll lab run x86-vtd-strict --workload 'nvme-read-*'
  iotoll lab run x86-vtd-strict --workload nvme-read-4k --flame read.svg
  iotoll lab run --all -o tolls              every preset, a toll sheet for each
  iotoll lab run --all --html tolls.html     every preset, as charts on an HTML page
  iotoll lab run arm-smmu-lazy --kernel Image --modules lib/modules/6.9.0 -o mine

Exit status: 1 if repeats of a preset differ; 0 if not; 2 on errors.")]
pub(crate) struct LabRun {
    /// Presets to run; `iotoll lab list` names them
    #[arg(value_name = "PRESET", required_unless_present = "all")]
    pub(crate) names: Vec<String>,
    /// Run all presets
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Run only workloads whose names match; * matches anything [default: all that the adapters support]
    #[arg(long = "workload", value_name = "PATTERN")]
    pub(crate) workloads: Vec<String>,
    /// Write each sheet to DIR/PRESET.json
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Draw a flame graph of the median I/O's instructions: FILE.svg, or FILE.folded as text
    ///
    /// With several presets or workloads, each gets its own file: read.svg becomes
    /// read-PRESET-WORKLOAD.svg. Open it in a browser: click a frame to zoom, search with Ctrl-F.
    /// The text has one line per stack, the input format of flame graph programs.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) flame: Option<FlameFile>,
    /// Boot the machine N times for each number of CPUs, each time with other random numbers, memory, order of workloads and warm-ups
    ///
    /// The spread over the boots gives each cost its 95 % confidence interval. A single boot gives none.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) boots: u32,
    /// Run each preset N times and compare the counts
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Your own kernel image, bootable by QEMU
    #[arg(long, value_name = "IMAGE", requires = "modules", value_hint = ValueHint::FilePath)]
    pub(crate) kernel: Option<PathBuf>,
    /// The modules of --kernel: its folder lib/modules/RELEASE
    #[arg(long, value_name = "DIR", requires = "kernel", value_hint = ValueHint::DirPath)]
    pub(crate) modules: Option<PathBuf>,
    /// File with further presets
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) presets: Option<PathBuf>,
    /// QEMU plugin [default: liblab_plugin.so or liblab_plugin-api-N.so beside this program or in ../lib/iotoll, whichever fits QEMU]
    #[arg(long, value_name = "FILE.so", value_hint = ValueHint::FilePath)]
    pub(crate) plugin: Option<PathBuf>,
    /// Stop a guest that has used this much CPU time, has printed nothing for as long, or has run four times as long
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub(crate) timeout: u64,
    /// Keep the run's files (record, log, console, symbols) in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) keep: Option<PathBuf>,
    /// Also write a self-contained HTML page with charts of what each DMA path adds to an I/O
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print the sheets as one JSON document with schema iotoll.toll-sheets/4
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print toll sheets, and the cost of each DMA path compared with the untranslated one
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll lab show x86-vtd-strict.json                     the cost of one I/O of each workload
  iotoll lab show x86-*.json                              also each workload on all DMA paths, side by side
  iotoll lab show x86-*.json --html tolls.html            the same as an HTML page with charts
  iotoll lab show --json x86-*.json | jq .over_untranslated")]
pub(crate) struct LabShow {
    /// Toll sheets; each DMA path is compared with the untranslated one of the same machine and kernel
    #[arg(value_name = "SHEET.json", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) sheets: Vec<PathBuf>,
    /// Also write a self-contained HTML page with charts of what each DMA path adds to an I/O
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON document with schema iotoll.toll-sheets/4
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compare two toll sheets: which costs per I/O grew, and the stages and functions responsible
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll lab diff x86-vtd-lazy.json x86-vtd-strict.json
  iotoll lab diff 6.1.0-49.json 6.1.0-50.json --more-than 25 --more-than-percent 1

Exit status:
  0  no workload grew beyond the tolerance
  1  a workload's instructions or events (hypercalls, invalidations ...) per I/O grew beyond it
  2  error, or the sheets have no workload in common

Instructions are compared by the mean of the boots' medians. Events are compared by median and mean; a mean may \
always grow by one event in 100 I/Os. With several boots, a difference whose 95 % interval contains zero, or lies \
on its other side, may be chance: it counts neither as growth nor as shrunk. Where the machine has a price list, \
the difference of DMA stages and events is priced. Stages, functions and named events are listed to explain \
growth, but do not count as growth. Workloads in only one sheet are listed, and do not count.")]
pub(crate) struct LabDiff {
    /// Toll sheet before
    #[arg(value_name = "A.json", value_hint = ValueHint::FilePath)]
    pub(crate) a: PathBuf,
    /// Toll sheet after
    #[arg(value_name = "B.json", value_hint = ValueHint::FilePath)]
    pub(crate) b: PathBuf,
    #[command(flatten)]
    pub(crate) limit: GrowthLimit,
    /// Print one JSON document with schema iotoll.toll-diff/3
    #[arg(long)]
    pub(crate) json: bool,
}

/// The growth from one toll sheet to another that is tolerated.
#[derive(Debug, Args)]
pub(crate) struct GrowthLimit {
    /// Tolerate a growth of N instructions per I/O; fractions are allowed [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) more_than: Option<Tolerance>,
    /// Tolerate a growth of N events of each kind per I/O; fractions are allowed [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) more_events_than: Option<Tolerance>,
    /// Tolerate a growth of P percent of the instructions; the larger of this and --more-than applies [default: 0]
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub(crate) more_than_percent: Option<Tolerance>,
}

impl GrowthLimit {
    /// Whether the user gave any.
    pub(crate) fn is_given(&self) -> bool {
        self.more_than.is_some() || self.more_events_than.is_some() || self.more_than_percent.is_some()
    }
}

/// Compare results of watch, bench or lab: what each cost before and after, and what explains it
#[derive(Debug, Args)]
#[command(override_usage = "\
iotoll compare [OPTIONS] <BEFORE> <AFTER>
       iotoll compare [OPTIONS] --before <FILE>... --after <FILE>...")]
#[command(after_help = "\
Examples:
  sudo iotoll watch --json --seconds 30 > strict.json
  iotoll compare strict.json lazy.json
  iotoll compare --before strict-1.json strict-2.json strict-3.json --after lazy-*.json
  iotoll compare before.json after.json --html change.html
  iotoll compare x86-vtd-lazy.json x86-vtd-strict.json     toll sheets, as `iotoll lab diff`

All documents are of one kind: of `iotoll watch --json`, of one benchmark (`iotoll bench ... --json`), or toll sheets of \
`iotoll lab run -o`, one before and one after. Ratios have 95 % confidence intervals where the documents have at least five intervals or \
rounds. With three documents of each side or more, each of its own run, the intervals are from how much the runs differ (docs/guide/compare.md).

Exit status: 0; 1 if a count of toll sheets grew beyond the tolerance; 2 on errors.")]
pub(crate) struct Compare {
    /// Document before the change
    #[arg(value_name = "BEFORE", value_hint = ValueHint::FilePath, required_unless_present = "runs_before",
          conflicts_with_all = ["runs_before", "runs_after"])]
    pub(crate) before: Option<PathBuf>,
    /// Document after it
    #[arg(value_name = "AFTER", value_hint = ValueHint::FilePath, required_unless_present = "runs_before")]
    pub(crate) after: Option<PathBuf>,
    /// Documents before the change, each of its own run, up to 100
    #[arg(long = "before", value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., requires = "runs_after")]
    pub(crate) runs_before: Vec<PathBuf>,
    /// Documents after it
    #[arg(long = "after", value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., requires = "runs_before")]
    pub(crate) runs_after: Vec<PathBuf>,
    /// Also write a self-contained HTML page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON document with schema iotoll.compare/1; of toll sheets, iotoll.toll-diff/3
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten, next_help_heading = "Toll sheets")]
    pub(crate) limit: GrowthLimit,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    Blk(BenchBlk),
    Iova(BenchIova),
    Map(BenchMap),
    Memtype(BenchMemtype),
    Net(BenchNet),
    Transfer(BenchTransfer),
}

/// Count and time DMA mapping on the running kernel, by adapter, stage and I/O
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll watch
  sudo iotoll watch --adapter 0000:3b:00.0 -- fio --name=read --filename=/dev/nvme0n1 --readonly --rw=randread --runtime=10
  sudo iotoll watch --max-cores --seconds 300
  sudo iotoll watch --stacks --seconds 60

Changes nothing. BPF programs count calls of the kernel's DMA functions and their time; they end with iotoll, also if it is killed. \
Needs root, or CAP_BPF and CAP_PERFMON. Without these it shows only what adapters completed, says why, and exits with status 1.

With --stacks it attaches no program: the CPUs' counters of cycles interrupt each CPU at most 999 times a second, and all together at most 4,000 \
times, and the kernel's call stack then says which stage of DMA mapping was running. That costs nothing per I/O and changes no function, \
but tells neither adapters nor calls apart. Needs root, or CAP_PERFMON and CAP_SYSLOG, and counters whose interrupts also come where the \
kernel has its interrupts off; without these it says why, and exits with status 1.")]
pub(crate) struct Watch {
    /// PCI address of an adapter to show; can be repeated [default: all]
    #[arg(long = "adapter", value_name = "ADDRESS")]
    pub(crate) adapters: Vec<Bdf>,
    /// Seconds to watch [default: until COMMAND ends, or 10; 120 with --max-cores]
    #[arg(long, value_name = "N", value_parser = parse_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Count only part of the time, so that watching takes at most CORES of a core; for busy hosts [default CORES: 0.02]
    #[arg(
        long,
        value_name = "CORES",
        num_args = 0..=1,
        default_missing_value = "0.02",
        value_parser = parse_cores
    )]
    pub(crate) max_cores: Option<f64>,
    /// Seconds between two lines of each adapter
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seconds)]
    pub(crate) interval: f64,
    /// Sample call stacks instead of attaching programs to the kernel's functions
    #[arg(long, conflicts_with_all = ["prices", "max_cores"])]
    pub(crate) stacks: bool,
    /// Also write an HTML page: the course of time, and flame graphs of the kernel's functions
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write a price list of this host with the invalidations and hypercalls timed, for `iotoll inspect --prices` and
    /// `iotoll model run --prices`; FILE must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Print one JSON document with schema iotoll.watch/1
    #[arg(long)]
    pub(crate) json: bool,
    /// A command to run meanwhile
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Number and length of measured rounds.
#[derive(Debug, Args)]
pub(crate) struct Pace {
    /// Measured rounds, after the warm-up [default: 9]
    #[arg(long, value_name = "N", value_parser = parse_positive::<usize>)]
    pub(crate) rounds: Option<usize>,
    /// Length of a round [default: 5; blk 200, transfer 50]
    #[arg(long, value_name = "MS", value_parser = parse_positive::<u64>)]
    pub(crate) round_ms: Option<u64>,
}

/// An NVMe controller that a command drives.
#[derive(Debug, Args)]
pub(crate) struct NvmeController {
    /// Controller address (`iotoll blk list`)
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// The NVMe disk that a benchmark drives.
#[derive(Debug, Args)]
pub(crate) struct NvmeDisk {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Namespace (NSID); required if the controller has several
    #[arg(long, value_name = "N")]
    pub(crate) namespace: Option<u32>,
}

/// Compare reads and writes of a disk through the kernel and from user space: latency, rates, CPU time
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll blk list
  sudo iotoll bench blk 0000:3b:00.0 --unbind
  sudo iotoll bench blk 0000:3b:00.0 --unbind --depth 1,8,32 --size 4K --json
  sudo iotoll bench blk 0000:3b:00.0 --unbind --write --overwrite S4EVNX0R123456 --wipe gpt,ext4
  truncate -s 64M disk.img && iotoll bench blk ./disk.img --write --overwrite ./disk.img

The kernel's interfaces (pread, io_uring, io_uring with registered buffers, io_uring polled) are measured first. Then \
the adapter is unbound from the kernel's driver, used by iotoll's own driver, and rebound, even if iotoll is killed. A file or another block \
device is measured through the kernel alone.

Nothing is written without --write. With it each interface writes random data to random blocks after it has read them: ALL DATA ON THE DISK ARE \
LOST. As with `iotoll blk write`, --overwrite must name the disk and --wipe what is on it, and a disk in use is refused, before anything is measured.")]
#[command(group(ArgGroup::new("loss").args(["overwrite", "wipe", "accept_shared"]).multiple(true).requires("write")))]
#[command(mut_arg("target", |target| target.help(
    "Controller address (`iotoll blk list`), file or block device"
)))]
pub(crate) struct BenchBlk {
    #[command(flatten)]
    pub(crate) disk: DiskTarget,
    /// Also measure writes, which destroy the data on the disk
    #[arg(long)]
    pub(crate) write: bool,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// Queue depths, separated by commas [default: 1,8,32]
    #[arg(long = "depth", value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) depths: Vec<u16>,
    /// Size of each read and write [default: 4K]
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<Bytes>,
    #[command(flatten)]
    pub(crate) pace: Pace,
    /// Print one JSON document with schema iotoll.bench-blk/1
    #[arg(long)]
    pub(crate) json: bool,
}

/// Move data between an NVMe disk and memory of each kind, and check every byte
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll bench transfer 0000:3b:00.0
      the steps that would unbind it
  sudo iotoll bench transfer 0000:3b:00.0 --unbind
      ordinary DMA memory
  sudo iotoll bench transfer 0000:3b:00.0 --unbind --area 0x10000000+16M
      and an area that memmap=16M$0x10000000 reserves

The disk is not written. The adapter reads its blocks into memory, and the CPU compares each word with what the kernel read before; then \
the CPU stores them, and the adapter compares memory with its disk (NVMe's Compare). An area is mapped twice: its first half write-back, \
its second half uncached, or write-combining where an MTRR says so (`iotoll mtrr plan`).

Exit status 1: data differed.")]
pub(crate) struct BenchTransfer {
    #[command(flatten)]
    pub(crate) disk: NvmeDisk,
    /// A range that memmap=SIZE$BASE reserves, BASE+SIZE or BASE-LAST, to be OVERWRITTEN; x86 only. Not one that masks bad RAM
    #[arg(long = "area", value_name = "RANGE")]
    pub(crate) areas: Vec<PhysRange>,
    /// Size of each buffer; the CPU's caches should hold it [default: 1M]
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<Bytes>,
    /// Size of each command [default: 64K]
    #[arg(long, value_name = "BYTES")]
    pub(crate) command_size: Option<Bytes>,
    /// Commands in flight [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) depth: Option<u16>,
    /// First logical block (LBA) of the disk that is read
    #[arg(long, value_name = "BLOCK", default_value_t = 0)]
    pub(crate) first: u64,
    #[command(flatten)]
    pub(crate) pace: Pace,
    /// Print one JSON document with schema iotoll.bench-transfer/1
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Blk {
    List(BlkList),
    Read(BlkRead),
    Write(BlkWrite),
    Health(BlkHealth),
    Log(BlkLog),
    Test(BlkTest),
    Firmware(BlkFirmware),
    /// List, create, attach, detach and delete an NVMe controller's namespaces
    #[command(subcommand)]
    Namespace(BlkNamespace),
    Serve(BlkServe),
    #[command(hide = true)]
    Rebind(BlkRebind),
}

/// List NVMe controllers, their disks, and what prevents driving them from user space
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll blk list
  iotoll blk list --json")]
pub(crate) struct BlkList {
    /// Root of another host's /sys, /proc and /dev
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,
    /// Print one JSON document with schema iotoll.blk-list/1
    #[arg(long)]
    pub(crate) json: bool,
}

/// An adapter's disk, or a file in its place.
#[derive(Debug, Args)]
pub(crate) struct DiskTarget {
    /// Controller address (`iotoll blk list`), file (blocks of 4 KiB), block device (its own block size, at least 512 bytes), or, to read, the socket of `iotoll blk serve`
    #[arg(value_name = "ADDRESS|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) target: String,
    /// Namespace (NSID); required if the controller has several
    #[arg(long, value_name = "N")]
    pub(crate) namespace: Option<u32>,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// The disk that a command reads or writes.
#[derive(Debug, Args)]
pub(crate) struct BlkTarget {
    #[command(flatten)]
    pub(crate) disk: DiskTarget,
    /// Abort a command after this time; reset the controller after twice this time
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = parse_positive::<u64>)]
    pub(crate) timeout_ms: u64,
}

/// Risks that the user accepts.
#[derive(Debug, Args)]
pub(crate) struct Consent {
    /// Unbind the adapter from the kernel's driver while this command runs
    #[arg(long)]
    pub(crate) unbind: bool,
    /// Accept an adapter without an IOMMU: one wrong address can then overwrite any memory of this host
    #[arg(long)]
    pub(crate) accept_no_iommu: bool,
}

impl Consent {
    /// The risks, as the library has them.
    pub(crate) fn accepted(&self) -> Accepted {
        Accepted { unbind: self.unbind, no_iommu: self.accept_no_iommu }
    }
}

impl DiskTarget {
    /// Whether the target is a file: it contains a slash, as no PCI address does, or a file of that name exists.
    pub(crate) fn is_file(&self) -> bool {
        self.target.contains('/') || std::path::Path::new(&self.target).exists()
    }
}

/// Read blocks from user space, bypassing the kernel
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk read 0000:3b:00.0 --unbind --first 0 --blocks 8 | hexdump -C
  iotoll blk read ./disk.img --blocks 1 -o block.bin

Without --unbind, the steps that would unbind the adapter are printed, and nothing is done. An adapter is never unbound while a disk \
of it is mounted, used for swap, or part of another device (md, dm).")]
pub(crate) struct BlkRead {
    #[command(flatten)]
    pub(crate) target: BlkTarget,
    /// First block
    #[arg(long, value_name = "BLOCK", default_value_t = 0)]
    pub(crate) first: u64,
    /// Number of blocks [default: up to the end]
    #[arg(long, value_name = "N")]
    pub(crate) blocks: Option<u64>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// The data that the user allows to be overwritten.
#[derive(Debug, Args)]
pub(crate) struct Overwrite {
    /// Confirm the disk to be overwritten: the controller's serial number (`iotoll blk list`), or the file's path
    #[arg(long, value_name = "SERIAL|PATH")]
    pub(crate) overwrite: Option<String>,
    /// Confirm the data to be lost: all types found on the disk, as listed without this option, such as gpt,ext4
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub(crate) wipe: Vec<String>,
    /// Write even if another controller or host may share the namespace
    #[arg(long)]
    pub(crate) accept_shared: bool,
}

/// Write a file to blocks from user space, flush, and verify by reading back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk write 0000:3b:00.0 --unbind --overwrite S4EVNX0R123456 --wipe gpt,ext4 --first 0 -i image.bin
  zstd -dc image.zst | iotoll blk write ./disk.img --overwrite ./disk.img --first 0 -i -

The previous content of the blocks is lost. Without --overwrite nothing is written, and the data on the disk and the options to add are \
printed. A disk is never written while it is in use: mounted in any mount namespace, used for swap, behind a loop device, part of another \
device (md, dm), open exclusively, locked by another program, or open for writing. The input is read in pieces of 4 MiB; a pipe is read to \
its end, or up to the number of blocks in --blocks.")]
pub(crate) struct BlkWrite {
    #[command(flatten)]
    pub(crate) target: BlkTarget,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// First block
    #[arg(long, value_name = "BLOCK")]
    pub(crate) first: u64,
    /// Number of blocks [default: all of the input]
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) blocks: Option<u64>,
    /// Input file, whole blocks; - for standard input
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
}

/// Drive a controller for other processes, which open the disk by the path of a socket
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk serve 0000:3b:00.0 --unbind
  sudo iotoll blk serve 0000:3b:00.0 --unbind --overwrite S4EVNX0R123456 --share /run/one=0+1000000 --share /run/other=1000000+1000000
  sudo iotoll blk serve 0000:3b:00.0+0000:5e:00.0 --unbind --wait interrupt
  iotoll blk serve emulated:65536 --share ./disk

Several controllers of one subsystem are paths to a namespace that they share: when one is lost, requests go on through the others. Programs of iotoll's block library (`cblk_open`) name a socket as they name a file. A process reaches only the blocks of its share and its own memory: \
this command checks each request and copies its data. Without --overwrite a disk of this host can only be read. emulated:BLOCKS, or emulated:BLOCKSxPATHS for several controllers, can be written; its blocks have 4 KiB, and are \
lost at the end.")]
pub(crate) struct BlkServe {
    #[command(flatten)]
    pub(crate) disk: NvmeDisk,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// Serve these blocks of the namespace, or all, at this socket; may be given several times [default: all at /run/iotoll/ADDRESS]
    #[arg(long = "share", value_name = "SOCKET[=FIRST+BLOCKS]", value_hint = ValueHint::FilePath, value_parser = parse_share)]
    pub(crate) shares: Vec<ShareArgument>,
    /// How threads wait for the controller
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ServeWait::Poll)]
    pub(crate) wait: ServeWait,
    /// Threads, each with a queue of the controller
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_serving_threads)]
    pub(crate) threads: usize,
    /// Most queues of each share's clients: one for each of their threads that does I/O
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_positive::<usize>)]
    pub(crate) queues: usize,
}

/// How a thread that serves waits for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeWait {
    /// By polling: the CPU of each is busy while its commands are in flight
    Poll,
    /// By polling for some 20 us, and then until the controller's interrupt, of which each completion makes one
    Interrupt,
}

impl BlkServe {
    /// Whether clients may write.
    pub(crate) fn is_writable(&self) -> bool {
        self.overwrite.overwrite.is_some()
    }
}

/// A part of a disk that is served at a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShareArgument {
    /// The socket's path.
    pub(crate) socket: PathBuf,
    /// First block and number; `None` for all.
    pub(crate) blocks: Option<(u64, u64)>,
}

/// Parses a socket's path, and perhaps blocks after the last `=`.
fn parse_share(text: &str) -> Result<ShareArgument, String> {
    let (socket, blocks) = match text.rsplit_once('=') {
        None => (text, None),
        Some((socket, blocks)) => {
            let numbers = blocks.split_once('+');
            let numbers = numbers.and_then(|(first, count)| Some((first.parse().ok()?, count.parse().ok()?)));
            (socket, Some(numbers.ok_or("expected SOCKET or SOCKET=FIRST+BLOCKS, with blocks as numbers")?))
        }
    };
    if socket.is_empty() {
        return Err("expected a socket's path".to_owned());
    }
    Ok(ShareArgument { socket: socket.into(), blocks })
}

/// Most threads that serve.
const SERVING_THREADS_MAX: usize = 64;

/// Parses a number of threads that serve.
fn parse_serving_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=SERVING_THREADS_MAX).contains(threads));
    threads.ok_or_else(|| format!("expected 1 to {SERVING_THREADS_MAX}"))
}

/// Show what is wrong with an NVMe disk, and its SMART counters
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk health 0000:3b:00.0 --unbind
  sudo iotoll blk health 0000:3b:00.0 --unbind --json

The SMART / Health Information log of the whole controller. Problems are first, then the numbers.

Exit status: 1 if the controller sets a critical warning, 0 if it sets none, 2 on errors.")]
pub(crate) struct BlkHealth {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Print one JSON document with schema iotoll.blk-health/1
    #[arg(long)]
    pub(crate) json: bool,
}

/// Have an NVMe controller test itself and its media
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk test 0000:3b:00.0 --unbind
  sudo iotoll blk test 0000:3b:00.0 --unbind --extended
  sudo iotoll blk test 0000:3b:00.0 --unbind --abort

A short test takes two minutes at most. An extended one takes as long as the controller says, and continues after this command was \
interrupted; the same command then follows it. Interrupting a short test ends it. A self-test changes no data.

Exit status: 0 passed, 1 failed or aborted, 2 on errors.")]
pub(crate) struct BlkTest {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Run the extended test, or follow the one that is running
    #[arg(long)]
    pub(crate) extended: bool,
    /// Abort the test that is running
    #[arg(long, conflicts_with = "extended")]
    pub(crate) abort: bool,
}

/// Show an NVMe controller's firmware slots, or replace its firmware
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk firmware 0000:3b:00.0 --unbind
      what is in each slot
  sudo iotoll blk firmware 0000:3b:00.0 --unbind --image new.bin --slot 2 --activate now --replace S4EVNX0R123456
      write an image to a slot and activate it

Without --replace nothing is sent, and the disk whose firmware would be replaced is printed. With `--activate at-reset` the image becomes \
active when this command ends, because the adapter is then reset and returns to the kernel's driver. The image must be the vendor's own for \
this model: the controller alone decides whether it accepts it. Signals are obeyed when the update has ended; do not cut the power before.

Exit status: 1 if the image is not active, or will not be after the reset at the end, 0 otherwise, 2 on errors.")]
pub(crate) struct BlkFirmware {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Firmware image to write to a slot
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "activate")]
    pub(crate) image: Option<PathBuf>,
    /// Slot for the image [default: the only one that can be written, or the first empty one]
    #[arg(long, value_name = "N", requires = "image", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub(crate) slot: Option<u8>,
    /// When the image becomes active
    #[arg(long, value_name = "WHEN", requires = "image")]
    pub(crate) activate: Option<ActivateWhen>,
    /// Confirm the disk whose firmware is replaced: the controller's serial number
    #[arg(long, value_name = "SERIAL", requires = "image")]
    pub(crate) replace: Option<String>,
}

/// When a firmware image becomes active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ActivateWhen {
    /// Without a reset, if the controller can
    Now,
    /// At the next reset of the controller
    AtReset,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BlkNamespace {
    List(BlkNamespaceList),
    Create(BlkNamespaceCreate),
    Attach(BlkNamespaceAttach),
    Detach(BlkNamespaceDetach),
    Delete(BlkNamespaceDelete),
}

/// Show which namespaces a controller's subsystem has, and which controllers each is attached to
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk namespace list 0000:3b:00.0 --unbind
  sudo iotoll blk namespace list 0000:3b:00.0 --unbind --json
  iotoll blk namespace list emulated:65536

An emulated controller has one namespace of so many blocks of 4 KiB, and as much again that is unallocated. All of it is lost at the end.")]
pub(crate) struct BlkNamespaceList {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Print one JSON document with schema iotoll.blk-namespaces/1
    #[arg(long)]
    pub(crate) json: bool,
}

/// Create a namespace from unallocated capacity
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk namespace create 0000:3b:00.0 --unbind --blocks 26214400 --attach
  sudo iotoll blk namespace create 0000:3b:00.0 --unbind --blocks 26214400 --block-bytes 512 --shared
  iotoll blk namespace create emulated:65536 --blocks 4096

No other namespace is changed. Without --attach no controller has the new one before `iotoll blk namespace attach`.")]
pub(crate) struct BlkNamespaceCreate {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Size in blocks
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) blocks: u64,
    /// Bytes of a block; `iotoll blk namespace list` shows those that the controller has
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    pub(crate) block_bytes: u64,
    /// Let several controllers attach it at once
    #[arg(long)]
    pub(crate) shared: bool,
    /// Attach it to this controller
    #[arg(long)]
    pub(crate) attach: bool,
}

/// Attach a namespace to controllers of the subsystem
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk namespace attach 0000:3b:00.0 --unbind --namespace 2
  sudo iotoll blk namespace attach 0000:3b:00.0 --unbind --namespace 2 --controller 0,1

The kernel finds the namespace when this command ends, because the adapter then returns to its driver.")]
pub(crate) struct BlkNamespaceAttach {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Namespace (NSID)
    #[arg(long, value_name = "N")]
    pub(crate) namespace: u32,
    /// Controllers by their identifier (CNTLID) [default: this one]
    #[arg(long = "controller", value_name = "IDS", value_delimiter = ',')]
    pub(crate) controllers: Vec<u16>,
}

/// Detach a namespace from controllers of the subsystem; its data stay
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk namespace detach 0000:3b:00.0 --unbind --namespace 2
  sudo iotoll blk namespace detach 0000:3b:00.0 --unbind --namespace 2 --controller 1 --accept-shared

Who uses the namespace through another controller is not known here: I/O there fails from then on. So another controller needs --accept-shared.")]
pub(crate) struct BlkNamespaceDetach {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Namespace (NSID)
    #[arg(long, value_name = "N")]
    pub(crate) namespace: u32,
    /// Controllers by their identifier (CNTLID) [default: this one]
    #[arg(long = "controller", value_name = "IDS", value_delimiter = ',')]
    pub(crate) controllers: Vec<u16>,
    /// Detach it from other controllers, whose users lose it
    #[arg(long)]
    pub(crate) accept_shared: bool,
}

/// Delete a namespace with its data
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk namespace delete 0000:3b:00.0 --unbind --namespace 2
  sudo iotoll blk namespace delete 0000:3b:00.0 --unbind --namespace 2 --overwrite S4EVNX0R123456 --wipe ext4

All data of the namespace are lost. Without --overwrite nothing is deleted, and what would be lost and the options to add are printed. What is on a \
namespace that is not attached to this controller is not known: attach it to see. One that is attached to another controller is not deleted: \
detach it there.")]
pub(crate) struct BlkNamespaceDelete {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Namespace (NSID)
    #[arg(long, value_name = "N")]
    pub(crate) namespace: u32,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
}

/// Show a controller's identity and its error log, and what the errors mean
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo iotoll blk log 0000:3b:00.0 --unbind
  sudo iotoll blk log 0000:3b:00.0 --unbind --json

Exit status: 1 if the log has entries, 0 if it has none, 2 on errors.")]
pub(crate) struct BlkLog {
    #[command(flatten)]
    pub(crate) controller: NvmeController,
    /// Print one JSON document with schema iotoll.blk-log/1
    #[arg(long)]
    pub(crate) json: bool,
}

/// Wait until standard input ends, then rebind an adapter to its previous driver
#[derive(Debug, Args)]
pub(crate) struct BlkRebind {
    /// PCI address of the adapter
    pub(crate) address: String,
    /// Previous driver, - for none
    #[arg(allow_hyphen_values = true)]
    pub(crate) driver: String,
    /// Previous driver_override, - for none
    #[arg(allow_hyphen_values = true)]
    pub(crate) driver_override: String,
    /// Process ID of the parent, which drives the adapter
    pub(crate) parent: u32,
}

/// Measure memory accesses: cached, flushed, non-temporal, and to an adapter's BAR
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll bench memtype
  sudo iotoll bench memtype --bar /sys/bus/pci/devices/0000:3b:00.0/resource2 \\
                            --bar /sys/bus/pci/devices/0000:3b:00.0/resource2_wc

The process's own memory is write-back. The flushed accesses write each cache line back, as software does that keeps a buffer \
coherent itself. An adapter's memory is uncached through resourceN and write-combining through resourceN_wc, which exists for \
prefetchable BARs. Name only BARs that are memory: reading registers may change an adapter's state.")]
pub(crate) struct BenchMemtype {
    /// Working set sizes up to 1024M, separated by commas [default: 16K to 64M]
    #[arg(long = "size", value_name = "BYTES", value_delimiter = ',')]
    pub(crate) sizes: Vec<Bytes>,
    /// Also measure the first 64 KiB of a BAR: a file resourceN or resourceN_wc; may be repeated
    #[arg(long = "bar", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) bars: Vec<PathBuf>,
    /// Also write to the BAR, which overwrites its content
    #[arg(long, requires = "bars")]
    pub(crate) bar_stores: bool,
    /// Measure the BAR even if a driver is bound to the adapter
    #[arg(long, requires = "bars", conflicts_with = "bar_stores")]
    pub(crate) in_use: bool,
    #[command(flatten)]
    pub(crate) pace: Pace,
    /// Print one JSON document with schema iotoll.bench-memtype/1
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure the network to another host: requests and answers over UDP and TCP, streams over TCP, and the CPU time of both hosts
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  head -c 32 /dev/urandom | base64 > net.secret; chmod 600 net.secret; scp -p net.secret other:
  iotoll bench net --listen 192.0.2.2 --secret net.secret            on one host, until Ctrl-C
  iotoll bench net 192.0.2.2 --secret net.secret --html net.html     on the other
  iotoll bench net 192.0.2.2 --secret net.secret --test tcp-rr --size 1,1K --instances 1,16 --json
  iotoll bench net 192.0.2.2 --secret net.secret --profile experiments/uperf/udp-rr.xml --set n=8 --set size=64

A round trip is an application's: from before it sends to after it has received. Each instance is a thread with a socket and one \
message in flight, so latencies are service times under this load. Cells take turns round by round.

--listen opens TCP port 9417 (or PORT) of ADDRESS, and UDP ports that the kernel chooses during tests over UDP. Only who knows the secret \
is served, one client at a time; its traffic is not encrypted. It needs no root.")]
pub(crate) struct BenchNet {
    /// Host that listens, by name or address
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "listen",
          conflicts_with_all = ["listen", "seconds_max", "instances_max", "once"])]
    pub(crate) host: Option<HostPort>,
    /// Serve tests on this address of this host instead; there is no default
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub(crate) listen: Option<ListenAddress>,
    /// File with the secret that both hosts share, with mode 600: 16 bytes or more
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) secret: PathBuf,
    /// Tests, separated by commas: udp-rr, tcp-rr, tcp-stream [default: udp-rr,tcp-stream]
    #[arg(long = "test", value_name = "NAME", value_delimiter = ',', conflicts_with = "listen")]
    pub(crate) tests: Vec<NetTest>,
    /// Sizes of a message, separated by commas: 16 to 65507 over UDP, up to 1M over TCP [default: 64,256,1K,4K,8K]
    #[arg(long = "size", value_name = "BYTES", value_delimiter = ',', conflicts_with = "listen")]
    pub(crate) sizes: Vec<Bytes>,
    /// Numbers of instances, separated by commas, up to 1024 [default: 1,2,4,8,50]
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "listen", value_parser = parse_instances)]
    pub(crate) instances: Vec<u16>,
    /// Measured rounds [default: 7, of a profile 3]
    #[arg(long, value_name = "N", conflicts_with = "listen", value_parser = parse_positive::<usize>)]
    pub(crate) rounds: Option<usize>,
    /// Seconds of a round, after 0.1 s of warm-up [default: 0.5]
    #[arg(long, value_name = "S", conflicts_with = "listen", value_parser = parse_seconds)]
    pub(crate) seconds: Option<f64>,
    /// uperf profile to run instead of tests: its threads, sizes, duration and socket options; $h is HOST
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["listen", "tests", "sizes", "instances", "seconds"])]
    pub(crate) profile: Option<PathBuf>,
    /// Variable of the profile, which uperf itself reads from the environment
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "profile",
          conflicts_with_all = ["tests", "sizes", "instances", "seconds"], value_parser = parse_variable)]
    pub(crate) variables: Vec<(String, String)>,
    /// Two hosts, as for `iotoll model run`, to which the same profile is given; its answer stands beside what was measured
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "profile",
          conflicts_with_all = ["listen", "tests", "sizes", "instances", "seconds"])]
    pub(crate) model: Option<PathBuf>,
    /// Longest round to serve, with its warm-up
    #[arg(long, value_name = "S", requires = "listen", default_value = "65", help_heading = "Server", value_parser = parse_serve_seconds)]
    pub(crate) seconds_max: f64,
    /// Most instances to serve
    #[arg(long, value_name = "N", requires = "listen", default_value = "1024", help_heading = "Server", value_parser = parse_instances)]
    pub(crate) instances_max: u16,
    /// End after the first client
    #[arg(long, requires = "listen", help_heading = "Server")]
    pub(crate) once: bool,
    /// Print one JSON document with schema iotoll.bench-net/1, with all rounds
    #[arg(long, conflicts_with = "listen")]
    pub(crate) json: bool,
    /// Also write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "listen")]
    pub(crate) html: Option<PathBuf>,
}

/// Parses a number of instances.
fn parse_instances(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=INSTANCES_MAX).contains(number));
    number.ok_or_else(|| format!("expected 1 to {INSTANCES_MAX}"))
}

/// Parses the seconds that a server allows.
fn parse_serve_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds from 0.01 to 3600".to_owned())
}

/// Measure mapping and unmapping, by DMA path and size
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll bench map
  iotoll bench map --dma-path translated-strict,tce-window --size 4K,2M --json
  iotoll bench map --threads 1,2,4,8,16,32,64,128,256,512,1024 --html threads.html

DMA paths modelled in this process: no-iommu, direct-window, bounce, translated-lazy,
translated-strict, translated-strict-amd, translated-strict-smmu, tce-window. A model writes the \
translation tables that hardware would read. Its hypercalls and invalidations are function calls, \
without the time of a trap or a wait. The host's own IOMMU is measured with every adapter that is \
bound to vfio-pci and may be opened.

With --threads, threads map and unmap at once: by each allocator with tables and without, by tables alone, mapped once, \
and by requests to a thread that stands in for the host. These contestants take turns round by round.")]
pub(crate) struct BenchMap {
    /// Measure only these software DMA paths, separated by commas [default: all]
    // clap drops `requires = "threads"` where `threads` conflicts with what is given, so each option of threads is named.
    #[arg(long = "dma-path", value_name = "NAME", value_delimiter = ',',
          conflicts_with_all = ["threads", "contestants", "peers", "pairs", "pin", "html", "svg"])]
    pub(crate) dma_paths: Vec<String>,
    /// Mapping sizes up to 2M, separated by commas [default: 4K to 2M]; one up to 1M with --threads [default: 4K]
    #[arg(long = "size", value_name = "BYTES", value_delimiter = ',')]
    pub(crate) sizes: Vec<Bytes>,
    /// Compare contestants with these numbers of threads instead, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_thread_count)]
    pub(crate) threads: Vec<usize>,
    /// Measure only these contestants, built-in or peers, separated by commas [default: all]
    #[arg(long = "contestant", value_name = "NAME", value_delimiter = ',', requires = "threads")]
    pub(crate) contestants: Vec<String>,
    /// Add the allocator of a shared library under this name, with tables and without
    #[arg(long = "peer", value_name = "NAME=LIB.so", value_hint = ValueHint::FilePath, requires = "threads")]
    pub(crate) peers: Vec<PeerFile>,
    #[command(flatten)]
    pub(crate) pace: Pace,
    /// Also write a price list of this host with the time of an instruction, if the CPU can count them, and of a copied byte, for
    /// `iotoll inspect --prices` and `iotoll model run --prices`; FILE must not exist
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["threads", "contestants", "peers", "pairs", "pin", "html", "svg"])]
    pub(crate) prices: Option<PathBuf>,
    /// Pairs per round of all threads, instead of --round-ms
    #[arg(long, value_name = "N", conflicts_with = "round_ms", requires = "threads", value_parser = parse_positive::<u64>)]
    pub(crate) pairs: Option<u64>,
    /// Pin each thread to a CPU
    #[arg(long, requires = "threads")]
    pub(crate) pin: bool,
    /// Print one JSON document with schema iotoll.bench-map/2, or iotoll.bench-map-threads/1 with --threads
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a self-contained HTML page that plots time against threads
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "threads")]
    pub(crate) html: Option<PathBuf>,
    /// Also write the plot alone, as an SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "threads")]
    pub(crate) svg: Option<PathBuf>,
}

/// Measure IOVA allocators with real threads
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll bench iova --quick
  iotoll bench iova --scenario pairs --threads 1,2,4,8,16,32,64 --html pairs.html
  iotoll bench iova --peer mine=./libmine.so --baseline mine --json > mine.json

The allocators (contestants) take turns round by round in one process, so ratios are reliable on a noisy machine; times are less so. \
Scenarios: pairs, held, handoff, network, storage, full, full-large, bursts, drift.
Other allocators can be added through the C interface crates/bench/include/iotoll_iova_peer.h.

Exit status: 1 if an allocation failed although enough pages were free; 0 if none; 2 on errors.")]
pub(crate) struct BenchIova {
    /// Scenarios, separated by commas [default: all]
    #[arg(long = "scenario", value_name = "NAME", value_delimiter = ',')]
    pub(crate) scenarios: Vec<Scenario>,
    /// Thread counts to measure [default: 1, 2, 4 ... up to 4 per CPU]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_thread_count)]
    pub(crate) threads: Vec<usize>,
    /// Measure only these allocators, built-in or peers, separated by commas [default: all]
    #[arg(long = "contestant", value_name = "NAME", value_delimiter = ',')]
    pub(crate) contestants: Vec<String>,
    /// Add the allocator of a shared library under this name
    #[arg(long = "peer", value_name = "NAME=LIB.so", value_hint = ValueHint::FilePath)]
    pub(crate) peers: Vec<PeerFile>,
    /// Baseline of the comparison [default: a peer named linux, else magazine, else the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Finish within seconds: fewer and shorter rounds, two thread counts
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measured rounds, after the warm-up; at least 16 for scenario drift [default: 11, quick 5]
    #[arg(long, value_name = "N", value_parser = parse_positive::<usize>)]
    pub(crate) rounds: Option<usize>,
    /// Length of a round; longer with hundreds of threads [default: 50, quick 4]
    #[arg(long, value_name = "MS", value_parser = parse_positive::<u64>)]
    pub(crate) round_ms: Option<u64>,
    /// Allocate/free pairs per round, instead of --round-ms: 1000000 in Cascardo's talk of 2013
    #[arg(long, value_name = "N", conflicts_with = "round_ms", value_parser = parse_positive::<u64>)]
    pub(crate) pairs: Option<u64>,
    /// Ranges that each thread holds in scenarios that hold ranges; fewer if they do not fit [default: 256]
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) held: Option<u64>,
    /// Pages of a burst; fewer if they do not fit [default: 64]
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) burst: Option<u64>,
    /// IOVA bits: log2 of the window's size
    #[arg(long, value_name = "BITS", default_value = "32", value_parser = clap::value_parser!(u32).range(28..=64))]
    pub(crate) bits: u32,
    /// Pin each thread to a CPU
    #[arg(long)]
    pub(crate) pin: bool,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Print one JSON document with schema iotoll.bench/1, with all rounds
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a self-contained HTML page that plots time against threads
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
}

/// Parses a thread count.
fn parse_thread_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=Settings::THREADS_MAX) => Ok(threads),
        _ => Err(format!("expected 1 to {}", Settings::THREADS_MAX)),
    }
}

/// A share of a core.
fn parse_cores(text: &str) -> Result<f64, String> {
    let cores = text.parse().ok().filter(|cores| (0.001..=1.0).contains(cores));
    cores.ok_or_else(|| "expected a share of a core from 0.001 to 1".to_owned())
}

/// Parses seconds, a hundredth to a year.
fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=31_557_600.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds from 0.01 to 31557600".to_owned())
}

/// Parses a number that must not be zero.
fn parse_positive<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number: &T| *number >= T::from(1));
    number.ok_or_else(|| "expected 1 or more".to_owned())
}

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iotoll complete bash > /etc/bash_completion.d/iotoll
  iotoll complete zsh > ~/.zfunc/_iotoll")]
pub(crate) struct Complete {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages to a folder
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

/// Parses a variable of a uperf profile. Names are case-insensitive and may begin with `$`.
fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim_start_matches('$').to_ascii_lowercase(), value.to_owned()))
}

/// Parses a parameter of a study and its number.
fn parse_parameter(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let value = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
    Ok((name.to_owned(), value))
}
