#include "mark.h"

/* .irp makes one body per mark; an index beyond its list would be a call into nothing. */
_Static_assert(MARKS == 13, "the table below has as many bodies as there are marks");

asm(".section .marks, \"ax\"\n"
    ".globl marks\n"
    "marks:\n"
    ".irp index, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12\n"
    ".balign 16\n"
    "\t" MARK_BODY ".endr\n"
    ".text\n");

void mark_bits(u64 value)
{
	u64 bit = 1ul << 63;

	while (bit != 0 && (value & bit) == 0)
		bit >>= 1;
	for (; bit != 0; bit >>= 1) {
		if (value & bit)
			mark(MARK_ONE);
		else
			mark(MARK_ZERO);
	}
}

void mark_phase(u64 phase, u64 units_per_window)
{
	mark_value(MARK_PHASE, phase);
	mark_value(MARK_UNITS, units_per_window);
}
