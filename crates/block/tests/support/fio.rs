//! fio with the engine in `fio/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::{env, fs};

/// fio, and the engine that was built for it.
pub(crate) struct Fio {
    pub(crate) program: PathBuf,
    pub(crate) engine: PathBuf,
}

/// How a run ended.
pub(crate) struct Run {
    pub(crate) has_succeeded: bool,
    /// fio's report and its errors.
    pub(crate) output: String,
    /// The first job's error number that is not 0.
    pub(crate) errors: u64,
}

/// What fio says of a job.
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) reads_per_second: f64,
}

impl Fio {
    /// fio and the engine; `None` if `FIO_SOURCE` names no source with a fio that was built.
    pub(crate) fn of_source() -> Option<&'static Self> {
        static BUILT: OnceLock<Option<Fio>> = OnceLock::new();
        BUILT.get_or_init(Self::build).as_ref()
    }

    fn build() -> Option<Self> {
        let source = env::var_os("FIO_SOURCE").map(PathBuf::from)?;
        let program = Some(source.join("fio")).filter(|program| program.exists())?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        // Kept for the next time, as what Cargo builds is; each test program has its own.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
        fs::create_dir_all(&folder).unwrap();
        let (library, engine) = (folder.join("library"), folder.join("iotoll.so"));
        let shell = |script: &str, arguments: &[&Path]| {
            let output = Command::new("sh").arg(here.join(script)).args(arguments).output().unwrap();
            assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        };
        shell("build_library.sh", &[&library, Path::new("dev")]);
        shell("fio/build.sh", &[&source, &library, &engine]);
        Some(Self { program, engine })
    }

    /// Runs a job with the engine. Its options have no spaces.
    pub(crate) fn run(&self, job: &str, options: &[&str]) -> Run {
        self.run_with(&format!("--ioengine=external:{}", self.engine.display()), job, options)
    }

    pub(crate) fn run_with(&self, engine: &str, job: &str, options: &[&str]) -> Run {
        let mut command = self.command();
        command.arg("--name=job").arg(engine).args(job.split_ascii_whitespace()).args(options);
        Run::of(&command.output().unwrap())
    }

    /// Runs a job file of `fio/examples`.
    pub(crate) fn example(&self, name: &str, variables: &[(&str, &str)]) -> Run {
        let mut command = self.command();
        command.env("ENGINE", &self.engine).envs(variables.iter().copied());
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("fio/examples").join(name));
        Run::of(&command.output().unwrap())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // Its state of a verification, which it writes where it runs.
        command.current_dir(self.engine.parent().unwrap());
        command.args(["--output-format=json", "--verify_state_save=0"]);
        command
    }
}

impl Run {
    fn of(output: &Output) -> Self {
        let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        let run = Self { has_succeeded: output.status.success(), output: texts.concat(), errors: 0 };
        let error = run.values(None, "error").into_iter().find(|error| *error != 0.0);
        let unknown = if run.has_succeeded { 0 } else { 1 };
        Self { errors: error.map_or(unknown, |error| error as u64), ..run }
    }

    /// The jobs' numbers of this name, in the objects of the other name.
    fn values(&self, within: Option<&str>, name: &str) -> Vec<f64> {
        let (mut object, mut found) = (String::new(), Vec::new());
        for line in self.output.lines().map(str::trim) {
            let Some((key, value)) = line.split_once(" : ") else { continue };
            let key = key.trim_matches('"');
            let value = value.trim_end_matches(',');
            if value == "{" && ["read", "write", "trim", "sync"].contains(&key) {
                object = key.to_owned();
            }
            if key == name && within.is_none_or(|within| within == object) {
                found.extend(value.parse::<f64>());
            }
        }
        found
    }

    pub(crate) fn number(&self, direction: &str, name: &str) -> u64 {
        self.values(Some(direction), name).iter().sum::<f64>() as u64
    }

    /// Bytes that all jobs read, wrote or trimmed.
    pub(crate) fn bytes(&self, direction: &str) -> u64 {
        self.number(direction, "io_bytes")
    }

    pub(crate) fn jobs(&self) -> Vec<Job> {
        let names = self.output.lines().filter_map(|line| line.trim().strip_prefix("\"jobname\" : \""));
        let rates = self.values(Some("read"), "iops");
        names
            .zip(rates)
            .map(|(name, reads_per_second)| Job {
                name: name.trim_end_matches("\",").to_owned(),
                reads_per_second,
            })
            .collect()
    }
}
