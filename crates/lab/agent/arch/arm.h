/* 64-bit Arm. Numbers: include/uapi/asm-generic/unistd.h; registers: el0_svc in arch/arm64/kernel/entry.S. */

#define ENTRY                                                                                                  \
	".globl _start\n_start:\n"                                                                             \
	"\tmov x29, #0\n"                                                                                      \
	"\tmov x30, #0\n"                                                                                      \
	"\tmov x0, sp\n"                                                                                       \
	"\tand x1, x0, #-16\n"                                                                                 \
	"\tmov sp, x1\n"                                                                                       \
	"\tbl start\n"

#define MARK_BODY "nop\n\tret\n"
#define MARK_CALL "bl marks+%c0"
#define MARK_CLOBBERS "x30", "memory"

/*
 * Instructions after the nop of BEGIN and before the nop of END:
 *   ret, mov, n times (subs, b.ne), bl  =  2 n + 3
 */
#define LOOP_WINDOW(n)                                                                                         \
	({                                                                                                     \
		u64 left;                                                                                      \
		asm volatile("bl marks+%c2\n\t"                                                                \
			     "mov %0, %1\n"                                                                    \
			     "1:\tsubs %0, %0, #1\n\t"                                                         \
			     "b.ne 1b\n\t"                                                                     \
			     "bl marks+%c3"                                                                    \
			     : "=&r"(left)                                                                     \
			     : "r"((u64)(n)), "i"(16 * MARK_BEGIN), "i"(16 * MARK_END)                         \
			     : "cc", MARK_CLOBBERS);                                                           \
	})

#define PAUSE "yield"

static inline i64 system_call(i64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	register i64 x8 asm("x8") = number;
	register u64 x0 asm("x0") = a;
	register u64 x1 asm("x1") = b;
	register u64 x2 asm("x2") = c;
	register u64 x3 asm("x3") = d;
	register u64 x4 asm("x4") = e;
	register u64 x5 asm("x5") = f;

	asm volatile("svc #0"
		     : "+r"(x0)
		     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
		     : "cc", "memory");
	return (i64)x0;
}

enum {
	NR_ioctl = 29,
	NR_openat = 56,
	NR_close = 57,
	NR_pipe2 = 59,
	NR_lseek = 62,
	NR_read = 63,
	NR_write = 64,
	NR_pread64 = 67,
	NR_pwrite64 = 68,
	NR_fsync = 82,
	NR_exit_group = 94,
	NR_unshare = 97,
	NR_nanosleep = 101,
	NR_clock_gettime = 113,
	NR_clock_nanosleep = 115,
	NR_sched_setaffinity = 122,
	NR_prctl = 167,
	NR_socket = 198,
	NR_bind = 200,
	NR_listen = 201,
	NR_accept = 202,
	NR_connect = 203,
	NR_sendto = 206,
	NR_recvfrom = 207,
	NR_setsockopt = 208,
	NR_clone = 220,
	NR_mmap = 222,
	NR_madvise = 233,
	NR_wait4 = 260,
};

#define O_DIRECT 0200000
#define SO_RCVTIMEO 20
#define SO_SNDTIMEO 21
