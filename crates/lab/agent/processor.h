/* Where processes run: on which CPU, and beside which. */
#ifndef PROCESSOR_H
#define PROCESSOR_H

#include "number.h"

#define CPUS_MAX 1024ul

/* Keeps this process on one CPU. */
void pin(u64 cpu);

/* Starts a child that dies with this process; 0 in the child. */
i64 spawn(void);

/* Waits for a child; a failure of it is one of this process. */
void join(i64 child, const char *name);

void sleep_ms(u64 ms);

#endif
