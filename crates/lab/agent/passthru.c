/*
 * Synchronous reads by the NVMe driver's own ioctl: PHASE DEV SIZE WINDOWS. One window is one ioctl; the
 * command that it hands over is made before.
 */
#include "argument.h"
#include "settle.h"
#include "commands.h"
#include "disk.h"
#include "mark.h"
#include "memory.h"
#include "nvme.h"
#include "report.h"
#include "system.h"
#include "warm_up.h"

static void check(const struct disk *disk, i64 result)
{
	/* Above zero it is the command's status. */
	if (result != 0)
		fail("NVME_IOCTL_IO_CMD", disk->path, result);
}

static void warm_up(struct disk *disk, u8 *data)
{
	u64 windows = warm_up_windows(WARM_UP);

	for (u64 i = 0; i < windows; i++) {
		struct nvme_command command = nvme_read(disk, disk_advance(disk), data);
		check(disk, sys_ioctl(disk->fd, NVME_IOCTL_IO_CMD, &command));
	}
}

static void measure(struct disk *disk, u8 *data, u64 windows)
{
	for (u64 i = 0; i < windows; i++) {
		struct nvme_command command = nvme_read(disk, disk_advance(disk), data);
		mark(MARK_BEGIN);
		i64 result = sys_ioctl(disk->fd, NVME_IOCTL_IO_CMD, &command);
		mark(MARK_END);
		check(disk, result);
	}
}

void command_passthru(char **words)
{
	u64 phase = number("PHASE", words[0], 0, PHASE_MAX);
	u64 bytes = number("SIZE", words[2], 1, IO_BYTES_MAX);
	u64 windows = number("WINDOWS", words[3], 1, WINDOWS_MAX);
	struct disk disk;

	disk_open(&disk, words[1], READ, bytes);
	u8 *data = buffer(bytes);
	settle();
	warm_up(&disk, data);
	mark_phase(phase, 1);
	measure(&disk, data, windows);
	done("passthru", windows);
}
