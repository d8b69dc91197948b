/* What iotoll's block library has beyond the interface of CAPI flash (capiblock.h).
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOTOLL_BLOCK_H
#define IOTOLL_BLOCK_H

#include "capiblock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Empties a disk's volatile write cache: writes that have ended survive a power failure. -1 and errno if it fails. */
int iotoll_block_flush(chunk_id_t chunk_id);

/* Copies why this thread's last call failed, where more is known than its errno: a controller or broker that can't be opened or has no queue left,
 * a flush that failed, a command whose result it fetched, or one of cblk_listio's. A zero byte is after it. Returns its length without that byte,
 * also where size is too small; 0 if nothing is known. */
size_t iotoll_block_error(char *into, size_t size);

/* The library's version, such as "0.1.0". */
const char *iotoll_block_version(void);

/* A queue of a controller, for one thread at a time. Its buffer is memory that the controller reaches: data is not copied. Blocks are the
 * disk's own, and commands at most as long as the controller allows. Nothing here retries, resets or looks at a clock; cblk_aread does.
 *
 *     iotoll_queue *queue = iotoll_queue_open("0000:3b:00.0", 32, 32 * 4096);
 *     uint32_t blocks = 4096 / iotoll_queue_block_bytes(queue);
 *     for (int i = 0; i < 32; i++)
 *         if (iotoll_queue_read(queue, i * 4096, i * blocks, blocks, i) < 0)
 *             return 1;
 *     iotoll_queue_submit(queue);
 *     struct iotoll_completion done[32];
 *     int number = iotoll_queue_poll(queue, done, 32);
 */
typedef struct iotoll_queue iotoll_queue;

struct iotoll_completion {
    uint64_t cookie; /* the command's number, as the caller gave it */
    int32_t error;   /* 0, or EIO */
    uint32_t status; /* NVMe's status field, without the phase */
};

/* A queue for up to depth commands at once. NULL and errno if there is none: EOPNOTSUPP for a path that is not one controller, EINVAL for more
 * commands than that takes. A child process must not use its parent's queues. */
iotoll_queue *iotoll_queue_open(const char *controller, unsigned depth, size_t buffer_bytes);
/* Aborts what is in flight. Afterwards neither the queue nor its buffer may be used. -1 and errno if it fails. */
int iotoll_queue_close(iotoll_queue *queue);
void *iotoll_queue_buffer(const iotoll_queue *queue);
uint64_t iotoll_queue_blocks(const iotoll_queue *queue);
uint64_t iotoll_queue_block_bytes(const iotoll_queue *queue);
/* The most blocks of a command. */
uint64_t iotoll_queue_blocks_max(const iotoll_queue *queue);

/* Each puts a command into the queue, for data at a byte offset of the buffer, a multiple of 4. 0, or a negative error number: -EAGAIN if depth commands are in
 * flight, -EINVAL for blocks or bytes that are not there, -EIO if the controller was reset. */
int iotoll_queue_read(iotoll_queue *queue, size_t offset, uint64_t first, uint32_t blocks, uint64_t cookie);
int iotoll_queue_write(iotoll_queue *queue, size_t offset, uint64_t first, uint32_t blocks, uint64_t cookie);
int iotoll_queue_flush(iotoll_queue *queue, uint64_t cookie);
/* Lets the controller see the commands since the last time. */
void iotoll_queue_submit(iotoll_queue *queue);
/* Takes up to most commands that have ended, without waiting. Their number, or -EIO if the controller was reset or misbehaves. */
int iotoll_queue_poll(iotoll_queue *queue, struct iotoll_completion *into, unsigned most);
/* 0 if the controller works and the system does not want it back. After -EIO close the queue. Ask where commands do not end: those of one that failed never do. */
int iotoll_queue_check(const iotoll_queue *queue);

#ifdef __cplusplus
}
#endif

#endif
