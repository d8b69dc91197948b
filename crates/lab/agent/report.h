/* What the program says: one line, in one write, so that lines of several processes do not mix. */
#ifndef REPORT_H
#define REPORT_H

#include "number.h"

/* "done NAME n=COUNT" on standard output. */
void done(const char *name, u64 count);

/* "absent NAME ERRNO" on standard output and exit 3: the kernel does not have what the workload needs. */
_Noreturn void absent(const char *name, i64 result);

/* "agent: WHAT SUBJECT: errno N" (or "returned N", where the result is no error by itself); exit 1. */
_Noreturn void fail(const char *what, const char *subject, i64 result);

#endif
