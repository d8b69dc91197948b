/* Begins and ends the recording: arm [SYMBOL], disarm. */
#include "commands.h"
#include "kallsyms.h"
#include "mark.h"
#include "processor.h"
#include "report.h"

/* The value is shifted in before recording starts: marks right after ARM could fall into its few instructions. */
void command_arm(char **words)
{
	pin(0);
	if (words[0])
		mark_value(MARK_IDLE, kallsyms_find(words[0]));
	mark(MARK_ARM);
	done("arm", 1);
}

void command_disarm(char **words)
{
	(void)words;
	mark(MARK_DISARM);
	done("disarm", 1);
}
