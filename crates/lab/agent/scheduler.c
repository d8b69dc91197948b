/* Chooses a block device's I/O scheduler: DEV NAME, DEV as in /sys/block. */
#include "commands.h"
#include "report.h"
#include "setting.h"

void command_scheduler(char **words)
{
	struct setting scheduler;

	setting_of(&scheduler, "/sys/block/", words[0], "/queue/scheduler");
	i64 result = setting_write(&scheduler, words[1]);
	if (result < 0)
		fail(words[1], scheduler.path, result);
	done("scheduler", 1);
}
