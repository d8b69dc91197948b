#include "processor.h"

#include "report.h"
#include "system.h"

void pin(u64 cpu)
{
	u64 mask[CPUS_MAX / 64] = {0};

	mask[cpu / 64] = 1ul << cpu % 64;
	i64 result = sys_affinity(mask, sizeof(mask));
	if (result < 0)
		fail("sched_setaffinity", "to the CPU asked for", result);
}

i64 spawn(void)
{
	i64 child = sys_fork();

	if (child < 0)
		fail("clone", "a child", child);
	if (child == 0)
		sys_die_with_parent();
	return child;
}

void join(i64 child, const char *name)
{
	i32 status = 0;
	i64 result = sys_wait(child, &status, 0);

	if (result < 0)
		fail("wait4", name, result);
	if (status != 0)
		fail("a child of", name, status);
}

void sleep_ms(u64 ms)
{
	struct time time = {ms / 1000, ms % 1000 * 1000000};

	sys_sleep(&time);
}
