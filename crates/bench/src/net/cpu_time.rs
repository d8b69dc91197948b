//! CPU time of the whole host and of this process.

use super::result::HostCpu;
use rustix::time::{ClockId, clock_gettime};
use std::fs::read_to_string;

/// Nanoseconds of one unit in `/proc/stat`: USER_HZ is 100 on all architectures but Alpha and IA-64.
const NS_PER_TICK: u64 = 10_000_000;

/// CPU nanoseconds of this process, in user mode and in the kernel: the sum that getrusage(2) divides between the two.
pub(super) fn of_process() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// CPU time of all CPUs since boot; `None` if it can't be read.
pub(super) fn of_host() -> Option<HostCpu> {
    parse_stat(&read_to_string("/proc/stat").ok()?)
}

/// CPUs of the host that are online; `None` if they can't be read.
pub(super) fn cpus_of_host() -> Option<usize> {
    Some(count_cpus(&read_to_string("/proc/stat").ok()?)).filter(|cpus| *cpus > 0)
}

/// Each CPU has a line in `/proc/stat`, beside that of all.
fn count_cpus(text: &str) -> usize {
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    text.lines().filter(is_cpu).count()
}

/// The first line of `/proc/stat` (proc_stat(5)).
fn parse_stat(text: &str) -> Option<HostCpu> {
    let mut fields = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok().map(|ticks| ticks.saturating_mul(NS_PER_TICK));
    let (user, nice, system, _idle, _iowait) = (next()?, next()?, next()?, next()?, next()?);
    let (irq, softirq, steal) = (next()?, next()?, next().unwrap_or(0));
    let interrupts_ns = irq.saturating_add(softirq);
    let busy_ns = user.saturating_add(nice).saturating_add(system).saturating_add(interrupts_ns);
    Some(HostCpu { busy_ns, interrupts_ns, steal_ns: steal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_busy() {
        let found = parse_stat("cpu  10 2 30 4000 500 6 7 8 0 0\ncpu0 1 2 3\n").unwrap();
        let ms = |ns: u64| ns / 1_000_000;
        assert_eq!((ms(found.busy_ns), ms(found.interrupts_ns), ms(found.steal_ns)), (550, 130, 80));
        assert_eq!(count_cpus("cpu  1 2\ncpu0 1 2\ncpu1 0 0\nintr 5\n"), 2);
        assert_eq!(parse_stat("cpu0 1 2 3"), None);
        assert_eq!(parse_stat("cpu  1 2 3 4 x"), None);
        assert!(parse_stat("cpu  18446744073709551615 1 1 1 1 1 1").is_some());
    }

    #[test]
    fn this_process_takes_time() {
        let before = of_process();
        let sum: u64 = (0..1_000_000_u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && of_process() > before);
    }
}
