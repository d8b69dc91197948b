#include "pages.h"

#include "report.h"
#include "system.h"

/* include/uapi/linux/auxvec.h */
#define AT_PAGESZ 6
#define AUXILIARY_ENTRIES_MAX 64

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP "/proc/self/pagemap"
#define FRAME_MASK ((1ul << 55) - 1)
#define PRESENT (1ul << 63)

/* Pages that may be taken out of use for each page that is to be moved. */
#define SPACERS_PER_PAGE 4

struct pages {
	u8 *first;
	u64 number;
	u64 bytes_per_page;
	i64 pagemap;
	u8 *spacers; /* they keep the frames that were given up from coming back */
	u64 spacers_left;
};

static u64 page_bytes(void)
{
	u64 entries[AUXILIARY_ENTRIES_MAX][2];
	i64 fd = sys_open("/proc/self/auxv", O_RDONLY);
	i64 bytes = fd < 0 ? fd : sys_read(fd, entries, sizeof(entries));

	for (i64 i = 0; i < bytes / (i64)sizeof(*entries); i++)
		if (entries[i][0] == AT_PAGESZ) {
			sys_close(fd);
			return entries[i][1];
		}
	fail("page size", "in /proc/self/auxv", bytes);
}

static u8 *page(const struct pages *pages, u64 index)
{
	return pages->first + index * pages->bytes_per_page;
}

static u64 frame(const struct pages *pages, u64 index)
{
	u64 entry = 0;
	u64 offset = (u64)page(pages, index) / pages->bytes_per_page * sizeof(entry);
	i64 got = system_call(NR_pread64, pages->pagemap, (u64)&entry, sizeof(entry), offset, 0, 0);

	if (got != sizeof(entry) || (entry & PRESENT) == 0 || (entry & FRAME_MASK) == 0)
		fail("place of a page", "in " PAGEMAP, got);
	return entry & FRAME_MASK;
}

static u64 follows(const struct pages *pages, u64 index)
{
	return frame(pages, index) == frame(pages, index - 1) + 1;
}

static void move(struct pages *pages, u64 index)
{
	if (pages->spacers_left == 0)
		fail("pages side by side", "in a buffer", -ENOMEM);
	i64 result = sys_madvise(page(pages, index), pages->bytes_per_page, MADV_DONTNEED);
	if (result < 0)
		fail("madvise", "to give a page up", result);
	/* Touched first, the spacer gets the frame, if it is free again already. */
	*(volatile u8 *)pages->spacers = 1;
	*(volatile u8 *)page(pages, index) = 1;
	pages->spacers += pages->bytes_per_page;
	pages->spacers_left--;
}

static u8 *untouched(u64 bytes)
{
	i64 at = sys_mmap(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at < 0)
		fail("mmap", "spacers", at);
	/* Where huge pages are unknown, it fails and is not needed. */
	sys_madvise((void *)at, bytes, MADV_NOHUGEPAGE);
	return (u8 *)at;
}

static void move_apart(struct pages *pages)
{
	for (u64 i = 1; i < pages->number; i++)
		while (follows(pages, i))
			move(pages, i);
	for (u64 i = 1; i < pages->number; i++)
		if (follows(pages, i))
			fail("pages side by side", "in a buffer", -EAGAIN);
}

void scatter(u8 *first, u64 bytes)
{
	u64 bytes_per_page = page_bytes();
	struct pages pages = {.first = first, .number = bytes / bytes_per_page, .bytes_per_page = bytes_per_page};

	if (pages.number < 2)
		return;
	pages.pagemap = sys_open(PAGEMAP, O_RDONLY);
	if (pages.pagemap < 0)
		absent(PAGEMAP, pages.pagemap);
	pages.spacers_left = pages.number * SPACERS_PER_PAGE;
	/* They stay: frames that return would be the next that somebody gets. */
	pages.spacers = untouched(pages.spacers_left * bytes_per_page);
	move_apart(&pages);
	sys_close(pages.pagemap);
}
