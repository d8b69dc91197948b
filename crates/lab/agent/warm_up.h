/* How much of a workload runs before its first window. */
#ifndef WARM_UP_H
#define WARM_UP_H

#include "number.h"

/*
 * Takes the word `+N`: N windows run unmeasured, in addition to those that fill the caches. The host draws N anew for each
 * boot, so that windows don't always begin in the same phase of what the kernel does now and then, as flushing a queue.
 */
void warm_up_more(const char *word);

/* The number of unmeasured windows: `filling` fill the caches. */
u64 warm_up_windows(u64 filling);

#endif
