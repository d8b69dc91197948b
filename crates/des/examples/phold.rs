//! quick
use des::*;
struct Instant(f64);
impl Instant {
    fn now() -> Self {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Self(t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9)
    }
    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs_f64(Self::now().0 - self.0)
    }
}

fn measure<Q: Queue<u32>>(pending: u32, events: u64) -> (f64, f64) {
    let mut s = Phold::new(pending.min(1024), 1).simulation::<Q>(pending);
    s.run_events((2 * u64::from(pending)).max(events / 4));
    let t = Instant::now();
    s.run_events(events);
    (events as f64 / t.elapsed().as_secs_f64() / 1e6, s.calendar.bytes() as f64 / pending as f64)
}
fn bare(pending: u32, events: u64) -> f64 {
    let mut m = Phold::new(pending.min(1024), 1);
    let t = Instant::now();
    let mut at = 0;
    let mut sum = 0;
    for _ in 0..events {
        let (d, to) = m.receive(at).unwrap();
        sum ^= d.as_ps();
        at = to;
    }
    std::hint::black_box(sum);
    events as f64 / t.elapsed().as_secs_f64() / 1e6
}
fn main() {
    for n in std::env::args().skip(1).map(|a| a.parse::<u32>().unwrap()) {
        let events = 4_000_000;
        for _ in 0..3 {
            let (w, wb) = measure::<Wheel<u32>>(n, events);
            let (h, hb) =
                if std::env::var("H").is_ok() { measure::<Heap<u32>>(n, events / 4) } else { (1.0, 1.0) };
            println!(
                "{n:8} wheel {w:6.1} M/s {wb:6.1} B  heap {h:6.1} M/s {hb:6.1} B  x{:.1}  bare {:6.1}",
                w / h,
                bare(n, events)
            );
        }
    }
}
