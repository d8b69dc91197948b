//! Texts as people paste them.

use super::*;
use proptest::prelude::*;

fn parts(text: &str) -> Vec<(&'static str, String)> {
    cut(text).parts.into_iter().map(|(path, part)| (path, part.body)).collect()
}

fn one(text: &str, path: &str) -> Part {
    cut(text).parts.remove(path).unwrap_or_else(|| panic!("no {path} in {text}"))
}

const POST: &str = "\
Hi all, my card is slow. This is what I have:

```
user@host:~$ cat /proc/cmdline
BOOT_IMAGE=/vmlinuz-6.1 root=/dev/sda2 quiet iommu=pt
user@host:~$ dmesg | grep -i iommu
[    0.50] iommu: Default domain type: Passthrough (set via kernel command line)
[    0.60] pci 0000:01:00.0: Adding to iommu group 1
```

And here is lspci:

    $ lspci -nnk
    01:00.0 Ethernet controller [0200]: Intel Corporation I350 [8086:1521]
    \tKernel driver in use: igb

> [    0.70] pci 0000:02:00.0: Adding to iommu group 2

Thanks!
";

#[test]
fn a_post_is_cut_into_the_files_of_a_host() {
    assert_eq!(
        parts(POST),
        [
            (LISTING, "01:00.0 Ethernet controller [0200]: Intel Corporation I350 [8086:1521]\n\tKernel driver in use: igb\n\n".to_owned()),
            ("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/sda2 quiet iommu=pt\n".to_owned()),
            (
                LOG,
                "[    0.50] iommu: Default domain type: Passthrough (set via kernel command line)\n\
                 [    0.60] pci 0000:01:00.0: Adding to iommu group 1\n\
                 [    0.70] pci 0000:02:00.0: Adding to iommu group 2\n"
                    .to_owned()
            ),
        ]
    );
    assert_eq!(one(POST, LOG).numbers, [7, 8, 17]);
    assert_eq!(one(POST, "proc/cmdline").numbers, [5]);
}

#[test]
fn fields_below_a_command_that_names_their_function() {
    let listing = |text: &str| one(text, LISTING).body;
    let fields = "...\n\t\tLnkSta:\tSpeed 8GT/s, Width x2 (downgraded)\n...\n\tKernel driver in use: qede\n";
    let expect = "08:00.0\n\t\tLnkSta:\tSpeed 8GT/s, Width x2 (downgraded)\n\tKernel driver in use: qede\n";
    for command in ["lspci -s 08:00.0 -vv", "sudo lspci -vvvs 08:00.0 | grep Lnk", "lspci -vv -s08:00.0"] {
        assert_eq!(listing(&format!("# {command}\n{fields}")), expect, "{command}");
    }
    let whole = "# lspci -s 08:00.0\n08:00.0 Ethernet controller: x\n";
    assert_eq!(listing(whole), "08:00.0 Ethernet controller: x\n");
    // All functions of a bus: the fields are of none that is told.
    assert!(listing(&format!("# lspci -vvs 08:\n{fields}")).starts_with('\t'));
}

#[test]
fn citations_name_the_text_and_its_line() {
    let mut evidence = super::super::Evidence::new(super::super::progress::ignore());
    evidence.add_reader(POST.as_bytes(), "post.txt").unwrap();
    let host = crate::Host::read(&evidence.into_tree().unwrap());
    let said = host.log.default_passthrough.unwrap();
    assert_eq!((&*said.at.file, said.at.line), ("post.txt", Some(7)));
    let adapter = &host.adapters[0];
    assert_eq!(adapter.function.driver.as_ref().unwrap().at.line, Some(15));
    assert_eq!(host.command_line.unwrap().at.line, Some(5));
}

#[test]
fn a_log_or_a_listing_alone_stays_whole() {
    let log = "[    0.1] a\nunprefixed\n[    0.2] b\n";
    assert_eq!(parts(log), [(LOG, log.to_owned())]);
    let listing =
        "01:00.0 Ethernet controller: x\n\tFlags: fast devsel\n02:00.0 VGA compatible controller: y\n";
    assert_eq!(parts(listing), [(LISTING, listing.to_owned())]);
    assert_eq!(parts("dear all,\nit does not work\n"), []);
}

#[test]
fn messages_without_times_are_a_log() {
    let log = "DMAR: IOMMU enabled\nDMAR: No ATSR found\n";
    assert_eq!(parts(log), [(LOG, log.to_owned())]);
}

#[test]
fn wrapped_lines_are_joined() {
    let text = "look:\n```\n[    1.500000] software IO TLB: mapped [mem 0x00000000b3000000-\n0x00000000b7000000] (64MB)\n[    1.6] x\n```\n";
    let log = one(text, LOG);
    assert_eq!(
        log.body,
        "[    1.500000] software IO TLB: mapped [mem 0x00000000b3000000- 0x00000000b7000000] (64MB)\n[    1.6] x\n"
    );
    assert_eq!(log.numbers, [3, 5]);
}

#[test]
fn scripts_that_list_groups_give_functions_and_groups() {
    let text = "IOMMU Group 1 00:01.0 PCI bridge [0604]: Intel Corporation x [8086:0c01]\n\
                IOMMU Group 1 01:00.0 VGA compatible controller [0300]: NVIDIA Corporation y [10de:13c2]\n";
    let listing = one(text, LISTING);
    assert_eq!(listing.numbers, [1, 1, 2, 2]);
    let records = crate::pci::lspci::parse(&crate::Text::new(LISTING, listing.body));
    let groups: Vec<u32> = records.iter().map(|record| record.iommu_group.as_ref().unwrap().value).collect();
    assert_eq!(groups, [1, 1]);
}

#[test]
fn several_hosts_in_one_text_are_refused() {
    let check = |text: &str, expect: Option<(&str, u32)>| {
        let texts = vec![Pasted { name: "post".to_owned(), cut: cut(text) }];
        let got = assemble(texts).err();
        let got = got.as_ref().map(|hosts| (hosts.what.as_str(), hosts.cut_after.unwrap()));
        assert_eq!(got, expect, "{text}");
    };
    check(
        "Nov 21 01:22:03 alpha kernel: a\nNov 21 01:22:04 alpha kernel: b\nNov 21 01:22:03 beta.example kernel: c\n",
        Some(("lines 1 and 3 are of the hosts `alpha` and `beta`", 2)),
    );
    check(
        "01:00.0 Ethernet controller: one\n\n01:00.0 Ethernet controller: other\n",
        Some(("0000:01:00.0 is one device in line 1 and another in line 3", 2)),
    );
    check(
        "alice@box1:~$ uname -a\nLinux box1 5.15.0-91 x GNU/Linux\nbob@box2:~$ dmesg\n[    0.1] x\n",
        Some(("lines 1 and 3 are of the hosts `box1` and `box2`", 2)),
    );
    check("Nov 21 01:22:03 ubuntu kernel: [    1.5] a\nNov 21 01:22:04 desktop kernel: [    2.5] b\n", None);
    check("alice@Tower:~$ uname -a\nLinux tower 5.15.0-91 x GNU/Linux\n", None);
    check(
        "01:00.0 VGA compatible controller: NVIDIA Device 2704\n\n01:00.0 VGA compatible controller [0300]: AD103 [10de:2704]\n",
        None,
    );
    check("Nov 21 01:22:03 localhost kernel: a\nNov 21 01:22:04 alpha kernel: b\n", None);
    check(
        "01:00.0 Ethernet controller: one\n\n01:00.0 Ethernet controller: one\n\tFlags: fast devsel\n",
        None,
    );
}

#[test]
fn of_two_texts_with_logs_the_longer_one_is_read() {
    let text = |name: &str, body: &str| Pasted { name: name.to_owned(), cut: cut(body) };
    let assembled = assemble(vec![
        text("short", "[    0.1] a\n"),
        text("long", "[    0.1] a\n[    0.2] b\n"),
        text("listing", "01:00.0 Ethernet controller: x\n"),
    ]);
    let assembled = assembled.unwrap();
    assert_eq!(&*assembled.origins[LOG].file, "long");
    assert_eq!(&*assembled.origins[LISTING].file, "listing");
    assert_eq!(assembled.left_out, [("short (var/log/dmesg)".to_owned(), Refusal::AnotherIsRead)]);
}

#[test]
fn excerpts_in_prose_are_found() {
    let quoted = one(
        "It said\n\"[2150502.965087] DMAR: [DMA Read NO_PASID] Request device [02:00.0] fault addr 0x1\"\n",
        LOG,
    );
    assert_eq!(
        quoted.body,
        "[2150502.965087] DMAR: [DMA Read NO_PASID] Request device [02:00.0] fault addr 0x1\n"
    );
    let bare = one("crashed with\naic7xxx 0000:05:02.1: enabling device (0000 -> 0003)\nand then\n", LOG);
    assert_eq!(bare.numbers, [2]);
}

#[test]
fn a_group_has_the_functions_below_its_heading() {
    let text = "IOMMU group 7\n\t00:1b.0 Audio device [0403]: Intel x [8086:8ca0]\n\
                IOMMU Group 1:\n\t01:00.0 VGA compatible controller [0300]: NVIDIA y [10de:1187]\n\
                \t01:00.1 Audio device [0403]: NVIDIA z [10de:0e0a]\n\n\
                and this is another list:\n02:00.0 Ethernet controller [0200]: Intel w [8086:1521]\n";
    let expect = "00:1b.0 Audio device [0403]: Intel x [8086:8ca0]\n\tIOMMU group: 7\n\
                  01:00.0 VGA compatible controller [0300]: NVIDIA y [10de:1187]\n\tIOMMU group: 1\n\
                  01:00.1 Audio device [0403]: NVIDIA z [10de:0e0a]\n\tIOMMU group: 1\n\n\
                  02:00.0 Ethernet controller [0200]: Intel w [8086:1521]\n";
    assert_eq!(one(text, LISTING).body, expect);
}

#[test]
fn listed_groups_are_groups_of_the_host() {
    let text = "$ lspci\n01:00.0 Ethernet controller: x\n02:00.0 Ethernet controller: y\n\n\
                $ find /sys/kernel/iommu_groups/ -type l\n/sys/kernel/iommu_groups/7/devices/0000:01:00.0\n";
    let mut evidence = super::super::Evidence::new(super::super::progress::ignore());
    evidence.add_reader(text.as_bytes(), "post").unwrap();
    let host = crate::Host::read(&evidence.into_tree().unwrap());
    let groups: Vec<Option<u32>> = host
        .adapters
        .iter()
        .map(|adapter| adapter.function.iommu_group.as_ref().map(|group| group.value))
        .collect();
    assert_eq!(groups, [Some(7), None]);
}

/// A line of a post: of something that is known, or of anything.
fn any_line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("```".to_owned()),
        Just("user@host:~$ dmesg".to_owned()),
        Just("# lspci -nnk".to_owned()),
        Just("[    0.1] iommu: x".to_owned()),
        Just("    01:00.0 Ethernet controller: x".to_owned()),
        Just("\tKernel driver in use: igb".to_owned()),
        Just("IOMMU Group 1 01:00.0 Ethernet controller: x".to_owned()),
        Just("/sys/kernel/iommu_groups/1/devices/0000:01:00.0".to_owned()),
        Just("#==[ Command ]======================================#".to_owned()),
        Just("# /bin/dmesg -T".to_owned()),
        Just("# /proc/iomem".to_owned()),
        Just("Start of NVIDIA bug report log file.  Please".to_owned()),
        Just("_".repeat(44)),
        Just("*** /proc/cmdline".to_owned()),
        Just("dmesg:".to_owned()),
        Just("==== general system info ====".to_owned()),
        Just("Linux version 6.1.0 (a@b)".to_owned()),
        "[> \t\u{a0}\u{e9}]{0,4}(\\[|\\$ |# |BOOT_IMAGE=|Nov 21 01:22:03 h kernel: )?[ -~\u{e9}]{0,40}",
    ]
}

const TREE: &str = r"-[0000:00]-+-00.0  Maker Host Bridge [8086:1904]
           +-1c.0-[01-02]----00.0-[02]----00.0  Maker NIC [8086:1521]
           \\-1f.0  Maker ISA Bridge [8086:9d48]
";

const FIELDS: &str = "\
Slot:\t02:00.0
Class:\tEthernet controller [0200]
Vendor:\tMaker [8086]
Device:\tNIC [1521]
Driver:\tigb
NUMANode:\t1
IOMMUGroup:\t14

Slot:\t00:1c.0
Class:\tPCI bridge [0604]
Vendor:\tMaker [8086]
Device:\tPort [9d10]
Driver:\tpcieport
";

const LIST: &str = "\
00:1c.0 PCI bridge: Maker Port
02:00.0 Ethernet controller: Maker NIC
";

/// What a host's texts tell of the function 02:00.0: bridges above, driver, group, node.
fn told(texts: &[(&str, &str)]) -> (Vec<String>, Option<String>, Option<u32>, Option<u32>) {
    let mut evidence = super::super::Evidence::new(super::super::progress::ignore());
    for (name, text) in texts {
        evidence.add_reader(text.as_bytes(), name).unwrap();
    }
    let host = crate::Host::read(&evidence.into_tree().unwrap());
    let named = |adapter: &&crate::facts::Adapter| adapter.function.address.to_string() == "0000:02:00.0";
    let function = &host.adapters.iter().find(named).unwrap().function;
    (
        function.upstream.iter().map(ToString::to_string).collect(),
        function.driver.as_ref().map(|driver| driver.value.clone()),
        function.iommu_group.as_ref().map(|group| group.value),
        function.numa_node.as_ref().map(|node| node.value),
    )
}

const ABOVE: [&str; 2] = ["0000:00:1c.0", "0000:01:00.0"];

#[test]
fn a_tree_alone_tells_bridges() {
    let indented: String = TREE.lines().map(|line| format!("    {line}\n")).collect();
    let quoted: String = TREE.lines().map(|line| format!("> {line}\n")).collect();
    for text in [
        TREE.to_owned(),
        format!("my tree:\n\n{indented}\nthanks\n"),
        format!("he wrote:\n{quoted}\nwhat now?\n"),
        format!("root@host:~# lspci -tvnn\n{TREE}root@host:~# uname -a\n"),
        format!("```\n{TREE}```\n"),
    ] {
        assert_eq!(told(&[("post", &text)]), (ABOVE.map(str::to_owned).to_vec(), None, None, None), "{text}");
    }
    assert_eq!(parts(TREE), [("lspci_-tv", TREE.to_owned())]);
}

#[test]
fn fields_alone_tell_drivers_groups_and_nodes() {
    let spaces = FIELDS.replace('\t', "  ");
    let told_by_fields = (Vec::new(), Some("igb".to_owned()), Some(14), Some(1));
    for text in [
        FIELDS.to_owned(),
        format!("$ lspci -vmmnnk\n{FIELDS}$ exit\n"),
        format!("look:\n```\n{spaces}```\n"),
    ] {
        assert_eq!(told(&[("post", &text)]), told_by_fields, "{text}");
    }
    assert_eq!(parts(FIELDS), [("lspci_-mm", FIELDS.to_owned())]);
    let line = "02:00.0 \"Ethernet controller [0200]\" \"Maker [8086]\" \"NIC [1521]\" -r01 -p00 \"\" \"\"\n";
    assert_eq!(told(&[("post", line)]), (Vec::new(), None, None, None));
}

#[test]
fn formats_beside_each_other_complete_each_other() {
    let all = (ABOVE.map(str::to_owned).to_vec(), Some("igb".to_owned()), Some(14), Some(1));
    let post = format!(
        "```\n$ lspci\n{LIST}```\nand\n```\n$ lspci -vmmk\n{FIELDS}```\nand\n```\n$ lspci -tv\n{TREE}```\n"
    );
    assert_eq!(told(&[("post", &post)]), all);
    assert_eq!(told(&[("a", LIST), ("b", FIELDS), ("c", TREE)]), all);
    assert_eq!(told(&[("post", &format!("{LIST}\n{FIELDS}\n{TREE}"))]), all);
}

#[test]
fn listings_of_two_hosts_in_two_texts_are_refused() {
    let text = |name: &str, body: &str| Pasted { name: name.to_owned(), cut: cut(body) };
    let other = FIELDS.replace("[1521]", "[10fb]");
    let refused = assemble(vec![text("tree", TREE), text("fields", &other)]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "fields, tree: 0000:02:00.0 is one device in line 1 of fields and another in line 2 of tree; expected the \
         output of one host: give each by itself"
    );
    assert!(assemble(vec![text("tree", TREE), text("fields", FIELDS)]).is_ok());
}

proptest! {
    /// Every line of a file is cited as the line of the text that it came from, and texts of any kind end.
    #[test]
    fn every_line_has_the_number_of_its_line_in_the_text(lines in proptest::collection::vec(any_line(), 0..24)) {
        let text = lines.join("\n");
        let Cut { parts, logs, .. } = cut(&text);
        for part in parts.values().chain(logs.iter().map(|log| &log.part)) {
            prop_assert_eq!(part.numbers.len(), part.body.lines().count());
            prop_assert!(part.numbers.iter().all(|number| (1..=lines.len() as u32).contains(number)));
            prop_assert!(part.numbers.is_sorted());
        }
    }
}

#[test]
fn prose_is_not_glued_to_a_log_and_of_two_command_lines_the_later_one_counts() {
    let text = "[    0.1] Kernel command line: BOOT_IMAGE=/vmlinuz-6.1.0-13-amd64 root=/dev/mapper/vg-root ro quiet\n\
                I already tried intel_iommu=off and then\n";
    assert!(one(text, LOG).body.lines().next().unwrap().ends_with("ro quiet"), "{text}");
    let fenced = format!("look\n```\n{text}```\n");
    assert!(one(&fenced, LOG).body.lines().next().unwrap().ends_with("ro quiet"), "{text}");
    let text = "$ cat /proc/cmdline\nBOOT_IMAGE=/a intel_iommu=off\n\nand after the change:\n\
                $ cat /proc/cmdline\nBOOT_IMAGE=/a intel_iommu=on\n";
    assert_eq!(one(text, "proc/cmdline").body, "BOOT_IMAGE=/a intel_iommu=on\n");
}

#[test]
fn texts_of_windows_and_of_painted_terminals_are_read() {
    let wide: Vec<u8> = "\u{feff}[    0.1] a\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(decoded(&wide), "[    0.1] a\n");
    assert_eq!(decoded(b"[    0.1] a\n\0\0\0"), "[    0.1] a\n");
    let painted = "look\n\u{1b}[32m[    0.100000] \u{1b}[0m\u{1b}[33mDMAR\u{1b}[0m: IOMMU enabled\n";
    assert_eq!(one(painted, LOG).body, "[    0.100000] DMAR: IOMMU enabled\n");
}

#[test]
fn logs_in_json_are_logs() {
    let journal = concat!(
        r#"{"_TRANSPORT":"kernel","_HOSTNAME":"web1","MESSAGE":"Linux version 6.1.0","_SOURCE_MONOTONIC_TIMESTAMP":"0"}"#,
        "\n",
        r#"{"_TRANSPORT":"journal","MESSAGE":"Journal started","_SOURCE_MONOTONIC_TIMESTAMP":"500000"}"#,
        "\n",
        r#"{"_TRANSPORT":"kernel","_HOSTNAME":"web1","MESSAGE":"DMAR: IOMMU enabled","_SOURCE_MONOTONIC_TIMESTAMP":"1500012"}"#,
        "\n",
        r#"{"_TRANSPORT":"kernel","MESSAGE":[65,66],"_SOURCE_MONOTONIC_TIMESTAMP":"2"}"#,
        "\n{\"_TRANSPORT\":\"ker"
    );
    let log = one(journal, LOG);
    assert_eq!(
        log.body,
        "[    0.000000] web1 kernel: Linux version 6.1.0\n[    1.500012] web1 kernel: DMAR: IOMMU enabled\n"
    );
    assert_eq!(log.numbers, [1, 3]);
    let dmesg = "{\n   \"dmesg\": [\n      {\n         \"pri\": 5,\n         \"time\":     0.000000,\n         \"msg\": \"Linux version 6.1.0\"\n      },{\n         \"pri\": 6,\n         \"time\":    12.345678,\n         \"msg\": \"DMAR: IOMMU enabled\"\n      }\n   ]\n}\n";
    let log = one(dmesg, LOG);
    assert_eq!(log.body, "[    0.000000] Linux version 6.1.0\n[   12.345678] DMAR: IOMMU enabled\n");
    assert_eq!(log.numbers, [6, 10]);
    // Of a log that was cut off, or printed again by another program, what is whole counts.
    let (half, _) = dmesg.split_once("12.345678").unwrap();
    assert_eq!(one(half, LOG).body, "[    0.000000] Linux version 6.1.0\n");
    let compact: String = dmesg.split_whitespace().collect();
    assert_eq!(one(&compact, LOG).numbers, [1, 1]);
    // Another program's JSON is no log.
    assert!(parts("{\"name\": \"x\"}\n").is_empty());
}

#[test]
fn times_for_people_are_times() {
    let log = "[Nov25 10:00] Linux version 6.1.0 (x@y)\n[  +0.000012] DMAR: IOMMU enabled\n";
    assert_eq!(parts(log), [(LOG, log.to_owned())]);
}

proptest! {
    #[test]
    fn any_json_is_read_without_a_panic(text in "\\{[\\[\\]{}\":,a-zA-Z0-9_ \n]{0,80}") {
        let _ = cut(&text);
    }
}

#[test]
fn a_listing_that_was_cut_in_a_word_stays_open() {
    let torn = "01:00.0 Ethernet controller: Intel Corporation I350\n\tSubsystem: Dell Dev";
    assert!(one(torn, LISTING).body.ends_with("\tSubsystem: Dell "));
    let driver = "01:00.0 Ethernet controller: Intel Corporation I350\n\tKernel driver in use: vfio";
    assert!(one(driver, LISTING).body.ends_with("\tKernel driver in use: "));
    assert!(one(&format!("{driver}\n"), LISTING).body.ends_with(": vfio\n"));
}
