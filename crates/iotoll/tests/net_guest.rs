//! `iotoll bench net` between two adapters of a guest behind an IOMMU, in strict and in lazy mode. What the network is said to have
//! carried is held against the adapters' own counters.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod guest;

use guest::support::{Guest, skip, takes_too_long};
use guest::{SHELL, case, kernel, stripped, tool};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// What the driver maps for its receive ring of 256 descriptors when the interface goes up (`e1000_desc_unused`).
const RECEIVE_BUFFERS: i64 = 255;
const PAGE_BYTES: i64 = 4096;

/// A hub with two adapters.
const DEVICES: &str = "-device intel-iommu,intremap=on -netdev hubport,hubid=0,id=a -netdev hubport,hubid=0,id=b \
                       -device e1000e,netdev=a,addr=5,mac=52:54:00:00:00:05 -device e1000e,netdev=b,addr=6,mac=52:54:00:00:00:06";

#[test]
fn two_adapters_of_a_guest_are_measured_in_strict_and_lazy_mode() {
    if takes_too_long() {
        return;
    }
    let Some((cache, kernel)) = kernel() else { return };
    // busybox moves no interface into another network namespace.
    let Some(ip) = tool("ip") else { return skip("no `ip` here, which iproute2 brings") };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let (iotoll, ip_path) = (program.display(), ip.display());
    let script = format!(
        r#"{SHELL}packets() {{ echo "$(cat /sys/class/net/eth0/statistics/tx_packets) $(cat /sys/class/net/eth0/statistics/rx_packets)"; }}
mode() {{ cat /sys/bus/pci/devices/$1/iommu_group/type; }}
measure() {{ packets > /tmp/before; document {iotoll} bench net 10.0.0.2:5000 --secret /tmp/secret --rounds 3 --seconds 1 --size 64,1K --instances 1 --test udp-rr,tcp-rr --json; echo "packets $(cat /tmp/before) $(packets)"; }}
echo a secret of the tests > /tmp/secret
chmod 600 /tmp/secret
unshare -n -m sh -c 'mount -t sysfs none /sys; echo $$ > /tmp/other; exec sleep 10000' &
sleep 1
other=$(cat /tmp/other)
{ip_path} link set eth1 netns $other
in_other() {{ nsenter --net=/proc/$other/ns/net --mount=/proc/$other/ns/mnt "$@"; }}
in_other {ip_path} address add 10.0.0.2/24 dev eth1
in_other {ip_path} link set eth1 up
{ip_path} address add 10.0.0.1/24 dev eth0
watched() {{ {iotoll} watch --adapter 0000:00:05.0 --json -- sh -c "{ip_path} link set eth0 $1; sleep 2" 2> /tmp/said; echo "status $?"; cat /tmp/said; }}
about up
watched up
about down
watched down
about again
{ip_path} link set eth0 up
sleep 4
in_other {iotoll} bench net --listen 10.0.0.2:5000 --secret /tmp/secret 2> /dev/null &
sleep 1
about mode
mode 0000:00:05.0
mode 0000:00:06.0
about strict
measure
about switch
for slot in 5 6; do echo DMA-FQ > /sys/bus/pci/devices/0000:00:0$slot.0/iommu_group/type; done
mode 0000:00:05.0
mode 0000:00:06.0
about lazy
measure
about end
"#
    );
    let guest = Guest {
        modules: &["e1000e"],
        programs: &[&program, &ip],
        before: String::new(),
        modes: &[],
        after: &script,
        devices: DEVICES,
        command_line: "intel_iommu=on iommu.strict=1 no_timer_check",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    assert_eq!((case(&console, "mode"), case(&console, "switch")), ("DMA\nDMA\n", "DMA-FQ\nDMA-FQ\n"));
    let [up, down] = ["up", "down"].map(|name| stays_mapped(case(&console, name)));
    assert!(up.0 >= RECEIVE_BUFFERS * PAGE_BYTES && up.1 > 0, "{up:?}");
    assert_eq!(down, (-up.0, -up.1), "what was mapped is unmapped");
    let files = ["strict", "lazy"].map(|mode| {
        let (document, packets) = case(&console, mode).rsplit_once("packets ").unwrap();
        let document: Value =
            serde_json::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"));
        expect_adapters(&document);
        expect_packets(&document, packets);
        let file = folder.path().join(format!("{mode}.json"));
        fs::write(&file, document.to_string()).unwrap();
        file
    });
    let compared = Command::new(env!("CARGO_BIN_EXE_iotoll")).arg("compare").args(&files).output().unwrap();
    let page = String::from_utf8(compared.stdout).unwrap();
    assert!(compared.status.code().is_some_and(|code| code < 2), "{page}");
    for words in ["udp-rr", "tcp-rr", "64 B", "1 KiB"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

/// Bytes that stay in the IOMMU's table, and of coherent memory, in a document of `iotoll watch`.
fn stays_mapped(case: &str) -> (i64, i64) {
    let (document, rest) = case.split_once("\nstatus ").unwrap_or_else(|| panic!("{case}"));
    assert!(rest.starts_with('0'), "{rest}");
    let document: Value =
        serde_json::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"));
    let stays = &document["adapters"][0]["stays_mapped"];
    let of = |name: &str| stays[name].as_i64().unwrap_or_else(|| panic!("{name}: {}", document["adapters"]));
    (of("table_bytes"), of("coherent_bytes"))
}

/// Each side names its own adapter.
fn expect_adapters(document: &Value) {
    for (side, interface, address) in [("client", "eth0", "0000:00:05.0"), ("server", "eth1", "0000:00:06.0")]
    {
        let path = &document[side]["path"];
        assert_eq!(path["interface"], interface, "{path}");
        let adapter = &path["adapters"][0];
        assert_eq!(
            (&adapter["driver"], &adapter["pci_address"]),
            (&"e1000e".into(), &address.into()),
            "{path}"
        );
    }
}

/// The adapter's own counters: it sent each request and received each answer.
fn expect_packets(document: &Value, packets: &str) {
    let numbers: Vec<u64> = packets.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [sent_before, received_before, sent, received] = numbers[..] else { panic!("{packets}") };
    let rounds =
        document["cells"].as_array().unwrap().iter().flat_map(|cell| cell["rounds"].as_array().unwrap());
    let transactions: u64 = rounds.map(|round| round["transactions"].as_u64().unwrap()).sum();
    // Warm-up and the control connection come on top, but less than was measured.
    for carried in [sent - sent_before, received - received_before] {
        assert!(
            (transactions..2 * transactions).contains(&carried),
            "{transactions} transactions, {packets}"
        );
    }
}
