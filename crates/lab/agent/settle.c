#include "settle.h"

#include "report.h"
#include "system.h"

/*
 * The half-life of load averages is 32 ms (kernel/sched/pelt.c): nothing is left of them after this. Twice as long is
 * still less than what a server of ours waits for a request.
 */
#define REST_SECONDS 2

struct time rest_end(void)
{
	struct time now;
	i64 result = sys_monotonic_time(&now);

	if (result != 0)
		fail("reading", "the clock", result);
	return (struct time){.seconds = (now.seconds / REST_SECONDS + 2) * REST_SECONDS};
}

void rest_until(const struct time *end)
{
	i64 result = sys_sleep_until(end);

	if (result != 0)
		fail("sleeping until", "a whole time", result);
}

void settle(void)
{
	struct time end = rest_end();

	rest_until(&end);
}

static i64 last_tick(void)
{
	struct time tick;
	i64 result = sys_tick_time(&tick);

	if (result != 0)
		fail("reading", "the time of the last tick", result);
	return tick.seconds * 1000000000 + tick.fraction;
}

void outlast_tick(void)
{
	i64 before = last_tick();

	while (last_tick() == before)
		;
}
