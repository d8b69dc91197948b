//! Values that one study takes from another file, so that each is written down once.
//!
//! `walk_ns = { from = { file = "iotlb", name = "walk_ns" } }` has the value and the evidence of that parameter. With `evidence`
//! beside it, the value is the same and what it rests on is another: one machine's price taken for another machine.

use super::StudyError;
use toll::TomlText;
use toml::{Table, Value};

/// A file whose values others take.
struct Source {
    name: &'static str,
    text: &'static str,
    /// The table that has its parameters.
    path: &'static [&'static str],
}

const SOURCES: &[Source] = &[
    Source { name: "power7", text: include_str!("../../experiments/power7.toml"), path: &[] },
    Source { name: "iotlb", text: include_str!("../../experiments/iotlb.toml"), path: &["parameters"] },
    Source {
        name: "dma-contention",
        text: include_str!("../../experiments/dma-contention.toml"),
        path: &["threads", "parameters"],
    },
    Source {
        name: "memfree-hca",
        text: include_str!("../../experiments/memfree-hca.toml"),
        path: &["parameters"],
    },
    Source { name: "prices/x86", text: include_str!("../../data/prices/x86.toml"), path: &[] },
    Source {
        name: "prices/x86/events",
        text: include_str!("../../data/prices/x86.toml"),
        path: &["event_ns"],
    },
];

/// Replaces `from` by the value that it names, in all parameters of a table.
pub(super) fn resolve(file: &'static str, parameters: &mut Table) -> Result<(), StudyError> {
    for (name, parameter) in parameters.iter_mut() {
        let Some(parameter) = parameter.as_table_mut() else { continue };
        let Some(from) = parameter.remove("from") else { continue };
        let error = || StudyError::SharedValue { file, name: name.clone() };
        let shared = find_shared(&from).ok_or_else(error)?;
        for key in ["value", "evidence"] {
            if !parameter.contains_key(key) {
                parameter.insert(key.to_owned(), shared.get(key).ok_or_else(error)?.clone());
            }
        }
    }
    Ok(())
}

/// The parameter that `from` names.
fn find_shared(from: &Value) -> Option<Table> {
    let [file, name] = ["file", "name"].map(|key| from.get(key).and_then(Value::as_str));
    let source = SOURCES.iter().find(|source| Some(source.name) == file)?;
    let all: Table = TomlText::new(source.text, source.name).read().ok()?;
    let parameters = source.path.iter().try_fold(&all, |table, key| table.get(*key)?.as_table())?;
    parameters.get(name?)?.as_table().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<Table, StudyError> {
        let mut table: Table = toml::from_str(text).unwrap();
        resolve("x.toml", &mut table).map(|()| table)
    }

    #[test]
    fn a_shared_value_brings_its_evidence_unless_another_is_given() {
        let all = resolved(
            r#"
            same = { from = { file = "iotlb", name = "walk_ns" } }
            other = { from = { file = "iotlb", name = "walk_ns" }, evidence = { kind = "assumed", why = "w" } }
            own = { value = 1, evidence = { kind = "assumed", why = "o" } }
            "#,
        )
        .unwrap();
        let word = |name: &str| all[name]["evidence"]["kind"].as_str().unwrap();
        assert_eq!([word("same"), word("other"), word("own")], ["calibrated", "assumed", "assumed"]);
        assert_eq!(all["same"]["value"], all["other"]["value"]);
        assert!(all["same"].get("from").is_none());
    }

    #[test]
    fn a_name_that_no_file_has_is_an_error_with_its_place() {
        for from in [r#"{ file = "iotlb", name = "walks" }"#, r#"{ file = "io", name = "walk_ns" }"#, "1"] {
            let error = resolved(&format!("walk = {{ from = {from} }}")).unwrap_err();
            assert_eq!(
                error.to_string(),
                "experiments/x.toml: walk takes its value from a parameter that no file has"
            );
        }
    }
}
