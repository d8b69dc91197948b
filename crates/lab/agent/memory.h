/* Memory for I/O. */
#ifndef MEMORY_H
#define MEMORY_H

#include "number.h"

/* Buffers begin on the largest page of the three architectures: none shares a page with another. */
#define BUFFER_ALIGNMENT 65536ul

/*
 * `count` buffers of `bytes` in one mapping, each aligned, all touched; *stride is the distance between two.
 * Huge pages are declined, and no page follows its predecessor in physical memory: what the guest just then has free
 * would decide how many segments an I/O has.
 */
u8 *buffers(u64 count, u64 bytes, u64 *stride);

/* One such buffer. */
u8 *buffer(u64 bytes);

/* Zeroed memory that children share with their parent. */
void *shared(u64 bytes);

#endif
