//! `iotoll model` on the command line.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use assert_cmd::Command;
use std::process::Output;

fn model(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").arg("model").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/engine.toml");

#[test]
fn the_example_runs() {
    let output = model(&["run", EXAMPLE]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in ["reads of 64 bytes", "latency", "Gb/s", "limited by  the walker's beginning of walks"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let document: serde_json::Value =
        serde_json::from_slice(&model(&["run", EXAMPLE, "--json"]).stdout).unwrap();
    assert_eq!(document["schema"], "iotoll.model/3");
    assert!(document["engine"]["gigabits_per_second"]["mean"].as_f64().unwrap() > 10.0);
    let studies: String = model::studies().map(|study| format!("{study}\n")).collect();
    assert_eq!(text(&model(&["list"]).stdout), studies);
}

const HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/two-hosts.toml");
const PROFILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/uperf");

#[test]
fn two_hosts_talk_and_carry_out_a_profile() {
    let output = model(&["run", HOSTS]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in
        ["latency", "for 99 of 100", "limited by  lock of the", "hypercalls/s", "wire from the client"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let profile = format!("{PROFILES}/tcp-stream.xml");
    let run = |more: &[&str]| model(&[&["run", HOSTS, "--profile", &profile], more].concat());
    let output = run(&["--set", "n=8", "--set", "size=64k", "--set", "h=server", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["network"]["gigabits_per_second"]["mean"].as_f64().unwrap() > 8.0, "{document}");
    assert_eq!(document["network"]["latency_mean_ns"], serde_json::Value::Null);
    let what = "TCP streams, writes of 65536 bytes, 8 instances (profile tcp-stream of uperf)";
    assert_eq!(document["network"]["what"], what, "not what the file says of its own load");
    let refused = |output: &Output, words: &str| {
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    };
    refused(&run(&["--set", "n=8", "--set", "h=server"]), "$size is not set; expected --set size=VALUE");
    refused(&run(&["--set", "n"]), "expected NAME=VALUE");
    let folder = tempfile::tempdir().unwrap();
    let unbounded = folder.path().join("unbounded.xml");
    let example = std::fs::read_to_string(format!("{PROFILES}/tcp-stream.xml")).unwrap();
    std::fs::write(&unbounded, example.replace("protocol=tcp", "protocol=udp")).unwrap();
    let unbounded = unbounded.to_str().unwrap();
    let variables = ["--set", "n=8", "--set", "size=64k", "--set", "h=server"];
    refused(&model(&[&["run", HOSTS, "--profile", unbounded], &variables[..]].concat()), unbounded);
    refused(&model(&["run", EXAMPLE, "--profile", &profile]), "an engine, which can't run a --profile");
    refused(&model(&["run", HOSTS, "--profile", "/nowhere/p.xml"]), "can't read profile /nowhere/p.xml");
}

const DISK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/nvme.toml");
const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/fio/mixed.fio");

#[test]
fn a_host_with_a_disk_runs_jobs() {
    let output = model(&["run", DISK]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in
        ["latency", "999 of 1,000", "limited by  link to memory", "invalidations/s", "busiest CPU", "GB/s"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let output = model(&["run", DISK, "--jobs", JOBS]);
    let shown = text(&output.stdout);
    for words in ["table", "log", "set aside   runtime (line 4), time_based (line 5)"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let output = model(&["run", DISK, "--jobs", JOBS, "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&document["schema"], &document["block"]["jobs"][1]["name"]),
        (&"iotoll.model/3".into(), &"log".into())
    );
    assert!(document["block"]["operations_per_second"]["mean"].as_f64().unwrap() > 10e3, "{document}");
    assert!(document["block"]["jobs"][1]["latency_p99_9_ns"]["mean"].as_f64().unwrap() > 10e3, "{document}");
}

const ARRAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/flash-array.toml");

#[test]
fn a_host_with_an_array_runs_loads_and_logs_failures() {
    let output = model(&["run", ARRAY]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in [
        "99 of 100",
        "path length",
        "cores used",
        "a queue's lock",
        "path 1 failed, ",
        "path 1 recovered, 0 I/Os",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let document: serde_json::Value =
        serde_json::from_slice(&model(&["run", ARRAY, "--json"]).stdout).unwrap();
    assert_eq!(
        (&document["schema"], &document["flash_array"]["waiting"]),
        (&"iotoll.model/3".into(), &0.into())
    );
    assert_eq!(document["flash_array"]["log"][0]["what"], "failed");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let users = std::fs::read_to_string(ARRAY).unwrap().replace("way = \"kernel\"", "way = \"user\"");
    std::fs::write(&file, users.replace("threads = 192", "threads = 1001")).unwrap();
    let output = model(&["run", file.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("mine.toml: 1001 threads need their own queue"),
        "{said}"
    );
}

#[test]
fn jobs_that_no_disk_has_are_exit_two_and_say_where() {
    let refused = |output: &Output, words: &str| {
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(words) && output.stdout.is_empty(),
            "{said}"
        );
    };
    refused(&model(&["run", EXAMPLE, "--jobs", JOBS]), "an engine, which can't run --jobs");
    refused(&model(&["run", HOSTS, "--jobs", JOBS]), "two hosts, which can't run --jobs");
    refused(&model(&["run", DISK, "--profile", JOBS]), "a host with a disk, which can't run a --profile");
    refused(&model(&["run", DISK, "--jobs", JOBS, "--profile", JOBS]), "cannot be used with");
    refused(&model(&["run", DISK, "--jobs", "/nowhere/x.fio"]), "can't read job file /nowhere/x.fio");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.fio");
    let check = |contents: &str, words: &str| {
        std::fs::write(&file, contents).unwrap();
        let output = model(&["run", DISK, "--jobs", file.to_str().unwrap()]);
        refused(&output, &format!("mine.fio{words}"));
    };
    check("[a]\nrw=read\n", ":1: job a goes through the page cache");
    check("[a]\ndirect=1\nrate=1m\n", ":3: rate is not modelled");
    check(
        "[a]\ndirect=1\nioengine=libaio\niodepth=2000\n",
        ": a queue of the adapter has up to 2000 commands",
    );
}

const ADAPTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/infiniband.toml");
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/traces/ring.trace");

#[test]
fn adapters_run_with_and_without_memory_and_carry_out_a_trace() {
    let output = model(&["run", ADAPTERS]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in ["memory-less", "with memory", "% without memory", "KiB for contexts", "bus to host memory"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let document = |args: &[&str]| -> serde_json::Value {
        let output = model(&[&["run", "--json"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let scatter = document(&[ADAPTERS]);
    assert_eq!(scatter["schema"], "iotoll.model/3");
    assert_eq!(scatter["evidence"]["study_parameters"]["assumed"], 33, "{scatter}");
    assert_eq!(scatter["evidence"]["values"]["given"], 0, "{scatter}");
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("In the study memfree-hca, 33 of 39 parameters are assumed"), "{shown}");
    let yours = tempfile::tempdir().unwrap();
    let yours = yours.path().join("yours.toml");
    let shipped = std::fs::read_to_string(ADAPTERS).unwrap();
    std::fs::write(&yours, shipped.replace("read_ns = 500", "read_ns = 650")).unwrap();
    assert_eq!(document(&[yours.to_str().unwrap()])["evidence"]["values"]["given"], 1);
    assert!(scatter["infiniband"]["cost_share"]["mean"].as_f64().unwrap() > 0.1, "{scatter}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let example = std::fs::read_to_string(ADAPTERS).unwrap();
    let machine = example.split("[verbs]").next().unwrap();
    let processes = "[processes]\nper_node = 2\neager_bytes_max = 8192\ncopy_ps_per_byte = 500\ncall_ns = 200\nshared_ns = 500\n";
    let mine = file.to_str().unwrap();
    std::fs::write(&file, format!("{machine}{processes}")).unwrap();
    let ring = document(&[mine, "--trace", TRACE]);
    assert!(
        ring["infiniband"]["memory_less"]["latency_mean_ns"]["mean"].as_f64().unwrap() > 20_000.0,
        "{ring}"
    );
    let refused = |args: &[&str], words: &str| {
        let output = model(&[&["run"], args].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    };
    refused(&[mine], "[processes] without a benchmark; expected one, or --trace FILE");
    refused(&[ADAPTERS, "--trace", TRACE], "has no [processes]; expected them to run the trace");
    refused(&[EXAMPLE, "--trace", TRACE], "an engine, which can't run a --trace");
    refused(&[mine, "--trace", EXAMPLE], "engine.toml:4: \"what = ");
    std::fs::write(&file, format!("{machine}{processes}benchmark = \"lu\"\noperations_per_second = 1e9\n"))
        .unwrap();
    assert!(
        document(&[mine])["infiniband"]["with_memory"]["messages_per_second"]["mean"].as_f64().unwrap()
            > 1000.0
    );
    for (from, to, expected) in [
        ("kib = 32", "kib = 33", "adapter.cache.kib is 33; expected a power of two of sets"),
        ("ways = 8", "ways = 0", "adapter.cache.ways is 0"),
        ("mtu_bytes = 2048", "mtu_bytes = 1500", "wire.mtu_bytes is 1500"),
        ("lanes = 8", "lanes = 0", "host.pcie.lanes is 0"),
        ("read_ns = 500", "read_ns = nan", "host.read_ns is NaN"),
        ("connections = 128", "connections = 0", "verbs.connections is 0; expected 1 to 200000"),
        ("pattern = \"scatter\"", "pattern = \"gather\"", "unknown variant `gather`"),
        ("[verbs]", "[words]", "unknown field `words`"),
        ("[host.pcie]", "[host.pcie2]", "unknown field `pcie2`"),
    ] {
        assert!(example.contains(from), "{from}");
        std::fs::write(&file, example.replacen(from, to, 1)).unwrap();
        refused(&[mine], expected);
    }
    std::fs::write(&file, machine).unwrap();
    refused(&[mine], "what is done is 0; expected one of [verbs] and [processes]");
}

#[test]
fn a_file_that_is_none_is_exit_two_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let check = |contents: &[u8], expected: &str| {
        std::fs::write(&file, contents).unwrap();
        let output = model(&["run", file.to_str().unwrap()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("mine.toml") && said.contains(expected), "{said}");
        assert!(output.stdout.is_empty());
    };
    check(b"", "missing field `what`");
    check(b"\xff\xfe", "valid UTF-8");
    check(b"what = 1", "invalid type");
    let example = std::fs::read_to_string(EXAMPLE).unwrap();
    check(example.replace("lanes = 8", "lanes = 33").as_bytes(), "link.lanes is 33; expected 1 to 32");
    check(&example.as_bytes()[..300], "mine.toml:");
    let hosts = std::fs::read_to_string(HOSTS).unwrap();
    for (from, to, expected) in [
        ("cores = 16", "cores = 0", "client.cpus.cores is 0; expected 1 to 4096"),
        ("core_capacity = [1.0, 1.4, 1.6, 1.8]", "core_capacity = []", "cpus.core_capacity is 0"),
        ("core_capacity = [1.0,", "core_capacity = [nan,", "cpus.core_capacity"),
        ("window_bytes = 2147483648", "window_bytes = 4096", "mapping.window_bytes is 4096"),
        ("mtu_bytes = 1500", "mtu_bytes = 50", "wire.mtu_bytes is 50"),
        ("pieces_bytes = [512, 1024]", "pieces_bytes = [0]", "client.adapter.pieces_bytes"),
        (
            "link = { generation = 2, lanes = 8",
            "link = { generation = 2, lanes = 99",
            "client.adapter.link.lanes is 99",
        ),
        ("measured_us = 192000", "measured_us = inf", "measured_us is inf"),
        (r#"pattern = "exchange""#, r#"pattern = "stream""#, "nothing bounds a stream"),
        (r#"dma_path = "table-lock""#, r#"dma_path = "motorway""#, "unknown variant `motorway`"),
        ("[client.mapping]", "[client.maps]", "unknown field `maps`"),
    ] {
        assert!(hosts.contains(from), "{from}");
        check(hosts.replacen(from, to, 1).as_bytes(), expected);
    }
    // One that never ends.
    let endless = model(&["run", "/dev/zero"]);
    assert_eq!(endless.status.code(), Some(2));
    assert!(text(&endless.stderr).contains("larger than 16 MiB"), "{}", text(&endless.stderr));
    let absent = model(&["run", "/nowhere/x.toml"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("can't read experiment /nowhere/x.toml"));
}

#[test]
fn memory_types_are_reported_with_their_cost_and_corruption() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/memory-types.toml");
    let output = model(&["run", file]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in [
        "Memory set aside by memmap=, 0x10000000-0x14ffffff",
        "CORRUPT: 262,144 of 262,144 words miscompare",
        "in a dirty line that was",
        "right: none of 262,144 words miscompares",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let document: serde_json::Value =
        serde_json::from_slice(&model(&["run", file, "--json"]).stdout).unwrap();
    assert_eq!(document["schema"], "iotoll.model/3");
    let [area, dma] = [0, 1].map(|number| &document["memory_types"]["memories"][number]);
    assert_eq!((&area["memory"], &area["parts"][0]["type"]), (&"static".into(), &"write-back".into()));
    assert_eq!((&area["snoop"], &dma["snoop"]), (&"unsnooped".into(), &"snooped".into()));
    let first = &area["test"]["comparison"]["stale"][0]["first"];
    assert_eq!((&first["address"], &first["missed"]["by"]), (&0x1000_0000.into(), &"cpu".into()));
    assert_eq!(dma["test"]["comparison"]["miscompares"], 0);
    let profile = model(&["run", file, "--profile", "x.xml"]);
    assert!(profile.status.code() == Some(2) && text(&profile.stderr).contains("describes memory types"));
}

/// Words of a text, so that lines may break anywhere.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the program prints for an example with some of its text replaced.
fn changed(example: &str, changes: &[(&str, &str)], more: &[&str]) -> Output {
    let mut file = std::fs::read_to_string(example).unwrap();
    for (from, to) in changes {
        assert!(file.contains(from), "{from}");
        file = file.replacen(from, to, 1);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, file).unwrap();
    model(&[&["run", path.to_str().unwrap()], more].concat())
}

#[test]
fn a_warm_up_that_is_extended_is_said() {
    let short = [("warm_up_us = 12000", "warm_up_us = 1"), ("measured_us = 20000", "measured_us = 20")];
    let output = changed(DISK, &short, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = words(&text(&output.stdout));
    let extended = "A warm-up of 1.00 \u{b5}s with its window was too short: both were extended until the window was steady";
    assert!(shown.contains("5 seeds, steady over ") && shown.contains(extended), "{shown}");
    let document: serde_json::Value =
        serde_json::from_slice(&changed(DISK, &short, &["--json"]).stdout).unwrap();
    let runs = &document["block"]["runs"];
    assert_eq!((&runs["is_warm_up_extended"], &runs["given_warm_up_us"]), (&true.into(), &1.0.into()));
    assert!(runs["warm_up_us"].as_f64().unwrap() > 1.0 && runs["measured_us"].as_f64().unwrap() > 20.0);
    let given = words(&text(&model(&["run", DISK]).stdout));
    assert!(given.contains("steady over 20.0 ms after 12.0 ms of warm-up;"), "{given}");
    assert!(!given.contains("too short"), "{given}");
}

#[test]
fn a_run_that_is_never_steady_is_exit_two_and_says_what_grew() {
    // A buffer of 1 TiB takes all writes, and its dies take a second for each page.
    let fills = [
        ("rw=randread", "rw=randwrite"),
        ("write_ns = 753000", "write_ns = 1e9"),
        ("buffer_bytes = 8388608", "buffer_bytes = 1099511627776"),
    ];
    let output = changed(DISK, &fills, &[]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{said}");
    let expected = [
        "mine.toml: no steady state: after ",
        "bytes in the write buffer: ",
        "more at the end of the window",
    ];
    for words in expected {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn figures_have_intervals_over_the_seeds() {
    let output = model(&["run", HOSTS]);
    let shown = words(&text(&output.stdout));
    assert!(
        shown.contains(" \u{b1}") && shown.contains("\u{b1} is half of the 95 % interval over them"),
        "{shown}"
    );
    assert!(shown.contains("server as the client (not given)"), "{shown}");
    let document: serde_json::Value =
        serde_json::from_slice(&model(&["run", HOSTS, "--json"]).stdout).unwrap();
    let hosts = &document["network"];
    assert_eq!((&hosts["runs"]["seeds"], &hosts["runs"]["is_steady"]), (&5.into(), &true.into()));
    let [mean, low, high] =
        ["mean", "low", "high"].map(|end| hosts["operations_per_second"][end].as_f64().unwrap());
    assert!(low < mean && mean < high && high - low < 0.1 * mean, "{low} {mean} {high}");
    // One seed has no spread to tell of.
    let one = changed(HOSTS, &[("# seed = 0 ", "seeds = 1 #")], &[]);
    assert!(words(&text(&one.stdout)).contains("\u{b1}? operations/s"), "{}", text(&one.stdout));
    let none = changed(HOSTS, &[("# seed = 0 ", "seeds = 101 #")], &[]);
    assert!(text(&none.stderr).contains("seeds is 101; expected 1 to 100"), "{}", text(&none.stderr));
}

#[test]
fn the_evidence_of_a_file_stands_beside_its_answer() {
    let evidence = |output: &Output| {
        let shown = words(&text(&output.stdout));
        shown.split_once(" evidence ").unwrap().1.split_once(" What the CPUs do").unwrap().0.to_owned()
    };
    let shipped = evidence(&model(&["run", HOSTS]));
    assert!(shipped.contains("parameters are assumed;") && !shipped.contains("given by you"), "{shipped}");
    assert!(shipped.contains("In the study power-window, 18 of 40 parameters are assumed"), "{shipped}");
    let yours = evidence(&changed(HOSTS, &[("hypercall_ns = 620", "hypercall_ns = 500")], &[]));
    assert!(yours.contains("1 given by you. In the study"), "{yours}");
    let same = evidence(&changed(HOSTS, &[("hypercall_ns = 620", "hypercall_ns = 620.0")], &[]));
    let after = |text: &str| text.split_once(": ").unwrap().1.to_owned();
    assert_eq!(after(&same), after(&shipped), "the same number in another form is not the user's");
}

/// A price list in which an instruction is 0.5 ns, an invalidation 900 ns; with the evidence of each.
fn price_list(folder: &std::path::Path, name: &str, instruction: &str, invalidation: &str) -> String {
    let measured = r#"kind = "measured", how = "a test", on = "here""#;
    let evidence = |kind: &str| match kind {
        "measured" => measured.to_owned(),
        _ => r#"kind = "assumed", why = "a test""#.to_owned(),
    };
    let list = format!(
        "platform = \"a host\"\narch = \"x86\"\napplies_to = \"tests\"\n[instruction_ns]\nvalue = 0.5\nevidence = {{ {} }}\n\
         [event_ns.invalidations]\nvalue = 900\nevidence = {{ {} }}\n",
        evidence(instruction),
        evidence(invalidation)
    );
    let file = folder.join(name);
    std::fs::write(&file, list).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn measured_prices_of_a_list_replace_values_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let of_watch = price_list(folder.path(), "watch.toml", "assumed", "measured");
    let of_bench = price_list(folder.path(), "bench.toml", "measured", "assumed");
    let run = |args: &[&str]| {
        let output = model(&[&["run", "--json"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let written = |changes: &[(&str, &str)]| {
        let mut example = std::fs::read_to_string(DISK).unwrap();
        changes.iter().for_each(|(from, to)| example = example.replacen(from, to, 1));
        let file = folder.path().join("written.toml");
        std::fs::write(&file, example).unwrap();
        run(&[file.to_str().unwrap()])["block"].clone()
    };
    // The answer is that of a file with the same numbers. Of a list that assumes a price, the file's own stays.
    let one = run(&[DISK, "--prices", &of_watch]);
    let (instruction, invalidation) = (
        ("instruction_ns = 0.33", "instruction_ns = 0.5"),
        ("invalidation_ns = 710", "invalidation_ns = 900"),
    );
    assert_eq!(one["block"], written(&[invalidation]));
    let both = run(&[DISK, "--prices", &of_watch, "--prices", &of_bench]);
    assert_eq!(both["block"], written(&[instruction, invalidation]));
    assert_ne!(one["block"], both["block"]);
    // Their evidence is that of the list.
    let prices = both["evidence"]["prices"].as_array().unwrap();
    assert_eq!(prices[0]["key"], "cpus.instruction_ns");
    assert_eq!((&prices[1]["key"], &prices[1]["value"]), (&"mapping.invalidation_ns".into(), &900.0.into()));
    assert_eq!(prices[1]["evidence"]["on"], "here");
    let shipped = run(&[DISK]);
    let share =
        |document: &serde_json::Value, kind: &str| document["evidence"]["values"][kind].as_u64().unwrap();
    assert_eq!(share(&both, "measured"), share(&shipped, "measured") + 2);
    assert_eq!((share(&both, "assumed") + 2, share(&both, "given")), (share(&shipped, "assumed"), 0));
    let shown = words(&text(&model(&["run", DISK, "--prices", &of_watch]).stdout));
    assert!(shown.contains("Measured prices: mapping.invalidation_ns 900"), "{shown}");
}

#[test]
fn prices_that_have_no_place_in_a_file_are_exit_two() {
    let folder = tempfile::tempdir().unwrap();
    let assumed = price_list(folder.path(), "assumed.toml", "assumed", "assumed");
    let measured = price_list(folder.path(), "measured.toml", "measured", "measured");
    let refused = |args: &[&str], words: &str| {
        let output = model(&[&["run"], args].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
        assert!(output.stdout.is_empty());
    };
    refused(
        &[EXAMPLE, "--prices", &measured],
        "engine.toml describes an engine, which takes no price of a list",
    );
    refused(&[DISK, "--prices", &assumed], "assumed.toml: no measured price that");
    refused(&[DISK, "--prices", "/nowhere.toml"], "can't read price list /nowhere.toml");
    // A price that the model does not take.
    let zero = std::fs::read_to_string(&measured).unwrap().replace("value = 0.5", "value = 0");
    std::fs::write(folder.path().join("zero.toml"), zero).unwrap();
    let zero = folder.path().join("zero.toml");
    refused(&[DISK, "--prices", zero.to_str().unwrap()], "prices of ");
    refused(&[DISK, "--prices", zero.to_str().unwrap()], "cpus.instruction_ns is 0; expected 0.001 to 1000");
    refused(
        &[DISK, "--prices", &measured, "--prices", zero.to_str().unwrap()],
        "instruction_ns is 0, and 0.5 in ",
    );
}
