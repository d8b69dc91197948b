use super::*;

const TEXT: &str = include_str!("../../../../experiments/sweep.toml");

fn read(text: &str) -> Plan {
    Plan::read(text, "x.toml").unwrap()
}

/// Two fields on a machine.
fn small(axes: &str) -> String {
    format!("{}[axes]\n\"iommu.entries\" = [8]\n{axes}", TEXT.split("[axes]").next().unwrap())
}

const SMALL: &str = "\"engine.window_bytes\" = [65536, 131072]\n\"engine.in_flight_max\" = [1]\n\"iommu.walk_ns\" = [60, 70.5]";

fn told(text: &str) -> String {
    let error = Plan::read(text, "x.toml")
        .and_then(|plan| (0..plan.len()).try_for_each(|position| plan.point(position).map(drop)))
        .unwrap_err();
    assert!(std::error::Error::source(&error).is_none());
    error.to_string()
}

#[test]
fn points_are_all_combinations_in_one_order() {
    let plan = read(&small(SMALL));
    let fields: Vec<_> = plan.axes().iter().map(|axis| axis.field.as_str()).collect();
    assert_eq!(fields, ["engine.in_flight_max", "engine.window_bytes", "iommu.entries", "iommu.walk_ns"]);
    let values: Vec<_> = (0..plan.len()).map(|at| plan.point(at).unwrap().values).collect();
    let expected = [(65536, 60.0), (65536, 70.5), (131072, 60.0), (131072, 70.5)].map(|(window, walk)| {
        vec![Value::Integer(1), Value::Integer(window), Value::Integer(8), Value::Float(walk)]
    });
    assert_eq!(values, expected);
    let Description::Engine(experiment) = plan.point(3).unwrap().description else { panic!("no engine") };
    assert_eq!((experiment.engine.window_bytes, experiment.iommu.unwrap().walk_ns), (131072, 70.5));
}

#[test]
fn no_two_points_have_one_key() {
    let plan = read(TEXT);
    assert_eq!(plan.len(), 10_000);
    let keys: HashSet<Key> = (0..plan.len()).map(|position| plan.point(position).unwrap().key).collect();
    assert_eq!(keys.len(), 10_000);
}

#[test]
fn a_key_follows_from_values_alone() {
    let text = small(SMALL);
    let key = |text: &str| read(text).point(0).unwrap().key;
    // Another version of the model is the only reason for another key here.
    assert_eq!(key(&text).to_string(), "aa482528fdc6761cca6923c7292b8623");
    assert_eq!(key(&text).to_string().parse(), Ok(key(&text)));
    for same in [
        text.replace("reads of 64 bytes", "anything"),
        text.replace("[60, 70.5]", "[60.0]"),
        text.replace("generation = 3", "generation = 0x3"),
        text.replace("lanes = 8", "lanes = 8.0").replace("lanes = 8.0", "lanes = +8"),
    ] {
        assert_ne!(same, text);
        assert_eq!(key(&same), key(&text), "{same}");
    }
    for other in [
        text.replace("[base] ", "[base]\nseed = 2\n"),
        text.replace("[60, 70.5]", "[61]"),
        text.replace("lanes = 8", "lanes = 4"),
        text.replace("\"read\"", "\"write\""),
    ] {
        assert_ne!(key(&other), key(&text), "{other}");
    }
}

#[test]
fn common_fields_of_points_have_a_key() {
    let text = small(SMALL);
    let key = |text: &str| read(text).base_key().unwrap();
    assert_eq!(key(&text), key(&text.replace("[65536, 131072]", "[4096]")));
    assert_ne!(key(&text), key(&text.replace("ways = 8", "ways = 4")));
}

#[test]
fn an_invalid_plan_is_an_error_with_its_place() {
    let text = small(SMALL);
    let check = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from), "{from}");
        let told = told(&text.replacen(from, to, 1));
        assert!(told.starts_with("x.toml:") && told.contains(expected), "{told}");
    };
    check("what =", "why =", "unknown field `why`");
    check("[axes]", "[axis]", "unknown field `axis`");
    check("[65536, 131072]", "[]", "axes.\"engine.window_bytes\" is empty; expected a list of values");
    check("[65536, 131072]", "65536", "axes.\"engine.window_bytes\" is one value; expected a list of values");
    check(
        "\"engine.window_bytes\"",
        "engine.window_bytes",
        "axes.\"engine\" is a table; expected a list of values, by the field's whole name in quotation marks: \"engine.window_bytes\" = [...]",
    );
    check(
        "\"engine.window_bytes\"",
        "adapter.link.generation",
        "in quotation marks: \"adapter.link.generation\" = [...]",
    );
    check("[65536, 131072]", "[{ a = 1 }]", "has { a = 1 }; expected numbers, words, booleans or lists");
    check("[60, 70.5]", "[60, 60.0]", "axes.\"iommu.walk_ns\" has 60 twice");
    check("[65536, 131072]", "[65536, \"x\"]", "has \"x\"; expected numbers alone");
    check("[65536, 131072]", "[\"x\"]", "point 0 (");
    check("[65536, 131072]", "[\"x\"]", "invalid type: string \"x\"");
    check("[65536, 131072]", "[65536, -1]", "invalid value: integer `-1`");
    check("\"engine.window_bytes\"", "\"engine.windw_bytes\"", "unknown field `windw_bytes`");
    check("\"engine.window_bytes\"", "window_bytes", "missing field `window_bytes`; in `engine`");
    check("[axes]", "[axes]\nlink = [1]", "invalid type: integer `1`");
    check("[axes]", "[axes]\n\"engine.gap_ns.x\" = [1]", "axes.\"engine.gap_ns.x\" is no field of base");
    check("\"engine.window_bytes\"", "\"what\"", "axes.\"what\" is of no machine");
    check(
        "[axes]",
        "[axes]\nengine = [1]",
        "is a part of axes.\"engine\"; expected axes that are no part of each other",
    );
    check("[base] ", "[base]\nwhat = \"x\" ", "base.what is of no machine");
    check("[base.iommu]\nways = 8", "[base.iommu]", "missing field `ways`");
    check("generation = 3", "generation = 9", "there is no PCIe generation 9");
    check("lanes = 8", "lanes = 33", "link.lanes is 33; expected 1 to 32");
    check("transfers = 2000", "transfers = 9", "transfers is 9; expected 100 to");
    let axes = text.find("[axes]").unwrap() + "[axes]".len();
    assert!(told(&text[..axes]).contains("axes is empty; expected a field"));
    let text = text.replace("seeds = 1\n", "").replace("[axes]", "[axes]\nseed = [7, 20, 4]");
    let shared = "has 4 and 7, whose points share runs: each runs 5 seeds in a row; expected values 5 apart, or seeds = 1 in base";
    assert!(told(&text).contains(shared), "{}", told(&text));
    assert!(told(&text.replace("[axes]", "[axes]\nseeds = [5, 1]")).contains(shared));
}

/// Errors are at the line of what is wrong: of the axis, not of `[base]`.
#[test]
fn an_error_has_the_line_of_its_axis_or_field() {
    let text = small(SMALL);
    let check = |from: &str, to: &str| {
        let text = text.replacen(from, to, 1);
        let line = text.lines().position(|line| line.contains(to)).unwrap() + 1;
        let told = told(&text);
        assert!(told.starts_with(&format!("x.toml:{line}: ")), "{line}: {told}");
    };
    check("\"engine.window_bytes\"", "\"engine.windw_bytes\"");
    check("[65536, 131072]", "[65536, -1]");
    check("[60, 70.5]", "[60, 1e99]");
    check("lanes = 8", "lanes = 33");
    check("lanes = 8", "lanes = \"x\"");
    // A table that base lacks is of the axis.
    let text = format!("{text}\n\"enginee.gap_ns\" = [1.0]\n");
    let told = told(&text);
    assert!(told.starts_with(&format!("x.toml:{}: ", text.lines().count())), "{told}");
}

const ARRAY: &str = include_str!("../../../../experiments/flash-array.toml");

/// A plan of a host with a flash array, which has several loads. The line of the axis is its last.
fn of_loads(axis: &str) -> String {
    let base =
        ARRAY.split_once("\n[").map(|(top, tables)| (top.replace("what =", "#"), format!("\n[{tables}")));
    let (top, tables) = base.unwrap();
    let tables =
        tables.replace("\n[[", "\n[[base.").replace("\n[", "\n[base.").replace("[base.[base.", "[[base.");
    format!("what = \"x\"\n[base]\n{top}{tables}\n[axes]\n{axis}\n")
}

#[test]
fn an_element_of_a_list_has_the_line_of_its_axis() {
    read(&of_loads("\"loads.0.threads\" = [1, 2]"));
    for axis in [
        "\"loads.0.threads\" = [1, \"x\"]",
        "\"loads.0.threads\" = [1, 2.5]",
        "\"loads.0.threads\" = [1, 0]",
        "\"loads.0.threadz\" = [1]",
        "\"loads.00.threads\" = [1]",
        "\"loads.+0.threads\" = [1]",
        "\"loads.99.threads\" = [1]",
        "\"cpus.core_capacity.1\" = [1.6, -1]",
    ] {
        let text = of_loads(axis);
        let told = told(&text);
        assert!(told.starts_with(&format!("x.toml:{}: ", text.lines().count())), "{axis}: {told}");
    }
}

/// Which of several elements of base is wrong.
#[test]
fn an_element_of_base_has_its_own_line() {
    let plan = of_loads("\"loads.0.threads\" = [1, 2]");
    let (base, axes) = plan.split_at(plan.find("\n[axes]").unwrap());
    let load = &base[base.find("[[base.loads]]").unwrap()..];
    for wrong in ["threads = 0x0", "threads = \"x\""] {
        let text = format!("{base}\n{}{axes}", load.replace("threads = 192", wrong));
        let line = text.lines().position(|line| line == wrong).unwrap() + 1;
        let told = told(&text);
        assert!(told.starts_with(&format!("x.toml:{line}: ")), "{line}: {told}");
    }
    // The wrong value is that of the second load's axis, and one of the first's, which it does not have at this point.
    let text = format!(
        "{base}\n{load}{}\n\"loads.1.threads\" = [5000]\n",
        axes.replace("[1, 2]", "[1, 5000]").trim_end()
    );
    let told = told(&text);
    assert!(told.starts_with(&format!("x.toml:{}: ", text.lines().count())), "{told}");
}

/// Seeds that lie as far apart as a point's runs, or points of one run each, share none.
#[test]
fn seeds_of_independent_points_are_no_error() {
    for seeds in ["seed = [0, 5, 10]", "seeds = [1]\nseed = [1, 2, 3]", "seeds = [1, 3]\nseed = [3, 0]"] {
        let axes = format!(
            "{seeds}\n\"engine.window_bytes\" = [4096]\n\"engine.in_flight_max\" = [1]\n\"iommu.walk_ns\" = [1]"
        );
        read(&small(&axes));
    }
}

#[test]
fn values_that_no_machine_has_together_are_found_at_their_point() {
    let axes = "\"engine.window_bytes\" = [64, 4096]\n\"engine.in_flight_max\" = [1]\n\"engine.transfer_bytes\" = [64, 128]\n\
                \"iommu.walk_ns\" = [1]";
    let said = told(&small(axes).replace("transfer_bytes = 64\n", ""));
    let expected = "point 2 (engine.in_flight_max = 1, engine.transfer_bytes = 128, engine.window_bytes = 64, iommu.entries = 8, \
                    iommu.walk_ns = 1): engine.window_bytes is 64; expected a transfer's bytes";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn too_many_points_are_refused_before_they_are_made() {
    let list = |from: u64, to: u64| format!("{:?}", (from..to).collect::<Vec<_>>());
    let axes = format!(
        "seed = {}\n\"engine.window_bytes\" = {}\n\"engine.in_flight_max\" = {}\n\"iommu.walk_ns\" = [60]",
        list(0, 1000),
        list(4096, 5096),
        list(1, 12)
    );
    assert!(told(&small(&axes)).contains("axes make too many points; expected at most 10000000"));
    let all = format!(
        "seed = {0}\n\"link.lanes\" = {0}\n\"engine.gap_ns\" = {0}\n\"engine.path_ns\" = {0}",
        list(0, 65_536)
    );
    assert!(told(&small(&all)).contains("too many points"), "2^64 points are not none");
}
