//! iotoll as a Python package: the part that is Rust, which Python imports as `iotoll._iotoll`.
//!
//! ```text
//!   python/iotoll/*.py         functions with their documentation, checks of types, optional packages
//!     | _iotoll                texts, paths and numbers in; JSON text and Parquet bytes out
//!     v
//!   this crate                 calls the libraries without the interpreter's lock: `interruptible`
//!     | host, fleet, model, sweep, bench
//!     v
//!   JSON, Parquet              which Python's own readers turn into objects
//! ```
//!
//! Documents cross as the text that the program prints, so that both have the same fields and numbers. Errors become exceptions of
//! `iotoll.errors` (`failure`).

#![forbid(unsafe_code)]

mod failure;
mod fleet_folder;
mod inspect;
mod interruptible;
mod iova_benchmark;
mod model_run;
mod studies;
mod sweep_folder;
mod tables;
mod whole_file;

/// The name that documents carry: the program's, whose rules and models these are.
const MADE_BY: &str = concat!("iotoll ", env!("CARGO_PKG_VERSION"));

/// What Python imports.
#[pyo3::pymodule]
mod _iotoll {
    #[pymodule_export]
    use crate::fleet_folder::{FleetFolder, inspect_into};
    #[pymodule_export]
    use crate::inspect::inspect;
    #[pymodule_export]
    use crate::iova_benchmark::measure_iova;
    #[pymodule_export]
    use crate::model_run::run_model;
    #[pymodule_export]
    use crate::studies::{reproduce, studies};
    #[pymodule_export]
    use crate::sweep_folder::{SweepFolder, run_points};
    #[pymodule_export]
    use crate::tables::{find, tables};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
