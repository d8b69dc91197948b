//! `iotoll blk`: NVMe disks driven by this process, without the kernel's driver.

mod claimed_file;
mod data_loss;
mod driven_adapter;
#[cfg(test)]
mod emulated_disk;
mod error_group;
mod firmware;
pub(crate) mod health;
mod input;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod namespace;
mod problem;
mod read;
mod rebind;
mod rebind_helper;
mod self_test;
mod serve;
mod target;
mod write;

pub(crate) use claimed_file::ClaimedFile;
pub(crate) use data_loss::{BlockRange, DataLoss};
pub(crate) use driven_adapter::{
    DrivenAdapter, device_path, fail_if_refused, find_candidate, kernel_disk, refusal_lines, with_further,
};
pub(crate) use target::{expect_address, expect_no_adapter_options, expect_no_zones, overwrite_refusals};

use crate::cli::Blk;
use crate::output::Outcome;

/// Runs a command of `iotoll blk`.
pub(crate) fn run(command: &Blk) -> anyhow::Result<Outcome> {
    match command {
        Blk::List(args) => list::run(args),
        Blk::Read(args) => read::run(args),
        Blk::Write(args) => write::run(args),
        Blk::Health(args) => health::run(args),
        Blk::Log(args) => log::run(args),
        Blk::Test(args) => self_test::run(args),
        Blk::Firmware(args) => firmware::run(args),
        Blk::Namespace(command) => namespace::run(command),
        Blk::Serve(args) => serve::run(args),
        Blk::Rebind(args) => rebind::run(args),
    }
}
