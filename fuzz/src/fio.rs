//! Job files of fio.

use model::block::BlockExperiment;
use model::fio::JobFile;
use std::sync::LazyLock;

/// The example's machine.
static DISK: LazyLock<Option<BlockExperiment>> =
    LazyLock::new(|| BlockExperiment::read(include_str!("../../experiments/nvme.toml"), "nvme.toml").ok());

/// A job file: what is refused has a place in it, and what is not is refused by a machine with its name, or can run there.
pub fn fio_jobs(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = JobFile::read(&text, "mine.fio");
    if let Err(error) = &read {
        let lines = text.lines().count().max(1);
        assert!((1..=lines).contains(&(error.line as usize)), "{error}");
    }
    let disk = DISK.clone().expect("the example describes a machine");
    match disk.with_jobs(&text, "mine.fio").setup() {
        Ok(setup) => assert_eq!(read.map(|file| file.jobs), Ok(setup.jobs)),
        Err(error) => assert!(error.to_string().starts_with("mine.fio"), "{error}"),
    }
}
