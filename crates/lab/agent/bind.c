/* Gives an adapter to its driver: DRIVER ADDRESS, and rests while the driver starts it. */
#include "commands.h"
#include "processor.h"
#include "report.h"
#include "setting.h"

/* Longer than any driver of the lab takes. */
#define START_MS 1000

void command_bind(char **words)
{
	struct setting binding;

	setting_of(&binding, "/sys/bus/pci/drivers/", words[0], "/bind");
	i64 result = setting_write(&binding, words[1]);
	if (result < 0)
		fail(words[1], binding.path, result);
	/* What ran beside the driver's start would be somewhere else each time that the adapter answers. */
	sleep_ms(START_MS);
	done("bind", 1);
}
