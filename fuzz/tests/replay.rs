//! Replays every kept input of every target: what was broken once stays mended, without libFuzzer.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fs;
use std::path::Path;

#[test]
fn kept_inputs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in iotoll_fuzz::TARGETS {
        let folder = corpus.join(name);
        let mut inputs: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{} holds nothing", folder.display());
        for input in inputs {
            let data = fs::read(&input).unwrap();
            let run = std::panic::catch_unwind(|| target(&data));
            assert!(run.is_ok(), "{} panics", input.display());
        }
    }
}
