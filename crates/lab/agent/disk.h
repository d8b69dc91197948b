/* A block device (or a file) opened for direct I/O, and where on it the next I/O goes. */
#ifndef DISK_H
#define DISK_H

#include "number.h"

/* I/O stays at the beginning: the first half GiB, in order, again and again. */
#define SPAN_BYTES_MAX (512ul << 20)
#define IO_BYTES_MAX (64ul << 20)

struct disk {
	const char *path;
	i64 fd;
	u64 io_bytes;
	u64 step_bytes; /* from one I/O to the next */
	u64 span_bytes; /* a multiple of io_bytes */
	u64 next;
};

enum direction { READ, WRITE };

void disk_open(struct disk *disk, const char *path, enum direction direction, u64 io_bytes);

/* The same of a namespace's character device, which has no size: it is taken to have what is used of it. */
void disk_open_character(struct disk *disk, const char *path, u64 io_bytes);

/* From here on no I/O is beside another, of which the kernel would make one command. */
void disk_scatter(struct disk *disk);

/* The offset of the next I/O. */
u64 disk_advance(struct disk *disk);

/* Takes an I/O's result: all of it or a failure. */
void disk_check(const struct disk *disk, const char *what, i64 result);

#endif
