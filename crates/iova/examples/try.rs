use iova::*;
use std::time::Instant;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (threads, ops, held) = (a[0] as usize, a[1], a[2] as usize);
    let al = Percpu::new(&Space::new(1, (1 << 36) - 1), 1 << 20, Rseq::new().expect("rseq")).unwrap();
    let bar = std::sync::Barrier::new(threads + 1);
    let t = std::thread::scope(|s| {
        let hs: Vec<_> = (0..threads).map(|_| s.spawn(|| {
            let mut ring = vec![None; held];
            bar.wait();
            let mut k = 0;
            let req = Request::new(1, (1 << 36) - 1);
            for _ in 0..ops {
                if let Some(r) = ring[k] { al.free(r).unwrap(); }
                ring[k] = Some(al.allocate(&req).unwrap());
                k += 1; if k == held { k = 0; }
            }
        })).collect();
        bar.wait();
        let t = Instant::now();
        for h in hs { h.join().unwrap(); }
        t.elapsed()
    });
    let ru = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = ru.rsplit(')').next().unwrap().split_whitespace().collect();
    print!("utime {} ticks ", f[11]);
    println!("threads {threads} held {held}: {:.2} ns/pair {:.1} Mpairs/s {:?}", t.as_nanos() as f64 / ops as f64, (ops * threads as u64) as f64 / t.as_secs_f64() / 1e6, al.usage());
}
