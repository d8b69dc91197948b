/*
 * The truth test of whatever counts: PHASE N WINDOWS. Each window executes exactly 2 N + 3 instructions
 * of this program between the first instruction of mark BEGIN and the first of mark END, on every
 * architecture (arch/ says which).
 */
#include "argument.h"
#include "settle.h"
#include "commands.h"
#include "mark.h"
#include "report.h"

#define N_MAX 1000000000ul

void command_loop(char **words)
{
	u64 phase = number("PHASE", words[0], 0, PHASE_MAX);
	u64 n = number("N", words[1], 1, N_MAX);
	u64 windows = number("WINDOWS", words[2], 1, WINDOWS_MAX);

	mark_phase(phase, 1);
	outlast_tick();
	for (u64 i = 0; i < windows; i++)
		LOOP_WINDOW(n);
	done("loop", windows);
}
