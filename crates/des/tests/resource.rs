//! Resources and locks: who goes on, what is counted, what is refused.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::{Answer, Cpu, Grant, Lock, Misuse, Resource, Span, Time, TransferCost};
use proptest::prelude::*;

fn at(ps: u64) -> Time {
    Time::from_ps(ps)
}

#[test]
fn the_first_to_come_is_the_first_to_go() {
    let mut desk = Resource::fifo(2).unwrap();
    let answers = [1, 2, 3, 4].map(|who| desk.request(at(0), who).unwrap());
    assert_eq!(answers, [Answer::Goes, Answer::Goes, Answer::Waits, Answer::Waits]);
    assert_eq!((desk.busy(), desk.waiting()), (2, 2));
    let next = [10, 30, 40, 40].map(|ps| desk.release(at(ps)).unwrap());
    assert_eq!(next, [Some(3), Some(4), None, None]);

    let usage = desk.usage(at(100)).unwrap();
    assert_eq!((usage.arrivals, usage.completions, usage.queue_max), (4, 4, 2));
    assert_eq!((usage.busy_ps, usage.utilisation), (2 * 40, 0.4));
    assert_eq!((usage.queue_ps, usage.waited_ps, usage.queue_mean), (10 + 30, 10 + 30, 0.4));
    assert_eq!(
        (usage.waits_ps.count(), usage.waits_ps.mean(), usage.waits_ps.max()),
        (4, Some(10.0), Some(30.0))
    );
}

#[test]
fn a_lower_level_goes_first_without_preemption() {
    let mut desk = Resource::with_levels(1, 3).unwrap();
    for (level, who) in [(2, "served"), (2, "late"), (1, "soon"), (0, "now"), (1, "soon after")] {
        desk.request_at(at(0), level, who).unwrap();
    }
    let order: Vec<_> = std::iter::from_fn(|| desk.release(at(1)).unwrap()).collect();
    assert_eq!(order, ["now", "soon", "soon after", "late"]);
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    assert_eq!(Resource::<u8>::fifo(0).unwrap_err(), Misuse::Empty { servers: 0, levels: 1 });
    assert_eq!(Resource::<u8>::with_levels(1, 0).unwrap_err(), Misuse::Empty { servers: 1, levels: 0 });
    let mut desk = Resource::with_levels(1, 2).unwrap();
    assert_eq!(desk.release(at(5)), Err(Misuse::NobodyServed));
    assert_eq!(desk.request_at(at(5), 2, 'a'), Err(Misuse::NoSuchLevel { level: 2, levels: 2 }));
    desk.request(at(5), 'a').unwrap();
    desk.request(at(5), 'b').unwrap();
    let before = desk.usage(at(5));
    let back = Misuse::TimeWentBack { now: at(4), last: at(5) };
    assert_eq!(desk.request(at(4), 'c'), Err(back));
    assert_eq!(desk.release(at(4)), Err(back));
    assert_eq!(desk.usage(at(4)), Err(back));
    assert_eq!(desk.usage(at(5)), before);
    assert_eq!(desk.release(at(6)), Ok(Some('b')));
}

proptest! {
    /// Little's law: those who waited, counted at each moment, are those who waited, each counted for as long as they did.
    #[test]
    fn littles_law_holds_at_every_moment(
        servers in 1u64..5,
        steps in prop::collection::vec((0u64..1_000, prop::option::of(0usize..3)), 1..200),
    ) {
        let mut desk = Resource::with_levels(servers, 3).unwrap();
        let mut now = 0;
        for (later, level) in steps {
            now += later;
            match level {
                Some(level) => drop(desk.request_at(at(now), level, ()).unwrap()),
                None => {
                    let idle = desk.busy() == 0;
                    prop_assert_eq!(desk.release(at(now)).is_err(), idle);
                }
            }
            let usage = desk.usage(at(now + 7)).unwrap();
            prop_assert_eq!(usage.queue_ps, usage.waited_ps);
            prop_assert_eq!(usage.arrivals, usage.completions + desk.busy() + desk.waiting());
            prop_assert_eq!(usage.waits_ps.count(), usage.completions + desk.busy());
            prop_assert!(desk.waiting() == 0 || desk.busy() == servers);
            prop_assert!(usage.utilisation <= 1.0);
        }
    }
}

const COST: TransferCost =
    TransferCost { same_cpu: Span::from_ns(1), same_node: Span::from_ns(50), other_node: Span::from_ns(120) };

#[test]
fn a_lock_is_granted_in_order_and_its_line_travels() {
    let cpu = |number, node| Cpu { number, node };
    let mut lock = Lock::new(COST).unwrap();
    assert_eq!(lock.acquire(at(0), cpu(0, 0), 'a'), Ok(Some(COST.same_cpu)));
    for (place, who) in [(cpu(1, 0), 'b'), (cpu(2, 1), 'c'), (cpu(2, 1), 'd')] {
        assert_eq!(lock.acquire(at(10), place, who), Ok(None));
    }
    let granted = [20, 30, 40].map(|ps| lock.release(at(ps)).unwrap());
    let expected = [('b', COST.same_node), ('c', COST.other_node), ('d', COST.same_cpu)];
    assert_eq!(granted, expected.map(|(who, transfer)| Some(Grant { who, transfer })));
    assert_eq!(lock.release(at(50)), Ok(None));
    assert_eq!(lock.release(at(50)), Err(Misuse::NobodyServed));
    // The line is where the last owner was.
    assert_eq!(lock.acquire(at(60), cpu(0, 0), 'a'), Ok(Some(COST.other_node)));

    let total = Span::from_ns(1 + 50 + 120 + 1 + 120);
    let transfers = lock.transfers();
    assert_eq!((transfers.same_cpu, transfers.same_node, transfers.other_node), (2, 1, 2));
    assert_eq!(transfers.total, total);
    let usage = lock.usage(at(60)).unwrap();
    assert_eq!((usage.arrivals, usage.queue_max, usage.waited_ps, usage.busy_ps), (5, 3, 10 + 20 + 30, 50));
}
