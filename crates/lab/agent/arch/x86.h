/* 64-bit x86. Numbers: arch/x86/entry/syscalls/syscall_64.tbl; registers: entry_SYSCALL_64 in entry_64.S. */

#define ENTRY                                                                                                  \
	".globl _start\n_start:\n"                                                                             \
	"\txor %ebp, %ebp\n"                                                                                   \
	"\tmov %rsp, %rdi\n"                                                                                   \
	"\tand $-16, %rsp\n"                                                                                   \
	"\tcall start\n"

#define MARK_BODY "nop\n\tret\n"
#define MARK_CALL "call marks+%c0"
/* `call` pushes below the stack pointer: the program is compiled with -mno-red-zone. */
#define MARK_CLOBBERS "memory"

/*
 * Instructions after the nop of BEGIN and before the nop of END:
 *   ret, mov, n times (dec, jnz), call  =  2 n + 3
 */
#define LOOP_WINDOW(n)                                                                                         \
	({                                                                                                     \
		u64 left;                                                                                      \
		asm volatile("call marks+%c2\n\t"                                                              \
			     "mov %1, %0\n"                                                                    \
			     "1:\tdec %0\n\t"                                                                  \
			     "jnz 1b\n\t"                                                                      \
			     "call marks+%c3"                                                                  \
			     : "=&r"(left)                                                                     \
			     : "r"((u64)(n)), "i"(16 * MARK_BEGIN), "i"(16 * MARK_END)                         \
			     : "cc", MARK_CLOBBERS);                                                           \
	})

#define PAUSE "pause"

static inline i64 system_call(i64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	register u64 r10 asm("r10") = d;
	register u64 r8 asm("r8") = e;
	register u64 r9 asm("r9") = f;
	i64 result;

	asm volatile("syscall"
		     : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return result;
}

enum {
	NR_read = 0,
	NR_write = 1,
	NR_close = 3,
	NR_lseek = 8,
	NR_mmap = 9,
	NR_ioctl = 16,
	NR_pread64 = 17,
	NR_pwrite64 = 18,
	NR_madvise = 28,
	NR_nanosleep = 35,
	NR_socket = 41,
	NR_connect = 42,
	NR_accept = 43,
	NR_sendto = 44,
	NR_recvfrom = 45,
	NR_bind = 49,
	NR_listen = 50,
	NR_setsockopt = 54,
	NR_clone = 56,
	NR_wait4 = 61,
	NR_fsync = 74,
	NR_prctl = 157,
	NR_sched_setaffinity = 203,
	NR_clock_gettime = 228,
	NR_clock_nanosleep = 230,
	NR_exit_group = 231,
	NR_openat = 257,
	NR_unshare = 272,
	NR_pipe2 = 293,
};

#define O_DIRECT 040000
#define SO_RCVTIMEO 20
#define SO_SNDTIMEO 21
