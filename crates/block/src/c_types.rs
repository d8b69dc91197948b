//! The structures and constants of the C interface, as `capiblock.h` has them (Open POWER, "capiflash", `src/include/capiblock.h`, 2020).

use std::ffi::{c_int, c_void};

/// Not a chunk.
pub const NULL_CHUNK_ID: c_int = -1;

/// Open a virtual LUN.
pub const CBLK_OPN_VIRT_LUN: c_int = 2;
/// Zero the blocks of a virtual LUN when they are no longer used.
pub const CBLK_OPN_SCRUB_DATA: c_int = 1;
/// No threads of the library: results are processed when they are asked for.
pub const CBLK_OPN_NO_INTRP_THREADS: c_int = 4;
/// Open a group of chunks.
pub const CBLK_OPN_GROUP: c_int = 0x100;
/// The identifier is that of a group.
pub const CBLK_GROUP_ID: c_int = 0x100;
/// The identifier is that of a group of stripes.
pub const CBLK_GROUP_RAID0: c_int = 0x200;
/// Both.
pub const CBLK_GROUP_MASK: c_int = CBLK_GROUP_ID | CBLK_GROUP_RAID0;

/// Wait for a free command.
pub const CBLK_ARW_WAIT_CMD_FLAGS: c_int = 1;
/// The caller chose the tag.
pub const CBLK_ARW_USER_TAG_FLAG: c_int = 2;
/// The caller polls a status instead of fetching the result.
pub const CBLK_ARW_USER_STATUS_FLAG: c_int = 4;

/// Return the next command that ends.
pub const CBLK_ARESULT_NEXT_TAG: c_int = 1;
/// Wait until there is a result.
pub const CBLK_ARESULT_BLOCKING: c_int = 2;
/// The tag is one that the caller chose.
pub const CBLK_ARESULT_USER_TAG: c_int = 4;
/// Process no new completions.
pub const CBLK_ARESULT_NO_HARVEST: c_int = 8;

/// Wait for free commands.
pub const CBLK_LISTIO_WAIT_ISSUE_CMD: c_int = 1;
/// The caller chose the request's tag.
pub const CBLK_IO_USER_TAG: c_int = 1;
/// The caller polls the request's status.
pub const CBLK_IO_USER_STATUS: c_int = 2;
/// Read.
pub const CBLK_IO_TYPE_READ: u8 = 1;
/// Write.
pub const CBLK_IO_TYPE_WRITE: u8 = 2;
/// Unmap.
pub const CBLK_IO_TYPE_UNMAP: u8 = 3;

/// The command has not ended.
pub const CBLK_ARW_STATUS_PENDING: c_int = 0;
/// It has, without an error.
pub const CBLK_ARW_STATUS_SUCCESS: c_int = 1;
/// The request was not valid.
pub const CBLK_ARW_STATUS_INVALID: c_int = 2;
/// It has ended with an error.
pub const CBLK_ARW_STATUS_FAIL: c_int = 3;

/// [`ChunkAttrs::flags1`]: blocks can be unmapped.
pub const CFLSH_ATTR_UNMAP: u64 = 1;

/// `chunk_stats_t`. The names are those of the C structure.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each counts")]
pub struct ChunkStats {
    pub block_size: u32,
    pub num_paths: u32,
    pub max_transfer_size: u64,
    pub num_reads: u64,
    pub num_writes: u64,
    pub num_areads: u64,
    pub num_awrites: u64,
    pub num_act_reads: u32,
    pub num_act_writes: u32,
    pub num_act_areads: u32,
    pub num_act_awrites: u32,
    pub max_num_act_writes: u32,
    pub max_num_act_reads: u32,
    pub max_num_act_awrites: u32,
    pub max_num_act_areads: u32,
    pub num_blocks_read: u64,
    pub num_blocks_written: u64,
    pub num_errors: u64,
    pub num_aresult_no_cmplt: u64,
    pub num_retries: u64,
    pub num_timeouts: u64,
    pub num_fail_timeouts: u64,
    pub num_no_cmds_free: u64,
    pub num_no_cmd_room: u64,
    pub num_no_cmds_free_fail: u64,
    /// Counters of the adapter of CAPI flash, which are 0 here: its ports, its context and the library's threads for each command.
    pub num_fc_errors: u64,
    pub num_port0_linkdowns: u64,
    pub num_port1_linkdowns: u64,
    pub num_port0_no_logins: u64,
    pub num_port1_no_logins: u64,
    pub num_port0_fc_errors: u64,
    pub num_port1_fc_errors: u64,
    pub num_cc_errors: u64,
    pub num_afu_errors: u64,
    pub num_capi_false_reads: u64,
    pub num_capi_read_fails: u64,
    pub num_capi_adap_resets: u64,
    pub num_capi_adap_chck_err: u64,
    pub num_capi_reserved_errs: u64,
    pub num_capi_data_st_errs: u64,
    pub num_capi_afu_errors: u64,
    pub num_capi_afu_intrpts: u64,
    pub num_capi_unexp_afu_intrpts: u64,
    pub num_success_threads: u64,
    pub num_failed_threads: u64,
    pub num_canc_threads: u64,
    pub num_fail_canc_threads: u64,
    pub num_fail_detach_threads: u64,
    pub num_active_threads: u64,
    pub max_num_act_threads: u64,
    pub num_cache_hits: u64,
    pub num_reset_contexts: u64,
    pub num_reset_contxt_fails: u64,
    pub primary_path_id: u32,
    pub num_path_fail_overs: u64,
}

/// `chunk_attrs_t`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the header says what each is")]
pub struct ChunkAttrs {
    pub flags1: u64,
    pub flags2: u64,
    pub block_size: u32,
    pub num_paths: u32,
    pub max_transfer_size: u64,
    pub data: [u64; 64],
}

/// `cblk_arw_status_t`
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArwStatus {
    /// `CBLK_ARW_STATUS_...`
    pub status: c_int,
    /// Blocks that were transferred.
    pub blocks_transferred: usize,
    /// The error's number.
    pub fail_errno: c_int,
}

/// `cblk_io_t`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// Not used.
    pub version: u8,
    /// `CBLK_IO_...`
    pub flags: c_int,
    /// `CBLK_IO_TYPE_...`
    pub request_type: u8,
    /// The data.
    pub buf: *mut c_void,
    /// First block.
    pub lba: i64,
    /// Number of blocks.
    pub nblocks: usize,
    /// The command's tag.
    pub tag: c_int,
    /// Its result.
    pub stat: ArwStatus,
}

/// `cflsh_cg_tag_t`
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupTag {
    /// The chunk.
    pub id: c_int,
    /// The tag there.
    pub tag: c_int,
}
