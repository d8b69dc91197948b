//! Plans carried out by a real Linux kernel, in QEMU.
//!
//! One boot of an x86-64 guest runs all experiments. Its `/init` is a shell script made here; what it
//! prints on the serial line is the measurement. QEMU's emulation does not act on memory types, so what
//! is tested is the kernel: which writes it takes, and what `/proc/mtrr` reads after them.
//!
//! Needs `qemu-system-x86_64`, a static busybox, and the kernel that `tests/kernel/fetch.sh` fetches.
//! `IOTOLL_KERNEL_TESTS=off` skips it, aloud.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod mtrr_machine;
#[path = "../../../tests/skip.rs"]
mod skip;

use cpio::{NewcBuilder, write_cpio};
use memtype::{
    DefaultType, MemoryType, Register, TableLayout, Text, parse_mtrr,
    plan::{Order, Plan, PlanTarget, plan},
};
use mtrr_machine::{KEYWORDS, Mtrrs, Reg};
use skip::skip;
use std::{
    collections::HashSet,
    env, fs,
    io::Cursor,
    path::{Path, PathBuf},
    process::Command,
};

/// What the guest's firmware (SeaBIOS in QEMU 7.2, 512 MiB) leaves; the default type is WB.
const FIRMWARE: &str = "reg00: base=0x0c0000000 ( 3072MB), size= 1024MB, count=1: uncachable\n";
/// Variable registers of QEMU's processors.
const REGISTERS: u32 = 8;
/// Physical address bits of its default processor.
const ADDRESS_BITS: u32 = 40;
const BUSYBOX: [&str; 2] = ["/bin/busybox", "/usr/bin/busybox"];
const RANDOM_WRITES: usize = 400;

/// A guest script: it collects commands for `/init` and what they should print.
#[derive(Default)]
struct Experiment {
    commands: String,
    expected: Vec<(String, String)>,
}

impl Experiment {
    /// Writes `line` and prints whether the kernel took it, and the table.
    fn write(&mut self, line: &str, taken: bool, table: &str) {
        self.commands += &format!("if echo '{line}' > /proc/mtrr; then echo '<ok'; else echo '<error'; fi\n");
        self.show(line, if taken { "ok" } else { "error" }, table);
    }

    fn show(&mut self, what: &str, verdict: &str, table: &str) {
        self.commands += "cat /proc/mtrr; echo '>'\n";
        self.expected.push((what.to_owned(), format!("{verdict}\n{table}")));
    }

    /// Runs a whole script with `argument` and prints its exit status and the table.
    fn script(&mut self, name: &str, argument: &str, status: i32, table: &str) {
        self.commands += &format!("sh /{name} {argument} > /dev/null 2>&1; echo \"<exit $?\"\n");
        self.show(&format!("{name} {argument}"), &format!("exit {status}"), table);
    }

    fn init(&self) -> String {
        format!(
            "#!/bin/sh\n/bin/busybox mkdir -p /proc /bin\n/bin/busybox mount -t proc proc /proc\n\
             /bin/busybox --install -s /bin\nexec 2> /dev/null\n{}echo '<end'; echo '>'\npoweroff -f\n",
            self.commands
        )
    }

    /// Compares what the guest printed with what was expected, in order.
    fn check(&self, console: &str) {
        let console = console.replace('\r', "");
        let answers: Vec<_> = console
            .split('<')
            .skip(1)
            .filter_map(|rest| rest.split_once('>'))
            .map(|(answer, _)| answer)
            .collect();
        for (index, (what, expect)) in self.expected.iter().enumerate() {
            let answer = answers.get(index).unwrap_or_else(|| panic!("no answer to {what}:\n{console}"));
            assert_eq!(answer, expect, "after {what} (number {index})");
        }
        assert_eq!(answers.len(), self.expected.len() + 1, "{console}");
    }
}

fn machine(table: &[Register]) -> PlanTarget {
    PlanTarget {
        registers: table.to_vec(),
        register_count: REGISTERS,
        address_bits: ADDRESS_BITS,
        default: DefaultType::given(MemoryType::WriteBack),
        kernel: (6, 1, 0),
        layout: TableLayout::CountThenType,
    }
}

fn firmware() -> Vec<Register> {
    parse_mtrr(&Text::new("proc/mtrr", FIRMWARE)).0.registers.into_iter().map(|r| r.value).collect()
}

fn print(table: &[Register]) -> String {
    memtype::mtrr::print_table(table, TableLayout::CountThenType)
}

fn planned(table: &[Register], wishes: &[&str], order: Order) -> Plan {
    let wishes: Vec<_> = wishes.iter().map(|text| text.parse().unwrap()).collect();
    plan(&machine(table), &wishes, order).unwrap()
}

/// Every step with its predicted table, then the way back.
fn carry_out(experiment: &mut Experiment, plan: &Plan) {
    go(experiment, plan);
    go_back(experiment, plan);
}

fn go(experiment: &mut Experiment, plan: &Plan) {
    for step in &plan.steps {
        experiment.write(&step.step.to_string(), true, &print(&step.table));
    }
}

fn go_back(experiment: &mut Experiment, plan: &Plan) {
    let mut model = model(plan.after());
    for step in plan.undo() {
        assert!(model.write(&step.to_string()).is_some());
        experiment.write(&step.to_string(), true, &model.read());
    }
    assert_eq!(model.read(), print(&plan.before));
}

fn model(table: &[Register]) -> Mtrrs {
    let mut model = Mtrrs::new(REGISTERS as usize, ADDRESS_BITS, false);
    for r in table {
        let kind = KEYWORDS.iter().position(|k| Some(*k) == r.kind.mtrr_keyword()).unwrap();
        let size = u64::try_from(r.range.size_bytes()).unwrap();
        model.regs[r.number as usize] = Some(Reg { base: r.range.base(), size, kind, count: r.count });
    }
    model
}

#[test]
fn a_kernel_carries_out_plans_as_predicted() {
    let Some(guest) = Guest::find() else { return };
    let mut experiment = Experiment::default();
    let firmware = firmware();
    experiment.commands += "echo '<firmware'\n";
    experiment.show("boot", "firmware", FIRMWARE);

    // 80 MiB of RAM made uncached, as in "RHEL6.4 Apparent reduced PCIe performance in comparison to
    // RHEL5.9" (Red Hat Customer Portal, 2013): 64 and 16.
    let eighty = planned(&firmware, &["0x10000000:80M:uncachable"], Order::FewestSteps);
    assert_eq!(eighty.steps.len(), 2);
    carry_out(&mut experiment, &eighty);
    let tidy = planned(&firmware, &["0x10000000:80M:uncachable"], Order::Tidy);
    assert_eq!(tidy.steps.len(), 4);
    carry_out(&mut experiment, &tidy);

    // A frame buffer inside the hole: the hole's register has to go, and comes back in pieces.
    let mix = planned(&firmware, &["0xd0000000:256M:wc", "0x10000000:16M:wt"], Order::FewestRegisters);
    assert!(mix.steps.iter().any(|s| s.step.to_string() == "disable=0"));
    carry_out(&mut experiment, &mix);

    // A table with register 1 in use and 0 free: going back has to leave 0 free again.
    let beside = planned(&firmware, &["0x10000000:16M:wc"], Order::FewestSteps);
    go(&mut experiment, &beside);
    let cleared = planned(beside.after(), &["0xc0000000:1G:wb"], Order::FewestSteps);
    go(&mut experiment, &cleared);
    let moved = planned(cleared.after(), &["0x10000000:16M:wt"], Order::FewestSteps);
    assert_eq!(moved.undo().iter().filter(|s| s.to_string() == "disable=0").count(), 2);
    carry_out(&mut experiment, &moved);
    go_back(&mut experiment, &cleared);
    go_back(&mut experiment, &beside);

    scripts(&mut experiment, &eighty, &mix);
    random_writes(&mut experiment, &firmware);
    experiment.check(&guest.run(&experiment.init(), &[("eighty", eighty.script()), ("mix", mix.script())]));
}

/// The scripts: change, refuse to change twice, go back, and go back from the middle.
fn scripts(experiment: &mut Experiment, eighty: &Plan, mix: &Plan) {
    for (name, plan) in [("eighty", eighty), ("mix", mix)] {
        experiment.script(name, "", 0, &print(plan.after()));
        experiment.script(name, "", 2, &print(plan.after()));
        experiment.script(name, "undo", 0, &print(&plan.before));
        experiment.script(name, "undo", 0, &print(&plan.before));
        let first = &plan.steps[0];
        experiment.write(&first.step.to_string(), true, &print(&first.table));
        experiment.script(name, "undo", 0, &print(&plan.before));
    }
}

/// Arbitrary writes, to hold the model that judges the planner against the kernel.
fn random_writes(experiment: &mut Experiment, table: &[Register]) {
    let mut model = model(table);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        // xorshift64: any sequence does, if it is the same each time.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut kinds = HashSet::new();
    for _ in 0..RANDOM_WRITES {
        let line = if next(4) == 0 {
            format!("disable={}", next(u64::from(REGISTERS) + 1))
        } else {
            let size = 1_u64 << (20 + next(6));
            // Now and then unaligned, or below 1 MiB.
            let size = if next(16) == 0 { size / 256 } else { size };
            let base = next(64) * (1 << 20);
            let base = if next(8) == 0 { base } else { base / size * size };
            format!("base={base:#x} size={size:#x} type={}", KEYWORDS[usize::try_from(next(5)).unwrap()])
        };
        let did = model.write(&line);
        kinds.insert(did.as_ref().map(std::mem::discriminant));
        experiment.write(&line, did.is_some(), &model.read());
    }
    // Refused, disabled, added, counted, merged: the sequence has them all.
    assert_eq!(kinds.len(), 5);
}

/// What it takes to boot.
struct Guest {
    kernel: PathBuf,
    busybox: &'static str,
}

impl Guest {
    /// Fails with instructions where something is missing; `None` if these tests are switched off.
    fn find() -> Option<Self> {
        if env::var("IOTOLL_KERNEL_TESTS").is_ok_and(|value| value == "off") {
            skip("IOTOLL_KERNEL_TESTS=off, no plan was carried out by a kernel");
            return None;
        }
        let how = "or set IOTOLL_KERNEL_TESTS=off to do without";
        // Cargo makes this folder inside the target directory, wherever that is.
        let kernel = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kernels").join("vmlinuz-x86_64");
        assert!(kernel.exists(), "no {}: run crates/memtype/tests/kernel/fetch.sh, {how}", kernel.display());
        let busybox = BUSYBOX.into_iter().find(|path| Path::new(path).exists());
        let busybox = busybox.unwrap_or_else(|| panic!("no busybox: install busybox-static, {how}"));
        let qemu = Command::new("qemu-system-x86_64").arg("--version").output();
        assert!(qemu.is_ok(), "no qemu-system-x86_64: install qemu-system-x86, {how}");
        Some(Self { kernel, busybox })
    }

    /// Boots with `init` and these scripts in the root directory; what the serial line said.
    fn run(&self, init: &str, scripts: &[(&str, String)]) -> String {
        let work = tempfile::tempdir().unwrap();
        let initramfs = work.path().join("initramfs");
        let file = |name: &str, bytes: Vec<u8>| (NewcBuilder::new(name).mode(0o100_755), Cursor::new(bytes));
        let dir = |name: &str| (NewcBuilder::new(name).mode(0o040_755), Cursor::new(Vec::new()));
        let mut files = vec![
            dir("bin"),
            dir("dev"),
            file("bin/busybox", fs::read(self.busybox).unwrap()),
            file("bin/sh", fs::read(self.busybox).unwrap()),
            file("init", init.as_bytes().to_vec()),
        ];
        files.extend(scripts.iter().map(|(name, text)| file(name, text.as_bytes().to_vec())));
        write_cpio(files.into_iter(), fs::File::create(&initramfs).unwrap()).unwrap();
        let output = Command::new("timeout")
            .args([
                "300",
                "qemu-system-x86_64",
                "-machine",
                "q35,accel=tcg",
                "-m",
                "512",
                "-nodefaults",
                "-no-reboot",
            ])
            .args(["-display", "none", "-serial", "stdio", "-kernel"])
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&initramfs)
            .args(["-append", "console=ttyS0 quiet loglevel=0 panic=-1"])
            .output()
            .unwrap();
        assert!(output.status.success(), "QEMU: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
