#include "argument.h"

#include "report.h"
#include "system.h"

enum same compare(const char *a, const char *b)
{
	for (; *a == *b; a++, b++)
		if (*a == 0)
			return SAME;
	return DIFFERENT;
}

u64 number(const char *name, const char *word, u64 low, u64 high)
{
	u64 value = 0;

	if (*word == 0)
		fail(name, "is empty", -EINVAL);
	for (const char *c = word; *c != 0; c++) {
		/* Stops before it could overflow: no limit here comes near 2^59. */
		if (*c < '0' || *c > '9' || value > 1ul << 59)
			fail(name, word, -EINVAL);
		value = value * 10 + (u64)(*c - '0');
	}
	if (value < low || value > high)
		fail(name, word, -EINVAL);
	return value;
}
