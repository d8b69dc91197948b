#include "memory.h"

#include "pages.h"
#include "report.h"
#include "system.h"

/* The compiler makes calls of these two from assignments of structures. It must not make one of their loops. */
#define PLAIN_LOOP __attribute__((optimize("no-tree-loop-distribute-patterns")))

PLAIN_LOOP void *memcpy(void *to, const void *from, u64 bytes)
{
	for (u64 i = 0; i < bytes; i++)
		((u8 *)to)[i] = ((const u8 *)from)[i];
	return to;
}

PLAIN_LOOP void *memset(void *to, int value, u64 bytes)
{
	for (u64 i = 0; i < bytes; i++)
		((u8 *)to)[i] = (u8)value;
	return to;
}

static u64 aligned(u64 value)
{
	return (value + BUFFER_ALIGNMENT - 1) & -BUFFER_ALIGNMENT;
}

u8 *buffers(u64 count, u64 bytes, u64 *stride)
{
	*stride = aligned(bytes);
	u64 total = count * *stride;
	i64 at = sys_mmap(total + BUFFER_ALIGNMENT, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at < 0)
		fail("mmap", "buffers", at);
	u8 *first = (u8 *)aligned(at);
	i64 advised = sys_madvise(first, total, MADV_NOHUGEPAGE);
	/* EINVAL: a kernel without huge pages, which is as good. */
	if (advised < 0 && advised != -EINVAL)
		fail("madvise", "buffers", advised);
	memset(first, 0x5a, total);
	scatter(first, total);
	return first;
}

u8 *buffer(u64 bytes)
{
	u64 stride;

	return buffers(1, bytes, &stride);
}

void *shared(u64 bytes)
{
	i64 at = sys_mmap(bytes, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at < 0)
		fail("mmap", "shared page", at);
	return (void *)at;
}
