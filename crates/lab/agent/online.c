/* Brings a processor up: NAME, as in /sys/devices/system/cpu. */
#include "commands.h"
#include "memory.h"
#include "processor.h"
#include "report.h"
#include "setting.h"
#include "system.h"

/*
 * x86 kernels wait for a new processor in a loop without PAUSE (native_cpu_up). Where one thread runs all processors
 * and each may go on until the next timer, as in QEMU 7.2 with -icount, the new one would never get its turn. Who
 * pauses gives the rest of its turn away; but that takes the thread so long that it is done only now and then.
 */
#define PAUSE_EVERY 50000

_Noreturn static void give_turns_away(const u32 *over)
{
	while (!__atomic_load_n(over, __ATOMIC_RELAXED)) {
		asm volatile(PAUSE);
		for (u64 i = 0; i < PAUSE_EVERY; i++)
			asm volatile("");
	}
	sys_exit(0);
}

void command_online(char **words)
{
	struct setting online;
	u32 *over = shared(sizeof(*over));

	/* First in the order of turns: nobody before this one can take them all. */
	pin(0);
	i64 child = spawn();
	if (child == 0)
		give_turns_away(over);
	setting_of(&online, "/sys/devices/system/cpu/", words[0], "/online");
	i64 result = setting_write(&online, "1");
	if (result < 0)
		fail(words[0], online.path, result);
	__atomic_store_n(over, 1, __ATOMIC_RELAXED);
	join(child, "online");
	done("online", 1);
}
