/* The interface through which an allocator of I/O virtual addresses joins `iotoll bench iova`:
 *
 *     cc -O2 -fPIC -shared -I crates/bench/include -o libmine.so mine.c
 *     iotoll bench iova --peer mine=./libmine.so
 *
 * Pages are numbered in granules: bus address = page x granule. All functions but create and destroy are called by many
 * threads at once, and a range may be freed by another thread than allocated it.
 */
#ifndef IOTOLL_IOVA_PEER_H
#define IOTOLL_IOVA_PEER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What allocate returns when there is no room. */
#define IOTOLL_IOVA_NONE UINT64_MAX

/* An allocator of the pages first_page to last_page, both included; NULL if it can't have such a space. */
void *iotoll_iova_create(uint64_t granule_bytes, uint64_t first_page, uint64_t last_page);

/* The first of `pages` free pages that end at or below limit_page and begin at a multiple of alignment_pages, a power of
 * two: 1, or `pages` rounded up to a power of two, as Linux's DMA layer asks. */
uint64_t iotoll_iova_allocate(void *allocator, uint64_t pages, uint64_t alignment_pages, uint64_t limit_page);

/* Gives back a range as it was allocated. */
void iotoll_iova_free(void *allocator, uint64_t first_page, uint64_t pages);

/* Ends an allocator. Ranges may still be out. */
void iotoll_iova_destroy(void *allocator);

/* Optional: the memory that the allocator takes for itself at this moment. Called when no other function is. */
uint64_t iotoll_iova_memory_bytes(void *allocator);

/* Optional: what it is, in a few words. */
const char *iotoll_iova_description(void);

#ifdef __cplusplus
}
#endif

#endif
