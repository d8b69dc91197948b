//! Counts of a live RDMA device in a guest: soft-RoCE that carries NVMe, which registers memory. What iotoll reads from the kernel is
//! held against what `rdma` of iproute2 prints, and against its lists of single queue pairs and registrations.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod guest;

use guest::support::{Guest, skip};
use guest::{SHELL, case, kernel, stripped, tool};
use serde_json::Value;

/// Loaded from the start. `crc32_generic` is a checksum that soft-RoCE asks the kernel for by name.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "crc32_generic",
    "ib_uverbs",
    "rdma_rxe",
    "configfs",
    "nvmet_rdma",
    "nvme_rdma",
];

/// Attaches an NVMe subsystem of the guest to the guest itself over soft-RoCE: a pair of queue pairs for each of two queues, and a
/// memory registration for each request that one may hold. It needs no disk.
const ATTACH: &str = r"
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir subsystems/test ports/1
echo 1 > subsystems/test/attr_allow_any_host
echo rdma > ports/1/addr_trtype
echo ipv4 > ports/1/addr_adrfam
echo 10.0.0.1 > ports/1/addr_traddr
echo 4420 > ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/test ports/1/subsystems/test
echo transport=rdma,traddr=10.0.0.1,trsvcid=4420,nqn=test,nr_io_queues=1,queue_size=16 > /dev/nvme-fabrics
cd /tmp
";

/// The RDMA devices of a document of `inspect --json`.
fn devices(document: &str) -> Vec<Value> {
    let document: Value =
        serde_json::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"));
    document["rdma_devices"].as_array().unwrap().clone()
}

#[test]
fn counts_of_the_kernel_are_those_of_the_rdma_tool() {
    let Some((cache, kernel)) = kernel() else { return };
    let Some(rdma) = tool("rdma") else { return skip("no `rdma` here, which iproute2 brings") };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let (iotoll, rdma_path) = (program.display(), rdma.display());
    // The file at the root must not be read on a live host.
    let before = format!(
        "{SHELL}mkdir -p /etc\necho 'nobody:x:65534:65534::/:/bin/sh' > /etc/passwd\n\
         echo '0: rxe0: qp 999 mr 999 ' > /rdma_resource\n\
         ip addr add 10.0.0.1/24 dev eth0\nip link set eth0 up\n\
         about without\ndocument {iotoll} inspect --json\n\
         about attach\n{rdma_path} link add rxe0 type rxe netdev eth0\n{ATTACH}\nsleep 2\n\
         about live\ndocument {iotoll} inspect --json\n\
         about user\ndocument su -s /bin/sh nobody -c '{iotoll} inspect --json'\n\
         about capture\n{iotoll} capture --with-identifiers -o /tmp/host.tar.gz 2> /dev/null\n\
         about captured\ntar -xzOf /tmp/host.tar.gz rdma_resource\n\
         about tool\n{rdma_path} resource\n\
         about inspected\ndocument {iotoll} inspect --from /tmp/host.tar.gz --json\n\
         about pairs\n{rdma_path} resource show qp\n\
         about registrations\n{rdma_path} resource show mr\n\
         about end\n"
    );
    let guest = Guest {
        modules: MODULES,
        programs: &[&program, &rdma],
        before,
        modes: &[],
        after: "",
        devices: "-device virtio-net-pci,netdev=net -netdev user,id=net,restrict=on",
        command_line: "",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    let case = |name| case(&console, name);
    assert!(devices(case("without")).is_empty());
    assert_eq!(case("captured"), case("tool"), "{console}");
    let live = devices(case("live"));
    let [device] = live.as_slice() else { panic!("{}", case("live")) };
    assert_eq!(device["name"], "rxe0");
    let listed = |name| case(name).lines().filter(|line| line.contains(" rxe0")).count();
    let (pairs, registrations) = (listed("pairs"), listed("registrations"));
    // Two at each end, and the one that manages the port.
    assert!(pairs >= 5 && registrations >= 16, "{console}");
    assert_eq!(device["queue_pairs"], pairs);
    assert_eq!(device["registrations"], registrations);
    // Any user is answered, and a capture reads the same.
    assert_eq!(devices(case("user")), live);
    assert_eq!(devices(case("inspected")), live);
}
