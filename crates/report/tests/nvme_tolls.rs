//! The page that compares ways to an NVMe disk, `docs/studies/nvme-tolls.md`, is made from the toll sheets.
//!
//! `IOTOLL_UPDATE=1 cargo test -p iotoll-report --test nvme_tolls` writes it anew.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/sheets.rs"]
mod sheets;

use sheets::sheets;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use toll::{Event, Toll, TollSheet, grouped};

/// Ways to read 4 KiB: words, workload.
const USUAL: [(&str, &str); 3] = [
    ("`pread`, one at a time", SYNCHRONOUS),
    ("io_uring, side by side", "nvme-uring-read-4k-plain"),
    ("io_uring, registered, side by side", "nvme-uring-read-4k-registered"),
];
const OTHERS: [(&str, &str); 6] = [
    ("io_uring, registered and polled, side by side", "nvme-uring-read-4k-polled"),
    ("`NVME_IOCTL_IO_CMD`, one at a time", "nvme-read-4k-passthru"),
    ("io_uring", "nvme-uring-scattered-read-4k-plain"),
    ("io_uring, registered", "nvme-uring-scattered-read-4k-registered"),
    ("io_uring, registered and polled", POLLED),
    ("io_uring, NVMe passthrough", "nvme-uring-read-4k-passthru"),
];
const LIBRARYS: [(&str, &str); 4] = [
    ("our library, one at a time", ALONE),
    ("our library", BATCHED),
    ("its C interface, one at a time", C_ALONE),
    ("its C interface", C_BATCHED),
];
const SYNCHRONOUS: &str = "nvme-read-4k";
const POLLED: &str = "nvme-uring-scattered-read-4k-polled";
const ALONE: &str = "nvme-read-4k-user";
const BATCHED: &str = "nvme-read-4k-user-32";
const C_ALONE: &str = "nvme-read-4k-queue";
const C_BATCHED: &str = "nvme-read-4k-queue-32";

/// The DMA path on which all ways are compared.
const STRICT: &str = "x86-vtd-strict";
const USER: &str = "x86-vtd-user";
const STRICT_WAYS: &str = "x86-vtd-strict-ways";
/// DMA paths on which the kernel's ways are compared.
const DMA_PATHS: [&str; 4] = ["x86-no-iommu", "x86-vtd-identity", "x86-vtd-lazy", STRICT];

/// The kernel's ways on a DMA path: words, preset, workload.
fn of_the_kernel(dma_path: &str) -> impl Iterator<Item = (&'static str, String, &'static str)> {
    let on = |preset: String| move |(words, workload)| (words, preset.clone(), workload);
    USUAL
        .into_iter()
        .map(on(dma_path.to_owned()))
        .chain(OTHERS.into_iter().map(on(format!("{dma_path}-ways"))))
}

/// The aims: the most instructions of an I/O of the library in a batch and alone, and by which factor the first is below `pread`.
const INSTRUCTIONS_MAX: f64 = 150.0;
const ALONE_MAX: f64 = 250.0;
const TIMES_LESS: f64 = 12.0;

const HEAD: &str = "\
# What ways to an NVMe disk cost

**Question.** What does the CPU pay for one read of 4 KiB from an NVMe disk behind an IOMMU: through the kernel's system calls, through
io_uring, past the block layer, and with a driver in the process itself?

**Method.** As for [all toll sheets](../internals/lab.md): a stock kernel in QEMU, instructions and events between marks, the same plugin for
all ways. The library [`nvme`](../internals/nvme.md) runs in a program in the guest (`lab-guest`), over VFIO, with VT-d on; the kernel's driver
is unbound from the disk. Batches are 32 reads.

- Of the kernel's ways, the system call is counted. The program's code that fills io_uring's entries and reaps its completions is left out.
- Of the library, everything is counted that a read needs: building and submitting commands, the doorbell, reaping completions, and their
  doorbell. Left out is what a program does once per buffer or now and then: allocating and mapping memory (the test checks that none happens
  meanwhile), `Buffer::piece`, which returns a part of a buffer, and the ticks that find commands which time out.
- The C interface is `iotoll_queue_read`, `iotoll_queue_submit` and `iotoll_queue_poll` of the [block library](../guide/block.md), called through
  pointers. Its window begins and pauses as that of the library. `Buffer::piece` is counted, since each call gets an offset.
- Waiting is not counted, and polls are counted separately. The library's window pauses from the doorbell until all completions are there, so
  one poll finds them. The kernel that polls is held at its first poll for the same reason. How often either would poll depends on the
  disk. Ways with interrupts idle meanwhile.
- From reads side by side the block layer makes one command of 128 KiB; in all other ways each read is a command. NVMe passthrough commands are
  never merged.

Commands:

    iotoll lab run x86-vtd-user x86-vtd-strict x86-vtd-strict-ways -o data/tolls
    IOTOLL_UPDATE=1 cargo test -p iotoll-report --test nvme_tolls                   # this page, from the sheets
    iotoll lab run x86-vtd-user --flame docs/studies/nvme-tolls/flame.svg            # without the loop's

**Result.** Per read, medians: instructions, and how often each event happened.

";

const LIMITS: &str = "
**Limits.** These are instructions, not time: see [how counts are made](../internals/lab.md). The library's counts depend on this program's
release build and on what rustc inlines; a sheet lists them by function. A process that polls keeps its CPU busy while it waits; a process that
sleeps does not. For comparison: libvfn, a library of the same kind in C, took 511 instructions in user mode for a read, in batches of 32 and
counted the same way. No sheet of that is kept here.
";

fn toll<'s>(sheets: &'s [TollSheet], preset: &str, workload: &str) -> Option<&'s Toll> {
    sheets.iter().find(|sheet| sheet.preset == preset)?.toll(workload)
}

fn per_io(toll: &Toll, count: u64) -> String {
    grouped(toll.per_io(count).round() as u64)
}

fn times(toll: &Toll, event: Event) -> String {
    let Some(tally) = toll.events.get(&event) else { return "not counted".to_owned() };
    match toll.per_io(tally.all.median) {
        whole if whole.fract() == 0.0 => format!("{whole}"),
        part => format!("{part:.2}"),
    }
}

fn ways(sheets: &[TollSheet]) -> String {
    let events = [
        Event::Hypercalls,
        Event::Invalidations,
        Event::TableEntries,
        Event::Doorbells,
        Event::Interrupts,
        Event::Polls,
        Event::StringIterations,
    ];
    let mut table = "| way | instructions | kernel | user |".to_owned();
    events.iter().for_each(|event| write!(table, " {event} |").unwrap());
    write!(table, "\n|---|{}\n", "---:|".repeat(3 + events.len())).unwrap();
    let librarys = LIBRARYS.into_iter().map(|(words, workload)| (words, USER.to_owned(), workload));
    for (words, preset, workload) in of_the_kernel(STRICT).chain(librarys) {
        let toll = toll(sheets, &preset, workload).unwrap();
        write!(table, "| {words} |").unwrap();
        [toll.instructions.median, toll.kernel, toll.user]
            .iter()
            .for_each(|count| write!(table, " {} |", per_io(toll, *count)).unwrap());
        events.iter().for_each(|event| write!(table, " {} |", times(toll, *event)).unwrap());
        table.push('\n');
    }
    table
}

fn aims(sheets: &[TollSheet]) -> String {
    let toll = |preset, workload| toll(sheets, preset, workload).unwrap();
    let library = toll(USER, BATCHED);
    let of = |toll: &Toll| toll.per_io(toll.instructions.median);
    let less = of(toll(STRICT, SYNCHRONOUS)) / of(library);
    let like_for_like = |words: &str, kernels: &Toll, librarys: &Toll| {
        let [of_kernel, of_library] = [kernels, librarys].map(|toll| per_io(toll, toll.instructions.median));
        format!("{words}, {of_kernel} instructions are {:.1} times {of_library}", of(kernels) / of(librarys))
    };
    let alone = like_for_like("one at a time", toll(STRICT, SYNCHRONOUS), toll(USER, ALONE));
    let batched = like_for_like("batched and polled", toll(STRICT_WAYS, POLLED), library);
    let is_met = |met| if met { "met" } else { "not met yet" };
    format!(
        "\n**Aims.**\n\n- A read of the library takes at most {INSTRUCTIONS_MAX} instructions in a batch, and {ALONE_MAX} alone: {}, with {:.0} and {:.0}.\n\
         - It takes {TIMES_LESS} times fewer than `pread`: {}, with {less:.1}. That compares a batch with one read at a time. Like for like,\n  {alone}; {batched}.\n\
         - It needs no invalidation, no table entry and no hypercall: {}.\n",
        is_met(of(library) <= INSTRUCTIONS_MAX && of(toll(USER, ALONE)) <= ALONE_MAX),
        of(library),
        of(toll(USER, ALONE)),
        is_met(less >= TIMES_LESS),
        is_met(
            [Event::Invalidations, Event::TableEntries, Event::Hypercalls]
                .iter()
                .all(|event| library.events.get(event).is_some_and(|tally| tally.all.total == 0))
        ),
    )
}

/// What the C interface adds, and where its instructions are.
fn c_interface(sheets: &[TollSheet]) -> String {
    let [alone, batched] = [C_ALONE, C_BATCHED].map(|workload| toll(sheets, USER, workload).unwrap());
    let added = |c: &Toll, rust: &str| {
        let rust = toll(sheets, USER, rust).unwrap();
        c.per_io(c.instructions.median) - rust.per_io(rust.instructions.median)
    };
    let mut text = format!(
        "\n**The C interface** adds {:.0} instructions to a read in a batch and {:.0} to one alone. No compiler moves its functions into their \
         caller, as rustc does\nwith the library's. So arguments and results are moved, and registers saved, and what one call knows the \
         next looks up again.\n\n| function | one at a time | in a batch |\n|---|---:|---:|\n",
        added(batched, BATCHED),
        added(alone, ALONE)
    );
    for (name, count) in &alone.functions {
        let of_batch = batched.functions.get(name).copied().unwrap_or_default();
        writeln!(text, "| `{name}` | {:.1} | {:.1} |", alone.per_io(*count), batched.per_io(of_batch))
            .unwrap();
    }
    text
}

/// Flame graphs of the library's instructions, each from one run.
fn flames(sheets: &[TollSheet]) -> String {
    let mut text = "\nThe library's instructions by function, for one read at a time and for a batch. rustc inlines most functions into their callers; what\n\
                    remains is `read_batch`, the loop that submits reads and reaps completions. The C interface's functions stay functions.\n"
        .to_owned();
    for (words, workload) in LIBRARYS {
        let file = format!("nvme-tolls/flame-{USER}-{workload}.svg");
        let drawn = fs::read_to_string(docs().join(&file)).unwrap();
        let toll = toll(sheets, USER, workload).unwrap();
        let title = format!("{workload} on {USER}, Linux 6.1");
        let instructions = format!(": {} instructions", grouped(toll.instructions.median));
        assert!(drawn.contains(&title) && drawn.contains(&instructions), "{file} is stale");
        writeln!(text, "\n![{words}, by function]({file})").unwrap();
    }
    text
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies")
}

/// Instructions of the kernel's ways, by DMA path.
fn dma_paths(sheets: &[TollSheet]) -> String {
    let mut table = format!(
        "\nInstructions of the same ways on other DMA paths, and in brackets repetitions of string instructions, which count as none.\n\n| way | {} |\n|---|{}\n",
        DMA_PATHS.join(" | "),
        "---:|".repeat(DMA_PATHS.len())
    );
    let of_dma_paths = DMA_PATHS.map(|dma_path| of_the_kernel(dma_path).collect::<Vec<_>>());
    for (at, (words, ..)) in of_dma_paths[0].iter().enumerate() {
        let cell = |ways: &Vec<(&str, String, &str)>| {
            let toll = toll(sheets, &ways[at].1, ways[at].2).unwrap();
            format!("{} (r{})", per_io(toll, toll.instructions.median), times(toll, Event::StringIterations))
        };
        writeln!(table, "| {words} | {} |", of_dma_paths.each_ref().map(cell).join(" | ")).unwrap();
    }
    table
}

#[test]
fn the_page_of_nvme_reads_is_up_to_date() {
    let sheets = sheets();
    let page = format!(
        "{HEAD}{}{}{}{}{}{LIMITS}",
        ways(&sheets),
        aims(&sheets),
        c_interface(&sheets),
        flames(&sheets),
        dma_paths(&sheets)
    );
    let path = docs().join("nvme-tolls.md");
    if std::env::var_os("IOTOLL_UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/studies/nvme-tolls.md is stale; see the head of this test");
}
