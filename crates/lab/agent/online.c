/* Brings a processor up: NAME, as in /sys/devices/system/cpu. */
#include "commands.h"
#include "processor.h"
#include "report.h"
#include "setting.h"
#include "system.h"

/*
 * x86 kernels wait for a new processor in a loop without PAUSE (native_cpu_up). Where one thread runs all processors
 * and each may go on until the next timer, as in QEMU 7.2 with -icount, the new one would never get its turn. Whoever
 * pauses gives its turn away.
 */
_Noreturn static void give_turns_away(void)
{
	for (;;)
		asm volatile(PAUSE);
}

void command_online(char **words)
{
	struct setting online;

	/* First in the order of turns: nobody before this one can take them all. */
	pin(0);
	if (spawn() == 0)
		give_turns_away();
	setting_of(&online, "/sys/devices/system/cpu/", words[0], "/online");
	i64 result = setting_write(&online, "1");
	if (result < 0)
		fail(words[0], online.path, result);
	done("online", 1);
}
