/* An engine for fio: fio's jobs on iotoll's block library, beside io_uring in the same run.
 *
 * A controller has a queue for each of fio's threads, whose memory fio fills and checks itself: nothing is copied (interface=queue). A file, a
 * block device or a served disk is a chunk of the C interface of CAPI flash (interface=cblk).
 *
 * It includes fio's headers, which are under the GPL version 2 alone, so this file is, too. The library is not.
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <iotoll_block.h>
#include <stdlib.h>
#include <string.h>

#include "fio.h"
#include "optgroup.h"

/* Blocks of the C interface, whatever the disk's are. */
#define BLOCK_BYTES 4096ULL
/* A controller that died is noticed after so many polls that found nothing. */
#define POLLS_BETWEEN_CHECKS (1u << 20)

enum { INTERFACE_AUTO, INTERFACE_QUEUE, INTERFACE_CBLK };

/* fio takes an option at offset 0 for none. */
struct iotoll_options {
    void *unused;
    unsigned int interface;
};

static struct fio_option options[] = {
    {
        .name = "interface",
        .lname = "Interface of the block library",
        .type = FIO_OPT_STR,
        .off1 = offsetof(struct iotoll_options, interface),
        .help = "How the library is called",
        .def = "auto",
        .posval = {
            { .ival = "auto", .oval = INTERFACE_AUTO, .help = "queue for a controller, else cblk" },
            { .ival = "queue", .oval = INTERFACE_QUEUE, .help = "a controller's queue, without copies" },
            { .ival = "cblk", .oval = INTERFACE_CBLK, .help = "the C interface of CAPI flash" },
        },
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    { .name = NULL },
};

/* A file of the job. */
struct disk {
    chunk_id_t chunk;
    unsigned int in_flight;
    struct io_u **by_tag; /* as many as the job's iodepth */
};

/* A job's thread. */
struct worker {
    unsigned int number_of_disks;
    struct disk *disks;
    unsigned int depth;
    iotoll_queue *queue; /* NULL with interface=cblk */
    uint64_t block_bytes;
    char *memory; /* the queue's */
    size_t memory_bytes;
    void *own_memory; /* with interface=cblk */
    struct iotoll_completion *completions;
    struct io_u **ended; /* what the last getevents returned */
    struct io_u **begun; /* since the last commit */
    unsigned int number_begun;
    bool has_told;
};

/* Says why a call of the library failed. Returns its error number. */
static int failed(const char *what)
{
    char why[512];
    int error = errno ? errno : EIO;

    if (iotoll_block_error(why, sizeof(why)) == 0)
        snprintf(why, sizeof(why), "%s", strerror(error));
    log_err("iotoll: %s: %s\n", what, why);
    return error;
}

/* Whether a path names a controller that this process would drive: emulated:BLOCKS, or DDDD:BB:DD.F with /NAMESPACE or without. */
static bool names_controller(const char *path)
{
    static const char form[] = "xxxx:xx:xx.x";
    size_t i;

    if (!strncmp(path, "emulated:", 9))
        return true;
    for (i = 0; form[i]; i++)
        if (form[i] == 'x' ? !isxdigit((unsigned char)path[i]) : path[i] != form[i])
            return false;
    return path[i] == '\0' || path[i] == '/';
}

static bool uses_queue(struct thread_data *td)
{
    const struct iotoll_options *o = td->eo;

    if (o->interface == INTERFACE_AUTO)
        return td->o.nr_files == 1 && names_controller(td->files[0]->file_name);
    return o->interface == INTERFACE_QUEUE;
}

static chunk_id_t open_chunk(struct thread_data *td, const char *path)
{
    int mode = td_write(td) || td_trim(td) ? O_RDWR : O_RDONLY;

    errno = 0;
    return cblk_open(path, td->o.iodepth, mode, 0, 0);
}

static void close_worker(struct worker *worker)
{
    unsigned int i;

    if (!worker)
        return;
    if (worker->queue && iotoll_queue_close(worker->queue))
        failed("the queue can't be closed");
    for (i = 0; i < worker->number_of_disks; i++) {
        if (worker->disks[i].chunk != NULL_CHUNK_ID && cblk_close(worker->disks[i].chunk, 0))
            failed("the disk can't be closed");
        free(worker->disks[i].by_tag);
    }
    free(worker->own_memory);
    free(worker->completions);
    free(worker->ended);
    free(worker->begun);
    free(worker->disks);
    free(worker);
}

/* Opens the job's disks. NULL if one can't be; *error says why. */
static struct worker *open_worker(struct thread_data *td, int *error)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    unsigned int i;

    *error = ENOMEM;
    if (!worker)
        return NULL;
    worker->depth = td->o.iodepth;
    worker->block_bytes = BLOCK_BYTES;
    worker->disks = calloc(td->o.nr_files, sizeof(*worker->disks));
    worker->ended = calloc(worker->depth, sizeof(*worker->ended));
    worker->begun = calloc(worker->depth, sizeof(*worker->begun));
    worker->completions = calloc(worker->depth, sizeof(*worker->completions));
    if (!worker->disks || !worker->ended || !worker->begun || !worker->completions)
        goto fail;
    for (i = 0; i < td->o.nr_files; i++) {
        struct disk *disk = &worker->disks[i];

        disk->chunk = open_chunk(td, td->files[i]->file_name);
        worker->number_of_disks = i + 1;
        if (disk->chunk == NULL_CHUNK_ID) {
            *error = failed(td->files[i]->file_name);
            goto fail;
        }
        disk->by_tag = calloc(worker->depth, sizeof(*disk->by_tag));
        if (!disk->by_tag)
            goto fail;
    }
    *error = 0;
    return worker;
fail:
    close_worker(worker);
    return NULL;
}

/* What fio's options ask for that can't be. */
static int check_options(struct thread_data *td)
{
    struct fio_file *f;
    unsigned int i;

    if (td->o.iodepth > 8192) {
        log_err("iotoll: iodepth=%u; at most 8192 are possible\n", td->o.iodepth);
        return EINVAL;
    }
    for_each_file(td, f, i) {
        if (names_controller(f->file_name) && !td->o.use_thread) {
            log_err("iotoll: %s: a controller belongs to one process; add thread=1 to the job\n", f->file_name);
            return EINVAL;
        }
    }
    if (uses_queue(td) && td->o.nr_files != 1) {
        log_err("iotoll: interface=queue takes one controller to a job, not %u; use more jobs, or interface=cblk\n", td->o.nr_files);
        return EINVAL;
    }
    return 0;
}

/* Finds out the sizes. A thread's chunks stay open, so that a controller is not reset, nor an emulated one forgotten, before the job begins.
 * A process opens its own: nothing may be open when fio forks. */
static int fio_iotoll_setup(struct thread_data *td)
{
    struct worker *worker = td->io_ops_data;
    struct fio_file *f;
    unsigned int i;
    int error = check_options(td);

    if (error)
        return error;
    if (!worker) {
        worker = open_worker(td, &error);
        if (!worker)
            return error;
        td->io_ops_data = worker;
    }
    for_each_file(td, f, i) {
        size_t blocks;

        if (cblk_get_size(worker->disks[i].chunk, &blocks, 0))
            return failed(f->file_name);
        f->real_file_size = blocks * BLOCK_BYTES;
        /* Not a file that fio would make longer. */
        f->filetype = FIO_TYPE_BLOCK;
        fio_file_set_size_known(f);
    }
    if (!td->o.use_thread && !td->io_ops_init) {
        close_worker(worker);
        td->io_ops_data = NULL;
    }
    return 0;
}

/* Whether the sizes of one kind of command are blocks. */
static int check_block_size(struct thread_data *td, enum fio_ddir ddir, uint64_t unit, uint64_t most)
{
    unsigned long long least = td->o.min_bs[ddir], longest = td->o.max_bs[ddir];

    if (least % unit || longest % unit) {
        log_err("iotoll: a block size of %llu bytes; expected a multiple of this disk's blocks of %llu bytes\n",
                least % unit ? least : longest, (unsigned long long)unit);
        return EINVAL;
    }
    if (longest > most) {
        log_err("iotoll: a block size of %llu bytes; this interface has commands of at most %llu bytes\n", longest, (unsigned long long)most);
        return EINVAL;
    }
    return 0;
}

static int check_block_sizes(struct thread_data *td, const struct worker *worker)
{
    chunk_attrs_t attributes;
    uint64_t most;
    int error = 0;

    if (cblk_get_attrs(worker->disks[0].chunk, &attributes, 0))
        return failed("cblk_get_attrs");
    most = attributes.max_transfer_size * BLOCK_BYTES;
    if (td_read(td))
        error = check_block_size(td, DDIR_READ, worker->block_bytes, worker->queue ? UINT64_MAX : most);
    if (!error && td_write(td))
        error = check_block_size(td, DDIR_WRITE, worker->block_bytes, worker->queue ? UINT64_MAX : most);
    if (!error && td_trim(td))
        error = check_block_size(td, DDIR_TRIM, BLOCK_BYTES, most);
    return error;
}

/* Opens a queue with memory for all of fio's buffers, and for fio to align them. */
static int open_queue(struct thread_data *td, struct worker *worker)
{
    size_t bytes = (size_t)td_max_bs(td) * worker->depth + 2 * (page_mask + 1) + 2 * (size_t)td->o.mem_align;

    errno = 0;
    worker->queue = iotoll_queue_open(td->files[0]->file_name, worker->depth, bytes);
    if (!worker->queue)
        return failed(td->files[0]->file_name);
    worker->memory = iotoll_queue_buffer(worker->queue);
    worker->memory_bytes = bytes;
    worker->block_bytes = iotoll_queue_block_bytes(worker->queue);
    return 0;
}

static int fio_iotoll_init(struct thread_data *td)
{
    int error = check_options(td);

    if (!error && !td->io_ops_data)
        td->io_ops_data = open_worker(td, &error);
    if (!td->io_ops_data)
        return error;
    if (!error && uses_queue(td))
        error = open_queue(td, td->io_ops_data);
    return error ? error : check_block_sizes(td, td->io_ops_data);
}

static void fio_iotoll_cleanup(struct thread_data *td)
{
    close_worker(td->io_ops_data);
    td->io_ops_data = NULL;
}

static int fio_iotoll_iomem_alloc(struct thread_data *td, size_t bytes)
{
    struct worker *worker = td->io_ops_data;

    if (worker->queue) {
        if (bytes > worker->memory_bytes)
            return 1;
        td->orig_buffer = worker->memory;
        return 0;
    }
    if (posix_memalign(&worker->own_memory, page_mask + 1, bytes))
        return 1;
    td->orig_buffer = worker->own_memory;
    return 0;
}

static void fio_iotoll_iomem_free(struct thread_data *td)
{
    struct worker *worker = td->io_ops_data;

    if (!worker)
        return;
    free(worker->own_memory);
    worker->own_memory = NULL;
}

/* The chunk was opened before; a job may still ask for more than there is. */
static int fio_iotoll_open_file(struct thread_data *td, struct fio_file *f)
{
    if (f->file_offset + f->io_size > f->real_file_size) {
        log_err("iotoll: %s has %llu bytes; the job needs %llu\n", f->file_name, (unsigned long long)f->real_file_size,
                (unsigned long long)(f->file_offset + f->io_size));
        td_verror(td, ENOSPC, "open");
        return 1;
    }
    return 0;
}

static int fio_iotoll_close_file(struct thread_data *td, struct fio_file *f)
{
    return 0;
}

/* The library has no cache of its own. */
static int fio_iotoll_invalidate(struct thread_data *td, struct fio_file *f)
{
    return 0;
}

/* A command that has ended before it was queued, with an error number or 0. */
static enum fio_q_status completed(struct io_u *io_u, int error)
{
    io_u->error = error;
    return FIO_Q_COMPLETED;
}

/* A command that waits. fio takes the time of those that do not. */
static enum fio_q_status wait_for(struct thread_data *td, struct disk *disk, struct io_u *io_u)
{
    static char unused[1];
    size_t blocks = io_u->xfer_buflen / BLOCK_BYTES;
    int is_done;

    if (fio_fill_issue_time(td))
        fio_gettime(&io_u->issue_time, NULL);
    errno = 0;
    if (io_u->ddir == DDIR_TRIM)
        is_done = cblk_unmap(disk->chunk, unused, io_u->offset / BLOCK_BYTES, blocks, 0) == (int)blocks;
    else
        is_done = iotoll_block_flush(disk->chunk) == 0;
    io_u_mark_submit(td, 1);
    io_u_mark_complete(td, 1);
    return completed(io_u, is_done ? 0 : errno ? errno : EIO);
}

/* Begins a command of a controller's queue. 0, or a negative error number. */
static int begin_in_queue(struct worker *worker, struct io_u *io_u)
{
    size_t offset = (char *)io_u->xfer_buf - worker->memory;
    uint64_t first = io_u->offset / worker->block_bytes;
    uint32_t blocks = io_u->xfer_buflen / worker->block_bytes;
    uint64_t cookie = (uintptr_t)io_u;

    if (ddir_sync(io_u->ddir))
        return iotoll_queue_flush(worker->queue, cookie);
    if (io_u->ddir == DDIR_READ)
        return iotoll_queue_read(worker->queue, offset, first, blocks, cookie);
    return iotoll_queue_write(worker->queue, offset, first, blocks, cookie);
}

/* Begins a command of a chunk. 0, or a negative error number. */
static int begin_in_chunk(struct worker *worker, struct disk *disk, struct io_u *io_u)
{
    static char unused[1];
    cflash_offset_t first = io_u->offset / BLOCK_BYTES;
    size_t blocks = io_u->xfer_buflen / BLOCK_BYTES;
    int tag = 0, begun;

    errno = 0;
    if (io_u->ddir == DDIR_READ)
        begun = cblk_aread(disk->chunk, io_u->xfer_buf, first, blocks, &tag, NULL, 0);
    else if (io_u->ddir == DDIR_WRITE)
        begun = cblk_awrite(disk->chunk, io_u->xfer_buf, first, blocks, &tag, NULL, 0);
    else
        begun = cblk_aunmap(disk->chunk, unused, first, blocks, &tag, NULL, 0);
    if (begun < 0)
        return errno ? -errno : -EIO;
    if (tag < 0 || (unsigned int)tag >= worker->depth)
        return -EIO;
    disk->by_tag[tag] = io_u;
    return 0;
}

/* Says once for a job why the library takes no such command. */
static void tell(struct worker *worker, const struct io_u *io_u, int error)
{
    if (worker->has_told)
        return;
    worker->has_told = true;
    log_err("iotoll: %s of %llu bytes at %llu is refused: %s%s\n", io_ddir_name(io_u->ddir), io_u->xfer_buflen, io_u->offset, strerror(error),
            worker->queue && error == EINVAL ? "; the controller may take no command of this length: use a smaller bs, or interface=cblk" : "");
}

static enum fio_q_status fio_iotoll_queue(struct thread_data *td, struct io_u *io_u)
{
    struct worker *worker = td->io_ops_data;
    struct disk *disk = &worker->disks[io_u->file->fileno];
    uint64_t unit = worker->queue && io_u->ddir != DDIR_TRIM ? worker->block_bytes : BLOCK_BYTES;
    int error;

    fio_ro_check(td, io_u);
    if (ddir_rw(io_u->ddir) && (io_u->offset % unit || io_u->xfer_buflen % unit)) {
        tell(worker, io_u, EINVAL);
        return completed(io_u, EINVAL);
    }
    if (worker->queue ? io_u->ddir == DDIR_TRIM : ddir_sync(io_u->ddir))
        return worker->number_begun ? FIO_Q_BUSY : wait_for(td, disk, io_u);
    error = worker->queue ? begin_in_queue(worker, io_u) : begin_in_chunk(worker, disk, io_u);
    if (error == -EAGAIN || error == -EWOULDBLOCK)
        return FIO_Q_BUSY;
    if (error) {
        tell(worker, io_u, -error);
        return completed(io_u, -error);
    }
    disk->in_flight++;
    worker->begun[worker->number_begun++] = io_u;
    return FIO_Q_QUEUED;
}

/* Rings the doorbell, and takes the time of it, as fio's own engines do. */
static int fio_iotoll_commit(struct thread_data *td)
{
    struct worker *worker = td->io_ops_data;
    struct timespec now;
    unsigned int i;

    if (!worker->number_begun)
        return 0;
    if (worker->queue)
        iotoll_queue_submit(worker->queue);
    if (fio_fill_issue_time(td)) {
        fio_gettime(&now, NULL);
        for (i = 0; i < worker->number_begun; i++) {
            worker->begun[i]->issue_time = now;
            io_u_queued(td, worker->begun[i]);
        }
        if (td->o.read_iolog_file)
            td->last_issue = now;
    }
    io_u_mark_submit(td, worker->number_begun);
    worker->number_begun = 0;
    return 0;
}

static void end(struct worker *worker, unsigned int *number, struct io_u *io_u, int error)
{
    io_u->error = error;
    worker->disks[io_u->file->fileno].in_flight--;
    worker->ended[(*number)++] = io_u;
}

/* Takes what the queue has. Returns 0 or a negative error number. */
static int take_of_queue(struct worker *worker, unsigned int *number, unsigned int max)
{
    int i, ended = iotoll_queue_poll(worker->queue, worker->completions, max - *number);

    for (i = 0; i < ended; i++) {
        const struct iotoll_completion *completion = &worker->completions[i];
        struct io_u *io_u = (struct io_u *)(uintptr_t)completion->cookie;

        if (completion->error && !worker->has_told) {
            worker->has_told = true;
            log_err("iotoll: %s of %llu bytes at %llu failed with NVMe's status 0x%x\n", io_ddir_name(io_u->ddir), io_u->xfer_buflen,
                    io_u->offset, completion->status);
        }
        end(worker, number, io_u, completion->error);
    }
    return ended < 0 ? ended : 0;
}

/* Takes one command that has ended. 1, 0 if there is none, or a negative error number. */
static int take_of_disk(struct worker *worker, struct disk *disk, unsigned int *number, int flags)
{
    struct io_u *io_u;
    uint64_t status;
    int tag = -1, blocks;

    errno = 0;
    blocks = cblk_aresult(disk->chunk, &tag, &status, CBLK_ARESULT_NEXT_TAG | flags);
    if (tag < 0)
        return blocks < 0 ? -(errno ? errno : EIO) : 0;
    io_u = disk->by_tag[tag];
    if (blocks > 0)
        io_u->resid = io_u->xfer_buflen - blocks * BLOCK_BYTES;
    end(worker, number, io_u, blocks < 0 ? (errno ? errno : EIO) : 0);
    return 1;
}

/* Takes what the chunks have. Where nothing else is to be done, the library waits. */
static int take_of_chunks(struct worker *worker, unsigned int *number, unsigned int min, unsigned int max, bool may_wait)
{
    unsigned int i, busy = 0;

    for (i = 0; i < worker->number_of_disks; i++)
        busy += worker->disks[i].in_flight > 0;
    for (i = 0; i < worker->number_of_disks; i++) {
        struct disk *disk = &worker->disks[i];

        while (disk->in_flight && *number < max) {
            bool waits = may_wait && busy == 1 && *number < min;
            int taken = take_of_disk(worker, disk, number, waits ? CBLK_ARESULT_BLOCKING : 0);

            if (taken < 0)
                return taken;
            if (taken == 0)
                break;
        }
    }
    return 0;
}

static uint64_t limit_ns(const struct timespec *limit)
{
    return limit ? limit->tv_sec * 1000000000ULL + limit->tv_nsec : UINT64_MAX;
}

static int fio_iotoll_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *limit)
{
    struct worker *worker = td->io_ops_data;
    uint64_t most_ns = limit_ns(limit);
    unsigned int number = 0, polls = 0;
    struct timespec begin;

    if (max > worker->depth)
        max = worker->depth;
    if (most_ns && limit)
        fio_gettime(&begin, NULL);
    for (;;) {
        int error = worker->queue ? take_of_queue(worker, &number, max) : take_of_chunks(worker, &number, min, max, !limit);

        if (error)
            return error;
        if (number >= min || number >= max || !most_ns || (limit && ntime_since_now(&begin) >= most_ns))
            return number;
        if (worker->queue && ++polls % POLLS_BETWEEN_CHECKS == 0) {
            error = iotoll_queue_check(worker->queue);
            if (error) {
                errno = error < 0 ? -error : EIO;
                return -failed("the controller does not work");
            }
        }
    }
}

static struct io_u *fio_iotoll_event(struct thread_data *td, int event)
{
    const struct worker *worker = td->io_ops_data;

    return worker->ended[event];
}

/* fio looks for this name. */
struct ioengine_ops ioengine = {
    .name = "iotoll",
    .version = FIO_IOOPS_VERSION,
    .flags = FIO_RAWIO | FIO_MEMALIGN | FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_ASYNCIO_SETS_ISSUE_TIME,
    .setup = fio_iotoll_setup,
    .init = fio_iotoll_init,
    .cleanup = fio_iotoll_cleanup,
    .iomem_alloc = fio_iotoll_iomem_alloc,
    .iomem_free = fio_iotoll_iomem_free,
    .open_file = fio_iotoll_open_file,
    .close_file = fio_iotoll_close_file,
    .invalidate = fio_iotoll_invalidate,
    .queue = fio_iotoll_queue,
    .commit = fio_iotoll_commit,
    .getevents = fio_iotoll_getevents,
    .event = fio_iotoll_event,
    .options = options,
    .option_struct_size = sizeof(struct iotoll_options),
};
