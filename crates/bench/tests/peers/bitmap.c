/* The first free pages of a bitmap, under a lock: as plain as an allocator gets, to test the interface with. */
#include "iotoll_iova_peer.h"
#include <pthread.h>
#include <stdlib.h>

/* Pages that a request takes at least. */
#define WASTE 1

struct bitmap {
	pthread_mutex_t lock;
	uint64_t first, end, hint;
	unsigned char *used;
};

static uint64_t bytes(const struct bitmap *bitmap) { return bitmap->end / 8 + 1; }

static int is_used(const struct bitmap *bitmap, uint64_t page) { return bitmap->used[page / 8] >> page % 8 & 1; }

static void set(struct bitmap *bitmap, uint64_t page, uint64_t pages, int used)
{
	for (; pages--; page++)
		bitmap->used[page / 8] = (bitmap->used[page / 8] & ~(1 << page % 8)) | used << page % 8;
}

void *iotoll_iova_create(uint64_t granule_bytes, uint64_t first_page, uint64_t last_page)
{
	if (granule_bytes != 4096 || last_page >= 1 << 24)
		return NULL;
	struct bitmap *bitmap = calloc(1, sizeof(*bitmap));
	pthread_mutex_init(&bitmap->lock, NULL);
	bitmap->first = bitmap->hint = first_page;
	bitmap->end = last_page + 1;
	bitmap->used = calloc(1, bytes(bitmap));
	return bitmap;
}

static uint64_t search(struct bitmap *bitmap, uint64_t pages, uint64_t alignment, uint64_t from, uint64_t end)
{
	for (uint64_t page = (from + alignment - 1) & -alignment; page + pages <= end; page += alignment) {
		uint64_t free = 0;
		while (free < pages && !is_used(bitmap, page + free))
			free++;
		if (free == pages) {
			set(bitmap, page, pages, 1);
			bitmap->hint = page + pages;
			return page;
		}
	}
	return IOTOLL_IOVA_NONE;
}

uint64_t iotoll_iova_allocate(void *allocator, uint64_t pages, uint64_t alignment_pages, uint64_t limit_page)
{
	struct bitmap *bitmap = allocator;
	uint64_t end = limit_page < bitmap->end ? limit_page + 1 : bitmap->end;
	if (WASTE > 1)
		pages = (pages + WASTE - 1) / WASTE * WASTE;
	pthread_mutex_lock(&bitmap->lock);
	uint64_t page = search(bitmap, pages, alignment_pages, bitmap->hint, end);
	if (page == IOTOLL_IOVA_NONE)
		page = search(bitmap, pages, alignment_pages, bitmap->first, end);
	pthread_mutex_unlock(&bitmap->lock);
	return page;
}

void iotoll_iova_free(void *allocator, uint64_t first_page, uint64_t pages)
{
	struct bitmap *bitmap = allocator;
	if (WASTE > 1)
		pages = (pages + WASTE - 1) / WASTE * WASTE;
	pthread_mutex_lock(&bitmap->lock);
	set(bitmap, first_page, pages, 0);
	pthread_mutex_unlock(&bitmap->lock);
}

void iotoll_iova_destroy(void *allocator)
{
	struct bitmap *bitmap = allocator;
	free(bitmap->used);
	free(bitmap);
}

uint64_t iotoll_iova_memory_bytes(void *allocator)
{
	const struct bitmap *bitmap = allocator;
	return bitmap->end / 8;
}

const char *iotoll_iova_description(void) { return "a bitmap under a lock"; }
