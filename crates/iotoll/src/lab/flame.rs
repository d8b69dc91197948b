//! `--flame FILE`: which files the flame graphs of a run go to, and in which form.

use crate::output;
use crate::whole_file::{WholeFile, folder_of};
use anyhow::{Context, bail, ensure};
use escape::terminal::lines;
use lab::flame::{Flame, Heading};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

/// The form of a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Svg,
    Folded,
}

/// A file as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlameFile {
    path: PathBuf,
    form: Form,
}

impl FromStr for FlameFile {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let path = PathBuf::from(text);
        let form = match path.extension().and_then(OsStr::to_str) {
            Some("svg") => Form::Svg,
            Some("folded") => Form::Folded,
            _ => bail!("`{text}` ends neither in .svg, for a drawing, nor in .folded, for text"),
        };
        Ok(Self { path, form })
    }
}

/// The files that a run's flame graphs go to.
pub(super) enum FlameFiles {
    One(FlameFile),
    /// One for each preset and workload, with both in their names.
    Each(FlameFile),
}

impl FlameFiles {
    /// For so many flames. The folder must be there, so that a long run is not in vain.
    pub(super) fn new(file: FlameFile, flames: usize) -> anyhow::Result<Self> {
        let folder = folder_of(&file.path);
        ensure!(folder.is_dir(), "can't write {}: no folder {}", file.path.display(), folder.display());
        Ok(if flames == 1 { Self::One(file) } else { Self::Each(file) })
    }

    pub(super) fn write(&self, flame: &Flame) -> anyhow::Result<()> {
        let (Self::One(file) | Self::Each(file)) = self;
        let text = match file.form {
            Form::Svg => flame.svg()?,
            Form::Folded => flame.folded(),
        };
        let path = self.path(&flame.heading);
        WholeFile::write(&path, lines(&text).as_bytes()).context("the flame graph is lost")?;
        output::say(&format!("wrote {}", path.display()));
        Ok(())
    }

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
    fn the_end_of_the_name_is_the_form() {
        assert_eq!("a.folded".parse::<FlameFile>().unwrap().form, Form::Folded);
        for wrong in ["a", "a.png", ".svg", "svg"] {
            let told = wrong.parse::<FlameFile>().unwrap_err().to_string();
            assert!(told.contains(wrong), "{told}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_before_the_run() {
        let wrong = FlameFiles::new("no/such/folder/a.svg".parse().unwrap(), 1).err().unwrap().to_string();
        assert!(wrong.contains("no/such/folder"), "{wrong}");
    }
}
