/* The block library of CAPI flash, as iotoll implements it: on any NVMe controller, file or block device.
 *
 * Names, values and structures are those of capiblock.h of Open POWER's capiflash (2020), so that programs for that library
 * build and run unchanged. What they do here, and where that differs, says iotoll's guide to the library.
 * A block has 4096 bytes, whatever the disk's blocks are. Functions return -1 and set errno if they fail.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOTOLL_CAPIBLOCK_H
#define IOTOLL_CAPIBLOCK_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NULL_CHUNK_ID (-1)
#define NULL_CHUNK_CG_ID NULL_CHUNK_ID

typedef int chunk_id_t;
typedef int chunk_cg_id_t;
typedef int chunk_r0_id_t;
typedef uint64_t chunk_ext_arg_t;
typedef off_t cflash_offset_t;

/* What a chunk did since it was opened. Counters that only CAPI's adapter has are 0. With several threads the max_num_act_
 * numbers are sums of each thread's most, which is at least what there was at once. */
typedef struct chunk_stats_s {
    uint32_t block_size;                 /* 4096 */
    uint32_t num_paths;                  /* paths to the disk */
    uint64_t max_transfer_size;          /* most blocks of a command */
    uint64_t num_reads;                  /* commands begun: cblk_read, */
    uint64_t num_writes;                 /* cblk_write and cblk_unmap, */
    uint64_t num_areads;                 /* cblk_aread, */
    uint64_t num_awrites;                /* cblk_awrite and cblk_aunmap */
    uint32_t num_act_reads;              /* of these, not ended or not fetched */
    uint32_t num_act_writes;
    uint32_t num_act_areads;
    uint32_t num_act_awrites;
    uint32_t max_num_act_writes;         /* the most of them at once */
    uint32_t max_num_act_reads;
    uint32_t max_num_act_awrites;
    uint32_t max_num_act_areads;
    uint64_t num_blocks_read;
    uint64_t num_blocks_written;
    uint64_t num_errors;                 /* commands that failed */
    uint64_t num_aresult_no_cmplt;       /* cblk_aresult came before the end */
    uint64_t num_retries;                /* commands sent to the disk again */
    uint64_t num_timeouts;               /* commands aborted after the timeout */
    uint64_t num_fail_timeouts;
    uint64_t num_no_cmds_free;           /* no free command at first */
    uint64_t num_no_cmd_room;
    uint64_t num_no_cmds_free_fail;      /* and failed for that */
    uint64_t num_fc_errors;              /* from here on CAPI's adapter */
    uint64_t num_port0_linkdowns;
    uint64_t num_port1_linkdowns;
    uint64_t num_port0_no_logins;
    uint64_t num_port1_no_logins;
    uint64_t num_port0_fc_errors;
    uint64_t num_port1_fc_errors;
    uint64_t num_cc_errors;
    uint64_t num_afu_errors;
    uint64_t num_capi_false_reads;
    uint64_t num_capi_read_fails;
    uint64_t num_capi_adap_resets;
    uint64_t num_capi_adap_chck_err;
    uint64_t num_capi_reserved_errs;
    uint64_t num_capi_data_st_errs;
    uint64_t num_capi_afu_errors;
    uint64_t num_capi_afu_intrpts;
    uint64_t num_capi_unexp_afu_intrpts;
    uint64_t num_success_threads;
    uint64_t num_failed_threads;
    uint64_t num_canc_threads;
    uint64_t num_fail_canc_threads;
    uint64_t num_fail_detach_threads;
    uint64_t num_active_threads;
    uint64_t max_num_act_threads;
    uint64_t num_cache_hits;
    uint64_t num_reset_contexts;
    uint64_t num_reset_contxt_fails;
    uint32_t primary_path_id;
    uint64_t num_path_fail_overs;
} chunk_stats_t;

typedef struct chunk_attrs_s {
    uint64_t flags1;
#define CFLSH_ATTR_UNMAP 0x0001          /* blocks can be unmapped */
    uint64_t flags2;
    uint32_t block_size;
    uint32_t num_paths;
    uint64_t max_transfer_size;
    union {
        uint64_t data[64];
    };
} chunk_attrs_t;

/* cblk_open */
#define CBLK_SCRUB_DATA_FLG 1
#define CBLK_OPN_SCRUB_DATA CBLK_SCRUB_DATA_FLG /* zero a virtual LUN's blocks when they are freed */
#define CBLK_OPN_VIRT_LUN 2              /* a virtual LUN: cblk_set_size gives it blocks */
#define CBLK_OPN_NO_INTRP_THREADS 4      /* no threads of the library: no statuses to poll either */
#define CBLK_OPN_SHARE_CTXT 8            /* nothing: queues belong to threads */
#define CBLK_OPN_MPIO_FO 0x40            /* nothing */
#define CBLK_OPN_GROUP 0x100             /* as cblk_cg_open, with ext chunks */

/* all other functions */
#define CBLK_GROUP_ID 0x100              /* the identifier is a group's */
#define CBLK_GROUP_RAID0 0x200           /* the identifier is that of a group of stripes */
#define CBLK_GROUP_MASK (CBLK_GROUP_ID | CBLK_GROUP_RAID0)

/* cblk_aread, cblk_awrite, cblk_aunmap */
#define CBLK_ARW_WAIT_CMD_FLAGS 1        /* wait for a free command instead of EWOULDBLOCK */
#define CBLK_ARW_USER_TAG_FLAG 2         /* *tag is the caller's number for the command */
#define CBLK_ARW_USER_STATUS_FLAG 4      /* *status is updated; there is no result to fetch */

typedef enum {
    CBLK_ARW_STATUS_PENDING = 0,         /* in flight */
    CBLK_ARW_STATUS_SUCCESS = 1,         /* ended */
    CBLK_ARW_STATUS_INVALID = 2,         /* not begun: the request makes no sense */
    CBLK_ARW_STATUS_FAIL = 3,            /* failed: see fail_errno */
} cblk_status_type_t;

typedef struct cblk_arw_status_s {
    cblk_status_type_t status;
    size_t blocks_transferred;
    int fail_errno;
} cblk_arw_status_t;

/* cblk_aresult */
#define CBLK_ARESULT_NEXT_TAG 1          /* the command that ended next; its tag is returned in *tag */
#define CBLK_ARESULT_BLOCKING 2          /* wait */
#define CBLK_ARESULT_USER_TAG 4          /* *tag is the caller's number */
#define CBLK_ARESULT_NO_HARVEST 8        /* only what was processed before */

/* cblk_listio */
#define CBLK_LISTIO_WAIT_ISSUE_CMD 1     /* wait for free commands */

typedef struct cblk_io {
    uint8_t version;
    int flags;
#define CBLK_IO_USER_TAG 0x0001          /* tag is the caller's number */
#define CBLK_IO_USER_STATUS 0x0002       /* stat is updated; not for requests that are waited for */
#define CBLK_IO_PRIORITY_REQ 0x0004      /* nothing */
    uint8_t request_type;
#define CBLK_IO_TYPE_READ 0x01
#define CBLK_IO_TYPE_WRITE 0x02
#define CBLK_IO_TYPE_UNMAP 0x03
    void *buf;
    cflash_offset_t lba;
    size_t nblocks;
    int tag;
    cblk_arw_status_t stat;
} cblk_io_t;

int cblk_init(void *arg, uint64_t flags);
int cblk_term(void *arg, uint64_t flags);

/* path: a file, a block device, the socket of `iotoll blk serve`, an NVMe controller's PCI address ("0000:3b:00.0"), with a namespace ("0000:3b:00.0/2"),
 * several controllers of one disk ("0000:3b:00.0+0000:5e:00.0"), or "emulated:BLOCKS". max_num_requests: commands at once, at most 8192 (ENOMEM); 0 or less for 64.
 * mode: O_RDONLY, O_WRONLY or O_RDWR. Returns the chunk's identifier, or NULL_CHUNK_ID. */
chunk_id_t cblk_open(const char *path, int max_num_requests, int mode, chunk_ext_arg_t ext, int flags);
/* Takes no further commands (EINVAL), and waits up to 5 seconds for those in flight, then 0.1 seconds for results that were not fetched. EBUSY if there
 * still are any: the chunk stays open and takes commands again. */
int cblk_close(chunk_id_t chunk_id, int flags);
int cblk_get_lun_size(chunk_id_t chunk_id, size_t *nblocks, int flags);
int cblk_get_size(chunk_id_t chunk_id, size_t *nblocks, int flags);
/* Virtual LUNs only. Blocks are added and freed at the end; the others keep their data. EINVAL for more than the disk has, ENOSPC if other virtual LUNs
 * have the rest of it, EBUSY if blocks would be freed while a clone has them. A clone's size does not change. */
int cblk_set_size(chunk_id_t chunk_id, size_t nblocks, int flags);
int cblk_get_stats(chunk_id_t chunk_id, chunk_stats_t *stats, int flags);
int cblk_get_attrs(chunk_id_t chunk_id, chunk_attrs_t *attr, int flags);

/* Each returns the number of blocks. cblk_unmap zeroes blocks and frees their space where the disk can; its buffer is not used,
 * but must not be null. */
int cblk_read(chunk_id_t chunk_id, void *buf, cflash_offset_t lba, size_t nblocks, int flags);
int cblk_write(chunk_id_t chunk_id, void *buf, cflash_offset_t lba, size_t nblocks, int flags);
int cblk_unmap(chunk_id_t chunk_id, void *buf, cflash_offset_t lba, size_t nblocks, int flags);

/* Each returns 0 when the command has begun, and its tag in *tag. buf belongs to the library until the command has ended. */
int cblk_aread(chunk_id_t chunk_id, void *buf, cflash_offset_t lba, size_t nblocks, int *tag, cblk_arw_status_t *status,
               int flags);
int cblk_awrite(chunk_id_t chunk_id, void *buf, cflash_offset_t lba, size_t nblocks, int *tag, cblk_arw_status_t *status,
                int flags);
int cblk_aunmap(chunk_id_t chunk_id, void *buf, cflash_offset_t lba, size_t nblocks, int *tag, cblk_arw_status_t *status,
                int flags);
/* The number of blocks, or 0 if the command has not ended. Frees the tag. ENOMSG for a free tag, EINVAL for a user tag that
 * no command has, ENOENT if there is no next
 * command. */
int cblk_aresult(chunk_id_t chunk_id, int *tag, uint64_t *status, int flags);

/* Begins the requests of the first list, fetches results of the second, and waits for those of the third for timeout microseconds, or for
 * ever if it is 0 (ETIMEDOUT). A request may be in several lists, also as a copy. What ended and is not waited for is copied to the array
 * that the fourth list's first pointer points to; *completion_items is the room there, and then the number. EINVAL if any request can't be: its
 * status is CBLK_ARW_STATUS_INVALID, nothing is begun, and all other statuses stay as they are. */
int cblk_listio(chunk_id_t chunk_id, cblk_io_t *issue_io_list[], int issue_items, cblk_io_t *pending_io_list[], int pending_items,
                cblk_io_t *wait_io_list[], int wait_items, cblk_io_t *completion_io_list[], int *completion_items,
                uint64_t timeout, int flags);

/* In a child process, before anything else with this chunk. The mode can't allow more than the parent's. EBUSY while commands are in flight or
 * results were not fetched, EINVAL if the parent has changed a virtual LUN's size since the fork, EOPNOTSUPP on a controller. */
int cblk_clone_after_fork(chunk_id_t chunk_id, int mode, int flags);

/* Groups: chunks on one path that take turns, or stripes (CBLK_GROUP_RAID0) on several paths with ',' between them, or ':'
 * where no path has one. */
typedef struct cflsh_cg_tag_s {
    chunk_id_t id;
    int tag;
} cflsh_cg_tag_t;

chunk_cg_id_t cblk_cg_open(const char *path, int max_num_requests, int mode, int num_chunks, chunk_ext_arg_t ext, int flags);
/* As cblk_close, for all chunks or, with EBUSY, none. */
int cblk_cg_close(chunk_cg_id_t cgid, int flags);
int cblk_cg_get_stats(chunk_cg_id_t cgid, chunk_stats_t *stats, int flags);
int cblk_cg_get_lun_size(chunk_cg_id_t cgid, size_t *nblocks, int flags);
int cblk_cg_get_size(chunk_cg_id_t cgid, size_t *nblocks, int flags);
int cblk_cg_set_size(chunk_cg_id_t cgid, size_t nblocks, int flags);
int cblk_cg_read(chunk_cg_id_t cgid, void *pbuf, cflash_offset_t lba, size_t nblocks, int flags);
int cblk_cg_write(chunk_cg_id_t cgid, void *pbuf, cflash_offset_t lba, size_t nblocks, int flags);
int cblk_cg_unmap(chunk_cg_id_t cgid, void *pbuf, cflash_offset_t lba, size_t nblocks, int flags);
int cblk_cg_aread(chunk_cg_id_t cgid, void *pbuf, cflash_offset_t lba, size_t nblocks, cflsh_cg_tag_t *ptag,
                  cblk_arw_status_t *p_arwstatus, int flags);
int cblk_cg_awrite(chunk_cg_id_t cgid, void *pbuf, cflash_offset_t lba, size_t nblocks, cflsh_cg_tag_t *ptag,
                   cblk_arw_status_t *p_arwstatus, int flags);
int cblk_cg_aunmap(chunk_cg_id_t cgid, void *pbuf, cflash_offset_t lba, size_t nblocks, cflsh_cg_tag_t *ptag,
                   cblk_arw_status_t *p_arwstatus, int flags);
int cblk_cg_aresult(chunk_cg_id_t cgid, cflsh_cg_tag_t *ptag, uint64_t *p_arwstatus, int flags);
int cblk_cg_clone_after_fork(chunk_cg_id_t cgid, int mode, int flags);
int cblk_cg_get_num_chunks(chunk_cg_id_t cgid, int flags);
int cblk_cg_get_attrs(chunk_cg_id_t cgid, chunk_attrs_t *attr, int flags);

#ifdef __cplusplus
}
#endif

#endif
