use super::*;
use crate::tables::{ErrorRow, Fix};

/// A host with one adapter, captured once for each path.
fn add(tables: &mut Tables, host: &str, paths: &[&str]) {
    for (time, path) in (0..).zip(paths) {
        let capture = format!("{host}-{time}");
        tables.hosts.push(HostRow {
            capture: capture.clone(),
            rules: "now".to_owned(),
            modified_us: Some(time),
            input: format!("{capture}.tar"),
            host_name: Some(host.to_owned()),
            machine: Some("rack server".to_owned()),
            complete: true,
            ..HostRow::default()
        });
        tables.adapters.push(AdapterRow {
            capture,
            rules: "now".to_owned(),
            dma_path: (*path).to_owned(),
            model: Some("0x1:0x2".to_owned()),
            driver: Some("driver".to_owned()),
            ..AdapterRow::default()
        });
    }
}

#[test]
fn the_odd_one_out_is_found_among_its_peers() {
    let mut tables = Tables::default();
    (0..9).for_each(|host| add(&mut tables, &format!("host{host}"), &["identity"]));
    add(&mut tables, "strict", &["translated-strict"]);
    let summary = Summary::of(&tables, "now");
    let [odd] = &summary.odd[..] else { panic!("{:?}", summary.odd) };
    assert_eq!((odd.host.as_str(), odd.value.as_str()), ("strict", "1 translated-strict"));
    assert_eq!((odd.usual.as_str(), odd.same, odd.peers), ("1 identity", 9, 10));
    assert_eq!((odd.input.as_str(), summary.compared), ("strict-0.tar", 10));
    // A second one of ten, and there is nothing usual.
    add(&mut tables, "host8", &["identity", "translated-strict"]);
    assert_eq!(Summary::of(&tables, "now").odd, []);
    // Four hosts are no peers.
    let mut few = Tables::default();
    (0..3).for_each(|host| add(&mut few, &format!("host{host}"), &["identity"]));
    add(&mut few, "strict", &["translated-strict"]);
    assert_eq!((Summary::of(&few, "now").odd, Summary::of(&few, "now").compared), (vec![], 0));
    add(&mut few, "host3", &["identity"]);
    assert_eq!(Summary::of(&few, "now").odd.len(), 1);
}

/// A listing by `lspci` without `-nn` has names alone.
#[test]
fn adapters_without_ids_are_compared_by_their_names_among_themselves() {
    let mut tables = Tables::default();
    (0..5).for_each(|host| add(&mut tables, &format!("host{host}"), &["identity"]));
    let by_name = |host: &str| {
        let mut one = Tables::default();
        add(&mut one, host, &["identity"]);
        one.adapters[0].model = None;
        one.adapters[0].name = Some("NIC".to_owned());
        one
    };
    let mut join = |other: Tables| {
        tables.hosts.extend(other.hosts);
        tables.adapters.extend(other.adapters);
        Summary::of(&tables, "now")
    };
    let one = join(by_name("host5"));
    assert_eq!((one.odd, one.compared), (vec![], 5));
    (6..9).for_each(|host| _ = join(by_name(&format!("host{host}"))));
    let mut other = by_name("host9");
    other.adapters[0].name = Some("GPU".to_owned());
    let all = join(other);
    let whats: Vec<_> = all.odd.iter().map(|odd| (odd.host.as_str(), odd.what.as_str())).collect();
    assert_eq!(whats, [("host9", "adapters GPU, IDs not read"), ("host9", "adapters NIC, IDs not read")]);
    assert_eq!((all.compared, all.changes), (10, vec![]));
}

#[test]
fn captures_of_one_time_have_no_order() {
    let mut tables = Tables::default();
    add(&mut tables, "host", &["identity", "translated-strict", "identity"]);
    tables.hosts[1].modified_us = Some(0);
    for _ in 0..2 {
        let summary = Summary::of(&tables, "now");
        assert_eq!((summary.changes, summary.of_one_time), (vec![], vec!["host".to_owned()]));
        // By path, the other is first.
        let [first, second, _] = &mut tables.hosts[..] else { panic!() };
        std::mem::swap(&mut first.input, &mut second.input);
    }
    tables.hosts[1].modified_us = Some(1);
    let summary = Summary::of(&tables, "now");
    assert_eq!((summary.changes.len(), summary.of_one_time.len()), (2, 0));
}

/// What devices are called depends on a host's table of names.
#[test]
fn a_model_is_known_by_its_ids_whatever_hosts_call_it() {
    let mut tables = Tables::default();
    (0..6).for_each(|host| add(&mut tables, &format!("host{host}"), &["identity"]));
    let names = [None, Some("NIC"), Some("NIC, old name"), None, Some("NIC"), Some("NIC")];
    for (row, name) in tables.adapters.iter_mut().zip(names) {
        row.name = name.map(ToOwned::to_owned);
    }
    assert_eq!(Summary::of(&tables, "now").odd, []);
    // Nor does one capture rename a model of all.
    tables.adapters[0].name = Some("a document's text".to_owned());
    tables.adapters[1].dma_path = "bounce".to_owned();
    let what: Vec<String> = Summary::of(&tables, "now").odd.into_iter().map(|odd| odd.what).collect();
    assert_eq!(what, ["adapters 0x1:0x2 (NIC)"]);
}

#[test]
fn a_host_counts_once_and_its_captures_are_compared() {
    let mut tables = Tables::default();
    add(&mut tables, "one", &["identity", "identity", "translated-lazy"]);
    add(&mut tables, "other", &["bounce"]);
    let finding = |capture: &str, id: &str, severity: &str| FindingRow {
        capture: capture.to_owned(),
        rules: "now".to_owned(),
        id: id.to_owned(),
        severity: severity.to_owned(),
        ..FindingRow::default()
    };
    tables.findings = vec![
        finding("one-0", "old", "critical"),
        finding("one-2", "small", "note"),
        finding("other-0", "small", "note"),
        finding("other-0", "full", "critical"),
        finding("other-0", "full", "critical"),
    ];
    let mut without = tables.clone();
    without.adapters.retain(|adapter| adapter.capture != "other-0");
    assert_eq!(Summary::of(&without, "now").without_adapters, 1);
    let summary = Summary::of(&tables, "now");
    assert_eq!((summary.hosts, summary.captures, summary.without_adapters), (2, 4, 0));
    let paths: Vec<_> =
        summary.paths.iter().map(|one| (one.dma_path.as_str(), one.adapters, one.hosts)).collect();
    assert_eq!(paths, [("bounce", 1, 1), ("translated-lazy", 1, 1)]);
    let findings: Vec<_> =
        summary.findings.iter().map(|one| (one.id.as_str(), one.hosts.join(" "), one.findings)).collect();
    assert_eq!(findings, [("full", "other".to_owned(), 2), ("small", "one other".to_owned(), 2)]);
    let changes: Vec<_> = summary
        .changes
        .iter()
        .map(|one| (one.what.as_str(), one.before.as_str(), one.after.as_str()))
        .collect();
    assert_eq!(
        changes,
        [
            ("finding old", "found", "none"),
            ("adapters 0x1:0x2", "1 identity", "1 translated-lazy"),
            ("finding small", "none", "found"),
        ]
    );
}

/// A log without adapters says nothing about them: they did not change, and the host is not odd.
#[test]
fn a_capture_that_tells_less_hides_and_changes_nothing() {
    let mut tables = Tables::default();
    (0..5).for_each(|host| add(&mut tables, &format!("host{host}"), &["identity", "identity"]));
    add(&mut tables, "log alone", &["identity"]);
    for capture in ["host0-1", "log alone-0"] {
        tables.adapters.retain(|row| row.capture != capture);
    }
    let finding = |host: usize, time: usize| FindingRow {
        capture: format!("host{host}-{time}"),
        rules: "now".to_owned(),
        id: "swiotlb-full".to_owned(),
        severity: "warning".to_owned(),
        ..FindingRow::default()
    };
    let all = (0..5).flat_map(|host| [finding(host, 0), finding(host, 1)]);
    tables.findings = all.filter(|finding| finding.capture != "host0-1").collect();
    // Of this one, something that decides was not read the second time.
    tables.hosts.iter_mut().filter(|row| row.capture == "host1-1").for_each(|row| row.complete = false);
    tables.findings.retain(|row| row.capture != "host1-1");
    let summary = Summary::of(&tables, "now");
    assert_eq!((&summary.odd[..], &summary.changes[..]), (&[][..], &[][..]));
    assert_eq!(summary.findings[0].hosts, ["host0", "host2", "host3", "host4"]);
    assert_eq!((summary.paths[0].hosts, summary.without_adapters), (5, 1));
}

/// Captures of other kinds tell other things: what they tell in common is that one of them is thin.
#[test]
fn captures_that_see_less_are_not_compared_with_those_that_see_more() {
    let mut tables = Tables::default();
    for host in 0..5 {
        add(&mut tables, &format!("host{host}"), &["identity", "identity", "identity"]);
    }
    // The second of the first host is a log, which names no driver, and one of two adapters.
    let second = tables.adapters[0].clone();
    tables
        .adapters
        .extend([0, 2].map(|time| AdapterRow { capture: format!("host0-{time}"), ..second.clone() }));
    let thin = tables.adapters.iter_mut().find(|row| row.capture == "host0-1").unwrap();
    (thin.dma_path, thin.driver) = ("translated-lazy".to_owned(), None);
    let unseen = |capture: &str, what: &str| UnseenRow {
        capture: capture.to_owned(),
        rules: "now".to_owned(),
        what: what.into(),
    };
    tables.unseen = vec![unseen("host0-1", "drivers")];
    assert_eq!(Summary::of(&tables, "now").changes, []);
    // Between two of one kind, a change is told whatever came between them.
    tables.adapters.pop();
    let [change] = &Summary::of(&tables, "now").changes[..] else { panic!("not one change") };
    assert_eq!((change.before.as_str(), change.after.as_str()), ("2 identity", "1 identity"));
    assert_eq!(change.modified_us, Some(2));
    // As the newest, it is not what the host is shown by.
    tables.hosts.retain(|row| row.capture != "host0-2");
    let summary = Summary::of(&tables, "now");
    assert_eq!((summary.by_host[0].input.as_str(), summary.by_host[0].adapters), ("host0-0.tar", 2));
    // Nor is a host of which there is nothing else compared with its peers, or one with an unknown path.
    tables
        .adapters
        .iter_mut()
        .filter(|row| row.capture.starts_with("host0"))
        .for_each(|row| row.driver = None);
    assert_eq!(Summary::of(&tables, "now").odd, []);
    add(&mut tables, "host5", &["unknown"]);
    assert_eq!(Summary::of(&tables, "now").odd, []);
    tables.adapters.last_mut().unwrap().dma_path = "bounce".to_owned();
    (6..10).for_each(|host| add(&mut tables, &format!("host{host}"), &["identity"]));
    let odd = Summary::of(&tables, "now").odd;
    assert_eq!(odd.iter().map(|one| (one.host.as_str(), one.peers)).collect::<Vec<_>>(), [("host5", 9)]);
}

#[test]
fn an_error_counts_until_its_input_was_inspected() {
    let error = |input: &str, modified_us, rules: &str, kind: &str| ErrorRow {
        input: input.to_owned(),
        modified_us,
        rules: rules.to_owned(),
        kind: kind.to_owned(),
        ..ErrorRow::default()
    };
    let host = |input: &str, modified_us, rules: &str| HostRow {
        capture: input.to_owned(),
        input: input.to_owned(),
        modified_us: Some(modified_us),
        rules: rules.to_owned(),
        ..HostRow::default()
    };
    let tables = Tables {
        errors: vec![
            error("replaced", Some(1), "now", "no-capture"),
            error("program mended", Some(1), "old", "program"),
            error("was gone", None, "now", "unreadable"),
            error("now bad", Some(2), "now", "no-capture"),
            error("still bad", Some(1), "now", "no-facts"),
            error("still bad", Some(2), "now", "no-document"),
            error("never read", Some(1), "now", "no-document"),
            error("replaced.gpg", Some(1), "now", "encrypted"),
            error("still encrypted.gpg", Some(1), "now", "encrypted"),
        ],
        hosts: vec![
            host("replaced", 2, "now"),
            host("program mended", 1, "now"),
            host("was gone", 1, "now"),
            host("now bad", 1, "now"),
        ],
        ..Tables::default()
    };
    let errors = Summary::of(&tables, "now").errors;
    let errors: Vec<_> = errors.iter().map(|one| (one.input.as_str(), one.kind.as_str())).collect();
    let expected = [
        ("never read", "no-document"),
        ("now bad", "no-capture"),
        ("still bad", "no-document"),
        ("still encrypted.gpg", "encrypted"),
    ];
    assert_eq!(errors, expected);
}

/// A fix is shown for the hosts that it was written for, as they have it.
#[test]
fn a_finding_has_the_fixes_of_its_hosts() {
    let mut tables = Tables::default();
    ["a", "b", "c", "sent"].iter().for_each(|host| add(&mut tables, host, &["bounce"]));
    tables.hosts[3].is_document = true;
    let finding = |host: &str, command: &str| FindingRow {
        capture: format!("{host}-0"),
        rules: "now".to_owned(),
        id: "full".to_owned(),
        severity: "warning".to_owned(),
        address: Some(format!("address of {host}")),
        what: format!("what of {host}"),
        fix: Fix { commands: vec![command.to_owned()], ..Fix::default() }.into(),
    };
    tables.findings =
        vec![finding("a", "grubby"), finding("b", "grub"), finding("c", "grub"), finding("sent", "rm -rf /")];
    let summary = Summary::of(&tables, "now");
    let [full] = &summary.findings[..] else { panic!("{:?}", summary.findings) };
    assert_eq!(full.hosts, ["a", "b", "c", "sent"]);
    let fixes: Vec<_> = full.fixes.iter().map(|fix| (fix.commands.join(" "), fix.hosts.join(" "))).collect();
    // What a document's author wrote is nobody's fix.
    assert_eq!(fixes, [("grub".to_owned(), "b c".to_owned()), ("grubby".to_owned(), "a".to_owned())]);
    assert_eq!(full.fixes[0].addresses, ["address of b", "address of c"]);
    assert_eq!(full.fixes[0].what, "what of b");
    // Nor is what an older version knew.
    tables.hosts[1].rules = "then".to_owned();
    tables.findings[1].rules = "then".to_owned();
    let [full] = &Summary::of(&tables, "now").findings[..] else { panic!("more than one finding") };
    assert_eq!((full.hosts.len(), full.fixes[0].hosts.len()), (4, 1));
}

/// Other rules read other files of a capture, which gives it another digest.
#[test]
fn a_capture_counts_as_the_best_rules_have_read_it() {
    let mut tables = Tables::default();
    add(&mut tables, "one", &["identity"]);
    let mut add_as = |capture: &str, rules: &str, path: &str| {
        let (mut host, mut adapter) = (tables.hosts[0].clone(), tables.adapters[0].clone());
        (host.capture, host.rules) = (capture.to_owned(), rules.to_owned());
        (adapter.capture, adapter.rules, adapter.dma_path) =
            (capture.to_owned(), rules.to_owned(), path.to_owned());
        tables.hosts.push(host);
        tables.adapters.push(adapter);
    };
    add_as("zz", "iotoll 0.9.0", "bounce");
    add_as("aa", "iotoll 0.10.0", "direct");
    let path = |made_by: &str| {
        let summary = Summary::of(&tables, made_by);
        assert_eq!((summary.hosts, summary.captures), (1, 1));
        summary.paths[0].dma_path.clone()
    };
    assert_eq!([path("now"), path("iotoll 0.9.0"), path("iotoll 0.11.0")], ["identity", "bounce", "direct"]);
}

#[test]
fn hosts_of_one_name_on_two_machines_are_told_apart() {
    let mut tables = Tables::default();
    add(&mut tables, "db1", &["identity"]);
    add(&mut tables, "db1", &["bounce"]);
    add(&mut tables, "db2", &["bounce"]);
    add(&mut tables, "db1", &["direct"]);
    for (row, machine) in tables.hosts.iter_mut().zip([Some("R740"), None, Some("R740"), Some("R750")]) {
        row.machine = machine.map(ToOwned::to_owned);
        row.capture = format!("{}-{machine:?}", row.capture);
    }
    let hosts = |tables: &Tables| -> Vec<String> {
        Summary::of(tables, "now").by_host.into_iter().map(|host| host.host).collect()
    };
    assert_eq!(hosts(&tables), ["db1 (R740)", "db1 (R750)", "db1 (machine not known)", "db2"]);
    // One that does not tell its machine is of the only one.
    tables.hosts.pop();
    assert_eq!(hosts(&tables), ["db1", "db2"]);
}

#[test]
fn hosts_with_the_worst_findings_come_first_and_inputs_are_counted() {
    let mut tables = Tables::default();
    ["a", "b", "c"].iter().for_each(|host| add(&mut tables, host, &["bounce"]));
    let finding = |host: &str, severity: &str| FindingRow {
        capture: format!("{host}-0"),
        rules: "now".to_owned(),
        id: "swiotlb-full".to_owned(),
        severity: severity.to_owned(),
        ..FindingRow::default()
    };
    tables.findings = vec![
        finding("a", "note"),
        finding("b", "warning"),
        finding("b", "warning"),
        finding("c", "critical"),
    ];
    tables.inputs = Some(["a-0.tar", "new.tar"].map(ToOwned::to_owned).into());
    let summary = Summary::of(&tables, "now");
    let worst: Vec<_> = summary.by_host.iter().map(|one| (&*one.host, &*one.input, one.warnings)).collect();
    assert_eq!(worst, [("c", "c-0.tar", 0), ("b", "b-0.tar", 2), ("a", "a-0.tar", 0)]);
    assert_eq!((summary.inputs, summary.unread), (Some(2), vec!["new.tar".to_owned()]));
}

/// Another capture in a file that has no host's name may be of another host.
#[test]
fn hosts_without_a_name_have_no_history() {
    let mut tables = Tables::default();
    add(&mut tables, "one", &["identity", "translated-lazy"]);
    add(&mut tables, "named", &["identity", "bounce"]);
    for row in &mut tables.hosts[..2] {
        (row.host_name, row.input) = (None, "one.tar".to_owned());
    }
    tables.hosts[0].machine = Some("other server".to_owned());
    let summary = Summary::of(&tables, "now");
    assert_eq!((summary.hosts, summary.captures), (2, 3));
    let changed: Vec<&str> = summary.changes.iter().map(|change| change.host.as_str()).collect();
    assert_eq!(changed, ["named"]);
    let paths: Vec<&str> = summary.paths.iter().map(|path| path.dma_path.as_str()).collect();
    assert_eq!(paths, ["bounce", "translated-lazy"]);
}

#[test]
fn a_copy_makes_no_capture_newer() {
    let mut tables = Tables::default();
    add(&mut tables, "one", &["identity", "translated-lazy"]);
    let copy = HostRow { input: "copy".to_owned(), modified_us: Some(9), ..tables.hosts[0].clone() };
    for place in [0, 2] {
        let mut tables = tables.clone();
        tables.hosts.insert(place, copy.clone());
        let summary = Summary::of(&tables, "now");
        assert_eq!(summary.paths[0].dma_path, "translated-lazy");
        assert_eq!(summary.changes[0].modified_us, Some(1));
    }
}

/// Rows of other rules are of the same capture.
#[test]
fn each_capture_counts_by_the_rules_of_now() {
    let mut tables = Tables::default();
    add(&mut tables, "one", &["identity"]);
    let (mut host, mut adapter) = (tables.hosts[0].clone(), tables.adapters[0].clone());
    (host.rules, adapter.rules, adapter.dma_path) =
        ("old".to_owned(), "old".to_owned(), "unknown".to_owned());
    tables.hosts.insert(0, host);
    tables.adapters.push(adapter);
    let path = |made_by: &str| Summary::of(&tables, made_by).paths[0].dma_path.clone();
    assert_eq!((path("now"), path("old")), ("identity".to_owned(), "unknown".to_owned()));
    assert_eq!(Summary::of(&tables, "now").captures, 1);
}
