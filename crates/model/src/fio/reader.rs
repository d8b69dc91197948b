//! From the text to jobs.

use super::error::{FioError, Problem};
use super::job_file::{Job, JobFile, SetAside};
use super::options::{OptionUse, Options};

/// fio's own examples have a few KiB.
const BYTES_MAX: usize = 64 << 10;
/// Sections of jobs.
const JOBS_MAX: usize = 256;
/// What the name of a section for all others begins with.
const GLOBAL: &str = "global";

impl JobFile {
    /// Reads a job file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// The first thing that fio would not take, or that the model has nothing for.
    pub fn read(text: &str, file: &str) -> Result<Self, FioError> {
        let told = |(line, problem)| FioError { file: file.to_owned(), line, problem };
        if text.len() > BYTES_MAX {
            return Err(told((1, Problem::Length { bytes: text.len(), bytes_max: BYTES_MAX })));
        }
        let mut reader = Reader::new();
        let mut line = 1;
        for (number, text) in (1..).zip(text.lines()) {
            line = number;
            reader.read_line(line, text).map_err(told)?;
        }
        reader.finish(line).map_err(told)
    }
}

struct Reader {
    global: Options,
    section: Option<Section>,
    jobs: Vec<Job>,
    set_aside: Vec<SetAside>,
}

/// A section whose end is not yet seen.
struct Section {
    name: String,
    line: u32,
    options: Options,
}

impl Reader {
    fn new() -> Self {
        Self { global: Options::new(), section: None, jobs: Vec::new(), set_aside: Vec::new() }
    }

    /// Reads a line: a section's title or an option.
    fn read_line(&mut self, line: u32, text: &str) -> Result<(), (u32, Problem)> {
        let text = text.split([';', '#']).next().unwrap_or_default().trim();
        if text.is_empty() {
            return Ok(());
        }
        match text.strip_prefix('[') {
            Some(rest) => {
                let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| (line, Problem::Section(text.to_owned())))?;
                self.close()?;
                self.section = Some(Section { name: name.to_owned(), line, options: self.global.clone() });
                Ok(())
            }
            None => self.read_option(line, text).map_err(|problem| (line, problem)),
        }
    }

    /// Reads an option of the current section.
    fn read_option(&mut self, line: u32, text: &str) -> Result<(), Problem> {
        let Some(section) = &mut self.section else { return Err(Problem::Outside(text.to_owned())) };
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option.trim_end(), Some(value.trim_start())),
            None => (text, None),
        };
        if section.options.take(option, value)? == OptionUse::NotModelled {
            self.set_aside.push(SetAside { option: option.to_owned(), line });
        }
        Ok(())
    }

    /// Ends a section: `[global]` sets options for the jobs that follow, any other section is a job.
    fn close(&mut self) -> Result<(), (u32, Problem)> {
        let Some(Section { name, line, options }) = self.section.take() else { return Ok(()) };
        if name.starts_with(GLOBAL) {
            self.global = options;
            return Ok(());
        }
        if self.jobs.len() == JOBS_MAX {
            return Err((line, Problem::Jobs(JOBS_MAX)));
        }
        self.jobs.push(options.job(&name).map_err(|problem| (line, problem))?);
        Ok(())
    }

    /// Ends the last section. Returns the file's jobs.
    fn finish(mut self, line: u32) -> Result<JobFile, (u32, Problem)> {
        self.close()?;
        if self.jobs.is_empty() {
            return Err((line, Problem::NoJob));
        }
        Ok(JobFile { jobs: self.jobs, set_aside: self.set_aside })
    }
}
