//! `--flame FILE`: the files that the flame graphs of a run are written to.

use crate::flame_file::{FlameFile, FlameFormat};
use crate::whole_file::{WholeFile, folder_of};
use anyhow::{Context, ensure};
use escape::terminal::lines;
use lab::flame::{Flame, Heading};
use std::path::PathBuf;

/// The files that a run's flame graphs go to.
pub(super) enum FlameFiles {
    /// The only graph goes to this file.
    One(FlameFile),
    /// A file for each preset and workload, with both in its name.
    Each(FlameFile),
}

impl FlameFiles {
    /// The files for `flames` flame graphs. Fails if the folder does not exist, before a long run.
    pub(super) fn new(file: FlameFile, flames: usize) -> anyhow::Result<Self> {
        let folder = folder_of(&file.path);
        ensure!(
            folder.is_dir(),
            "can't write {}: there is no folder {}",
            file.path.display(),
            folder.display()
        );
        Ok(if flames == 1 { Self::One(file) } else { Self::Each(file) })
    }

    /// Writes one flame graph to its file.
    pub(super) fn write(&self, flame: &Flame) -> anyhow::Result<()> {
        let (Self::One(file) | Self::Each(file)) = self;
        let text = match file.format {
            FlameFormat::Svg => flame.svg()?,
            FlameFormat::Folded => flame.folded(),
        };
        let path = self.path(&flame.heading);
        WholeFile::write(&path, lines(&text).as_bytes()).context("the flame graph was not saved")?;
        Ok(())
    }

    /// The file of the flame graph with this heading.
    fn path(&self, heading: &Heading) -> PathBuf {
        match self {
            Self::One(file) => file.path.clone(),
            Self::Each(file) => {
                let mut name = file.path.file_stem().unwrap_or_default().to_owned();
                name.push(format!("-{}-{}.", heading.preset, heading.workload));
                name.push(file.path.extension().unwrap_or_default());
                file.path.with_file_name(name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::path::Path;

    fn path(file: &str, flames: usize) -> PathBuf {
        let heading = Heading {
            preset: "x86-vtd-strict".to_owned(),
            workload: "nvme-read-4k".to_owned(),
            kernel: "6.1.0".to_owned(),
            ios: 1,
        };
        FlameFiles::new(file.parse().unwrap(), flames).unwrap().path(&heading)
    }

    #[test]
    fn one_flame_goes_to_the_file_and_several_beside_it() {
        assert_eq!(path("./read.v1.svg", 1), Path::new("./read.v1.svg"));
        assert_eq!(path("./read.v1.svg", 2), Path::new("./read.v1-x86-vtd-strict-nvme-read-4k.svg"));
        assert_eq!(path("a.folded", 2), Path::new("a-x86-vtd-strict-nvme-read-4k.folded"));
    }

    #[test]
    fn the_extension_chooses_the_format() {
        assert_eq!("a.folded".parse::<FlameFile>().unwrap().format, FlameFormat::Folded);
        for wrong in ["a", "a.png", ".svg", "svg"] {
            let told = wrong.parse::<FlameFile>().unwrap_err().to_string();
            assert!(told.contains(wrong), "{told}");
        }
    }

    #[test]
    fn a_missing_folder_is_reported_before_the_run() {
        let wrong = FlameFiles::new("no/such/folder/a.svg".parse().unwrap(), 1).err().unwrap().to_string();
        assert!(wrong.contains("no/such/folder"), "{wrong}");
    }
}
