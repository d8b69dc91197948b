/* Words of the command line. */
#ifndef ARGUMENT_H
#define ARGUMENT_H

#include "number.h"

enum same { DIFFERENT, SAME };

enum same compare(const char *a, const char *b);

/* A decimal number from `low` to `high`, both included; anything else is a failure that names the word. */
u64 number(const char *name, const char *word, u64 low, u64 high);

#endif
