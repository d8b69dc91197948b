/*
 * Marks: calls of empty functions that tell the QEMU plugin where an I/O begins and ends, without a
 * system call, which would itself be counted. The plugin recognises a mark by its address: mark i is
 * at 0x70000000 + 16 i (the linker's --section-start).
 */
#ifndef MARK_H
#define MARK_H

#include "arch.h"

enum mark {
	MARK_ARM,    /* start recording */
	MARK_BEGIN,  /* a window, one I/O or one batch, begins on this CPU */
	MARK_END,    /* the window ends */
	MARK_ZERO,   /* value = value << 1 */
	MARK_ONE,    /* value = value << 1 | 1 */
	MARK_PHASE,  /* a workload begins; value is its number */
	MARK_IDLE,   /* value is the address of the kernel function that yields the CPU */
	MARK_DISARM, /* stop recording */
	MARK_UNITS,  /* value is the number of I/Os in each window of this phase */
	MARK_PAUSE,  /* the window pauses: this CPU waits for completions, which the plugin lets arrive now */
	MARK_RESUME, /* the window resumes */
	MARK_POLLED, /* the program polls once for completions */
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

/* Announces a workload. Call it after the warm-up, so that only measured I/Os belong to it. */
void mark_phase(u64 phase, u64 units_per_window);

#endif
