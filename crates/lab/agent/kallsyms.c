#include "kallsyms.h"

#include "memory.h"
#include "report.h"
#include "system.h"

#define PATH "/proc/kallsyms"
#define CHUNK_BYTES (1ul << 20)

void kallsyms_open(struct kallsyms *list)
{
	*list = (struct kallsyms){.fd = sys_open(PATH, O_RDONLY), .text = (char *)buffer(CHUNK_BYTES)};
	if (list->fd < 0)
		fail("open", PATH, list->fd);
}

/* Moves the begun line to the front and reads behind it. */
static enum more refill(struct kallsyms *list)
{
	u64 rest = list->bytes - list->next;

	for (u64 i = 0; i < rest; i++)
		list->text[i] = list->text[list->next + i];
	list->next = 0;
	list->bytes = rest;
	i64 got = sys_read(list->fd, list->text + rest, CHUNK_BYTES - rest);
	if (got < 0)
		fail("read", PATH, got);
	list->bytes += (u64)got;
	return got == 0 ? NO_MORE : MORE;
}

static u64 line_end(const struct kallsyms *list)
{
	u64 end = list->next;

	while (end < list->bytes && list->text[end] != '\n')
		end++;
	return end;
}

static struct word next_word(const char **at, const char *end)
{
	while (*at < end && (**at == ' ' || **at == '\t'))
		++*at;
	const char *first = *at;
	while (*at < end && **at != ' ' && **at != '\t')
		++*at;
	return (struct word){first, (u64)(*at - first)};
}

enum more kallsyms_next(struct kallsyms *list, struct symbol *symbol)
{
	u64 end;

	while ((end = line_end(list)) == list->bytes)
		if (refill(list) == NO_MORE)
			return NO_MORE;

	const char *at = list->text + list->next;
	const char *last = list->text + end;
	symbol->address = next_word(&at, last);
	symbol->kind = *next_word(&at, last).text;
	symbol->name = next_word(&at, last);
	symbol->module = next_word(&at, last);
	list->next = end + 1;
	return MORE;
}

u64 hexadecimal(struct word word)
{
	u64 value = 0;

	for (u64 i = 0; i < word.bytes; i++) {
		char c = word.text[i];
		value = value << 4 | (u64)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return value;
}

static u32 is_called(struct word word, const char *name)
{
	u64 i = 0;

	while (i < word.bytes && name[i] == word.text[i])
		i++;
	return i == word.bytes && name[i] == 0;
}

u64 kallsyms_find(const char *name)
{
	struct kallsyms list;
	struct symbol symbol;

	kallsyms_open(&list);
	while (kallsyms_next(&list, &symbol) == MORE) {
		if (!is_called(symbol.name, name))
			continue;
		u64 address = hexadecimal(symbol.address);
		/* All addresses read as 0 to whom kernel.kptr_restrict hides them. */
		if (address == 0)
			fail("hidden address of", name, -EPERM);
		sys_close(list.fd);
		return address;
	}
	fail("no kernel symbol", name, -ENOENT);
}
