/* How much of a workload runs before its first window. */
#ifndef WARM_UP_H
#define WARM_UP_H

#include "number.h"

/*
 * Takes the word `+N`: N windows run unmeasured, in addition to those that fill caches of the kernel. The host draws N for each
 * boot and workload, so that windows don't always begin in the same phase of what the kernel does now and then, as flushing a queue.
 */
void warm_up_more(const char *word);

/* The number of unmeasured windows: `filling` of them fill caches of the kernel. */
u64 warm_up_windows(u64 filling);

#endif
