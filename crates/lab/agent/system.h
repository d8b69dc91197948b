/* The system calls this program makes. All return -errno on failure. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include "arch.h"

/* include/uapi/asm-generic/fcntl.h; the same on the three architectures */
#define AT_FDCWD (-100)
#define O_RDONLY 00
#define O_WRONLY 01
#define O_RDWR 02
#define SEEK_END 2

/* include/uapi/asm-generic/mman-common.h */
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_SHARED 0x01
#define MAP_PRIVATE 0x02
#define MAP_ANONYMOUS 0x20
#define MADV_DONTNEED 4
#define MADV_NOHUGEPAGE 15

/* include/uapi/asm-generic/errno-base.h, errno.h */
#define EPERM 1
#define ENOENT 2
#define EAGAIN 11
#define ENOMEM 12
#define EINVAL 22
#define ENOSYS 38

/* include/uapi/linux/{sched,prctl,wait}.h, asm-generic/signal.h */
#define CLONE_NEWNET 0x40000000
#define PR_SET_PDEATHSIG 1
#define SIGKILL 9
#define SIGCHLD 17
#define WNOHANG 1

/* include/uapi/linux/time.h */
#define CLOCK_MONOTONIC 1
#define CLOCK_MONOTONIC_COARSE 6
#define TIMER_ABSTIME 1

/* include/uapi/linux/time_types.h: both struct __kernel_timespec and the old 64-bit timeval fit */
struct time {
	i64 seconds;
	i64 fraction;
};

static inline i64 sys_open(const char *path, u64 flags)
{
	return system_call(NR_openat, (u64)AT_FDCWD, (u64)path, flags, 0, 0, 0);
}

static inline i64 sys_close(i64 fd)
{
	return system_call(NR_close, fd, 0, 0, 0, 0, 0);
}

static inline i64 sys_read(i64 fd, void *to, u64 bytes)
{
	return system_call(NR_read, fd, (u64)to, bytes, 0, 0, 0);
}

static inline i64 sys_write(i64 fd, const void *from, u64 bytes)
{
	return system_call(NR_write, fd, (u64)from, bytes, 0, 0, 0);
}

static inline i64 sys_seek_end(i64 fd)
{
	return system_call(NR_lseek, fd, 0, SEEK_END, 0, 0, 0);
}

static inline i64 sys_fsync(i64 fd)
{
	return system_call(NR_fsync, fd, 0, 0, 0, 0, 0);
}

static inline i64 sys_ioctl(i64 fd, u64 request, void *argument)
{
	return system_call(NR_ioctl, fd, request, (u64)argument, 0, 0, 0);
}

static inline i64 sys_mmap(u64 bytes, u64 flags, i64 fd, u64 offset)
{
	return system_call(NR_mmap, 0, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
}

static inline i64 sys_madvise(void *from, u64 bytes, u64 advice)
{
	return system_call(NR_madvise, (u64)from, bytes, advice, 0, 0, 0);
}

static inline i64 sys_pipe(i32 ends[2])
{
	return system_call(NR_pipe2, (u64)ends, 0, 0, 0, 0, 0);
}

/* clone with no flag but the signal of the child's end is fork, whatever the order of its arguments. */
static inline i64 sys_fork(void)
{
	return system_call(NR_clone, SIGCHLD, 0, 0, 0, 0, 0);
}

static inline i64 sys_wait(i64 child, i32 *status, u64 options)
{
	return system_call(NR_wait4, child, (u64)status, options, 0, 0, 0);
}

static inline i64 sys_unshare(u64 flags)
{
	return system_call(NR_unshare, flags, 0, 0, 0, 0, 0);
}

static inline i64 sys_die_with_parent(void)
{
	return system_call(NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
}

static inline i64 sys_monotonic_time(struct time *now)
{
	return system_call(NR_clock_gettime, CLOCK_MONOTONIC, (u64)now, 0, 0, 0, 0);
}

/* The time of the kernel's last tick. */
static inline i64 sys_tick_time(struct time *tick)
{
	return system_call(NR_clock_gettime, CLOCK_MONOTONIC_COARSE, (u64)tick, 0, 0, 0, 0);
}

static inline i64 sys_sleep_until(const struct time *then)
{
	return system_call(NR_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, (u64)then, 0, 0, 0);
}

static inline void sys_sleep(const struct time *time)
{
	system_call(NR_nanosleep, (u64)time, 0, 0, 0, 0, 0);
}

static inline i64 sys_affinity(const u64 *mask, u64 bytes)
{
	return system_call(NR_sched_setaffinity, 0, bytes, (u64)mask, 0, 0, 0);
}

_Noreturn static inline void sys_exit(i32 status)
{
	for (;;)
		system_call(NR_exit_group, status, 0, 0, 0, 0, 0);
}

#endif
