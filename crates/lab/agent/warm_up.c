#include "warm_up.h"

#include "argument.h"

#define MORE_MAX 65536ul

static u64 more;

void warm_up_more(const char *word)
{
	more = number("windows of warm-up", word + 1, 0, MORE_MAX);
}

u64 warm_up_windows(u64 filling)
{
	return filling + more;
}
