//! Job files of fio, in its own form: what its threads read and write.
//!
//! A [`JobFile`] has those options that say what is read and written, how much of it at once, and by how many threads. What says
//! where, how long, or what is reported of it has no meaning in a model, and is kept as [set aside](JobFile::set_aside); every other
//! option is refused by its name, since a load without it would be another load. As in fio, a job has what the `[global]`
//! sections above it say, and its own options over them; `;` and `#` begin a comment, also behind an option.

mod error;
mod job_file;
mod options;
mod quantity;
mod reader;

pub use error::{FioError, Problem};
pub use job_file::{Access, Engine, Job, JobFile, SetAside};
