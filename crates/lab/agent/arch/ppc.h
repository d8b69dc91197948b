/*
 * 64-bit POWER, little endian, ELFv2.
 * Numbers: arch/powerpc/kernel/syscalls/syscall.tbl; registers: Documentation/powerpc/syscall64-abi.rst.
 */

/* The kernel enters with the entry point in r12 and nothing in r2 (start_thread, arch/powerpc/kernel/process.c). */
#define ENTRY                                                                                                  \
	".globl _start\n_start:\n"                                                                             \
	"\taddis 2, 12, .TOC.-_start@ha\n"                                                                     \
	"\taddi 2, 2, .TOC.-_start@l\n"                                                                        \
	"\tmr 3, 1\n"                                                                                          \
	"\tclrrdi 1, 1, 4\n"                                                                                   \
	"\tli 0, 0\n"                                                                                          \
	"\tstdu 0, -64(1)\n"                                                                                   \
	"\tbl start\n"                                                                                         \
	"\tnop\n"

#define MARK_BODY "nop\n\tblr\n"
#define MARK_CALL "bl marks+%c0"
#define MARK_CLOBBERS "lr", "memory"

/*
 * Instructions after the nop of BEGIN and before the nop of END:
 *   blr, mr, n times (addic., bne), bl  =  2 n + 3
 */
#define LOOP_WINDOW(n)                                                                                         \
	({                                                                                                     \
		u64 left;                                                                                      \
		asm volatile("bl marks+%c2\n\t"                                                                \
			     "mr %0, %1\n"                                                                     \
			     "1:\taddic. %0, %0, -1\n\t"                                                       \
			     "bne 1b\n\t"                                                                      \
			     "bl marks+%c3"                                                                    \
			     : "=&b"(left)                                                                     \
			     : "b"((u64)(n)), "i"(16 * MARK_BEGIN), "i"(16 * MARK_END)                         \
			     : "cr0", "xer", MARK_CLOBBERS);                                                   \
	})

#define PAUSE "or 27, 27, 27"

static inline i64 system_call(i64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	register i64 r0 asm("r0") = number;
	register u64 r3 asm("r3") = a;
	register u64 r4 asm("r4") = b;
	register u64 r5 asm("r5") = c;
	register u64 r6 asm("r6") = d;
	register u64 r7 asm("r7") = e;
	register u64 r8 asm("r8") = f;

	/* The summary overflow bit tells an error; the result is then errno without its sign. */
	asm volatile("sc\n\t"
		     "bns+ 1f\n\t"
		     "neg %0, %0\n"
		     "1:"
		     : "+r"(r3), "+r"(r0), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
		     :
		     : "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
	return (i64)r3;
}

enum {
	NR_read = 3,
	NR_write = 4,
	NR_close = 6,
	NR_lseek = 19,
	NR_ioctl = 54,
	NR_mmap = 90,
	NR_wait4 = 114,
	NR_fsync = 118,
	NR_clone = 120,
	NR_nanosleep = 162,
	NR_prctl = 171,
	NR_pread64 = 179,
	NR_pwrite64 = 180,
	NR_madvise = 205,
	NR_sched_setaffinity = 222,
	NR_exit_group = 234,
	NR_clock_gettime = 246,
	NR_clock_nanosleep = 248,
	NR_unshare = 282,
	NR_openat = 286,
	NR_pipe2 = 317,
	NR_socket = 326,
	NR_bind = 327,
	NR_connect = 328,
	NR_listen = 329,
	NR_accept = 330,
	NR_sendto = 335,
	NR_recvfrom = 337,
	NR_setsockopt = 339,
};

#define O_DIRECT 0400000
#define SO_RCVTIMEO 18
#define SO_SNDTIMEO 19
