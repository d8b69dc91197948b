/* Synchronous direct reads from many CPUs at once, each with its own windows: PHASE DEV SIZE WINDOWS CPUS. */
#include "argument.h"
#include "settle.h"
#include "commands.h"
#include "disk.h"
#include "mark.h"
#include "memory.h"
#include "processor.h"
#include "report.h"
#include "system.h"
#include "warm_up.h"

/* Each child writes only its own words, so that no atomic arithmetic is needed. */
struct progress {
	u32 ready;
	u32 finished;
};

struct task {
	const char *path;
	u64 bytes;
	u64 windows;
	u64 cpus;
	/* When all begin. */
	struct time begin;
	/* Of each child. */
	struct progress *progress;
};

/* Release and acquire: who sees the word also sees what was done before it was written. */
static void raise(u32 *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

static u32 raised(const u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static u32 all_finished(const struct task *task)
{
	for (u64 cpu = 0; cpu < task->cpus; cpu++)
		if (!raised(&task->progress[cpu].finished))
			return 0;
	return 1;
}

static void read_plainly(struct disk *disk, u8 *data)
{
	u64 offset = disk_advance(disk);

	disk_check(disk, "read of", system_call(NR_pread64, disk->fd, (u64)data, disk->io_bytes, offset, 0, 0));
}

static void read_in_window(struct disk *disk, u8 *data)
{
	u64 offset = disk_advance(disk);

	mark(MARK_BEGIN);
	i64 result = system_call(NR_pread64, disk->fd, (u64)data, disk->io_bytes, offset, 0, 0);
	mark(MARK_END);
	disk_check(disk, "I/O on", result);
}

_Noreturn static void child(const struct task *task, u64 cpu)
{
	struct progress *progress = &task->progress[cpu];
	struct disk disk;

	pin(cpu);
	disk_open(&disk, task->path, READ, task->bytes);
	disk.next = disk.span_bytes / disk.io_bytes * cpu / task->cpus * disk.io_bytes;
	u8 *data = buffer(task->bytes);
	for (u64 i = warm_up_windows(WARM_UP); i != 0; i--)
		read_plainly(&disk, data);
	raise(&progress->ready);
	/* Asleep until then, and each woken by its own timer: nobody waits in a loop, and nobody calls another CPU. */
	rest_until(&task->begin);
	for (u64 i = 0; i < task->windows; i++)
		read_in_window(&disk, data);
	raise(&progress->finished);
	/* The last windows of the slower ones are to see as much company as their first. */
	while (!all_finished(task))
		read_plainly(&disk, data);
	sys_exit(0);
}

static void wait_ready(const struct task *task)
{
	for (u64 cpu = 0; cpu < task->cpus; cpu++)
		while (!raised(&task->progress[cpu].ready)) {
			i32 status = 0;
			i64 ended = sys_wait(-1, &status, WNOHANG);
			if (ended != 0)
				fail("a child of", "many ended early", ended < 0 ? ended : status);
			sleep_ms(1);
		}
}

/* Windows that begin before their phase is announced would be another's. */
static void check_early(const struct task *task)
{
	struct time now;
	i64 result = sys_monotonic_time(&now);

	if (result != 0 || now.seconds >= task->begin.seconds)
		fail("warming up", "took longer than the rest", result);
}

void command_many(char **words)
{
	u64 phase = number("PHASE", words[0], 0, PHASE_MAX);
	struct task task = {
		.path = words[1],
		.bytes = number("SIZE", words[2], 1, IO_BYTES_MAX),
		.windows = number("WINDOWS", words[3], 1, WINDOWS_MAX),
		.cpus = number("CPUS", words[4], 1, CPUS_MAX),
		.begin = rest_end(),
		.progress = shared(CPUS_MAX * sizeof(struct progress)),
	};

	for (u64 cpu = 0; cpu < task.cpus; cpu++)
		if (spawn() == 0)
			child(&task, cpu);
	wait_ready(&task);
	mark_phase(phase, 1);
	check_early(&task);
	/* Any of them: the first that fails must not wait for the others, who wait for it. */
	for (u64 cpu = 0; cpu < task.cpus; cpu++)
		join(-1, "many");
	done("many", task.cpus * task.windows);
}
