use super::*;

const EXAMPLES: [&str; 6] = [
    include_str!("../../experiments/engine.toml"),
    include_str!("../../experiments/two-hosts.toml"),
    include_str!("../../experiments/nvme.toml"),
    include_str!("../../experiments/flash-array.toml"),
    include_str!("../../experiments/memory-types.toml"),
    include_str!("../../experiments/infiniband.toml"),
];

fn evidence(text: &str) -> FileEvidence {
    FileEvidence::of(&Description::read(text, "x.toml").unwrap(), text).unwrap()
}

fn origins(text: &str) -> (Origins, BTreeMap<String, Value>) {
    let example = Example::of(&Description::read(text, "x.toml").unwrap());
    let mut all: BTreeMap<String, Origins> = toml::from_str(TEXT).unwrap();
    let origins = all.remove(example.name).unwrap();
    let leaves = origins.leaves(&toml::from_str(text).unwrap());
    (origins, leaves)
}

#[test]
fn every_value_of_an_example_has_evidence_and_every_origin_a_value() {
    for text in EXAMPLES {
        let (origins, leaves) = origins(text);
        let (has, wants): (Vec<_>, Vec<_>) = (leaves.keys().collect(), origins.values.keys().collect());
        assert_eq!(has, wants, "{}", &text[..80]);
        assert_eq!(evidence(text).values.given, 0, "{}", &text[..80]);
    }
}

/// One machine, one value: an example has what the study of the machine has.
#[test]
fn values_of_examples_are_those_of_the_studies() {
    // Units differ: us and ns, KiB and bytes, thousands and ones, megabytes and gigabytes.
    const UNITS: [f64; 4] = [1.0, 1e3, 1024.0, 1e-3];
    for text in EXAMPLES {
        let (origins, leaves) = origins(text);
        let Some(study) = &origins.study else { continue };
        let parameters = parameters_of(study).unwrap();
        for (path, origin) in &origins.values {
            let (Origin::Parameter(name) | Origin::Like { like: name }) = origin else { continue };
            let parameter = parameters.iter().find(|one| one.name == *name);
            let parameter = parameter.unwrap_or_else(|| panic!("{study} has no parameter {name}"));
            if let Origin::Parameter(_) = origin {
                let value = number(&leaves[path]).unwrap();
                let is_same = |unit: f64| (value - unit * parameter.value).abs() <= 1e-4 * value.abs();
                assert!(
                    UNITS.into_iter().any(is_same),
                    "{path} is {value}, {name} of {study} {}",
                    parameter.value
                );
            }
            // A file has nanoseconds where a study has a multiple.
            if let Some(stem) = path.strip_suffix("other_node_ns") {
                let [same, other] = ["same_node_ns", "other_node_ns"]
                    .map(|end| number(&leaves[&format!("{stem}{end}")]).unwrap());
                assert_eq!(
                    other,
                    same * parameter.value,
                    "{path} is not {name} of {study} times {stem}same_node_ns"
                );
            }
        }
    }
}

#[test]
fn a_value_of_the_user_is_given_and_the_others_keep_their_evidence() {
    let text = EXAMPLES[5];
    let shipped = evidence(text);
    let changed = evidence(&text.replace("read_ns = 500", "read_ns = 650.0"));
    assert_eq!(changed.values.given, 1);
    assert_eq!(changed.values.assumed + 1, shipped.values.assumed);
    assert_eq!(changed.values.all(), shipped.values.all());
    // A number may be written otherwise, and what runs is no parameter.
    let same =
        text.replace("read_ns = 500", "read_ns = 500.0").replace("connections = 128", "connections = 7");
    assert_eq!(evidence(&same), shipped);
}

#[test]
fn a_table_of_the_user_alone_is_given() {
    let memory = "[client.memory]\nadapter_node = 0\nremote_dma_ns = 100\nline_bytes = 128\nremote_line_ns = 9\ncopy_ps_per_byte = 0\n";
    let with_memory = evidence(&format!("{}\n{memory}", EXAMPLES[1]));
    assert_eq!(with_memory.values.given, 5);
}

#[test]
fn a_server_that_is_as_the_client_has_its_evidence() {
    let text = EXAMPLES[1];
    let client = &text[text.find("[client.cpus]").unwrap()..];
    let both = format!("{text}\n{}", client.replace("client.", "server."));
    let (one, two) = (evidence(text).values, evidence(&both).values);
    assert_eq!((two.given, two.measured), (0, 2 * one.measured));
}

#[test]
fn the_study_of_the_model_is_told_with_its_share() {
    let one = evidence(EXAMPLES[5]);
    assert_eq!(one.study.as_deref(), Some("memfree-hca"));
    let share = one.study_parameters.unwrap();
    assert_eq!((share.assumed, share.all()), (33, 39));
    assert_eq!(evidence(EXAMPLES[2]).study, None);
}

#[test]
fn a_price_of_a_list_has_the_evidence_of_the_list() {
    let text = EXAMPLES[2];
    let measured = Evidence::Measured { how: "a test".into(), on: "here".into() };
    // 0.33 is what the example has and assumes: measured here, it is measured.
    let price = TakenPrice { key: "cpus.instruction_ns".into(), value: 0.33, evidence: measured };
    let description = Description::read(text, "x.toml").unwrap();
    let priced = FileEvidence::with_prices(&description, text, vec![price.clone()]).unwrap();
    let shipped = evidence(text);
    assert_eq!(priced.values.measured, shipped.values.measured + 1);
    assert_eq!(priced.values.assumed + 1, shipped.values.assumed);
    assert_eq!((priced.values.given, priced.prices), (0, vec![price]));
}
