#include "disk.h"

#include "report.h"
#include "system.h"

void disk_open(struct disk *disk, const char *path, enum direction direction, u64 io_bytes)
{
	disk->path = path;
	disk->fd = sys_open(path, O_DIRECT | (direction == READ ? O_RDONLY : O_RDWR));
	if (disk->fd < 0)
		fail("open", path, disk->fd);

	i64 size = sys_seek_end(disk->fd);
	if (size < (i64)io_bytes)
		fail("size of", path, size);
	u64 span = (u64)size < SPAN_BYTES_MAX ? (u64)size : SPAN_BYTES_MAX;
	disk->io_bytes = io_bytes;
	disk->step_bytes = io_bytes;
	disk->span_bytes = span - span % io_bytes;
	disk->next = 0;
}

void disk_open_character(struct disk *disk, const char *path, u64 io_bytes)
{
	disk->path = path;
	disk->fd = sys_open(path, O_RDONLY);
	if (disk->fd < 0)
		fail("open", path, disk->fd);
	disk->io_bytes = io_bytes;
	disk->step_bytes = io_bytes;
	disk->span_bytes = SPAN_BYTES_MAX - SPAN_BYTES_MAX % io_bytes;
	disk->next = 0;
}

void disk_scatter(struct disk *disk)
{
	disk->step_bytes = 2 * disk->io_bytes;
}

u64 disk_advance(struct disk *disk)
{
	u64 offset = disk->next;

	disk->next += disk->step_bytes;
	if (disk->next >= disk->span_bytes)
		disk->next = 0;
	return offset;
}

void disk_check(const struct disk *disk, const char *what, i64 result)
{
	if (result != (i64)disk->io_bytes)
		fail(what, disk->path, result);
}
