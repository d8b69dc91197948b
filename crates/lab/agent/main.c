/* The program that runs inside the lab's machines: chooses what the command line asks for. */
#include "argument.h"
#include "commands.h"
#include "report.h"
#include "system.h"
#include "warm_up.h"

asm(ENTRY);

#define WORDS_MAX 8

struct command {
	const char *name;
	void (*run)(char **words);
	u64 words_min;
	u64 words_max;
};

static const struct command commands[] = {
	{"arm", command_arm, 0, 1},
	{"disarm", command_disarm, 0, 0},
	{"read", command_read, 4, 5},
	{"write", command_write, 4, 5},
	{"uring", command_uring, 7, 7},
	{"passthru", command_passthru, 4, 4},
	{"many", command_many, 5, 5},
	{"udp", command_udp, 5, 5},
	{"tcp", command_tcp, 5, 5},
	{"loop", command_loop, 3, 3},
	{"symbols", command_symbols, 1, 1},
	{"scheduler", command_scheduler, 2, 2},
	{"bind", command_bind, 2, 2},
	{"online", command_online, 1, 1},
};

static const struct command *find(const char *name)
{
	for (u64 i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (compare(commands[i].name, name) == SAME)
			return &commands[i];
	fail("no command", name, -EINVAL);
}

/* The argument block: a count, as many pointers to words, the environment (System V ABI, process initialisation). */
_Noreturn void start(u64 *block)
{
	u64 count = block[0];
	char **arguments = (char **)(block + 1);
	char *words[WORDS_MAX] = {0};

	u64 first = 1;

	if (first < count && arguments[first][0] == '+')
		warm_up_more(arguments[first++]);
	if (first >= count)
		fail("no command", "given", -EINVAL);
	const struct command *command = find(arguments[first]);
	u64 given = count - first - 1;
	if (given < command->words_min || given > command->words_max)
		fail("number of words after", command->name, (i64)given);
	for (u64 i = 0; i < given; i++)
		words[i] = arguments[first + 1 + i];
	command->run(words);
	sys_exit(0);
}
