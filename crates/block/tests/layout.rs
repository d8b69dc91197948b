//! The C headers against the Rust structures: sizes, places of fields, and constants, as a C compiler sees them. With `CAPIFLASH` set to a
//! checkout of Open POWER's capiflash, its own header is held against them too.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use block::c_types::{self as c, ArwStatus, ChunkAttrs, ChunkStats, GroupTag, Io};
use block::direct_queue::DirectCompletion;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of a C program that prints what its header says, and what Rust says.
#[derive(Default)]
struct Facts {
    program: String,
    expected: String,
}

impl Facts {
    fn add(&mut self, expression: &str, expected: i128) {
        writeln!(self.program, "    printf(\"%s %lld\\n\", \"{expression}\", (long long)({expression}));")
            .unwrap();
        writeln!(self.expected, "{expression} {expected}").unwrap();
    }
}

macro_rules! structure {
    ($facts:ident, $c:literal, $rust:ident, $($field:ident),*) => {
        $facts.add(concat!("sizeof(", $c, ")"), size_of::<$rust>() as i128);
        $($facts.add(
            concat!("offsetof(", $c, ", ", stringify!($field), ")"),
            offset_of!($rust, $field) as i128,
        );)*
    };
}

macro_rules! constants {
    ($facts:ident, $($name:ident),*) => { $($facts.add(stringify!($name), c::$name as i128);)* };
}

fn facts() -> Facts {
    let mut facts = Facts::default();
    structure!(
        facts,
        "chunk_stats_t",
        ChunkStats,
        block_size,
        num_paths,
        max_transfer_size,
        num_reads,
        num_writes,
        num_areads,
        num_awrites,
        num_act_reads,
        num_act_writes,
        num_act_areads,
        num_act_awrites,
        max_num_act_writes,
        max_num_act_reads,
        max_num_act_awrites,
        max_num_act_areads,
        num_blocks_read,
        num_blocks_written,
        num_errors,
        num_aresult_no_cmplt,
        num_retries,
        num_timeouts,
        num_fail_timeouts,
        num_no_cmds_free,
        num_no_cmd_room,
        num_no_cmds_free_fail,
        num_fc_errors,
        num_port0_linkdowns,
        num_port1_linkdowns,
        num_port0_no_logins,
        num_port1_no_logins,
        num_port0_fc_errors,
        num_port1_fc_errors,
        num_cc_errors,
        num_afu_errors,
        num_capi_false_reads,
        num_capi_read_fails,
        num_capi_adap_resets,
        num_capi_adap_chck_err,
        num_capi_reserved_errs,
        num_capi_data_st_errs,
        num_capi_afu_errors,
        num_capi_afu_intrpts,
        num_capi_unexp_afu_intrpts,
        num_success_threads,
        num_failed_threads,
        num_canc_threads,
        num_fail_canc_threads,
        num_fail_detach_threads,
        num_active_threads,
        max_num_act_threads,
        num_cache_hits,
        num_reset_contexts,
        num_reset_contxt_fails,
        primary_path_id,
        num_path_fail_overs
    );
    structure!(
        facts,
        "chunk_attrs_t",
        ChunkAttrs,
        flags1,
        flags2,
        block_size,
        num_paths,
        max_transfer_size,
        data
    );
    structure!(facts, "cblk_arw_status_t", ArwStatus, status, blocks_transferred, fail_errno);
    structure!(facts, "cblk_io_t", Io, version, flags, request_type, buf, lba, nblocks, tag, stat);
    structure!(facts, "cflsh_cg_tag_t", GroupTag, id, tag);
    constants!(
        facts,
        NULL_CHUNK_ID,
        CBLK_OPN_VIRT_LUN,
        CBLK_OPN_SCRUB_DATA,
        CBLK_OPN_NO_INTRP_THREADS,
        CBLK_OPN_GROUP,
        CBLK_GROUP_ID,
        CBLK_GROUP_RAID0,
        CBLK_GROUP_MASK,
        CBLK_ARW_WAIT_CMD_FLAGS,
        CBLK_ARW_USER_TAG_FLAG,
        CBLK_ARW_USER_STATUS_FLAG,
        CBLK_ARESULT_NEXT_TAG,
        CBLK_ARESULT_BLOCKING,
        CBLK_ARESULT_USER_TAG,
        CBLK_ARESULT_NO_HARVEST,
        CBLK_LISTIO_WAIT_ISSUE_CMD,
        CBLK_IO_USER_TAG,
        CBLK_IO_USER_STATUS,
        CBLK_IO_TYPE_READ,
        CBLK_IO_TYPE_WRITE,
        CBLK_IO_TYPE_UNMAP,
        CBLK_ARW_STATUS_PENDING,
        CBLK_ARW_STATUS_SUCCESS,
        CBLK_ARW_STATUS_INVALID,
        CBLK_ARW_STATUS_FAIL,
        CFLSH_ATTR_UNMAP
    );
    facts
}

/// Compiles a program with a header of this folder, and runs it.
fn output(compiler: &str, language: &str, headers: &Path, program: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (source, run) = (folder.path().join("facts.c"), folder.path().join("facts"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new(compiler)
        .args(["-x", language, "-Wall", "-Werror", "-I"])
        .arg(headers)
        .arg(&source)
        .arg("-o")
        .arg(&run)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    String::from_utf8(Command::new(run).output().unwrap().stdout).unwrap()
}

#[test]
fn headers_and_structures_agree() {
    let Facts { program, expected } = facts();
    let program = |header: &str| {
        format!(
            "#include <stddef.h>\n#include <stdio.h>\n#include <{header}>\nint main(void) {{\n{program}    return 0;\n}}\n"
        )
    };
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut beyond = Facts::default();
    structure!(beyond, "struct iotoll_completion", DirectCompletion, cookie, error, status);
    let source = program("iotoll_block.h").replace(&facts().program, &beyond.program);
    assert_eq!(output("cc", "c", &own, &source), beyond.expected);
    for header in ["capiblock.h", "iotoll_block.h"] {
        assert_eq!(output("cc", "c", &own, &program(header)), expected, "{header}");
    }
    match std::env::var_os("CAPIFLASH").map(PathBuf::from) {
        Some(checkout) => {
            let headers = checkout.join("src/include");
            assert_eq!(
                output("cc", "c", &headers, &program("capiblock.h")),
                expected,
                "{}",
                headers.display()
            );
        }
        None => eprintln!("SKIPPED the header of capiflash: CAPIFLASH names no checkout"),
    }
}
