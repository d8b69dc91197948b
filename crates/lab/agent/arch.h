/*
 * What differs between architectures, each in its own file:
 *   ENTRY          the first instructions: align the stack, hand start() the kernel's argument block
 *   system_call    one raw system call; returns its result or -errno
 *   NR_*           system call numbers
 *   O_DIRECT, SO_* values that architectures do not share
 *   MARK_*         the text of a mark and of a call to one
 *   LOOP_WINDOW    a window of a known number of instructions
 *   PAUSE          the text of the instruction that lets another processor go first
 */
#ifndef ARCH_H
#define ARCH_H

#include "number.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

#if defined(__x86_64__)
#include "arch/x86.h"
#elif defined(__aarch64__)
#include "arch/arm.h"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#include "arch/ppc.h"
#else
#error "no system calls are written for this architecture"
#endif

#endif
