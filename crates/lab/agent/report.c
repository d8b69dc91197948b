#include "report.h"

#include "system.h"

enum { OUTPUT = 1, ERRORS = 2 };

struct line {
	u64 bytes;
	char text[256];
};

static void put(struct line *line, const char *text)
{
	/* One byte stays free for the line feed. */
	for (; *text != 0 && line->bytes < sizeof(line->text) - 1; text++)
		line->text[line->bytes++] = *text;
}

static void put_number(struct line *line, u64 number)
{
	char digits[21];
	char *first = digits + sizeof(digits) - 1;

	*first = 0;
	do {
		*--first = '0' + number % 10;
		number /= 10;
	} while (number != 0);
	put(line, first);
}

static void say(struct line *line, i64 fd)
{
	line->text[line->bytes++] = '\n';
	sys_write(fd, line->text, line->bytes);
}

void done(const char *name, u64 count)
{
	struct line line = {.bytes = 0};

	put(&line, "done ");
	put(&line, name);
	put(&line, " n=");
	put_number(&line, count);
	say(&line, OUTPUT);
}

void absent(const char *name, i64 result)
{
	struct line line = {.bytes = 0};

	put(&line, "absent ");
	put(&line, name);
	put(&line, " ");
	put_number(&line, -result);
	say(&line, OUTPUT);
	sys_exit(3);
}

void fail(const char *what, const char *subject, i64 result)
{
	struct line line = {.bytes = 0};

	put(&line, "agent: ");
	put(&line, what);
	put(&line, " ");
	put(&line, subject);
	put(&line, result < 0 ? ": errno " : ": returned ");
	put_number(&line, result < 0 ? -result : result);
	say(&line, ERRORS);
	sys_exit(1);
}
