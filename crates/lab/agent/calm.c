#include "calm.h"

#include "report.h"
#include "system.h"

/*
 * The half-life of load averages is 32 ms (kernel/sched/pelt.c): nothing is left of them after this. Twice as long is
 * still less than what a server of ours waits for a request.
 */
#define REST_SECONDS 2

void come_to_rest(void)
{
	struct time now;
	i64 result = sys_monotonic_time(&now);

	if (result != 0)
		fail("reading", "the clock", result);
	struct time then = {.seconds = (now.seconds / REST_SECONDS + 2) * REST_SECONDS};
	result = sys_sleep_until(&then);
	if (result != 0)
		fail("sleeping until", "a whole time", result);
}
