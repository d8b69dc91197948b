/* Gives everybody the same page. */
#include "iotoll_iova_peer.h"

void *iotoll_iova_create(uint64_t granule_bytes, uint64_t first_page, uint64_t last_page)
{
	static char allocator;
	return granule_bytes && first_page <= last_page ? &allocator : 0;
}

uint64_t iotoll_iova_allocate(void *allocator, uint64_t pages, uint64_t alignment_pages, uint64_t limit_page)
{
	return allocator && pages && alignment_pages && limit_page ? 0x40 : IOTOLL_IOVA_NONE;
}

void iotoll_iova_free(void *allocator, uint64_t first_page, uint64_t pages)
{
	(void)allocator, (void)first_page, (void)pages;
}

void iotoll_iova_destroy(void *allocator) { (void)allocator; }
