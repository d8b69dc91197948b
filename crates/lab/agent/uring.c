/*
 * Batches of direct I/O through io_uring: PHASE DEV SIZE WINDOWS DEPTH plain|registered|polled|passthru read|write|scattered.
 * One window is one io_uring_enter that submits DEPTH requests and waits for all of them. Filling the
 * submission entries and reading the completions is left out of it: those are this program's
 * instructions and would change with the compiler.
 *
 * What is polled is registered too, and the kernel is told to look for completions itself, in queues without interrupts.
 * passthru hands over commands of NVMe's: DEV is then the character device of a namespace, and they only read.
 *
 * Of requests that lie side by side the kernel makes one command for the disk. scattered are reads that do not.
 */
#include "argument.h"
#include "settle.h"
#include "commands.h"
#include "disk.h"
#include "kallsyms.h"
#include "mark.h"
#include "memory.h"
#include "nvme.h"
#include "report.h"
#include "system.h"
#include "warm_up.h"

#define DEPTH_MAX 1024ul

/* The rest of the file down to struct ring: include/uapi/linux/io_uring.h. The numbers are the same everywhere. */
enum { NR_io_uring_setup = 425, NR_io_uring_enter = 426, NR_io_uring_register = 427 };

#define IORING_OFF_SQ_RING 0ul
#define IORING_OFF_CQ_RING 0x8000000ul
#define IORING_OFF_SQES 0x10000000ul
#define IORING_SETUP_IOPOLL 1u
#define IORING_SETUP_SQE128 0x400u
#define IORING_SETUP_CQE32 0x800u
#define IORING_ENTER_GETEVENTS 1u
#define IOSQE_FIXED_FILE 1u

enum { IORING_REGISTER_BUFFERS = 0, IORING_REGISTER_FILES = 2 };
enum { IORING_OP_READ_FIXED = 4, IORING_OP_WRITE_FIXED = 5, IORING_OP_READ = 22, IORING_OP_WRITE = 23, IORING_OP_URING_CMD = 46 };

struct io_sqring_offsets {
	u32 head, tail, ring_mask, ring_entries, flags, dropped, array, reserved;
	u64 user_addr;
};

struct io_cqring_offsets {
	u32 head, tail, ring_mask, ring_entries, overflow, cqes, flags, reserved;
	u64 user_addr;
};

struct io_uring_params {
	u32 sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd, reserved[3];
	struct io_sqring_offsets sq_off;
	struct io_cqring_offsets cq_off;
};

struct io_uring_sqe {
	u8 opcode, flags;
	u16 ioprio;
	i32 fd;
	u64 off, addr;
	u32 len, rw_flags;
	u64 user_data;
	u16 buf_index, personality;
	i32 file_index;
	u64 addr3, reserved;
};

/* What IORING_OP_URING_CMD has: the file's own operation instead of the offset, and from addr3 on its argument. */
struct io_uring_command_sqe {
	struct io_uring_sqe head;
	u8 rest[64];
};

#define COMMAND_OFFSET 48
#define COMMAND_BYTES_MAX 80

struct io_uring_cqe {
	u64 user_data;
	i32 result;
	u32 flags;
};

_Static_assert(sizeof(struct io_uring_params) == 120, "as in the kernel's header");
_Static_assert(sizeof(struct io_uring_sqe) == 64, "as in the kernel's header");
_Static_assert(sizeof(struct io_uring_cqe) == 16, "as in the kernel's header");
_Static_assert(sizeof(struct io_uring_command_sqe) == COMMAND_OFFSET + COMMAND_BYTES_MAX, "as in the kernel's header");
_Static_assert(sizeof(struct nvme_command) <= COMMAND_BYTES_MAX, "there is room for one");

/* include/uapi/linux/uio.h */
struct iovec {
	u8 *base;
	u64 bytes;
};

struct ring {
	i64 fd;
	u64 depth;
	u8 *sqes;
	u32 *sq_tail, *sq_mask, *sq_array;
	u32 *cq_head, *cq_tail, *cq_mask;
	u8 *cqes;
	u64 sqe_bytes, cqe_bytes;
};

enum preparation { PLAIN, REGISTERED, POLLED, PASSTHRU, PREPARATIONS };

static const char *const preparations[PREPARATIONS] = {"plain", "registered", "polled", "passthru"};
static const u32 setups[PREPARATIONS] = {
	[POLLED] = IORING_SETUP_IOPOLL,
	[PASSTHRU] = IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
};

struct batch {
	struct disk *disk;
	enum preparation preparation;
	enum direction direction;
	u8 *data;
	u64 stride;
};

static u8 *ring_part(i64 fd, u64 bytes, u64 offset)
{
	i64 at = sys_mmap(bytes, MAP_SHARED, fd, offset);

	if (at < 0)
		fail("mmap", "io_uring", at);
	return (u8 *)at;
}

static void ring_map(struct ring *ring, const struct io_uring_params *params)
{
	const struct io_sqring_offsets *sq = &params->sq_off;
	const struct io_cqring_offsets *cq = &params->cq_off;
	u8 *sq_at = ring_part(ring->fd, sq->array + params->sq_entries * sizeof(u32), IORING_OFF_SQ_RING);
	u8 *cq_at = ring_part(ring->fd, cq->cqes + params->cq_entries * ring->cqe_bytes, IORING_OFF_CQ_RING);

	ring->sqes = ring_part(ring->fd, params->sq_entries * ring->sqe_bytes, IORING_OFF_SQES);
	ring->sq_tail = (u32 *)(sq_at + sq->tail);
	ring->sq_mask = (u32 *)(sq_at + sq->ring_mask);
	ring->sq_array = (u32 *)(sq_at + sq->array);
	ring->cq_head = (u32 *)(cq_at + cq->head);
	ring->cq_tail = (u32 *)(cq_at + cq->tail);
	ring->cq_mask = (u32 *)(cq_at + cq->ring_mask);
	ring->cqes = cq_at + cq->cqes;
}

static void ring_open(struct ring *ring, u64 depth, u32 flags)
{
	struct io_uring_params params = {.flags = flags};

	ring->depth = depth;
	ring->sqe_bytes = sizeof(struct io_uring_sqe) << !!(flags & IORING_SETUP_SQE128);
	ring->cqe_bytes = sizeof(struct io_uring_cqe) << !!(flags & IORING_SETUP_CQE32);
	ring->fd = system_call(NR_io_uring_setup, depth, (u64)&params, 0, 0, 0, 0);
	/* EPERM: built in, but forbidden by sysctl kernel.io_uring_disabled or a sandbox. EINVAL: a flag that came later. */
	if (ring->fd == -ENOSYS || ring->fd == -EPERM || (flags != 0 && ring->fd == -EINVAL))
		absent("uring", ring->fd);
	if (ring->fd < 0)
		fail("io_uring_setup", "a ring", ring->fd);
	ring_map(ring, &params);
}

static void ring_register(const struct ring *ring, u64 what, void *table, u64 entries)
{
	i64 result = system_call(NR_io_uring_register, ring->fd, what, (u64)table, entries, 0, 0);

	if (result < 0)
		fail("io_uring_register", what == IORING_REGISTER_FILES ? "the file" : "the buffers", result);
}

static void register_all(const struct ring *ring, const struct batch *batch)
{
	static struct iovec vectors[DEPTH_MAX];
	i32 file = (i32)batch->disk->fd;

	for (u64 i = 0; i < ring->depth; i++)
		vectors[i] = (struct iovec){batch->data + i * batch->stride, batch->disk->io_bytes};
	ring_register(ring, IORING_REGISTER_BUFFERS, vectors, ring->depth);
	ring_register(ring, IORING_REGISTER_FILES, &file, 1);
}

static u32 is_registered(const struct batch *batch)
{
	return batch->preparation == REGISTERED || batch->preparation == POLLED;
}

static u8 opcode(const struct batch *batch)
{
	if (is_registered(batch))
		return batch->direction == READ ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
	return batch->direction == READ ? IORING_OP_READ : IORING_OP_WRITE;
}

static void fill(const struct batch *batch, struct io_uring_sqe *sqe, u64 index)
{
	*sqe = (struct io_uring_sqe){
		.opcode = opcode(batch),
		.flags = is_registered(batch) ? IOSQE_FIXED_FILE : 0,
		/* A registered file goes by its place in the table of one. */
		.fd = is_registered(batch) ? 0 : (i32)batch->disk->fd,
		.off = disk_advance(batch->disk),
		.addr = (u64)(batch->data + index * batch->stride),
		.len = (u32)batch->disk->io_bytes,
		.user_data = index,
		.buf_index = is_registered(batch) ? (u16)index : 0,
	};
}

static void fill_command(const struct batch *batch, u8 *sqe, u64 index)
{
	u8 *data = batch->data + index * batch->stride;

	*(struct io_uring_command_sqe *)sqe = (struct io_uring_command_sqe){
		.head = {
			.opcode = IORING_OP_URING_CMD,
			.fd = (i32)batch->disk->fd,
			.off = NVME_URING_CMD_IO,
			.user_data = index,
		},
	};
	*(struct nvme_command *)(sqe + COMMAND_OFFSET) = nvme_read(batch->disk, disk_advance(batch->disk), data);
}

static void prepare(const struct ring *ring, const struct batch *batch)
{
	/* Only this process moves the tail. */
	u32 tail = *ring->sq_tail;

	for (u64 i = 0; i < ring->depth; i++, tail++) {
		u32 slot = tail & *ring->sq_mask;
		u8 *sqe = ring->sqes + slot * ring->sqe_bytes;
		if (batch->preparation == PASSTHRU)
			fill_command(batch, sqe, i);
		else
			fill(batch, (struct io_uring_sqe *)sqe, i);
		ring->sq_array[slot] = slot;
	}
	/* Pairs with the kernel's acquire load of the tail in io_uring_enter. */
	__atomic_store_n(ring->sq_tail, tail, __ATOMIC_RELEASE);
}

static inline __attribute__((always_inline)) i64 enter(const struct ring *ring)
{
	return system_call(NR_io_uring_enter, ring->fd, ring->depth, ring->depth, IORING_ENTER_GETEVENTS, 0, 0);
}

static inline __attribute__((always_inline)) u32 arrived(const struct ring *ring)
{
	return __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) - *ring->cq_head;
}

/* A kernel that polls gives up as soon as another program wants the CPU, however much has come (io_iopoll_check). */
static inline __attribute__((always_inline)) i64 enter_polled(const struct ring *ring)
{
	i64 submitted = enter(ring);
	i64 result = submitted;

	while (result >= 0 && arrived(ring) < ring->depth)
		result = system_call(NR_io_uring_enter, ring->fd, 0, ring->depth, IORING_ENTER_GETEVENTS, 0, 0);
	return result < 0 ? result : submitted;
}

static void check(const struct batch *batch, i64 result)
{
	if (batch->preparation != PASSTHRU)
		disk_check(batch->disk, "I/O on", result);
	else if (result != 0)
		fail("command on", batch->disk->path, result);
}

static void reap(const struct ring *ring, const struct batch *batch, i64 submitted)
{
	/* Pairs with the kernel's release store of the tail after the entries. */
	u32 tail = __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE);
	u32 head = *ring->cq_head;

	if (submitted != (i64)ring->depth)
		fail("io_uring_enter", batch->disk->path, submitted);
	if (tail - head != ring->depth)
		fail("completions of", batch->disk->path, tail - head);
	for (; head != tail; head++)
		check(batch, ((struct io_uring_cqe *)(ring->cqes + (head & *ring->cq_mask) * ring->cqe_bytes))->result);
	/* Pairs with the kernel's acquire load of the head before it reuses the entries. */
	__atomic_store_n(ring->cq_head, head, __ATOMIC_RELEASE);
}

static void warm_up(const struct ring *ring, const struct batch *batch)
{
	u64 windows = warm_up_windows((WARM_UP + ring->depth - 1) / ring->depth);

	for (u64 i = 0; i < windows; i++) {
		prepare(ring, batch);
		reap(ring, batch, batch->preparation == POLLED ? enter_polled(ring) : enter(ring));
	}
}

static void measure(const struct ring *ring, const struct batch *batch, u64 windows)
{
	for (u64 i = 0; i < windows; i++) {
		prepare(ring, batch);
		mark(MARK_BEGIN);
		i64 submitted = enter(ring);
		mark(MARK_END);
		reap(ring, batch, submitted);
	}
}

static void measure_polled(const struct ring *ring, const struct batch *batch, u64 windows)
{
	for (u64 i = 0; i < windows; i++) {
		prepare(ring, batch);
		mark(MARK_BEGIN);
		i64 submitted = enter_polled(ring);
		mark(MARK_END);
		reap(ring, batch, submitted);
	}
}

static enum preparation preparation_of(const char *word)
{
	for (enum preparation i = 0; i < PREPARATIONS; i++)
		if (compare(word, preparations[i]) == SAME)
			return i;
	fail("plain|registered|polled|passthru:", word, -EINVAL);
}

/* Whoever watches lets the disk answer where the driver looks for completions. */
static void mark_poll(void)
{
	mark_value(MARK_POLL, kallsyms_find("nvme_poll"));
}

static enum direction direction_of(const char *word)
{
	if (compare(word, "write") == SAME)
		return WRITE;
	if (compare(word, "read") != SAME && compare(word, "scattered") != SAME)
		fail("read|write|scattered:", word, -EINVAL);
	return READ;
}

void command_uring(char **words)
{
	u64 phase = number("PHASE", words[0], 0, PHASE_MAX);
	u64 bytes = number("SIZE", words[2], 1, IO_BYTES_MAX);
	u64 windows = number("WINDOWS", words[3], 1, WINDOWS_MAX);
	u64 depth = number("DEPTH", words[4], 1, DEPTH_MAX);
	struct disk disk;
	struct ring ring;
	struct batch batch = {
		.disk = &disk,
		.preparation = preparation_of(words[5]),
		.direction = direction_of(words[6]),
	};

	if (batch.preparation == PASSTHRU && batch.direction != READ)
		fail("passthru only reads:", words[6], -EINVAL);
	ring_open(&ring, depth, setups[batch.preparation]);
	if (batch.preparation == PASSTHRU)
		disk_open_character(&disk, words[1], bytes);
	else
		disk_open(&disk, words[1], batch.direction, bytes);
	if (compare(words[6], "scattered") == SAME)
		disk_scatter(&disk);
	batch.data = buffers(depth, bytes, &batch.stride);
	if (is_registered(&batch))
		register_all(&ring, &batch);
	if (batch.preparation == POLLED)
		mark_poll();
	settle();
	warm_up(&ring, &batch);
	mark_phase(phase, depth);
	if (batch.preparation == POLLED)
		measure_polled(&ring, &batch, windows);
	else
		measure(&ring, &batch, windows);
	done("uring", windows);
}
