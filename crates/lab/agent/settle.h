/* Coming to rest before a workload. */
#ifndef SETTLE_H
#define SETTLE_H

#include "system.h"

/*
 * Sleeps until the guest's clock shows a whole multiple of some seconds. Load averages have decayed by then, timers
 * stand where they always stand, and what ran before, or how long the boot took, no longer shows in what comes. In a
 * guest whose clock leaps over idle time this takes next to no time.
 */
void settle(void);

/* The whole multiple that a rest which begins now lasts until: several programs can end theirs together. */
struct time rest_end(void);

/* Rests until then. */
void rest_until(const struct time *end);

/*
 * Keeps looking at the clock until the kernel's next tick is over: a millisecond at least is then undisturbed by ticks,
 * whose place among the seconds depends on how long the boot took.
 */
void outlast_tick(void);

#endif
