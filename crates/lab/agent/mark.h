/*
 * Marks: how this program tells the observer outside the machine where an I/O begins and ends without
 * making a system call that would itself be counted. A mark is a function that does nothing, at an
 * address that both sides know: mark i is at 0x70000000 + 16 i (the linker's --section-start).
 */
#ifndef MARK_H
#define MARK_H

#include "arch.h"

enum mark {
	MARK_ARM,    /* start recording */
	MARK_BEGIN,  /* a window, one I/O or one batch, begins on this CPU */
	MARK_END,    /* and ends */
	MARK_ZERO,   /* value = value << 1 */
	MARK_ONE,    /* value = value << 1 | 1 */
	MARK_PHASE,  /* a workload begins; value is its number */
	MARK_IDLE,   /* value is the address of the kernel function that gives the CPU up */
	MARK_DISARM, /* end of recording */
	MARK_UNITS,  /* value is the number of I/Os in each window of this phase */
	MARK_PAUSE,  /* a window pauses: from here on this CPU waits for devices, whose answers come now */
	MARK_GO_ON,  /* and goes on */
	MARK_LOOK,   /* one look at whether devices have answered */
	MARK_POLL,   /* value is the address of the kernel function that polls a device */
	MARKS,
};

/* The memory clobber keeps the measured code on its side of the mark. */
static inline __attribute__((always_inline)) void mark(const enum mark index)
{
	asm volatile(MARK_CALL : : "i"(16 * index) : MARK_CLOBBERS);
}

/* Shifts a value in, most significant bit first, without leading zeros. */
void mark_bits(u64 value);

static inline __attribute__((always_inline)) void mark_value(const enum mark index, u64 value)
{
	mark_bits(value);
	mark(index);
}

/* Announces a workload. Comes after its warm-up, so that only what is measured belongs to it. */
void mark_phase(u64 phase, u64 units_per_window);

#endif
