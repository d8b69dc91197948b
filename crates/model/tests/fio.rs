//! Job files of fio: what is read of them, and what is refused where.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use model::fio::{Access, Engine, Job, JobFile, Problem, SetAside};
use proptest::prelude::*;

const MIXED: &str = include_str!("../../../experiments/fio/mixed.fio");

fn read(text: &str) -> JobFile {
    JobFile::read(text, "x.fio").unwrap()
}

fn refused(text: &str) -> String {
    JobFile::read(text, "x.fio").unwrap_err().to_string()
}

/// A job that reads at once, with more options.
fn job(options: &str) -> Job {
    read(&format!("[a]\ndirect=1\n{options}\n")).jobs.remove(0)
}

#[test]
fn a_database_and_its_log() {
    let JobFile { jobs, set_aside } = read(MIXED);
    let [table, log] = &jobs[..] else { panic!("{jobs:?}") };
    let expected = Job {
        name: "table".to_owned(),
        access: Access::Mixed { read_percent: 70 },
        is_random: true,
        block_bytes: 8192,
        depth: 16,
        threads: 4,
        engine: Engine::Asynchronous,
    };
    assert_eq!(table, &expected);
    assert_eq!((log.name.as_str(), log.access, log.is_random), ("log", Access::Write, false));
    assert_eq!((log.block_bytes, log.depth, log.threads, log.engine), (16384, 1, 1, Engine::Sync));
    let aside = |option: &str, line| SetAside { option: option.to_owned(), line };
    assert_eq!(set_aside, [aside("runtime", 4), aside("time_based", 5), aside("group_reporting", 6)]);
}

#[test]
fn absent_options_have_fio_s_defaults() {
    let expected = Job {
        name: "a".to_owned(),
        access: Access::Read,
        is_random: false,
        block_bytes: 4096,
        depth: 1,
        threads: 1,
        engine: Engine::Sync,
    };
    assert_eq!(job(""), expected);
    assert_eq!(job("iodepth=32"), expected, "a call that waits has one in flight");
    assert_eq!(job("buffered=0"), expected);
}

#[test]
fn jobs_inherit_the_global_sections_above_them() {
    let text = "[global]\ndirect=1\nbs=8k\n[a]\n[b]\nbs=16k\n[globally]\niodepth=4\nioengine=libaio\n[c]\n[a]\nbs=512\n";
    let jobs: Vec<_> =
        read(text).jobs.into_iter().map(|job| (job.name, job.block_bytes, job.depth)).collect();
    let expected = [("a", 8192, 1), ("b", 16384, 1), ("c", 8192, 4), ("a", 512, 4)];
    assert_eq!(jobs, expected.map(|(name, bytes, depth)| (name.to_owned(), bytes, depth)));
}

#[test]
fn every_option_of_a_load() {
    let patterns = ["read", "write", "rw", "readwrite", "randread", "randwrite", "randrw"];
    let mixed = Access::Mixed { read_percent: 50 };
    let accesses = [Access::Read, Access::Write, mixed, mixed, Access::Read, Access::Write, mixed];
    for (pattern, access) in patterns.into_iter().zip(accesses) {
        let job = job(&format!("readwrite = {pattern}"));
        assert_eq!((job.access, job.is_random), (access, pattern.starts_with("rand")), "{pattern}");
    }
    assert_eq!(job("rw=randrw\nrwmixwrite=10").access, Access::Mixed { read_percent: 90 });
    assert_eq!(job("rw=randrw\nrwmixwrite=10\nrwmixread=20").access, Access::Mixed { read_percent: 20 });
    assert_eq!(job("rw=randread\nrwmixread=20").access, Access::Read, "of what does both alone");
    let libaio = job("ioengine=libaio\niodepth=32 ; deep\nnumjobs=3# few\nblocksize=1M");
    assert_eq!((libaio.engine, libaio.depth, libaio.threads), (Engine::Asynchronous, 32, 3));
    assert_eq!(libaio.block_bytes, 1 << 20);
    assert_eq!(job("; rw=x\n# rw=y\n\n \t\n").access, Access::Read);
}

#[test]
fn options_are_refused_with_their_place() {
    let check = |options: &str, told: &str| {
        let error = refused(&format!("[a]\ndirect=1\n{options}"));
        assert!(error.starts_with("x.fio:3: ") && error.contains(told), "{error}");
    };
    check("rw=trim", "rw is trim; expected read, write,");
    check("rw=randread:8", "rw is randread:8");
    check("rw", "rw has no value");
    check("rw=", "rw is ; expected");
    check("bs=4ki", "bs is 4ki; expected one size");
    check("bs=4k,8k", "bs is 4k,8k");
    check("bs=(4*1024)", "bs is (4*1024)");
    check("bs=100", "a multiple of 512");
    check("iodepth=0", "iodepth is 0; expected a number from 1");
    check("numjobs=${JOBS}", "numjobs is ${JOBS}");
    check("ioengine=mmap", "ioengine is mmap; expected sync,");
    check("rwmixread=101", "rwmixread is 101; expected 0 to 100");
    check("direct=yes", "direct is yes; expected 0 or 1");
    check("bssplit=4k/50:8k/50", "bssplit is not modelled; expected rw,");
    check("rate_iops=1000", "rate_iops is not modelled");
    check("stonewall", "stonewall is not modelled");
    check("iodepth_batch_submit=8", "iodepth_batch_submit is not modelled");
    check("thinktime=10us", "thinktime is not modelled");
    check("fixedbufs", "fixedbufs is not modelled");
    check("RW=read", "RW is not modelled");
    check("[]", "[]; expected a section's name");
    check("[b", "[b; expected a section's name");
    check("[b] x", "[b] x; expected");
}

#[test]
fn files_are_refused_with_their_place() {
    let check = |text: &str, told: &str| assert_eq!(refused(text), told);
    check("", "x.fio:1: no job; expected a section such as [job] besides [global]");
    check("[global]\ndirect=1\n", "x.fio:2: no job; expected a section such as [job] besides [global]");
    check("rw=read\n[a]", "x.fio:1: rw=read stands before the first section");
    check("include other.fio", "x.fio:1: include other.fio stands before the first section");
    let cached = "x.fio:2: job a goes through the page cache, which is not modelled; expected direct=1";
    check("\n[a]\nrw=read\n[b]\ndirect=1\n", cached);
    check("\n[a]\ndirect=1\nbuffered=1", cached);
}

#[test]
fn hostile_files_are_refused() {
    let problem = |text: &str| JobFile::read(text, "x.fio").unwrap_err().problem;
    assert!(matches!(problem(&" ".repeat(1 << 20)), Problem::Length { .. }));
    assert_eq!(problem(&"[a]\ndirect=1\n".repeat(257)), Problem::Jobs(256));
    assert!(matches!(problem(&"[".repeat(60_000)), Problem::Section(_)));
    assert!(matches!(problem(&format!("[a]\nbs={}k", "9".repeat(60_000))), Problem::Value { .. }));
    assert!(matches!(problem("\0"), Problem::Outside(_)));
    assert!(matches!(problem("[a]\n\u{feff}direct=1"), Problem::NotModelled(_)));
}

proptest! {
    #[test]
    fn values_read_as_they_are_written(
        percent in 0..=100_u32, sectors in 1..=8192_u64, depth in 1..=i32::MAX as u32, threads in 1..=i32::MAX as u32,
    ) {
        let bytes = sectors * 512;
        let job = job(&format!(
            "rw=rw\nrwmixread={percent}\nbs={bytes}\nioengine=io_uring\niodepth={depth}\nnumjobs={threads}"
        ));
        prop_assert_eq!(job.access, Access::Mixed { read_percent: percent });
        prop_assert_eq!((job.block_bytes, job.depth, job.threads), (bytes, depth, threads));
    }

    #[test]
    fn whatever_an_option_says_is_read_or_refused(name in "[a-z_]{0,12}", value in "[0-9a-z.,:(){}$=-]{0,12}") {
        if let Err(error) = JobFile::read(&format!("[a]\ndirect=1\n{name}={value}"), "x.fio") {
            prop_assert_eq!(error.line, 3);
        }
    }

    #[test]
    fn any_file_is_read_or_refused(at in 0..MIXED.len(), insert in any::<String>()) {
        let text = format!("{}{insert}{}", &MIXED[..at], &MIXED[at..]);
        if let Err(error) = JobFile::read(&text, "x.fio") {
            prop_assert!((1..=text.lines().count() as u32).contains(&error.line));
        }
    }
}
