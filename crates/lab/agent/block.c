/* Synchronous direct I/O, one per window: PHASE DEV SIZE WINDOWS [CPU]. */
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

static i64 transfer_number(enum direction direction)
{
	return direction == READ ? NR_pread64 : NR_pwrite64;
}

static void warm_up(struct disk *disk, i64 transfer, u8 *data)
{
	u64 windows = warm_up_windows(WARM_UP);

	for (u64 i = 0; i < windows; i++) {
		u64 offset = disk_advance(disk);
		disk_check(disk, "warm-up on", system_call(transfer, disk->fd, (u64)data, disk->io_bytes, offset, 0, 0));
	}
}

static void measure(struct disk *disk, i64 transfer, u8 *data, u64 windows)
{
	for (u64 i = 0; i < windows; i++) {
		u64 offset = disk_advance(disk);
		mark(MARK_BEGIN);
		i64 result = system_call(transfer, disk->fd, (u64)data, disk->io_bytes, offset, 0, 0);
		mark(MARK_END);
		disk_check(disk, "I/O on", result);
	}
}

static void run(const char *name, enum direction direction, char **words)
{
	u64 phase = number("PHASE", words[0], 0, PHASE_MAX);
	u64 bytes = number("SIZE", words[2], 1, IO_BYTES_MAX);
	u64 windows = number("WINDOWS", words[3], 1, WINDOWS_MAX);
	struct disk disk;

	if (words[4])
		pin(number("CPU", words[4], 0, CPUS_MAX - 1));
	disk_open(&disk, words[1], direction, bytes);
	u8 *data = buffer(bytes);
	settle();
	warm_up(&disk, transfer_number(direction), data);
	mark_phase(phase, 1);
	measure(&disk, transfer_number(direction), data, windows);
	done(name, windows);
}

void command_read(char **words)
{
	run("read", READ, words);
}

void command_write(char **words)
{
	run("write", WRITE, words);
}
