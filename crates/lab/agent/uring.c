/*
 * Batches of direct I/O through io_uring: PHASE DEV SIZE WINDOWS DEPTH plain|registered read|write.
 * One window is one io_uring_enter that submits DEPTH requests and waits for all of them. Filling the
 * submission entries and reading the completions is left out of it: those are this program's
 * instructions and would change with the compiler.
 */
#include "argument.h"
#include "calm.h"
#include "commands.h"
#include "disk.h"
#include "mark.h"
#include "memory.h"
#include "report.h"
#include "system.h"

#define DEPTH_MAX 1024ul

/* The rest of the file down to struct ring: include/uapi/linux/io_uring.h. The numbers are the same everywhere. */
enum { NR_io_uring_setup = 425, NR_io_uring_enter = 426, NR_io_uring_register = 427 };

#define IORING_OFF_SQ_RING 0ul
#define IORING_OFF_CQ_RING 0x8000000ul
#define IORING_OFF_SQES 0x10000000ul
#define IORING_ENTER_GETEVENTS 1u
#define IOSQE_FIXED_FILE 1u

enum { IORING_REGISTER_BUFFERS = 0, IORING_REGISTER_FILES = 2 };
enum { IORING_OP_READ_FIXED = 4, IORING_OP_WRITE_FIXED = 5, IORING_OP_READ = 22, IORING_OP_WRITE = 23 };

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

struct io_uring_cqe {
	u64 user_data;
	i32 result;
	u32 flags;
};

_Static_assert(sizeof(struct io_uring_params) == 120, "as in the kernel's header");
_Static_assert(sizeof(struct io_uring_sqe) == 64, "as in the kernel's header");
_Static_assert(sizeof(struct io_uring_cqe) == 16, "as in the kernel's header");

/* include/uapi/linux/uio.h */
struct iovec {
	u8 *base;
	u64 bytes;
};

struct ring {
	i64 fd;
	u64 depth;
	struct io_uring_sqe *sqes;
	u32 *sq_tail, *sq_mask, *sq_array;
	u32 *cq_head, *cq_tail, *cq_mask;
	struct io_uring_cqe *cqes;
};

enum preparation { PLAIN, REGISTERED };

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
	u8 *cq_at = ring_part(ring->fd, cq->cqes + params->cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);

	ring->sqes = (void *)ring_part(ring->fd, params->sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring->sq_tail = (u32 *)(sq_at + sq->tail);
	ring->sq_mask = (u32 *)(sq_at + sq->ring_mask);
	ring->sq_array = (u32 *)(sq_at + sq->array);
	ring->cq_head = (u32 *)(cq_at + cq->head);
	ring->cq_tail = (u32 *)(cq_at + cq->tail);
	ring->cq_mask = (u32 *)(cq_at + cq->ring_mask);
	ring->cqes = (struct io_uring_cqe *)(cq_at + cq->cqes);
}

static void ring_open(struct ring *ring, u64 depth)
{
	struct io_uring_params params = {0};

	ring->depth = depth;
	ring->fd = system_call(NR_io_uring_setup, depth, (u64)&params, 0, 0, 0, 0);
	/* EPERM: built in, but forbidden by sysctl kernel.io_uring_disabled or a sandbox. */
	if (ring->fd == -ENOSYS || ring->fd == -EPERM)
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

static u8 opcode(const struct batch *batch)
{
	if (batch->preparation == REGISTERED)
		return batch->direction == READ ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
	return batch->direction == READ ? IORING_OP_READ : IORING_OP_WRITE;
}

static void fill(const struct batch *batch, struct io_uring_sqe *sqe, u64 index)
{
	*sqe = (struct io_uring_sqe){
		.opcode = opcode(batch),
		.flags = batch->preparation == REGISTERED ? IOSQE_FIXED_FILE : 0,
		/* A registered file goes by its place in the table of one. */
		.fd = batch->preparation == REGISTERED ? 0 : (i32)batch->disk->fd,
		.off = disk_advance(batch->disk),
		.addr = (u64)(batch->data + index * batch->stride),
		.len = (u32)batch->disk->io_bytes,
		.user_data = index,
		.buf_index = batch->preparation == REGISTERED ? (u16)index : 0,
	};
}

static void prepare(const struct ring *ring, const struct batch *batch)
{
	/* Only this process moves the tail. */
	u32 tail = *ring->sq_tail;

	for (u64 i = 0; i < ring->depth; i++, tail++) {
		u32 slot = tail & *ring->sq_mask;
		fill(batch, &ring->sqes[slot], i);
		ring->sq_array[slot] = slot;
	}
	/* Pairs with the kernel's acquire load of the tail in io_uring_enter. */
	__atomic_store_n(ring->sq_tail, tail, __ATOMIC_RELEASE);
}

static inline __attribute__((always_inline)) i64 enter(const struct ring *ring)
{
	return system_call(NR_io_uring_enter, ring->fd, ring->depth, ring->depth, IORING_ENTER_GETEVENTS, 0, 0);
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
		disk_check(batch->disk, "I/O on", ring->cqes[head & *ring->cq_mask].result);
	/* Pairs with the kernel's acquire load of the head before it reuses the entries. */
	__atomic_store_n(ring->cq_head, head, __ATOMIC_RELEASE);
}

static void warm_up(const struct ring *ring, const struct batch *batch)
{
	for (u64 i = 0; i < WARM_UP; i += ring->depth) {
		prepare(ring, batch);
		reap(ring, batch, enter(ring));
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

static u64 choice(const char *name, const char *word, const char *zero, const char *one)
{
	if (compare(word, zero) == SAME)
		return 0;
	if (compare(word, one) == SAME)
		return 1;
	fail(name, word, -EINVAL);
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
		.preparation = choice("plain|registered:", words[5], "plain", "registered") ? REGISTERED : PLAIN,
		.direction = choice("read|write:", words[6], "read", "write") ? WRITE : READ,
	};

	ring_open(&ring, depth);
	disk_open(&disk, words[1], batch.direction, bytes);
	batch.data = buffers(depth, bytes, &batch.stride);
	if (batch.preparation == REGISTERED)
		register_all(&ring, &batch);
	come_to_rest();
	warm_up(&ring, &batch);
	mark_phase(phase, depth);
	measure(&ring, &batch, windows);
	done("uring", windows);
}
