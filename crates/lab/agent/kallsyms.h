/* The kernel's list of symbols, /proc/kallsyms, line by line. */
#ifndef KALLSYMS_H
#define KALLSYMS_H

#include "number.h"

/* A word inside a line; not terminated. */
struct word {
	const char *text;
	u64 bytes;
};

struct symbol {
	struct word address; /* hexadecimal digits */
	char kind;           /* as in nm: t T w W are functions */
	struct word name;
	struct word module; /* with its brackets; empty for the kernel itself */
};

struct kallsyms {
	i64 fd;
	char *text;
	u64 bytes; /* read and not yet given out begin at `next` */
	u64 next;
};

enum more { NO_MORE, MORE };

void kallsyms_open(struct kallsyms *list);

/* The next line; its words stay until the line after it is asked for. */
enum more kallsyms_next(struct kallsyms *list, struct symbol *symbol);

/* The address of the function with this name; fails when there is none or addresses are hidden. */
u64 kallsyms_find(const char *name);

u64 hexadecimal(struct word word);

#endif
