//! Which toll sheets predictions are made from, and how far they are said to be from the host.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test uses its part of the reader")]
mod fixture;

use fixture::tolls;
use host::diagnose::{Basis, Prediction, TimedEvents, measured_prices};
use host::facts::iommu::Kind;
use host::tree::Memory;
use host::{Digest, Host, Inspection, Tree};
use proptest::prelude::*;
use std::path::Path;
use toll::{DmaPath, Event, Evidence, PriceList};

const NVME: (&str, &str) = ("nvme", "0x010802");
const VTD: &str = "dmar0";
const AMD_VI: &str = "ivhd0";
const SMMU: &str = "smmu3.0x0000000009050000";

/// A host with one adapter in a group of type DMA: translated and strict on kernels that tell.
fn strict(release: &str, iommu: &str, (driver, class): (&str, &str)) -> Host {
    let mut files = Memory::default();
    files.file("proc/version", format!("Linux version {release} (x@y) #1 SMP\n"));
    files.file("proc/cmdline", "iommu.strict=1\n");
    files.file(&format!("sys/class/iommu/{iommu}/name"), "x\n");
    let folder = "sys/devices/pci0000:00/0000:00:01.0";
    files.link("sys/bus/pci/devices/0000:00:01.0", "../../../devices/pci0000:00/0000:00:01.0");
    for (name, value) in [("vendor", "0x144d"), ("device", "0xa80a"), ("class", class)] {
        files.file(&format!("{folder}/{name}"), format!("{value}\n"));
    }
    files.link(&format!("{folder}/driver"), &format!("../../../bus/pci/drivers/{driver}"));
    files.link(&format!("{folder}/iommu_group"), "../../../kernel/iommu_groups/1");
    files.file("sys/kernel/iommu_groups/1/type", "DMA\n");
    files.folder("sys/kernel/iommu_groups/1/devices/0000:00:01.0");
    Host::read(&Tree::of_memory(files))
}

/// What is predicted of a strict host; the rule must have spoken.
fn predicted(host: Host, tolls: &Digest) -> Vec<Prediction> {
    let inspection = fixture::inspect(host, tolls);
    assert_eq!(inspection.dma_paths[0].dma_path, DmaPath::TranslatedStrict);
    let found = inspection.findings.into_iter().find(|finding| finding.id.word() == "strict-on-fast-adapter");
    found.unwrap().predicted
}

fn presets(predictions: &[Prediction]) -> Vec<String> {
    predictions.iter().map(|one| format!("{} {}", one.now.preset, one.workload)).collect()
}

#[test]
fn the_nearest_kernel_is_taken_and_its_distance_said() {
    let check = |release: &str, preset: &str, releases: u32, words: &str| {
        let predicted = predicted(strict(release, VTD, NVME), &tolls());
        assert_eq!(presets(&predicted), [format!("{preset} nvme-read-4k")], "{release}");
        assert_eq!(predicted[0].distance.kernel_releases, Some(releases), "{release}");
        assert!(predicted[0].sheets.contains(words), "{}", predicted[0].sheets);
    };
    check("6.1.76-x86_64", "x86-vtd-strict", 0, "this host has the same IOMMU and version");
    check("6.12.3-x86_64", "x86-6.12-vtd-strict", 0, "this host has the same IOMMU and version");
    check("6.8.0-31-x86_64", "x86-6.12-vtd-strict", 4, "Linux 6.8.0-31-x86_64, 4 releases before it");
    check("7.2.0-x86_64", "x86-6.12-vtd-strict", 10, "Linux 7.2.0-x86_64, 10 releases after it");
    let rhel = "5.14.0-427.13.1.el9_4.x86_64";
    check(rhel, "x86-vtd-strict", 7, "7 releases before it by its number, with newer code taken in");
}

#[test]
fn another_iommu_is_worse_than_another_kernel() {
    let near = predicted(strict("6.12.3-x86_64", AMD_VI, NVME), &tolls());
    assert_eq!(presets(&near), ["x86-amdvi-strict nvme-read-4k"]);
    assert!(!near[0].distance.other_iommu);
    // Of AMD-Vi there is no network sheet.
    let far = predicted(strict("6.1.76-x86_64", AMD_VI, ("e1000e", "0x020000")), &tolls());
    assert_eq!(presets(&far), ["x86-vtd-strict e1000e-udp-64", "x86-vtd-strict e1000e-udp-16k"]);
    assert!(far[0].distance.other_iommu && far[0].sheets.ends_with("; this host has AMD-Vi"));
}

#[test]
fn a_driver_without_a_sheet_is_stood_in_for_by_one_of_its_class() {
    let of = |driver: &str, class: &str| predicted(strict("6.1.76-x86_64", VTD, (driver, class)), &tolls());
    let card = of("mlx5_core", "0x020000");
    assert_eq!(presets(&card), ["x86-vtd-strict e1000e-udp-64", "x86-vtd-strict e1000e-udp-16k"]);
    assert!(card[0].distance.other_driver && card[0].sheets.ends_with("; this host has driver mlx5_core"));
    assert!(!of("e1000e", "0x020000")[0].distance.other_driver);
    assert_eq!(presets(&of("virtio_net", "0x020000"))[0], "x86-vtd-strict virtio-net-udp-64");
    let sas = of("mpt3sas", "0x010700");
    assert!(sas[0].distance.other_driver && sas[0].driver == "nvme");
    assert!(of("nvidia", "0x030200").is_empty(), "a GPU is like no sheet");
}

#[test]
fn another_adapter_is_no_change_of_dma_path() {
    // The e1000 asks for 32 bits, so the remedy of its default window is another card.
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/ppc-noddw.tar.gz");
    let inspection = fixture::inspect(Host::read(&Tree::open(&capture).unwrap()), Digest::builtin());
    let predicted = |address: &str| {
        let address = Some(address.parse().unwrap());
        let finding = inspection.findings.iter().find(|finding| finding.address == address).unwrap();
        assert_eq!(finding.id.word(), "power-default-window");
        !finding.predicted.is_empty()
    };
    assert!(predicted("0000:00:00.0") && !predicted("0000:00:01.0"));
}

#[test]
fn the_difference_is_reported_in_both_directions() {
    let card = predicted(strict("6.1.76-x86_64", VTD, ("e1000e", "0x020000")), &tolls());
    // The lazy sheet writes entries and shows none for nvme-read-4k: there they are no difference.
    let read = predicted(strict("6.1.76-x86_64", VTD, NVME), &tolls());
    let head = "synchronous O_DIRECT read of 4 KiB";
    assert_eq!(
        read[0].what,
        format!(
            "{head}: 500 instructions of DMA mapping (3.8 % of the I/O's 13,000) and 0.99 IOTLB invalidations less; 30 repetitions \
             of string instructions more"
        )
    );
    // Four exchanges are one window.
    assert_eq!(
        card[1].what,
        "UDP request and response of 16384 bytes: 7.98 IOTLB invalidations less; 2,000 instructions of DMA mapping (4.3 % of the I/O's \
         46,000) more"
    );
    assert_eq!((card[1].now.instructions, card[1].then.instructions), (46000.0, 48000.0));
    let evidence = card[1].evidence.to_string();
    assert_eq!(
        evidence,
        "measured: iotoll lab run x86-vtd-strict, iotoll lab run x86-vtd-lazy, on a machine made up"
    );
}

/// The digest with another number of instructions in a boot of the lazy sheet's 4 KiB read.
fn with_lazy_read(change: fn(&mut host::digest::BootDigest)) -> Digest {
    let mut digest = tolls();
    let sheets = digest.sheets.iter_mut().filter(|sheet| sheet.preset == "x86-vtd-lazy");
    let reads = sheets.flat_map(|sheet| &mut sheet.tolls).filter(|toll| toll.workload == "nvme-read-4k");
    reads.for_each(|toll| change(&mut toll.boots[0]));
    digest
}

#[test]
fn a_sign_that_is_not_certain_is_not_reported() {
    let read = |digest: &Digest| predicted(strict("6.1.76-x86_64", VTD, NVME), digest)[0].what.clone();
    let mapping = read(&with_lazy_read(|boot| boot.dma *= 2));
    assert!(!mapping.contains("of DMA mapping"), "{mapping}");
    assert!(
        mapping.contains("whether DMA mapping takes fewer instructions is uncertain (between "),
        "{mapping}"
    );
    let elsewhere = read(&with_lazy_read(|boot| boot.elsewhere += boot.elsewhere / 10));
    assert!(elsewhere.contains("500 instructions of DMA mapping"), "{elsewhere}");
    assert!(
        elsewhere.contains("whether the rest of the I/O takes fewer instructions is uncertain"),
        "{elsewhere}"
    );
    let spread = read(&with_lazy_read(|boot| boot.dma += boot.dma / 100));
    assert!(spread.contains("±") && spread.contains(" instructions of DMA mapping ("), "{spread}");
    let little = read(&with_lazy_read(|boot| boot.elsewhere += boot.elsewhere / 10_000));
    assert!(!little.contains("uncertain"), "{little}");
    let events = read(&with_lazy_read(|boot| {
        boot.events.insert(Event::Invalidations, 100 * u64::from(boot.windows.get()));
    }));
    assert!(!events.contains("invalidation"), "{events}");
}

#[test]
fn a_gain_in_time_is_the_difference_at_the_prices_of_the_platform() {
    let read = predicted(strict("6.1.76-x86_64", VTD, NVME), &tolls());
    let time = read[0].time.as_ref().unwrap();
    // 13,000 and 12,500 instructions of 0.5 ns, 1 and 0.01 invalidations of 700 ns, 70 and 100 repetitions of 0.1 ns.
    assert_eq!((time.now_ns, time.then_ns.round()), (7207.0, 6267.0));
    assert!((time.saved.ns - 940.0).abs() < 1e-6 && (time.cpu_saved - 0.094).abs() < 1e-9);
    assert_eq!(
        time.what,
        "synchronous O_DIRECT read of 4 KiB: 940 ns ±88.9 ns of 7.21 µs less (13 %): IOTLB invalidations 693 ns, instructions 250 ns, \
         repetitions of string instructions -3.00 ns; at 100,000 a second 9.40 % of a CPU"
    );
    assert_eq!(
        time.prices,
        "prices of an x86 made up: instruction 0.50 ns (assumed: made up); \
         IOTLB invalidation 700 ns (published: a paper made up, 2000); \
         repetition of string instructions 0.10 ns (assumed: made up)"
    );
    let published = Evidence::Published { source: "a paper made up, 2000".to_owned() };
    assert_eq!(time.saved.charges[1].price_ns.evidence, published);
    let card = predicted(strict("6.1.76-x86_64", VTD, ("e1000e", "0x020000")), &tolls());
    let message = card[1].time.as_ref().unwrap();
    assert!(message.what.contains("IOTLB invalidations 5.59 µs, instructions -1.00 µs"), "{}", message.what);
}

#[test]
fn unpriced_events_are_named() {
    let mut list = fixture::prices()[0].clone();
    list.event_ns.remove(&Event::Invalidations);
    let (host, tolls) = (strict("6.1.76-x86_64", VTD, NVME), tolls());
    let inspection =
        Inspection::with_basis(host, Basis { tolls: Some(&tolls), prices: Some(&[list]), areas: &[] });
    let finding = inspection.findings.iter().find(|one| one.id.word() == "strict-on-fast-adapter").unwrap();
    let time = finding.predicted[0].time.as_ref().unwrap();
    assert!(time.what.ends_with("; not priced: IOTLB invalidations"), "{}", time.what);
    assert_eq!(inspection.outlooks[0].unpriced, [Event::Invalidations]);
    // Prices of another architecture are no prices.
    let power = &fixture::prices()[1..];
    let host = strict("6.1.76-x86_64", VTD, NVME);
    let inspection =
        Inspection::with_basis(host, Basis { tolls: Some(&tolls), prices: Some(power), areas: &[] });
    let predicted = inspection.findings.iter().flat_map(|finding| &finding.predicted);
    assert!(predicted.clone().count() > 0 && predicted.clone().all(|one| one.time.is_none()));
    assert_eq!(inspection.outlooks, []);
}

#[test]
fn an_adapter_with_several_findings_is_counted_once() {
    let inspection = fixture::inspect(strict("6.1.76-x86_64", VTD, NVME), &tolls());
    let [outlook] = inspection.outlooks.as_slice() else { panic!("{:?}", inspection.outlooks) };
    assert_eq!((outlook.address.to_string().as_str(), outlook.io), ("0000:00:01.0", "4 KiB read"));
    assert_eq!((outlook.today.dma_path, outlook.today.ns), (DmaPath::TranslatedStrict, 7207.0));
    assert_eq!(outlook.finding.word(), "strict-on-fast-adapter");
    assert_eq!(outlook.after.dma_path, DmaPath::TranslatedLazy);
    let mut untold = tolls();
    untold.sheets.retain(|sheet| sheet.dma_path == DmaPath::TranslatedStrict);
    assert_eq!(fixture::inspect(strict("6.1.76-x86_64", VTD, NVME), &untold).outlooks, []);
}

#[test]
fn without_sheets_of_its_architecture_nothing_is_predicted() {
    let arm = || strict("6.1.0-18-arm64", SMMU, NVME);
    assert!(predicted(arm(), &tolls()).is_empty(), "one DMA path can be compared with nothing");
    assert!(predicted(arm(), &Digest::default()).is_empty());
    let mut others = tolls();
    others.sheets.retain(|sheet| sheet.arch != "arm");
    assert!(predicted(arm(), &others).is_empty());
    others.sheets.iter_mut().for_each(|sheet| sheet.arch = "arm".to_owned());
    assert!(!predicted(arm(), &others).is_empty(), "the architecture alone kept them out");
}

/// Sheets of the made-up ones with other machines and DMA paths under the same tolls. Presets are numbers.
fn shuffled() -> impl Strategy<Value = Digest> {
    let known = tolls().sheets;
    let sheet = (
        0..known.len(),
        prop::sample::select(vec!["x86", "arm", "ppc", "riscv", ""]),
        prop::sample::select(vec!["6.1.0-56-amd64", "6.12.1", "5.10.0", "not a release"]),
        prop::option::of(prop::sample::select(vec![Kind::VtD, Kind::AmdVi, Kind::SmmuV3])),
        prop::sample::select(vec![DmaPath::TranslatedStrict, DmaPath::TranslatedLazy, DmaPath::Identity]),
    );
    prop::collection::vec(sheet, 0..24).prop_map(move |sheets| {
        let mut digest = Digest::default();
        for (index, arch, release, iommu, dma_path) in sheets {
            let mut sheet = known[index].clone();
            sheet.preset = digest.sheets.len().to_string();
            (sheet.arch, sheet.cpu, sheet.iommu, sheet.dma_path) =
                (arch.to_owned(), "max".to_owned(), iommu, dma_path);
            sheet.kernel.release = release.to_owned();
            digest.sheets.push(sheet);
        }
        digest
    })
}

proptest! {
    #[test]
    fn sheets_are_of_the_hosts_architecture_and_of_one_machine(
        digest in shuffled(),
        (release, iommu) in prop::sample::select(vec![("6.1.0-1-amd64", VTD), ("6.9.0-arm64", SMMU)]),
        adapter in prop::sample::select(vec![NVME, ("e1000e", "0x020000"), ("mlx5_core", "0x020000")]),
    ) {
        let host = || strict(release, iommu, adapter);
        let architecture = host().platform.architecture.unwrap();
        let predictions = predicted(host(), &digest);
        for prediction in &predictions {
            let sheet = |preset: &str| digest.sheets.iter().find(|sheet| sheet.preset == preset).unwrap();
            let (now, then) = (sheet(&prediction.now.preset), sheet(&prediction.then.preset));
            prop_assert!(now.is_of(&architecture) && then.is_of(&architecture));
            prop_assert_eq!((now.dma_path, then.dma_path), (DmaPath::TranslatedStrict, DmaPath::TranslatedLazy));
            prop_assert_eq!(&now.kernel.release, &then.kernel.release);
            prop_assert!(now.iommu.is_none() || then.iommu.is_none() || now.iommu == then.iommu);
        }
        let mut reversed = digest.clone();
        reversed.sheets.reverse();
        prop_assert_eq!(predicted(host(), &reversed), predictions, "the order of sheets decides nothing");
    }
}

#[test]
fn a_host_s_own_prices_replace_the_built_in_ones() {
    let timed = TimedEvents { invalidations: 1000, invalidation_ns: 900_000, ..TimedEvents::default() };
    let prices = |host: &Host, timed| measured_prices(host, timed, "a test", "a host");
    let vtd = strict("6.12.3-x86_64", VTD, NVME);
    let list = prices(&vtd, timed).unwrap();
    // An invalidation has about 523 instructions in `data/tolls/x86-6.12-vtd-strict.json`, at 0.33 ns.
    let own = &list.event_ns[&Event::Invalidations];
    assert!((own.value - (900.0 - 523.0 * 0.33)).abs() < 1.0, "{own:?}");
    let Evidence::Measured { how, on } = &own.evidence else { panic!("{own:?}") };
    assert!(how.starts_with("a test: 900 ns, the mean of 1000, less 52") && on == "a host", "{how}");
    let builtin = PriceList::builtin().iter().find(|list| list.arch == "x86").unwrap();
    assert_eq!(list.event_ns[&Event::DeviceReads], builtin.event_ns[&Event::DeviceReads]);
    assert_eq!(list.instruction_ns, builtin.instruction_ns);
    // It is a price list that inspect takes.
    assert_eq!(PriceList::read(&toml::to_string(&list).unwrap(), "a test").as_ref(), Ok(&list));
    // Another kernel has other instructions; where no sheet has the IOMMU, they are left in.
    let older = prices(&strict("6.1.76-x86_64", VTD, NVME), timed).unwrap();
    assert!(older.event_ns[&Event::Invalidations].value < own.value, "{older:?}");
    let none = prices(&strict("6.1.76-x86_64", "unknown0", NVME), timed).unwrap();
    assert_eq!(none.event_ns[&Event::Invalidations].value, 900.0);
    // Hypercalls have a price of their own; too few events have none.
    let timed = TimedEvents { hypercalls: 100, hypercall_ns: 62_000, ..TimedEvents::default() };
    let list = prices(&vtd, timed).unwrap();
    assert_eq!(list.event_ns[&Event::Hypercalls].value, 620.0);
    assert_eq!(list.event_ns[&Event::Invalidations], builtin.event_ns[&Event::Invalidations]);
    assert_eq!(prices(&vtd, TimedEvents { hypercalls: 99, ..timed }), None);
}
